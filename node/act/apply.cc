#include "act/apply.h"

#include <fmt/format.h>

#include "act/node_run.h"

namespace partita::actuate {
namespace {

// Whether who holds this instance may be a worker on its way out: a transaction that is not done
// found a segment there, or made the instance itself, and may have stopped the segment.
bool leaving(const JournalState& journal, const Present& instance) {
  if (!journal.pending()) return false;
  for (const WantedGpu& gpu : journal.last->source.gpus) {
    if (gpu.uuid != instance.place.gpu_uuid) continue;
    if (gpu.group >= 0 && instance.gi_id == kWholeGpu) return true;
    for (const WantedInstance& one : gpu.instances) {
      if (one.profile == instance.place.profile && one.start == instance.place.start)
        return !one.segment.service.empty();
    }
  }
  return instance.ours;
}

void forget_leaving(const JournalState& journal, Change& change) {
  std::erase_if(change.blockers,
                [&](const Blocker& one) { return leaving(journal, one.instance); });
}

}  // namespace

std::string journal_path(const std::string& state_dir) { return state_dir + "/journal"; }
std::string assignment_path(const std::string& state_dir) { return state_dir + "/assignment.json"; }

Result<Assignment> read_assignment(Files& files, const std::string& state_dir) {
  const std::string path = assignment_path(state_dir);
  if (!files.exists(path)) return Assignment{};
  const std::string text = TRY(files.read(path));
  return parse_assignment(path, text);
}

Result<void> check_not_emptied(Files& files, const std::string& state_dir,
                               const JournalState& journal, const Assignment& assignment) {
  const std::string path = journal_path(state_dir);
  if (journal != JournalState{} || assignment.segments.empty() || !files.exists(path)) return {};
  return bad_input(path + ":1",
                   fmt::format("is empty, though the assignment names {} instances; nothing was "
                               "changed. Without the journal Partita cannot tell its instances "
                               "from those of others: move the file away to start a new one",
                               assignment.segments.size()));
}

Result<Change> planned_change(const Known& known, const Wanted& wanted, const ApplyOptions& options,
                              const std::vector<std::string>& gpu_uuids,
                              const hw::Catalogue& catalogue) {
  const ChangeOptions how{options.min_available,
                          options.keep_foreign,
                          known.journal.owned,
                          known.journal.intended,
                          gpu_uuids,
                          options.allow_reset,
                          options.can_reset};
  Result<Change> change = plan_change(known.state, known.assignment, wanted, catalogue, how);
  if (change) forget_leaving(known.journal, *change);
  return change;
}

Result<Change> preview(const Doors& doors, const Wanted& wanted, const ApplyOptions& options) {
  const JournalState journal = TRY(read_journal(doors.files, journal_path(doors.state_dir)));
  const Assignment assignment = TRY(read_assignment(doors.files, doors.state_dir));
  TRY(check_not_emptied(doors.files, doors.state_dir, journal, assignment));
  const device::NodeState state = TRY(device::read_node(doors.driver));
  std::vector<std::string> gpu_uuids;
  if (journal.pending() && journal.last->target == wanted) gpu_uuids = journal.last->gpu_uuids;
  return planned_change({state, assignment, journal}, wanted, options, gpu_uuids, doors.catalogue);
}

Result<ApplyReport> apply(const Doors& doors, const Wanted& wanted, const ApplyOptions& options,
                          const ApplyObserver& observe) {
  TRY(check_wanted(wanted, doors.catalogue));
  TRY(doors.files.make_directories(doors.state_dir));
  Journal journal = TRY(Journal::open(doors.files, journal_path(doors.state_dir)));
  if (const auto assignment = read_assignment(doors.files, doors.state_dir))
    TRY(check_not_emptied(doors.files, doors.state_dir, journal.state(), *assignment));
  NodeBrain brain(wanted, options, journal.state(), doors.catalogue);
  return run_real(brain, doors, journal, observe);
}

Result<Wanted> rollback_target(const Doors& doors) {
  const JournalState journal = TRY(read_journal(doors.files, journal_path(doors.state_dir)));
  if (!journal.last)
    return failed({ErrorCode::infeasible, "nothing was ever applied here", doors.state_dir});
  return journal.last->rollback ? journal.last->target : journal.last->source;
}

Result<Wanted> again_target(const Doors& doors) {
  const JournalState journal = TRY(read_journal(doors.files, journal_path(doors.state_dir)));
  if (journal.last && !journal.pending()) return journal.last->target;
  return rollback_target(doors);
}

Result<std::string> rollback_name(const Doors& doors) {
  const Wanted target = TRY(rollback_target(doors));
  const JournalState journal = TRY(read_journal(doors.files, journal_path(doors.state_dir)));
  std::size_t instances = 0;
  for (const WantedGpu& gpu : target.gpus) instances += gpu.instances.size();
  const long number = journal.last->transaction;
  return fmt::format("{}: {} {} on {} {}",
                     journal.last->rollback
                         ? fmt::format("what transaction {}, a rollback, went back to", number)
                         : fmt::format("what was before transaction {}", number),
                     instances, instances == 1 ? "instance" : "instances", target.gpus.size(),
                     target.gpus.size() == 1 ? "GPU" : "GPUs");
}

Result<void> drain(const Doors& doors, const std::vector<std::string>& devices, Seconds timeout,
                   const ApplyObserver& observe) {
  TRY(doors.files.make_directories(doors.state_dir));
  Journal journal = TRY(Journal::open(doors.files, journal_path(doors.state_dir)));
  NodeBrain brain(devices, timeout, doors.catalogue);
  TRY(run_real(brain, doors, journal, observe));
  return {};
}

}  // namespace partita::actuate
