#include "drivers/cpu_mask/dispatcher.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace partita::drivers::cpu_mask {
namespace {

// Batches shrink as work runs out, so that the units of a lane end at about the same time.
constexpr std::int64_t kBatchesPerUnit = 4;

// What a unit takes of a kernel that `units` run.
std::int64_t batch_size(const Execution& kernel, std::int64_t units) {
  if (kernel.finished == 0) return 1;
  const std::int64_t each_ns = std::max<std::int64_t>(1, kernel.spent_ns / kernel.finished);
  const std::int64_t most = std::clamp<std::int64_t>(kMaxBatchNs / each_ns, 1, kMaxBatch);
  return std::clamp<std::int64_t>((kernel.groups - kernel.taken) / (kBatchesPerUnit * units), 1,
                                  most);
}

}  // namespace

Dispatcher::Dispatcher(int units) : units_(static_cast<std::size_t>(units)) {}

std::shared_ptr<Lane> Dispatcher::add(const hw::UnitMask& mask) {
  const auto lane = std::make_shared<Lane>();
  lane->mask = mask;
  lane->ran.resize(units_.size());
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (!mask[unit]) continue;
    lane->units.push_back(static_cast<int>(unit));
    units_[unit].lanes.push_back({lane.get()});
  }
  CHECK(lane->units.size() == mask.count() && mask.any());
  return lane;
}

void Dispatcher::remove(const Lane& lane) {
  CHECK(lane.queue.empty());
  for (const int number : lane.units) {
    Unit& unit = units_[static_cast<std::size_t>(number)];
    const auto at = std::ranges::find(unit.lanes, &lane, &Served::lane);
    if (std::cmp_less(at - unit.lanes.begin(), unit.turn)) --unit.turn;
    unit.lanes.erase(at);
  }
}

void Dispatcher::push(Lane& lane, Item item) {
  lane.queue.push_back(std::move(item));
  // With anything before it, it becomes the head when that ends.
  if (lane.queue.size() == 1) advance(lane, -1);
}

// Goes on with a lane whose head has changed or need not wait any more, and with the lanes that
// wait for events which that finishes. A unit that is searching for work anyway (-1: none) needs no
// sleeper to be woken beside it.
void Dispatcher::advance(Lane& first, int searching) {
  std::vector<Lane*> lanes{&first};
  while (!lanes.empty()) {
    Lane& lane = *lanes.back();
    lanes.pop_back();
    while (!lane.queue.empty()) {
      Item& head = lane.queue.front();
      if (auto* const kernel = std::get_if<Execution>(&head)) {
        lane.running = kernel;
        if (searching < 0 || !lane.mask[static_cast<std::size_t>(searching)]) wake_one(lane);
        break;
      }
      if (const auto* wait = std::get_if<Wait>(&head)) {
        if (!wait->event->finished) {
          wait->event->waiting.push_back(&lane);
          break;
        }
      } else {
        Event& event = *std::get<Record>(head).event;
        event.finished = true;
        lanes.insert(lanes.end(), event.waiting.begin(), event.waiting.end());
        event.waiting.clear();
      }
      lane.queue.pop_front();
      ++lane.ended;
    }
  }
}

// The lane that a unit takes its next batch from; it counts as served for no less than the last.
std::optional<std::size_t> Dispatcher::next_lane(Unit& unit) {
  const std::size_t count = unit.lanes.size();
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = unit.turn + i < count ? unit.turn + i : unit.turn + i - count;
    Served& served = unit.lanes[at];
    if (!served.lane->has_work()) continue;
    served.ns = std::max(served.ns, unit.least_ns);
    if (!best || served.ns < unit.lanes[*best].ns) best = at;
  }
  if (!best) return best;
  unit.least_ns = unit.lanes[*best].ns;
  unit.turn = *best + 1 == count ? 0 : *best + 1;
  return best;
}

std::optional<Batch> Dispatcher::take(int number) {
  Unit& unit = units_[static_cast<std::size_t>(number)];
  const std::optional<std::size_t> next = next_lane(unit);
  sleeping_[static_cast<std::size_t>(number)] = !next;
  if (!next) return std::nullopt;
  Lane& lane = *unit.lanes[*next].lane;
  Execution& kernel = *lane.running;
  unit.serves = &lane;
  Batch batch{&lane, &kernel};
  if (!kernel.again.empty()) {
    std::tie(batch.first, batch.last) = kernel.again.front();
    kernel.again.erase(kernel.again.begin());
  } else {
    batch.first = kernel.taken;
    kernel.taken += batch_size(kernel, static_cast<std::int64_t>(lane.units.size()));
    batch.last = kernel.taken;
  }
  if (sleeping_.any()) {
    for (const Served& served : unit.lanes)
      if (served.lane->has_work()) wake_one(*served.lane);
  }
  return batch;
}

void Dispatcher::finish(const Batch& batch, int unit, std::int64_t spent_ns,
                        std::optional<std::int64_t> until) {
  const std::int64_t ran = until.value_or(batch.last) - batch.first;
  Lane& lane = *batch.lane;
  Execution& kernel = *batch.kernel;
  std::vector<Served>& lanes = units_[static_cast<std::size_t>(unit)].lanes;
  std::ranges::find(lanes, &lane, &Served::lane)->ns += spent_ns;
  kernel.spent_ns += spent_ns;
  lane.ran[static_cast<std::size_t>(unit)] += ran;
  kernel.finished += ran;
  if (until) kernel.again.emplace_back(*until, batch.last);
  if (kernel.finished < kernel.groups) return;
  lane.running = nullptr;
  lane.queue.pop_front();
  ++lane.ended;
  advance(lane, unit);
}

bool Dispatcher::wanted(int number) const {
  const Unit& unit = units_[static_cast<std::size_t>(number)];
  return std::ranges::any_of(unit.lanes, [&](const Served& served) {
    return served.lane != unit.serves && served.lane->has_work();
  });
}

// Wakes a unit of the lane, when one sleeps.
void Dispatcher::wake_one(const Lane& lane) {
  if ((lane.mask & sleeping_).none()) return;
  const int unit = *std::ranges::find_if(lane.units, [&](int u) { return sleeps(u); });
  sleeping_[static_cast<std::size_t>(unit)] = false;
  woken_.push_back(unit);
}

std::vector<int> Dispatcher::woken() { return std::exchange(woken_, {}); }

}  // namespace partita::drivers::cpu_mask
