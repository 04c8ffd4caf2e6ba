// Tasks CSV: a batch within the documented bounds, or a refusal; what was read is written and read
// back as the same tasks.
#include <algorithm>
#include <set>
#include <string_view>

#include "base/check.h"
#include "forms/batch_forms.h"
#include "target.h"

namespace {

namespace forms = partita::forms;
namespace plan = partita::plan;

// Beyond 46 days a double does not tell nanoseconds apart.
constexpr plan::Nanos kExact = 4'000'000 * plan::kNanosInSecond;

// The longest time of a task.
plan::Nanos check(const plan::Task& task) {
  plan::Nanos longest = std::max(task.release, task.deadline.value_or(0));
  bool fits = false;
  for (const plan::SizeTimes& times : task.times) {
    for (const plan::Nanos time : times.by_gpcs) {
      CHECK(time >= 0 && time <= plan::kMaxTaskTime);
      longest = std::max(longest, time);
      fits = fits || time > 0;
    }
  }
  CHECK(fits && task.release >= 0 && task.release <= plan::kMaxTaskTime && task.priority > 0);
  CHECK(!task.deadline || *task.deadline >= task.release);
  return longest;
}

}  // namespace

FUZZ_TARGET(tasks) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const partita::hw::Catalogue& catalogue = partita::hw::builtin_catalogue();
  static const std::vector<partita::hw::GpuModel> models{*catalogue.find("A100-80GB"),
                                                         *catalogue.find("A30-24GB")};
  const auto problem = forms::parse_tasks("fuzz.csv", text, models, {0, 1});
  if (!problem) {
    CHECK(problem.error().context.starts_with("fuzz.csv:"));
    return 0;
  }
  std::set<std::string_view> names;
  plan::Nanos longest = 0;
  for (const plan::Task& task : problem->tasks) {
    CHECK(names.insert(task.name).second);
    longest = std::max(longest, check(task));
  }
  for (const plan::Task& task : problem->tasks)
    for (const std::string& before : task.after) CHECK(names.contains(before));
  const std::string csv = forms::tasks_csv(*problem);
  const auto again = forms::parse_tasks("again.csv", csv, models, {0, 1});
  CHECK(again && (longest > kExact || again->tasks == problem->tasks));
  CHECK(forms::task_warnings(*problem).size() <= 24);
  return 0;
}
