// The workers' state file and their command template: what is read is written and read the same;
// what is split has words.
#include <cstdint>
#include <string_view>

#include "actuate/worker_command.h"
#include "actuate/workers_state.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace actuate = partita::actuate;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto state = actuate::parse_workers("fuzz.json", text)) {
    const auto again = actuate::parse_workers("again.json", actuate::workers_json(*state));
    CHECK(again && *again == *state);
  } else {
    CHECK(state.error().context.starts_with("fuzz.json"));
  }
  if (const auto command = actuate::parse_command("--command", text)) {
    const auto argv = actuate::command_of(*command, {}, 0, 1);
    CHECK(argv.size() == command->words.size() && !argv.empty());
  }
  return 0;
}
