#include "flags.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <numeric>

namespace partita::cli {
namespace {

// Levenshtein distance, one row at a time.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

CLI::Option* one_of(CLI::Option* option, const std::vector<std::string>& words) {
  option->type_name(fmt::format("{}", fmt::join(words, "|")));
  return option->check([words](const std::string& value) {
    if (std::find(words.begin(), words.end(), value) != words.end()) return std::string{};
    return fmt::format("'{}' is none of {}{}", value, fmt::join(words, ", "),
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
  within(command.add_option("--seed", seed, "Seed of the arrivals; same seed, same report"), 0,
         1.8e19)
      ->type_name("N")
      ->default_str(fmt::format("{}", seed));
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
    return bad_input(flag, fmt::format("'{}' is no duration such as 60s, 5m or 500ms", text));
  }
  const Seconds duration{value * scale};
  if (!(duration.value > 0 && duration <= kMaxDuration)) {
    return bad_input(flag, fmt::format("'{}' is not between 0 and {} s (excluding 0)", text,
                                       kMaxDuration.value));
  }
  return duration;
}

std::string nearest(const std::string& word, const std::vector<std::string>& names) {
  std::string best;
  std::size_t least = std::max<std::size_t>(word.size() / 2, 1) + 1;
  for (const std::string& name : names) {
    // A name that the word begins is near, however long it is.
    const bool begins = word.size() >= 2 && name.starts_with(word);
    const std::size_t d = begins ? 1 : distance(word, name);
    if (d < least) {
      least = d;
      best = name;
    }
  }
  return best;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& names) {
  const std::string name = nearest(word, names);
  return name.empty() ? "" : fmt::format("; did you mean '{}'?", name);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace partita::cli
