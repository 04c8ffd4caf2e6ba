// Descriptions of simulated machines: a machine that can be made, or a refusal.
#include <string_view>

#include "base/check.h"
#include "drivers/sim/shared_machine.h"
#include "target.h"

FUZZ_TARGET(machine) {
  namespace sim = partita::drivers::sim;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const partita::hw::Catalogue& catalogue = partita::hw::builtin_catalogue();
  const auto description = sim::parse_machine("fuzz.yaml", text, catalogue);
  if (!description) {
    CHECK(description.error().context.starts_with("fuzz.yaml"));
    return 0;
  }
  CHECK(description->speed >= 0);
  const sim::Machine machine = sim::make_machine(*description, "fuzz");
  CHECK(!machine.gpus().empty() && machine.gpus().size() <= sim::kMaxSimGpus);
  const auto again = sim::Machine::from_text("again.json", machine.text(), catalogue);
  CHECK(again && *again == machine);
  return 0;
}
