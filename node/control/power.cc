#include "control/power.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "act/power_loop.h"
#include "control/planning.h"

namespace partita::control {
namespace {

constexpr double kLeastStepW = 1;             // that a limit is changed for
constexpr double kRoom = 1.1, kCoarseW = 10;  // see wanted_watts
constexpr std::int64_t kRetryMs = 5'000;      // of a board; meanwhile the others give way to it
constexpr std::int64_t kRetryBackMs = 60'000;

// What a board draws now and a little more, in coarse steps so that limits move seldom; at most
// what it can draw at its setting. 0: not known.
double wanted_watts(const Seen& seen, const std::string& uuid,
                    const std::optional<plan::Setting>& setting) {
  const double most = setting && setting->cap ? std::ceil(setting->cap->value) : 0;
  if (!seen.sample) return most;
  const auto& gpus = seen.sample->gpus;
  const auto sample = std::ranges::find(gpus, uuid, &telemetry::GpuSample::uuid);
  if (sample == gpus.end() || !sample->power) return most;
  const double watts = std::ceil(sample->power->value * kRoom / kCoarseW) * kCoarseW;
  return most > 0 ? std::min(watts, most) : watts;
}

bool same_limit(const std::optional<Watts>& a, const std::optional<Watts>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return std::abs(a->value - b->value) < kLeastStepW;
}

// The segments of a GPU, all of them on instances that are there; nothing: others run there, too.
std::optional<std::vector<ClockedSegment>> clocked_segments(
    const std::vector<actuate::AssignedSegment>& assigned,
    const std::vector<plan::Service>& services, const device::GpuState& gpu) {
  std::vector<ClockedSegment> segments;
  for (const device::Instance& instance : gpu.instances) {
    const auto one = std::ranges::find_if(assigned, [&](const actuate::AssignedSegment& each) {
      return each.device == instance.uuid();
    });
    if (one == assigned.end()) return std::nullopt;
    const auto service = std::ranges::find(services, one->service, &plan::Service::name);
    if (service == services.end() || one->processes > 1) return std::nullopt;
    double all = 0;
    for (const actuate::AssignedSegment& each : assigned)
      if (each.service == one->service) all += each.throughput_rps;
    ClockedSegment& segment = segments.emplace_back();
    segment.device = one->device;
    segment.service = one->service;
    segment.model = service->model;
    segment.gpcs = gpcs_of_profile(instance.profile);
    segment.batch = one->batch;
    segment.share = all > 0 ? one->throughput_rps / all : 1;
    segment.slo_ms = service->slo.value;
    segment.percentile = service->percentile;
  }
  return segments;
}

}  // namespace

void Power::hear(const Seen& seen, std::int64_t now_ms) {
  for (const PowerEnd& end : seen.power_ends) {
    const auto wanted = wanted_.find(end.uuid);
    if (end.outcome) {
      retry_ms_.erase(end.uuid);
      if (wanted != wanted_.end()) set_[end.uuid] = wanted->second;
      continue;
    }
    set_.erase(end.uuid);
    const Error& error = end.outcome.error();
    retry_ms_[end.uuid] = now_ms + kRetryMs;
    const bool denied = error.code == ErrorCode::denied;
    if (denied) denied_.insert(end.uuid);
    // A denial is told once, for all boards.
    report_.tell(
        NoticeKind::other, denied ? "power_denied" : "power:" + to_string(error), end.uuid,
        denied
            ? "limits and clocks may not be set here, so they are left alone: " + to_string(error)
            : "limits and clocks could not be set; it is tried again: " + to_string(error));
  }
  if (!seen.power_back) return;
  if (*seen.power_back) {
    is_back();
    report_.over("power_back");
    return;
  }
  retry_back_ms_ = now_ms + kRetryBackMs;
  report_.tell(
      NoticeKind::other, "power_back", "",
      "what GPUs had before their limits and clocks were set could not be put back; it is tried "
      "again: " +
          to_string(seen.power_back->error()));
}

void Power::is_back() {
  held_ = false;
  set_.clear();
  clocks_.clear();
}

// The setting of a GPU by its services; nothing: its clock is the driver's.
std::optional<plan::Setting> Power::slo_setting(const Ground& ground, const device::GpuState& gpu,
                                                bool poll) {
  const auto table = std::ranges::find(world_.power_tables, gpu.model, &plan::ResponseTable::gpu);
  const auto& assigned = ground.node.assignment.segments;
  const auto segments = clocked_segments(assigned, ground.services, gpu);
  const auto several = std::ranges::find_if(
      assigned, [&](const auto& one) { return one.gpu_uuid == gpu.uuid && one.processes > 1; });
  if (several != assigned.end())
    report_.tell(
        NoticeKind::other, "clock_processes:" + gpu.uuid, gpu.uuid,
        fmt::format("gpu {} runs as fast as it can: {} has {} processes on an instance, and "
                    "response tables know of one",
                    gpu.index, several->service, several->processes));
  else
    report_.over("clock_processes:" + gpu.uuid);
  if (ground.changes || !segments || segments->empty() || ground.node.lent.contains(gpu.uuid)) {
    clocks_.erase(gpu.uuid);
    return std::nullopt;
  }
  if (table == world_.power_tables.end()) {
    report_.tell(
        NoticeKind::other, "clock:" + gpu.model, gpu.uuid,
        fmt::format("there is no response table of {}, so its clocks are left alone", gpu.model));
    return std::nullopt;
  }
  auto known = clocks_.find(gpu.uuid);
  if (known == clocks_.end() || known->second.segments() != *segments) {
    const PowerPolicy& policy = world_.settings.power;
    auto made = GpuClock::make(*table, *segments,
                               {.poll_s = world_.settings.look_s,
                                .headroom = policy.headroom,
                                .memory_s = policy.memory_s});
    clocks_.erase(gpu.uuid);
    if (!made) {
      report_.tell(
          NoticeKind::other, "clock:" + gpu.uuid, gpu.uuid,
          fmt::format("gpu {}: its clock is left alone: {}", gpu.index, to_string(made.error())));
      return std::nullopt;
    }
    report_.over("clock:" + gpu.uuid);
    known = clocks_.emplace(gpu.uuid, *std::move(made)).first;
    clock_setting_[gpu.uuid] = known->second.most();
  }
  if (!poll) return clock_setting_[gpu.uuid];
  std::vector<ClockedRate> rates;
  for (const ClockedSegment& one : *segments) {
    const auto known_rate = ground.rates.find(one.service);
    rates.push_back(known_rate == ground.rates.end() ? ClockedRate{} : known_rate->second);
  }
  return clock_setting_[gpu.uuid] =
             known->second.decide(static_cast<double>(ground.now_ms) / 1e3, rates);
}

std::optional<plan::Setting> Power::clock_of(const Ground& ground, const device::GpuState& gpu,
                                             bool poll) {
  const PowerPolicy& policy = world_.settings.power;
  if (policy.clocks == Clocks::fixed) return plan::Setting{.clock = {policy.clock_mhz}};
  if (policy.clocks == Clocks::slo) return slo_setting(ground, gpu, poll);
  return std::nullopt;
}

// The limits of the boards under the cap; each its default where there is none.
std::vector<double> Power::capped(const std::vector<PowerBoard>& boards,
                                  const std::optional<double>& budget) {
  double cap = world_.settings.power.cap_w;
  if (budget) cap = std::max(1.0, cap > 0 ? std::min(cap, *budget) : *budget);
  std::vector<double> limits;
  double least = 0;
  for (const PowerBoard& board : boards) {
    limits.push_back(board.most);
    least += board.fixed ? board.now : board.least;
  }
  if (cap <= 0) return limits;
  if (least > cap)
    report_.tell(
        NoticeKind::other, "power_cap", "",
        fmt::format("the limits of {} GPUs cannot be below {:.0f} W together, so the cap of "
                    "{:.0f} W does not hold",
                    boards.size(), least, cap));
  limits = split_power(boards, cap);
  for (std::size_t b = 0; b < boards.size(); ++b)
    if (!boards[b].fixed && limits[b] + kLeastStepW <= std::min(boards[b].now, boards[b].most) &&
        (boards[b].wants <= 0 || limits[b] < boards[b].wants))
      report_.tell(
          NoticeKind::other, "power_lowered", "",
          fmt::format("GPUs are limited to keep {:.0f} W together; services may be slower than "
                      "their profiles say",
                      cap));
  return limits;
}

Power::Deeds Power::look(const Ground& ground) {
  const PowerPolicy& policy = world_.settings.power;
  if (!ground.node.known) return {};
  if ((!policy.sets() && !ground.seen.budget_w) || ground.mode == Mode::observe)
    return {{}, held_ && ground.now_ms >= retry_back_ms_};
  const bool poll = ground.now_ms >= next_poll_ms_;
  if (poll)
    next_poll_ms_ = ground.now_ms + static_cast<std::int64_t>(world_.settings.look_s * 1000);
  std::vector<PowerBoard> boards = ground.seen.power;
  std::vector<std::optional<plan::Setting>> clocks;
  for (PowerBoard& board : boards) {
    const device::GpuState* gpu = ground.node.state.find(board.uuid);
    board.used =
        gpu != nullptr && (!gpu->instances.empty() || ground.node.lent.contains(board.uuid) ||
                           (ground.target && ground.target->uses(board.uuid)));
    const auto retry = retry_ms_.find(board.uuid);
    board.fixed = board.fixed || denied_.contains(board.uuid) ||
                  (retry != retry_ms_.end() && ground.now_ms < retry->second);
    clocks.push_back(gpu == nullptr || board.fixed ? std::nullopt : clock_of(ground, *gpu, poll));
    board.wants = wanted_watts(ground.seen, board.uuid, clocks.back());
  }
  const std::vector<double> limits = capped(boards, ground.seen.budget_w);
  Deeds deeds;
  for (std::size_t b = 0; b < boards.size(); ++b)
    if (auto deed = deed_of(boards[b], clocks[b], limits[b])) deeds.set.push_back(*std::move(deed));
  // First down, then up: the sum never goes above what it was or shall be.
  std::ranges::stable_sort(deeds.set, {}, [](const PowerDeed& deed) {
    return deed.settings.limit.value_or(deed.before) - deed.before;
  });
  return deeds;
}

// Nothing: the board is as it shall be.
std::optional<PowerDeed> Power::deed_of(const PowerBoard& board,
                                        const std::optional<plan::Setting>& clock, double limit) {
  if (board.fixed) return {};
  device::PowerSettings wanted;
  if (clock) wanted = actuate::on_board(*clock, board.state);
  const double most = clock && clock->cap ? std::min(wanted.limit->value, limit) : limit;
  wanted.limit = Watts{std::max(most, board.least)};
  device::PowerSettings now = board.state.now;
  const auto set = set_.find(board.uuid);
  if (!board.state.clocks_told) now.clocks = set == set_.end() ? std::nullopt : set->second.clocks;
  // Where the driver tells no clocks, what an agent before this one has set is not known.
  const bool unsure = !board.state.clocks_told && set == set_.end() && held_;
  if (!unsure && same_limit(now.limit, wanted.limit) && now.clocks == wanted.clocks) return {};
  held_ = true;
  wanted_[board.uuid] = wanted;
  return PowerDeed{board.index, board.uuid, wanted, Watts{board.now}};
}

}  // namespace partita::control
