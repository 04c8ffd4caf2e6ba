// The parts of the core by themselves: windows, limits of time and memory; and workers that are led
// by hand, frame by frame, or live in another process so that they can be killed.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <thread>

#include "serve/gateway/core.h"
#include "serve/gateway/core_impl.h"
#include "serve/link/connection.h"
#include "serve/wire/frames.h"

namespace partita::serve {
namespace {

constexpr Nanos kInsideMs = 1'000'000, kInsideSecond = 1000 * kInsideMs;

// Of the last 15 to 30 seconds, from the half of them in which there was more to see.
TEST(RecentLatencies, ForgetAfterHalfAMinute) {
  RecentLatencies recent;
  const Nanos begin = 100 * kInsideSecond;
  EXPECT_EQ(recent.percentile(99, begin), 0);
  for (int i = 0; i < 10; ++i) recent.add(begin, 8 * kInsideMs);
  const auto near = [](Nanos got, double ms) {
    return std::abs(static_cast<double>(got) / 1e6 - ms) < 0.05 * ms;
  };
  EXPECT_TRUE(near(recent.percentile(99, begin), 8));
  recent.add(begin + 15 * kInsideSecond - 1, 90 * kInsideMs);
  EXPECT_TRUE(near(recent.percentile(99, begin + 15 * kInsideSecond - 1), 90)) << "the same half";
  recent.add(begin + 15 * kInsideSecond, kInsideMs);
  EXPECT_TRUE(near(recent.percentile(50, begin + 15 * kInsideSecond), 8))
      << "of the half that has more to say";
  EXPECT_TRUE(near(recent.percentile(0, begin + 15 * kInsideSecond), 8)) << "and of it alone";
  for (int i = 0; i < 20; ++i) recent.add(begin + 16 * kInsideSecond, kInsideMs);
  EXPECT_TRUE(near(recent.percentile(99, begin + 16 * kInsideSecond), 1));
  // One half later the first is gone; after a pause of two, all is.
  recent.add(begin + 30 * kInsideSecond, 2 * kInsideMs);
  EXPECT_TRUE(near(recent.percentile(50, begin + 30 * kInsideSecond), 1));
  for (int i = 0; i < 20; ++i) recent.add(begin + 30 * kInsideSecond, 2 * kInsideMs);
  recent.add(begin + 60 * kInsideSecond, 4 * kInsideMs);
  EXPECT_TRUE(near(recent.percentile(50, begin + 60 * kInsideSecond), 4));
  recent.add(begin + 60 * kInsideSecond, -5);
  EXPECT_EQ(recent.percentile(0, begin + 60 * kInsideSecond), 0);
  // Nothing comes any more.
  recent.add(begin + 61 * kInsideSecond, 9 * kInsideMs);
  EXPECT_TRUE(near(recent.percentile(100, begin + 75 * kInsideSecond), 9));
  EXPECT_TRUE(near(recent.percentile(100, begin + 90 * kInsideSecond - 1), 9));
  EXPECT_EQ(recent.percentile(100, begin + 90 * kInsideSecond), 0);
}

LiveService service_of(double slo_ms, std::vector<ServedSegment> segments = {}) {
  ServedService wanted{{.name = "s", .slo = Millis{slo_ms}}, std::move(segments)};
  return {wanted, settings_of(wanted, {}, true)};
}

// A batch may be late by the SLO, within what the options say.
TEST(GatewayLimits, ABatchIsOverdueAfterItsSlo) {
  const CoreOptions options{
      .link_path = "", .hang_after = 200 * kInsideMs, .silent_after = 3 * kInsideSecond};
  EXPECT_EQ(hang_after(service_of(50), options), 200 * kInsideMs);
  EXPECT_EQ(hang_after(service_of(500), options), 500 * kInsideMs);
  EXPECT_EQ(hang_after(service_of(9000), options), 3 * kInsideSecond);
  EXPECT_EQ(hang_after(service_of(0), options), kInsideSecond) << "one that says nothing";
  const CoreOptions odd{.link_path = "", .hang_after = 5 * kInsideSecond, .silent_after = 1};
  EXPECT_EQ(hang_after(service_of(50), odd), 5 * kInsideSecond);
}

TEST(GatewayLimits, WorkersArePlannedByTheirProcesses) {
  const ServedService wanted{{.name = "s", .slo = Millis{2.5}},
                             {{"a", 4, 3}, {"b", 4, 0}, {"c", 4, 1}}};
  const CoreOptions options{.link_path = "", .queue_limit = 7, .shed = false};
  const ServiceSettings settings = settings_of(wanted, options, false);
  EXPECT_EQ(settings, (ServiceSettings{.slo = 2'500'000,
                                       .queue_limit = 7,
                                       .planned_workers = 5,
                                       .shed = false,
                                       .predictable = false}));
}

ModelSpec one_float() {
  return {.name = "m",
          .platform = "null",
          .inputs = {{"x", DataType::fp32, {1}}},
          .outputs = {{"y", DataType::fp32, {1}}},
          .max_batch = 4};
}

TEST(SlotPool, HasAsManySlotsAsFit) {
  const std::size_t each = slot_layout(one_float()).bytes;
  const auto slots = [&](std::size_t bytes, std::uint32_t most) {
    return SlotPool::make(one_float(), bytes, most).value().slots();
  };
  EXPECT_EQ(slots(3 * each, 100), 3u);
  EXPECT_EQ(slots(4 * each - 1, 100), 3u);
  EXPECT_EQ(slots(1, 100), 1u) << "one at least";
  EXPECT_EQ(slots(100 * each, 5), 5u);
}

TEST(SlotPool, GivesEachSlotOnceAndTheWarmestFirst) {
  SlotPool pool = SlotPool::make(one_float(), 4 * slot_layout(one_float()).bytes, 100).value();
  std::set<std::uint32_t> taken;
  while (const auto slot = pool.take()) EXPECT_TRUE(taken.insert(*slot).second);
  EXPECT_EQ(taken, (std::set<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_FALSE(pool.has_room(1));
  EXPECT_TRUE(pool.has_room(0));
  EXPECT_FALSE(pool.unused());
  pool.give_back(2);
  EXPECT_TRUE(pool.has_room(1));
  EXPECT_FALSE(pool.has_room(2));
  pool.give_back(0);
  EXPECT_EQ(pool.take(), 0u);
  pool.give_back(0), pool.give_back(1), pool.give_back(3);
  EXPECT_TRUE(pool.unused());
  EXPECT_EQ(pool.free(), 4u);
}

// Inputs and trace go along, outputs do not.
TEST(SlotPool, CopiesWhatAWorkerReads) {
  SlotPool pool = SlotPool::make(one_float(), 1 << 20, 2).value();
  const std::size_t bytes = slot_layout(one_float()).bytes;
  std::fill_n(pool.memory().base(0), bytes, 'a');
  std::fill_n(pool.memory().base(1), bytes, 'b');
  pool.copy_inputs(0, 1);
  EXPECT_EQ(pool.input(1, 0)[0], 'a');
  EXPECT_EQ(pool.input(1, 0)[3], 'a');
  EXPECT_EQ(pool.output(1, 0)[0], 'b');
  EXPECT_EQ(pool.trace(1)[0], 'a');
}

// Tensors of a slot lie behind each other.
TEST(SlotPool, KeepsTensorsApart) {
  ModelSpec two = one_float();
  two.inputs = {{"a", DataType::fp32, {3}}, {"b", DataType::fp64, {2}}};
  two.outputs = {{"c", DataType::uint8, {5}}, {"d", DataType::fp32, {1}}};
  const SlotPool pool = SlotPool::make(two, 1 << 20, 2).value();
  std::vector<std::span<char>> all{pool.input(1, 0), pool.input(1, 1), pool.output(1, 0),
                                   pool.output(1, 1)};
  std::vector<std::size_t> sizes;
  const char* end = pool.memory().base(1);
  for (const std::span<char> one : all) {
    EXPECT_GE(one.data(), end);
    end = one.data() + one.size();
    sizes.push_back(one.size());
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{12, 16, 5, 4}));
  EXPECT_LE(end, pool.memory().base(1) + slot_layout(two).bytes);
}

// ---- workers led by hand

class HandWorker {
 public:
  HandWorker(Loop& loop, const std::string& path, const ModelSpec& model)
      : connection_(Connection::connect(path).value()) {
    watch_ = loop.watch(connection_.fd(), [this](Readiness) { read(); });
    say(Hello{.place = "/s:d:0", .service = "s", .model = model});
  }
  void say(const Frame& frame) { EXPECT_TRUE(connection_.send(encode(frame))); }
  void deaf() { watch_.reset(); }
  void listen(Loop& loop) {
    watch_ = loop.watch(connection_.fd(), [this](Readiness) { read(); });
  }

  std::vector<Run> runs;
  bool region = false, drained = false, ended = false;
  std::string refused;

 private:
  void read() {
    while (true) {
      std::vector<char> buffer(kMaxFrameBytes);
      const Result<Received> received = connection_.receive(buffer);
      if (!received || received->kind == Received::Kind::ended) {
        ended = true;
        return watch_.reset();
      }
      if (received->kind == Received::Kind::nothing_yet) return;
      const Result<Frame> frame = decode(received->bytes);
      ASSERT_TRUE(frame);
      region = region || std::holds_alternative<Region>(*frame);
      drained = drained || std::holds_alternative<Drain>(*frame);
      if (const auto* run = std::get_if<Run>(&*frame)) runs.push_back(*run);
      if (const auto* why = std::get_if<Refused>(&*frame)) refused = why->reason;
    }
  }
  Connection connection_;
  Loop::Watch watch_;
};

// Nobody here is killed for his silence: that would be the test itself.
CoreOptions patient() {
  return {.link_path = "", .silent_after = INT64_MAX / 4, .dead_after = INT64_MAX / 4};
}

class CoreByHandTest : public testing::Test {
 protected:
  CoreByHandTest() : loop_(*Loop::make()) {
    char name[] = "/tmp/partita-hand-XXXXXX";
    directory_ = ::mkdtemp(name);
  }
  ~CoreByHandTest() override {
    core_.reset();
    std::filesystem::remove_all(directory_);
  }
  void open(CoreOptions options, double slo_ms = 1000) {
    options.link_path = link_path(directory_);
    core_ = *Core::open(*loop_, options, [this](const std::string& line) { said_ += line + "\n"; });
    core_->serve({{{.name = "s", .slo = Millis{slo_ms}}, {{"d", 0, 1}}}});
  }
  template <class Condition>
  bool until(Condition condition) {
    const Nanos end = Loop::now_ns() + 20 * kInsideSecond;
    while (!condition() && Loop::now_ns() < end) loop_->run_until(Loop::now_ns() + kInsideMs);
    return condition();
  }
  std::string refusal(const Frame& frame) {
    HandWorker worker(*loop_, link_path(directory_), one_float());
    EXPECT_TRUE(until([&] { return worker.region; }));
    worker.say(frame);
    EXPECT_TRUE(until([&] { return !worker.refused.empty(); }));
    EXPECT_TRUE(until([&] { return core_->worker_views().empty(); }));
    const std::string said = std::exchange(said_, "");
    worker.say(frame);  // to nobody
    loop_->run_until(Loop::now_ns() + 20 * kInsideMs);
    EXPECT_EQ(said_, "");
    said_ = said;
    return worker.refused;
  }
  // Of a time in which nothing happens.
  double busy_share() {
    const auto cpu = [] {
      timespec time = {};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return time.tv_sec * kInsideSecond + time.tv_nsec;
    };
    const Nanos before = cpu();
    loop_->run_until(Loop::now_ns() + 100 * kInsideMs);
    return static_cast<double>(cpu() - before) / (100 * kInsideMs);
  }
  bool until_ready(int workers = 1) {
    return until([&] { return core_->service_views().at(0).ready_workers == workers; });
  }

  std::unique_ptr<Loop> loop_;
  std::string directory_, said_;
  std::unique_ptr<Core> core_;
};

// Once nobody is left of the workers with other tensors, and no request of theirs.
TEST_F(CoreByHandTest, AnotherModelComesWhenTheLastOfTheOldHasGone) {
  open(patient());
  ModelSpec other = one_float();
  other.inputs[0].shape = {2};
  {
    HandWorker old(*loop_, link_path(directory_), one_float());
    ASSERT_TRUE(until([&] { return old.region; }));
    HandWorker early(*loop_, link_path(directory_), other);
    ASSERT_TRUE(until([&] { return !early.refused.empty(); }));
    EXPECT_EQ(core_->model("s")->inputs, one_float().inputs);
  }
  ASSERT_TRUE(until([&] { return core_->worker_views().empty(); }));
  HandWorker worker(*loop_, link_path(directory_), other);
  ASSERT_TRUE(until([&] { return worker.region; }));
  EXPECT_EQ(core_->model("s")->inputs, other.inputs);
  EXPECT_EQ(core_->services(), std::vector<std::string>{"s"});
}

TEST_F(CoreByHandTest, FramesOutOfPlaceAreRefusedInWords) {
  open(patient());
  EXPECT_EQ(refusal(serve::Run{.batch = 1, .deadline = 0, .slots = {0}}),
            "it sent what only gateways send");
  EXPECT_EQ(refusal(Done{.batch = 9, .nanos = 1, .status = {ItemStatus::ok}}),
            "its DONE is of no batch that it has");
  EXPECT_EQ(refusal(Hello{.place = "", .service = "s", .model = one_float()}),
            "it said HELLO twice");
  const auto greeted = [&](const Hello& hello) {
    HandWorker worker(*loop_, link_path(directory_), one_float());
    EXPECT_TRUE(until([&] { return worker.region; }));
    Result<Connection> raw = Connection::connect(link_path(directory_));
    EXPECT_TRUE(raw && raw->send(encode(hello)));
    std::vector<char> buffer(kMaxFrameBytes);
    std::string why;
    until([&] {
      const Result<Received> received = raw->receive(buffer);
      if (!received || received->kind != Received::Kind::frame) return false;
      const Result<Frame> frame = decode(received->bytes);
      if (const auto* refused = std::get_if<Refused>(&*frame)) why = refused->reason;
      return true;
    });
    return why;
  };
  EXPECT_EQ(greeted({.place = "", .service = "t", .model = one_float()}),
            "no service 't' is assigned here");
  ModelSpec other = one_float();
  other.inputs[0].shape = {2};
  EXPECT_EQ(greeted({.place = "", .service = "s", .model = other}),
            "its model takes or gives other tensors than the workers of 's' that run");
  EXPECT_NE(said_.find("a worker is refused: no service 't'"), std::string::npos);
  Result<Connection> raw = Connection::connect(link_path(directory_));
  ASSERT_TRUE(raw && raw->send(encode(Leaving{})));
  ASSERT_TRUE(until([&] { return said_.find("it did not say HELLO first") != said_.npos; }));
}

// Who asked for a stream, and what he has heard of it.
struct Heard {
  RequestId id = 0;
  std::string text, type;
  int status = 0;
  bool ended = false;
};

class StreamsByHandTest : public CoreByHandTest {
 protected:
  void ask(Heard& one) {
    const auto admitted = core_->admit({.service = "s", .idempotent = true});
    ASSERT_TRUE(admitted && core_->claim(*admitted, 1));
    one.id = *admitted;
    EXPECT_EQ(core_->input(one.id, 0, 0).size(), 8 + kOpenaiBodyBytes);
    core_->submit(one.id, {.ended = [&one](std::optional<Denial> denial) { one.ended = !denial; },
                           .piece =
                               [&one](const StreamPiece& piece) {
                                 one.text += piece.bytes;
                                 one.type += piece.content_type;
                                 one.status += piece.http_status;
                               }});
  }
};

ModelSpec talker(int at_once = 2) {
  return {.kind = ModelKind::openai, .name = "m", .platform = "openai", .max_batch = at_once};
}

// Answers of servers of streams come in pieces: to whom they are for, for as long as he is there.
TEST_F(StreamsByHandTest, PiecesGoToTheirRequest) {
  open(patient(), 50);
  HandWorker worker(*loop_, link_path(directory_), talker());
  ASSERT_TRUE(until([&] { return worker.region; }));
  worker.say(Ready{{{1, kInsideMs}, {4, kInsideMs}}});
  ASSERT_TRUE(until_ready());
  std::vector<Heard> heard(3);
  for (Heard& one : heard) ask(one);
  ASSERT_TRUE(until([&] { return worker.runs.size() == 2; })) << "so many at once";
  loop_->run_until(Loop::now_ns() + 20 * kInsideMs);
  ASSERT_EQ(worker.runs.size(), 2u);
  EXPECT_EQ(worker.runs[0].slots.size(), 1u) << "each alone";
  loop_->run_until(Loop::now_ns() + 400 * kInsideMs);
  EXPECT_EQ(core_->service_views().at(0).ready_workers, 1) << "streams last as long as they do";
  std::uint32_t sequence[3] = {};
  const auto part = [&](std::size_t run, const std::string& bytes, std::uint32_t item = 0) {
    Part frame;
    frame.batch = worker.runs[run].batch;
    frame.item = item;
    frame.sequence = sequence[run]++;
    if (frame.sequence == 0) {
      frame.http_status = 201;
      frame.content_type = "text/x";
    }
    frame.bytes = bytes;
    worker.say(frame);
  };
  part(0, "a");
  part(1, "b");
  part(0, "c");
  part(0, "of nobody", 1);
  Part unknown;
  unknown.batch = 999;
  unknown.http_status = 200;
  unknown.bytes = "of nothing";
  worker.say(unknown);
  ASSERT_TRUE(until([&] { return heard[0].text == "ac" && heard[1].text == "b"; }));
  EXPECT_EQ(heard[0].status, 201);
  EXPECT_EQ(heard[0].type, "text/x");
  core_->release(heard[0].id);
  part(0, "too late");
  worker.say(Done{worker.runs[0].batch, kInsideMs, {ItemStatus::ok}});
  ASSERT_TRUE(until([&] { return worker.runs.size() == 3; })) << said_;
  worker.say(Done{worker.runs[1].batch, kInsideMs, {ItemStatus::ok}});
  ASSERT_TRUE(until([&] { return heard[1].ended; }));
  EXPECT_EQ(heard[0].text, "ac");
  EXPECT_FALSE(heard[0].ended);
  // A stream that was begun is not begun again with another: part of it may be with the client.
  part(2, "x");
  ASSERT_TRUE(until([&] { return heard[2].text == "x"; }));
  worker.say(Leaving{});
  EXPECT_FALSE(worker.drained);
  worker.say(Done{worker.runs[2].batch, kInsideMs, {ItemStatus::ok}});
  ASSERT_TRUE(until([&] { return heard[2].ended && worker.drained; }));
  core_->release(heard[1].id), core_->release(heard[2].id);
  EXPECT_TRUE(core_->idle());
}

// What a worker does not read for a while waits for it, in order; too much, and it is dropped.
TEST_F(StreamsByHandTest, ASlowReaderGetsEverythingInOrder) {
  constexpr int kAtOnce = 1800;
  for (const int requests : {700, kAtOnce}) {
    CoreOptions options = patient();
    options.memory_bytes = std::size_t{3} << 30;  // a page of each slot is used
    options.queue_limit = kAtOnce;
    open(options);
    HandWorker worker(*loop_, link_path(directory_), talker(kAtOnce));
    ASSERT_TRUE(until([&] { return worker.region; }));
    worker.say(Ready{{{1, kInsideMs}}});
    ASSERT_TRUE(until_ready());
    worker.deaf();
    std::vector<Heard> heard(static_cast<std::size_t>(requests));
    for (Heard& one : heard) ask(one);
    loop_->run_until(Loop::now_ns() + 20 * kInsideMs);
    const bool dropped = core_->worker_views().empty();
    EXPECT_EQ(dropped, requests == kAtOnce);
    if (dropped) {
      EXPECT_NE(said_.find("it does not read what it is sent"), std::string::npos);
    } else {
      worker.listen(*loop_);
      ASSERT_TRUE(until([&] { return worker.runs.size() == heard.size(); }));
      loop_->run_until(Loop::now_ns() + 20 * kInsideMs);
      EXPECT_EQ(worker.runs.size(), heard.size());
      EXPECT_TRUE(std::ranges::is_sorted(worker.runs, {}, &serve::Run::batch));
      EXPECT_LT(busy_share(), 0.1) << "nothing to write is no reason to wake up";
      worker.say(Done{worker.runs[0].batch, kInsideMs, {ItemStatus::ok}});
      EXPECT_TRUE(until([&] { return heard[0].ended; }));
    }
    for (const Heard& one : heard) core_->release(one.id);
    core_.reset();
  }
}

// A worker hangs after 50 ms, and is never given up.
CoreOptions hanging_soon(std::uint64_t memory_bytes) {
  return {.link_path = "",
          .memory_bytes = memory_bytes,
          .shed = false,
          .hang_after = 50 * kInsideMs,
          .silent_after = INT64_MAX / 4,
          .dead_after = INT64_MAX / 4};
}

// With no memory to run them again rows of a worker that hangs are given up, and told so.
TEST_F(CoreByHandTest, WithoutMemoryAHangingWorkersRowsAreGivenUp) {
  open(hanging_soon(slot_layout(one_float()).bytes), 20);
  HandWorker worker(*loop_, link_path(directory_), one_float());
  ASSERT_TRUE(until([&] { return worker.region; }));
  worker.say(Ready{{{1, kInsideMs}, {4, kInsideMs}}});
  ASSERT_TRUE(until_ready());
  const auto admitted = core_->admit({.service = "s"});
  ASSERT_TRUE(admitted && core_->claim(*admitted, 1));
  std::optional<Denial> denial;
  core_->submit(*admitted, {.ended = [&](std::optional<Denial> why) { denial = std::move(why); }});
  ASSERT_TRUE(until([&] { return denial.has_value(); }));
  EXPECT_EQ(denial->kind, Denial::Kind::expired);
  EXPECT_EQ(denial->message, "its worker hangs");
  EXPECT_EQ(core_->service_views().at(0).given_up, 1);
  EXPECT_NE(said_.find("hangs: the 1 rows that it had are taken back"), std::string::npos);
  core_->release(*admitted);
  worker.say(Done{worker.runs.at(0).batch, kInsideMs, {ItemStatus::ok}});
  ASSERT_TRUE(until_ready());
  EXPECT_NE(said_.find(" goes on"), std::string::npos);
  EXPECT_EQ(core_->service_views().at(0).given_up, 1) << "once";
  EXPECT_EQ(core_->service_views().at(0).withdrawn, 0);
  EXPECT_TRUE(core_->admit({.service = "s"}));
}

// Whose client went away while it ran is forgotten with what its hanging worker had.
TEST_F(CoreByHandTest, WhatWasLetGoBeforeItsWorkerHungIsForgotten) {
  open(hanging_soon(4 * slot_layout(one_float()).bytes), 20);
  HandWorker worker(*loop_, link_path(directory_), one_float());
  ASSERT_TRUE(until([&] { return worker.region; }));
  worker.say(Ready{{{1, kInsideMs}, {4, kInsideMs}}});
  ASSERT_TRUE(until_ready());
  const auto admitted = core_->admit({.service = "s"});
  ASSERT_TRUE(admitted && core_->claim(*admitted, 1));
  core_->submit(*admitted, {.ended = [](std::optional<Denial>) { ADD_FAILURE(); }});
  ASSERT_TRUE(until([&] { return !worker.runs.empty(); }));
  core_->release(*admitted);
  ASSERT_TRUE(until([&] { return core_->idle(); }));
  EXPECT_NE(said_.find("hangs: the 1 rows that it had are taken back"), std::string::npos);
  worker.say(Done{worker.runs.at(0).batch, kInsideMs, {ItemStatus::ok}});
  ASSERT_TRUE(until_ready());
}

// When we did not run ourselves, what a worker has said meanwhile is heard before it is judged.
TEST_F(CoreByHandTest, APauseOfOursIsNoHangingOfTheirs) {
  open(patient(), 50);
  HandWorker worker(*loop_, link_path(directory_), one_float());
  ASSERT_TRUE(until([&] { return worker.region; }));
  worker.say(Ready{{{1, kInsideMs}, {4, kInsideMs}}});
  ASSERT_TRUE(until_ready());
  const auto admitted = core_->admit({.service = "s"});
  ASSERT_TRUE(admitted && core_->claim(*admitted, 1));
  bool answered = false;
  core_->submit(*admitted, {.ended = [&](const std::optional<Denial>& why) { answered = !why; }});
  ASSERT_TRUE(until([&] { return worker.runs.size() == 1; }));
  worker.say(Done{worker.runs[0].batch, kInsideMs, {ItemStatus::ok}});
  ::usleep(400'000);
  ASSERT_TRUE(until([&] { return answered; })) << said_;
  EXPECT_EQ(said_.find("hangs"), std::string::npos) << said_;
  core_->release(*admitted);
}

// Told once that it is out of service, whatever its worker says of it later.
TEST_F(CoreByHandTest, WhoIsToldThatItIsOverHearsNothingMore) {
  open(patient());
  HandWorker worker(*loop_, link_path(directory_), one_float());
  ASSERT_TRUE(until([&] { return worker.region; }));
  worker.say(Ready{{{1, kInsideMs}, {4, kInsideMs}}});
  ASSERT_TRUE(until_ready());
  const auto admitted = core_->admit({.service = "s"});
  ASSERT_TRUE(admitted && core_->claim(*admitted, 1));
  int told = 0;
  core_->submit(*admitted, {.ended = [&](const std::optional<Denial>&) { ++told; }});
  ASSERT_TRUE(until([&] { return worker.runs.size() == 1; }));
  core_->serve({});
  EXPECT_EQ(told, 1);
  worker.say(Done{worker.runs[0].batch, kInsideMs, {ItemStatus::ok}});
  ASSERT_TRUE(until([&] { return worker.drained; }));
  loop_->run_until(Loop::now_ns() + 20 * kInsideMs);
  EXPECT_EQ(told, 1);
  core_->release(*admitted);
  EXPECT_TRUE(core_->idle());
}

TEST_F(CoreByHandTest, OneThatLeavesBeforeItWasReadyMayGoAtOnce) {
  open(patient());
  HandWorker worker(*loop_, link_path(directory_), one_float());
  ASSERT_TRUE(until([&] { return worker.region; }));
  worker.say(Leaving{});
  EXPECT_TRUE(until([&] { return worker.drained; }));
}

// What waits goes to a worker as soon as it is heard again.
TEST_F(CoreByHandTest, OneThatIsHeardAgainTakesWhatWaits) {
  open({.link_path = "",
        .shed = false,
        .silent_after = 700 * kInsideMs,
        .dead_after = INT64_MAX / 4},
       60'000);
  HandWorker busy(*loop_, link_path(directory_), one_float()),
      quiet(*loop_, link_path(directory_), one_float());
  ASSERT_TRUE(until([&] { return busy.region && quiet.region; }));
  for (HandWorker* one : {&busy, &quiet}) one->say(Ready{{{1, 60 * kInsideSecond}}});
  ASSERT_TRUE(until_ready(2));
  ASSERT_TRUE(until([&] {
    busy.say(Beat{});
    return core_->service_views().at(0).ready_workers == 1;
  }));
  std::vector<RequestId> asked;
  for (int i = 0; i < 2; ++i) {
    const auto admitted = core_->admit({.service = "s"});
    ASSERT_TRUE(admitted && core_->claim(*admitted, 1));
    core_->submit(*admitted, {.ended = [](const std::optional<Denial>&) {}});
    asked.push_back(*admitted);
  }
  ASSERT_TRUE(until([&] { return busy.runs.size() == 1; }));
  EXPECT_TRUE(quiet.runs.empty());
  quiet.say(Beat{});
  EXPECT_TRUE(until([&] {
    busy.say(Beat{});
    return quiet.runs.size() == 1;
  }));
  for (const RequestId id : asked) core_->release(id);
}

// ---- workers in processes of their own

// Says HELLO and READY, then beats for ever or not at all, and takes what it is sent for nothing.
pid_t forked_worker(const std::string& path, bool beats) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  Result<Connection> connection = Connection::connect(path);
  if (!connection) ::_exit(1);
  static_cast<void>(
      connection->send(encode(Hello{.place = "/s:d:0", .service = "s", .model = one_float()})));
  static_cast<void>(connection->send(encode(Ready{{{1, kInsideMs}, {4, kInsideMs}}})));
  std::vector<char> buffer(kMaxFrameBytes);
  while (true) {
    ::usleep(20'000);
    static_cast<void>(connection->receive(buffer));
    if (beats) static_cast<void>(connection->send(encode(Beat{})));
  }
}

class DeadWorkersTest : public CoreByHandTest {
 protected:
  ~DeadWorkersTest() override {
    if (child_ > 0) ::kill(child_, SIGKILL), ::waitpid(child_, nullptr, 0);
  }
  // How the worker ended.
  int status() {
    int status = -1;
    until([&] {
      if (child_ > 0 && ::waitpid(child_, &status, WNOHANG) == child_) child_ = 0;
      return child_ == 0;
    });
    return status;
  }
  pid_t child_ = 0;
};

TEST_F(DeadWorkersTest, OneThatIsSilentForTooLongIsKilled) {
  open({.link_path = "", .silent_after = 200 * kInsideMs, .dead_after = 900 * kInsideMs});
  const Nanos begun = Loop::now_ns();
  child_ = forked_worker(link_path(directory_), false);
  const int how = status();
  EXPECT_TRUE(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL) << how;
  EXPECT_GE(Loop::now_ns() - begun, 900 * kInsideMs);
  EXPECT_NE(said_.find("is killed: it does not answer any more"), std::string::npos) << said_;
  EXPECT_EQ(said_.find("cannot be killed"), std::string::npos) << said_;
  ASSERT_TRUE(until([&] { return core_->worker_views().empty(); }));
}

// A gateway that stood still itself has read nothing of what its workers said meanwhile.
TEST_F(DeadWorkersTest, NobodyDiesOfWhatTheGatewayDidNotHear) {
  open({.link_path = "", .silent_after = 2 * kInsideSecond, .dead_after = 3 * kInsideSecond});
  child_ = forked_worker(link_path(directory_), true);
  ASSERT_TRUE(until_ready());
  loop_->post([] { std::this_thread::sleep_for(std::chrono::seconds(4)); });
  loop_->run_until(Loop::now_ns() + 4300 * kInsideMs);
  int how = 0;
  EXPECT_EQ(::waitpid(child_, &how, WNOHANG), 0);
  EXPECT_EQ(said_.find("answer"), std::string::npos) << said_;
}

// Its process is gone and a child of it has the connection: there is nobody to kill.
TEST_F(DeadWorkersTest, OneThatCannotBeKilledGetsNothingMore) {
  open({.link_path = "", .silent_after = 200 * kInsideMs, .dead_after = 500 * kInsideMs});
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    Result<Connection> connection = Connection::connect(link_path(directory_));
    const pid_t child = ::fork();
    if (child == 0) ::pause();
    static_cast<void>(
        connection->send(encode(Hello{.place = "/s:d:0", .service = "s", .model = one_float()})));
    static_cast<void>(connection->send(encode(Ready{{{1, kInsideMs}}})));
    static_cast<void>(::write(told[1], &child, sizeof child) > 0);
    ::_exit(0);
  }
  ASSERT_EQ(::read(told[0], &child_, sizeof child_), static_cast<ssize_t>(sizeof child_));
  ::close(told[0]), ::close(told[1]);
  ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
  ASSERT_TRUE(until([&] { return said_.find("cannot be killed") != said_.npos; })) << said_;
  EXPECT_TRUE(until([&] {
    return core_->worker_views().empty() || core_->worker_views().at(0).state == "leaving";
  }));
  loop_->run_until(Loop::now_ns() + 1100 * kInsideMs);
  EXPECT_EQ(said_.find("cannot be killed"), said_.rfind("cannot be killed")) << "said once";
}

TEST_F(DeadWorkersTest, OneWhoseBatchDoesNotEndIsKilled) {
  open({.link_path = "",
        .hang_after = 50 * kInsideMs,
        .silent_after = 60 * kInsideSecond,
        .dead_after = 700 * kInsideMs},
       50);
  child_ = forked_worker(link_path(directory_), true);
  ASSERT_TRUE(until_ready());
  loop_->run_until(Loop::now_ns() + 1100 * kInsideMs);
  int how = 0;
  EXPECT_EQ(::waitpid(child_, &how, WNOHANG), 0) << "one that beats and has nothing to do stays";
  const auto admitted = core_->admit({.service = "s"});
  ASSERT_TRUE(admitted && core_->claim(*admitted, 1));
  bool ended = false;
  const Nanos begun = Loop::now_ns();
  core_->submit(*admitted, {.ended = [&](const std::optional<Denial>&) { ended = true; }});
  how = status();
  EXPECT_GE(Loop::now_ns() - begun, 700 * kInsideMs);
  EXPECT_TRUE(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL) << how;
  EXPECT_NE(said_.find("is killed: its batch does not end"), std::string::npos) << said_;
  ASSERT_TRUE(until([&] { return ended && !core_->losses().empty(); }));
  core_->release(*admitted);
}

}  // namespace
}  // namespace partita::serve
