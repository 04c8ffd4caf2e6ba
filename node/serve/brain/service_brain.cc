#include "serve/brain/service_brain.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/index.h"

namespace partita::serve {
namespace {

constexpr double kDriftWeight = 0.05;
constexpr double kDepthUsed = 0.8;
constexpr double kMostDrift = 4;
constexpr std::size_t kSinglesReckoned = 64;  // more of them are rare, and each costs a look

Nanos scaled(Nanos time, double factor) {
  return std::max<Nanos>(1, std::llround(static_cast<double>(time) * factor));
}

}  // namespace

ServiceBrain::ServiceBrain(ServiceSettings settings) : settings_(settings) {
  CHECK(settings_.slo > 0 && settings_.queue_limit > 0);
}

void ServiceBrain::configure(const ServiceSettings& settings) {
  CHECK(settings.slo > 0 && settings.queue_limit > 0);
  if (settings == settings_) return;
  settings_ = settings;
  if (!dispatcher_) return;
  // The dispatcher's SLO is part of its policy: begin with a new one.
  dispatcher_.reset();
  rebuild();
}

template <class Do>
void ServiceBrain::each_queue(Do&& look) const {
  look(singles_);
  look(queue_);
  for (const auto& [id, worker] : workers_) look(worker.steps);
}

// ---- workers ----

// The pool of the workers that are ready now; the queue stays as it is.
void ServiceBrain::rebuild() {
  std::map<std::string, std::vector<WorkerId>> devices;
  for (auto& [id, worker] : workers_) {
    worker.member = -1;
    if (worker.usable()) devices[worker.offer.device].push_back(id);
  }
  idle_.clear();
  if (devices.empty()) {
    dispatcher_.reset();
    return;
  }
  std::vector<plan::PoolMember> members;
  std::vector<int> busy;
  for (const auto& [device, ids] : devices) {
    members.push_back({workers_.at(ids.front()).offer.curve, 0});
    busy.push_back(0);
    idle_.emplace_back();
    for (const WorkerId id : ids) {
      Worker& worker = workers_.at(id);
      worker.member = static_cast<int>(members.size()) - 1;
      const auto running = static_cast<int>(worker.batches.size());
      members.back().processes += worker.offer.at_once;
      busy.back() += running;
      idle_.back().insert(idle_.back().end(), at(worker.offer.at_once - running), id);
    }
  }
  if (!dispatcher_) {
    dispatcher_.emplace(plan::pooled_policy(members, settings_.slo));
    for (const Waiting& waiting : queue_) dispatcher_->arrive(waiting.key);
  }
  dispatcher_->change_members(std::move(members), busy);
  hold_suspects();
}

// What suspects have in the queue is not to run on the last worker.
void ServiceBrain::hold_suspects() {
  if (!dispatcher_ || !last_is_kept()) return;
  for (std::size_t i = queue_.size(); i-- > 0;) {
    if (!requests_.at(queue_[i].item.request).suspect()) continue;
    insert_by_key(singles_, queue_[i]);
    queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(i));
    dispatcher_->withdraw(i);
  }
}

void ServiceBrain::join(WorkerId id, WorkerOffer offer) {
  CHECK(!workers_.contains(id) && !offer.curve.steps.empty() && offer.at_once >= 1);
  workers_.emplace(id, Worker{.offer = std::move(offer)});
  most_workers_ = std::max(most_workers_, workers_.size());
  rebuild();
}

void ServiceBrain::suspend(WorkerId id) {
  const auto found = workers_.find(id);
  if (found == workers_.end() || found->second.suspended) return;
  found->second.suspended = true;
  rebuild();
}

void ServiceBrain::resume(WorkerId id) {
  const auto found = workers_.find(id);
  if (found == workers_.end() || !found->second.suspended) return;
  found->second.suspended = false;
  rebuild();
}

void ServiceBrain::leave(WorkerId id) {
  const auto found = workers_.find(id);
  if (found == workers_.end() || found->second.leaving) return;
  found->second.leaving = true;
  if (found->second.batches.empty()) drained_.push_back(id);
  rebuild();
}

void ServiceBrain::move_steps(std::uint64_t sequence, WorkerId from, WorkerId to) {
  std::deque<Waiting>& waiting = workers_.at(from).steps;
  const auto moves = std::ranges::stable_partition(waiting, [&](const Waiting& one) {
    return requests_.at(one.item.request).wish.sequence != sequence;
  });
  for (const Waiting& one : moves) {
    requests_.at(one.item.request).wish.worker = to;
    insert_by_key(workers_.at(to).steps, one);
  }
  waiting.erase(moves.begin(), moves.end());
}

void ServiceBrain::fail_steps(Nanos now, std::uint64_t sequence, WorkerId worker) {
  std::vector<RequestId> steps;
  for (const Waiting& waiting : workers_.at(worker).steps)
    if (requests_.at(waiting.item.request).wish.sequence == sequence)
      steps.push_back(waiting.item.request);
  for (const RequestId id : steps) {
    requests_.at(id).failed = true;
    settle(now, id);
  }
}

// Steps of sequences whose worker takes nothing any more.
void ServiceBrain::fail_all_steps(Nanos now, Worker& worker) {
  for (const Waiting& waiting : std::exchange(worker.steps, {})) {
    requests_.at(waiting.item.request).failed = true;
    settle(now, waiting.item.request);
  }
}

void ServiceBrain::lose(Nanos now, WorkerId id) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return;
  const std::vector<Waiting> under_way = take_batches(found->second);
  fail_all_steps(now, found->second);
  workers_.erase(found);
  std::erase(drained_, id);
  rebuild();
  run_again(now, under_way);
}

void ServiceBrain::take_back(Nanos now, WorkerId id) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return;
  const std::vector<Waiting> under_way = take_batches(found->second);
  found->second.suspended = true;
  if (found->second.leaving && !under_way.empty()) drained_.push_back(id);
  rebuild();
  run_again(now, under_way);
  fail_all_steps(now, found->second);
}

std::vector<ServiceBrain::Waiting> ServiceBrain::take_batches(Worker& worker) {
  std::vector<Waiting> items;
  for (const BatchId running : std::exchange(worker.batches, {})) {
    const auto batch = batches_.find(running);
    items.insert(items.end(), batch->second.items.begin(), batch->second.items.end());
    batches_.erase(batch);
  }
  return items;
}

// What was in flight when a worker died or hung: any of it may have been why.
void ServiceBrain::run_again(Nanos now, const std::vector<Waiting>& under_way) {
  std::set<RequestId> affected;
  for (const Waiting& waiting : under_way) {
    Request& request = requests_.at(waiting.item.request);
    --request.running;
    if (!affected.insert(waiting.item.request).second) continue;
    ++request.deaths;
    if (!request.wish.idempotent || request.harmful()) request.failed = true;
  }
  for (const Waiting& waiting : under_way) {
    const Request& request = requests_.at(waiting.item.request);
    if (request.failed || request.gone) continue;
    ++counters_.requeued;
    insert_by_key(singles_, waiting);
  }
  for (const RequestId request : affected) settle(now, request);
}

// ---- requests ----

Nanos ServiceBrain::key_of(const Wish& wish) const {
  Nanos key = wish.arrived;
  if (wish.deadline) key = std::min(key, *wish.deadline - settings_.slo);
  const int priority = std::clamp(wish.priority, -kMaxPriority, kMaxPriority);
  return key - priority * settings_.slo;
}

// When `items` behind `position` waiting ones should be done (plan/admission.h).
Nanos ServiceBrain::predicted_finish(Nanos now, std::size_t position, int items,
                                     const plan::Pressure& pressure) const {
  std::vector<plan::PoolProcess> processes;
  std::vector<const profile::BatchCurve*> curves;
  for (const auto& [name, worker] : workers_) {
    if (!worker.usable()) continue;
    const auto kind = static_cast<int>(curves.size());
    const profile::BatchCurve& curve = *curves.emplace_back(&worker.offer.curve);
    const Nanos full = scaled(plan::execution_time(curve.steps.back().latency), drift_);
    for (const BatchId id : worker.batches) {
      const Running& running = batches_.at(id);
      const Nanos end = running.begun + scaled(running.predicted, drift_);
      processes.push_back({std::max(now, end), full, curve.max_batch(), kind});
    }
    const std::size_t idle = at(worker.offer.at_once) - worker.batches.size();
    processes.insert(processes.end(), idle, {now, full, curve.max_batch(), kind});
  }
  for (std::size_t i = 0; i < std::min(singles_.size(), kSinglesReckoned); ++i) {
    if (!may_run(requests_.at(singles_[i].item.request))) continue;
    plan::PoolProcess& first = *std::ranges::min_element(processes, {}, &plan::PoolProcess::free);
    first.free += scaled(plan::execution_time(curves[at(first.kind)]->latency(1)), drift_);
  }
  const plan::PredictedBatch batch =
      plan::predicted_batch(std::move(processes), static_cast<long>(position) + items);
  const profile::BatchCurve& curve = *curves[at(batch.kind)];
  const int size = plan::predicted_size(batch, curve.max_batch(), now, pressure);
  return batch.start + scaled(plan::execution_time(curve.latency(size)), drift_);
}

// When a step that joins what waits for its worker should be done.
Nanos ServiceBrain::predicted_step(Nanos now, WorkerId id) const {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return now;
  const auto waiting = static_cast<int>(found->second.steps.size());
  const profile::BatchCurve& curve = found->second.offer.curve;
  Nanos start = now;
  for (const BatchId batch : found->second.batches) {
    const Running& running = batches_.at(batch);
    start = std::max(start, running.begun + scaled(running.predicted, drift_));
  }
  const Nanos full = plan::execution_time(curve.steps.back().latency);
  const Nanos last = plan::execution_time(curve.latency(waiting % curve.max_batch() + 1));
  return start + scaled(waiting / curve.max_batch() * full + last, drift_);
}

void ServiceBrain::note_arrivals(Nanos now, int items) {
  Nanos longest = 0;
  for (const auto& [id, worker] : workers_)
    if (worker.usable())
      longest = std::max(longest, plan::execution_time(worker.offer.curve.steps.back().latency));
  const double carried = capacity_rps() / drift_ / 1e9;
  for (int i = 0; i < items; ++i) {
    rate_.arrived(now);
    arrears_.arrived(now, carried, settings_.slo - scaled(longest, drift_));
  }
}

Admission ServiceBrain::admit(Nanos now, const Wish& wish) {
  if (!wish.again) {
    ++counters_.offered;
    note_arrivals(now, std::min(wish.items, kMaxItems));
  }
  if (wish.items < 1 || wish.items > kMaxItems || wish.items > settings_.queue_limit)
    return {Refusal::too_many_items};
  if (!dispatcher_) {
    ++counters_.refused_worker;
    return {Refusal::no_worker, settings_.slo};
  }
  const auto after =
      std::upper_bound(queue_.begin(), queue_.end(), key_of(wish),
                       [](Nanos key, const Waiting& waiting) { return key < waiting.key; });
  const auto position = static_cast<std::size_t>(after - queue_.begin());
  const plan::Pressure pressure{rate_.per_nano(now), arrears_.lasts()};
  const Nanos finish = wish.worker ? predicted_step(now, *wish.worker)
                                   : predicted_finish(now, position, wish.items, pressure);
  const Nanos full = queued() + wish.items > settings_.queue_limit;
  if (full) {
    ++counters_.refused_full;
    return {Refusal::queue_full, std::max<Nanos>(finish - now, 1), finish};
  }
  const Nanos deadline = wish.deadline.value_or(wish.arrived + settings_.slo);
  if (settings_.shed && settings_.predictable &&
      !plan::in_time(finish, deadline, settings_.slo, pressure)) {
    ++counters_.refused_miss;
    return {Refusal::predicted_miss, std::max<Nanos>(finish - deadline, 1), finish};
  }
  return {Refusal::none, 0, finish};
}

void ServiceBrain::refused(OwnerRefusal why, bool again) {
  if (why != OwnerRefusal::no_slot && !again) ++counters_.offered;
  switch (why) {
    case OwnerRefusal::no_slot:
      ++counters_.refused_full;
      break;
    case OwnerRefusal::slowed:
      ++counters_.refused_slowed;
      break;
    case OwnerRefusal::share:
      ++counters_.refused_share;
      break;
    case OwnerRefusal::at_door:
      workers() > 0 ? ++counters_.refused_full : ++counters_.refused_worker;
      break;
  }
}

// Behind those of the same key.
void ServiceBrain::insert(const Waiting& waiting) {
  const auto before = [](const Waiting& a, const Waiting& b) { return a.key < b.key; };
  queue_.insert(std::upper_bound(queue_.begin(), queue_.end(), waiting, before), waiting);
  if (dispatcher_) dispatcher_->arrive(waiting.key);
}

void ServiceBrain::insert_by_key(std::deque<Waiting>& queue, const Waiting& waiting) {
  queue.insert(std::ranges::upper_bound(queue, waiting.key, {}, &Waiting::key), waiting);
}

void ServiceBrain::enqueue(Nanos now, RequestId id, const Wish& wish) {
  CHECK(wish.items >= 1);
  const bool fresh = requests_.emplace(id, Request{.wish = wish, .left = wish.items}).second;
  CHECK(fresh);
  if (wish.deadline) deadlines_.insert({*wish.deadline, id});
  for (int i = 0; i < wish.items; ++i) {
    const Waiting waiting{key_of(wish), now, {id, static_cast<std::uint32_t>(i)}};
    if (wish.worker)
      insert_by_key(workers_.at(*wish.worker).steps, waiting);
    else if (wish.alone)
      insert_by_key(singles_, waiting);
    else
      insert(waiting);
  }
  if (wish.doubted) hold_suspects();
}

void ServiceBrain::doubt(RequestId id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  found->second.wish.doubted = true;
  hold_suspects();
}

// Its items that wait leave the queue.
void ServiceBrain::take_out(RequestId id) {
  const auto its = [&](const Waiting& waiting) { return waiting.item.request == id; };
  if (const auto worker = requests_.at(id).wish.worker) {
    const auto found = workers_.find(*worker);
    if (found != workers_.end()) std::erase_if(found->second.steps, its);
    return;
  }
  std::erase_if(singles_, its);
  for (std::size_t i = queue_.size(); i-- > 0;) {
    if (queue_[i].item.request != id) continue;
    queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(i));
    if (dispatcher_) dispatcher_->withdraw(i);
  }
}

std::vector<std::pair<BatchId, std::uint32_t>> ServiceBrain::cancel(RequestId id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return {};
  Request& request = found->second;
  if (request.gone) return {};
  ++counters_.cancelled;
  std::erase_if(finished_, [&](const Finished& finished) { return finished.request == id; });
  take_out(id);
  if (request.wish.deadline) deadlines_.erase({*request.wish.deadline, id});
  if (request.running == 0) {
    requests_.erase(found);
    return {};
  }
  request.gone = true;
  std::vector<std::pair<BatchId, std::uint32_t>> under_way;
  for (const auto& [batch, running] : batches_)
    for (std::size_t i = 0; i < running.items.size(); ++i)
      if (running.items[i].item.request == id)
        under_way.emplace_back(batch, static_cast<std::uint32_t>(i));
  return under_way;
}

bool ServiceBrain::running(RequestId id) const {
  const auto found = requests_.find(id);
  return found != requests_.end() && found->second.running > 0;
}

// After something happened to a request's items: is it finished?
void ServiceBrain::settle(Nanos now, RequestId id) {
  Request& request = requests_.at(id);
  if (request.failed && !request.gone) take_out(id);
  if (request.running > 0) return;
  if (request.gone) {
    requests_.erase(id);
  } else if (request.failed) {
    finish(now, id, request.harmful() ? Outcome::harmful : Outcome::failed);
  } else if (request.left == 0) {
    finish(now, id, Outcome::done);
  }
}

void ServiceBrain::finish(Nanos now, RequestId id, Outcome outcome) {
  const auto found = requests_.find(id);
  const Wish& wish = found->second.wish;
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
  if (wish.deadline) deadlines_.erase({*wish.deadline, id});
  finished_.push_back({id, outcome});
  requests_.erase(found);
}

void ServiceBrain::done(Nanos now, BatchId id, std::span<const bool> failed) {
  const auto found = batches_.find(id);
  if (found == batches_.end()) return;
  const Running running = std::move(found->second);
  batches_.erase(found);
  Worker& worker = workers_.at(running.worker);
  worker.batches.erase(id);
  if (worker.member >= 0) {
    dispatcher_->complete(worker.member);
    idle_[at(worker.member)].push_back(running.worker);
  } else if (worker.leaving && worker.batches.empty()) {
    drained_.push_back(running.worker);
  }
  const Nanos took = now - running.begun;
  const double ratio = static_cast<double>(took) / static_cast<double>(running.predicted);
  drift_ = std::clamp(drift_ + kDriftWeight * (ratio - drift_), 1 / kMostDrift, kMostDrift);
  const RequestId first = running.items.front().item.request;
  const bool shared = std::any_of(running.items.begin(), running.items.end(),
                                  [&](const Waiting& one) { return one.item.request != first; });
  for (std::size_t i = 0; i < running.items.size(); ++i) {
    Request& request = requests_.at(running.items[i].item.request);
    --request.running;
    const bool well = i < failed.size() && !failed[i];
    if (!well && shared && request.wish.idempotent && !request.gone && !request.failed) {
      ++counters_.rerun;
      insert_by_key(singles_, running.items[i]);
      continue;
    }
    --request.left;
    if (!well) request.failed = true;
  }
  for (std::size_t i = 0; i < running.items.size(); ++i) {
    const RequestId request = running.items[i].item.request;
    if (requests_.contains(request)) settle(now, request);
  }
}

// ---- time ----

// How long a request without a deadline of its own is held where no worker takes it. Where nothing
// is shed it waits for its turn for as long as that takes, but one that is kept from the last
// worker has no turn.
Nanos ServiceBrain::patience_of(const Request& request) const {
  const bool bounded =
      (settings_.shed && settings_.predictable) || (request.suspect() && last_is_kept());
  return bounded ? request.wish.arrived + (kPatience * settings_.slo) : plan::kForever;
}

// What has a deadline of its own and waits beyond it, and what no worker took for long: of each
// queue the first, behind which nobody has waited longer. Who has an item in a batch may finish.
void ServiceBrain::expire(Nanos now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto [deadline, id] = *deadlines_.begin();
    if (running(id)) {
      deadlines_.erase(deadlines_.begin());
      continue;
    }
    take_out(id);
    finish(now, id, Outcome::expired);
  }
  each_queue([&](const std::deque<Waiting>& waiting) {
    while (!waiting.empty()) {
      const RequestId id = waiting.front().item.request;
      if (patience_of(requests_.at(id)) > now || running(id)) return;
      take_out(id);
      finish(now, id, Outcome::expired);
    }
  });
}

Batch ServiceBrain::begin_batch(Nanos now, WorkerId worker, Nanos predicted,
                                std::vector<Waiting> items) {
  const BatchId id = next_batch_++;
  workers_.at(worker).batches.insert(id);
  Batch batch{.id = id, .worker = worker, .deadline = plan::kForever};
  for (const Waiting& waiting : items) {
    Request& request = requests_.at(waiting.item.request);
    ++request.running;
    batch.deadline = std::min(batch.deadline,
                              request.wish.deadline.value_or(request.wish.arrived + settings_.slo));
    batch.items.push_back(waiting.item);
    counters_.queued += now - waiting.arrived;
  }
  ++counters_.batches;
  counters_.items += static_cast<long>(items.size());
  batches_.emplace(id, Running{worker, now, predicted, std::move(items)});
  return batch;
}

Batch ServiceBrain::start(Nanos now, const plan::Dispatcher::Decision& decision) {
  std::deque<WorkerId>& idle = idle_[at(decision.member)];
  CHECK(!idle.empty());
  const WorkerId worker = idle.front();
  idle.pop_front();
  std::vector<Waiting> items;
  for (int i = 0; i < decision.dispatch; ++i) {
    CHECK(queue_.front().key == dispatcher_->dispatched()[at(i)]);
    items.push_back(queue_.front());
    queue_.pop_front();
  }
  return begin_batch(now, worker, decision.duration, std::move(items));
}

// One is left of several.
bool ServiceBrain::last_is_kept() const {
  const bool several = most_workers_ >= 2 && settings_.planned_workers != 1;
  return several && workers() < 2;
}

// Whether it may run now. Suspects never run on all workers at a time, unless there is but one.
bool ServiceBrain::may_run(const Request& request) const {
  if (!request.suspect()) return true;
  const int usable = workers();
  if (usable < 2) return !last_is_kept();
  int suspects = 0;
  for (const auto& [id, running] : batches_)
    suspects += requests_.at(running.items.front().item.request).suspect() ? 1 : 0;
  return suspects < usable - 1;
}

void ServiceBrain::start_singles(Nanos now, std::vector<Batch>& run) {
  for (std::size_t i = 0; i < singles_.size();) {
    const auto free = std::find_if(idle_.begin(), idle_.end(),
                                   [](const std::deque<WorkerId>& idle) { return !idle.empty(); });
    if (free == idle_.end()) return;
    if (!may_run(requests_.at(singles_[i].item.request))) {
      ++i;
      continue;
    }
    const WorkerId worker = free->front();
    const Nanos takes = plan::execution_time(workers_.at(worker).offer.curve.latency(1));
    run.push_back(begin_batch(now, worker, takes, {singles_[i]}));
    singles_.erase(singles_.begin() + static_cast<std::ptrdiff_t>(i));
    rebuild();  // the dispatcher learns that this worker is busy
  }
}

void ServiceBrain::start_steps(Nanos now, std::vector<Batch>& run) {
  bool any = false;
  for (auto& [id, worker] : workers_) {
    if (worker.steps.empty() || !worker.usable() || !worker.batches.empty()) continue;
    std::vector<Waiting> items = next_steps(worker.steps, at(worker.offer.curve.max_batch()));
    if (items.empty()) continue;
    const auto size = static_cast<int>(items.size());
    const Nanos takes = plan::execution_time(worker.offer.curve.latency(size));
    run.push_back(begin_batch(now, id, takes, std::move(items)));
    any = true;
  }
  if (any) rebuild();  // the dispatcher learns that these workers are busy
}

// What a worker can take together: of each sequence the first. They leave the queue.
std::vector<ServiceBrain::Waiting> ServiceBrain::next_steps(std::deque<Waiting>& queue,
                                                            std::size_t most) {
  std::vector<Waiting> steps;
  std::set<std::uint64_t> sequences;
  std::deque<Waiting> stay;
  while (!queue.empty() && steps.size() < most) {
    const Request& request = requests_.at(queue.front().item.request);
    const bool first = sequences.insert(request.wish.sequence).second;
    if (first && may_run(request))
      steps.push_back(queue.front());
    else
      stay.push_back(queue.front());
    queue.pop_front();
  }
  queue.insert(queue.begin(), stay.begin(), stay.end());
  return steps;
}

Outputs ServiceBrain::step(Nanos now) {
  Outputs outputs;
  if (now >= asked_) {
    counters_.lateness += now - asked_;
    ++counters_.wakes;
    for (std::size_t at = 0; at < kLatenessBounds.size(); ++at)
      if (now - asked_ <= kLatenessBounds[at]) ++counters_.wakes_within[at];
  }
  expire(now);
  if (!singles_.empty()) start_singles(now, outputs.run);
  start_steps(now, outputs.run);
  if (dispatcher_) {
    while (true) {
      const plan::Dispatcher::Decision decision = dispatcher_->step(now);
      outputs.wake_at = decision.wake_at;
      if (decision.dispatch == 0) break;
      outputs.run.push_back(start(now, decision));
    }
  }
  if (!deadlines_.empty()) outputs.wake_at = std::min(outputs.wake_at, deadlines_.begin()->first);
  each_queue([&](const std::deque<Waiting>& waiting) {
    if (waiting.empty() || running(waiting.front().item.request)) return;
    outputs.wake_at =
        std::min(outputs.wake_at, patience_of(requests_.at(waiting.front().item.request)));
  });
  asked_ = outputs.wake_at;
  outputs.finished = std::exchange(finished_, {});
  outputs.drain = std::exchange(drained_, {});
  return outputs;
}

int ServiceBrain::queued() const {
  std::size_t all = 0;
  each_queue([&](const std::deque<Waiting>& waiting) { all += waiting.size(); });
  return static_cast<int>(all);
}
int ServiceBrain::running_batches() const { return static_cast<int>(batches_.size()); }

int ServiceBrain::workers() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(),
                                        [](const auto& w) { return w.second.usable(); }));
}

bool ServiceBrain::usable(WorkerId worker) const {
  const auto found = workers_.find(worker);
  return found != workers_.end() && found->second.usable();
}

double ServiceBrain::capacity_rps() const {
  double rate = 0;
  for (const auto& [id, worker] : workers_) {
    if (!worker.usable()) continue;
    const profile::BatchCurve::Step& full = worker.offer.curve.steps.back();
    rate += worker.offer.at_once * full.batch * 1e3 / full.latency.value;
  }
  return rate;
}

// A margin is left, as admission does.
double ServiceBrain::depth() const {
  if (!settings_.shed || !settings_.predictable) return 0;
  Nanos longest = 0;
  for (const auto& [id, worker] : workers_)
    if (worker.usable())
      longest = std::max(longest, plan::execution_time(worker.offer.curve.steps.back().latency));
  const auto spare = static_cast<double>(settings_.slo - scaled(longest, drift_));
  const double rows = kDepthUsed * capacity_rps() / drift_ * spare / 1e9;
  return std::clamp(rows, 0.0, kDepthUsed * settings_.queue_limit);
}

std::vector<WorkerId> ServiceBrain::overdue(Nanos now, Nanos grace) const {
  std::vector<WorkerId> late;
  if (!settings_.predictable) return late;
  for (const auto& [id, running] : batches_)
    if (now - running.begun > running.predicted + grace) late.push_back(running.worker);
  return late;
}

Nanos ServiceBrain::first_overdue(Nanos grace) const {
  Nanos first = plan::kForever;
  if (!settings_.predictable) return first;
  for (const auto& [id, running] : batches_)
    first = std::min(first, running.begun + running.predicted + grace + 1);
  return first;
}

}  // namespace partita::serve
