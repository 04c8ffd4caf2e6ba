#include "act/node_brain.h"

#include <fmt/format.h>

#include <algorithm>

#include "act/executor.h"
#include "base/check.h"

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

Error blocked(const std::vector<Blocker>& blockers, bool untouched) {
  std::string text = "processes without a segment hold what must be destroyed or reset:";
  for (const Blocker& one : blockers) {
    text += fmt::format(" {} on {} ({});", to_string(one.holder), to_string(one.instance.place),
                        one.instance.uuid);
  }
  return {ErrorCode::in_use, text + (untouched ? " nothing was changed" : " nothing else is done"),
          "node"};
}

}  // namespace

class NodeBrain::Work {
 public:
  using Reported = Flow<Result<ApplyReport>>;

  Work(Wanted wanted, ApplyOptions options, JournalState known, const hw::Catalogue& catalogue)
      : catalogue_(catalogue), wanted_(std::move(wanted)), options_(options) {
    book_.journal = std::move(known);
    flow_.emplace(apply());
  }
  Work(std::vector<std::string> devices, Seconds timeout, const hw::Catalogue& catalogue)
      : catalogue_(catalogue), devices_(std::move(devices)) {
    options_.drain_timeout = timeout;
    options_.min_available = 0;  // who says drain means it
    flow_.emplace(drain());
  }

  Talk& talk() { return book_.talk; }
  const Talk& talk() const { return book_.talk; }
  Reported& flow() { return *flow_; }
  const Reported& flow() const { return *flow_; }
  bool begun = false;

 private:
  // From the first look to the journal's end record.
  Reported apply() {
    const std::int64_t begin_ns = talk().now;
    report_.resumed = book_.journal.pending() && book_.journal.last->target == wanted_;
    if (report_.resumed) gpu_uuids_ = book_.journal.last->gpu_uuids;
    const Result<void> planned = co_await look_and_plan();
    if (!planned) co_return failed(planned.error());
    report_.change = change_;
    if (talk().interrupted) co_return failed(interrupted_error(!report_.resumed));
    if (!change_.blockers.empty()) co_return failed(blocked(change_.blockers, !report_.resumed));
    const Result<void> noted = co_await begin();
    if (!noted) co_return failed(noted.error());
    const Result<void> made = co_await make_so();
    report_.driver_calls = executor_.driver_calls();
    report_.took = {static_cast<double>(talk().now - begin_ns) * 1e-9};
    const Result<void> ended = co_await end(made);
    if (!ended) co_return failed(ended.error());
    if (!made) co_return failed(made.error());
    co_return report_;
  }

  Reported drain() {
    const Result<void> seen = co_await look();
    if (!seen) co_return failed(seen.error());
    book_.services = book_.assignment.services;
    std::vector<Step> drains;
    for (const device::GpuState& gpu : state_.gpus) {
      for (const device::Instance& one : gpu.instances) {
        if (std::ranges::count(devices_, one.uuid()) == 0) continue;
        const Place place{one, gpu.index, gpu.uuid};
        drains.push_back(
            {.kind = Step::Kind::drain, .place = place, .segment = {}, .predicted = {}});
        for (const AssignedSegment& runs : book_.assignment.segments) {
          if (runs.device != one.uuid()) continue;
          change_.steps.push_back(
              {.kind = Step::Kind::stop, .place = place, .segment = runs, .predicted = {}});
        }
      }
    }
    for (const AssignedSegment& runs : book_.assignment.segments) {
      const std::vector<std::string> whole = whole_gpus(runs.device);
      const bool named = std::ranges::count(devices_, runs.device) > 0 ||
                         std::ranges::any_of(whole, [&](const std::string& uuid) {
                           return std::ranges::count(devices_, uuid) > 0;
                         });
      if (whole.empty() || !named || !is_there(state_, runs.device)) continue;
      for (const std::string& uuid : whole)
        drains.push_back({.kind = Step::Kind::drain,
                          .place = {runs, state_.find(uuid)->index, uuid},
                          .segment = {},
                          .predicted = {}});
      change_.steps.push_back({.kind = Step::Kind::stop,
                               .place = drains.back().place,
                               .segment = runs,
                               .predicted = {}});
    }
    change_.steps.insert(change_.steps.end(), drains.begin(), drains.end());
    const Result<void> drained = co_await executor_.run(change_, state_);
    if (talk().interrupted && !drained) {
      Error error{ErrorCode::environment,
                  "interrupted; what was still held has its segments again; `partita drain` again "
                  "goes on",
                  ""};
      co_return failed(std::move(error));
    }
    if (!drained) co_return failed(drained.error());
    co_return report_;
  }

  Done look() {
    const Look question;
    Result<Seen> seen = co_await talk().ask(question);
    if (!seen) co_return failed(seen.error());
    book_.assignment = std::move(seen->assignment);
    state_ = std::move(seen->state);
    co_return {};
  }

  Done look_and_plan() {
    const Result<void> seen = co_await look();
    if (!seen) co_return seen;
    if (book_.services.empty()) book_.services = wanted_services();
    Result<Change> change = planned_change({state_, book_.assignment, book_.journal}, wanted_,
                                           options_, gpu_uuids_, catalogue_);
    if (!change) co_return failed(change.error());
    change_ = std::move(*change);
    gpu_uuids_.clear();
    for (const int gpu : change_.gpu_of) {
      for (const device::GpuState& one : state_.gpus) {
        if (one.index == gpu) gpu_uuids_.push_back(one.uuid);
      }
    }
    co_return {};
  }

  // What is wanted may not say what it promises (a state to be restored): as it was, then.
  std::vector<plan::Terms> wanted_services() const {
    Assignment all = book_.assignment;
    all.segments.clear();
    for (const WantedGpu& gpu : wanted_.gpus)
      for (const WantedInstance& one : gpu.instances)
        all.segments.push_back({{}, {one.segment.service}});
    return services_amid(wanted_.services, all);
  }

  // Notes the transaction, unless an earlier run did or there is nothing to do.
  Done begin() {
    talk().tell({ApplyEvent::Kind::begin, &change_, 0, report_.resumed ? "resumed" : ""});
    const Result<void> adopted = co_await adopt();
    if (!adopted) co_return adopted;
    if (report_.resumed) co_return co_await note_matching();
    if (change_.empty() && !book_.journal.pending()) co_return {};
    const Record record =
        BeginRecord{book_.journal.transactions + 1, wanted_, wanted_of(state_, book_.assignment),
                    gpu_uuids_, options_.rollback};
    co_return co_await book_.note(record);
  }

  // Notes that a GPU fell off the bus and another one takes its place, so that a run that follows
  // stays with that one.
  Done note_matching() {
    const JournalState& journal = book_.journal;
    if (!journal.pending() || journal.last->gpu_uuids == gpu_uuids_) co_return {};
    BeginRecord again = *journal.last;
    again.gpu_uuids = gpu_uuids_;
    const Record record = again;
    co_return co_await book_.note(record);
  }

  // What a crash left between an intent and the word of its success: ours if it is there. What was
  // ours and is gone is forgotten.
  Done adopt() {
    const bool all_seen = std::ranges::none_of(state_.gpus, &device::GpuState::lost);
    const std::vector<std::string> owned = book_.journal.owned;
    for (const std::string& uuid : owned) {
      if (!all_seen || is_there(state_, uuid)) continue;
      const Record record = GoneRecord{uuid};
      const Result<void> noted = co_await book_.note(record);
      if (!noted) co_return noted;
    }
    const std::vector<Place> intended = book_.journal.intended;
    for (const Place& place : intended) {
      const device::Instance* there = nullptr;
      if (const device::GpuState* gpu = state_.find(place.gpu_uuid)) {
        if (gpu->lost) continue;
        for (const device::Instance& one : gpu->instances) {
          if (one.profile == place.profile && one.start == place.start) there = &one;
        }
      }
      if (there != nullptr && there->compute.empty()) continue;  // half made, still
      const Record record = MadeRecord{place, there == nullptr ? "" : there->uuid()};
      const Result<void> noted = co_await book_.note(record);
      if (!noted) co_return noted;
    }
    co_return {};
  }

  // Carries the change out until a look at the node finds nothing left to do.
  Done make_so() {
    std::int64_t pause = kFirstPauseNs;
    while (true) {
      if (change_.empty()) co_return co_await settle();
      const Result<void> done = co_await executor_.run(change_, state_);
      if (!done && !may_retry(done.error())) co_return done;
      if (!done) {
        talk().tell({ApplyEvent::Kind::retry, &change_, 0, to_string(done.error())});
        co_await talk().until(talk().now + pause);
        pause *= 2;
        ++report_.reconciles;
      }
      const Result<void> planned = co_await look_and_plan();
      if (!planned) co_return planned;
      const Result<void> noted = co_await note_matching();
      if (!noted) co_return noted;
      if (done && !change_.empty() && ++report_.reconciles > kMaxReconciles) {
        Error error{ErrorCode::environment,
                    "the node does not reach the wanted state: somebody else changes it", "node"};
        co_return failed(std::move(error));
      }
      if (!change_.blockers.empty()) co_return failed(blocked(change_.blockers, false));
    }
  }

  bool may_retry(const Error& error) const {
    return worth_retrying(error.code) && report_.reconciles < kMaxReconciles &&
           !executor_.waited_in_vain() && !talk().interrupted;
  }

  // Nothing is left to do: nothing is announced any more, segments of devices that are gone leave
  // the assignment, and what kept ones carry is brought up to date.
  Done settle() {
    const Result<void> adopted = co_await adopt();
    if (!adopted) co_return adopted;
    Assignment settled = book_.assignment;
    std::erase_if(settled.segments, [&](const AssignedSegment& one) {
      const device::GpuState* gpu = state_.find(one.gpu_uuid);
      const bool unseen = gpu != nullptr && gpu->lost;
      return !unseen && !is_there(state_, one.device);
    });
    for (std::size_t w = 0; w < wanted_.gpus.size(); ++w) {
      for (const WantedInstance& wanted : wanted_.gpus[w].instances) {
        for (AssignedSegment& one : settled.segments) {
          if (one.gpu_uuid == gpu_uuids_[w] && one.start == wanted.start)
            one.throughput_rps = wanted.segment.throughput_rps;
        }
      }
    }
    settled.services = services_amid(book_.services, settled);
    if (settled == book_.assignment) co_return {};
    co_return co_await book_.assign(settled);
  }

  Done end(const Result<void>& made) {
    const std::string reason = made ? "" : to_string(made.error());
    talk().tell({ApplyEvent::Kind::end, &change_, 0, reason});
    if (!book_.journal.pending()) co_return {};
    const Record record = EndRecord{book_.journal.transactions, made ? "done" : "failed", reason};
    co_return co_await book_.note(record);
  }

  const hw::Catalogue& catalogue_;
  const Wanted wanted_;
  const std::vector<std::string> devices_;
  ApplyOptions options_;
  Notebook book_;
  Executor executor_{book_, catalogue_, options_};
  device::NodeState state_;
  std::vector<std::string> gpu_uuids_;
  Change change_;
  ApplyReport report_;
  std::optional<Reported> flow_;  // last: it refers to all the others
};

NodeBrain::NodeBrain(Wanted wanted, ApplyOptions options, JournalState known,
                     const hw::Catalogue& catalogue)
    : work_(std::make_unique<Work>(std::move(wanted), options, std::move(known), catalogue)) {}
NodeBrain::NodeBrain(std::vector<std::string> devices, Seconds timeout,
                     const hw::Catalogue& catalogue)
    : work_(std::make_unique<Work>(std::move(devices), timeout, catalogue)) {}
NodeBrain::~NodeBrain() = default;

NodeActions NodeBrain::step(std::int64_t now, const std::vector<NodeEvent>& events) {
  Talk& talk = work_->talk();
  CHECK(!finished() && now >= talk.now);
  talk.now = now;
  for (const NodeEvent& event : events) {
    if (const auto* answered = std::get_if<Answered>(&event)) talk.answer = answered->answer;
    talk.interrupted = talk.interrupted || std::holds_alternative<Interrupted>(event);
  }
  const bool due = talk.wake && (now >= *talk.wake || talk.interrupted);
  if (!work_->begun) {
    work_->begun = true;
    work_->flow().begin();
  } else if (due || talk.answer) {
    talk.wake.reset();
    std::exchange(talk.waiting, nullptr).resume();
  }
  return {std::exchange(talk.told, {}), std::exchange(talk.question, std::nullopt)};
}

bool NodeBrain::finished() const { return work_->begun && work_->flow().done(); }
std::optional<std::int64_t> NodeBrain::next_wake() const { return work_->talk().wake; }
Result<ApplyReport> NodeBrain::result() const { return work_->flow().result(); }

}  // namespace partita::actuate
