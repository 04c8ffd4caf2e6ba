// Commands that are one operation of the agent's API, made from the table of operations.
#include <fmt/format.h>

#include <memory>

#include "base/parse_number.h"
#include "flags.h"
#include "server/remote.h"

namespace partita::cli {
namespace {

struct OperationFlags {
  std::string part, why;
  Output output;
};

// What people see of the document that answers.
Result<std::string> text_of(const api::Operation& operation, const std::string& answer) {
  if (operation.answer == "AgentBatches") return batches_answer_text(answer);
  if (operation.answer == "AgentBatch") return batch_answer_text(answer);
  return answer;
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

}  // namespace

const api::Operation* operation_of(std::string_view words) {
  for (const api::Operation& one : api::operations())
    if (!words.empty() && one.command.words == words) return &one;
  return nullptr;
}

Result<Exit> remote_operation(const Remote& remote, const api::Operation& operation) {
  const auto part = TRY(part_of(remote, operation));
  const std::string body = operation.request == "Why" ? why_json(remote.said.text("--why")) : "";
  if (operation.answer == "Receipt") return remote.ask(operation.name, part, body);
  const auto answer = TRY(remote.call(operation.name, part, body));
  const auto text = text_of(operation, answer);
  return text ? remote.show(answer, *text) : failed(text.error());
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

}  // namespace partita::cli
