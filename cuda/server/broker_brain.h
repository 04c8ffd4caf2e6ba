// BrokerBrain: who gets which part of the machine, as a pure state machine: events in, actions out.
// Clients wait in the order of their arrival; the first whose shape fits a free part gets the
// smallest such part, preferring one whose worker is ready. A part belongs to one worker process at
// a time; it is free again when that process has ended. Parts of some shapes can be made on demand:
// in the order in which they are asked for, and taken apart again as soon as nobody who waits wants
// one. Who hears that none is made, and waits for a part that is there, has it asked for again when
// room was given back or AskAgain comes. Limits: BrokerLimits.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace partita::remote::server {

struct Part {
  std::string name = {};   // "CPU-4/0", "MIG-...": for people and backends
  std::string shape = {};  // "CPU-4", "2g.20gb", "gpu"
  int units = 0;           // of the CPU; 0: a GPU's
  bool named = false;      // only for who asks for its shape
};

struct BrokerLimits {
  std::size_t queue = 64;  // clients that wait, beside those for whom there is a free part
  std::size_t warm = 1;    // free parts whose workers are kept ready; of those not made on demand
  std::size_t made = 64;   // parts made on demand at the same time
  // A worker that ends before it was ready counts as a failure; after so many without a success
  // nothing is started on its part.
  int failures = 3;
};

using ClientId = std::uint64_t;
using WorkerId = std::uint64_t;

// Whether a part can serve who asks for this shape; empty: any that is not `named`. "CPU-2" is also
// served by "CPU-4", on 2 of its units.
bool fits(const Part& part, const std::string& shape);

namespace broker {

struct Arrived {
  ClientId client = 0;
  std::string shape = {};
};
struct Left {  // a client that waits
  ClientId client = 0;
};
struct WorkerReady {
  WorkerId worker = 0;
};
struct WorkerEnded {
  WorkerId worker = 0;
};
// Answers to Make and Unmake, in any order.
struct Made {
  std::size_t part = 0;
  std::string name = {};
};
struct NotMade {
  std::size_t part = 0;
  bool no_room = false;  // for now
  std::string reason = {};
};
struct Unmade {
  std::size_t part = 0;
};
struct AskAgain {};  // some time after NotMade: there may be room by now
struct ShutDown {};
using Event = std::variant<Arrived, Left, WorkerReady, WorkerEnded, Made, NotMade, Unmade, AskAgain,
                           ShutDown>;

struct Start {
  WorkerId worker = 0;
  std::size_t part = 0;
  bool operator==(const Start&) const = default;
};
struct Give {  // the client to the worker, which is ready
  ClientId client = 0;
  WorkerId worker = 0;
  bool operator==(const Give&) const = default;
};
struct Place {
  ClientId client = 0;
  std::uint32_t place = 0;  // 1: the next
  bool operator==(const Place&) const = default;
};
struct Deny {
  ClientId client = 0;
  std::string reason = {};
  bool worker_failed = false;  // what the last worker said belongs beside the reason
  bool operator==(const Deny&) const = default;
};
struct Stop {  // the worker, with its session if it has one
  WorkerId worker = 0;
  bool operator==(const Stop&) const = default;
};
struct Make {
  std::size_t part = 0;
  std::string shape = {};
  bool operator==(const Make&) const = default;
};
struct Unmake {
  std::size_t part = 0;
  bool operator==(const Unmake&) const = default;
};
using Action = std::variant<Start, Give, Place, Deny, Stop, Make, Unmake>;

}  // namespace broker

class BrokerBrain {
 public:
  // `makeable`: the shapes of parts that can be made; who asks for no shape gets the first.
  BrokerBrain(std::vector<Part> parts, BrokerLimits limits, std::vector<std::string> makeable = {});

  // Starts the first warm workers.
  std::vector<broker::Action> begin() { return act(); }
  std::vector<broker::Action> step(const broker::Event& event);

  // By number; those that can be made and are not have no name.
  const std::vector<Part>& parts() const { return parts_; }
  std::size_t present() const;   // parts that are there
  std::size_t borrowed() const;  // of them made on demand, or in the making or unmaking
  std::size_t waiting() const { return queue_.size(); }
  std::size_t ready() const;

 private:
  enum class State { absent, making, unmaking, none, starting, ready, serving, ending };  // ranked
  struct Seat {  // what a part is doing
    State state = State::none;
    bool on_demand = false;
    WorkerId worker = 0;
    ClientId promised = 0;  // a client that waits for this worker to start
    int failures = 0;
  };
  struct Waiting {
    ClientId client = 0;
    std::string shape = {};
    std::uint32_t place = 0;  // as it was told
    bool promised = false;
    bool in_vain = false;  // a part was asked for, which was not made
  };
  void take(const broker::Arrived& arrived, std::vector<broker::Action>& actions);
  void take(const broker::Left& left, std::vector<broker::Action>& actions);
  void take(const broker::WorkerReady& ready, std::vector<broker::Action>& actions);
  void take(const broker::WorkerEnded& ended, std::vector<broker::Action>& actions);
  void take(const broker::Made& made, std::vector<broker::Action>& actions);
  void take(const broker::NotMade& not_made, std::vector<broker::Action>& actions);
  void take(const broker::Unmade& unmade, std::vector<broker::Action>& actions);
  void take(const broker::AskAgain& again, std::vector<broker::Action>& actions);
  void take(const broker::ShutDown& down, std::vector<broker::Action>& actions);
  std::vector<broker::Action> act();
  const std::string* makeable(const std::string& shape) const;
  void turn_away(std::vector<broker::Action>& actions);
  void deny_all(const std::string& shape, const std::string& reason, bool worker_failed,
                std::vector<broker::Action>& actions);
  Seat* make(const std::string& shape, std::vector<broker::Action>& actions);
  void put_back(std::vector<broker::Action>& actions);
  Seat* seat_for(const Waiting& waiting, bool& hope);
  void match(std::vector<broker::Action>& actions);
  void tell_places(std::vector<broker::Action>& actions);
  void keep_warm(std::vector<broker::Action>& actions);
  void start(Seat& seat, std::vector<broker::Action>& actions);
  std::size_t number_of(const Seat& seat) const {
    return static_cast<std::size_t>(&seat - seats_.data());
  }
  Seat* seat_of(WorkerId worker);

  std::vector<Part> parts_;
  const BrokerLimits limits_;
  const std::vector<std::string> makeable_;
  std::vector<Seat> seats_;
  std::vector<Waiting> queue_;
  WorkerId next_worker_ = 1;
  bool full_ = false;  // there was no room to make a part; until some is given back, or AskAgain
  bool down_ = false;
  ClientId newest_ = 0;  // who has just come
};

}  // namespace partita::remote::server
