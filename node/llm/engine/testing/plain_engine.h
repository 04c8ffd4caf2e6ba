// For tests only: the engine of engine.h once more, as plainly as it can be said. Every step looks
// at every sequence and counts all blocks anew; no counter survives a step.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <vector>

#include "llm/engine/engine.h"

namespace partita::llm {

class PlainEngine {
 public:
  PlainEngine(const EngineSpec& spec, std::span<const Request> requests, const Loop& loop)
      : spec_(spec), requests_(requests), in_flight_(loop.in_flight), door_(loop.door) {
    room_ = spec.sequences;
    run_.requests.resize(requests.size());
  }

  EngineRun run() {
    for (int i = 0; i < in_flight_; ++i) next_arrives();
    for (;;) {
      while (in_flight_ == 0 && next_ < requests_.size() &&
             requests_[next_].arrival.value <= run_.end.value)
        next_arrives();
      while (door_.wait.value > 0 && !waiting_.empty() && is_tired(waiting_.front())) {
        run_.requests[waiting_.front().request] = Served{};
        run_.requests[waiting_.front().request].refused = true;
        waiting_.erase(waiting_.begin());
      }
      if (running_.empty() && waiting_.empty()) come();
      if (!running_.empty() || !waiting_.empty())
        step();
      else if (next_ < requests_.size() && in_flight_ == 0)
        run_.end = requests_[next_].arrival;
      else
        return run_;
    }
  }

 private:
  struct Sequence {
    std::size_t request = 0;
    int computed = 0, produced = 0, scheduled = 0;
    bool shares = false, decodes = false;  // since its prompt was computed
  };
  struct Prefix {
    long blocks = 0, released = 0;
  };

  static long up(long tokens) { return (tokens + 15) / 16; }
  const Request& of(const Sequence& s) const { return requests_[s.request]; }
  long prefix_blocks(const Sequence& s) const { return of(s).prefix_tokens / 16; }

  void come() {
    for (; coming_ > 0; --coming_) next_arrives();
  }
  void next_arrives() {
    while (next_ < requests_.size()) {
      const std::size_t i = next_++;
      const bool has_blocks = up(long{requests_[i].in} + requests_[i].out - 1) <= spec_.blocks;
      const bool turned_away = has_blocks && in_flight_ == 0 && !is_let_in(requests_[i]);
      const bool fits = has_blocks && !turned_away;
      run_.requests[i].refused = !fits;
      if (turned_away) calm_ = 0;
      if (fits) {
        run_.requests[i].arrival = in_flight_ > 0 ? run_.end : requests_[i].arrival;
        waiting_.push_back({.request = i});
      }
      if (fits || in_flight_ == 0) return;
    }
  }

  // Half a request less for each that is late, more where there are more than 64; as much more all
  // in all where as many are late as may be, and for each in time where there was room.
  int room() const { return std::max(1, static_cast<int>(room_)); }
  void learn_room(const Served& one, int out) {
    const double step = room_ > 64 ? room_ / 128 : 0.5;
    const bool late = (one.end - one.first).value / (out - 1) > door_.tpot.value;
    if (late)
      room_ -= step;
    else if (at_once_ < room())
      room_ += step;
    else
      room_ += step * door_.may_be_late / (1 - door_.may_be_late);
    room_ = std::max(std::min(4.0, 1.0 * spec_.sequences), room_);
    room_ = std::min(1.0 * spec_.sequences, room_);
  }

  void learn_patience(const Served& one, const Request& asked) {
    const bool late = (one.first - one.arrival).value + door_.request_ms +
                          door_.request_token_ms * asked.in >
                      door_.ttft.value;
    if (calm_ >= 32) {
      if (!late) patience_ += 0.02;
    } else {
      ++calm_;
      patience_ += late ? -0.02 : 0.02 * door_.may_be_late / (1 - door_.may_be_late);
    }
    patience_ = std::min(std::max(patience_, 0.25), 1.0);
  }

  bool is_tired(const Sequence& s) const {
    const Served& one = run_.requests[s.request];
    return one.preemptions == 0 && run_.end - one.arrival > door_.wait;
  }

  // Whether its first token comes in time, with all who are to compute before it.
  bool is_let_in(const Request& asked) const {
    if (door_.ttft.value <= 0) return true;
    const StepCost& c = spec_.cost;
    const auto prompt = [&](double from, double to) {
      return c.prompt_token * (to - from) + c.prompt_context * (to - from) * (to + from) / 2;
    };
    const double outside = door_.request_ms + door_.request_token_ms * asked.in;
    double left = door_.ttft.value - outside;
    if (running_.empty() && waiting_.empty()) {
      const double half = std::max(1, asked.in / 2);
      return prompt(0, half) + c.step * std::ceil(half / spec_.step_tokens) <= left;
    }
    const auto known = [&](const Request& r) {
      return r.prefix >= 0 && cached_.contains(r.prefix) ? r.prefix_tokens / 16 * 16 : 0;
    };
    left = patience_ * door_.ttft.value - outside;
    double n = 0, context = 0, tokens = asked.in - known(asked);
    left -= prompt(known(asked), asked.in) + (run_.end - asked.arrival).value;
    for (const Sequence& s : running_) {
      n += s.decodes;
      context += s.decodes ? s.computed : 0;
      if (s.decodes) continue;
      tokens += of(s).in + s.produced - s.computed;
      left -= prompt(s.computed, of(s).in + s.produced);
    }
    const auto free = room() - static_cast<int>(running_.size());
    int behind = 0;
    for (const Sequence& s : waiting_) {
      left -= prompt(known(of(s)), of(s).in + s.produced);
      if (behind++ < free) tokens += of(s).in + s.produced - known(of(s));
    }
    const double step = c.step + c.sequence * n + c.root_sequences * std::sqrt(n) +
                        c.crowded * std::max(0.0, n - c.crowded_from) + c.cached_token * context;
    if (behind >= free) left -= (behind - free + 1) * door_.mean_out * step / room();
    return step * std::ceil(tokens / std::max(1.0, spec_.step_tokens - n)) <= left;
  }

  // Blocks that nobody holds; prefixes that nobody uses are as good as free.
  long free() const {
    long held = 0;
    std::map<int, long> used;
    for (const Sequence& s : running_) {
      held += up(s.computed + s.scheduled) - (s.shares ? prefix_blocks(s) : 0);
      if (s.shares) used[of(s).prefix] = prefix_blocks(s);
    }
    for (const auto& [prefix, blocks] : used) held += blocks;
    return static_cast<long>(spec_.blocks) - held;
  }
  bool used(int prefix) const {
    return std::ranges::any_of(
        running_, [&](const Sequence& s) { return s.shares && of(s).prefix == prefix; });
  }
  // Prefixes without users go until what is cached fits beside what is held.
  void evict() {
    for (;;) {
      long idle = 0;
      int oldest = -1;
      for (const auto& [prefix, one] : cached_) {
        if (used(prefix)) continue;
        idle += one.blocks;
        if (oldest < 0 || one.released < cached_[oldest].released) oldest = prefix;
      }
      if (idle <= free()) return;
      cached_.erase(oldest);
    }
  }

  void leave(std::size_t k) {
    const Sequence s = running_[k];
    running_.erase(running_.begin() + static_cast<long>(k));
    if (s.shares && !used(of(s).prefix)) cached_[of(s).prefix].released = ++releases_;
  }

  void preempt_last() {
    Sequence s = running_.back();
    leave(running_.size() - 1);
    ++run_.preemptions;
    ++run_.requests[s.request].preemptions;
    waiting_.insert(waiting_.begin(), {.request = s.request, .produced = s.produced});
  }

  void schedule_prompt(Sequence& s, int& left) {
    const long held = up(s.computed);
    const long room = (held + free()) * 16 - s.computed;
    s.scheduled = static_cast<int>(
        std::max(0L, std::min({long{left}, long{of(s).in + s.produced - s.computed}, room})));
    left -= s.scheduled;
    evict();
  }

  bool admit(int& left) {
    Sequence s = waiting_.front();
    const bool hit = of(s).prefix >= 0 && prefix_blocks(s) > 0 && cached_.contains(of(s).prefix);
    const long needed = up(of(s).in + s.produced) - (hit ? prefix_blocks(s) : 0);
    const long woken = hit && !used(of(s).prefix) ? prefix_blocks(s) : 0;
    if (needed > free() - woken) return false;
    waiting_.erase(waiting_.begin());
    if (run_.requests[s.request].preemptions == 0) s.computed = of(s).came;
    if (hit) {
      s.shares = true;
      s.computed = static_cast<int>(prefix_blocks(s)) * 16;
      Served& served = run_.requests[s.request];
      if (served.preemptions == 0) served.cached = s.computed;
    }
    running_.push_back(s);
    schedule_prompt(running_.back(), left);
    return true;
  }

  bool schedule_decoding(int& left) {
    bool preempted = false;
    for (std::size_t k = 0; k < running_.size(); ++k) {
      if (!running_[k].decodes) continue;
      while (k < running_.size() && running_[k].computed % 16 == 0 && free() == 0) {
        preempt_last();
        preempted = true;
      }
      if (k == running_.size()) break;
      running_[k].scheduled = 1;
      --left;
      evict();
    }
    return preempted;
  }

  void step() {
    int left = spec_.step_tokens;
    const bool preempted = schedule_decoding(left);
    for (Sequence& s : running_)
      if (!s.decodes) schedule_prompt(s, left);
    const auto unfinished = [&] {
      return std::ranges::any_of(running_, [&](const Sequence& s) {
        return s.computed + s.scheduled < of(s).in + s.produced;
      });
    };
    while (!preempted && !unfinished() && left > 0 && !waiting_.empty() &&
           static_cast<int>(running_.size()) < room() && admit(left)) {
    }
    at_once_ = static_cast<int>(running_.size());
    run_.most_sequences = std::max(run_.most_sequences, at_once_);
    run_.most_blocks = std::max<std::int64_t>(run_.most_blocks, spec_.blocks - free());
    come();
    pass_time();
    produce();
  }

  void pass_time() {
    long count = 0, context = 0, tokens = 0, pairs = 0;
    for (const Sequence& s : running_) {
      if (s.decodes) {
        ++count;
        context += s.computed;
      } else {
        tokens += s.scheduled;
        pairs += long{s.scheduled} * (2 * long{s.computed} + s.scheduled);
      }
    }
    const StepCost& c = spec_.cost;
    const double n = static_cast<double>(count);
    const double beyond = std::max(0.0, n - c.crowded_from);
    const double ms = c.step + c.sequence * n + c.root_sequences * std::sqrt(n) +
                      c.crowded * beyond + c.cached_token * static_cast<double>(context) +
                      c.prompt_token * static_cast<double>(tokens) +
                      c.prompt_context * (static_cast<double>(pairs) / 2) +
                      (tokens > 0 && count > 0 ? c.mixed : 0);
    run_.end = run_.end + Millis{ms};
    ++run_.steps;
  }

  // Those that decoded, by request, then those whose prompt is computed, in order of admission.
  void produce() {
    std::vector<std::size_t> decoded, begun;
    for (const Sequence& s : running_) {
      if (s.decodes)
        decoded.push_back(s.request);
      else if (s.computed + s.scheduled == of(s).in + s.produced)
        begun.push_back(s.request);
    }
    for (Sequence& s : running_) {
      s.computed += s.scheduled;
      s.scheduled = 0;
    }
    std::ranges::sort(decoded);
    for (const std::size_t i : decoded) token(i);
    for (const std::size_t i : begun) token(i);
  }

  void token(std::size_t i) {
    const auto found = std::ranges::find(running_, i, &Sequence::request);
    Sequence& s = *found;
    ++run_.tokens_out;
    if (s.produced++ == 0) {
      run_.requests[i].first = run_.end;
      if (door_.ttft.value > 0) learn_patience(run_.requests[i], requests_[i]);
    }
    const int prefix = of(s).prefix;
    if (!s.decodes && prefix >= 0 && prefix_blocks(s) > 0 && !s.shares &&
        !cached_.contains(prefix)) {
      s.shares = true;
      cached_[prefix] = {prefix_blocks(s), 0};
    }
    s.decodes = true;
    if (s.produced == of(s).out) {
      run_.requests[i].end = run_.end;
      if (door_.tpot.value > 0 && of(s).out > 1) learn_room(run_.requests[i], of(s).out);
      leave(static_cast<std::size_t>(found - running_.begin()));
      if (in_flight_ > 0) ++coming_;
    }
  }

  const EngineSpec& spec_;
  const std::span<const Request> requests_;
  const int in_flight_;
  const Door door_;
  double room_ = 0, patience_ = 1;
  int at_once_ = 0, calm_ = 32;
  EngineRun run_;
  std::size_t next_ = 0;
  std::vector<Sequence> running_, waiting_;
  std::map<int, Prefix> cached_;
  long releases_ = 0, coming_ = 0;
};

}  // namespace partita::llm
