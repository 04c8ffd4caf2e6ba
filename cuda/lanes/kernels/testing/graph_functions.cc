// A shared library with functions that task graphs run as kernels.
#include <cstdint>

namespace {

constexpr std::int64_t kPerGroup = 64;

template <class T>
T value_of(const void* argument) {
  return *static_cast<const T*>(argument);
}

}  // namespace

extern "C" {

// x[i] = x[i] * by + i, for `count` elements, kPerGroup of them by each work-group.
void multiply_add(std::int64_t group, void* const* arguments) {
  auto* const x = value_of<std::uint32_t*>(arguments[0]);
  const auto by = value_of<std::uint32_t>(arguments[1]);
  const auto count = value_of<std::int64_t>(arguments[2]);
  for (std::int64_t i = group * kPerGroup; i < count && i < (group + 1) * kPerGroup; ++i)
    x[i] = x[i] * by + static_cast<std::uint32_t>(i);
}
}
