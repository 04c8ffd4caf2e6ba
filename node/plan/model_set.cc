#include "plan/model_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace partita::plan {

int held_in(const ModelSet& set, Mib memory) {
  constexpr double kRounding = 1e-9;
  const double room = std::floor((memory - set.reserve) / set.memory * (1 + kRounding));
  return static_cast<int>(std::clamp(room, 0.0, static_cast<double>(set.models.size())));
}

std::string to_string(const ModelSet& set) {
  std::string text = fmt::format("{} models of {:g} MiB, loaded in {:g} ms", set.models.size(),
                                 set.memory.value, set.load.value);
  if (set.reserve.value > 0) text += fmt::format(", beside {:g} MiB", set.reserve.value);
  if (set.cold.value > 0) text += fmt::format(", cold within {:g} ms", set.cold.value);
  return text;
}

}  // namespace partita::plan
