#include "verify/pipelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <numeric>
#include <queue>
#include <set>
#include <span>

#include "base/check.h"
#include "base/nth.h"
#include "base/rng.h"
#include "plan/arrivals.h"
#include "verify/driven_queue.h"
#include "verify/pool_memo.h"
#include "verify/serving.h"

namespace partita::verify {
namespace {

using plan::Nanos;

constexpr std::uint64_t kPipelinesSeed = 0x9191;
constexpr std::size_t kBatches = 30;  // of which the means are compared
constexpr double kStudent = 2.462;    // one-sided 99 %, 29 degrees of freedom
constexpr double kNoneSeen = 4.61;    // ln 100: of n requests none late, at most this / n are
constexpr double kWarmUp = 0.1;       // of a run, not counted
constexpr double kRoundingOfRates = 1e-9;
constexpr long kMostInSystem = 200'000;

struct Member {
  std::string service;
  plan::Dispatcher dispatcher;
  std::deque<std::size_t> waiting = {};  // tickets, in the dispatcher's order
  Nanos wake = plan::kForever;
};

// What arrives from outside: requests of a pipeline, or of a member's own clients.
struct Source {
  const plan::Terms* terms = nullptr;
  plan::PipelineGraph graph;
  std::vector<std::size_t> members;  // per step
  plan::ArrivalSource arrivals;
  Nanos slo = 0, next = 0;
  std::size_t begun = 0, left = 0;    // requests; of the counted ones, those under way or to come
  std::vector<Nanos> latencies = {};  // of the first ones, as they came
  std::vector<std::vector<Nanos>> of_step = {};
};

// A request under way.
struct Way {
  struct Step {
    int asked = 0;      // its requests
    int waits_for = 0;  // steps before it that are not done
    int open = 0;       // its requests that are not done
    Nanos began = 0;
  };
  std::size_t source = 0, number = 0;
  Nanos begun = 0;
  std::vector<Step> steps;
  std::size_t steps_left = 0;
};
struct Ticket {
  std::size_t way = 0, step = 0;
};

template <class T>
class Slab {
 public:
  // A place with what was there last: its memory is used again.
  std::size_t take() {
    if (free_.empty()) {
      all_.emplace_back();
      return all_.size() - 1;
    }
    const std::size_t place = free_.back();
    free_.pop_back();
    return place;
  }
  void drop(std::size_t place) { free_.push_back(place); }
  T& operator[](std::size_t place) { return all_[place]; }
  std::size_t used() const { return all_.size() - free_.size(); }

 private:
  std::vector<T> all_;
  std::vector<std::size_t> free_;
};

// Members and sources that have to do with one another.
class Driven {
 public:
  Driven(std::vector<Member> members, std::vector<Source> sources)
      : members_(std::move(members)), sources_(std::move(sources)), rng_(kPipelinesSeed) {
    for (Source& source : sources_) {
      source.of_step.resize(source.members.size());
      source.next = source.arrivals.next();
    }
  }

  // Until the first so many requests of every source have their answers; false: they never will,
  // more and more waits.
  bool run(std::size_t requests) {
    for (Source& source : sources_) {
      source.latencies.assign(requests, 0);
      source.left = requests;
    }
    const auto done = [](const Source& source) { return source.left == 0; };
    while (!std::ranges::all_of(sources_, done)) {
      if (ways_.used() > static_cast<std::size_t>(kMostInSystem)) return false;
      step();
    }
    return true;
  }
  const std::vector<Source>& sources() const { return sources_; }

 private:
  struct End {
    Nanos time = 0;
    std::size_t member = 0;
    int place = 0;          // the dispatcher's member
    std::size_t batch = 0;  // its tickets
    bool operator>(const End& other) const { return time > other.time; }
  };

  void step() {
    const auto source = std::ranges::min_element(sources_, {}, &Source::next);
    const auto waking = std::ranges::min_element(members_, {}, &Member::wake);
    const Nanos end = running_.empty() ? plan::kForever : running_.top().time;
    const Nanos now = std::min({source->next, waking->wake, end});
    if (now == end) {
      const End ended = running_.top();
      running_.pop();
      members_[ended.member].dispatcher.complete(ended.place);
      std::vector<std::size_t> tickets = std::move(batches_[ended.batch]);
      for (const std::size_t ticket : tickets) answered(ticket, now);
      tickets.clear();
      batches_[ended.batch] = std::move(tickets);
      batches_.drop(ended.batch);
      advance(ended.member, now);
    } else if (now == source->next) {
      begin(static_cast<std::size_t>(source - sources_.begin()), now);
      source->next = source->arrivals.next();
    } else {
      advance(static_cast<std::size_t>(waking - members_.begin()), now);
    }
  }

  void begin(std::size_t index, Nanos now) {
    Source& source = sources_[index];
    const std::size_t steps = source.members.size();
    const std::size_t place = ways_.take();
    Way& way = ways_[place];
    way.source = index;
    way.number = source.begun++;
    way.begun = now;
    way.steps.assign(steps, {});
    way.steps_left = steps;
    for (std::size_t s = 0; s < steps; ++s)
      way.steps[s].waits_for = static_cast<int>(source.graph.after[s].size());
    for (std::size_t s = 0; s < steps; ++s)
      if (source.graph.after[s].empty()) start(place, s, now);
  }

  // As many requests of the step as there are of what it reads.
  void start(std::size_t place, std::size_t s, Nanos now) {
    Way& way = ways_[place];
    const Source& source = sources_[way.source];
    const std::size_t group = source.graph.group[s];
    const bool alone = group == source.members.size();
    Way::Step& step = way.steps[s];
    step.asked = alone        ? 1
                 : group == s ? poisson(source.terms->pipeline->steps[s].fan_out)
                              : way.steps[group].asked;
    const int count = step.open = step.asked;
    step.began = now;
    if (count == 0) return finished(place, s, now);
    const std::size_t member = source.members[s];
    for (int i = 0; i < count; ++i) {
      members_[member].dispatcher.arrive(now);
      const std::size_t ticket = tickets_.take();
      tickets_[ticket] = {place, s};
      members_[member].waiting.push_back(ticket);
    }
    advance(member, now);
  }

  void answered(std::size_t ticket, Nanos now) {
    const Ticket of = tickets_[ticket];
    tickets_.drop(ticket);
    if (--ways_[of.way].steps[of.step].open == 0) finished(of.way, of.step, now);
  }

  void finished(std::size_t place, std::size_t s, Nanos now) {
    Source& source = sources_[ways_[place].source];
    source.of_step[s].push_back(now - ways_[place].steps[s].began);
    if (--ways_[place].steps_left == 0) {
      if (const Way& way = ways_[place]; way.number < source.latencies.size()) {
        source.latencies[way.number] = now - way.begun;
        --source.left;
      }
      return ways_.drop(place);
    }
    for (std::size_t t = 0; t < source.members.size(); ++t)
      if (std::ranges::binary_search(source.graph.after[t], s) &&
          --ways_[place].steps[t].waits_for == 0)
        start(place, t, now);
  }

  void advance(std::size_t index, Nanos now) {
    Member& member = members_[index];
    plan::Dispatcher::Decision decision = member.dispatcher.step(now);
    for (; decision.dispatch > 0; decision = member.dispatcher.step(now)) {
      const End end{now + decision.duration, index, decision.member, batches_.take()};
      for (int i = 0; i < decision.dispatch; ++i) {
        batches_[end.batch].push_back(member.waiting.front());
        member.waiting.pop_front();
      }
      running_.push(end);
    }
    member.wake = decision.wake_at;
  }

  int poisson(double mean) {
    int count = 0;
    for (double time = rng_.exponential(); time < mean; time += rng_.exponential()) ++count;
    return count;
  }

  std::vector<Member> members_;
  std::vector<Source> sources_;
  std::priority_queue<End, std::vector<End>, std::greater<>> running_;
  Slab<Way> ways_;
  Slab<Ticket> tickets_;
  Slab<std::vector<std::size_t>> batches_;  // tickets
  Rng rng_;
};

// The share that was late, and that surely is at most: means of batches of the run, one after
// another, are nearly independent.
struct LateShare {
  double mean = 0, at_most = 1;
};
LateShare late_share(const std::vector<Nanos>& latencies, Nanos slo) {
  const auto skipped = static_cast<std::size_t>(kWarmUp * static_cast<double>(latencies.size()));
  const std::size_t each = (latencies.size() - skipped) / kBatches;
  std::array<double, kBatches> means;
  for (std::size_t b = 0; b < kBatches; ++b) {
    const std::span<const Nanos> batch(latencies.data() + skipped + b * each, each);
    const auto late = std::ranges::count_if(batch, [&](Nanos latency) { return latency > slo; });
    means[b] = static_cast<double>(late) / static_cast<double>(each);
  }
  const double mean = std::accumulate(means.begin(), means.end(), 0.0) / kBatches;
  double squares = 0;
  for (const double one : means) squares += (one - mean) * (one - mean);
  const double error = std::sqrt(squares / (kBatches - 1) / kBatches);
  const double none = kNoneSeen / static_cast<double>(each * kBatches);
  return {mean, std::max(mean + kStudent * error, none)};
}

Millis percentile_of(std::vector<Nanos> times, double percent) {
  if (times.empty()) return Millis{0};
  const auto place =
      static_cast<std::size_t>(std::ceil(static_cast<double>(times.size() - 1) * percent / 100));
  return Millis{static_cast<double>(nth(times, place)) / 1e6};
}

struct Part {
  std::vector<const plan::Terms*> sources;
  std::set<std::string> members;
};

// Pipelines that share members are judged together.
std::vector<Part> parts_of(const std::vector<plan::Terms>& services, const Pools& pools) {
  std::vector<Part> parts;
  for (const plan::Terms& service : services) {
    if (!service.pipeline) continue;
    Part part{{&service}, {}};
    for (const plan::PipelineStep& step : service.pipeline->steps)
      part.members.insert(step.service);
    if (!std::ranges::all_of(part.members, [&](const auto& m) { return pools.contains(m); }))
      continue;
    std::erase_if(parts, [&](Part& other) {
      if (std::ranges::none_of(other.members,
                               [&](const auto& m) { return part.members.contains(m); }))
        return false;
      part.sources.insert(part.sources.end(), other.sources.begin(), other.sources.end());
      part.members.insert(other.members.begin(), other.members.end());
      return true;
    });
    parts.push_back(std::move(part));
  }
  return parts;
}

// What a member's own clients ask for.
Rps own_rate(const std::vector<plan::Terms>& services, const plan::Terms& member) {
  const double own = member.rate.value - plan::rate_from_pipelines(services, member.name).value;
  return Rps{own > kRoundingOfRates * member.rate.value ? own * (1 + member.traffic.headroom) : 0};
}

Source source_of(const plan::Terms& terms, Rps rate, std::uint64_t stream) {
  Source source{.terms = &terms,
                .graph = {},
                .members = {},
                .arrivals = plan::ArrivalSource::of(terms.traffic.arrivals, rate,
                                                    Rng(kPipelinesSeed).split(stream))};
  source.slo = std::llround(terms.slo.value * 1e6);
  return source;
}

class PartJudge {
 public:
  PartJudge(const std::vector<plan::Terms>& services, const Pools& pools, const Part& part)
      : services_(services) {
    for (const std::string& name : part.members) {
      index_.emplace(name, members_.size());
      members_.push_back({name, plan::Dispatcher(pools.at(name))});
      const auto terms = std::ranges::find(services, name, &plan::Terms::name);
      CHECK(terms != services.end());
      stable_ = stable_ && plan::planning_rate(*terms) < full_rate(pools.at(name));
      if (const Rps own = own_rate(services, *terms); own.value > 0) add_own(*terms, own);
    }
    for (const plan::Terms* terms : part.sources) add_pipeline(*terms);
  }

  PipelineVerdicts verdicts() {
    long most = kFewestOfPipeline;
    for (const Source& source : sources_)
      most = std::max(most, std::lround(60 / (1 - source.terms->percentile / 100 + 1e-9)));
    for (long requests = std::min(most, kMostOfPipeline); stable_; requests *= 2) {
      Driven driven(members_, sources_);
      stable_ = driven.run(static_cast<std::size_t>(requests));
      auto verdicts = verdicts_of(driven.sources());
      const bool clear = std::ranges::all_of(verdicts, [&](const auto& one) {
        return one.second.holds || one.second.late > allowed_of(one.first);
      });
      if (clear || requests * 2 > kMostOfPipeline || !stable_) return verdicts;
    }
    return verdicts_of(sources_);
  }

 private:
  double allowed_of(const std::string& name) const {
    return 1 - std::ranges::find(services_, name, &plan::Terms::name)->percentile / 100;
  }
  void add_own(const plan::Terms& terms, Rps own) {
    Source source = source_of(terms, own, sources_.size());
    source.graph = {{{}}, {0}, {1}, {1}};
    source.members = {index_.at(terms.name)};
    sources_.push_back(std::move(source));
  }
  void add_pipeline(const plan::Terms& terms) {
    Source source = source_of(terms, plan::planning_rate(terms), sources_.size());
    auto graph = plan::graph_of(*terms.pipeline);
    CHECK(graph.has_value());
    source.graph = *std::move(graph);
    for (const plan::PipelineStep& step : terms.pipeline->steps)
      source.members.push_back(index_.at(step.service));
    sources_.push_back(std::move(source));
  }
  PipelineVerdicts verdicts_of(const std::vector<Source>& sources) const {
    PipelineVerdicts verdicts;
    for (const Source& source : sources) {
      PipelineVerdict& verdict = verdicts[source.terms->name];
      verdict.stable = stable_;
      verdict.holds = false;
      if (!stable_) continue;
      const LateShare share = late_share(source.latencies, source.slo);
      verdict.late = share.mean;
      verdict.surely = share.at_most;
      verdict.holds = share.at_most <= 1 - source.terms->percentile / 100 + 1e-12;
      verdict.latency = percentile_of(source.latencies, source.terms->percentile);
      if (!source.terms->pipeline) continue;
      for (std::size_t s = 0; s < source.members.size(); ++s)
        verdict.members[members_[source.members[s]].service] =
            percentile_of(source.of_step[s], source.terms->percentile);
    }
    return verdicts;
  }

  const std::vector<plan::Terms>& services_;
  std::map<std::string, std::size_t> index_;
  std::vector<Member> members_;
  std::vector<Source> sources_;
  bool stable_ = true;
};

}  // namespace

std::set<std::string> steps_of_pipelines(const std::vector<plan::Terms>& services) {
  std::set<std::string> steps;
  for (const plan::Terms& service : services)
    if (service.pipeline)
      for (const plan::PipelineStep& step : service.pipeline->steps) steps.insert(step.service);
  return steps;
}

PipelineVerdicts judge_pipelines(const std::vector<plan::Terms>& services, const Pools& pools) {
  PipelineVerdicts all;
  for (const Part& part : parts_of(services, pools))
    all.merge(PartJudge(services, pools, part).verdicts());
  return all;
}

PipelineVerdicts judge_pipelines(const std::vector<plan::Terms>& services, const Pools& pools,
                                 PoolMemo* memo) {
  const std::set<std::string> steps = steps_of_pipelines(services);
  if (memo == nullptr || steps.empty()) return judge_pipelines(services, pools);
  std::vector<plan::Terms> judged;
  for (const plan::Terms& service : services)
    if (service.pipeline || steps.contains(service.name)) judged.push_back(service);
  const auto same = [](const auto& a, const auto& b) {
    const plan::DispatchPolicy &x = a.second, &y = b.second;
    return a.first == b.first && x.members == y.members && x.max_wait == y.max_wait &&
           x.paced == y.paced && x.slo == y.slo && x.margin == y.margin;
  };
  for (const PoolMemo::Pipelines& one : memo->pipelines)
    if (std::ranges::equal(one.pools, pools, same) && one.services == judged) return one.verdicts;
  if (memo->pipelines.size() == PoolMemo::kMostPipelines) memo->pipelines.pop_back();
  memo->pipelines.push_front({judged, pools, judge_pipelines(judged, pools)});
  return memo->pipelines.front().verdicts;
}

void report_pipeline(const plan::Terms& service, const PipelineVerdicts& verdicts,
                     const plan::PlannedService* row, Findings& findings) {
  const std::string subject = "service " + service.name;
  const auto found = verdicts.find(service.name);
  if (found == verdicts.end()) {
    if (service.pipeline)
      findings.report("slo", subject, 0, service.percentile, "a step has no pool");
    return;
  }
  const PipelineVerdict& verdict = found->second;
  if (!verdict.stable)
    return findings.report("overload", subject, 0, service.rate.value,
                           "req/s, which a step of its pipelines cannot carry");
  if (!verdict.holds)
    findings.report("slo", subject, 100 * (1 - verdict.surely), service.percentile,
                    fmt::format("percent at least within {:g} ms in a simulation of all steps "
                                "({:.3f} % seen), and wanted",
                                service.slo.value, 100 * (1 - verdict.late)));
  const double stated = row == nullptr ? NAN : row->predicted_latency.value;
  if (std::isfinite(stated) && stated * kPredictionFactor < verdict.latency.value)
    findings.report("service_row", subject + " predicted_latency_ms", stated, verdict.latency.value,
                    fmt::format("stated, and p{:g} in a simulation", service.percentile));
}

}  // namespace partita::verify
