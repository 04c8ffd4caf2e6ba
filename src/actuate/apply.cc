#include "actuate/apply.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "actuate/executor.h"

namespace partita::actuate {
namespace {

constexpr std::int64_t kFirstPauseNs = 50'000'000;  // before the first reconcile; doubles

// Errors after which reading back and planning again may help.
bool worth_retrying(ErrorCode code) {
  switch (code) {
    case ErrorCode::environment:
    case ErrorCode::not_found:
    case ErrorCode::no_room:
    case ErrorCode::lost:
    case ErrorCode::timeout:
    case ErrorCode::in_use:
      return true;
    default:
      return false;
  }
}

// Whether who holds this instance may be a worker on its way out: a transaction that is not done
// found a segment there, or made the instance itself, and may have stopped the segment.
bool leaving(const JournalState& journal, const Present& instance) {
  if (!journal.pending()) return false;
  for (const WantedGpu& gpu : journal.last->source.gpus) {
    if (gpu.uuid != instance.place.gpu_uuid) continue;
    for (const WantedInstance& one : gpu.instances) {
      if (one.profile == instance.place.profile && one.start == instance.place.start) {
        return !one.segment.service.empty();
      }
    }
  }
  return instance.ours;
}

void forget_leaving(const JournalState& journal, Change& change) {
  std::erase_if(change.blockers,
                [&](const Blocker& one) { return leaving(journal, one.instance); });
}

Error blocked(const std::vector<Blocker>& blockers, bool untouched) {
  std::string text = "processes hold instances that have to go and run no segment:";
  for (const Blocker& one : blockers) {
    text += fmt::format(" pid {}{} on gpu {} {} at {} ({});", one.holder.pid,
                        one.holder.name.empty() ? "" : " (" + one.holder.name + ")",
                        one.instance.place.gpu, one.instance.place.profile,
                        one.instance.place.start, one.instance.uuid);
  }
  return {ErrorCode::in_use, text + (untouched ? " nothing was changed" : " nothing else is done"),
          "node"};
}

// A run of apply, from the journal's opening to its end record.
class Run {
 public:
  Run(const Doors& doors, const Wanted& wanted, const ApplyOptions& options,
      const ApplyObserver& observe, Journal journal)
      : doors_(doors),
        wanted_(wanted),
        options_(options),
        observe_(observe),
        journal_(std::move(journal)),
        begin_ns_(doors.clock.now_ns()) {}

  Result<ApplyReport> go() {
    const JournalState& known = journal_.state();
    report_.resumed = known.pending() && known.last->target == wanted_;
    if (report_.resumed) gpu_uuids_ = known.last->gpu_uuids;
    if (auto planned = look_and_plan(); !planned) return failed(planned.error());
    report_.change = change_;
    if (!change_.blockers.empty()) return failed(blocked(change_.blockers, !report_.resumed));
    if (auto begun = begin(); !begun) return failed(begun.error());
    Executor executor(doors_, journal_, assignment_, options_, observe_);
    const Result<void> made = make_so(executor);
    report_.driver_calls = executor.driver_calls();
    report_.took = {static_cast<double>(doors_.clock.now_ns() - begin_ns_) * 1e-9};
    if (auto ended = end(made); !ended) return failed(ended.error());
    if (!made) return failed(made.error());
    return report_;
  }

 private:
  Result<void> look_and_plan() {
    Result<Assignment> assignment = read_assignment(doors_.files, doors_.state_dir);
    if (!assignment) return failed(assignment.error());
    assignment_ = std::move(*assignment);
    Result<device::NodeState> state = device::read_node(doors_.driver);
    if (!state) return failed(state.error());
    state_ = std::move(*state);
    Result<Change> change =
        plan_change(state_, assignment_, wanted_, doors_.catalogue, change_options());
    if (!change) return failed(change.error());
    change_ = std::move(*change);
    forget_leaving(journal_.state(), change_);
    gpu_uuids_.clear();
    for (const int gpu : change_.gpu_of) {
      for (const device::GpuState& one : state_.gpus) {
        if (one.index == gpu) gpu_uuids_.push_back(one.uuid);
      }
    }
    return {};
  }

  ChangeOptions change_options() const {
    return {options_.min_available, options_.keep_foreign, journal_.state().owned,
            journal_.state().intended, gpu_uuids_};
  }

  // Notes the transaction, unless an earlier run did or there is nothing to do.
  Result<void> begin() {
    observe_({ApplyEvent::Kind::begin, &change_, 0, report_.resumed ? "resumed" : ""});
    if (auto adopted = adopt(); !adopted) return adopted;
    if (report_.resumed) return note_matching();
    if (change_.empty() && !journal_.state().pending()) return {};
    return journal_.append(BeginRecord{journal_.state().transactions + 1, wanted_,
                                       wanted_of(state_, assignment_), gpu_uuids_,
                                       options_.rollback});
  }

  // Notes that a GPU fell off the bus and another one takes its place, so that a run that follows
  // stays with that one.
  Result<void> note_matching() {
    if (!journal_.state().pending() || journal_.state().last->gpu_uuids == gpu_uuids_) return {};
    BeginRecord again = *journal_.state().last;
    again.gpu_uuids = gpu_uuids_;
    return journal_.append(again);
  }

  // What a crash left between an intent and the word of its success: ours if it is there. What was
  // ours and is gone is forgotten.
  Result<void> adopt() {
    const bool all_seen = std::none_of(state_.gpus.begin(), state_.gpus.end(),
                                       [](const device::GpuState& gpu) { return gpu.lost; });
    const std::vector<std::string> owned = journal_.state().owned;
    for (const std::string& uuid : owned) {
      if (!all_seen || exists(uuid)) continue;
      if (auto noted = journal_.append(GoneRecord{uuid}); !noted) return noted;
    }
    const std::vector<Place> intended = journal_.state().intended;
    for (const Place& place : intended) {
      const device::Instance* there = nullptr;
      if (const device::GpuState* gpu = state_.find(place.gpu_uuid)) {
        if (gpu->lost) continue;
        for (const device::Instance& one : gpu->instances) {
          if (one.profile == place.profile && one.start == place.start) there = &one;
        }
      }
      if (there != nullptr && there->compute.empty()) continue;  // half made, still
      const std::string uuid = there == nullptr ? "" : there->uuid();
      if (auto noted = journal_.append(MadeRecord{place, uuid}); !noted) return noted;
    }
    return {};
  }

  // Carries the change out until a look at the node finds nothing left to do.
  Result<void> make_so(Executor& executor) {
    std::int64_t pause = kFirstPauseNs;
    while (true) {
      if (change_.empty()) return settle();
      const Result<void> done = executor.run(change_, state_);
      if (!done && (!worth_retrying(done.error().code) || report_.reconciles >= kMaxReconciles)) {
        return done;
      }
      if (!done && executor.waited_in_vain()) return done;
      if (!done) {
        observe_({ApplyEvent::Kind::retry, &change_, 0, to_string(done.error())});
        doors_.clock.sleep_ns(pause);
        pause *= 2;
        ++report_.reconciles;
      }
      if (auto planned = look_and_plan(); !planned) return planned;
      if (auto noted = note_matching(); !noted) return noted;
      if (done && !change_.empty() && ++report_.reconciles > kMaxReconciles) {
        return failed({ErrorCode::environment,
                       "the node does not become as wanted: somebody else is changing it", "node"});
      }
      if (!change_.blockers.empty()) return failed(blocked(change_.blockers, false));
    }
  }

  // Nothing is left to do: nothing is announced any more, segments of devices that are gone leave
  // the assignment, and what kept ones carry is brought up to date.
  Result<void> settle() {
    if (auto adopted = adopt(); !adopted) return adopted;
    Assignment settled = assignment_;
    std::erase_if(settled.segments, [&](const AssignedSegment& one) {
      const device::GpuState* gpu = state_.find(one.gpu_uuid);
      const bool unseen = gpu != nullptr && gpu->lost;
      return !unseen && !exists(one.device);
    });
    for (const Present& kept : change_.keep) {
      for (AssignedSegment& one : settled.segments) {
        if (one.device == kept.uuid) one.throughput_rps = wanted_at(kept.place);
      }
    }
    if (settled == assignment_) return {};
    assignment_ = std::move(settled);
    return write_assignment(doors_, assignment_);
  }

  bool exists(const std::string& device) const {
    for (const device::GpuState& gpu : state_.gpus) {
      for (const device::Instance& one : gpu.instances) {
        for (const device::ComputeInstance& compute : one.compute) {
          if (compute.uuid == device) return true;
        }
      }
    }
    return false;
  }

  double wanted_at(const Place& place) const {
    for (std::size_t w = 0; w < wanted_.gpus.size(); ++w) {
      if (change_.gpu_of[w] != place.gpu) continue;
      for (const WantedInstance& one : wanted_.gpus[w].instances) {
        if (one.start == place.start) return one.segment.throughput_rps;
      }
    }
    return 0;
  }

  Result<void> end(const Result<void>& made) {
    observe_({ApplyEvent::Kind::end, &change_, 0, made ? "" : to_string(made.error())});
    if (!journal_.state().pending()) return {};
    return journal_.append(EndRecord{journal_.state().transactions, made ? "done" : "failed",
                                     made ? "" : to_string(made.error())});
  }

  const Doors& doors_;
  const Wanted& wanted_;
  const ApplyOptions& options_;
  const ApplyObserver& observe_;
  Journal journal_;
  std::int64_t begin_ns_;
  Assignment assignment_;
  device::NodeState state_;
  std::vector<std::string> gpu_uuids_;
  Change change_;
  ApplyReport report_;
};

}  // namespace

std::string journal_path(const std::string& state_dir) { return state_dir + "/journal"; }
std::string assignment_path(const std::string& state_dir) { return state_dir + "/assignment.json"; }

Result<Assignment> read_assignment(Files& files, const std::string& state_dir) {
  const std::string path = assignment_path(state_dir);
  if (!files.exists(path)) return Assignment{};
  const Result<std::string> text = files.read(path);
  if (!text) return failed(text.error());
  return parse_assignment(path, *text);
}

Result<Change> preview(const Doors& doors, const Wanted& wanted, const ApplyOptions& options) {
  const Result<JournalState> journal = read_journal(doors.files, journal_path(doors.state_dir));
  if (!journal) return failed(journal.error());
  const Result<Assignment> assignment = read_assignment(doors.files, doors.state_dir);
  if (!assignment) return failed(assignment.error());
  const Result<device::NodeState> state = device::read_node(doors.driver);
  if (!state) return failed(state.error());
  ChangeOptions how{
      options.min_available, options.keep_foreign, journal->owned, journal->intended, {}};
  if (journal->pending() && journal->last->target == wanted)
    how.gpu_uuids = journal->last->gpu_uuids;
  Result<Change> change = plan_change(*state, *assignment, wanted, doors.catalogue, how);
  if (change) forget_leaving(*journal, *change);
  return change;
}

Result<ApplyReport> apply(const Doors& doors, const Wanted& wanted, const ApplyOptions& options,
                          const ApplyObserver& observe) {
  if (auto fine = check_wanted(wanted, doors.catalogue); !fine) return failed(fine.error());
  if (auto made = doors.files.make_directories(doors.state_dir); !made) return failed(made.error());
  Result<Journal> journal = Journal::open(doors.files, journal_path(doors.state_dir));
  if (!journal) return failed(journal.error());
  return Run(doors, wanted, options, observe, std::move(*journal)).go();
}

Result<Wanted> rollback_target(const Doors& doors) {
  const Result<JournalState> journal = read_journal(doors.files, journal_path(doors.state_dir));
  if (!journal) return failed(journal.error());
  if (!journal->last) {
    return failed({ErrorCode::infeasible, "nothing was ever applied here", doors.state_dir});
  }
  const bool resumed = journal->pending() && journal->last->rollback;
  return resumed ? journal->last->target : journal->last->source;
}

Result<void> drain(const Doors& doors, const std::vector<std::string>& devices, Seconds timeout,
                   const ApplyObserver& observe) {
  Result<Journal> journal = Journal::open(doors.files, journal_path(doors.state_dir));
  if (!journal) return failed(journal.error());
  Result<Assignment> assignment = read_assignment(doors.files, doors.state_dir);
  if (!assignment) return failed(assignment.error());
  const Result<device::NodeState> state = device::read_node(doors.driver);
  if (!state) return failed(state.error());
  Change change;
  std::vector<Step> drains;
  for (const device::GpuState& gpu : state->gpus) {
    for (const device::Instance& one : gpu.instances) {
      if (std::find(devices.begin(), devices.end(), one.uuid()) == devices.end()) continue;
      const Place place{gpu.index, gpu.uuid, one.profile, one.start};
      drains.push_back({Step::Kind::drain, place, {}, false, {}});
      for (const AssignedSegment& runs : assignment->segments) {
        if (runs.device != one.uuid()) continue;
        const Segment segment{runs.service, runs.batch, runs.processes, runs.throughput_rps};
        change.steps.push_back({Step::Kind::stop, place, segment, false, {}});
      }
    }
  }
  change.steps.insert(change.steps.end(), drains.begin(), drains.end());
  ApplyOptions options;
  options.drain_timeout = timeout;
  return Executor(doors, *journal, *assignment, options, observe).run(change, *state);
}

}  // namespace partita::actuate
