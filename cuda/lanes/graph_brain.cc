#include "lanes/graph_brain.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace partita::exec {
namespace {

// What a unit counts that a kernel must not be given: more than can run.
constexpr int kTaken = 1 << 20;

}  // namespace

GraphBrain::GraphBrain(const TaskGraph& graph, const MaskChoice& mask, const Options& options)
    : tasks_(graph.tasks()),
      mask_(mask),
      options_(options),
      states_(tasks_.size()),
      after_(tasks_.size()),
      running_(static_cast<std::size_t>(options.units)),
      left_(tasks_.size()) {
  CHECK(options.units >= 1 && options.max_lanes >= 1);
  for (int task = 0; std::cmp_less(task, tasks_.size()); ++task) {
    const std::vector<int>& before = tasks_[static_cast<std::size_t>(task)].after;
    state(task).missing = state(task).outside = static_cast<int>(before.size());
    for (const int other : before) after_[static_cast<std::size_t>(other)].push_back(task);
  }
  count_behind();
  for (int task = 0; std::cmp_less(task, tasks_.size()); ++task)
    if (state(task).missing == 0) ready(task);
}

void GraphBrain::count_behind() {
  std::vector<std::size_t> waiting(tasks_.size());  // tasks that are not counted yet
  std::vector<int> counted;
  for (int task = 0; std::cmp_less(task, tasks_.size()); ++task) {
    waiting[static_cast<std::size_t>(task)] = after_[static_cast<std::size_t>(task)].size();
    if (after_[static_cast<std::size_t>(task)].empty()) counted.push_back(task);
  }
  for (std::size_t i = 0; i < counted.size(); ++i) {
    const int task = counted[i];
    for (const int before : tasks_[static_cast<std::size_t>(task)].after) {
      state(before).behind = std::max(state(before).behind, state(task).behind + 1);
      if (--waiting[static_cast<std::size_t>(before)] == 0) counted.push_back(before);
    }
  }
}

bool GraphBrain::is_kernel(int task) const {
  return std::holds_alternative<LaneWork>(tasks_[static_cast<std::size_t>(task)].work);
}

void GraphBrain::ready(int task) {
  const Ready one{state(task).behind, turns_++, task};
  if (!is_kernel(task)) return void(cpu_ready_.push(one));
  const int wanted = std::get<LaneWork>(tasks_[static_cast<std::size_t>(task)].work).units;
  kernels_ready_[wanted].push(one);
}

std::optional<int> GraphBrain::next_cpu() {
  if (cpu_ready_.empty()) return std::nullopt;
  const int task = cpu_ready_.top().task;
  cpu_ready_.pop();
  state(task).started = true;
  ++active_;
  return task;
}

// The first of those that wait, by wanted units, which are not among those refused.
GraphBrain::Waiting* GraphBrain::first_waiting() {
  Waiting* first = nullptr;
  for (auto& [wanted, waiting] : kernels_ready_)
    if (!waiting.empty() && std::ranges::find(refused_, wanted) == refused_.end() &&
        (first == nullptr || waiting.top() < first->top()))
      first = &waiting;
  return first;
}

std::optional<Enqueued> GraphBrain::next_kernel() {
  refused_.clear();
  while (Waiting* const waiting = first_waiting()) {
    const int task = waiting->top().task;
    const std::optional<hw::UnitMask> mask = mask_(task, running_);
    if (!mask) {
      refused_.push_back(std::get<LaneWork>(tasks_[static_cast<std::size_t>(task)].work).units);
      continue;
    }
    auto enqueued = enqueue(task, *mask, std::nullopt);
    if (enqueued) waiting->pop();
    return enqueued;
  }
  while (!ahead_.empty()) {
    const int task = ahead_.front();
    ahead_.pop_front();
    const std::optional<int> before = last_unfinished(task);
    if (!before) continue;
    const auto mask = taken_over(task, *before);
    if (!mask) continue;
    if (auto enqueued = enqueue(task, *mask, before)) return enqueued;
  }
  return std::nullopt;
}

std::optional<int> GraphBrain::next_behind(int lane) {
  refused_.clear();
  Waiting* const waiting = first_waiting();
  if (waiting == nullptr || waiting->size() <= kLeftForEach * running_.size()) return std::nullopt;
  const int task = waiting->top().task;
  const Lane& its = lanes_[static_cast<std::size_t>(lane)];
  const auto& work = std::get<LaneWork>(tasks_[static_cast<std::size_t>(task)].work);
  if (work.groups != 1 || its.queued >= kMostQueued) return std::nullopt;
  counts_ = running_;
  for (std::size_t unit = 0; unit < counts_.size(); ++unit)
    if (its.mask[unit]) counts_[unit] -= its.queued;
  if (mask_(task, counts_) != its.mask) return std::nullopt;
  waiting->pop();
  put(task, lane, its.mask);
  return task;
}

void GraphBrain::ended(int task) {
  State& mine = state(task);
  CHECK(mine.started && !mine.ended);
  mine.ended = true;
  --left_;
  --active_;
  if (mine.lane >= 0) left_lane(mine);
  for (const int next : after_[static_cast<std::size_t>(task)]) {
    State& theirs = state(next);
    --theirs.missing;
    if (mine.lane < 0) --theirs.outside;
    if (theirs.started) continue;  // ahead: the device waits
    ++(theirs.missing == 0 ? dependencies_.on_host : dependencies_.skipped);
    if (theirs.missing == 0) {
      ready(next);
    } else {
      look_ahead(next);
    }
  }
}

// A kernel has left its lane: what waits for the last one there may find room behind it now.
void GraphBrain::left_lane(const State& ended) {
  use(ended.mask, -1);
  Lane& lane = lanes_[static_cast<std::size_t>(ended.lane)];
  if (--lane.queued == 0) return;
  const std::vector<int>& waiting = after_[static_cast<std::size_t>(lane.last)];
  for (std::size_t i = 0; i < std::min(waiting.size(), kMostTried); ++i) look_ahead(waiting[i]);
}

bool GraphBrain::alone_on_units(int task) const {
  const hw::UnitMask& mask = state(task).mask;
  for (std::size_t unit = 0; unit < running_.size(); ++unit)
    if (mask[unit] && running_[unit] > 1) return false;
  return true;
}

void GraphBrain::skipped_wait() {
  --dependencies_.on_device;
  ++dependencies_.skipped;
}

// Considers a task for being queued ahead, once all that it waits for is queued on lanes.
void GraphBrain::look_ahead(int task) {
  const State& its = state(task);
  if (options_.ahead && is_kernel(task) && its.outside == 0 && its.missing > 0 && !its.started)
    ahead_.push_back(task);
}

void GraphBrain::use(const hw::UnitMask& mask, int more) {
  for (std::size_t unit = 0; unit < running_.size(); ++unit)
    if (mask[unit]) running_[unit] += more;
}

// The one task that a task still waits for; none where there are several, or it is queued itself.
std::optional<int> GraphBrain::last_unfinished(int task) const {
  std::optional<int> last;
  for (const int other : tasks_[static_cast<std::size_t>(task)].after) {
    if (state(other).ended || last == other) continue;
    if (last) return std::nullopt;
    last = other;
  }
  return state(task).started ? std::nullopt : last;
}

// A mask on units of `before` alone that no other kernel uses more than the choice allows. Nothing
// may be queued behind `before` on its lane: an event there would wait for that as well.
std::optional<hw::UnitMask> GraphBrain::taken_over(int task, int before) {
  const hw::UnitMask& theirs = state(before).mask;
  const Lane& lane = lanes_[static_cast<std::size_t>(state(before).lane)];
  if (lane.last != before || lane.queued >= kMostQueued) return std::nullopt;
  counts_.assign(running_.size(), kTaken);
  for (std::size_t unit = 0; unit < counts_.size(); ++unit)
    if (theirs[unit]) counts_[unit] = running_[unit] - 1;
  const std::optional<hw::UnitMask> mask = mask_(task, counts_);
  const auto& work = std::get<LaneWork>(tasks_[static_cast<std::size_t>(task)].work);
  const bool enough =
      mask && (*mask & ~theirs).none() && std::cmp_greater_equal(mask->count(), work.units);
  return enough ? mask : std::nullopt;
}

// One with this mask on which nothing is queued, or `before` is queued last.
std::optional<int> GraphBrain::free_lane(const hw::UnitMask& mask,
                                         std::optional<int> before) const {
  std::optional<int> idle;
  for (int lane = 0; lane < lanes(); ++lane) {
    const Lane& one = lanes_[static_cast<std::size_t>(lane)];
    if (one.mask != mask) continue;
    if (before && one.last == *before) return lane;
    if (one.queued == 0 && !idle) idle = lane;
  }
  return idle;
}

// Nothing where every lane is busy that there may be.
std::optional<Enqueued> GraphBrain::enqueue(int task, const hw::UnitMask& mask,
                                            std::optional<int> before) {
  Enqueued next{task, 0, false, mask, std::nullopt};
  if (const auto lane = free_lane(mask, before)) {
    next.lane = *lane;
  } else {
    next.fresh = true;
    next.lane = lanes();
    if (lanes() == options_.max_lanes) {
      const auto idle = std::ranges::find(lanes_, 0, &Lane::queued);
      if (idle == lanes_.end()) return std::nullopt;
      next.lane = static_cast<int>(idle - lanes_.begin());
    } else {
      lanes_.emplace_back();
    }
  }
  if (before && state(*before).lane != next.lane) next.waits = state(*before).lane;
  put(task, next.lane, mask);
  return next;
}

void GraphBrain::put(int task, int number, const hw::UnitMask& mask) {
  Lane& lane = lanes_[static_cast<std::size_t>(number)];
  lane.mask = mask;
  ++lane.queued;
  lane.last = task;
  State& mine = state(task);
  mine.lane = number;
  mine.mask = mask;
  mine.started = true;
  dependencies_.on_device += mine.missing;
  use(mask, 1);
  ++active_;
  for (const int after : after_[static_cast<std::size_t>(task)]) {
    --state(after).outside;
    look_ahead(after);
  }
}

}  // namespace partita::exec
