#include "llm/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <queue>

#include "base/check.h"
#include "base/index.h"
#include "llm/engine/prefix_blocks.h"
#include "plan/token_room.h"

namespace partita::llm {
namespace {

std::int64_t blocks_of(std::int64_t tokens) { return (tokens + kBlockTokens - 1) / kBlockTokens; }

double prompt_ms(const StepCost& cost, int tokens, int before) {
  const double n = tokens;
  return n * (cost.prompt_token + cost.prompt_context * (before + n / 2));
}

// A request on its way. Of one that decodes, `computed` and `produced` are those of the step
// `since`; each step since then added one to both.
struct Sequence {
  int computed = 0, produced = 0;
  std::int64_t since = 0;
  std::int64_t shared = 0;  // blocks that belong to its prefix
  int epoch = 0;            // how often it was preempted
};

double outside_ms(const Door& door, const Request& asked) {
  return door.request_ms + door.request_token_ms * asked.in;
}

class Engine {
 public:
  Engine(const EngineSpec& spec, std::span<const Request> requests, const Loop& loop, int prefixes)
      : spec_(spec),
        requests_(requests),
        in_flight_(loop.in_flight),
        door_(loop.door),
        room_(spec.sequences),
        sequences_(requests.size()),
        prefixes_(prefixes) {
    run_.requests.resize(requests.size());
  }

  EngineRun run() {
    for (int i = 0; i < in_flight_; ++i) arrive_next(Millis{0});
    while (step()) {
    }
    run_.end = now_;
    return std::move(run_);
  }

 private:
  // ---- requests

  const Request& request(int i) const { return requests_[at(i)]; }
  Sequence& sequence(int i) { return sequences_[at(i)]; }
  Served& served(int i) { return run_.requests[at(i)]; }
  int count() const { return static_cast<int>(requests_.size()); }

  // The next request waits; in a closed loop, the next one that fits.
  void arrive_next(Millis now) {
    while (next_ < count()) {
      const int i = next_++;
      const Request& asked = request(i);
      if (blocks_of(std::int64_t{asked.in} + asked.out - 1) > spec_.blocks) {
        served(i).refused = true;
        if (in_flight_ > 0) continue;
        return;
      }
      if (in_flight_ == 0 && is_too_late(i)) {
        served(i).refused = true;
        patience_.refused();
        return;
      }
      served(i).arrival = now;
      waiting_.push_back(i);
      return;
    }
  }

  // ---- the door

  bool is_too_late(int i) const {
    if (door_.ttft.value <= 0) return false;
    const Request& asked = request(i);
    const double outside = outside_ms(door_, asked);
    const auto cached_of = [&](const Request& one) {
      const bool hit = one.prefix >= 0 && prefixes_.cached(one.prefix);
      return hit ? one.prefix_tokens / kBlockTokens * kBlockTokens : 0;
    };
    const auto steps_for = [](double tokens, int each) {
      return std::ceil(tokens / std::max(each, 1));
    };
    if (decoding_.empty() && prompt_ < 0 && waiting_.empty()) {
      const int half = std::max(1, asked.in / 2);
      return outside + prompt_ms(spec_.cost, half, 0) +
                 spec_.cost.step * steps_for(half, spec_.step_tokens) >
             door_.ttft.value;
    }
    double work = 0, tokens = 0;
    const auto add = [&](int computed, int all) {
      work += prompt_ms(spec_.cost, all - computed, computed);
      tokens += all - computed;
    };
    add(cached_of(asked), asked.in);
    const auto decoding = static_cast<int>(decoding_.size());
    int room = room_.limit() - decoding - (prompt_ >= 0);  // those behind it are at the gateway
    if (prompt_ >= 0) add(sequences_[at(prompt_)].computed, to_compute(prompt_));
    // Who gets in before it computes its prompt while it waits; only steps are then shared.
    for (const int other : waiting_) {
      const double before = tokens;
      add(cached_of(request(other)), to_compute(other));
      if (room-- <= 0) tokens = before;
    }
    const double step =
        cost_of_sequences() + spec_.cost.cached_token * static_cast<double>(context_);
    const double until_room = room > 0 ? 0 : (1 - room) * door_.mean_out * step / room_.limit();
    return outside + (now_ - asked.arrival).value + until_room + work +
               step * steps_for(tokens, spec_.step_tokens - decoding) >
           patience_.share() * door_.ttft.value;
  }

  // Whether there is anything to do; time goes to the next arrival where that is needed.
  bool find_work() {
    for (;;) {
      if (in_flight_ == 0)
        while (next_ < count() && request(next_).arrival <= now_)
          arrive_next(request(next_).arrival);
      while (door_.wait.value > 0 && !waiting_.empty()) {
        Served& first = served(waiting_.front());
        if (first.preemptions > 0 || now_ - first.arrival <= door_.wait) break;
        first = Served{};
        first.refused = true;
        waiting_.pop_front();
      }
      if (!decoding_.empty() || prompt_ >= 0 || !waiting_.empty()) return true;
      if (come()) return true;
      if (next_ == count() || in_flight_ > 0) return false;
      now_ = std::max(now_, request(next_).arrival);
    }
  }

  // Of a closed loop, those that follow on what ended with the last step. Whether any came.
  bool come() {
    const std::size_t before = waiting_.size();
    for (; coming_ > 0; --coming_) arrive_next(now_);
    return waiting_.size() > before;
  }

  // ---- blocks

  std::int64_t free_blocks() const { return spec_.blocks - private_ - prefixes_.used(); }
  void take(std::int64_t blocks) {
    private_ += blocks;
    prefixes_.shrink_idle(free_blocks());
  }

  void give_back(int i, std::int64_t computed) {
    Sequence& one = sequence(i);
    private_ -= blocks_of(computed) - one.shared;
    if (one.shared > 0) prefixes_.release(request(i).prefix);
    one.shared = 0;
  }

  // Its whole prompt is computed: its prefix can be shared, unless another one did so before.
  void share_prefix(int i) {
    Sequence& one = sequence(i);
    const int prefix = request(i).prefix;
    const std::int64_t blocks = request(i).prefix_tokens / kBlockTokens;
    if (prefix < 0 || blocks == 0 || one.shared > 0 || prefixes_.cached(prefix)) return;
    prefixes_.add(prefix, blocks);
    private_ -= blocks;
    one.shared = blocks;
  }

  // ---- decoding

  std::int64_t steps_of(int i) { return decode_steps_ - sequence(i).since; }
  // Sequences of one phase begin a block in the same steps.
  std::size_t phase_of(int i) {
    return static_cast<std::size_t>(
        (sequence(i).since % kBlockTokens + kBlockTokens - sequence(i).computed % kBlockTokens) %
        kBlockTokens);
  }

  void begin_decoding(int i) {
    sequence(i).since = decode_steps_;
    decoding_.push_back(i);
    ++phases_[phase_of(i)];
    context_ += sequence(i).computed;
    ends_.push({decode_steps_ + request(i).out - sequence(i).produced, i, sequence(i).epoch});
  }

  void stop_decoding(int i) {
    --phases_[phase_of(i)];
    const std::int64_t steps = steps_of(i);
    context_ -= sequence(i).computed + steps;
    sequence(i).computed += static_cast<int>(steps);
    sequence(i).produced += static_cast<int>(steps);
  }

  // The sequence admitted last goes. Returns which one.
  int preempt_last() {
    int last = prompt_;
    if (prompt_ >= 0) {
      prompt_ = -1;
    } else {
      last = decoding_.back();
      decoding_.pop_back();
      stop_decoding(last);
    }
    give_back(last, sequence(last).computed);
    sequence(last).computed = 0;
    ++sequence(last).epoch;
    ++served(last).preemptions;
    ++run_.preemptions;
    waiting_.push_front(last);
    return last;
  }

  // Blocks for the next token of every sequence that decodes. Whether somebody was preempted.
  bool room_to_decode() {
    const std::size_t phase = static_cast<std::size_t>(decode_steps_ % kBlockTokens);
    if (phases_[phase] <= free_blocks()) {
      if (phases_[phase] > 0) take(phases_[phase]);
      return false;
    }
    bool preempted = false;
    for (std::size_t k = 0; k < decoding_.size(); ++k) {
      const int i = decoding_[k];
      if (phase_of(i) != phase) continue;
      bool stays = true;
      while (stays && free_blocks() == 0) {
        preempted = true;
        stays = preempt_last() != i;
      }
      if (stays) take(1);
    }
    return preempted;
  }

  // ---- prompts

  struct Prompts {
    int left = 0;                  // of the budget
    std::int64_t tokens = 0;       // computed in this step
    std::int64_t twice_pairs = 0;  // twice the pairs of such a token and one before it
  };

  int to_compute(int i) const { return request(i).in + sequences_[at(i)].produced; }

  // A piece of a prompt. Whether that was its last.
  bool compute(int i, Prompts& step) {
    Sequence& one = sequence(i);
    const std::int64_t held = blocks_of(one.computed);
    const std::int64_t room = (held + free_blocks()) * kBlockTokens - one.computed;
    const int tokens =
        static_cast<int>(std::min<std::int64_t>({step.left, to_compute(i) - one.computed, room}));
    if (tokens <= 0) return false;
    step.twice_pairs += std::int64_t{tokens} * (2 * std::int64_t{one.computed} + tokens);
    step.tokens += tokens;
    step.left -= tokens;
    one.computed += tokens;
    take(blocks_of(one.computed) - held);
    return one.computed == to_compute(i);
  }

  // Whether the first that waits may begin; its prefix is then in use, if it is cached.
  bool admit(int i) {
    const Request& asked = request(i);
    const std::int64_t shared = asked.prefix_tokens / kBlockTokens;
    const bool hit = asked.prefix >= 0 && shared > 0 && prefixes_.cached(asked.prefix);
    const bool woken = hit && prefixes_.unused(asked.prefix);  // no longer free for others
    if (blocks_of(to_compute(i)) - (hit ? shared : 0) > free_blocks() - (woken ? shared : 0))
      return false;
    if (asked.came > 0 && served(i).preemptions == 0) {
      sequence(i).computed = asked.came;
      take(blocks_of(asked.came));
    }
    if (!hit) return true;
    prefixes_.use(asked.prefix);
    sequence(i).shared = shared;
    sequence(i).computed = static_cast<int>(shared) * kBlockTokens;
    if (served(i).preemptions == 0) served(i).cached = sequence(i).computed;
    return true;
  }

  // Those that are computed whole go to `ready`.
  Prompts compute_prompts(bool admitting) {
    Prompts step{.left = spec_.step_tokens - static_cast<int>(decoding_.size())};
    if (prompt_ >= 0 && compute(prompt_, step)) {
      ready_.push_back(prompt_);
      prompt_ = -1;
    }
    while (admitting && prompt_ < 0 && step.left > 0 && !waiting_.empty() &&
           static_cast<int>(decoding_.size() + ready_.size()) < room_.limit()) {
      const int i = waiting_.front();
      if (!admit(i)) break;
      waiting_.pop_front();
      if (compute(i, step))
        ready_.push_back(i);
      else
        prompt_ = i;
    }
    return step;
  }

  // ---- a step

  // Of a step without what depends on the tokens that are read and computed.
  double cost_of_sequences() const {
    return spec_.cost.of_sequences(static_cast<double>(decoding_.size()));
  }
  Millis cost(const Prompts& prompts) const {
    const StepCost& c = spec_.cost;
    return Millis{cost_of_sequences() + c.cached_token * static_cast<double>(context_) +
                  c.prompt_token * static_cast<double>(prompts.tokens) +
                  c.prompt_context * (static_cast<double>(prompts.twice_pairs) / 2) +
                  (prompts.tokens > 0 && !decoding_.empty() ? c.mixed : 0)};
  }

  void finish(int i) {
    give_back(i, sequence(i).computed);
    served(i).end = now_;
    if (door_.tpot.value > 0 && request(i).out > 1)
      room_.ended(tpot(served(i), request(i)) > door_.tpot, door_.may_be_late, at_once_);
    if (in_flight_ > 0) ++coming_;
  }

  // Tokens of the step's end: of those that decoded, then of those whose prompt is computed.
  // Whether somebody has all of them.
  bool produce() {
    bool ended = false;
    run_.tokens_out += static_cast<std::int64_t>(decoding_.size() + ready_.size());
    if (!decoding_.empty()) {
      ++decode_steps_;
      context_ += static_cast<std::int64_t>(decoding_.size());
    }
    while (!ends_.empty() && ends_.top().step <= decode_steps_) {
      const End end = ends_.top();
      ends_.pop();
      if (sequence(end.request).epoch != end.epoch) continue;
      decoding_.erase(std::find(decoding_.begin(), decoding_.end(), end.request));
      stop_decoding(end.request);
      finish(end.request);
      ended = true;
    }
    for (const int i : ready_) {
      Sequence& one = sequence(i);
      if (one.produced++ == 0) {
        served(i).first = now_;
        const double ttft = served(i).ttft().value + outside_ms(door_, request(i));
        if (door_.ttft.value > 0) patience_.began(ttft > door_.ttft.value, door_.may_be_late);
      }
      share_prefix(i);
      if (one.produced == request(i).out)
        finish(i);
      else
        begin_decoding(i);
    }
    ready_.clear();
    return ended;
  }

  // Steps like the last one, in which all decoded and nobody else did anything: until one ends, one
  // comes who need not wait, somebody has waited for too long, or blocks run out. Others who wait
  // wait on, blocks only get fewer.
  void coast() {
    const double wait = door_.wait.value;
    const bool seen = door_.ttft.value > 0;  // when they come
    const bool all_wait = in_flight_ > 0 || next_ == count() || (!waiting_.empty() && !seen);
    const double arrival =
        all_wait ? std::numeric_limits<double>::infinity() : request(next_).arrival.value;
    const bool may_tire =
        wait > 0 && !waiting_.empty() && served(waiting_.front()).preemptions == 0;
    const double tires =
        may_tire ? served(waiting_.front()).arrival.value : std::numeric_limits<double>::infinity();
    const double base = cost_of_sequences(), token = spec_.cost.cached_token;
    const auto n = static_cast<std::int64_t>(decoding_.size());
    const std::int64_t before = decode_steps_;
    double now = now_.value;
    while (decode_steps_ + 1 < ends_.top().step && arrival > now && now - tires <= wait) {
      const std::int64_t blocks = phases_[static_cast<std::size_t>(decode_steps_ % kBlockTokens)];
      if (blocks > free_blocks()) break;
      take(blocks);
      now += base + token * static_cast<double>(context_);
      context_ += n;
      ++decode_steps_;
    }
    now_ = Millis{now};
    run_.most_blocks = std::max(run_.most_blocks, spec_.blocks - free_blocks());
    run_.steps += decode_steps_ - before;
    run_.tokens_out += n * (decode_steps_ - before);
  }

  bool step() {
    if (!find_work()) return false;
    const bool preempted = room_to_decode();
    const Prompts prompts = compute_prompts(!preempted);
    const bool came = come();
    CHECK(!decoding_.empty() || prompts.tokens > 0);  // else nothing would ever change
    at_once_ = static_cast<int>(decoding_.size() + ready_.size()) + (prompt_ >= 0);
    run_.most_sequences = std::max(run_.most_sequences, at_once_);
    run_.most_blocks = std::max(run_.most_blocks, spec_.blocks - free_blocks());
    now_ += cost(prompts);
    ++run_.steps;
    const bool ended = produce();
    if (!ended && !preempted && !came && prompts.tokens == 0) coast();
    return true;
  }

  struct End {
    std::int64_t step;  // after which it has all its tokens
    int request, epoch;
    auto operator<=>(const End&) const = default;
  };

  const EngineSpec& spec_;
  const std::span<const Request> requests_;
  const int in_flight_;
  const Door door_;
  plan::TokenRoom room_;
  plan::TokenPatience patience_;
  int at_once_ = 0;  // of the step
  std::vector<Sequence> sequences_;
  PrefixBlocks prefixes_;
  EngineRun run_;
  Millis now_{0};
  int next_ = 0;  // request to arrive
  int coming_ = 0;
  std::deque<int> waiting_;
  int prompt_ = -1;                    // begun and unfinished
  std::vector<int> decoding_, ready_;  // in order of admission
  std::array<std::int64_t, kBlockTokens> phases_{};
  std::int64_t decode_steps_ = 0;
  std::int64_t context_ = 0;  // tokens of cache that those that decode read
  std::int64_t private_ = 0;  // blocks of sequences, without those of prefixes
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

Result<void> check_spec(const EngineSpec& spec, const Loop& loop) {
  const StepCost& c = spec.cost;
  for (const double cost : {c.step, c.sequence, c.root_sequences, c.cached_token, c.prompt_token,
                            c.prompt_context, c.mixed, c.crowded, 1.0 * c.crowded_from})
    if (!(cost >= 0) || !std::isfinite(cost)) return bad_input("", "a cost is below 0 or infinite");
  if (c.crowded > 0 && c.root_sequences > 0)
    return bad_input("", "the cost of sequences bends either way: crowded or root_sequences");
  if (spec.sequences < 1 || spec.sequences > kMostSequences)
    return bad_input(
        "", fmt::format("{} sequences at once, must be 1 to {}", spec.sequences, kMostSequences));
  if (spec.step_tokens < spec.sequences || spec.step_tokens > kMostTokens)
    return bad_input("", fmt::format("{} tokens per step; it has to be one per sequence ({}) at "
                                     "least",
                                     spec.step_tokens, spec.sequences));
  if (spec.blocks < 1 || spec.blocks > kMostBlocks)
    return bad_input("", fmt::format("{} blocks, must be 1 to {}", spec.blocks, kMostBlocks));
  if (loop.in_flight < 0 || loop.in_flight > kMostSequences)
    return bad_input("", fmt::format("{} requests in flight, must be 0 (open loop) to {}",
                                     loop.in_flight, kMostSequences));
  return {};
}

// How many prefixes there are, if all requests are as they must be.
Result<int> check_requests(std::span<const Request> requests, bool open) {
  if (requests.size() > kMostRequests)
    return bad_input("", fmt::format("more than {} requests", kMostRequests));
  std::vector<int> prefix_tokens;
  Millis last{0};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Request& r = requests[i];
    const auto refuse = [&](const char* what) {
      return bad_input("", fmt::format("request {}: {}", i, what));
    };
    if (r.in < 1 || r.in > kMostTokens || r.out < 1 || r.out > kMostTokens)
      return refuse("tokens in and out must be 1 to 100,000,000");
    if (open && !(r.arrival >= last && std::isfinite(r.arrival.value)))
      return refuse("it arrives before the one in front of it");
    if (open) last = r.arrival;
    if (r.came < 0 || r.came >= r.in || (r.came > 0 && r.prefix >= 0))
      return refuse("what came of its cache must leave a token of the prompt, without a prefix");
    if (r.prefix < 0) {
      if (r.prefix_tokens != 0) return refuse("tokens of a prefix without a prefix");
      continue;
    }
    if (r.prefix >= static_cast<int>(kMostRequests)) return refuse("too many prefixes");
    if (r.prefix_tokens < 0 || r.prefix_tokens >= r.in)
      return refuse("a prefix must leave a token of the prompt");
    if (at(r.prefix) >= prefix_tokens.size()) prefix_tokens.resize(at(r.prefix) + 1, -1);
    int& known = prefix_tokens[at(r.prefix)];
    if (known >= 0 && known != r.prefix_tokens) return refuse("its prefix had another length");
    known = r.prefix_tokens;
  }
  return static_cast<int>(prefix_tokens.size());
}

}  // namespace

Result<EngineRun> simulate(const EngineSpec& spec, std::span<const Request> requests,
                           const Loop& loop) {
  if (const Result<void> fine = check_spec(spec, loop); !fine) return failed(fine.error());
  const Result<int> prefixes = check_requests(requests, loop.in_flight == 0);
  if (!prefixes) return failed(prefixes.error());
  return Engine(spec, requests, loop, *prefixes).run();
}

Millis tpot(const Served& served, const Request& request) {
  if (request.out < 2) return Millis{0};
  return Millis{(served.end - served.first).value / (request.out - 1)};
}

}  // namespace partita::llm
