#include "control/sim/sim_crews.h"

#include <algorithm>
#include <utility>

#include "control/sim/sim_node.h"

namespace partita::control {
namespace {

constexpr std::int64_t kCrewSecond = 1'000'000'000;

// What a model carries at a clock against what it carries at the highest one, by the widest row of
// its smallest batch; between clocks as straight lines, below the lowest in proportion.
double speed_at(const plan::ResponseTable& table, const std::string& name, Mhz clock) {
  const plan::ModelResponse* model = table.find(name);
  if (model == nullptr) return 1;
  std::map<double, double> rates;  // by clock
  for (const plan::PowerPoint& point : model->points)
    if (point.units == table.units() && !rates.contains(point.clock.value))
      rates[point.clock.value] = point.max_rate.value;
  const double top = rates.rbegin()->second;
  const auto above = rates.lower_bound(clock.value);
  if (above == rates.end()) return 1;
  if (above == rates.begin())
    return above->second / top * std::min(1.0, clock.value / above->first);
  const auto below = std::prev(above);
  const double at = (clock.value - below->first) / (above->first - below->first);
  return (below->second + at * (above->second - below->second)) / top;
}

}  // namespace

SimCrews::SimCrews(const SimSites& sites, SimBoards& boards, MemoryFiles& disk, Rng& rng)
    : sites_(sites), boards_(boards), disk_(disk), rng_(rng) {}

std::int64_t SimCrews::later(std::int64_t now_ns, double least_s, double spread_s) {
  return now_ns + static_cast<std::int64_t>((least_s + spread_s * rng_.uniform()) * kCrewSecond);
}

std::optional<std::size_t> SimCrews::service_of(const Crew& crew) const {
  for (std::size_t s = 0; s < sites_.services.size(); ++s)
    if (sites_.services[s].wanted.name == crew.segment.service) return s;
  return std::nullopt;
}

// Full batches back to back, as measured.
double SimCrews::most_rps(const actuate::AssignedSegment& segment) const {
  const auto service = service_of({.segment = segment});
  if (!service) return segment.throughput_rps;
  for (const plan::FleetEntry& entry : sites_.profiles) {
    const auto profile =
        std::ranges::find(entry.gpu.profiles, segment.profile, &hw::MigProfile::name);
    const auto table = entry.profiles.find(sites_.services[*service].wanted.model);
    if (profile == entry.gpu.profiles.end() || table == entry.profiles.end()) continue;
    const auto* point =
        profile::find_point(table->second, profile->gpcs, segment.batch, segment.processes);
    if (point != nullptr) return point->throughput.value;
  }
  return segment.throughput_rps;
}

void SimCrews::follow(std::int64_t now_ns) {
  const auto found = disk_.content.find(actuate::assignment_path(SimNode::kDir));
  if (found == disk_.content.end() || found->second == followed_) return;
  auto assignment = actuate::parse_assignment(found->first, found->second);
  if (!assignment) return;  // the last good one stays in force
  followed_ = found->second;
  followed_assignment_ = *assignment;
  if (supervised_) supervised_revision_ = assignment->revision;
  for (auto& [device, crew] : crews_) {
    const auto same =
        std::ranges::find(assignment->segments, device, &actuate::AssignedSegment::device);
    // As the supervisor of workers: what a segment is planned to carry is no reason to restart.
    const auto work_of = [](actuate::AssignedSegment segment) {
      segment.throughput_rps = 0;
      return segment;
    };
    const bool stays =
        same != assignment->segments.end() && work_of(*same) == work_of(crew.segment);
    if (stays) crew.segment.throughput_rps = same->throughput_rps;
    if (!stays && !crew.leave_ns) crew.leave_ns = later(now_ns, 0.5, 1.5);
  }
  for (const actuate::AssignedSegment& segment : assignment->segments) {
    const auto [place, fresh] = crews_.try_emplace(segment.device);
    if (fresh) {
      place->second.segment = segment;
      place->second.most = most_rps(segment);
    }
  }
  settle(now_ns);
}

void SimCrews::start(std::int64_t now_ns, const std::string& device, Crew& crew) {
  if (boards_.gpu_of(device)) {
    crew.pid = next_pid_++;
    if (!boards_.hold(device, crew.pid, "worker")) crew.pid = 0;
  }
  crew.ready_ns = later(now_ns, 10, 20);
}

bool SimCrews::may_start(std::int64_t now_ns, const std::string& device, const Crew& crew) const {
  if (!supervised_ || crew.start_ns > now_ns) return false;
  const auto place = std::distance(crews_.begin(), crews_.find(device));
  return !kept_down || !kept_down(crew.segment.service, place);
}

void SimCrews::end(std::int64_t now_ns, Crew& crew) {
  if (crew.pid == 0) return;
  boards_.let_go(crew.pid);
  crew.pid = 0;
  crew.start_ns = now_ns + kCrewSecond;
}

void SimCrews::end(std::int64_t now_ns, const Which& which) {
  long place = 0;
  for (auto& [device, crew] : crews_)
    if (which(crew.segment.service, place++)) end(now_ns, crew);
}

std::optional<std::string> SimCrews::end_any(std::int64_t now_ns) {
  if (crews_.empty()) return std::nullopt;
  const auto victim = std::next(crews_.begin(), static_cast<long>(rng_.below(crews_.size())));
  if (victim->second.pid == 0) return std::nullopt;
  end(now_ns, victim->second);
  return victim->first;
}

void SimCrews::stop() {
  for (auto& [device, crew] : crews_) crew.pid = 0;
}

void SimCrews::settle(std::int64_t now_ns) {
  bool gone = false;
  for (auto it = crews_.begin(); it != crews_.end();) {
    Crew& crew = it->second;
    const bool there = boards_.gpu_of(it->first).has_value();
    if (crew.pid != 0 && !there) crew.pid = 0;
    if (crew.leave_ns && (*crew.leave_ns <= now_ns || crew.pid == 0)) {
      if (crew.pid != 0) boards_.let_go(crew.pid);
      it = crews_.erase(it);
      gone = true;
      continue;
    }
    if (crew.pid == 0 && there && may_start(now_ns, it->first, crew))
      start(now_ns, it->first, crew);
    ++it;
  }
  if (!gone) return;
  followed_.clear();  // another segment may have waited for the device
  follow(now_ns);
}

std::optional<std::int64_t> SimCrews::next(std::int64_t now_ns) const {
  std::optional<std::int64_t> next;
  const auto at = [&](std::int64_t time) { next = std::min(next.value_or(time), time); };
  for (const auto& [device, crew] : crews_) {
    if (crew.leave_ns) at(*crew.leave_ns);
    if (crew.pid != 0 && crew.ready_ns > now_ns) at(crew.ready_ns);
    if (crew.pid == 0 && crew.start_ns > now_ns) at(crew.start_ns);
  }
  return next;
}

void SimCrews::pace(std::int64_t now_ns, const std::vector<double>& rates) {
  if (sites_.tables.empty()) return;
  for (auto& [device, crew] : crews_) {
    if (!crew.serves(now_ns)) continue;
    const std::optional<int> gpu = boards_.gpu_of(device);
    const auto service = service_of(crew);
    if (!gpu || !service) continue;
    const std::string& model = boards_.model_of(*gpu);
    const auto table = std::ranges::find(sites_.tables, model, &plan::ResponseTable::gpu);
    if (table == sites_.tables.end()) continue;
    const auto sample = boards_.driver().telemetry(*gpu);
    if (!sample || !sample->sm_clock) continue;
    const double all = ready_rps(now_ns, *service);
    const double share = all > 0 ? crew.segment.throughput_rps / all : 1;
    crew.speed = speed_at(*table, sites_.services[*service].wanted.model, *sample->sm_clock);
    const double busy = std::min(1.0, rates[*service] * share / (crew.most * crew.speed));
    CHECK(boards_.hold(device, crew.pid, "worker", busy));
  }
}

ReadyRates SimCrews::ready(std::int64_t now_ns, std::size_t service) const {
  ReadyRates sum;
  for (const auto& [device, crew] : crews_) {
    if (!crew.serves(now_ns) || service_of(crew) != service) continue;
    sum.planned += crew.segment.throughput_rps * crew.speed;
    sum.most += crew.most * crew.speed;
  }
  return sum;
}

double SimCrews::ready_rps(std::int64_t now_ns, std::size_t service) const {
  double sum = 0;
  for (const auto& [device, crew] : crews_)
    if (crew.serves(now_ns) && service_of(crew) == service) sum += crew.segment.throughput_rps;
  return sum;
}

std::map<std::string, double> SimCrews::tell(std::int64_t now_ns,
                                             actuate::GatewayState& state) const {
  std::map<std::string, double> capacity;
  for (const auto& [device, crew] : crews_) {
    if (crew.pid == 0 || crew.ready_ns > now_ns) continue;
    if (!crew.leave_ns) capacity[crew.segment.service] += crew.most;
    for (int index = 0; index < crew.segment.processes; ++index)
      state.workers.push_back(
          {device, index, crew.segment.service, crew.pid,
           crew.leave_ns ? actuate::WorkerReadiness::leaving : actuate::WorkerReadiness::ready,
           0.1});
  }
  return capacity;
}

actuate::Assignment SimCrews::assignment() const {
  const auto text = disk_.content.find(actuate::assignment_path(SimNode::kDir));
  if (text != disk_.content.end() && text->second == followed_) return followed_assignment_;
  auto read = actuate::read_assignment(disk_, SimNode::kDir);
  CHECK(read.has_value());
  return *std::move(read);
}

void SimCrews::supervise(Processes& processes) {
  const auto pid = processes.start({.argv = {"partita", "workers"}});
  CHECK(pid.has_value());
  supervisor_ = {*pid, processes.identity(*pid)};
  supervised_ = true;
  supervised_revision_ = followed_assignment_.revision;
}

// Its workers are not told one by one: crews are.
std::string SimCrews::workers_text() const {
  return actuate::workers_json({supervised_revision_, supervisor_, {}});
}

}  // namespace partita::control
