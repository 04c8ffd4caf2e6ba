// Schedule JSON: a schedule or a refusal; what was read is printed and read back as the same
// schedule, and every picture of it can be drawn.
#include <string_view>

#include "base/check.h"
#include "forms/batch_forms.h"
#include "target.h"

namespace {

namespace forms = partita::forms;
namespace plan = partita::plan;

// Beyond 46 days a double does not tell nanoseconds apart.
bool exact(plan::Nanos time) {
  constexpr plan::Nanos kExact = 4'000'000 * plan::kNanosInSecond;
  return time >= -kExact && time <= kExact;
}

bool exact(const plan::BatchSchedule& schedule) {
  bool all = exact(schedule.makespan) && exact(schedule.lower_bound);
  for (const auto& task : schedule.tasks) all = all && exact(task.begin) && exact(task.end);
  for (const auto& r : schedule.reconfigurations) all = all && exact(r.begin) && exact(r.end);
  return all;
}

}  // namespace

FUZZ_TARGET(schedule) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto schedule = forms::parse_schedule("fuzz.json", text);
  if (!schedule) {
    CHECK(schedule.error().context.starts_with("fuzz.json"));
    return 0;
  }
  const auto again = forms::parse_schedule("again.json", forms::schedule_json(*schedule));
  CHECK(again && (!exact(*schedule) || *again == *schedule));
  const partita::hw::Catalogue& catalogue = partita::hw::builtin_catalogue();
  CHECK(!forms::schedule_text(*schedule, {}, catalogue, {.colour = true, .explain = true}).empty());
  CHECK(!forms::schedules_svg({*schedule, *again}, catalogue).empty());
  return 0;
}
