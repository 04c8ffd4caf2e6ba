// State files of simulated machines: a legal machine that works on, or a refusal.
#include <string_view>

#include "base/check.h"
#include "drivers/sim/machine.h"
#include "target.h"

FUZZ_TARGET(machine_state) {
  namespace sim = partita::drivers::sim;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const partita::hw::Catalogue& catalogue = partita::hw::builtin_catalogue();
  auto machine = sim::Machine::from_text("fuzz.json", text, catalogue);
  if (!machine) {
    CHECK(machine.error().context.starts_with("fuzz.json"));
    return 0;
  }
  const auto again = sim::Machine::from_text("again.json", machine->text(), catalogue);
  CHECK(again && *again == *machine);
  for (int gpu = 0; const sim::SimGpu* it = machine->find(gpu); ++gpu) {
    CHECK(partita::hw::conflicts(*it->model, it->placed()).empty());
    if (const auto made = machine->create_instance(gpu, 0, {}))
      CHECK(machine->create_compute(gpu, made->value, 1, {}).has_value());
    CHECK(partita::hw::conflicts(*it->model, it->placed()).empty());
  }
  machine->reboot();
  return 0;
}
