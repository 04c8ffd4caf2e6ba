#include "remote/server/broker_brain.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "hw/cpu_units.h"

namespace partita::remote::server {

using broker::Action;

bool fits(const Part& part, const std::string& shape) {
  if (shape.empty() || shape == part.shape) return true;
  const int wanted = hw::cpu_unit_count(shape);
  return wanted > 0 && wanted <= part.units;
}

BrokerBrain::BrokerBrain(std::vector<Part> parts, BrokerLimits limits)
    : parts_(std::move(parts)), limits_(limits), seats_(parts_.size()) {}

std::size_t BrokerBrain::serving() const {
  return static_cast<std::size_t>(
      std::ranges::count(seats_, State::serving, [](const Seat& seat) { return seat.state; }));
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
  if (const auto* arrived = std::get_if<broker::Arrived>(&event)) {
    const bool any =
        std::ranges::any_of(parts_, [&](const Part& part) { return fits(part, arrived->shape); });
    if (down_) return {broker::Deny{arrived->client, "the server is going down"}};
    if (!any)
      return {broker::Deny{arrived->client,
                           fmt::format("this server has no part of shape {}", arrived->shape)}};
    if (queue_.size() >= limits_.queue)
      return {broker::Deny{arrived->client, fmt::format("{} clients wait already", queue_.size())}};
    queue_.push_back({arrived->client, arrived->shape});
  } else if (const auto* left = std::get_if<broker::Left>(&event)) {
    std::erase_if(queue_, [&](const Waiting& w) { return w.client == left->client; });
  } else if (const auto* ready = std::get_if<broker::WorkerReady>(&event)) {
    Seat* const seat = seat_of(ready->worker);
    if (seat != nullptr && seat->state == State::starting) {
      seat->state = State::ready;
      seat->failures = 0;
    }
  } else if (const auto* ended = std::get_if<broker::WorkerEnded>(&event)) {
    if (Seat* const seat = seat_of(ended->worker)) {
      const int failures = seat->failures + (seat->state == State::starting ? 1 : 0);
      *seat = Seat{.failures = failures};
    }
  } else {
    down_ = true;
    for (const Waiting& waiting : queue_)
      actions.push_back(broker::Deny{waiting.client, "the server is going down"});
    queue_.clear();
    for (Seat& seat : seats_) {
      if (seat.state == State::none || seat.state == State::ending) continue;
      seat.state = State::ending;
      actions.push_back(broker::Stop{seat.worker});
    }
  }
  std::ranges::move(act(), std::back_inserter(actions));
  return actions;
}

std::vector<Action> BrokerBrain::act() {
  std::vector<Action> actions;
  if (down_) return actions;
  match(actions);
  keep_warm(actions);
  tell_places(actions);
  return actions;
}

void BrokerBrain::start(std::size_t part, std::vector<Action>& actions) {
  seats_[part].state = State::starting;
  seats_[part].worker = next_worker_++;
  actions.push_back(broker::Start{seats_[part].worker, part});
}

// Gives free parts to those who wait, first come first served. One who finds no ready worker is
// promised one that starts, until the next event.
void BrokerBrain::match(std::vector<Action>& actions) {
  for (Seat& seat : seats_) seat.promised = 0;
  for (Waiting& waiting : queue_) {
    std::size_t best = seats_.size();
    bool hope = false;
    const auto rank = [&](std::size_t part) {
      const Seat& seat = seats_[part];
      const int order = seat.state == State::ready ? 0 : seat.state == State::starting ? 1 : 2;
      return std::tuple(order, parts_[part].units, part);
    };
    for (std::size_t part = 0; part < seats_.size(); ++part) {
      const Seat& seat = seats_[part];
      if (!fits(parts_[part], waiting.shape) || seat.failures >= limits_.failures) continue;
      hope = true;
      if (seat.state == State::serving || seat.state == State::ending) continue;
      if (seat.promised != 0) continue;
      if (best == seats_.size() || rank(part) < rank(best)) best = part;
    }
    if (!hope) {
      actions.push_back(broker::Deny{waiting.client, "workers on such parts do not start", true});
      waiting.client = 0;
      continue;
    }
    if (best == seats_.size()) {
      waiting.promised = false;
      continue;
    }
    waiting.promised = true;
    seats_[best].promised = waiting.client;
    if (seats_[best].state == State::none) start(best, actions);
    if (seats_[best].state != State::ready) continue;
    actions.push_back(broker::Give{waiting.client, seats_[best].worker});
    seats_[best].state = State::serving;
    seats_[best].promised = 0;
    waiting.client = 0;
  }
  std::erase_if(queue_, [](const Waiting& waiting) { return waiting.client == 0; });
}

// One worker is kept ready on the smallest free part, then on the next.
void BrokerBrain::keep_warm(std::vector<Action>& actions) {
  std::size_t warm = 0;
  for (const Seat& seat : seats_)
    if (seat.promised == 0 && (seat.state == State::ready || seat.state == State::starting)) ++warm;
  for (std::size_t part = 0; part < seats_.size() && warm < limits_.warm; ++part) {
    if (seats_[part].state != State::none || seats_[part].failures >= limits_.failures) continue;
    start(part, actions);
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
