// Talk: what a brain wants from the world, one thing at a time, and what it is told. A flow asks by
// `co_await talk.ask(...)` and lets time pass by `co_await talk.until(...)`. Owned by the brain;
// knows no door. Internal to actuate.
#pragma once

#include <coroutine>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "act/change.h"
#include "act/gateway_state.h"
#include "act/journal.h"

namespace partita::actuate {

// What apply is doing, for people.
struct ApplyEvent {
  enum class Kind { begin, step, waiting, done_step, retry, end };
  Kind kind = Kind::begin;
  const Change* change = nullptr;  // the change under way
  std::size_t step = 0;            // index into its steps
  std::string detail;
};

// ---- questions, and what they give ----

struct Seen {
  Assignment assignment;
  device::NodeState state;
};
struct Users {
  std::vector<device::Holder> holders;
  std::string text;  // who keeps the instance from being destroyed, in words; empty: nobody
};

// What the gateway says; nothing when none runs.
struct GatewaySeen {
  std::optional<GatewayState> state;
};

struct Look {  // reads assignment and node
  using Gives = Seen;
};
struct Note {  // appends to the journal
  using Gives = void;
  Record record;
};
struct Assign {  // writes the assignment file
  using Gives = void;
  Assignment assignment;
};
struct SetMig {
  using Gives = device::ModeChange;
  int gpu = 0;
  bool enabled = true;
};
struct ResetGpu {
  using Gives = void;
  int gpu = 0;
};
struct CreateInstance {
  using Gives = int;
  int gpu = 0;
  device::Placement placement;
};
struct CreateCompute {
  using Gives = device::ComputeInstance;
  int gpu = 0, gi_id = 0;
};
struct DestroyCompute {
  using Gives = void;
  int gpu = 0, gi_id = 0, ci_id = 0;
};
struct DestroyInstance {
  using Gives = void;
  int gpu = 0, gi_id = 0;
};
struct AskUsers {  // who is on an instance; workers that the supervisor has started count as well
  using Gives = Users;
  Place place;
  int gi_id = 0;  // kWholeGpu: on the GPU outside of instances
  std::vector<std::string> devices;
  long revision = 0;  // of the assignment that the supervisor must have seen
};

struct AskGateway {
  using Gives = GatewaySeen;
};

using Question = std::variant<Look, Note, Assign, SetMig, ResetGpu, CreateInstance, CreateCompute,
                              DestroyCompute, DestroyInstance, AskUsers, AskGateway>;
using Answer = std::variant<Result<void>, Result<Seen>, Result<device::ModeChange>, Result<int>,
                            Result<device::ComputeInstance>, Result<Users>, Result<GatewaySeen>>;

class Talk {
 public:
  template <class Q>
  struct Asking {
    Talk& talk;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> flow) noexcept { talk.waiting = flow; }
    Result<typename Q::Gives> await_resume() {
      Answer answer = *std::exchange(talk.answer, std::nullopt);
      return std::get<Result<typename Q::Gives>>(std::move(answer));
    }
  };
  struct Pausing {
    Talk& talk;
    std::int64_t time;
    bool await_ready() const noexcept { return talk.interrupted || talk.now >= time; }
    void await_suspend(std::coroutine_handle<> flow) {
      talk.waiting = flow;
      talk.wake = time;
    }
    void await_resume() noexcept {}
  };

  // g++ 12 destroys temporaries in an expression with co_await twice (GCC bug 99576), so what is
  // asked, and whatever else is passed to a flow, is a variable.
  template <class Q>
  Asking<Q> ask(const Q& about) {
    question = about;
    return {*this};
  }
  // Returns at that time, or once interrupted.
  Pausing until(std::int64_t time) { return {*this, time}; }
  void tell(ApplyEvent event) { told.push_back(std::move(event)); }

  std::int64_t now = 0;
  bool interrupted = false;
  std::vector<ApplyEvent> told;
  std::coroutine_handle<> waiting;  // the flow that goes on next
  std::optional<Question> question;
  std::optional<Answer> answer;
  std::optional<std::int64_t> wake;
};

}  // namespace partita::actuate
