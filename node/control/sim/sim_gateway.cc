#include "control/sim/sim_gateway.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"

namespace partita::control {
namespace {

long whole(double count) { return static_cast<long>(std::floor(count)); }

std::vector<plan::Service> wanted_of(const std::vector<SimService>& services) {
  std::vector<plan::Service> wanted;
  for (const SimService& one : services) wanted.push_back(one.wanted);
  return wanted;
}

}  // namespace

double attained(double rate, double planned, double most, double percentile) {
  if (rate <= 0) return 1;
  if (planned <= 0) return 0;
  const double late = std::clamp(1 - percentile / 100, 1e-9, 1.0);
  const double full = std::max(most, planned * 1.05);
  const double idle = (full - rate) / (full - planned);  // 1 at the planned rate
  const double in_time = idle <= 0 ? 0 : 1 - std::pow(late, idle);
  // Above, a gateway that sheds keeps what was promised for as many as were planned.
  return std::max(in_time, rate > planned ? (1 - late) * planned / rate : 0.0);
}

SimGateway::SimGateway(const SimSites& sites, const SimCrews& crews)
    : sites_(sites),
      crews_(crews),
      steps_(step_requests(wanted_of(sites.services))),
      tallies_(sites.services.size()),
      counted_(sites.services.size()),
      recent_(sites.services.size()) {}

void SimGateway::start(Processes& processes, std::int64_t now_ns) {
  const auto pid = processes.start({.argv = {"partita", "gateway"}});
  CHECK(pid.has_value());
  pid_ = *pid;
  identity_ = processes.identity(pid_);
  hung_.reset();
  std::ranges::fill(counted_, SimTally{});
  for (actuate::RecentRequests& one : recent_) {
    one = {};
    one.note(static_cast<double>(now_ns) * 1e-9, {});
  }
}

void SimGateway::end(SimProcesses& processes) {
  if (pid_ != 0) processes.crash(pid_, 1);
  pid_ = 0;
  hung_.reset();
}

void SimGateway::hang(std::int64_t now_ns) {
  if (pid_ != 0) hung_ = state(now_ns);
}

ReadyRates SimGateway::ready(std::int64_t now_ns, std::size_t service,
                             const std::vector<double>& rates) const {
  if (!sites_.services[service].wanted.pipeline) return crews_.ready(now_ns, service);
  std::optional<ReadyRates> tightest;
  for (const StepRequests& one : steps_) {
    if (one.pipeline != service || rates[one.step] <= 0) continue;
    const double part = rates[service] / rates[one.step];
    const ReadyRates ready = crews_.ready(now_ns, one.step);
    if (!tightest || ready.planned * part < tightest->planned)
      tightest = {ready.planned * part, ready.most * part};
  }
  return tightest.value_or(ReadyRates{});
}

double SimGateway::share_in_time(std::int64_t now_ns, std::size_t service,
                                 const std::vector<double>& rates) const {
  if (!answers()) return 0;
  const ReadyRates now = ready(now_ns, service, rates);
  const double percentile = sites_.services[service].wanted.percentile;
  return attained(rates[service], now.planned, now.most, percentile);
}

void SimGateway::account(std::int64_t from_ns, std::int64_t until_ns,
                         const std::vector<double>& rates) {
  const double seconds = static_cast<double>(until_ns - from_ns) * 1e-9;
  std::vector<double> made(rates.size());  // by pipelines
  for (const StepRequests& one : steps_)
    made[one.step] += rates[one.pipeline] * one.requests * seconds;
  for (std::size_t s = 0; s < tallies_.size(); ++s) {
    const ReadyRates ready = this->ready(from_ns, s, rates);
    const double requests = rates[s] * seconds;
    const double share = share_in_time(from_ns, s, rates);
    const double lost = requests * (1 - share);
    const double shed = rates[s] > ready.planned ? 0.8 * lost : 0;
    for (SimTally* tally : {&tallies_[s], answers() ? &counted_[s] : nullptr}) {
      if (tally == nullptr) continue;
      tally->arrived += requests;
      tally->by_pipelines += made[s];
      tally->in_slo += requests * share;
      tally->shed += shed;
      tally->missed += lost - shed;
    }
    const SimTally& counted = counted_[s];
    if (answers())
      recent_[s].note(static_cast<double>(until_ns) * 1e-9,
                      {counted.arrived, counted.in_slo, counted.missed + counted.shed, 0});
    if (s < floors_.size() && ready.most < floors_[s] * (1 - 1e-9)) below_s_[s] += seconds;
    SimTally& tally = tallies_[s];
    const bool is_short = rates[s] > ready.planned;
    tally.short_now_s = is_short ? tally.short_now_s + seconds : 0;
    tally.short_s += is_short ? seconds : 0;
    tally.longest_short_s = std::max(tally.longest_short_s, tally.short_now_s);
  }
}

actuate::GatewayRequests SimGateway::requests(std::size_t service) const {
  const SimTally& tally = counted_[service];
  actuate::GatewayRequests requests{
      .in_slo = whole(tally.in_slo), .missed = whole(tally.missed), .shed = whole(tally.shed)};
  requests.arrived = requests.in_slo + requests.missed + requests.shed;
  requests.by_pipelines = std::min(whole(tally.by_pipelines), requests.arrived);
  const double slo_s = sites_.services[service].wanted.slo.value * 1e-3;
  requests.recent = recent_[service].last(actuate::kShortStretch, slo_s);
  requests.lately = recent_[service].last(actuate::kMiddleStretch, slo_s);
  requests.minute = recent_[service].last(actuate::kLongStretch, slo_s);
  return requests;
}

// As if each request were answered, with as many rows as the mean says.
std::vector<actuate::FanOutCounts> SimGateway::fan_outs(std::size_t service) const {
  std::vector<actuate::FanOutCounts> all;
  const auto& pipeline = sites_.services[service].wanted.pipeline;
  if (!pipeline) return all;
  for (std::size_t s = 0; s < pipeline->steps.size(); ++s) {
    const double arrived = counted_[service].arrived, rows = pipeline->steps[s].fan_out;
    if (rows != 1) all.push_back({static_cast<int>(s), whole(arrived), whole(arrived * rows)});
  }
  return all;
}

actuate::GatewayState SimGateway::state(std::int64_t now_ns) const {
  if (hung_) return *hung_;
  actuate::GatewayState state;
  state.pid = pid_;
  state.identity = identity_;
  state.written_s = static_cast<double>(now_ns) * 1e-9;
  const actuate::Assignment& followed = crews_.followed();
  state.revision = followed.revision;
  std::map<std::string, double> capacity = crews_.tell(now_ns, state);
  for (const SimService& one : sites_.services) {
    if (!one.wanted.pipeline) continue;
    const auto carries = [&](const plan::PipelineStep& step) { return capacity[step.service] > 0; };
    if (std::ranges::all_of(one.wanted.pipeline->steps, carries))
      capacity[one.wanted.name] = one.wanted.rate.value;
  }
  for (std::size_t s = 0; s < sites_.services.size(); ++s) {
    const plan::Service& service = sites_.services[s].wanted;
    const auto assigned = std::ranges::find(followed.services, service.name, &plan::Terms::name);
    const bool planned = assigned != followed.services.end();
    state.services.push_back({service.name, capacity[service.name],
                              planned ? assigned->rate.value : service.rate.value, requests(s)});
    state.services.back().fan_outs = fan_outs(s);
  }
  return state;
}

}  // namespace partita::control
