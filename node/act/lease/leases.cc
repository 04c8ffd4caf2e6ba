#include "act/lease/leases.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/cases.h"
#include "base/check.h"

namespace partita::lease {
namespace {

using State = LeaseRecord::State;

constexpr std::size_t kStale = 48;  // records beside those that stand, before it is written anew
constexpr int kStepsOfLease = 16, kMostTries = 256;

// Of a step that touches the GPU: which, and for which lease.
struct Touch {
  long lease = 0;
  int gpu = 0;
};
std::optional<Touch> touch_of(const Step& step) {
  return std::visit(Cases{[](const Note&) { return std::optional<Touch>(); },
                          [](const Granted&) { return std::optional<Touch>(); },
                          [](const Refused&) { return std::optional<Touch>(); },
                          [](const Error&) { return std::optional<Touch>(); },
                          [](const auto& one) {
                            return std::optional(Touch{one.lease, one.gpu});
                          }},
                    step);
}

std::set<long> ended_of(Processes& processes, const StandingLeases& standing) {
  std::set<long> ended;
  for (const auto& [number, lease] : standing.leases)
    if (lease.terms.pid > 0 && processes.identity(lease.terms.pid) != lease.terms.identity)
      ended.insert(number);
  return ended;
}

// The node as it is, without what boards offer.
Known known_of(const LeaseDoors& doors, const StandingLeases& standing, device::NodeState node) {
  Known known{.boards = {}, .standing = standing, .now_ms = doors.wall_ms()};
  known.closed = doors.closed;
  known.ended = ended_of(doors.processes, standing);
  for (device::GpuState& gpu : node.gpus) {
    auto model = model_of(gpu, {}, &doors.catalogue);
    known.boards.push_back({std::move(gpu), std::move(model), {}});
  }
  return known;
}

Result<void> add_offers(device::NodeDriver& driver, const hw::Catalogue& catalogue, Board& board) {
  if (!board.gpu.mig_enabled || board.gpu.lost || !board.profiles.empty()) return {};
  board.profiles = TRY(driver.profiles(board.gpu.index));
  board.model = model_of(board.gpu, board.profiles, &catalogue);
  return {};
}

Result<StandingLeases> leases_in(Files& files, const std::string& path) {
  if (path.empty() || !files.exists(path)) return StandingLeases{};
  const std::string text = TRY(files.read(path));
  return parse_leases(path, text);
}

}  // namespace

std::vector<Lease> leases_of(const Known& known) {
  std::vector<Lease> all;
  for (const auto& [number, record] : known.standing.leases) {
    Lease& lease = all.emplace_back();
    lease.owner = record.owner;
    lease.gpu_uuid = record.gpu;
    lease.profile = record.profile;
    lease.start = record.start;
    lease.since_ms = record.since_ms;
    lease.terms = record.terms;
    lease.gpu = -1;
    lease.expired = known.ended.contains(number) ||
                    (record.terms.until_ms > 0 && record.terms.until_ms <= known.now_ms);
    for (const Board& board : known.boards) {
      if (board.gpu.uuid != record.gpu) continue;
      lease.gpu = board.gpu.index;
      const device::Instance* const there = instance_of(board.gpu, record);
      if (there == nullptr || there->compute.empty() || record.state != State::made) break;
      lease.uuid = record.device;
      lease.gi_id = there->gi_id;
      lease.ci_id = there->compute.front().ci_id;
      lease.busy = std::ranges::any_of(there->holders,
                                       [](const device::Holder& one) { return !one.is_lease(); });
    }
  }
  return all;
}

Result<std::vector<Lease>> read_leases(const LeaseDoors& doors, const std::string& path,
                                       device::NodeState node) {
  const StandingLeases standing = TRY(leases_in(doors.files, path));
  return leases_of(known_of(doors, standing, std::move(node)));
}

Result<std::vector<Lease>> read_leases(const LeaseDoors& doors, const std::string& path) {
  device::NodeState node = TRY(device::read_node(doors.driver));
  return read_leases(doors, path, std::move(node));
}

Result<Leases> Leases::open(LeaseDoors doors, const std::string& path) {
  Leases leases(std::move(doors));
  if (path.empty()) return leases;
  RecordLog log = TRY(RecordLog::open(leases.doors_.files, path, kLeaseLogKind));
  StandingLeases standing = TRY(standing_leases(path, log.found()));
  leases.log_ = std::move(log);
  leases.standing_ = std::move(standing);
  if (leases.log_->found().records.size() > kStale + leases.standing_.leases.size()) {
    std::vector<std::string> records;
    for (const auto& [number, lease] : leases.standing_.leases)
      records.push_back(lease_record_text(lease));
    TRY(leases.log_->replace(records));
  }
  return leases;
}

// Records have to outlive this process, not the machine: no instance outlives that, and a lease
// whose instance is gone is ended by whoever looks. So none is synced by itself. A log that is
// written anew is, so that an end of the machine finds little to damage.
Result<void> Leases::write(const LeaseRecord& record) {
  const std::vector<std::string> texts = {lease_record_text(record)};
  if (log_)
    TRY(record.state == State::intended ? log_->announce_unsynced(texts)
                                        : log_->append_unsynced(texts));
  standing_.last = std::max(standing_.last, record.lease);
  if (record.state == State::gone)
    standing_.leases.erase(record.lease);
  else
    standing_.leases[record.lease] = record;
  return {};
}

// What a board offers is asked only where an instance may have to be made, or nobody knows it.
Result<Known> Leases::look(const Ask& ask) {
  device::NodeState node = TRY(device::read_node(doors_.driver));
  Known known = known_of(doors_, standing_, std::move(node));
  const auto* take = std::get_if<Take>(&ask);
  const LeaseRecord* const has = take == nullptr ? nullptr : standing_.of(take->owner);
  const bool makes = take != nullptr && (has == nullptr || has->state != State::made);
  for (Board& board : known.boards) {
    const bool may_be_there = makes && take->gpu.value_or(board.gpu.index) == board.gpu.index;
    if (!may_be_there && doors_.catalogue.find(board.gpu.model) != nullptr) continue;
    TRY(add_offers(doors_.driver, doors_.catalogue, board));
  }
  return known;
}

Result<void> Leases::perform(const Step& step, Known& known) {
  device::NodeDriver& driver = doors_.driver;
  const auto plain = [](const auto& result) -> Result<void> {
    return result ? Result<void>{} : failed(result.error());
  };
  const Result<void> done = std::visit(
      Cases{
          [&](const Note& one) { return write(one.record); },
          [&](const Create& one) { return plain(driver.create_instance(one.gpu, one.placement)); },
          [&](const CreateCompute& one) {
            return plain(driver.create_compute(one.gpu, one.gi_id));
          },
          [&](const DestroyCompute& one) {
            return driver.destroy_compute(one.gpu, one.gi_id, one.ci_id);
          },
          [&](const DestroyInstance& one) { return driver.destroy_instance(one.gpu, one.gi_id); },
          [](const auto&) { return Result<void>{}; }},
      step);
  known.standing = standing_;
  const std::optional<Touch> touched = touch_of(step);
  if (!touched) return done;
  for (Board& board : known.boards) {
    if (board.gpu.index != touched->gpu) continue;
    Result<device::GpuState> state = driver.read(touched->gpu);
    if (!state) return done ? Result<void>(failed(state.error())) : done;
    board.gpu = *std::move(state);
  }
  return done;
}

// A place that is taken is one of several; a lease that cannot go on is left to whoever comes next.
// What cannot be made for who asks now is taken back, and that is the answer.
void Leases::failed_at(const Step& step, const Error& error, const Ask& ask, Known& known) {
  const std::optional<Touch> touched = touch_of(step);
  CHECK(touched);
  const auto found = standing_.leases.find(touched->lease);
  CHECK(found != standing_.leases.end());
  LeaseRecord record = found->second;
  if (std::holds_alternative<Create>(step) && error.code == ErrorCode::no_room) {
    known.taken.insert({record.gpu, record.start});
    return;
  }
  if (error.code == ErrorCode::not_found) return;  // it was read anew
  const auto* take = std::get_if<Take>(&ask);
  const bool makes =
      std::holds_alternative<Create>(step) || std::holds_alternative<CreateCompute>(step);
  if (makes && take != nullptr && take->owner == record.owner) {
    failure_ = error;
    record.state = State::returning;
    if (auto written = write(record); written) {
      known.standing = standing_;
      return;
    }
  }
  known.stuck.insert(record.lease);
}

Result<Outcome> Leases::ask(const Ask& asked) {
  Ask ask = asked;
  Known known = TRY(look(ask));
  failure_.reset();
  Outcome outcome;
  const std::size_t most = kMostTries + kStepsOfLease * (standing_.leases.size() + 1);
  for (std::size_t n = 0; n < most; ++n) {
    const Step step = next_step(known, ask);
    if (const auto* error = std::get_if<Error>(&step)) return failed(*error);
    if (const auto* no = std::get_if<Refused>(&step)) {
      outcome.refused = *no;
      return outcome;
    }
    if (const auto* granted = std::get_if<Granted>(&step)) {
      if (failure_) return failed(*failure_);
      std::vector<Lease> all = leases_of(known);
      std::size_t at = 0;
      for (const auto& [number, record] : known.standing.leases) {
        const bool meant = std::ranges::count(granted->leases, number) > 0;
        if (meant || std::holds_alternative<Sweep>(ask)) outcome.leases.push_back(all[at]);
        ++at;
      }
      return outcome;
    }
    if (const auto* note = std::get_if<Note>(&step); note != nullptr)
      if (note->record.state == State::gone) outcome.returned.push_back(note->record.owner);
    if (const Result<void> done = perform(step, known); !done) {
      if (!touch_of(step)) return failed(done.error());  // the log cannot be written
      failed_at(step, done.error(), ask, known);
      if (failure_) ask = Sweep{};
    }
  }
  return failed({ErrorCode::environment, "the GPUs of this node do not stay as they are made", ""});
}

}  // namespace partita::lease
