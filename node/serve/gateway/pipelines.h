// Pipelines in the gateway: services whose requests go through others, step by step, under one
// name. A step is a request to its member like any client's, let in and refused like theirs, but
// for when it has to be done: so that what is foreseen of the rest of the way ends in time. Who is
// foreseen to be late at its end is refused at the door, before any step has worked for it. What
// one step gave lies in pages that the next has, too (joints.h); where it is small, or another
// layout is wanted, or it fans out, it is copied from slot to slot. Refusals and failures name the
// step. With the client its steps go. On the loop's thread. Limits: the members' own; one row where
// a step fans out, and kMaxRequestItems of it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/door/loop.h"
#include "plan/admission.h"
#include "serve/gateway/core.h"
#include "serve/gateway/joints.h"
#include "serve/gateway/metrics.h"

namespace partita::serve {

// What is wanted of members besides requests: their queues, as admission by the whole way asks
// them, and memory in common. Without the last four everything is copied.
struct MemberDoors {
  // What is foreseen of a request of so many rows, behind all that wait there and `coming` rows
  // that are still to come; nothing: nothing is.
  std::function<std::optional<plan::Foreseen>(const std::string& service, long coming, int items)>
      foresee;
  // So many rows would have come, and were refused at the door.
  std::function<void(const std::string& service, int items)> held_off;
  std::function<std::shared_ptr<Joints>(const std::vector<JointTensor>& tensors)> join = {};
  std::function<void(std::shared_ptr<Joints>)> retire = {};  // nobody takes a lane any more
  // As Backend's claim(), in these slots where that can be.
  std::function<bool(RequestId, int rows, std::span<const PoolSlot> wanted)> claim = {};
  std::function<PoolSlot(RequestId, int item)> lies = {};  // where an item does
};

class Pipelines {
 public:
  // `members` serves what steps name; it and `loop` outlive this.
  Pipelines(Loop& loop, Backend& members, MemberDoors doors,
            std::function<void(const std::string&)> say);
  ~Pipelines();

  void serve(const std::vector<plan::Terms>& pipelines);
  bool known(std::string_view name) const;
  static bool owns(RequestId request) { return (request & kOwn) != 0; }
  bool idle() const;
  std::vector<std::string> names() const;
  std::vector<ServiceSnapshot> snapshots() const;
  void look_after(double per_second, double weight);  // rates, now and then
  // Requests that pipelines made of a member, of those that it counts as offered.
  long asked_of(const std::string& member) const;

  // As Backend's, for pipelines and requests of theirs.
  const ModelSpec* model(std::string_view name);
  bool ready(std::string_view name) const;
  void turned_away(std::string_view name);
  void uncount(std::string_view name, Refusal why);
  tl::expected<RequestId, Denial> admit(const RequestHead& head);
  bool claim(RequestId request, int rows);
  std::span<char> input(RequestId request, int item, int tensor);
  void submit(RequestId request, Completion completion);
  std::span<const char> output(RequestId request, int item, int tensor);
  void release(RequestId request);

 private:
  static constexpr RequestId kOwn = RequestId{1} << 63;
  struct Live;
  struct Way;
  class Steps;
  std::optional<Denial> ask(Way& way, std::size_t step, int items, bool first);
  std::optional<plan::WayAhead> ahead_of(const Way& way, std::size_t step, int items) const;
  static int reckoned(const Way& way, std::size_t step);
  void expect(Way& way, std::size_t step, bool comes);
  void go(RequestId id, std::size_t step);
  std::optional<Denial> begin(Way& way, std::size_t step);
  void join(Live& live);
  bool claim(Way& way, std::size_t step, int rows);
  void ended(RequestId id, std::size_t step, std::optional<Denial> denial);
  void finish(RequestId id, std::optional<Denial> denial);

  Loop& loop_;
  Backend& members_;
  MemberDoors doors_;
  std::function<void(const std::string&)> say_;
  std::map<std::string, long, std::less<>> asked_;   // by member
  std::map<std::string, long, std::less<>> coming_;  // rows that those let in will ask for
  std::map<std::string, std::shared_ptr<Live>, std::less<>> live_;
  std::map<RequestId, std::unique_ptr<Way>> ways_;
  RequestId next_ = 1;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // what was posted looks at it
};

}  // namespace partita::serve
