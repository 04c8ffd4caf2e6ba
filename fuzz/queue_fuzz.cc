// Documents of the queue: what is read is written as something that reads as the same.
#include <string_view>

#include "base/check.h"
#include "queue/task_forms.h"
#include "target.h"

FUZZ_TARGET(queue) {
  namespace queue = partita::queue;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto spec = queue::parse_submission("fuzz", text)) {
    const auto again = queue::parse_submission("again", queue::submission_json(*spec));
    CHECK(again && *again == *spec);
  }
  if (const auto task = queue::parse_task("fuzz", text)) {
    const auto again = queue::parse_task("again", queue::task_line(*task));
    CHECK(again && *again == *task);
  }
  if (const auto tasks = queue::parse_tasks("fuzz", text)) {
    const auto again = queue::parse_tasks("again", queue::tasks_json(*tasks));
    CHECK(again && *again == *tasks);
  }
  return 0;
}
