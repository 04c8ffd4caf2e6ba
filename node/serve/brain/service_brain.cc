#include "serve/brain/service_brain.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/index.h"

namespace partita::serve {
namespace {

constexpr double kDepthUsed = 0.8;
constexpr std::size_t kAloneReckoned = 64;  // more of them are rare, and each costs a look

// Whether it may run now. Suspects never run on all workers at a time, unless there is but one.
bool may_run(const RequestBook& book, const WorkerPool& pool, const RequestBook::Request& request) {
  if (!request.suspect()) return true;
  if (pool.size() < 2) return !pool.last_is_kept();
  int suspects = 0;
  pool.each_batch([&](BatchId, const std::vector<Waiting>& items) {
    suspects += book.of(items.front()).suspect() ? 1 : 0;
  });
  return suspects < pool.size() - 1;
}

void note_wake(ServiceCounters& counters, Nanos now, Nanos asked) {
  if (now < asked) return;
  counters.lateness += now - asked;
  ++counters.wakes;
  for (std::size_t at = 0; at < kLatenessBounds.size(); ++at)
    if (now - asked <= kLatenessBounds[at]) ++counters.wakes_within[at];
}

}  // namespace

ServiceBrain::ServiceBrain(ServiceSettings settings) : settings_(settings) {
  CHECK(settings_.slo > 0 && settings_.queue_limit > 0);
}

void ServiceBrain::configure(const ServiceSettings& settings) {
  CHECK(settings.slo > 0 && settings.queue_limit > 0);
  if (settings == settings_) return;
  settings_ = settings;
  if (!room_.is_open()) return;
  room_.close();  // the SLO is part of its policy: begin with a new one
  rebuild();
}

// ---- workers ----

// The queue is for the workers that are ready now; what waits stays as it is.
void ServiceBrain::rebuild() {
  WorkerPool::Members pool = pool_.arrange();
  if (pool.members.empty()) return room_.close();
  room_.open(std::move(pool.members), pool.busy, settings_.slo);
  hold_suspects();
}

// What suspects have in the queue is not to run on the last worker.
void ServiceBrain::hold_suspects() {
  if (room_.is_open() && pool_.last_is_kept())
    room_.set_apart([&](const Waiting& waiting) { return book_.of(waiting).suspect(); });
}

void ServiceBrain::join(WorkerId id, WorkerOffer offer) {
  pool_.join(id, std::move(offer));
  rebuild();
}

void ServiceBrain::suspend(WorkerId id, bool suspended) {
  if (pool_.suspend(id, suspended)) rebuild();
}

void ServiceBrain::leave(WorkerId id) {
  if (pool_.leave(id)) rebuild();
}

void ServiceBrain::move_steps(std::uint64_t sequence, WorkerId from, WorkerId to) {
  CHECK(pool_.has(from) && pool_.has(to));
  const auto its = [&](const Waiting& one) { return book_.of(one).wish.sequence == sequence; };
  for (const Waiting& step : room_.take_steps(from, SIZE_MAX, its)) book_.move_step(step, to);
}

void ServiceBrain::fail_steps(Nanos now, std::uint64_t sequence, WorkerId worker) {
  const auto its = [&](const Waiting& one) { return book_.of(one).wish.sequence == sequence; };
  book_.fail(now, room_.take_steps(worker, SIZE_MAX, its));
}

void ServiceBrain::lose(Nanos now, WorkerId id) {
  if (!pool_.has(id)) return;
  const std::vector<Waiting> under_way = pool_.lose(id);
  book_.fail(now, room_.take_all_steps(id));
  rebuild();
  book_.run_again(now, under_way);
}

void ServiceBrain::take_back(Nanos now, WorkerId id) {
  if (!pool_.has(id)) return;
  const std::vector<Waiting> under_way = pool_.take_back(id);
  rebuild();
  book_.run_again(now, under_way);
  book_.fail(now, room_.take_all_steps(id));
}

// ---- requests ----

void ServiceBrain::note_arrivals(Nanos now, int items) {
  const double carried = pool_.capacity_rps() / pool_.drift() / 1e9;
  for (int i = 0; i < std::min(items, kMaxItems); ++i) {
    rate_.arrived(now);
    arrears_.arrived(now, carried, pool_.spare());
  }
}

Nanos ServiceBrain::predicted_finish(Nanos now, const Wish& wish,
                                     const plan::Pressure& pressure) const {
  if (wish.worker) return pool_.predicted_step(now, *wish.worker, room_.steps_of(*wish.worker));
  int alone = 0;
  for (std::size_t i = 0; i < std::min(room_.alone().size(), kAloneReckoned); ++i)
    alone += may_run(book_, pool_, book_.of(room_.alone()[i])) ? 1 : 0;
  const auto before = static_cast<long>(room_.before(book_.key_of(wish)));
  return pool_.predicted_finish(now, before + wish.items, alone, pressure);
}

Admission ServiceBrain::admit(Nanos now, const Wish& wish) {
  ServiceCounters& counters = book_.counters();
  if (!wish.again) {
    ++counters.offered;
    note_arrivals(now, wish.items);
  }
  if (wish.items < 1 || wish.items > kMaxItems || wish.items > settings_.queue_limit)
    return {Refusal::too_many_items};
  if (!room_.is_open()) {
    ++counters.refused_worker;
    return {Refusal::no_worker, settings_.slo};
  }
  const plan::Pressure pressure{rate_.per_nano(now), arrears_.lasts()};
  const Nanos finish = predicted_finish(now, wish, pressure);
  if (queued() + wish.items > settings_.queue_limit) {
    ++counters.refused_full;
    return {Refusal::queue_full, std::max<Nanos>(finish - now, 1), finish};
  }
  const Nanos deadline =
      wish.done_by.value_or(wish.deadline.value_or(wish.arrived + settings_.slo));
  if (settings_.shed && settings_.predictable &&
      !plan::in_time(finish, deadline, settings_.slo, pressure)) {
    ++counters.refused_miss;
    return {Refusal::predicted_miss, std::max<Nanos>(finish - deadline, 1), finish};
  }
  return {Refusal::none, 0, finish};
}

std::optional<plan::Foreseen> ServiceBrain::foresee(Nanos now, long coming, int items) const {
  if (!room_.is_open() || !settings_.shed || !settings_.predictable) return std::nullopt;
  const plan::Pressure pressure{rate_.per_nano(now), arrears_.lasts()};
  const long ahead = static_cast<long>(room_.before(now)) + coming;
  const Nanos finish = pool_.predicted_finish(now, ahead + items, 0, pressure);
  return plan::Foreseen{finish - now, pool_.least_time(items), pressure.overload};
}

void ServiceBrain::refused(OwnerRefusal why, bool again) {
  ServiceCounters& counters = book_.counters();
  if (why != OwnerRefusal::no_slot && !again) ++counters.offered;
  switch (why) {
    case OwnerRefusal::no_slot:
      ++counters.refused_full;
      break;
    case OwnerRefusal::slowed:
      ++counters.refused_slowed;
      break;
    case OwnerRefusal::share:
      ++counters.refused_share;
      break;
    case OwnerRefusal::at_door:
      pool_.size() > 0 ? ++counters.refused_full : ++counters.refused_worker;
      break;
  }
}

void ServiceBrain::enqueue(Nanos now, RequestId id, const Wish& wish) {
  CHECK(!wish.worker || pool_.has(*wish.worker));
  book_.add(now, id, wish);
  if (wish.doubted) hold_suspects();
}

void ServiceBrain::ended_outside(Nanos now, const Wish& wish, std::optional<Outcome> outcome) {
  if (outcome)
    book_.count(now, wish, *outcome);
  else
    ++book_.counters().cancelled;
}

void ServiceBrain::doubt(RequestId id) {
  if (book_.doubt(id)) hold_suspects();
}

std::vector<std::pair<BatchId, std::uint32_t>> ServiceBrain::cancel(RequestId id) {
  if (!book_.cancel(id)) return {};
  return items_of(pool_, id);
}

void ServiceBrain::done(Nanos now, BatchId id, std::span<const bool> failed) {
  const auto ended = pool_.end(now, id);
  if (!ended) return;
  if (ended->member >= 0) room_.completed(ended->member);
  book_.ended(now, ended->items, failed);
}

// ---- time ----

Batch ServiceBrain::begin_batch(Nanos now, WorkerId worker, Nanos predicted,
                                std::vector<Waiting> items) {
  Batch batch{.worker = worker, .deadline = book_.begin(now, items)};
  batch.items.reserve(items.size());
  for (const Waiting& waiting : items) batch.items.push_back(waiting.item);
  batch.id = pool_.begin(now, worker, predicted, std::move(items));
  return batch;
}

void ServiceBrain::start_alone(Nanos now, std::vector<Batch>& run) {
  for (std::size_t i = 0; i < room_.alone().size();) {
    const auto worker = pool_.first_idle();
    if (!worker) return;
    if (!may_run(book_, pool_, book_.of(room_.alone()[i]))) {
      ++i;
      continue;
    }
    const Nanos takes = plan::execution_time(pool_.curve(*worker).latency(1));
    run.push_back(begin_batch(now, *worker, takes, {room_.take_alone(i)}));
    rebuild();  // the dispatcher learns that this worker is busy
  }
}

// On each worker that is idle what it can take together: of each sequence the first step.
void ServiceBrain::start_steps(Nanos now, std::vector<Batch>& run) {
  bool any = false;
  for (const auto& [worker, waiting] : room_.steps()) {
    if (waiting.empty() || !pool_.idle(worker)) continue;
    const profile::BatchCurve& curve = pool_.curve(worker);
    std::set<std::uint64_t> sequences;
    const auto goes = [&](const Waiting& step) {
      const RequestBook::Request& request = book_.of(step);
      return sequences.insert(request.wish.sequence).second && may_run(book_, pool_, request);
    };
    std::vector<Waiting> items = room_.take_steps(worker, at(curve.max_batch()), goes);
    if (items.empty()) continue;
    const Nanos takes = plan::execution_time(curve.latency(static_cast<int>(items.size())));
    run.push_back(begin_batch(now, worker, takes, std::move(items)));
    any = true;
  }
  if (any) rebuild();  // the dispatcher learns that these workers are busy
}

Outputs ServiceBrain::step(Nanos now) {
  note_wake(book_.counters(), now, asked_);
  const Impatient impatient = settings_.shed && settings_.predictable ? Impatient::all
                              : pool_.last_is_kept()                  ? Impatient::suspects
                                                                      : Impatient::none;
  book_.expire(now, impatient);
  Outputs outputs;
  start_alone(now, outputs.run);
  start_steps(now, outputs.run);
  while (true) {
    const plan::Dispatcher::Decision decision = room_.next(now);
    outputs.wake_at = decision.wake_at;
    if (decision.dispatch == 0) break;
    const WorkerId worker = pool_.take_idle(decision.member);
    outputs.run.push_back(
        begin_batch(now, worker, decision.duration, room_.take(decision.dispatch)));
  }
  outputs.wake_at = std::min(outputs.wake_at, book_.next_expiry(impatient));
  asked_ = outputs.wake_at;
  outputs.finished = book_.finished();
  outputs.drain = pool_.drained();
  return outputs;
}

// A margin is left, as admission does.
double ServiceBrain::depth() const {
  if (!settings_.shed || !settings_.predictable) return 0;
  const auto spare = static_cast<double>(pool_.spare());
  const double rows = kDepthUsed * pool_.capacity_rps() / pool_.drift() * spare / 1e9;
  return std::clamp(rows, 0.0, kDepthUsed * settings_.queue_limit);
}

}  // namespace partita::serve
