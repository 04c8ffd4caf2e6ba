#include "serve/brain/request_book.h"

#include <algorithm>

#include "base/check.h"

namespace partita::serve {

Nanos RequestBook::key_of(const Wish& wish) const {
  Nanos key = wish.arrived;
  if (wish.deadline) key = std::min(key, *wish.deadline - settings_.slo);
  const int priority = std::clamp(wish.priority, -kMaxPriority, kMaxPriority);
  return key - priority * settings_.slo;
}

void RequestBook::add(Nanos now, RequestId id, const Wish& wish) {
  CHECK(wish.items >= 1);
  const bool fresh = requests_.emplace(id, Request{.wish = wish, .left = wish.items}).second;
  CHECK(fresh);
  if (wish.deadline) deadlines_.insert({*wish.deadline, id});
  for (int i = 0; i < wish.items; ++i) {
    const Waiting waiting{key_of(wish), now, {id, static_cast<std::uint32_t>(i)}};
    if (wish.worker)
      room_.add_step(*wish.worker, waiting);
    else if (wish.alone)
      room_.add_alone(waiting);
    else
      room_.add(waiting);
  }
}

bool RequestBook::running(RequestId id) const {
  const auto found = requests_.find(id);
  return found != requests_.end() && found->second.running > 0;
}

bool RequestBook::doubt(RequestId id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return false;
  found->second.wish.doubted = true;
  return true;
}

void RequestBook::move_step(const Waiting& step, WorkerId to) {
  requests_.at(step.item.request).wish.worker = to;
  room_.add_step(to, step);
}

bool RequestBook::cancel(RequestId id) {
  const auto found = requests_.find(id);
  if (found == requests_.end() || found->second.gone) return false;
  Request& request = found->second;
  ++counters_.cancelled;
  std::erase_if(finished_, [&](const Finished& finished) { return finished.request == id; });
  room_.take_out(id, request.wish.worker);
  if (request.wish.deadline) deadlines_.erase({*request.wish.deadline, id});
  request.gone = true;
  const bool runs = request.running > 0;
  if (!runs) requests_.erase(found);
  return runs;
}

// ---- batches ----

Nanos RequestBook::begin(Nanos now, const std::vector<Waiting>& items) {
  Nanos deadline = plan::kForever;
  for (const Waiting& waiting : items) {
    Request& request = requests_.at(waiting.item.request);
    ++request.running;
    deadline =
        std::min(deadline, request.wish.deadline.value_or(request.wish.arrived + settings_.slo));
    counters_.queued += now - waiting.arrived;
  }
  ++counters_.batches;
  counters_.items += static_cast<long>(items.size());
  return deadline;
}

void RequestBook::ended(Nanos now, const std::vector<Waiting>& items,
                        std::span<const bool> failed) {
  const RequestId first = items.front().item.request;
  const bool shared =
      std::ranges::any_of(items, [&](const Waiting& one) { return one.item.request != first; });
  for (std::size_t i = 0; i < items.size(); ++i) {
    Request& request = requests_.at(items[i].item.request);
    --request.running;
    const bool well = i < failed.size() && !failed[i];
    if (!well && shared && request.wish.idempotent && !request.gone && !request.failed) {
      ++counters_.rerun;
      room_.add_alone(items[i]);
      continue;
    }
    --request.left;
    if (!well) request.failed = true;
  }
  for (const Waiting& one : items)
    if (requests_.contains(one.item.request)) settle(now, one.item.request);
}

void RequestBook::run_again(Nanos now, const std::vector<Waiting>& under_way) {
  std::set<RequestId> affected;
  for (const Waiting& waiting : under_way) {
    Request& request = requests_.at(waiting.item.request);
    --request.running;
    if (!affected.insert(waiting.item.request).second) continue;
    ++request.deaths;
    if (!request.wish.idempotent || request.harmful()) request.failed = true;
  }
  for (const Waiting& waiting : under_way) {
    const Request& request = of(waiting);
    if (request.failed || request.gone) continue;
    ++counters_.requeued;
    room_.add_alone(waiting);
  }
  for (const RequestId request : affected) settle(now, request);
}

void RequestBook::fail(Nanos now, const std::vector<Waiting>& steps) {
  for (const Waiting& step : steps) {
    requests_.at(step.item.request).failed = true;
    settle(now, step.item.request);
  }
}

// After something happened to a request's items: is it finished?
void RequestBook::settle(Nanos now, RequestId id) {
  Request& request = requests_.at(id);
  if (request.failed && !request.gone) room_.take_out(id, request.wish.worker);
  if (request.running > 0) return;
  if (request.gone)
    requests_.erase(id);
  else if (request.failed)
    finish(now, id, request.harmful() ? Outcome::harmful : Outcome::failed);
  else if (request.left == 0)
    finish(now, id, Outcome::done);
}

void RequestBook::count(Nanos now, const Wish& wish, Outcome outcome) {
  switch (outcome) {
    case Outcome::done:
      ++counters_.completed;
      if (now <= wish.arrived + settings_.slo) ++counters_.in_slo;
      break;
    case Outcome::failed:
      ++counters_.failed;
      break;
    case Outcome::expired:
      ++counters_.expired;
      break;
    case Outcome::harmful:
      ++counters_.harmful;
      break;
  }
}

void RequestBook::finish(Nanos now, RequestId id, Outcome outcome) {
  const auto found = requests_.find(id);
  const Wish& wish = found->second.wish;
  count(now, wish, outcome);
  if (wish.deadline) deadlines_.erase({*wish.deadline, id});
  finished_.push_back({id, outcome});
  requests_.erase(found);
}

// ---- time ----

// How long a request without a deadline of its own is held where no worker takes it.
Nanos RequestBook::patience_of(const Request& request, Impatient impatient) const {
  const bool bounded =
      impatient == Impatient::all || (impatient == Impatient::suspects && request.suspect());
  return bounded ? request.wish.arrived + kPatience * settings_.slo : plan::kForever;
}

// Of each queue the first, behind which nobody has waited longer. Who has an item in a batch may
// finish.
void RequestBook::expire(Nanos now, Impatient impatient) {
  const auto too_late = [&](RequestId id) {
    room_.take_out(id, requests_.at(id).wish.worker);
    finish(now, id, Outcome::expired);
  };
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const RequestId id = deadlines_.begin()->second;
    running(id) ? void(deadlines_.erase(deadlines_.begin())) : too_late(id);
  }
  room_.each_queue([&](const WaitingRoom::Items& waiting) {
    while (!waiting.empty()) {
      const Request& first = of(waiting.front());
      if (patience_of(first, impatient) > now || first.running > 0) return;
      too_late(waiting.front().item.request);
    }
  });
}

Nanos RequestBook::next_expiry(Impatient impatient) const {
  Nanos next = deadlines_.empty() ? plan::kForever : deadlines_.begin()->first;
  room_.each_queue([&](const WaitingRoom::Items& waiting) {
    if (waiting.empty()) return;
    const Request& first = of(waiting.front());
    if (first.running == 0) next = std::min(next, patience_of(first, impatient));
  });
  return next;
}

}  // namespace partita::serve
