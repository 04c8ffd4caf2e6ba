// The workers' state file, their command template, their tags and shares: what is read is written
// and read the same; what is split has words; shares are within bounds.
#include <cstdint>
#include <string_view>

#include "act/worker_command.h"
#include "act/workers_state.h"
#include "base/check.h"
#include "node/mps_workers.h"
#include "target.h"

FUZZ_TARGET(workers) {
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
  if (const auto place = actuate::worker_place(text, "/s")) {
    const std::string tag = actuate::worker_tag("/s", place->first, place->second);
    CHECK(actuate::worker_place(tag, "/s") == place);
  }
  const partita::cli::MpsFlags flags{.shares = {std::string(text)}, .runtime_directory = ""};
  if (const auto rules = partita::cli::share_rules(flags)) {
    double sum = 0;
    for (const auto& share : rules->at(0).shares) {
      CHECK(share.percentage > 0 && share.pinned_memory.value >= 0);
      sum += share.percentage;
    }
    CHECK(sum <= 100);
  }
  return 0;
}
