#include "ptx/levels.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace partita::ptx {

#define PARTITA_LEVEL(NAME) \
  namespace NAME {          \
  struct Parts {            \
    const NamedOp* ops[4];  \
    std::size_t count[4];   \
  };                        \
  Parts parts();            \
  }
PARTITA_LEVEL(baseline)
#if defined(PARTITA_PTX_LEVELS)
PARTITA_LEVEL(v3)
PARTITA_LEVEL(v4)
#endif

namespace {

template <class Parts>
Level level_of(std::string_view name, const Parts& parts) {
  Level level{.name = name, .parts = {}};
  for (std::size_t i = 0; i < 4; ++i) level.parts[i] = {parts.ops[i], parts.count[i]};
  return level;
}

std::vector<Level> find_levels() {
  std::vector<Level> levels;
#if defined(PARTITA_PTX_LEVELS)
  if (__builtin_cpu_supports("x86-64-v4") != 0) levels.push_back(level_of("v4", v4::parts()));
  if (__builtin_cpu_supports("x86-64-v3") != 0) levels.push_back(level_of("v3", v3::parts()));
#endif
  levels.push_back(level_of("baseline", baseline::parts()));
  return levels;
}

}  // namespace

std::span<const Level> usable_levels() {
  static const std::vector<Level> kLevels = find_levels();
  return kLevels;
}

OpNames::OpNames(const Level& level) {
  for (const auto& part : level.parts) sorted_.insert(sorted_.end(), part.begin(), part.end());
  std::sort(sorted_.begin(), sorted_.end(),
            [](const NamedOp& a, const NamedOp& b) { return std::strcmp(a.name, b.name) < 0; });
}

OpFn OpNames::find(std::string_view name) const {
  const auto at =
      std::lower_bound(sorted_.begin(), sorted_.end(), name,
                       [](const NamedOp& op, std::string_view wanted) { return op.name < wanted; });
  return at != sorted_.end() && at->name == name ? at->fn : nullptr;
}

const OpNames& op_names() {
  static const OpNames kNames(usable_levels().front());
  return kNames;
}

}  // namespace partita::ptx
