#include "base/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace partita {
namespace {

// A name that was only written in part is near, however long it is.
std::size_t distance(std::string_view word, std::string_view name) {
  const bool begun = word.size() >= 2 && name.starts_with(word);
  const bool part = word.size() >= 3 && name.find(word) != name.npos;
  return begun || part ? 1 : edits(word, name);
}

}  // namespace

std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = std::exchange(row[j + 1], std::min({row[j] + 1, row[j + 1] + 1, replaced}));
    }
  }
  return row.back();
}

std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  word = word.substr(0, kMaxWordBytes);
  // Of those as near the one of which letters are missing goes before one with others.
  std::tuple<std::size_t, std::size_t, std::string_view> best{kMaxWordBytes, 0, {}};
  for (const std::string& name : names) {
    const std::size_t d = distance(word, name), shared = std::min(word.size(), name.size());
    const std::size_t missing = std::max(word.size(), name.size()) - shared;
    if (d <= name.size() / 3 + 1) best = std::min(best, {d, d - std::min(d, missing), name});
  }
  return std::string(std::get<2>(best));
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  const std::string name = nearest(word, names);
  return name.empty() ? "" : fmt::format("; did you mean '{}'?", name);
}

std::string nearest_first(std::string_view word, std::vector<std::string> names,
                          std::size_t shown) {
  word = word.substr(0, kMaxWordBytes);
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (std::string& name : names) {
    const std::size_t d = distance(word, std::string_view(name).substr(0, kMaxWordBytes));
    ranked.emplace_back(d, std::move(name));
  }
  std::sort(ranked.begin(), ranked.end());
  std::string text;
  for (std::size_t i = 0; i < ranked.size() && i < shown; ++i)
    text += (i == 0 ? "" : ", ") + ranked[i].second;
  if (ranked.size() > shown) text += fmt::format(" and {} more", ranked.size() - shown);
  return text;
}

}  // namespace partita
