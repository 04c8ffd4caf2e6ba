#include "control/sim/sim_weeks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "control/desired.h"
#include "control/own_rates.h"
#include "decide/serving.h"
#include "forms/pipeline_form.h"
#include "forms/serving_forms.h"

namespace partita::control {
namespace {

constexpr std::int64_t kDayNanos = 86'400'000'000'000;
constexpr int kMostPoints = 1'000;  // of the line
constexpr std::int64_t kLeastPointNs = 600'000'000'000;

// GPUs of the plan for the highest rates of all clients; 0 where there is none.
Result<int> gpus_for_the_peak(const WeeksOptions& options, const std::vector<SimService>& services,
                              const std::vector<double>& own_peaks) {
  plan::ServingProblem problem;
  for (const SimService& one : services) {
    problem.services.push_back(one.wanted);
    problem.services.back().rate = {own_peaks[problem.services.size() - 1]};
    problem.services.back().traffic.rates.clear();
  }
  problem.services = at_whole_rates(std::move(problem.services));
  problem.fleet = options.world.profiles;
  problem.rule = options.world.rule;
  problem.max_processes = options.world.max_processes;
  problem.survive = std::max(0, options.world.settings.survive);
  const auto planner = TRY(decide::find_planner("--planner", "exact"));
  const auto made = TRY(decide::make_plan(*planner, problem, {}));
  return made.plan ? (*made.plan)->objective.gpus : 0;
}

}  // namespace

Result<std::unique_ptr<SimWeeks>> SimWeeks::begin(WeeksOptions options) {
  auto parsed = TRY(forms::parse_services_file(options.services_file, options.real_text.empty()
                                                                          ? options.services_text
                                                                          : options.real_text));
  TRY(take_lengths(parsed.services, options.world.token_traces));
  if (options.machine.gpus().empty()) return bad_input("--machine", "it has no GPU");
  if (options.days < 1 || options.days > kMostSimDays)
    return bad_input("--simulate", fmt::format("days are 1 to {}", kMostSimDays));
  if (options.world.settings.survive < 0) options.world.settings.survive = parsed.survive;
  std::vector<SimService> services;
  std::vector<double> own_peaks;
  const Rng rng(options.seed);
  const std::vector<plan::Service> own = forms::at_own_rates(parsed.services);
  for (std::size_t s = 0; s < own.size(); ++s) {
    services.push_back(
        {parsed.services[s], SimTraffic(own[s], options.shape, options.days * plan::kMinutesOfDay,
                                        rng.split(100 + s))});
    own_peaks.push_back(services.back().traffic.peak());
  }
  for (const StepRequests& one : step_requests(own))
    services[one.step].traffic.add(services[one.pipeline].traffic, one.requests);
  std::unique_ptr<SimWeeks> weeks(new SimWeeks(std::move(options)));
  weeks->own_peaks_ = std::move(own_peaks);
  const WeeksOptions& kept = weeks->options_;
  weeks->node_ = std::make_unique<SimNode>(
      SimNodeOptions{kept.machine,
                     {std::move(services), kept.world.profiles, kept.world.power_tables},
                     kept.services_text,
                     kept.troubles,
                     kept.seed,
                     kept.power_rights},
      kept.world.catalogue);
  weeks->batches_ = std::make_unique<SimBatches>(*weeks->node_, kept.seed);
  return weeks;
}

void SimWeeks::begin_agent() {
  AgentDoors doors = node_->doors();
  doors.record = [this](const history::Event& event) -> Result<void> {
    ++events_[history::to_string(event.kind)];
    if (event.kind == history::EventKind::applied)
      ++events_[fmt::format("applied-{}", history::to_string(event.outcome))];
    highest_change_ = std::max(highest_change_, event.change);
    if (recorded) recorded(event);
    return {};
  };
  doors.publish = [this](const Loop& loop) {
    if (published) published(loop.snapshot());
  };
  doors.say = [this](const std::string& sentence) {
    if (node_->log) node_->log("agent says: " + sentence);
  };
  doors.batch_runs = [this] { return batches_->runs(); };
  doors.carry_batches = [this](const std::vector<BatchDeed>& deeds) { batches_->carry(deeds); };
  if (add_doors) add_doors(doors);
  doors.inquiries = [this, others = doors.inquiries] {
    std::vector<Inquiry> all = hand_in();
    if (others)
      for (Inquiry& one : others()) all.push_back(std::move(one));
    return all;
  };
  node_->boards().watch_anew();
  next_look_ms_ = 0;
  auto agent = Agent::begin(std::move(doors), options_.world, highest_change_);
  CHECK(agent.has_value());
  agent_ = *std::move(agent);
}

void SimWeeks::drop_agent(std::int64_t away_until_ns) {
  away_until_ns_ = away_until_ns;
  agent_.reset();
  batches_->drop();
}

// The batch of each day, once.
std::vector<Inquiry> SimWeeks::hand_in() {
  if (options_.tasks_text.empty()) return {};
  const double hours = static_cast<double>(node_->now_ns()) / 3.6e12;
  const bool due = hours >= 24.0 * handed_in_ + options_.tasks_hour;
  if (!due || handed_in_ >= options_.tasks_days) return {};
  ++handed_in_;
  return {{{SubmitTasks{options_.tasks_text}, "simulation"}, [this](const Reply& reply) {
             ++events_[reply ? "batch" : "batch-refused"];
             taken_ += reply ? 1 : 0;
             if (!reply) refused_batch_ = to_string(reply.error());
           }}};
}

// Until the time, or until the agent has something to hear of a batch: true then.
bool SimWeeks::pass_time(std::int64_t until_ns) {
  while (node_->now_ns() < until_ns && !node_->reboot_due()) {
    const auto next = batches_->step();
    if (batches_->news()) return true;
    const std::int64_t soon = node_->now_ns() + 1'000'000;
    node_->advance(std::min(until_ns, std::max(next.value_or(until_ns), soon)));
  }
  return false;
}

void SimWeeks::note_point() {
  const std::int64_t every = std::max(
      kLeastPointNs, options_.days * kDayNanos / kMostPoints / kLeastPointNs * kLeastPointNs);
  if (node_->now_ns() < next_point_ns_) return;
  next_point_ns_ = (node_->now_ns() / every + 1) * every;
  WeeksPoint& point = line_.emplace_back();
  point.hour = static_cast<double>(node_->now_ns()) / 3.6e12;
  point.gpus = node_->boards().used();
  for (std::size_t s = 0; s < node_->services().size(); ++s) {
    point.rate_rps.push_back(node_->rate(s));
    point.ready_rps.push_back(node_->ready_rps(s));
  }
}

bool SimWeeks::step() {
  const std::int64_t end = options_.days * kDayNanos;
  if (node_->now_ns() >= end) return false;
  if (node_->reboot_due()) {
    agent_.reset();
    batches_->reboot();
    node_->reboot();
  }
  const std::int64_t glance_ns = node_->now_ns() + kGlanceMs * 1'000'000;
  if (node_->now_ns() < away_until_ns_) {
    pass_time(std::min({end, away_until_ns_, glance_ns}));
    return true;
  }
  if (!agent_) begin_agent();
  const bool due = !options_.glances || node_->wall_ms() >= next_look_ms_;
  next_look_ms_ = due ? agent_->step() : agent_->glance();
  note_point();
  if (node_->reboot_due()) return true;
  const std::int64_t wait_ms = std::max<std::int64_t>(next_look_ms_ - node_->wall_ms(), 1);
  const std::int64_t look_ns = node_->now_ns() + wait_ms * 1'000'000;
  if (pass_time(std::min({end, look_ns, options_.glances ? glance_ns : look_ns})))
    next_look_ms_ = 0;
  return true;
}

Result<WeeksReport> SimWeeks::report() {
  WeeksReport report;
  report.seed = static_cast<long>(options_.seed);
  report.days = options_.days;
  report.gpus = static_cast<int>(options_.machine.gpus().size());
  const double hours = static_cast<double>(node_->now_ns()) / 3.6e12;
  for (std::size_t s = 0; s < node_->services().size(); ++s) {
    const SimService& service = node_->services()[s];
    const SimTally& tally = node_->gateway().tally(s);
    report.services.push_back({{.name = service.wanted.name,
                                .rate = Rps{service.traffic.mean()},
                                .slo = service.wanted.slo,
                                .percentile = service.wanted.percentile},
                               service.traffic.peak(),
                               tally.arrived,
                               tally.arrived > 0 ? std::min(1.0, tally.in_slo / tally.arrived) : 1,
                               tally.short_s,
                               tally.longest_short_s});
  }
  report.gpu_hours = node_->counts().gpu_seconds / 3600;
  const int peak = TRY(gpus_for_the_peak(options_, node_->services(), own_peaks_));
  report.peak_fits = peak > 0;
  report.peak_gpus = peak > 0 ? peak : report.gpus;
  report.peak_gpu_hours = report.peak_gpus * hours;
  report.instances_made = node_->counts().created;
  if (agent_) {
    const Snapshot& last = agent_->snapshot();
    for (ServiceWeeks& one : report.services) {
      const auto now = std::ranges::find(last.services, one.name, &ServiceNow::name);
      if (now != last.services.end() && !now->at_risk()) continue;
      one.why = now == last.services.end() ? "the agent does not want it"
                : now->is.why.empty()      ? "it is not served"
                                           : now->is.why;
      if (!last.notices.empty()) report.notice = last.notices.front();
    }
    const BatchNow& batch = agent_->snapshot().batch;
    report.tasks = batch.waiting + batch.running + batch.done + batch.failed + batch.cancelled;
    report.tasks_done = batch.done;
    report.tasks_failed = batch.failed;
  }
  report.refused_batch = refused_batch_;
  for (const auto& [task, times] : batches_->begun()) report.tasks_begun += times;
  std::map<std::string, long> all = node_->counts().events;
  for (const auto& [what, times] : events_) all[what] += times;
  report.changes = all["applied"];
  report.failed_changes = all["applied-failed"];
  report.repairs = all["repair"];
  for (const auto& [what, times] : all)
    if (times > 0) report.events.push_back({what, times});
  report.line = line_;
  return report;
}

}  // namespace partita::control
