// A core on one loop, with workers at real sockets that double what they are given; for tests.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "serve/gateway/core.h"
#include "serve/link/connection.h"
#include "serve/link/slot_memory.h"
#include "serve/wire/frames.h"
#include "serve/wire/slot_trace.h"

namespace partita::serve::test {

inline constexpr Nanos kMs = 1'000'000;
inline constexpr Nanos kTestPatience = 20'000 * kMs;  // of a test, on a slow machine

inline ModelSpec doubler(int max_batch = 4) {
  return {.name = "m",
          .platform = "null",
          .inputs = {{"x", DataType::fp32, {4}}},
          .outputs = {{"y", DataType::fp32, {4}}},
          .max_batch = max_batch};
}

// y = 2 x, after a while.
class TestWorker {
 public:
  TestWorker(Loop& loop, const std::string& path, std::string place, Nanos takes,
             std::optional<std::vector<CurvePoint>> measured = {}, bool sequences = false,
             const std::string& service = "s", bool cache = false, ModelSpec model = doubler())
      : model_(std::move(model)),
        measured_(std::move(measured)),
        connection_(connected(path)),
        takes_(takes),
        timer_(loop, [this](std::int64_t) { finish(); }) {
    watch_ = loop.watch(connection_->fd(), [this](Readiness) { read(); });
    Hello hello{.place = std::move(place), .service = service, .model = model_};
    hello.model.sequences = sequences;
    hello.model.cache = cache;
    say(hello);
  }
  ~TestWorker() { vanish(); }
  // As when its process is killed.
  void vanish() {
    watch_.reset();
    timer_.cancel();
    connection_.reset();
  }
  void leave() { say(Leaving{}); }
  void beat() { say(Beat{}); }
  void hello_again() { say(Hello{.place = "", .service = "s", .model = doubler()}); }

  bool hold = false;                                 // takes batches and never answers
  std::optional<float> dies_of = {}, fails_of = {};  // the first value of a row
  void let_go() { finish(); }
  bool region = false, drained = false, refused = false, ended = false;
  std::string why;  // it was refused
  int batches = 0, items = 0, after_drain = 0;
  int joined = 0;  // tensors of its slots that others have, too
  std::vector<std::uint32_t> cancelled;
  std::set<std::string> traces;  // of all items
  std::set<std::uint32_t> slots;
  std::vector<SlotStep> steps;  // in the order in which they ran
  // Of its sequences: "." for each step, and so many bytes behind. Gives but the first part.
  std::size_t state_bytes = 10;
  std::map<std::uint64_t, std::string> states;
  bool keeps_back = false;
  std::vector<std::uint64_t> forgotten;
  std::vector<std::size_t> together;  // by batch

 private:
  static std::optional<Connection> connected(const std::string& path) {
    Result<Connection> connection = Connection::connect(path);
    EXPECT_TRUE(connection) << to_string(connection.error());
    return std::optional<Connection>(*std::move(connection));
  }
  void say(const Frame& frame) { EXPECT_TRUE(connection_->send(encode(frame))); }

  void read() {
    while (connection_) {
      std::vector<char> buffer(kMaxFrameBytes);
      Result<Received> received = connection_->receive(buffer);
      if (!received || received->kind == Received::Kind::ended) {
        ended = true;
        watch_.reset();
        return;
      }
      if (received->kind == Received::Kind::nothing_yet) return;
      const Result<Frame> frame = decode(received->bytes);
      ASSERT_TRUE(frame);
      hear(*frame, received->descriptor);
    }
  }
  void hear(const Frame& frame, Descriptor& descriptor) {
    if (const auto* said = std::get_if<Region>(&frame)) {
      Result<SlotMemory> memory =
          SlotMemory::attach(std::move(descriptor), said->slot_bytes, said->slots);
      ASSERT_TRUE(memory);
      memory_.emplace(*std::move(memory));
      region = true;
      say(Ready{measured_.value_or(std::vector<CurvePoint>{{1, takes_}, {4, takes_}})});
    } else if (const auto* run = std::get_if<Run>(&frame)) {
      ++batches;
      items += static_cast<int>(run->slots.size());
      for (const std::uint32_t slot : run->slots) {
        const SlotTrace trace = read_slot_trace(memory_->base(slot) + layout_.trace);
        traces.insert(trace.parent + trace.state);
        slots.insert(slot);
        steps.push_back(read_slot_step(memory_->base(slot) + layout_.step));
        if (steps.back().begins) states[steps.back().sequence] = std::string(state_bytes, 's');
        states[steps.back().sequence].insert(0, ".");
      }
      together.push_back(run->slots.size());
      if (drained) ++after_drain;
      running_ = *run;
      if (has(dies_of)) {
        vanish();
        ended = true;
        return;
      }
      if (!hold) timer_.at(Loop::now_ns() + takes_);
    } else if (const auto* cancel = std::get_if<Cancel>(&frame)) {
      cancelled = cancel->items;
    } else if (const auto* joint = std::get_if<Joint>(&frame)) {
      const auto done =
          joint->own ? memory_->part(*joint) : memory_->join(descriptor.get(), *joint);
      ASSERT_TRUE(done) << to_string(done.error());
      joint->own ? --joined : ++joined;
    } else if (const auto* fetch = std::get_if<FetchState>(&frame)) {
      if (!keeps_back || fetch->offset == 0) give_state(*fetch);
    } else if (const auto* part = std::get_if<StatePart>(&frame)) {
      std::string& coming = coming_[part->sequence];
      if (part->offset == 0) coming.clear();
      coming += part->bytes;
      if (coming.size() == part->total) states[part->sequence] = coming;
      say(FetchState{part->sequence, coming.size()});
    } else if (const auto* forget = std::get_if<ForgetStates>(&frame)) {
      forgotten.insert(forgotten.end(), forget->sequences.begin(), forget->sequences.end());
    } else if (std::holds_alternative<Drain>(frame)) {
      drained = true;
      say(Drained{});
      vanish();
    } else {
      refused = std::holds_alternative<Refused>(frame);
      if (refused) why = std::get<Refused>(frame).reason;
    }
  }
  void give_state(const FetchState& wanted) {
    const std::string& state = states[wanted.sequence];
    say(StatePart{wanted.sequence, wanted.offset, state.size(),
                  state.substr(wanted.offset, kMaxPartBytes)});
  }
  bool has(const std::optional<float>& value) const {
    return value && std::any_of(running_.slots.begin(), running_.slots.end(), [&](auto slot) {
             float first = 0;
             std::memcpy(&first, memory_->base(slot) + layout_.inputs[0], 4);
             return first == *value;
           });
  }
  void finish() {
    if (has(fails_of)) {
      const std::vector<ItemStatus> failed(running_.slots.size(), ItemStatus::failed);
      return say(Done{running_.batch, takes_, failed, "a value of the bad client"});
    }
    for (const std::uint32_t slot : running_.slots) {
      std::vector<float> values(bytes_of(model_.inputs[0]) / sizeof(float));
      const std::size_t bytes = values.size() * sizeof(float);
      std::memcpy(values.data(), memory_->base(slot) + layout_.inputs[0], bytes);
      for (float& value : values) value *= 2;
      std::memcpy(memory_->base(slot) + layout_.outputs[0], values.data(), bytes);
    }
    say(Done{running_.batch, takes_, std::vector<ItemStatus>(running_.slots.size())});
  }

  const ModelSpec model_;
  const SlotLayout layout_ = slot_layout(model_);
  std::optional<std::vector<CurvePoint>> measured_;
  std::optional<Connection> connection_;
  Nanos takes_;
  Loop::Timer timer_;
  Loop::Watch watch_;
  std::optional<SlotMemory> memory_;
  std::map<std::uint64_t, std::string> coming_;
  Run running_;
};

struct Asked {
  RequestId id = 0;
  bool let_in = false, ended = false;
  std::optional<Denial> denial = {};
  std::vector<float> answer = {};
};

class CoreTest : public testing::Test {
 protected:
  // Nobody is silent for too long by himself: what is waited for comes of what is asked.
  static CoreOptions patient() {
    return {.link_path = "", .silent_after = INT64_MAX / 4, .dead_after = INT64_MAX / 4};
  }
  void SetUp() override {
    char name[] = "/tmp/partita-core-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
    loop_ = *Loop::make();
    open(patient());
  }
  void TearDown() override {
    core_.reset();
    std::filesystem::remove_all(directory_);
  }
  void open(CoreOptions options) {
    core_.reset();
    options.link_path = link_path(directory_);
    auto core =
        Core::open(*loop_, options, [this](const std::string& line) { said_ += line + "\n"; });
    ASSERT_TRUE(core) << to_string(core.error());
    core_ = *std::move(core);
    core_->serve({service_});
  }
  std::unique_ptr<TestWorker> worker(Nanos takes, const std::string& device = "d", int index = 0) {
    const std::string place = "/state/workers.json:" + device + ":" + std::to_string(index);
    auto made = std::make_unique<TestWorker>(*loop_, link_path(directory_), place, takes);
    return made;
  }
  // Until it holds.
  template <class Condition>
  bool until(Condition condition) {
    const Nanos end = Loop::now_ns() + kTestPatience;
    while (!condition() && Loop::now_ns() < end) loop_->run_until(Loop::now_ns() + kMs);
    return condition();
  }
  bool until_ready(int workers) {
    return until([&] { return core_->service_views().at(0).ready_workers == workers; });
  }
  // Asks for twice (value, value + 1, ...) of so many rows.
  std::shared_ptr<Asked> ask(float value, int rows = 1, RequestHead head = {}) {
    auto asked = std::make_shared<Asked>();
    head.service = "s";
    head.items = rows;
    const auto admitted = core_->admit(head);
    if (!admitted) {
      asked->ended = true;
      asked->denial = admitted.error();
      return asked;
    }
    asked->let_in = core_->claim(*admitted, rows);
    if (!asked->let_in) {
      core_->release(*admitted);
      asked->ended = true;
      asked->denial = Denial{Denial::Kind::overloaded, "", 1};
      return asked;
    }
    asked->id = *admitted;
    for (int row = 0; row < rows; ++row) {
      float values[4];
      for (float& v : values) v = value++;
      std::memcpy(core_->input(asked->id, row, 0).data(), values, sizeof values);
    }
    core_->submit(asked->id, {.ended = [this, asked, rows](std::optional<Denial> denial) {
                    asked->ended = true;
                    ended_.push_back(asked->id);
                    asked->denial = std::move(denial);
                    for (int row = 0; !asked->denial && row < rows; ++row) {
                      float values[4];
                      std::memcpy(values, core_->output(asked->id, row, 0).data(), sizeof values);
                      asked->answer.insert(asked->answer.end(), values, values + 4);
                    }
                    core_->release(asked->id);
                  }});
    return asked;
  }
  void expect_twice(const Asked& asked, float value) {
    EXPECT_FALSE(asked.denial) << asked.denial->message;
    for (const float answer : asked.answer) EXPECT_EQ(answer, 2 * value++);
  }
  double metric(const std::string& line) {
    const std::string text = core_->metrics();
    const std::size_t found = text.find("\n" + line + " ");
    EXPECT_NE(found, std::string::npos) << line << " in\n" << text;
    return found == std::string::npos ? -1 : std::stod(text.substr(found + line.size() + 2));
  }
  double free_slots() { return metric("partita_slots_free{service=\"s\"}"); }
  double slots() { return metric("partita_slots{service=\"s\"}"); }

  std::string directory_, said_;
  std::vector<RequestId> ended_;
  std::unique_ptr<Loop> loop_;
  ServedService service_{{.name = "s", .slo = Millis{1000}}, {{"d", 4, 2}, {"e", 4, 1}}};
  std::unique_ptr<Core> core_;
};

}  // namespace partita::serve::test
