// The node's power policy: a cap on its watts, clocks, and whose watts they are, as loop_work.h
// says.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "act/power_loop.h"
#include "control/loop_work.h"

namespace partita::control {
namespace {

constexpr double kLeastStepW = 1;             // that a limit is changed for
constexpr double kRoom = 1.1, kCoarseW = 10;  // see wanted_watts
constexpr std::int64_t kPowerRetryMs = 60'000;

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

}  // namespace

void Loop::Work::hear_power(const Seen& seen) {
  for (const PowerEnd& end : seen.power_ends) {
    const auto wanted = power_wanted_.find(end.uuid);
    if (end.outcome) {
      if (wanted != power_wanted_.end()) power_set_[end.uuid] = wanted->second;
      continue;
    }
    power_set_.erase(end.uuid);
    const Error& error = end.outcome.error();
    power_retry_ms_ = now_ + kPowerRetryMs;
    const bool denied = error.code == ErrorCode::denied;
    if (denied) power_denied_.insert(end.uuid);
    // A denial is told once, for all boards.
    tell(NoticeKind::other, denied ? "power_denied" : "power:" + to_string(error), end.uuid,
         denied
             ? "limits and clocks may not be set here, so they are left alone: " + to_string(error)
             : "limits and clocks could not be set; it is tried again: " + to_string(error));
  }
  if (!seen.power_back) return;
  if (*seen.power_back) {
    power_is_back();
    untell("power_back");
    return;
  }
  power_retry_ms_ = now_ + kPowerRetryMs;
  tell(NoticeKind::other, "power_back", "",
       "what GPUs had before their limits and clocks were set could not be put back; it is tried "
       "again: " +
           to_string(seen.power_back->error()));
}

void Loop::Work::power_is_back() {
  memory_.power_held = false;
  power_set_.clear();
  clocks_.clear();
}

// The segments of a GPU, all of them on instances that are there; nothing: others run there, too.
std::optional<std::vector<ClockedSegment>> Loop::Work::clocked_segments(
    const device::GpuState& gpu) const {
  std::vector<ClockedSegment> segments;
  for (const device::Instance& instance : gpu.instances) {
    const auto one = std::ranges::find_if(
        assignment_.segments,
        [&](const actuate::AssignedSegment& each) { return each.device == instance.uuid(); });
    if (one == assignment_.segments.end()) return std::nullopt;
    const auto service = std::ranges::find(services_, one->service, &plan::Service::name);
    if (service == services_.end() || one->processes > 1) return std::nullopt;
    double all = 0;
    for (const actuate::AssignedSegment& each : assignment_.segments)
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

// What a service asks for at the most until the next looks.
ClockedRate Loop::Work::clocked_rate(const std::string& service, bool gateway) const {
  if (!gateway) return {};
  const Meters::Reading reading = meters_.reading(service, local());
  if (!reading.rate) return {};
  const auto ahead =
      static_cast<std::int64_t>(2000 * std::max(1.0, world_.settings.look_s));  // two looks
  const auto forecast = meters_.forecast(service, local(), local() + ahead);
  return {std::max(*reading.rate, forecast ? forecast->high : 0.0), reading.p99_ms};
}

// The setting of a GPU by its services; nothing: its clock is the driver's.
std::optional<plan::Setting> Loop::Work::slo_setting(const device::GpuState& gpu, const Seen& seen,
                                                     bool poll) {
  const auto table = std::ranges::find(world_.power_tables, gpu.model, &plan::ResponseTable::gpu);
  const auto segments = clocked_segments(gpu);
  const auto several = std::ranges::find_if(assignment_.segments, [&](const auto& one) {
    return one.gpu_uuid == gpu.uuid && one.processes > 1;
  });
  if (several != assignment_.segments.end())
    tell(NoticeKind::other, "clock_processes:" + gpu.uuid, gpu.uuid,
         fmt::format("gpu {} runs as fast as it can: {} has {} processes on an instance, and "
                     "response tables know of one",
                     gpu.index, several->service, several->processes));
  else
    untell("clock_processes:" + gpu.uuid);
  if (under_ || !segments || segments->empty() || is_lent(gpu.uuid)) {
    clocks_.erase(gpu.uuid);
    return std::nullopt;
  }
  if (table == world_.power_tables.end()) {
    tell(NoticeKind::other, "clock:" + gpu.model, gpu.uuid,
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
      tell(NoticeKind::other, "clock:" + gpu.uuid, gpu.uuid,
           fmt::format("gpu {}: its clock is left alone: {}", gpu.index, to_string(made.error())));
      return std::nullopt;
    }
    untell("clock:" + gpu.uuid);
    known = clocks_.emplace(gpu.uuid, *std::move(made)).first;
    clock_setting_[gpu.uuid] = known->second.most();
  }
  if (!poll) return clock_setting_[gpu.uuid];
  std::vector<ClockedRate> rates;
  for (const ClockedSegment& one : *segments)
    rates.push_back(clocked_rate(one.service, seen.gateway));
  return clock_setting_[gpu.uuid] = known->second.decide(static_cast<double>(now_) / 1e3, rates);
}

std::optional<plan::Setting> Loop::Work::clock_of(const device::GpuState& gpu, const Seen& seen,
                                                  bool poll) {
  const PowerPolicy& policy = world_.settings.power;
  if (policy.clocks == Clocks::fixed) return plan::Setting{.clock = {policy.clock_mhz}};
  if (policy.clocks == Clocks::slo) return slo_setting(gpu, seen, poll);
  return std::nullopt;
}

// The limits of the boards under the cap; each its default where there is none.
std::vector<double> Loop::Work::capped(std::vector<PowerBoard>& boards) {
  const double cap = world_.settings.power.cap_w;
  std::vector<double> limits;
  double least = 0;
  for (const PowerBoard& board : boards) {
    limits.push_back(board.most);
    least += board.fixed ? board.now : board.least;
  }
  if (cap <= 0) return limits;
  if (least > cap)
    tell(NoticeKind::other, "power_cap", "",
         fmt::format("the limits of {} GPUs cannot be below {:.0f} W together, so the cap of "
                     "{:.0f} W does not hold",
                     boards.size(), least, cap));
  limits = split_power(boards, cap);
  for (std::size_t b = 0; b < boards.size(); ++b)
    if (!boards[b].fixed && limits[b] + kLeastStepW <= std::min(boards[b].now, boards[b].most) &&
        (boards[b].wants <= 0 || limits[b] < boards[b].wants))
      tell(NoticeKind::other, "power_lowered", "",
           fmt::format("GPUs are limited to keep {:.0f} W together; services may be slower than "
                       "their profiles say",
                       cap));
  return limits;
}

void Loop::Work::set_power(const Seen& seen) {
  const PowerPolicy& policy = world_.settings.power;
  if (!node_known_ || now_ < power_retry_ms_) return;
  if (!policy.sets() || mode() == Mode::observe) {
    deeds_.power_back = memory_.power_held;
    return;
  }
  const bool poll = now_ >= clocks_ms_;
  if (poll) clocks_ms_ = now_ + static_cast<std::int64_t>(world_.settings.look_s * 1000);
  std::vector<PowerBoard> boards = seen.power;
  std::vector<std::optional<plan::Setting>> clocks;
  for (PowerBoard& board : boards) {
    const device::GpuState* gpu = state_.find(board.uuid);
    board.used = gpu != nullptr && (!gpu->instances.empty() || is_lent(board.uuid) ||
                                    (memory_.target && target_uses(*memory_.target, board.uuid)));
    board.fixed = power_denied_.contains(board.uuid);
    clocks.push_back(gpu == nullptr || board.fixed ? std::nullopt : clock_of(*gpu, seen, poll));
    board.wants = wanted_watts(seen, board.uuid, clocks.back());
  }
  const std::vector<double> limits = capped(boards);
  for (std::size_t b = 0; b < boards.size(); ++b) want_power(boards[b], clocks[b], limits[b]);
  // First down, then up: the sum never goes above what it was or shall be.
  std::ranges::stable_sort(deeds_.power, {}, [](const PowerDeed& deed) {
    return deed.settings.limit.value_or(deed.before) - deed.before;
  });
}

void Loop::Work::want_power(const PowerBoard& board, const std::optional<plan::Setting>& clock,
                            double limit) {
  if (board.fixed) return;
  device::PowerSettings wanted;
  if (clock) wanted = actuate::on_board(*clock, board.state);
  const double most = clock && clock->cap ? std::min(wanted.limit->value, limit) : limit;
  wanted.limit = Watts{std::max(most, board.least)};
  device::PowerSettings now = board.state.now;
  const auto set = power_set_.find(board.uuid);
  if (!board.state.clocks_told)
    now.clocks = set == power_set_.end() ? std::nullopt : set->second.clocks;
  // Where the driver tells no clocks, what an agent before this one has set is not known.
  const bool unsure = !board.state.clocks_told && set == power_set_.end() && memory_.power_held;
  if (!unsure && same_limit(now.limit, wanted.limit) && now.clocks == wanted.clocks) return;
  memory_.power_held = true;
  power_wanted_[board.uuid] = wanted;
  deeds_.power.push_back({board.index, board.uuid, wanted, Watts{board.now}});
}

// Whose joules the boards take: services by their instances, batches by the GPUs that they have.
void Loop::Work::see_energy(const Seen& seen) {
  if (!seen.sample || !node_known_) return;
  energy::Tenancy tenancy;
  for (const actuate::AssignedSegment& one : assignment_.segments)
    tenancy.tenures.push_back(
        {.service = one.service, .device = one.device, .gpu_uuid = one.gpu_uuid});
  for (const device::GpuState& gpu : state_.gpus)
    if (is_lent(gpu.uuid))
      for (const device::Instance& instance : gpu.instances)
        tenancy.tenures.push_back(
            {.service = kBatchTenant, .device = instance.uuid(), .gpu_uuid = gpu.uuid});
  energy_.see(*seen.sample, tenancy);
}

}  // namespace partita::control
