// What Slurm says of jobs, nodes, reservations and its settings, and marks of jobs. What is read
// of a mark survives writing.
#include <string>

#include "base/check.h"
#include "queue/slurm/site.h"
#include "queue/slurm/site_check.h"
#include "queue/slurm/slurm_state.h"
#include "target.h"

namespace slurm = partita::slurm;

FUZZ_TARGET(slurm) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(slurm::parse_jobs(text));
  static_cast<void>(slurm::parse_nodes(text));
  static_cast<void>(slurm::parse_reservations(text));
  static_cast<void>(slurm::parse_config(text));
  static_cast<void>(slurm::parse_ended(text));
  static_cast<void>(slurm::host_names(text));
  static_cast<void>(slurm::array_tasks(text));
  const auto mark = slurm::parse_mark(text);
  if (mark && *mark) {
    const auto again = slurm::parse_mark(slurm::mark_text(**mark));
    CHECK(again && *again && **again == **mark);
  }
  const auto site = slurm::parse_site("site", text);
  if (site) {
    const auto again = slurm::parse_site("again", slurm::site_text(*site));
    CHECK(again && *again == *site);
  }
  return 0;
}
