#include "verify/token_replica.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/rng.h"
#include "plan/arrivals.h"

namespace partita::verify {
namespace {

constexpr double kSeenLate = 30;
constexpr double kFewest = 2000, kMost = 60'000;
constexpr double kNanosPerMs = 1e6;
constexpr int kBlock = profile::kBlockTokens;

std::int64_t blocks_for(std::int64_t tokens) { return (tokens + kBlock - 1) / kBlock; }

using Asked = TokenRequest;

// What those beyond `crowded_from` add to a step.
double crowding(const profile::StepCost& cost, double n) {
  return n > cost.crowded_from ? cost.crowded * (n - cost.crowded_from) : 0;
}

struct Sequence {
  std::size_t request = 0;
  std::int64_t computed = 0, scheduled = 0;
  int produced = 0;
  bool shares = false, decodes = false, anew = false;  // anew: it was preempted
};

class Replica {
 public:
  Replica(const profile::EngineSpec& spec, int prefix_tokens, std::vector<Asked> asked)
      : spec_(spec),
        prefix_blocks_(prefix_tokens / kBlock),
        asked_(std::move(asked)),
        free_(spec.blocks) {}

  std::vector<Asked> run() && {
    while (next_ < asked_.size() || !running_.empty() || !waiting_.empty()) {
      if (running_.empty() && waiting_.empty()) now_ = std::max(now_, asked_[next_].arrival);
      for (; next_ < asked_.size() && asked_[next_].arrival <= now_; ++next_) arrive(next_);
      if (!running_.empty() || !waiting_.empty()) step();
    }
    return std::move(asked_);
  }

 private:
  const Asked& of(const Sequence& s) const { return asked_[s.request]; }
  std::int64_t to_compute(const Sequence& s) const { return std::int64_t{of(s).in} + s.produced; }

  void arrive(std::size_t i) {
    Asked& one = asked_[i];
    one.refused = blocks_for(std::int64_t{one.in} + one.out - 1) > spec_.blocks;
    if (!one.refused) waiting_.push_back({.request = i});
  }

  // A prefix that nobody uses is as good as free, and goes when its blocks are needed.
  void take(std::int64_t blocks) {
    free_ -= blocks;
    if (cached_ && users_ == 0 && free_ < prefix_blocks_) cached_ = false;
  }
  void start_sharing(Sequence& s) {
    s.shares = true;
    if (users_++ == 0) free_ -= prefix_blocks_;
  }
  void release(const Sequence& s) {
    free_ += blocks_for(s.computed + s.scheduled) - (s.shares ? prefix_blocks_ : 0);
    if (s.shares && --users_ == 0) free_ += prefix_blocks_;
  }

  void preempt_last() {
    const Sequence s = running_.back();
    running_.pop_back();
    release(s);
    waiting_.push_front({.request = s.request, .produced = s.produced, .anew = true});
  }

  // True where a sequence had to go.
  bool schedule_tokens() {
    bool preempted = false;
    for (std::size_t k = 0; k < running_.size(); ++k) {
      if (!running_[k].decodes) continue;
      const bool block = running_[k].computed % kBlock == 0;
      while (block && free_ == 0 && k < running_.size()) {
        preempt_last();
        preempted = true;
      }
      if (k == running_.size()) break;
      if (block) take(1);
      running_[k].scheduled = 1;
      --left_;
    }
    return preempted;
  }

  void schedule_prompt(Sequence& s) {
    const std::int64_t held = blocks_for(s.computed);
    const std::int64_t room = (held + free_) * kBlock - s.computed;
    s.scheduled = std::max<std::int64_t>(0, std::min({left_, to_compute(s) - s.computed, room}));
    left_ -= s.scheduled;
    take(blocks_for(s.computed + s.scheduled) - held);
  }

  bool admit() {
    Sequence s = waiting_.front();
    const bool hit = of(s).prefix && cached_;
    const std::int64_t woken = hit && users_ == 0 ? prefix_blocks_ : 0;
    const std::int64_t needed = blocks_for(to_compute(s)) - (hit ? prefix_blocks_ : 0);
    if (needed > free_ - woken) return false;
    waiting_.pop_front();
    if (!s.anew) {
      s.computed = of(s).came;
      take(blocks_for(s.computed));
    }
    if (hit) {
      s.computed = prefix_blocks_ * kBlock;
      start_sharing(s);
    }
    running_.push_back(s);
    schedule_prompt(running_.back());
    return running_.back().computed + running_.back().scheduled == to_compute(running_.back());
  }

  void step() {
    left_ = spec_.step_tokens;
    const bool preempted = schedule_tokens();
    bool finished = true;
    for (Sequence& s : running_) {
      if (s.decodes) continue;
      schedule_prompt(s);
      finished = finished && s.computed + s.scheduled == to_compute(s);
    }
    while (!preempted && finished && left_ > 0 && !waiting_.empty() &&
           static_cast<int>(running_.size()) < spec_.sequences)
      finished = admit();
    pass_time();
    for (Sequence& s : running_) produce(s);
    std::erase_if(running_, [&](const Sequence& s) { return s.produced == of(s).out; });
  }

  void pass_time() {
    double n = 0, context = 0, tokens = 0, pairs = 0;
    for (const Sequence& s : running_) {
      const auto computed = static_cast<double>(s.computed), now = static_cast<double>(s.scheduled);
      if (s.decodes) {
        ++n;
        context += computed;
      } else {
        tokens += now;
        pairs += now * (computed + now / 2);
      }
    }
    const profile::StepCost& c = spec_.cost;
    now_ += c.step + c.sequence * n + c.root_sequences * std::sqrt(n) + crowding(c, n) +
            c.cached_token * context + c.prompt_token * tokens + c.prompt_context * pairs;
    if (n > 0 && tokens > 0) now_ += c.mixed;
  }

  void produce(Sequence& s) {
    s.computed += s.scheduled;
    s.scheduled = 0;
    if (s.computed < to_compute(s)) return;
    Asked& one = asked_[s.request];
    if (s.produced++ == 0) one.first = now_;
    if (!s.decodes && one.prefix && prefix_blocks_ > 0 && !s.shares && !cached_) {
      cached_ = s.shares = true;  // its blocks are the prefix's from now on
      ++users_;
    }
    s.decodes = true;
    if (s.produced < one.out) return;
    one.end = now_;
    release(s);
  }

  const profile::EngineSpec& spec_;
  const std::int64_t prefix_blocks_;
  std::vector<Asked> asked_;
  std::vector<Sequence> running_;  // in order of admission
  std::deque<Sequence> waiting_;
  std::size_t next_ = 0;
  std::int64_t free_, left_ = 0;
  int users_ = 0;
  bool cached_ = false;
  double now_ = 0;
};

// What comes to the replica of a source of `all` requests/s; `most` of them at most.
std::vector<Asked> drawn_from(plan::ArrivalSource source, const plan::Terms& service, double share,
                              double most, Rng draws) {
  std::vector<Asked> asked;
  while (static_cast<double>(asked.size()) < most) {
    const plan::Nanos time = source.next();
    if (time == plan::kForever) break;
    if (share < 1 && draws.uniform() >= share) continue;
    const plan::Length length = plan::drawn(*service.tokens, draws);
    Asked& one = asked.emplace_back();
    one.arrival = static_cast<double>(time) / kNanosPerMs;
    one.prefix = draws.uniform() < service.tokens->prefix_share;
    one.in = one.prefix ? std::max(length.in, service.tokens->prefix_tokens + 1) : length.in;
    one.out = length.out;
  }
  return asked;
}

// Each stretch is as long as `most` requests of the replica let it be.
std::vector<Asked> drawn_in_stretches(const plan::Terms& service, Rps rate, Rps all,
                                      const Rng& root) {
  const plan::Arrivals& law = service.traffic.arrivals;
  if (const auto* trace = std::get_if<plan::TraceArrivals>(&law);
      !trace || !trace->trace || trace->trace->times_s.empty())
    all = rate;  // Poisson's at every moment, so its parts are
  const double most = std::min(kMost * (all / rate), 1.0 * plan::kMostTelling);
  const Millis first = service.tokens->ttft;
  const auto stretches = plan::telling_stretches(law, all, first.value > 0 ? first : service.slo,
                                                 static_cast<long>(most));
  if (stretches.empty()) return {};
  std::vector<Asked> asked = drawn_from(plan::ArrivalSource::of(stretches, law, all, root.split(2)),
                                        service, rate / all, plan::kMostTelling, root.split(1));
  std::size_t stretch = 0;
  double end = stretches.front().length.value;
  for (Asked& one : asked) {
    while (one.arrival / 1e3 >= end && stretch + 1 < stretches.size())
      end += stretches[++stretch].length.value;
    one.weight = stretches[stretch].weight;
  }
  return asked;
}

// At least `count`, and as many as tell what bursts do.
std::vector<Asked> requests_for(const plan::Terms& service, Rps rate, double count) {
  const Rng root(0x10d9e);
  const plan::Arrivals& law = service.traffic.arrivals;
  const bool split = !plan::is_poisson(law);  // a part of Poisson is Poisson
  const Rps all = split ? std::max(rate, plan::planning_rate(service)) : rate;
  if (auto asked = drawn_in_stretches(service, rate, all, root); !asked.empty()) return asked;
  const auto telling = static_cast<double>(plan::telling_requests(law, all));
  count = std::max(count, std::min(kMost, telling * (rate / all)));
  return drawn_from(plan::ArrivalSource::of(law, all, root.split(2)), service, rate / all, count,
                    root.split(1));
}

// Some engines compute prompts, the others decode: each request goes to one of either kind, in
// between its cache moves.
std::vector<Asked> play_apart(const profile::TokenEngine& engine, const profile::EngineSpec& spec,
                              int prefix_tokens, std::vector<Asked> asked) {
  Rng draws(0x5e9);
  const auto on_each = [&](int engines, const profile::EngineSpec& by, int prefix,
                           std::vector<Asked>& all) {
    std::vector<std::vector<std::size_t>> places(static_cast<std::size_t>(engines));
    for (std::size_t i = 0; i < all.size(); ++i) places[draws.below(places.size())].push_back(i);
    for (const auto& mine : places) {
      std::vector<Asked> part;
      for (const std::size_t i : mine) part.push_back(all[i]);
      part = play(by, prefix, std::move(part));
      for (std::size_t k = 0; k < mine.size(); ++k) all[mine[k]] = part[k];
    }
  };
  std::vector<Asked> prompts = asked;
  for (Asked& one : prompts) one.out = 1;
  on_each(engine.prefills, engine.prefill_units > 0 ? engine.prompt_spec : spec, prefix_tokens,
          prompts);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    asked[i].first = asked[i].end = prompts[i].first;
    asked[i].refused = prompts[i].refused;
    if (!prompts[i].refused && asked[i].out > 1) order.push_back(i);
  }
  const auto comes = [&](std::size_t i) {
    return asked[i].first + engine.move_token_ms * asked[i].in;
  };
  std::ranges::stable_sort(order, {}, comes);
  std::vector<Asked> rest;
  for (const std::size_t i : order)
    rest.push_back(
        {.arrival = comes(i), .in = asked[i].in + 1, .out = asked[i].out - 1, .came = asked[i].in});
  on_each(engine.decodes, spec, 0, rest);
  for (std::size_t k = 0; k < order.size(); ++k) {
    asked[order[k]].end = rest[k].end;
    asked[order[k]].refused = rest[k].refused;
  }
  return asked;
}

// Milliseconds of work on a prompt of so many tokens, the steps that it takes alone left out.
double prompt_ms(const profile::StepCost& cost, double tokens) {
  return tokens * cost.prompt_token + tokens * tokens / 2 * cost.prompt_context;
}

// The share of the time that so many requests/s like these take of a replica at least: as many
// decode at a time as it may have, so that each pays the least of every step.
double busy_share(const profile::TokenEngine& engine, const profile::EngineSpec& spec,
                  int prefix_tokens, const std::vector<Asked>& asked, Rps rate) {
  const profile::EngineSpec& by = engine.prefill_units > 0 ? engine.prompt_spec : spec;
  const auto step_of = [&](double n) {
    return (spec.cost.step + spec.cost.root_sequences * std::sqrt(n) + crowding(spec.cost, n)) / n;
  };
  const int fewer = std::clamp(spec.cost.crowded_from, 1, spec.sequences);
  const double step = std::min(step_of(spec.sequences), step_of(fewer));
  double prompts = 0, alone = 0, decode = 0;
  for (const Asked& one : asked) {
    const double known = one.prefix ? std::min(prefix_tokens / kBlock * kBlock, one.in - 1) : 0;
    const double tokens = one.in - known;
    const double work = prompt_ms(by.cost, tokens) + tokens * known * by.cost.prompt_context;
    prompts += work;
    alone += work + tokens / by.step_tokens * by.cost.step;
    decode += (one.out - 1) *
              (step + spec.cost.sequence + spec.cost.cached_token * (one.in + (one.out - 2) / 2.0));
  }
  const double ms = engine.prefills > 0 ? std::max(alone / engine.prefills, decode / engine.decodes)
                                        : std::max(alone, prompts + decode);
  return ms / static_cast<double>(asked.size()) * rate.value / 1e3;
}

bool above(double value, Millis limit) { return limit.value > 0 && value > limit.value; }

}  // namespace

std::vector<TokenRequest> play(const profile::EngineSpec& spec, int prefix_tokens,
                               std::vector<TokenRequest> requests) {
  return Replica(spec, prefix_tokens, std::move(requests)).run();
}

bool may_be(const profile::TokenEngine& engine) {
  const profile::StepCost& prompts = engine.prompts_by().cost;
  const profile::StepCost& one = engine.spec.cost;
  const double token = one.step + one.sequence + one.root_sequences;
  const double most = prompt_ms(prompts, kMostPromptTokens);
  return token > 0 && most > 0 && most >= token;
}

double busy_seconds(const plan::Terms& service, const profile::TokenEngine& engine, int sequences) {
  const plan::TokenTerms& tokens = *service.tokens;
  const plan::MeanLength mean = plan::mean_of(tokens);
  const profile::StepCost& cost = engine.spec.cost;
  const auto step = [&](double n) {
    return cost.step + n * (cost.sequence + mean.context * cost.cached_token) +
           std::sqrt(n) * cost.root_sequences + crowding(cost, n);
  };
  const double room = static_cast<double>(engine.spec.blocks) * kBlock / mean.context;
  double n = std::min({1.0 * sequences, 1.0 * engine.spec.sequences, std::floor(room)});
  if (above(step(std::max(1.0, n)), tokens.tpot)) {  // by halves to where steps last TPOT
    double low = 0;
    for (int i = 0; i < 200; ++i) {
      const double middle = (low + n) / 2;
      (step(middle) > tokens.tpot.value ? n : low) = middle;
    }
  }
  n = std::max(1.0, n);
  const profile::EngineSpec& by = engine.prefill_units > 0 ? engine.prompt_spec : engine.spec;
  const double known = tokens.prefix_share * std::min(1.0 * tokens.prefix_tokens, mean.in);
  const double prompt = std::max(1.0, mean.in - known);
  const double work = prompt_ms(by.cost, prompt);
  const double prefill = work + by.cost.step * prompt / by.step_tokens;
  const double decode = (mean.out - 1) * step(n) / n;
  double ms = 0;
  if (engine.prefill_units > 0)
    ms = (prefill * engine.prefill_units + decode * engine.decode_units) /
         (engine.prefill_units + engine.decode_units);
  else if (engine.prefills > 0)
    ms = (prefill + decode) / (engine.prefills + engine.decodes);
  else
    ms = std::max(prefill, work + decode);
  return engine.gpus * ms / 1e3;
}

ReplicaVerdict judge_replica(const plan::Terms& service, const profile::TokenEngine& engine,
                             const ReplicaLoad& load) {
  const double allowed = 1 - load.percentile / 100;
  const double count = std::clamp(kSeenLate / allowed, kFewest, kMost);
  profile::EngineSpec spec = engine.spec;
  spec.sequences = load.sequences;
  std::vector<Asked> asked = requests_for(service, load.rate, count);
  const int prefix = service.tokens->prefix_tokens;
  ReplicaVerdict verdict;
  if (asked.empty()) return verdict;
  verdict.busy = busy_share(engine, spec, prefix, asked, load.rate);
  asked = engine.prefills > 0 ? play_apart(engine, spec, prefix, std::move(asked))
                              : play(spec, prefix, std::move(asked));
  std::vector<std::pair<double, double>> whole;  // and what each stands for
  const bool stretches = std::ranges::any_of(asked, [](const Asked& a) { return a.weight != 1; });
  const std::size_t warm = stretches ? 0 : asked.size() / 10;  // the busiest comes first
  double late = 0, ttft_late = 0, tpot_late = 0, whole_late = 0, counted = 0;
  for (std::size_t i = warm; i < asked.size(); ++i) {
    const Asked& one = asked[i];
    const double outside = engine.request_ms + engine.request_token_ms * one.in;
    const double ttft = one.first - one.arrival + outside;
    const double tpot = one.out > 1 ? (one.end - one.first) / (one.out - 1) : 0;
    const double end =
        one.end - one.arrival + outside + engine.whole_tail_ms(ttft, tpot, one.out - 1);
    const bool first = one.refused || above(engine.ttft_tail.of(ttft), service.tokens->ttft);
    const bool rest = one.refused || above(engine.tpot_tail.of(tpot), service.tokens->tpot);
    const bool all = one.refused || above(end, service.slo);
    counted += one.weight;
    late += (first || rest || all) * one.weight;
    ttft_late += first * one.weight;
    tpot_late += rest * one.weight;
    whole_late += all * one.weight;
    whole.emplace_back(end, one.weight);
  }
  if (whole.empty() || counted <= 0) return verdict;
  verdict.late = late / counted;
  verdict.late_ttft = ttft_late / counted;
  verdict.late_tpot = tpot_late / counted;
  verdict.late_whole = whole_late / counted;
  verdict.holds = verdict.late <= allowed && verdict.busy <= 1;
  std::ranges::sort(whole);
  double below = 0;
  auto place = whole.begin();
  for (; place + 1 != whole.end(); ++place)
    if ((below += place->second) > load.percentile / 100 * counted) break;
  verdict.whole = Millis{place->first};
  return verdict;
}

}  // namespace partita::verify
