#include <fmt/format.h>

#include <algorithm>

#include "api/documents.h"
#include "base/document.h"
#include "base/fields.h"
#include "base/form.h"
#include "base/input.h"
#include "device/node_forms.h"
#include "forms/reason_forms.h"
#include "forms/serving_forms.h"
#include "server/remote.h"

namespace partita::cli {

// What somebody named and is not there is his mistake.
Result<std::string> Remote::call(std::string_view operation, const std::string& part,
                                 const std::string& body) const {
  auto answer = client.call(operation, part, body);
  if (answer || part.empty() || answer.error().code != ErrorCode::not_found) return answer;
  return bad_input(answer.error().context, answer.error().message);
}

Result<Exit> Remote::ask(std::string_view operation, const std::string& part,
                         const std::string& body) const {
  const auto answer = TRY(call(operation, part, body));
  const auto receipt = TRY(api::parse_receipt("the server's answer", answer));
  const std::string change =
      receipt.change > 0 && receipt.sentence.find("change ") == std::string::npos
          ? fmt::format(" (change {})", receipt.change)
          : std::string();
  return show(answer, receipt.sentence + change + "\n");
}

namespace {

// A document AgentChange in a few lines.
Result<std::string> change_text_of(const Context& context, const std::string& text) {
  const auto document = TRY(parse_document("the server's answer", text));
  Fields fields(document);
  std::string out = fmt::format("change {}: {}\n{}\n", fields.whole("number", {}),
                                fields.text("state"), fields.note("cause"));
  if (const std::string error = fields.note("error"); !error.empty()) out += error + "\n";
  for (const std::string& line : fields.texts("explanation")) out += line + "\n";
  if (fields.error()) return failed(*fields.error());
  if (const Node* plan = document.root.find("plan")) {
    const auto read = forms::read_plan({document.file, *plan});
    if (read)
      out += "\n" + forms::plan_text(*read, hw::builtin_catalogue(),
                                     {.colour = context.colour, .width = context.width});
  }
  return out;
}

}  // namespace

Result<Exit> remote_preview(const Remote& remote, const std::string& text) {
  const auto answer = TRY(remote.client.call("preview", "", text));
  const auto shown = TRY(change_text_of(remote.context, answer));
  return remote.show(answer, shown);
}

bool is_document(const std::string& file, std::string_view text, std::string_view kind) {
  const auto document = parse_document(file, text);
  const Node* said = document ? document->root.find("kind") : nullptr;
  return said != nullptr && said->text == kind;
}

// Services, or a plan for the services that are wanted there.
Result<Exit> remote_apply(const Remote& remote) {
  if (remote.said.given("--rollback")) {
    if (remote.said.given("--dry-run"))
      return bad_input("--dry-run", "an agent cannot show a rollback before it is done");
    return remote.ask("rollback");
  }
  std::vector<std::string> files = remote.said.positionals();
  if (files.empty()) files.push_back(remote.said.text("--services"));
  if (files.front().empty())
    return bad_input("PLAN",
                     "an agent is given a services file or a plan: partita --server URL "
                     "apply FILE");
  const auto text = TRY(read_input(remote.context.files, "PLAN", files.front()));
  if (remote.said.given("--dry-run")) return remote_preview(remote, text);
  const bool plan = is_document(files.front(), text, "ServingPlan");
  if (const auto document = parse_document(files.front(), text); document && !plan) {
    const Node* kind = document->root.find("kind");
    if (kind != nullptr && kind->text != "Services")
      return bad_input(
          files.front(),
          fmt::format("this is a {}; an agent takes a services file or a ServingPlan", kind->text));
  }
  return remote.ask(plan ? "set_plan" : "set_services", "", text);
}

// By the judge of the server, against the services that are wanted there.
Result<Exit> remote_verify(const Remote& remote) {
  for (const char* flag : {"--services", "--profiles", "--fleet"})
    if (remote.said.given(flag))
      return bad_input(flag,
                       "not with --server: the agent judges by its own services and profiles");
  const std::vector<std::string> files = remote.said.positionals();
  if (files.empty()) return bad_input("PLAN", "name the plan to judge");
  const auto text = TRY(read_input(remote.context.files, "PLAN", files.front()));
  if (!is_document(files.front(), text, "ServingPlan"))
    return bad_input(files.front(), "a document ServingPlan is wanted");
  const auto answer = remote.client.call("preview", "", text);
  if (answer) return remote.show(forms::verdict_json({}), "ok: the server's judge lets it pass\n");
  if (answer.error().code != ErrorCode::infeasible) return failed(answer.error());
  const plan::Reason reason{"server", "plan", 0, 0, answer.error().message};
  const auto shown = remote.show(forms::verdict_json({reason}), answer.error().message + "\n");
  return shown ? Result<Exit>(Exit::no) : shown;
}

namespace {

// The UUID of a GPU of the server's node, named by UUID or index.
Result<std::string> gpu_of(const Remote& remote, const char* flag, const std::string& word) {
  const auto answer = TRY(remote.client.call("node"));
  const auto node = TRY(device::parse_state("the server's answer", answer));
  const auto gpu = std::ranges::find_if(node.state.gpus, [&](const device::GpuState& one) {
    return word == one.uuid || word == std::to_string(one.index);
  });
  if (gpu != node.state.gpus.end()) return gpu->uuid;
  return bad_input(flag, fmt::format("the server's node has no GPU '{}'; an agent takes out whole "
                                     "GPUs, by UUID or index",
                                     word));
}

}  // namespace

std::string why_json(const std::string& why) {
  return why.empty() ? std::string() : line_form([&](Form& f) { f.told("why", why); });
}

// The one thing that the agent is told.
Result<Exit> remote_told(const Remote& remote) {
  const Said& said = remote.said;
  std::vector<const char*> given;
  for (const char* flag : {"--approve", "--reject", "--replan-now", "--set-mode", "--give-back"})
    if (said.given(flag)) given.push_back(flag);
  if (given.size() != 1) return bad_input("agent", "one thing at a time is told to an agent");
  const std::string_view flag = given.front();
  if (said.given("--why") && flag != "--reject" && flag != "--approve")
    return bad_input("--why", "goes with --approve and --reject");
  if (flag == "--approve")
    return remote.ask("approve", said.text("--approve"), why_json(said.text("--why")));
  if (flag == "--reject")
    return remote.ask("reject", said.text("--reject"), why_json(said.text("--why")));
  if (flag == "--replan-now") return remote.ask("replan");
  if (flag == "--set-mode")
    return remote.ask("set_mode", "", fmt::format(R"({{"mode": "{}"}})", said.text("--set-mode")));
  const auto uuid = gpu_of(remote, "--give-back", said.text("--give-back"));
  return uuid ? remote.ask("give_back", *uuid) : failed(uuid.error());
}

// GPUs by UUID or index; single MIG devices are the agent's own business.
Result<Exit> remote_drain(const Remote& remote) {
  const std::vector<std::string> words = remote.said.positionals();
  if (words.empty()) return bad_input("DEVICE", "name the GPUs to take out");
  std::vector<std::string> uuids;
  for (const std::string& word : words) {
    const auto uuid = TRY(gpu_of(remote, "DEVICE", word));
    uuids.push_back(uuid);
  }
  for (const std::string& uuid : uuids)
    TRY(remote.ask("take_out", uuid, why_json("partita drain")));
  return Exit::done;
}

}  // namespace partita::cli
