#include "server/broker_brain.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "hw/cpu_units.h"

namespace partita::remote::server {

using broker::Action;

bool fits(const Part& part, const std::string& shape) {
  if (shape == part.shape || (shape.empty() && !part.named)) return true;
  const int wanted = hw::cpu_unit_count(shape);
  return wanted > 0 && wanted <= part.units;
}

BrokerBrain::BrokerBrain(std::vector<Part> parts, BrokerLimits limits,
                         std::vector<std::string> makeable)
    : parts_(std::move(parts)),
      limits_(limits),
      makeable_(std::move(makeable)),
      seats_(parts_.size()) {
  if (makeable_.empty()) return;
  parts_.resize(parts_.size() + limits_.made);
  seats_.resize(parts_.size(), {.state = State::absent, .on_demand = true});
}

std::size_t BrokerBrain::present() const {
  return static_cast<std::size_t>(std::ranges::count_if(seats_, [](const Seat& seat) {
    return seat.state != State::absent && seat.state != State::making;
  }));
}

std::size_t BrokerBrain::borrowed() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      seats_, [](const Seat& seat) { return seat.on_demand && seat.state != State::absent; }));
}

std::size_t BrokerBrain::ready() const {
  return static_cast<std::size_t>(
      std::ranges::count(seats_, State::ready, [](const Seat& seat) { return seat.state; }));
}

BrokerBrain::Seat* BrokerBrain::seat_of(WorkerId worker) {
  const auto found = std::ranges::find(seats_, worker, &Seat::worker);
  return worker == 0 || found == seats_.end() ? nullptr : &*found;
}

std::vector<Action> BrokerBrain::step(const broker::Event& event) {
  std::vector<Action> actions;
  std::visit([&](const auto& what) { take(what, actions); }, event);
  std::ranges::move(act(), std::back_inserter(actions));
  return actions;
}

// The shape to make for who asks for this one, if there is one.
const std::string* BrokerBrain::makeable(const std::string& shape) const {
  if (makeable_.empty()) return nullptr;
  if (shape.empty()) return &makeable_.front();
  const auto found = std::ranges::find(makeable_, shape);
  return found == makeable_.end() ? nullptr : &*found;
}

void BrokerBrain::take(const broker::Arrived& arrived, std::vector<Action>& actions) {
  const auto deny = [&](std::string reason) {
    actions.push_back(broker::Deny{arrived.client, std::move(reason)});
  };
  const bool any =
      makeable(arrived.shape) != nullptr || std::ranges::any_of(seats_, [&](const Seat& seat) {
        return !seat.on_demand && fits(parts_[number_of(seat)], arrived.shape);
      });
  if (down_) return deny("the server is going down");
  if (!any && arrived.shape.empty())
    return deny("this server's parts are given by name alone: ask for one with --profile");
  if (!any) return deny(fmt::format("this server has no part of shape {}", arrived.shape));
  if (queue_.empty()) full_ = false;  // others may have given room since
  queue_.push_back({arrived.client, arrived.shape});
  newest_ = arrived.client;
}

void BrokerBrain::take(const broker::Left& left, std::vector<Action>&) {
  std::erase_if(queue_, [&](const Waiting& waiting) { return waiting.client == left.client; });
}

void BrokerBrain::take(const broker::WorkerReady& ready, std::vector<Action>&) {
  Seat* const seat = seat_of(ready.worker);
  if (seat == nullptr || seat->state != State::starting) return;
  seat->state = State::ready;
  seat->failures = 0;
}

void BrokerBrain::take(const broker::WorkerEnded& ended, std::vector<Action>& actions) {
  Seat* const seat = seat_of(ended.worker);
  if (seat == nullptr) return;
  const int failures = seat->failures + (seat->state == State::starting ? 1 : 0);
  *seat = Seat{.on_demand = seat->on_demand, .failures = failures};
  // One made anew would fail as well.
  if (seat->on_demand && failures >= limits_.failures)
    deny_all(parts_[number_of(*seat)].shape, "workers on such parts do not start", true, actions);
}

void BrokerBrain::take(const broker::Made& made, std::vector<Action>&) {
  parts_[made.part].name = made.name;
  seats_[made.part].state = State::none;
}

void BrokerBrain::take(const broker::NotMade& not_made, std::vector<Action>& actions) {
  const std::string shape = parts_[not_made.part].shape;
  parts_[not_made.part] = {};
  seats_[not_made.part].state = State::absent;
  // With nothing of ours in the way, waiting is in vain.
  if (not_made.no_room && borrowed() > 0)
    full_ = true;
  else
    deny_all(shape, not_made.reason, false, actions);
  for (Waiting& waiting : queue_) {
    const std::string* const wanted = makeable(waiting.shape);
    if (wanted != nullptr && *wanted == shape) waiting.in_vain = true;
  }
}

void BrokerBrain::take(const broker::AskAgain&, std::vector<Action>&) {
  full_ = false;
  for (Waiting& waiting : queue_) waiting.in_vain = false;
}

void BrokerBrain::take(const broker::Unmade& unmade, std::vector<Action>& actions) {
  parts_[unmade.part] = {};
  seats_[unmade.part] = {.state = State::absent, .on_demand = true};
  take(broker::AskAgain{}, actions);
}

void BrokerBrain::take(const broker::ShutDown&, std::vector<Action>& actions) {
  down_ = true;
  for (const Waiting& waiting : queue_)
    actions.push_back(broker::Deny{waiting.client, "the server is going down"});
  queue_.clear();
  for (Seat& seat : seats_) {
    if (seat.state < State::starting || seat.state == State::ending) continue;
    seat.state = State::ending;
    actions.push_back(broker::Stop{seat.worker});
  }
}

// Those who wait for a part of this shape to be made, and could use no other.
void BrokerBrain::deny_all(const std::string& shape, const std::string& reason, bool worker_failed,
                           std::vector<Action>& actions) {
  std::erase_if(queue_, [&](const Waiting& waiting) {
    const std::string* const wanted = makeable(waiting.shape);
    if (wanted == nullptr || *wanted != shape) return false;
    for (const Seat& seat : seats_)
      if (!seat.on_demand && fits(parts_[number_of(seat)], waiting.shape)) return false;
    actions.push_back(broker::Deny{waiting.client, reason, worker_failed});
    return true;
  });
}

std::vector<Action> BrokerBrain::act() {
  std::vector<Action> actions;
  for (Seat& seat : seats_) seat.promised = 0;
  if (!down_) match(actions);
  turn_away(actions);
  put_back(actions);
  if (down_) return actions;
  keep_warm(actions);
  tell_places(actions);
  return actions;
}

// Has a part made; nullptr when there are as many as there may be.
BrokerBrain::Seat* BrokerBrain::make(const std::string& shape, std::vector<Action>& actions) {
  const auto seat = std::ranges::find(seats_, State::absent, &Seat::state);
  if (seat == seats_.end()) return nullptr;
  seat->state = State::making;
  parts_[number_of(*seat)].shape = shape;
  actions.push_back(broker::Make{number_of(*seat), shape});
  return &*seat;
}

// Parts made on demand that nobody wants go.
void BrokerBrain::put_back(std::vector<Action>& actions) {
  for (Seat& seat : seats_) {
    if (!seat.on_demand || seat.promised != 0) continue;
    if (seat.state == State::none) {
      seat.state = State::unmaking;
      actions.push_back(broker::Unmake{number_of(seat)});
    } else if (seat.state == State::ready) {
      seat.state = State::ending;
      actions.push_back(broker::Stop{seat.worker});
    }
  }
}

void BrokerBrain::start(Seat& seat, std::vector<Action>& actions) {
  seat.state = State::starting;
  seat.worker = next_worker_++;
  actions.push_back(broker::Start{seat.worker, number_of(seat)});
}

// The best part for who waits that nobody has or is promised, if there is one: that of a worker
// which is ready, one that starts, one without any, one in the making. `hope`: some part will do,
// now or later.
BrokerBrain::Seat* BrokerBrain::seat_for(const Waiting& waiting, bool& hope) {
  Seat* best = nullptr;
  const auto rank = [this](const Seat& seat) {
    return std::tuple(-static_cast<int>(seat.state), parts_[number_of(seat)].units,
                      number_of(seat));
  };
  for (Seat& seat : seats_) {
    if (seat.state == State::absent || seat.state == State::unmaking) continue;
    if (!fits(parts_[number_of(seat)], waiting.shape) || seat.failures >= limits_.failures)
      continue;
    hope = true;
    if (seat.state == State::serving || seat.state == State::ending) continue;
    if (seat.promised != 0) continue;
    if (best == nullptr || rank(seat) < rank(*best)) best = &seat;
  }
  return best;
}

// Gives free parts to those who wait, first come first served. One who finds no ready worker is
// promised one that starts, until the next event.
void BrokerBrain::match(std::vector<Action>& actions) {
  for (Waiting& waiting : queue_) {
    bool hope = false;
    Seat* best = seat_for(waiting, hope);
    const std::string* const shape = makeable(waiting.shape);
    if (!hope && shape == nullptr) {
      actions.push_back(broker::Deny{waiting.client, "workers on such parts do not start", true});
      waiting.client = 0;
      continue;
    }
    if (best == nullptr && shape != nullptr && !waiting.in_vain && !full_)
      best = make(*shape, actions);
    waiting.promised = best != nullptr;
    if (!waiting.promised) continue;
    best->promised = waiting.client;
    if (best->state == State::none) start(*best, actions);
    if (best->state != State::ready) continue;
    actions.push_back(broker::Give{waiting.client, best->worker});
    best->state = State::serving;
    waiting.client = 0;
  }
  std::erase_if(queue_, [](const Waiting& waiting) { return waiting.client == 0; });
}

// Who has just come, where no part is free and as many wait as may.
void BrokerBrain::turn_away(std::vector<Action>& actions) {
  const ClientId newest = std::exchange(newest_, 0);
  if (newest == 0 || queue_.empty() || queue_.back().client != newest) return;
  const auto waiting =
      static_cast<std::size_t>(std::ranges::count(queue_, false, &Waiting::promised));
  if (queue_.back().promised || waiting <= limits_.queue) return;
  actions.push_back(broker::Deny{
      newest, limits_.queue == 0 ? "all parts are taken, and nobody may wait"
                                 : fmt::format("{} clients wait already", waiting - 1)});
  queue_.pop_back();
}

// One worker is kept ready on the smallest free part, then on the next.
void BrokerBrain::keep_warm(std::vector<Action>& actions) {
  std::size_t warm = 0;
  for (const Seat& seat : seats_)
    if (!seat.on_demand && seat.promised == 0 &&
        (seat.state == State::ready || seat.state == State::starting))
      ++warm;
  for (Seat& seat : seats_) {
    if (seat.on_demand || seat.state != State::none || warm >= limits_.warm) continue;
    if (seat.failures >= limits_.failures) continue;
    start(seat, actions);
    ++warm;
  }
}

// Those to whom no worker is promised hear their place when it changes.
void BrokerBrain::tell_places(std::vector<Action>& actions) {
  std::uint32_t place = 0;
  for (Waiting& waiting : queue_) {
    if (waiting.promised) continue;
    ++place;
    if (waiting.place == place) continue;
    waiting.place = place;
    actions.push_back(broker::Place{waiting.client, place});
  }
}

}  // namespace partita::remote::server
