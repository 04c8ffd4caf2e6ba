#include "server/server.h"

#include "act/node_picture.h"
#include "api/client.h"
#include "api/documents.h"
#include "base/fields.h"
#include "base/secret_file.h"
#include "command.h"
#include "control/batch_list.h"
#include "control/snapshot.h"
#include "decide/serving_report.h"
#include "device/node_forms.h"
#include "energy/top_picture.h"
#include "forms/reason_forms.h"
#include "forms/serving_forms.h"
#include "node/local_verdicts.h"
#include "past/past.h"
#include "screen.h"
#include "verbs.h"

namespace partita::cli {
namespace {

// Commands as clients of an agent's API: what they share, and what each does there.
// What a command was told, by the names of its flags: its own variables are its own business.
class Said {
 public:
  explicit Said(const CLI::App& command) : command_(command) {}
  std::string text(const std::string& flag) const {
    return given(flag) ? command_.get_option(flag)->results().front() : std::string();
  }
  bool given(const std::string& flag) const {
    const CLI::Option* option = command_.get_option_no_throw(flag);
    return option != nullptr && option->count() > 0;
  }
  // On the command line itself: what a setting says for all commands stands in nobody's way.
  bool typed(const std::string& flag) const {
    const CLI::Option* option = command_.get_option_no_throw(flag);
    return option != nullptr && std::ranges::count(command_.parse_order(), option) > 0;
  }
  // Refuses what would be said in vain.
  Result<void> without(std::initializer_list<const char*> flags, const std::string& why) const {
    for (const char* flag : flags)
      if (typed(flag)) return bad_input(flag, "not with --server: " + why);
    return {};
  }
  std::vector<std::string> positionals() const {
    std::vector<std::string> all;
    for (const CLI::Option* option : command_.get_options())
      if (option->get_positional())
        for (const std::string& one : option->results()) all.push_back(one);
    return all;
  }
  Output output() const {
    Output output;
    output.file = text("--output") == "-" ? "" : text("--output");
    if (given("--format")) output.format = text("--format");
    return output;
  }

 private:
  const CLI::App& command_;
};

// One command on its way to a server.
struct Remote {
  Context& context;
  const api::Client& client;
  Said said;

  Result<Exit> show(const std::string& document, const std::string& text) const {
    const Output output = said.output();
    return finish(context, output, output.json() ? document : text);
  }
  // The picture of every state, until a signal, or so many (0: no end): on a terminal in place,
  // else one after another. Without a picture for a state nothing is drawn.
  using Picture = std::function<Result<std::string>(const control::Snapshot& state, int height)>;
  Result<Exit> watch(const Picture& picture, long most) const;
  // The answer to an operation of something that was named: not_found is bad_input here.
  Result<std::string> call(std::string_view operation, const std::string& part,
                           const std::string& body) const;
  // What the server says it will do.
  Result<Exit> ask(std::string_view operation, const std::string& part = {},
                   const std::string& body = {}) const;
};

std::string time_or_nothing(std::int64_t ms) { return ms > 0 ? local_time(ms) : ""; }

std::string tasks_table(const std::vector<control::BatchTask>& tasks) {
  Table table = headed("BATCH|TASK|STATE|GPU|INSTANCE|BEGIN|END|");
  for (const control::BatchTask& one : tasks)
    table.add("{}|{}|{}|{}|{}|{}|{}|{}", one.batch, one.name, control::to_string(one.state),
              one.gpu_uuid, one.profile.empty() ? "" : fmt::format("{}@{}", one.profile, one.start),
              time_or_nothing(one.begin_ms), time_or_nothing(one.end_ms), one.reason);
  return table.rows.empty() ? std::string() : to_string(table);
}

std::string end_of(const control::BatchInfo& one) {
  if (one.ended_ms > 0) return local_time(one.ended_ms);
  return one.ends_ms ? "about " + local_time(*one.ends_ms) : "";
}

std::string batches_table(const std::vector<control::BatchInfo>& batches) {
  Table table = headed("BATCH|STATE|BY|HANDED IN|END|WAIT|RUN|DONE|FAILED OR SKIPPED|CANCELLED|");
  for (const control::BatchInfo& one : batches)
    table.add("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", one.number, control::to_string(one.state),
              one.user, local_time(one.received_ms), end_of(one), one.waiting, one.running,
              one.done, one.failed, one.cancelled,
              one.cancelled_by.empty() ? "" : "cancelled by " + one.cancelled_by);
  return to_string(table);
}

// The tasks of batches that are not over; the rest in numbers.
std::string batch_text(const control::BatchNow& batch) {
  if (batch.waiting + batch.running + batch.done + batch.failed + batch.cancelled == 0) return {};
  std::string text =
      fmt::format("batches: {} tasks wait, {} run, {} are done, {} failed or were skipped",
                  batch.waiting, batch.running, batch.done, batch.failed);
  if (batch.cancelled > 0) text += fmt::format(", {} were cancelled", batch.cancelled);
  return text + "\n" + tasks_table(batch.tasks);
}

// A batch beside the agent's services. How it is carried out is the agent's policy.
Result<Exit> remote_batch_run(const Remote& remote) {
  if (!remote.said.positionals().empty())
    return bad_input("SCHEDULE", "an agent schedules tasks itself: hand in --tasks FILE alone");
  TRY(remote.said.without(
      {"--scheduler", "--seed", "--budget", "--gpu-index", "--command", "--retries", "--timeout",
       "--grace", "--patience", "--keep", "--rehearse", "--resume", "--state-dir", "--log-dir"},
      "policy.batch of the agent's settings says how batches are carried out, and each task has "
      "its own command"));
  const std::string file = remote.said.text("--tasks");
  if (file.empty()) return bad_input("--tasks", "is required: a tasks file");
  const auto text = TRY(read_input(remote.context.files, "--tasks", file));
  return remote.ask("submit_tasks", "", text);
}

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
  TRY(remote.said.without(
      {"--again", "--why", "--hooks", "--profiles", "--no-reset", "--keep-foreign",
       "--min-available", "--drain-timeout", "--ready-timeout"},
      "the agent's settings say how changes are made, and its history who asked for them"));
  if (remote.said.given("--rollback")) {
    if (!remote.said.positionals().empty())
      return bad_input("--rollback", "goes back to what was before: no PLAN");
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
  TRY(remote.said.without({"--services", "--profiles", "--fleet"},
                          "the agent judges by its own services and profiles"));
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

std::string why_json(const std::string& why) {
  return why.empty() ? std::string() : line_form([&](Form& f) { f.told("why", why); });
}

// What an agent is told; the first is no thing by itself.
constexpr const char* kTold[] = {"--why",        "--approve",  "--reject",
                                 "--replan-now", "--set-mode", "--give-back"};

// The one thing that the agent is told.
Result<Exit> remote_told(const Remote& remote) {
  const Said& said = remote.said;
  std::vector<const char*> given;
  for (const char* flag : kTold)
    if (flag != kTold[0] && said.given(flag)) given.push_back(flag);
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
  const auto uuid = TRY(gpu_of(remote, "--give-back", said.text("--give-back")));
  return remote.ask("give_back", uuid);
}

// GPUs by UUID or index; single MIG devices are the agent's own business.
Result<Exit> remote_drain(const Remote& remote) {
  const std::vector<std::string> words = remote.said.positionals();
  if (words.empty()) return bad_input("DEVICE", "name the GPUs to take out");
  TRY(remote.said.without({"--wait", "--hooks"},
                          "the agent makes the change when it can; `status` says what runs there"));
  const std::string why = remote.said.text("--why");
  std::vector<std::string> uuids;
  for (const std::string& word : words) uuids.push_back(TRY(gpu_of(remote, "DEVICE", word)));
  for (const std::string& uuid : uuids)
    TRY(remote.ask("take_out", uuid, why_json(why.empty() ? "partita drain" : why)));
  return Exit::done;
}

device::Occupants occupants_of(const control::Snapshot& state) {
  device::Occupants occupants;
  for (const actuate::AssignedSegment& one : state.assignment.segments)
    occupants[one.device] = {one.service, one.batch, one.processes};
  return occupants;
}

// A line that says that what follows is not as it is now; empty where it is.
std::string age_text(const control::Snapshot& state) {
  if (state.node_fault.empty()) return {};
  return fmt::format("what follows of the node is of {}: {}\n",
                     state.node_read_ms > 0 ? control::utc_text(state.node_read_ms) : "never",
                     state.node_fault);
}

std::vector<control::ServiceVerdict> verdicts_of(const control::Snapshot& state) {
  std::vector<control::ServiceVerdict> verdicts;
  for (const control::ServiceNow& one : state.services) verdicts.push_back(one.is);
  return verdicts;
}

// What runs where on a large node: its state has it apart, and it is asked for when it is another.
class NodeParts {
 public:
  explicit NodeParts(const Remote& remote) : remote_(remote) {}
  Result<control::Snapshot> completed(Result<control::Snapshot> state) {
    if (!state || state->left_out.empty()) return state;
    if (!node_ || version_ != state->node_version) {
      const auto answer = TRY(remote_.client.call("node"));
      node_ = TRY(device::parse_state("the server's answer", answer));
      version_ = state->node_version;
    }
    control::complete(*state, node_->state, node_->occupants);
    return state;
  }

 private:
  const Remote& remote_;
  std::optional<device::StateDocument> node_;
  long version_ = 0;
};

// Of the agent's snapshot.
std::string status_of(const Remote& remote, const control::Snapshot& now) {
  const Output output = remote.said.output();
  const device::NodeState& state = now.state;
  const device::Occupants occupants = occupants_of(now);
  if (output.json())
    return device::state_json(state, occupants, {}, [&](Form& f) {
      auto verdicts = verdicts_of(now);
      control::tell_age(f, now.node_read_ms, now.node_fault);
      control::describe_verdicts(f, verdicts);
    });
  if (output.svg()) return actuate::node_svg(state, occupants, hw::builtin_catalogue());
  return age_text(now) +
         device::state_text(state, occupants, hw::builtin_catalogue(),
                            {.colour = remote.context.colour && output.file.empty(),
                             .width = remote.context.width}) +
         verdicts_text(verdicts_of(now), remote.context.width);
}

std::string number_or_dash(const std::optional<double>& value) {
  return value ? number_text(*value) : std::string("-");
}

std::string services_table(const control::Snapshot& state) {
  if (state.services.empty()) return {};
  Table table = headed(
      "SERVICE|RATE /s|FORECAST|PLANNED /s|CAN CARRY /s|SLO ms|P99 ms|IN SLO|READY|VERDICT|");
  for (const control::ServiceNow& one : state.services)
    table.rows.push_back({one.name, number_or_dash(one.rate_rps), number_or_dash(one.forecast_rps),
                          number_text(one.planned_rps), number_text(one.is.can_carry_rps),
                          number_text(one.slo.value), number_or_dash(one.p99_ms),
                          one.attainment ? decide::percent(*one.attainment) : std::string("-"),
                          fmt::format("{}", one.ready_workers), control::to_string(one.is.verdict),
                          one.is.why});
  std::string colds;
  for (const control::ServiceNow& one : state.services)
    if (one.is.cold) colds += one.name + ": " + actuate::to_string(*one.is.cold) + "\n";
  std::vector<TokenRow> models;
  for (const control::ServiceNow& one : state.services)
    if (one.token_traffic) models.push_back({one.name, *one.token_traffic});
  return to_string(table) + colds + tokens_table(models);
}

Result<Exit> Remote::watch(const Picture& picture, long most) const {
  StopRequest stop;
  const Output output = said.output();
  std::optional<Screen> screen;
  if (output.file.empty() && output.format == "text" && is_terminal(context))
    screen.emplace(context.out);
  long drawn = 0;
  std::optional<Error> fault;
  NodeParts parts(*this);
  const auto take = [&](const api::StreamEvent& event) {
    if (event.name != "state") return true;
    const auto state = parts.completed(control::parse_snapshot("the server's answer", event.data));
    const auto frame =
        state ? picture(*state, screen ? screen->height() : 0) : failed(state.error());
    if (!frame)
      fault = frame.error();
    else if (screen)
      screen->draw(*frame);
    else if (auto written = deliver(context, output, *frame); !written)
      fault = written.error();
    return !fault && ++drawn != most;
  };
  const auto done =
      client.follow({.take = take,
                     .stopped = [&](std::int64_t ns) { return stop.within(ns); },
                     .lost =
                         [&](const Error& why, std::int64_t wait_ns) {
                           if (!screen)
                             complain(context, fmt::format("{}; again in {:.0f} s", to_string(why),
                                                           static_cast<double>(wait_ns) * 1e-9));
                         }});
  if (fault) return failed(*fault);
  if (!done) return failed(done.error());
  return Exit::done;
}

// What is there.
Result<Exit> remote_status(const Remote& remote) {
  if (remote.said.given("--watch"))
    return remote.watch(
        [&](const control::Snapshot& state, int height) -> Result<std::string> {
          return first_lines(status_of(remote, state), height);
        },
        parse_number<long>(remote.said.text("--count")).value_or(0));
  const bool whole = remote.said.output().format == "json";
  const auto answer = TRY(remote.client.call(whole ? "node" : "state"));
  std::string shown = answer;
  if (!whole) {
    const auto state =
        TRY(NodeParts(remote).completed(control::parse_snapshot("the server's answer", answer)));
    shown = status_of(remote, state);
  }
  return finish(remote.context, remote.said.output(), shown);
}

// The agent's own picture of its node; on no terminal one of them, as at the node.
Result<Exit> remote_top(const Remote& remote) {
  TopPicture picture(remote.context);
  const long most =
      parse_number<long>(remote.said.text("--count")).value_or(is_terminal(remote.context) ? 0 : 1);
  return remote.watch(
      [&](const control::Snapshot& state, int height) -> Result<std::string> {
        telemetry::Sample sample{Seconds{static_cast<double>(state.time_ms) * 1e-3}, {}};
        for (const control::GpuNow& gpu : state.gpus)
          if (gpu.sample) sample.gpus.push_back(*gpu.sample);
        picture.know_node(state.state,
                          fmt::format("; {}: {}", control::to_string(state.mode), state.doing));
        picture.know_host(state.host ? host_line(*state.host) : "");
        std::string faults = age_text(state);
        for (const control::GpuNow& gpu : state.gpus)
          if (gpu.out) faults += fmt::format("gpu {} is out: {}\n", gpu.index, gpu.why);
        picture.know_faults(faults);
        picture.add(sample, occupants_of(state));
        picture.know_services(services_table(state));
        return picture.frame(height);
      },
      most);
}

// The plan in force, or what would be planned for other services.
Result<Exit> remote_plan(const Remote& remote) {
  if (const std::string file = remote.said.text("--services"); !file.empty()) {
    const auto services = TRY(read_input(remote.context.files, "--services", file));
    return remote_preview(remote, services);
  }
  const auto answer = TRY(remote.client.call("plan"));
  const auto plan = TRY(forms::parse_plan("the server's answer", answer));
  return remote.show(answer, forms::plan_text(plan, hw::builtin_catalogue(),
                                              {.colour = remote.context.colour,
                                               .explain = remote.said.given("--explain"),
                                               .width = remote.context.width}));
}

Result<Exit> remote_agent(const Remote& remote) {
  for (const char* flag : kTold)
    if (remote.said.given(flag)) return remote_told(remote);
  const auto answer = TRY(remote.client.call("state"));
  const auto state = TRY(control::parse_snapshot("the server's answer", answer));
  std::string text = fmt::format("{} ({}), {}: {}\n", state.node, local_time(state.time_ms),
                                 control::to_string(state.mode), state.doing);
  text += age_text(state);
  if (state.current)
    text += fmt::format("change {} is {}: {}\n", state.current->number,
                        control::to_string(state.current->state), state.current->cause);
  text += services_table(state) + batch_text(state.batch);
  for (const std::string& notice : state.notices) text += notice + "\n";
  return remote.show(answer, text);
}

// Commands that are one operation of the agent's API, made from the table of operations.

struct OperationFlags {
  std::string part, why;
  Output output;
};

// What people see of the document that answers.
Result<std::string> text_of(const api::Operation& operation, const std::string& answer) {
  if (operation.answer == "AgentBatches") {
    const auto batches = TRY(control::parse_batches("the server's answer", answer));
    return batches.empty() ? "no batch has been handed in\n" : batches_table(batches);
  }
  if (operation.answer != "AgentBatch") return answer;
  const auto batch = TRY(control::parse_batch("the server's answer", answer));
  return batches_table({batch}) + "\n" + tasks_table(batch.tasks);
}

Result<std::string> part_of(const Remote& remote, const api::Operation& operation) {
  const api::Field* field = operation.path_field();
  if (field == nullptr) return std::string();
  const std::string name(operation.command.positional);
  const std::vector<std::string> words = remote.said.positionals();
  if (words.empty()) return bad_input(name, "is required");
  if (field->kind != api::Field::Kind::whole) return words.front();
  const auto number = parse_number<long>(words.front());
  if (number && *number >= field->least) return std::to_string(*number);
  return bad_input(name, fmt::format("'{}' is not a number; it {}", words.front(), field->about));
}

// One operation of the table as it is.
Result<Exit> remote_operation(const Remote& remote, const api::Operation& operation) {
  const auto part = TRY(part_of(remote, operation));
  const std::string body = operation.request == "Why" ? why_json(remote.said.text("--why")) : "";
  if (operation.answer == "Receipt") return remote.ask(operation.name, part, body);
  const auto answer = TRY(remote.call(operation.name, part, body));
  const auto text = TRY(text_of(operation, answer));
  return remote.show(answer, text);
}

struct ServerFlags {
  std::string url, token_file, ca_file, certificate, key;
};

// What was called of a group of commands: "batch run".
struct Called {
  const CLI::App* command = nullptr;
  std::string name;
};
Called called(const CLI::App& command) {
  Called found{&command, command.get_name()};
  for (auto parts = command.get_subcommands(); !parts.empty();
       parts = found.command->get_subcommands()) {
    found.command = parts.front();
    found.name += " " + found.command->get_name();
  }
  return found;
}

struct RemoteCommand {
  std::string_view name;
  Result<Exit> (*run)(const Remote&);
};
constexpr RemoteCommand kRemote[] = {
    {"status", remote_status}, {"top", remote_top},         {"plan", remote_plan},
    {"verify", remote_verify}, {"apply", remote_apply},     {"drain", remote_drain},
    {"agent", remote_agent},   {"batch run", remote_batch_run}};

// What an agent is told by the command that shows it.
struct AgentTold {
  std::string approve, reject, why, mode, give_back;
  bool replan = false;
};

void add_agent_told(CLI::App& agent) {
  auto told = std::make_shared<AgentTold>();
  takes(agent, "--approve", told->approve, "--reject", told->reject, "--why", told->why,
        "--replan-now", told->replan, "--set-mode",
        word_from(told->mode, {"automatic", "approve", "observe"}), "--give-back", told->give_back);
  agent.footer(agent.get_footer() +
               "\npartita --server unix:/run/partita/api.sock agent --approve 7");
  agent.callback([told] {});  // keeps them
}

Result<std::string> token_of(Context& context, const ServerFlags& flags) {
  if (flags.token_file.empty()) return environment_variable("PARTITA_TOKEN");
  TRY(check_secret_file(flags.token_file));
  const auto text = TRY(context.files.read(flags.token_file));
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return bad_input(flags.token_file, "there is no token in it");
  return text.substr(0, end + 1);
}

Result<Exit> run_remotely(Context& context, const ServerFlags& flags, const Command& command) {
  const auto& [called_command, name] = called(*command.app);
  const auto* const found = std::ranges::find(kRemote, name, &RemoteCommand::name);
  const api::Operation* alone = operation_of(name);
  if (found == std::end(kRemote) && alone == nullptr && !command.remote) {
    std::vector<std::string> names;
    for (const RemoteCommand& one : kRemote) names.push_back(said_now(one.name));
    for (const char* one : {"history", "explain", "diff", "lease", "return", "leases", "queue"})
      names.push_back(said_now(one));
    for (const api::Operation& one : api::operations())
      if (!one.command.words.empty()) names.push_back(said_now(one.command.words));
    return bad_input("--server", fmt::format("'{}' is done on this machine; with a server go {}",
                                             said_now(name), joined(names, ", ")));
  }
  const auto place = TRY(api::parse_server_place("--server", flags.url));
  const auto token = TRY(token_of(context, flags));
  const auto client = TRY(api::Client::to(place,
                                          {.token = token,
                                           .ca_file = flags.ca_file,
                                           .certificate = flags.certificate,
                                           .key = flags.key},
                                          context.clock));
  if (command.remote) return command.remote(context, client);
  const Remote remote{context, client, Said(*called_command)};
  return alone != nullptr ? remote_operation(remote, *alone) : found->run(remote);
}

}  // namespace

const api::Operation* operation_of(std::string_view words) {
  for (const api::Operation& one : api::operations())
    if (!words.empty() && one.command.words == words) return &one;
  return nullptr;
}

Command add_operation(CLI::App& parent, const api::Operation& operation) {
  const std::string words(operation.command.words);
  CLI::App* command =
      parent.add_subcommand(words.substr(words.rfind(' ') + 1), std::string(operation.about));
  auto flags = std::make_shared<OperationFlags>();
  if (const api::Field* field = operation.path_field())
    command
        ->add_option(std::string(operation.command.positional), flags->part,
                     std::string(field->about))
        ->required();
  if (operation.request == "Why") flag(*command, "--why", flags->why);
  add_output(*command, flags->output, {"text", "json"});
  const std::string line =
      fmt::format("partita --server unix:/run/partita/api.sock {}", operation.command.example);
  command->footer(line);
  return {command, [flags, line](Context&) -> Result<Exit> {
            return bad_input("--server", "a running agent does this: " + line);
          }};
}

std::vector<Command> add_operations(CLI::App& parent, std::string_view group) {
  std::vector<Command> commands;
  for (const api::Operation& one : api::operations())
    if (const auto space = one.command.words.find(' ');
        space != std::string_view::npos && one.command.words.substr(0, space) == group)
      commands.push_back(add_operation(parent, one));
  return commands;
}

std::vector<Command> with_server(CLI::App& app, std::vector<Command> commands) {
  auto flags = std::make_shared<ServerFlags>();
  const CLI::Option* server = flag(app, "--server", flags->url);
  takes(app, "--token-file", flags->token_file, "--server-ca", flags->ca_file,
        "--client-certificate", flags->certificate, "--client-key", flags->key);
  for (Command& command : commands) {
    // What a command needs here, the agent knows there.
    if (std::ranges::count(kRemote, command.app->get_name(), &RemoteCommand::name) > 0)
      command.app->preparse_callback([server, own = command.app](std::size_t) {
        if (server->count() == 0) return;
        for (CLI::Option* option : own->get_options()) option->required(false);
      });
    if (command.app->get_name() == "agent") add_agent_told(*command.app);
    command.run = [flags, own = command](Context& context) -> Result<Exit> {
      if (!flags->url.empty()) return run_remotely(context, *flags, own);
      for (const char* flag : kTold)
        if (own.app->get_name() == "agent" && own.app->count(flag) > 0)
          return bad_input(flag, "a running agent is told so with --server URL");
      return own.run(context);
    };
  }
  return commands;
}

}  // namespace partita::cli
