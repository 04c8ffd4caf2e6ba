// Flags: checks for CLI11 options whose refusals are sentences, and whose value names are what
// help, man page and completion show. A value name with bars ("text|json") is a closed list; FILE,
// DIR, PATH, GPU, PLANNER, SCHEDULER and PLAN complete to what they say.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/split.h"
#include "base/units.h"
#include "context.h"

namespace partita::decide {
struct TariffFiles;
}

namespace partita::cli {

// A command that is being described, and what its flags are written to.
template <class Flags>
struct Adding {
  CLI::App* command;
  std::shared_ptr<Flags> flags;  // for who runs it
};
template <class Flags>
Adding<Flags> adding(CLI::App& parent, const std::string& name, const std::string& about) {
  return {parent.add_subcommand(name, about), std::make_shared<Flags>()};
}

// A flag as all commands have it: flag_words.cc.
struct FlagWords {
  std::string_view name, value, text;
  std::string_view was = {};  // an older name, which is understood and not shown
};
const FlagWords& words_of(std::string_view name);

// Adds the flag of that name. `details` go behind what it means.
template <typename Value>
CLI::Option* flag(CLI::App& command, std::string_view name, Value& value,
                  const std::string& details = {}) {
  const FlagWords& words = words_of(name);
  std::string names(words.name), text(words.text);
  for (const std::string& was : split(words.was, ','))  // unless the command has another such
    if (!was.empty() && command.get_option_no_throw(was) == nullptr) names += "," + was;
  if (!details.empty()) text += ". " + details;
  if constexpr (std::is_same_v<Value, bool>) {
    return command.add_flag(names, value, text);
  } else {
    CLI::Option* option = command.add_option(names, value, text);
    // One that may be repeated takes one value each time: the next word is the command's own.
    return option->allow_extra_args(false)->type_name(std::string(words.value));
  }
}

// Restricts an option to a closed list of words.
CLI::Option* one_of(CLI::Option* option, const std::vector<std::string>& words);
// The flag of that name, so restricted, with its value as the default.
CLI::Option* one_of(CLI::App& command, std::string_view name, std::string& value,
                    const std::vector<std::string>& words, const std::string& details = {});

// Restricts a numeric option to [least, most]; NaN is refused.
CLI::Option* within(CLI::Option* option, double least, double most);
template <typename Value>
CLI::Option* within(CLI::App& command, std::string_view name, Value& value, double least,
                    double most, const std::string& details = {}) {
  return within(flag(command, name, value, details), least, most)->capture_default_str();
}

// What takes() is told of a flag besides what it writes to.
template <typename Value>
struct Asks {
  Value& value;
  std::string details = {};
  bool preset = false, required = false;
  double least = 0, most = 0;  // the same: any number
  std::vector<std::string> words = {};
};
// Help tells its value as the default.
template <typename Value>
Asks<Value> preset(Value& value, const std::string& details = {}) {
  return {value, details, true};
}
template <typename Value>
Asks<Value> needed(Value& value, const std::string& details = {}) {
  return {value, details, false, true};
}
template <typename Value>
Asks<Value> needed(Asks<Value> asks) {
  asks.required = true;
  return asks;
}
template <typename Value>
Asks<Value> also(Value& value, const std::string& details) {
  return {value, details};
}
// Numbers in [least, most]: of what has a default, and of what has none.
template <typename Value>
Asks<Value> within(Value& value, double least, double most, const std::string& details = {}) {
  return {value, details, true, false, least, most};
}
template <typename Value>
Asks<Value> limited(Value& value, double least, double most, const std::string& details = {}) {
  return {value, details, false, false, least, most};
}
// --seed. (CLI11 alone would wrap a negative number around.)
inline Asks<std::uint64_t> seeded(std::uint64_t& seed) { return within(seed, 0, 1.8e19); }
// The same of words.
inline Asks<std::string> one_of(std::string& value, const std::vector<std::string>& words,
                                const std::string& details = {}) {
  return {value, details, true, false, 0, 0, words};
}
inline Asks<std::string> word_from(std::string& value, const std::vector<std::string>& words,
                                   const std::string& details = {}) {
  return {value, details, false, false, 0, 0, words};
}

template <typename Value>
void take(CLI::App& command, std::string_view name, Value& value) {
  flag(command, name, value);
}
template <typename Value>
void take(CLI::App& command, std::string_view name, Asks<Value>& asks) {
  CLI::Option* option = flag(command, name, asks.value, asks.details)->required(asks.required);
  if (!asks.words.empty()) one_of(option, asks.words);
  if (asks.least < asks.most) within(option, asks.least, asks.most);
  if (asks.preset) option->capture_default_str();
}
// Adds flags: their names, each with what it writes to.
template <typename... All>
void takes(CLI::App& command, All&&... all) {
  const auto them = std::forward_as_tuple(all...);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (take(command, std::get<2 * I>(them), std::get<2 * I + 1>(them)), ...);
  }(std::make_index_sequence<sizeof...(All) / 2>());
}

// A word behind the command that names a file.
template <typename Value>
CLI::Option* file_argument(CLI::App& command, const std::string& name, Value& value,
                           const std::string& about) {
  return command.add_option(name, value, about)->type_name("FILE");
}

// A command that is described: its examples, and what it does.
template <class Flags, class Run>
Command runs(CLI::App* command, const std::shared_ptr<Flags>& flags, Run run,
             const std::string& examples) {
  command->footer(examples);
  return {command, [flags, run](Context& context) { return run(context, *flags); }};
}

// The same of one whose result has these forms: -o and --format come behind its other flags.
template <class Flags, class Run>
Command runs(CLI::App* command, const std::shared_ptr<Flags>& flags, Run run,
             const std::vector<std::string>& formats, const std::string& examples) {
  add_output(*command, flags->output, formats);
  return runs(command, flags, run, examples);
}

// --prices, which it returns, and --carbon-price.
CLI::Option* add_tariff_flags(CLI::App& command, decide::TariffFiles& files);

// "60s", "5m", "2h", "500ms" or plain seconds; positive and at most `most`: what is waited for
// kMaxDuration, what clocks are only compared with (leases, deadlines) kMaxTerm, and days, "7d".
inline constexpr Seconds kMaxDuration{1e6}, kMaxTerm{1e9};
Result<Seconds> parse_duration(const std::string& flag, const std::string& text,
                               Seconds most = kMaxDuration);
Result<std::int64_t> parse_nanos(const std::string& flag, const std::string& text);

}  // namespace partita::cli
