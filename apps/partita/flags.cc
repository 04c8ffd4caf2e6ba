#include "flags.h"
#include "base/append.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>

#include "base/nearest.h"

namespace partita::cli {

CLI::Option* one_of(CLI::Option* option, const std::vector<std::string>& words) {
  option->type_name(joined(words, "|"));
  return option->check([words](const std::string& value) {
    if (std::find(words.begin(), words.end(), value) != words.end()) return std::string{};
    return fmt::format("'{}' is not one of {}{}", value, joined(words, ", "),
                       did_you_mean(value, words));
  });
}

CLI::Option* within(CLI::Option* option, double least, double most) {
  return option->check([least, most](const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
      return fmt::format("'{}' is not a number", text);
    }
    if (value >= least && value <= most) return std::string{};
    return fmt::format("{} is not between {} and {}", text, least, most);
  });
}

void add_seed(CLI::App& command, std::uint64_t& seed) {
  within(flag(command, "--seed", seed), 0, 1.8e19)->default_str(fmt::format("{}", seed));
}

void add_require_share(CLI::App& command, double& share) {
  within(flag(command, "--require", share), 0, 1);
}

CLI::Option* add_fault_exit(CLI::App& command, int& status) {
  return within(flag(command, "--fault-exit", status), 0, 255)
      ->default_str(fmt::format("{}", status));
}

Result<Seconds> parse_duration(const std::string& flag, const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [unit, error] = std::from_chars(text.data(), end, value);
  const std::string_view suffix(unit, static_cast<std::size_t>(end - unit));
  double scale = 0;
  if (suffix.empty() || suffix == "s") scale = 1;
  if (suffix == "ms") scale = 1e-3;
  if (suffix == "m") scale = 60;
  if (suffix == "h") scale = 3600;
  if (error != std::errc{} || scale == 0) {
    return bad_input(flag, fmt::format("'{}' is not a duration such as 60s, 5m or 500ms", text));
  }
  const Seconds duration{value * scale};
  if (!(duration.value > 0 && duration <= kMaxDuration)) {
    return bad_input(flag, fmt::format("'{}' is not between 0 and {} s (excluding 0)", text,
                                       kMaxDuration.value));
  }
  return duration;
}

}  // namespace partita::cli
