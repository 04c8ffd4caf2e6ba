#include "sim/pipeline_world.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

namespace partita::sim {
namespace {

enum ChainedEvent : std::uint32_t { kComes, kEnds, kWakes };

// One of several requests that a step makes for a request.
struct Asked {
  std::size_t request = 0, step = 0;
  Nanos since = 0;
};

struct Running {
  std::vector<Asked> batch;
  int member = 0;
};

struct Pool {
  plan::Dispatcher dispatcher;
  std::optional<plan::Admission> admission = {};
  std::deque<Asked> waiting = {};
  long coming = 0;  // requests that those let in will make, as reckoned at the door
  std::vector<Nanos> busy = {};
  Nanos asked_wake = kForever;
};

struct Request {
  std::size_t source = 0;
  Nanos arrived = 0;
  bool refused = false;
  bool let_in = false;
  struct Step {
    bool asked = false;
    int missing = 0;  // steps that it waits for
    int made = 0;     // requests
    int open = 0;     // of them, not answered
  };
  std::vector<Step> steps = {};
  std::size_t steps_left = 0;
};

// What is counted of one source or pool.
class Tally {
 public:
  void offered(bool counts) {
    if (counts) ++outcome_.offered;
  }
  void refused(bool counts) {
    if (counts) ++outcome_.refused;
  }
  void done(bool counts, Nanos latency, Nanos slo) {
    if (!counts) return;
    ++outcome_.completed;
    if (latency <= slo) ++outcome_.within_slo;
    latencies_.add(latency);
  }
  ChainedCount take(double percentile) {
    outcome_.at_percentile = latencies_.percentile(percentile);
    outcome_.p50 = latencies_.percentile(50);
    outcome_.p95 = latencies_.percentile(95);
    outcome_.p99 = latencies_.percentile(99);
    return std::move(outcome_);
  }

 private:
  ChainedCount outcome_;
  LatencyHistogram latencies_;
};

class ChainedWorld {
 public:
  explicit ChainedWorld(ChainedRun run)
      : run_(std::move(run)), of_sources_(run_.sources.size()), of_pools_(run_.pools.size()) {
    for (std::size_t p = 0; p < run_.pools.size(); ++p) {
      Pool& pool = pools_.emplace_back(Pool{plan::Dispatcher(run_.pools[p].policy)});
      if (run_.pools[p].refuses)
        pool.admission.emplace(pool.dispatcher.policy(), plan::kDefaultQueueLimit);
      pool.busy.resize(pool.dispatcher.policy().members.size());
    }
    for (std::size_t s = 0; s < run_.sources.size(); ++s) await(s);
  }

  ChainedOutcome play() {
    while (!events_.empty()) {
      const Event event = events_.pop();
      ++count_;
      log_.record(event.time, event.kind, event.subject, event.count);
      if (event.kind == kComes)
        comes(event.subject, event.time);
      else if (event.kind == kEnds)
        ends(event.subject, static_cast<std::size_t>(event.count), event.time);
      else
        wakes(event.subject, event);
    }
    return result();
  }

 private:
  void await(std::size_t source) {
    const Nanos next = run_.sources[source].arrivals.next();
    if (next < run_.end)
      events_.push({.time = next, .kind = kComes, .subject = static_cast<std::uint32_t>(source)});
  }

  void comes(std::size_t index, Nanos now) {
    const ChainedSource& source = run_.sources[index];
    const std::size_t steps = source.pools.size();
    of_sources_[index].offered(now >= run_.warmup);
    const std::size_t id = fresh_request(steps);
    Request& request = requests_[id];
    request.source = index;
    request.arrived = now;
    for (std::size_t s = 0; s < steps; ++s)
      request.steps[s].missing = static_cast<int>(source.graph.after[s].size());
    await(index);
    if (const auto ahead = ahead_of(id, now);
        ahead && !plan::in_time(ahead->end, now + source.slo, source.slo, {0, ahead->overload})) {
      request.refused = true;
      for (std::size_t s = 0; s < steps; ++s)
        pools_[source.pools[s]].admission->held_off(now,
                                                    plan::reckoned_requests(source.graph, s));
      return of_sources_[index].refused(now >= run_.warmup);
    }
    expect(id, 1);
    for (std::size_t s = 0; s < steps; ++s)
      if (source.graph.after[s].empty()) begin(id, s, now);
  }

  // A place for one, with the memory of one that is done where there is one.
  std::size_t fresh_request(std::size_t steps) {
    std::size_t id = requests_.size();
    if (done_.empty()) {
      requests_.emplace_back();
    } else {
      id = done_.back();
      done_.pop_back();
    }
    std::vector<Request::Step> memory = std::move(requests_[id].steps);
    memory.assign(steps, {});
    requests_[id] = {.steps = std::move(memory), .steps_left = steps};
    return id;
  }

  // Nothing where nobody refuses, or a single step decides by itself.
  std::optional<plan::WayAhead> ahead_of(std::size_t id, Nanos now) const {
    const Request& request = requests_[id];
    const ChainedSource& source = run_.sources[request.source];
    if (source.pools.size() < 2) return std::nullopt;
    for (const std::size_t pool : source.pools)
      if (!pools_[pool].admission) return std::nullopt;
    std::vector<std::optional<plan::Foreseen>> steps(source.pools.size());
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const Pool& pool = pools_[source.pools[s]];
      if (!request.steps[s].asked)
        steps[s] = foreseen(pool, now, plan::reckoned_requests(source.graph, s), expected(id, s));
    }
    return plan::way_ahead(source.graph, steps, now);
  }

  // Of so many, behind those who wait and those who were let in and are still to come; of which
  // `own` are its own.
  plan::Foreseen foreseen(const Pool& pool, Nanos now, int requests, long own) const {
    return pool.admission->foresee(now, pool.dispatcher.queued() + pool.coming - own, requests);
  }

  // What a request is still to ask of a step, as reckoned.
  long expected(std::size_t id, std::size_t s) const {
    const Request& request = requests_[id];
    if (!request.let_in || request.steps[s].asked) return 0;
    return plan::reckoned_requests(run_.sources[request.source].graph, s);
  }
  // It is let in (1), or ends (-1).
  void expect(std::size_t id, int times) {
    Request& request = requests_[id];
    const ChainedSource& source = run_.sources[request.source];
    if (times > 0) request.let_in = true;
    for (std::size_t s = 0; s < source.pools.size(); ++s)
      pools_[source.pools[s]].coming += times * expected(id, s);
    if (times < 0) request.let_in = false;
  }

  int drawn(double mean) {
    int count = 0;
    for (double at = run_.rng.exponential(); at < mean; at += run_.rng.exponential()) ++count;
    return count;
  }

  void begin(std::size_t id, std::size_t s, Nanos now) {
    const ChainedSource& source = run_.sources[requests_[id].source];
    const std::size_t group = source.graph.group[s];
    int made = 1;
    if (group == s)
      made = drawn(source.fan_out[s]);
    else if (group < source.pools.size())
      made = requests_[id].steps[group].made;
    requests_[id].steps[s].made = requests_[id].steps[s].open = made;
    std::optional<Nanos> done_by;
    if (const auto ahead = ahead_of(id, now))
      done_by = ahead->done_by(s, requests_[id].arrived + source.slo);
    pools_[source.pools[s]].coming -= expected(id, s);
    requests_[id].steps[s].asked = true;
    if (made == 0) return answered_all(id, s, now);
    Pool& pool = pools_[source.pools[s]];
    for (int i = 0; i < made && !requests_[id].refused; ++i) ask(pool, {id, s, now}, done_by);
    step(source.pools[s], now);
  }

  void ask(Pool& pool, const Asked& asked, std::optional<Nanos> done_by) {
    Tally& tally = of_pools_[static_cast<std::size_t>(&pool - pools_.data())];
    const bool counts = asked.since >= run_.warmup;
    tally.offered(counts);
    if (pool.admission && !pool.admission->admits(asked.since, pool.dispatcher.queued(), done_by)) {
      tally.refused(counts);
      Request& request = requests_[asked.request];
      request.refused = true;
      expect(asked.request, -1);
      return of_sources_[request.source].refused(request.arrived >= run_.warmup);
    }
    pool.dispatcher.arrive(asked.since);
    pool.waiting.push_back(asked);
  }

  void step(std::size_t index, Nanos now) {
    Pool& pool = pools_[index];
    plan::Dispatcher::Decision decision = pool.dispatcher.step(now);
    for (; decision.dispatch > 0; decision = pool.dispatcher.step(now)) {
      Running running{std::move(spare_), decision.member};
      for (int i = 0; i < decision.dispatch; ++i) {
        running.batch.push_back(pool.waiting.front());
        pool.waiting.pop_front();
      }
      const Nanos end = now + decision.duration;
      if (pool.admission) pool.admission->start(decision.member, now, decision.duration);
      pool.busy[static_cast<std::size_t>(decision.member)] +=
          std::max<Nanos>(0, std::min(end, run_.end) - std::max(now, run_.warmup));
      running_.push_back(std::move(running));
      events_.push({.time = end,
                    .kind = kEnds,
                    .subject = static_cast<std::uint32_t>(index),
                    .count = static_cast<std::int64_t>(running_.size() - 1)});
    }
    if (decision.wake_at >= pool.asked_wake) return;
    pool.asked_wake = decision.wake_at;
    events_.push({.time = decision.wake_at,
                  .kind = kWakes,
                  .subject = static_cast<std::uint32_t>(index),
                  .count = decision.wake_at});
  }

  void wakes(std::size_t index, const Event& event) {
    if (pools_[index].asked_wake == event.count) pools_[index].asked_wake = kForever;
    step(index, event.time);
  }

  void ends(std::size_t index, std::size_t batch, Nanos now) {
    pools_[index].dispatcher.complete(running_[batch].member);
    std::vector<Asked> answered = std::exchange(running_[batch].batch, {});
    for (const Asked& one : answered) {
      of_pools_[index].done(one.since >= run_.warmup, now - one.since, run_.pools[index].slo);
      if (--requests_[one.request].steps[one.step].open == 0)
        answered_all(one.request, one.step, now);
    }
    answered.clear();
    spare_ = std::move(answered);
    step(index, now);
  }

  void answered_all(std::size_t id, std::size_t s, Nanos now) {
    Request& request = requests_[id];
    if (request.refused) return;
    const ChainedSource& source = run_.sources[request.source];
    if (--request.steps_left == 0) {
      of_sources_[request.source].done(request.arrived >= run_.warmup, now - request.arrived,
                                       source.slo);
      done_.push_back(id);
      return;
    }
    for (std::size_t t = 0; t < source.pools.size(); ++t)
      if (std::ranges::count(source.graph.after[t], s) > 0 && --requests_[id].steps[t].missing == 0)
        begin(id, t, now);
  }

  ChainedOutcome result() {
    ChainedOutcome outcome;
    for (std::size_t s = 0; s < of_sources_.size(); ++s)
      outcome.sources.push_back(of_sources_[s].take(run_.sources[s].percentile));
    const auto window = static_cast<double>(run_.end - run_.warmup);
    for (std::size_t p = 0; p < pools_.size(); ++p) {
      ChainedCount& pool = outcome.pools.emplace_back(of_pools_[p].take(run_.pools[p].percentile));
      const auto& members = pools_[p].dispatcher.policy().members;
      std::vector<double>& activity = pool.activity.emplace_back();
      for (std::size_t m = 0; m < members.size(); ++m)
        activity.push_back(static_cast<double>(pools_[p].busy[m]) /
                           (window * members[m].processes));
    }
    outcome.events = count_;
    outcome.log_hash = log_.hash();
    return outcome;
  }

  ChainedRun run_;
  EventQueue events_;
  EventLog log_;
  long count_ = 0;
  std::vector<Pool> pools_;
  std::vector<Running> running_;
  std::deque<Request> requests_;
  std::vector<std::size_t> done_;  // of them: places for others
  std::vector<Asked> spare_;       // memory of a batch that has ended
  std::vector<Tally> of_sources_, of_pools_;
};

}  // namespace

ChainedOutcome play(ChainedRun run) { return ChainedWorld(std::move(run)).play(); }

}  // namespace partita::sim
