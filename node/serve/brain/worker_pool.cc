#include "serve/brain/worker_pool.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "base/index.h"

namespace partita::serve {
namespace {

constexpr double kDriftWeight = 0.05;
constexpr double kMostDrift = 4;

Nanos scaled(Nanos time, double factor) {
  return std::max<Nanos>(1, std::llround(static_cast<double>(time) * factor));
}

Nanos full_time(const WorkerOffer& offer) {
  return plan::execution_time(offer.curve.steps.back().latency);
}

}  // namespace

void WorkerPool::join(WorkerId id, WorkerOffer offer) {
  CHECK(!workers_.contains(id) && !offer.curve.steps.empty() && offer.at_once >= 1);
  workers_.emplace(id, Worker{.offer = std::move(offer)});
  most_ = std::max(most_, workers_.size());
}

bool WorkerPool::suspend(WorkerId id, bool suspended) {
  const auto found = workers_.find(id);
  if (found == workers_.end() || found->second.suspended == suspended) return false;
  found->second.suspended = suspended;
  return true;
}

bool WorkerPool::leave(WorkerId id) {
  const auto found = workers_.find(id);
  if (found == workers_.end() || found->second.leaving) return false;
  found->second.leaving = true;
  if (found->second.batches.empty()) drained_.push_back(id);
  return true;
}

std::vector<Waiting> WorkerPool::take_batches(Worker& worker) {
  std::vector<Waiting> items;
  for (const BatchId running : std::exchange(worker.batches, {})) {
    const auto batch = batches_.find(running);
    items.insert(items.end(), batch->second.items.begin(), batch->second.items.end());
    batches_.erase(batch);
  }
  return items;
}

std::vector<Waiting> WorkerPool::lose(WorkerId id) {
  std::vector<Waiting> items = take_batches(workers_.at(id));
  workers_.erase(id);
  std::erase(drained_, id);
  return items;
}

std::vector<Waiting> WorkerPool::take_back(WorkerId id) {
  Worker& worker = workers_.at(id);
  std::vector<Waiting> items = take_batches(worker);
  worker.suspended = true;
  if (worker.leaving && !items.empty()) drained_.push_back(id);
  return items;
}

WorkerPool::Members WorkerPool::arrange() {
  std::map<std::string, std::vector<WorkerId>> devices;
  usable_ = 0;
  capacity_rps_ = 0;
  longest_ = 0;
  for (auto& [id, worker] : workers_) {
    worker.member = -1;
    if (!worker.usable()) continue;
    devices[worker.offer.device].push_back(id);
    const profile::BatchCurve::Step& full = worker.offer.curve.steps.back();
    ++usable_;
    capacity_rps_ += worker.offer.at_once * full.batch * 1e3 / full.latency.value;
    longest_ = std::max(longest_, full_time(worker.offer));
  }
  idle_.clear();
  Members all;
  for (const auto& [device, ids] : devices) {
    all.members.push_back({workers_.at(ids.front()).offer.curve, 0});
    plan::PoolMember& member = all.members.back();
    int& busy = all.busy.emplace_back(0);
    std::deque<WorkerId>& idle = idle_.emplace_back();
    for (const WorkerId id : ids) {
      Worker& worker = workers_.at(id);
      worker.member = static_cast<int>(all.members.size()) - 1;
      const auto running = static_cast<int>(worker.batches.size());
      member.processes += worker.offer.at_once;
      busy += running;
      idle.insert(idle.end(), at(worker.offer.at_once - running), id);
    }
  }
  return all;
}

bool WorkerPool::usable(WorkerId id) const {
  const auto found = workers_.find(id);
  return found != workers_.end() && found->second.usable();
}

bool WorkerPool::idle(WorkerId id) const {
  const auto found = workers_.find(id);
  return found != workers_.end() && found->second.usable() && found->second.batches.empty();
}

bool WorkerPool::last_is_kept() const {
  const bool several = most_ >= 2 && settings_.planned_workers != 1;
  return several && usable_ < 2;
}

// ---- batches ----

BatchId WorkerPool::begin(Nanos now, WorkerId worker, Nanos predicted, std::vector<Waiting> items) {
  const BatchId id = next_batch_++;
  workers_.at(worker).batches.insert(id);
  batches_.emplace(id, Running{worker, now, predicted, std::move(items)});
  return id;
}

std::optional<WorkerPool::Ended> WorkerPool::end(Nanos now, BatchId id) {
  const auto found = batches_.find(id);
  if (found == batches_.end()) return std::nullopt;
  Running running = std::move(found->second);
  batches_.erase(found);
  Worker& worker = workers_.at(running.worker);
  worker.batches.erase(id);
  if (worker.member >= 0)
    idle_[at(worker.member)].push_back(running.worker);
  else if (worker.leaving && worker.batches.empty())
    drained_.push_back(running.worker);
  const Nanos took = now - running.begun;
  const double ratio = static_cast<double>(took) / static_cast<double>(running.predicted);
  drift_ = std::clamp(drift_ + kDriftWeight * (ratio - drift_), 1 / kMostDrift, kMostDrift);
  return Ended{worker.member, std::move(running.items)};
}

std::optional<WorkerId> WorkerPool::first_idle() const {
  for (const std::deque<WorkerId>& idle : idle_)
    if (!idle.empty()) return idle.front();
  return std::nullopt;
}

WorkerId WorkerPool::take_idle(int member) {
  std::deque<WorkerId>& idle = idle_[at(member)];
  CHECK(!idle.empty());
  const WorkerId worker = idle.front();
  idle.pop_front();
  return worker;
}

std::vector<std::pair<BatchId, std::uint32_t>> items_of(const WorkerPool& pool, RequestId request) {
  std::vector<std::pair<BatchId, std::uint32_t>> its;
  pool.each_batch([&](BatchId batch, const std::vector<Waiting>& items) {
    for (std::size_t i = 0; i < items.size(); ++i)
      if (items[i].item.request == request) its.emplace_back(batch, static_cast<std::uint32_t>(i));
  });
  return its;
}

std::vector<WorkerId> WorkerPool::overdue(Nanos now, Nanos grace) const {
  std::vector<WorkerId> late;
  if (!settings_.predictable) return late;
  for (const auto& [id, running] : batches_)
    if (now - running.begun > running.predicted + grace) late.push_back(running.worker);
  return late;
}

Nanos WorkerPool::first_overdue(Nanos grace) const {
  Nanos first = plan::kForever;
  if (!settings_.predictable) return first;
  for (const auto& [id, running] : batches_)
    first = std::min(first, running.begun + running.predicted + grace + 1);
  return first;
}

// ---- predictions ----

Nanos WorkerPool::spare() const { return settings_.slo - scaled(longest_, drift_); }

Nanos WorkerPool::end_of(const Running& running) const {
  return running.begun + scaled(running.predicted, drift_);
}

Nanos WorkerPool::predicted_finish(Nanos now, long items, int alone,
                                   const plan::Pressure& pressure) const {
  std::vector<plan::PoolProcess> processes;
  std::vector<const profile::BatchCurve*> curves;
  for (const auto& [name, worker] : workers_) {
    if (!worker.usable()) continue;
    const auto kind = static_cast<int>(curves.size());
    const profile::BatchCurve& curve = *curves.emplace_back(&worker.offer.curve);
    const Nanos full = scaled(full_time(worker.offer), drift_);
    for (const BatchId id : worker.batches)
      processes.push_back({std::max(now, end_of(batches_.at(id))), full, curve.max_batch(), kind});
    const std::size_t idle = at(worker.offer.at_once) - worker.batches.size();
    processes.insert(processes.end(), idle, {now, full, curve.max_batch(), kind});
  }
  for (int i = 0; i < alone; ++i) {
    plan::PoolProcess& first = *std::ranges::min_element(processes, {}, &plan::PoolProcess::free);
    first.free += scaled(plan::execution_time(curves[at(first.kind)]->latency(1)), drift_);
  }
  const plan::PredictedBatch batch = plan::predicted_batch(std::move(processes), items);
  const profile::BatchCurve& curve = *curves[at(batch.kind)];
  const int size = plan::predicted_size(batch, curve.max_batch(), now, pressure);
  return batch.start + scaled(plan::execution_time(curve.latency(size)), drift_);
}

Nanos WorkerPool::least_time(int items) const {
  Nanos least = plan::kForever;
  for (const auto& [name, worker] : workers_) {
    if (!worker.usable()) continue;
    const profile::BatchCurve& curve = worker.offer.curve;
    least =
        std::min(least, plan::execution_time(curve.latency(std::min(items, curve.max_batch()))));
  }
  return least == plan::kForever ? 0 : scaled(least, drift_);
}

Nanos WorkerPool::predicted_step(Nanos now, WorkerId id, int waiting) const {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return now;
  const profile::BatchCurve& curve = found->second.offer.curve;
  Nanos start = now;
  for (const BatchId batch : found->second.batches)
    start = std::max(start, end_of(batches_.at(batch)));
  const Nanos full = full_time(found->second.offer);
  const Nanos last = plan::execution_time(curve.latency(waiting % curve.max_batch() + 1));
  return start + scaled(waiting / curve.max_batch() * full + last, drift_);
}

}  // namespace partita::serve
