#include "control/fan_outs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/check.h"
#include "base/hash.h"
#include "base/index.h"
#include "control/factor.h"
#include "forms/pipeline_form.h"

namespace partita::control {
namespace {

constexpr double kWayDecay = 0.8;       // a minute: pictures may change as fast as their rate
constexpr double kFewestWays = 300;     // requests, before their mean is believed
constexpr double kLeastFanOut = 0.001;  // requests of a step; as many as kMostFanOut, at most

double fan_out_of(const FanOutKept& kept) {
  const double now = std::clamp(kept.told * kept.times, kLeastFanOut, plan::kMostFanOut);
  return now == 1 ? std::nextafter(1, 2) : now;  // 1 would say: exactly one
}

}  // namespace

void FanOuts::begin(const std::vector<plan::Service>& services) {
  std::vector<FanOutKept> now;
  std::map<Step, Counted> counted;
  for (const plan::Service& one : services) {
    if (!one.pipeline) continue;
    for (std::size_t s = 0; s < one.pipeline->steps.size(); ++s) {
      const double told = one.pipeline->steps[s].fan_out;
      if (told == 1) continue;
      FanOutKept kept{one.name, static_cast<int>(s), told};
      for (const FanOutKept& before : kept_)
        if (std::tie(before.pipeline, before.step, before.told) ==
            std::tie(kept.pipeline, kept.step, kept.told)) {
          kept = before;
          if (const auto node = counted_.find({kept.pipeline, kept.step}); node != counted_.end())
            counted.insert(*node);
        }
      now.push_back(std::move(kept));
    }
  }
  std::ranges::sort(now, {}, [](const FanOutKept& one) { return Step(one.pipeline, one.step); });
  kept_ = std::move(now);
  counted_ = std::move(counted);
}

void FanOuts::see(const ServersSeen& servers, Report& report) {
  for (FanOutKept& kept : kept_) {
    const auto load = std::ranges::find(servers.loads, kept.pipeline, &ServiceLoad::service);
    if (load == servers.loads.end()) continue;
    const auto now = std::ranges::find(load->fan_outs, kept.step, &actuate::FanOutCounts::step);
    if (now == load->fan_outs.end()) continue;
    Counted& counted = counted_[{kept.pipeline, kept.step}];
    const actuate::FanOutCounts last = std::exchange(counted.last, *now);
    const bool follows = std::exchange(counted.by, servers.counted_by) == servers.counted_by;
    if (!follows || now->requests < last.requests || now->rows < last.rows) continue;
    counted.requests =
        kWayDecay * counted.requests + static_cast<double>(now->requests - last.requests);
    counted.rows = kWayDecay * counted.rows + static_cast<double>(now->rows - last.rows);
    if (counted.requests < kFewestWays) continue;
    const double mean = counted.rows / counted.requests;
    const double times = followed_factor(kept.times, mean / kept.told, counted.requests);
    if (times == kept.times) continue;
    kept.times = times;
    const std::string key = fmt::format("fan_out/{}/{}", kept.pipeline, kept.step);
    report.untell(key);
    report.tell(NoticeKind::other, key, kept.pipeline,
                fmt::format("a request of {} makes {:.3g} of its step {} on average, where the "
                            "services file says {:g}: plans go by what was measured",
                            kept.pipeline, mean, kept.step + 1, kept.told));
  }
}

DesiredNow FanOuts::corrected(DesiredNow wanted) const {
  if (std::ranges::all_of(kept_, [](const FanOutKept& kept) { return kept.times == 1; }))
    return wanted;
  std::string off;
  wanted.services = forms::at_own_rates(std::move(wanted.services));
  for (const FanOutKept& kept : kept_) {
    const auto one = std::ranges::find(wanted.services, kept.pipeline, &plan::Service::name);
    CHECK(one != wanted.services.end() && one->pipeline);
    off += fmt::format("/{} {} {}", kept.pipeline, kept.step, kept.times);
    if (kept.times != 1) one->pipeline->steps[at(kept.step)].fan_out = fan_out_of(kept);
  }
  CHECK(!forms::add_members(wanted.services));  // they are members by now
  wanted.key = fmt::format("{:016x}", text_hash(wanted.key + off));
  wanted.who = "their pipelines, which ask more or less of their steps than was planned for";
  return wanted;
}

}  // namespace partita::control
