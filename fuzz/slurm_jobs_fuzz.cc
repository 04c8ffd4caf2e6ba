// What sacct printed, and job scripts: whatever is read makes tasks that the batch commands read
// back, or a submission that the queue does.
#include <string>

#include "base/check.h"
#include "forms/batch_forms.h"
#include "hw/catalogue.h"
#include "queue/slurm/job_script.h"
#include "queue/slurm/past_jobs.h"
#include "queue/task_forms.h"
#include "target.h"

namespace slurm = partita::slurm;

FUZZ_TARGET(slurm_jobs) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const partita::hw::GpuModel& model = *partita::hw::builtin_catalogue().find("A100-80GB");
  if (const auto past = slurm::parse_sacct("sacct", text)) {
    const auto tasks = slurm::tasks_of(*past, model, std::nullopt);
    CHECK(tasks);
    for (const partita::plan::Task& task : tasks->problem.tasks) {
      CHECK(task.release >= 0);
      bool any = false;
      for (const partita::plan::Nanos time : task.times[0].by_gpcs) any = any || time > 0;
      CHECK(any);
    }
  }
  if (const auto script = slurm::parse_job_script("job.sh", text, "/tmp/job's.sh")) {
    const auto again =
        partita::queue::parse_submission("again", partita::queue::submission_json(script->spec));
    CHECK(again && *again == script->spec);
  }
  return 0;
}
