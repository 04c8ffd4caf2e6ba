// What an agent remembered: a memory or a refusal; what was read is printed and read back the same.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "control/memory.h"
#include "target.h"

FUZZ_TARGET(agent_memory) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto memory = partita::control::parse_memory("fuzz.json", text);
  if (!memory) {
    CHECK(memory.error().context.starts_with("fuzz.json"));
    return 0;
  }
  const auto again =
      partita::control::parse_memory("again.json", partita::control::memory_json(*memory));
  CHECK(again && *again == *memory);
  return 0;
}
