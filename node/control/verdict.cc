#include "control/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace partita::control {
namespace {

constexpr double kExact = 1 - 1e-9;
constexpr double kMostHeadroom = 1e6;  // times its rate, of a pipeline without steps that tell
// So surprising misses must be, in nats (Chernoff's bound on a Poisson count), before they are more
// than was allowed for: of three seconds, of which there are many, and of a minute.
constexpr double kSurpriseOfSeconds = 12, kSurpriseOfMinute = 7;
// So surprising few misses must be in three seconds to be those of after an outage. Where a quarter
// of a minute has too many, three seconds tell the two apart by this much; more would keep the
// outage's last moment alive when that is about to leave the quarter.
constexpr double kSurpriseOfRecovery = 2.5;
constexpr double kFewestOfNone = 10;  // requests, none of which was in time
// A gateway that has counted for less than that has seen nothing that is good.
constexpr double kFewestSeconds = actuate::kShortStretch - 0.5;

// How surprising a count is where `mean` was to be expected.
double surprise(double count, double mean) {
  if (count <= 0) return mean;
  return count * std::log(count / std::max(mean, 1e-12)) - count + mean;
}

bool too_many(const actuate::RequestStretch& stretch, double allowed, double nats) {
  const double missed = stretch.missed(), mean = allowed * stretch.due;
  return missed > mean && surprise(missed, mean) > nats;
}

// The misses of a longer stretch are of an outage that ended before the last seconds.
bool is_over(const actuate::RequestStretch& recent, const actuate::RequestStretch& longer) {
  const double due = longer.due - recent.due, missed = longer.missed() - recent.missed();
  if (due <= 0 || recent.due <= 0) return false;
  const double mean = recent.due * missed / due;
  return recent.missed() < mean && surprise(recent.missed(), mean) > kSurpriseOfRecovery;
}

double rate_of(double requests, const actuate::RequestStretch& stretch) {
  return stretch.seconds > 0 ? std::max(0.0, requests / stretch.seconds) : 0;
}

// One service, and what is known of it.
class Judgement {
 public:
  Judgement(const VerdictGround& ground, const plan::Service& service)
      : ground_(ground), service_(service) {
    for (const ServiceLoad& load : ground.servers.loads)
      if (load.service == service.name) load_ = &load;
    read_plan();
    read_segments();
    if (load_ != nullptr && !throughput_known_) can_carry_ = load_->capacity_rps;
    read_steps();
  }

  ServiceVerdict made() {
    ServiceVerdict verdict{.service = service_.name, .can_carry_rps = can_carry_};
    if (load_ != nullptr && load_->recent) {
      verdict.asked_rps = rate_of(load_->recent->asked, *load_->recent);
      verdict.answered_rps = rate_of(load_->recent->in_slo, *load_->recent);
    }
    if (load_ != nullptr) verdict.cold = load_->cold;
    asked_ = verdict.asked_rps;
    verdict.why = why_down();
    verdict.verdict = Standing::down;
    if (verdict.why.empty()) {
      verdict.why = why_degraded();
      verdict.verdict = Standing::degraded;
    }
    if (verdict.why.empty()) {
      verdict.why = why_unknown();
      verdict.verdict = Standing::unknown;
    }
    if (verdict.why.empty()) {
      verdict.why = why_at_risk();
      verdict.verdict = Standing::at_risk;
    }
    if (verdict.why.empty()) verdict.verdict = Standing::serves;
    if (verdict.verdict != Standing::serves) verdict.why += waiting();
    return verdict;
  }

 private:
  void read_plan() {
    const auto rate_in = [&](const std::vector<PlannedFor>& rates) {
      const auto found = std::ranges::find(rates, service_.name, &PlannedFor::service);
      return found == rates.end() ? nullptr : &*found;
    };
    const std::optional<Target>& target = ground_.memory.target;
    if (!target) {
      const auto& known = ground_.assignment.services;
      const auto found = std::ranges::find(known, service_.name, &plan::Terms::name);
      promised_ = found == known.end() ? 0 : found->rate.value;
      return;
    }
    if (const PlannedFor* rate = rate_in(target->rates)) {
      promised_ = rate->rate_rps;
      needed_ = rate->needed_rps;
    }
    const std::optional<Target>& proposal = ground_.memory.proposal;
    if (!proposal || proposal->gain) return;
    waits_ = proposal->change;
    if (const PlannedFor* rate = rate_in(proposal->rates)) waiting_rps_ = rate->rate_rps;
  }

  void read_segments() {
    for (const actuate::AssignedSegment& one : ground_.assignment.segments) {
      if (one.service != service_.name) continue;
      ++segments_;
      const auto out = std::ranges::find(ground_.memory.out, one.gpu_uuid, &OutGpu::uuid);
      const bool is_out = out != ground_.memory.out.end();
      const auto ready = ground_.servers.ready.find(one.device);
      // Whoever says so on a GPU that fell off the bus does not know yet.
      const bool gone = ready == ground_.servers.ready.end() || (is_out && out->lost);
      const int there = gone ? 0 : ready->second;
      const int wanted = std::max(one.processes, 1);
      throughput_known_ = throughput_known_ || one.throughput_rps > 0;
      const double carries = one.throughput_rps * std::min(there, wanted) / wanted;
      can_carry_ += carries;
      ready_ += there;
      if (there == 0 || !is_out || out->by_person) continue;
      ill_ = out->why;
      ill_rps_ += carries;
    }
  }

  // A pipeline carries what its steps do, and is down with any of them.
  void read_steps() {
    if (!service_.pipeline) return;
    can_carry_ = service_.rate.value * kMostHeadroom;
    for (const plan::PipelineStep& step : service_.pipeline->steps) {
      const auto found = std::ranges::find(ground_.services, step.service, &plan::Service::name);
      if (found == ground_.services.end()) continue;
      const Judgement of(ground_, *found);
      if (found->rate.value > 0)
        can_carry_ = std::min(can_carry_, service_.rate.value * of.can_carry_ / found->rate.value);
      if (step_down_.empty()) step_down_ = of.why_down();
    }
    if (!step_down_.empty())
      step_down_ = fmt::format("a step of {} is down: {}", service_.name, step_down_);
  }

  std::string why_down() const {
    if (!step_down_.empty()) return step_down_;
    const std::string asked = fmt::format("{:.4g} req/s are asked for", asked_);
    // Whoever could never read the node does not know what is assigned.
    const bool assigned_known = ground_.blind.empty() || !ground_.assignment.segments.empty();
    if (segments_ == 0 && !service_.pipeline && assigned_known) {
      const std::optional<Target>& target = ground_.memory.target;
      const std::string reason = target && !target->reduced.empty() ? ": " + target->reduced : "";
      return fmt::format("nothing is planned for {}{}; {}", service_.name, reason, asked);
    }
    if (segments_ > 0 && ready_ == 0 && (load_ == nullptr || load_->ready_workers == 0))
      return fmt::format("no worker of {} is ready; {}", service_.name, asked);
    if (load_ == nullptr || !load_->recent) return {};
    if (service_.member) return {};  // its share of an SLO is the planner's, and no promise
    const actuate::RequestStretch& recent = *load_->recent;
    if (recent.in_slo >= 1 || recent.missed() < kFewestOfNone) return {};
    return fmt::format("none of the last {:.0f} requests of {} was answered in time",
                       recent.missed(), service_.name);
  }

  std::string why_degraded() const {
    if (service_.member || load_ == nullptr) return {};
    if (!load_->recent || !load_->lately || !load_->minute) return {};
    const double allowed = 1 - service_.percentile / 100;
    const actuate::RequestStretch &recent = *load_->recent, &minute = *load_->minute;
    const bool now = too_many(recent, allowed, kSurpriseOfSeconds);
    if (!now && !goes_on(allowed)) return {};
    const actuate::RequestStretch& stretch = now ? recent : minute;
    return fmt::format(
        "{:.2f} % of the requests of {} were in time in the last {:.0f} s, {:g} % are promised "
        "({:.4g} req/s come, {:.4g} are planned for)",
        100 * stretch.in_slo / stretch.due, service_.name, stretch.seconds, service_.percentile,
        asked_, promised_);
  }

  // Misses that are too few to be sure of by three seconds. Where an outage of this minute is over,
  // the minute tells of that one; then only what came lately can tell of another one.
  bool goes_on(double allowed) const {
    const actuate::RequestStretch &recent = *load_->recent, &lately = *load_->lately;
    if (lately.missed() <= allowed * lately.due || is_over(recent, lately)) return false;
    return is_over(recent, *load_->minute) ? too_many(lately, allowed, kSurpriseOfSeconds)
                                           : too_many(*load_->minute, allowed, kSurpriseOfMinute);
  }

  std::string why_unknown() const {
    if (!ground_.blind.empty()) return ground_.blind;
    if (load_ == nullptr || !load_->recent)
      return fmt::format("the gateway does not say what becomes of the requests of {}",
                         service_.name);
    if (load_->recent->seconds < kFewestSeconds)
      return fmt::format("the gateway has counted the requests of {} for {:.1f} s only",
                         service_.name, load_->recent->seconds);
    return {};
  }

  std::string why_at_risk() const {
    if (can_carry_ < promised_ * kExact)
      return fmt::format("the workers of {} that are ready carry {:.4g} of {:.4g} req/s",
                         service_.name, can_carry_, promised_);
    if (can_carry_ < asked_ * kExact)
      return fmt::format("{:.4g} req/s are asked of {}, its workers carry {:.4g}", asked_,
                         service_.name, can_carry_);
    if (promised_ < needed_ * kExact)
      return fmt::format("{} is served up to {:.4g} req/s, {:.4g} are needed", service_.name,
                         promised_, needed_);
    if (promised_ < waiting_rps_ * kExact)
      return fmt::format("{} is to carry {:.4g} req/s, {:.4g} are planned for", service_.name,
                         waiting_rps_, promised_);
    if (!ill_.empty() && can_carry_ - ill_rps_ < promised_ * kExact)
      return fmt::format("{} runs on a GPU that is out: {}", service_.name, ill_);
    if (ground_.servers.supervisor == false)
      return "the supervisor of the workers does not run: who ends is not started again";
    return {};
  }

  std::string waiting() const {
    return waits_ > 0 ? fmt::format("; change {} waits for approval", waits_) : std::string();
  }

  const VerdictGround& ground_;
  const plan::Service& service_;
  const ServiceLoad* load_ = nullptr;
  double promised_ = 0, needed_ = 0, waiting_rps_ = 0, can_carry_ = 0, asked_ = 0;
  long waits_ = 0;
  int segments_ = 0, ready_ = 0;
  bool throughput_known_ = false;
  std::string step_down_;  // of a pipeline
  std::string ill_;        // why a GPU that it runs on is out
  double ill_rps_ = 0;     // what it carries there
};

std::string why_not_heard(const ServersSeen& servers) {
  if (!servers.gateway) return "no gateway says anything, so nobody knows what becomes of requests";
  return fmt::format("the gateway has said nothing for {:.0f} s", servers.gateway_age_s);
}

}  // namespace

std::vector<ServiceVerdict> judge_services(const VerdictGround& ground, std::int64_t now_ms,
                                           const std::vector<ServiceVerdict>& last) {
  const ServersSeen& servers = ground.servers;
  const bool heard = servers.gateway && servers.gateway_age_s <= actuate::kGatewayFreshS;
  std::vector<ServiceVerdict> all;
  for (const plan::Service& service : ground.services) {
    ServiceVerdict& now = all.emplace_back();
    const auto before = std::ranges::find(last, service.name, &ServiceVerdict::service);
    if (heard) {
      now = Judgement(ground, service).made();
      now.as_of_ms = now_ms - static_cast<std::int64_t>(servers.gateway_age_s * 1000);
    } else {
      if (before != last.end()) now = *before;
      now.service = service.name;
      now.verdict = Standing::unknown;
      now.why = why_not_heard(servers);
    }
    now.since_ms = now_ms;
    const auto& kept = ground.memory.verdicts;
    const auto known = std::ranges::find(kept, service.name, &VerdictKept::service);
    if (known != kept.end() && known->verdict == now.verdict)
      now.since_ms = std::min(known->since_ms, now_ms);
  }
  return all;
}

void describe_verdict(Form& f, ServiceVerdict& verdict) {
  standing_field(f, "verdict", verdict.verdict, "whether it is served");
  time_field(f, "since", verdict.since_ms, "it has been so, UTC");
  time_field(f, "as_of", verdict.as_of_ms, "when that was measured; empty: never");
  f.note("why", verdict.why, "a sentence; empty: it is served");
  f.number("asked_rps", verdict.asked_rps, kNotNegative, "answered or not, in the last seconds");
  f.number("answered_rps", verdict.answered_rps, kNotNegative, "in time, in the last seconds");
  f.number("can_carry_rps", verdict.can_carry_rps, kNotNegative, "by the workers that are ready");
  f.object("cold_starts", verdict.cold, actuate::describe, "of a set of models");
}

void describe_verdicts(Form& f, std::vector<ServiceVerdict>& verdicts) {
  const auto named = [](Form& form, ServiceVerdict& verdict) {
    form.note("name", verdict.service, "of the service");
    describe_verdict(form, verdict);
  };
  f.list("services", verdicts, named, {.indent = "    "}, "whether each is served");
}

void tell_age(Form& f, std::int64_t read_ms, const std::string& fault) {
  f.told("as_of", utc_text(read_ms));
  f.optional(!fault.empty()).told("fault", fault);
}

std::vector<plan::Service> services_of(const actuate::Assignment& assignment) {
  std::vector<plan::Service> services = assignment.services;
  // What an older version does not say is judged by the usual percentile.
  for (plan::Service& one : services)
    if (one.percentile == 0) one.percentile = plan::kDefaultPercentile;
  return services;
}

}  // namespace partita::control
