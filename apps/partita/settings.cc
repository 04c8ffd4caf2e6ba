#include "settings.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>

#include "base/append.h"
#include "base/document.h"
#include "base/nearest.h"
#include "base/split.h"
#include "elsewhere.h"
#include "places.h"
#include "verbs.h"

namespace partita::cli {
namespace {

// What Partita says to what it starts, and what its libraries hear.
constexpr std::array kTaken = {"PARTITA_ATTEMPT",      "PARTITA_CHANGE",
                               "PARTITA_PHASE",        "PARTITA_CONFIG",
                               "PARTITA_LIBRARY",      "PARTITA_ONNXRUNTIME",
                               "PARTITA_PROFILE",      "PARTITA_REMOTE",
                               "PARTITA_REMOTE_CHECK", "PARTITA_REMOTE_FAULTS",
                               "PARTITA_REMOTE_SHAPE", "PARTITA_REMOTE_STATS",
                               "PARTITA_REMOTE_TOKEN", "PARTITA_REMOTE_TIMEOUT_MS",
                               "PARTITA_ROUNDS",       "PARTITA_RUN",
                               "PARTITA_SIM",          "PARTITA_TASK",
                               "PARTITA_WORKER"};

// Flags that only the command line says. A command may have a --config of its own.
bool spoken(const CLI::Option& option, const std::string& name) {
  return name == "help" || name == "version" ||
         (name == "config" && option.get_group() == kEverywhere);
}

std::string in_capitals(const std::string& words) {
  std::string name;
  for (const char c : words)
    name += c == '-' || c == ' ' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  return name;
}

// The flags of a command that settings may say, by their long names, sorted.
std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames())
      if (!spoken(*option, name)) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

// The same with those of a verb's forms.
std::vector<std::string> flags_with_forms(const CLI::App& command) {
  std::vector<std::string> names = flags_of(command);
  for (const FormOf& one : forms_of(command))
    for (std::string& name : flags_of(*one.app)) names.push_back(std::move(name));
  return names;
}

std::vector<std::string> all_flags(const CLI::App& command) {
  std::vector<std::string> names = flags_of(command);
  for (const CLI::App* child : command.get_subcommands({}))
    for (std::string& name : all_flags(*child)) names.push_back(std::move(name));
  return names;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

// It does something by itself, not only by the commands below it.
bool runs(const CLI::App& command) {
  return command.get_require_subcommand_min() == 0 && !is_elsewhere(command);
}

Result<void> check_value(const Document& document, const Node::Member& member) {
  const Node& value = member.value;
  const std::string at = document.at(value);
  if (value.kind == Node::Kind::list) {
    for (const Node& item : value.items)
      if (scalar_text(item).empty())
        return bad_input(document.at(item), member.key + ": not a word or a number");
    if (!value.items.empty()) return {};
  } else if (!scalar_text(value).empty()) {
    return {};
  }
  return bad_input(at, member.key + ": a word, a number, true, false or a list of such is wanted");
}

// The section for every command.
Result<void> check_all(const Document& document, const Node& section,
                       const std::vector<std::string>& flags, bool whole) {
  if (section.kind == Node::Kind::null) return {};
  if (section.kind != Node::Kind::object)
    return bad_input(document.at(section), "'all': options with their values are wanted");
  for (const Node::Member& member : section.members) {
    if (!contains(flags, member.key) && !whole) continue;
    if (!contains(flags, member.key))
      return bad_input(document.at(member.value), fmt::format("no such option: '{}'{}", member.key,
                                                              did_you_mean(member.key, flags)));
    if (auto good = check_value(document, member); !good) return good;
  }
  return {};
}

// A section's members: options of `flags` and sections of `children`.
Result<void> check_command(const Document& document, const Node& section, const CLI::App& command,
                           bool whole) {
  if (section.kind == Node::Kind::null) return {};
  if (section.kind != Node::Kind::object)
    return bad_input(document.at(section),
                     fmt::format("'{}': options with their values are wanted", command.get_name()));
  const bool root = command.get_parent() == nullptr;
  const std::vector<std::string> flags =
      root ? std::vector<std::string>{} : flags_with_forms(command);
  std::vector<std::string> names = flags;
  for (const CLI::App* child : command.get_subcommands({})) names.push_back(child->get_name());
  if (root) names.emplace_back(kAllCommands);
  for (const Node::Member& member : section.members) {
    Result<void> good;
    const CLI::App* child = child_named(command, member.key);
    if (child != nullptr && is_elsewhere(*child)) continue;
    if (child != nullptr)
      good = check_command(document, member.value, *child, whole);
    else if (root && member.key == kAllCommands)
      good = check_all(document, member.value, all_flags(command), whole);
    else if (contains(flags, member.key))
      good = check_value(document, member);
    else if (whole || command.get_subcommands({}).empty())
      good = bad_input(document.at(member.value),
                       fmt::format("no such {}: '{}'{}", root ? "command" : "option", member.key,
                                   did_you_mean(member.key, names)));
    if (!good) return good;
  }
  return {};
}

// Nothing but comments.
bool says_nothing(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first != line.npos && line[first] != '#') return false;
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return true;
}

// Something on the command line rules it out.
bool ruled_out(const CLI::Option& option) {
  return std::ranges::any_of(option.get_excludes(),
                             [](const CLI::Option* other) { return other->count() > 0; });
}

[[noreturn]] void refuse(const std::string& message) { throw CLI::ValidationError(message); }

}  // namespace

std::string variable_of(const std::vector<std::string>& path, const std::string& flag) {
  return in_capitals(fmt::format("{} {}", joined(path, " "), flag));
}

std::string variable_of(const std::string& flag) {
  std::string name = in_capitals("partita " + flag);
  return std::ranges::find(kTaken, name) == kTaken.end() ? name : std::string{};
}

Result<void> check_settings(const Document& document, const CLI::App& root, bool whole) {
  return check_command(document, document.root, root, whole);
}

bool Settings::may_come_from_file(std::span<char* const> words) const {
  const auto names_one = [](std::string_view word) { return word.starts_with("--config"); };
  return std::ranges::any_of(words, names_one) || !environment_variable("PARTITA_CONFIG").empty() ||
         files_.exists(kSettingsFile);
}

void Settings::add_to(CLI::App& root) {
  add_flags(root);
  // Called once all words are read, before CLI11 looks for what is missing.
  root.get_option("--config")->force_callback();
}

void Settings::add_flags(CLI::App& command) {
  if (is_elsewhere(command)) return;
  const std::vector<CLI::App*> children = command.get_subcommands({});
  const bool root = command.get_parent() == nullptr;
  if (root || runs(command)) {
    const auto add = [&](const std::string& name, bool& value, const char* about) {
      if (command.get_option_no_throw(name) == nullptr)
        command.add_flag(name, value, about)->group(kEverywhere);
    };
    if (root) {
      const auto fill = [this, &command](const std::string& named) { fill_in(command, named); };
      command.add_option_function<std::string>("--config", fill)->group("");
    } else if (command.get_option_no_throw("--config") == nullptr) {
      command.add_option("--config", config_)->group(kEverywhere);
    }
    CLI::Option* config = command.get_option("--config");
    if (root || config->get_group() == kEverywhere)
      config->type_name("FILE")
          ->group(kEverywhere)
          ->description(fmt::format(
              "Take options that are not given from this file (default: $PARTITA_CONFIG, else {})",
              kSettingsFile));
    add("--quiet", quiet_, "Print only results and errors");
    add("--verbose", verbose_, "Also say where options came from, what is read and written, times");
  }
  for (CLI::App* child : children) add_flags(*child);
}

void Settings::fill_in(const CLI::App& root, const std::string& named) {
  std::vector<std::string> path{root.get_name()};
  CLI::App* command = nullptr;
  for (const CLI::App* at = &root; !at->get_subcommands().empty(); at = command) {
    command = at->get_subcommands().front();
    path.push_back(command->get_name());
  }
  if (command == nullptr || !runs(*command)) return;
  const CLI::Option* help = command->get_help_ptr();
  if (help != nullptr && help->count() > 0) return;
  const CLI::Option* own = command->get_option_no_throw("--config");
  const bool ours = own != nullptr && own->get_group() == kEverywhere && own->count() > 0;
  if (auto read = read_file(ours ? own->results().front() : named, &root); !read)
    refuse(to_string(read.error()));
  std::vector<std::vector<std::string>> paths{path};
  if (!verb_.empty()) paths.insert(paths.begin(), split(root.get_name() + " " + verb_, ' '));
  for (const std::string& flag : flags_of(*command)) {
    CLI::Option* option = command->get_option("--" + flag);
    if (option->count() > 0 || ruled_out(*option)) continue;
    if (const Found found = find(paths, flag); !found.values.empty()) set(*option, found);
  }
}

// Checked against the commands, if they are there.
Result<void> Settings::read_file(const std::string& path, const CLI::App* root) {
  std::string file = path.empty() ? environment_variable("PARTITA_CONFIG") : path;
  if (file.empty() && files_.exists(kSettingsFile)) file = kSettingsFile;
  if (file.empty()) return {};
  const std::string text = TRY(files_.read(file));
  if (says_nothing(text)) return {};
  // YAML whatever its name: JSON is YAML, too.
  auto document = TRY(parse_document(file, text));
  if (root != nullptr) TRY(check_settings(document, *root, whole_));
  document_ = std::make_shared<Document>(std::move(document));
  return {};
}

std::vector<std::string> Settings::told(std::span<char* const> words, std::string_view verb,
                                        std::string_view flag) {
  if (!document_ && may_come_from_file(words)) {
    std::string named;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string_view word = words[i];
      if (word.starts_with("--config=")) named = word.substr(word.find('=') + 1);
      if (word == "--config" && i + 1 < words.size()) named = words[i + 1];
    }
    static_cast<void>(read_file(named, nullptr));  // who reads it again says what is wrong
  }
  return find({split("partita " + std::string(verb), ' ')}, std::string(flag)).values;
}

Settings::Found Settings::find(const std::vector<std::vector<std::string>>& paths,
                               const std::string& flag) const {
  std::vector<std::string> variables;
  for (const auto& path : paths) variables.push_back(variable_of(path, flag));
  variables.push_back(variable_of(flag));
  for (const std::string& name : variables) {
    if (name.empty()) continue;
    if (std::string value = environment_variable(name.c_str()); !value.empty())
      return {{std::move(value)}, name};
  }
  if (!document_) return {};
  const Node* value = nullptr;
  for (const auto& path : paths) {
    const Node* section = &document_->root;
    for (std::size_t i = 1; i < path.size() && section != nullptr; ++i)
      section = section->find(path[i]);
    if (value == nullptr && section != nullptr) value = section->find(flag);
  }
  if (value == nullptr) {
    const Node* all = document_->root.find(kAllCommands);
    value = all == nullptr ? nullptr : all->find(flag);
  }
  if (value == nullptr) return {};
  Found found{{}, document_->at(*value)};
  if (value->kind == Node::Kind::list) {
    for (const Node& item : value->items) found.values.push_back(scalar_text(item));
  } else {
    found.values.push_back(scalar_text(*value));
  }
  return found;
}

void Settings::set(CLI::Option& option, const Found& found) {
  const std::string name = "--" + option.get_lnames().front();
  try {
    if (option.get_expected_max() == 0 || option.get_expected_min() == 0) {
      if (found.values.size() > 1) refuse("true or false is wanted");
      option.add_result(option.get_flag_value(name, found.values.front()));
    } else {
      option.add_result(found.values);
    }
    option.run_callback();
  } catch (const CLI::ParseError& error) {
    const std::string why = error.what();
    refuse(fmt::format("{}: {}", found.source, why.starts_with(name) ? why : name + ": " + why));
  }
  sources_.push_back(fmt::format("{} {} (from {})", name, joined(found.values, " "), found.source));
}

std::string scalar_text(const Node& value) {
  if (value.kind == Node::Kind::boolean) return value.boolean ? "true" : "false";
  if (value.kind == Node::Kind::string) return value.text;
  if (value.kind != Node::Kind::number) return {};
  return value.text.empty() ? fmt::format("{}", value.number) : value.text;
}

}  // namespace partita::cli
