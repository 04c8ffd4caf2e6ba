#include "act/carry/task_command.h"

#include <fmt/format.h>

#include <map>
#include <string_view>
#include <vector>

#include "base/nearest.h"
#include "base/shell_word.h"

namespace partita::carry {
namespace {

using Values = std::map<std::string, std::string>;

Values values_of(const exec::Script& script, const exec::ScriptTask& task) {
  const exec::Visit& visit = script.visits[static_cast<std::size_t>(task.visit)];
  const exec::ScriptGpu& gpu = script.gpus[static_cast<std::size_t>(visit.gpu)];
  const exec::Nanos planned = task.planned.end - task.planned.begin;
  return {{"task", quoted_for_shell(task.name)},
          {"profile", quoted_for_shell(visit.place.profile)},
          {"gpu", fmt::format("{}", gpu.device)},
          {"start", fmt::format("{}", visit.place.start)},
          {"seconds", fmt::format("{:.9f}", static_cast<double>(planned) / exec::kSecond)},
          {"command", task.command}};
}

Error unknown(const std::string& name, const Values& values) {
  std::vector<std::string> names;
  for (const auto& [known, value] : values) names.push_back(known);
  return {ErrorCode::bad_input,
          fmt::format("unknown placeholder '{{{}}}'{}; write '{{{{' for a brace", name,
                      did_you_mean(name, names)),
          "--command"};
}

Result<std::string> filled(std::string_view text, const Values& values) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const std::string_view rest = text.substr(at);
    const std::size_t close = rest.find('}');
    if (rest.starts_with("{{") || rest.starts_with("}}")) {
      result += c;
      ++at;
    } else if (rest.starts_with("${") && close != std::string_view::npos) {
      result += rest.substr(0, close + 1);
      at += close;
    } else if (c == '{') {
      if (close == std::string_view::npos)
        return bad_input("--command", "'{' without '}'; write '{{' for a brace");
      const std::string name(rest.substr(1, close - 1));
      const auto value = values.find(name);
      if (value == values.end()) return failed(unknown(name, values));
      result += value->second;
      at += close;
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

Result<void> give_commands(exec::Script& script, const std::string& command_template) {
  const bool own =
      command_template.empty() || command_template.find("{command}") != std::string::npos;
  for (exec::ScriptTask& task : script.tasks) {
    if (own && task.command.empty()) {
      return bad_input("task " + task.name,
                       "has no command in the batch; --command says what to run for all tasks");
    }
    if (command_template.empty()) continue;
    task.command = TRY(filled(command_template, values_of(script, task)));
  }
  return {};
}

}  // namespace partita::carry
