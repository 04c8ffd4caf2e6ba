// PTX that is loaded: its kernels are decoded, or it is refused with its line.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "ptx/machine.h"
#include "target.h"

FUZZ_TARGET(ptx_load) {
  namespace ptx = partita::ptx;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto machine = ptx::Machine::open(1 << 20);
  CHECK(machine.has_value());
  const auto module = (*machine)->load(std::string(text), "fuzz.ptx");
  // Or there is no memory for its variables.
  if (!module && module.error().code == partita::ErrorCode::bad_input)
    CHECK(partita::to_string(module.error()).starts_with("fuzz.ptx"));
  return 0;
}
