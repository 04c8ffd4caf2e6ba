// The core with workers at real sockets, all on one loop.
#include "serve/gateway/core.h"

#include <algorithm>

#include "base/index.h"
#include "serve/gateway/testing/core_fixture.h"

namespace partita::serve {
namespace {

using test::Asked;
using test::CoreTest;
using test::doubler;
using test::kMs;
using test::kTestPatience;
using test::TestWorker;

TEST_F(CoreTest, AnswersWhatWasAsked) {
  EXPECT_EQ(ask(1)->denial->kind, Denial::Kind::not_ready);
  const auto first = worker(kMs, "d", 0);
  ASSERT_TRUE(until_ready(1));
  EXPECT_EQ(*core_->model("s"), doubler());
  const auto one = ask(1), five = ask(100, 5);
  ASSERT_TRUE(until([&] { return one->ended && five->ended; }));
  expect_twice(*one, 1);
  expect_twice(*five, 100);
  EXPECT_EQ(five->answer.size(), 20U);
  EXPECT_EQ(free_slots(), slots());
  EXPECT_EQ(metric("nv_inference_request_success{model=\"s\",version=\"1\"}"), 2);
  EXPECT_EQ(metric("nv_inference_count{model=\"s\",version=\"1\"}"), 6);
  EXPECT_EQ(core_->statistics("s").execution_count, static_cast<std::uint64_t>(first->batches));
  EXPECT_TRUE(core_->idle());
  EXPECT_TRUE(core_->ready() && core_->ready("s"));
  EXPECT_LT(core_->worker_views().at(0).heard_ago, kTestPatience);
  first->vanish();
  ASSERT_TRUE(until_ready(0));
  EXPECT_TRUE(core_->losses().empty()) << "it had nothing in flight";
  EXPECT_FALSE(core_->ready() || core_->ready("s"));
  RequestHead other{.service = "t"};
  EXPECT_EQ(core_->admit(other).error().kind, Denial::Kind::unknown_model);
}

// Asked for is asked for, whoever refuses it and why; what a client takes back is told apart.
TEST_F(CoreTest, EveryRequestIsCountedAndAppearsInOneCountOfWhatBecameOfIt) {
  service_.slo = Millis{200};
  service_.segments.clear();  // wanted, and nothing is planned for it
  core_->serve({service_});
  EXPECT_TRUE(core_->ready());
  core_->turned_away("s");
  EXPECT_EQ(ask(1)->denial->kind, Denial::Kind::not_ready);
  core_->turned_away("nobody");
  const auto now = [&] { return core_->service_views().at(0); };
  EXPECT_EQ(now().counters.offered, 2);
  EXPECT_EQ(now().counters.refused_worker, 2);
  service_.segments = {{"d", 4, 1}};
  core_->serve({service_});
  EXPECT_FALSE(core_->ready());
  const auto first = worker(kMs);
  ASSERT_TRUE(until_ready(1));
  EXPECT_EQ(ask(1, kMaxItems + 1)->denial->kind, Denial::Kind::too_large);
  EXPECT_EQ(now().withdrawn, 1);  // nobody could ever serve that
  core_->release(*core_->admit({.service = "s"}));
  EXPECT_EQ(now().withdrawn, 2);  // its body never came
  core_->release(*core_->admit({.service = "s"}));
  core_->release(*core_->admit({.service = "s", .again = true}));
  EXPECT_EQ(now().withdrawn, 3);
  const auto answered = ask(3);
  ASSERT_TRUE(until([&] { return answered->ended; }));
  EXPECT_EQ(now().withdrawn, 3);
  first->hold = true;
  const auto early = ask(1), late = ask(2);
  ASSERT_TRUE(early->let_in && late->let_in);
  core_->release(early->id);
  const Nanos asked = Loop::now_ns();
  until([&] { return Loop::now_ns() > asked + 201 * kMs; });
  core_->release(late->id);
  EXPECT_EQ(now().withdrawn, 4);
  EXPECT_EQ(now().given_up, 1);
  core_->close_doors();
  EXPECT_EQ(ask(1)->denial->kind, Denial::Kind::not_ready);
  const ServiceCounters counted = now().counters;
  EXPECT_EQ(counted.offered, 9);
  EXPECT_EQ(counted.offered, counted.refused_worker + counted.refused_full + counted.completed +
                                 now().withdrawn + now().given_up);
}

// Slots are used again: what a request without a trace finds there is not its own.
TEST_F(CoreTest, TracesGoToTheWorkerWithTheirRequest) {
  const auto first = worker(kMs, "d", 0);
  ASSERT_TRUE(until_ready(1));
  const auto traced =
      ask(1, 4, {.service = "s", .trace_parent = "00-aa-bb-01", .trace_state = "x=1"});
  ASSERT_TRUE(until([&] { return traced->ended; }));
  EXPECT_EQ(first->traces, std::set<std::string>{"00-aa-bb-01x=1"});
  first->traces.clear();
  const auto plain = ask(1, 4);
  ASSERT_TRUE(until([&] { return plain->ended; }));
  EXPECT_EQ(first->traces, std::set<std::string>{""});
}

TEST_F(CoreTest, ADeadWorkersBatchGoesToAnother) {
  auto first = worker(kMs, "d", 0);
  first->hold = true;
  ASSERT_TRUE(until_ready(1));
  const auto asked = ask(7), once = ask(8, 1, {.service = "s", .idempotent = false});
  ASSERT_TRUE(until([&] { return first->items > 0; }));
  const auto second = worker(kMs, "e", 0);
  ASSERT_TRUE(until_ready(2));
  const int held = first->items;
  first.reset();
  ASSERT_TRUE(until([&] { return asked->ended && once->ended; }));
  expect_twice(*asked, 7);
  // What must not run twice fails if it was under way, and is answered if it waited.
  EXPECT_EQ(once->denial.has_value(), held == 2);
  EXPECT_EQ(free_slots(), slots());
  EXPECT_NE(said_.find("is gone"), std::string::npos);
}

TEST_F(CoreTest, AnIdleWorkerTakesADeadOnesRowsAtOnce) {
  service_.slo = Millis{60'000};  // nobody's patience ends
  core_->serve({service_});
  const auto first = worker(kMs, "d", 0), second = worker(kMs, "e", 0);
  first->hold = second->hold = true;
  ASSERT_TRUE(until_ready(2));
  const auto asked = ask(7);
  ASSERT_TRUE(until([&] { return first->batches + second->batches == 1; }));
  const auto& has = first->batches == 1 ? first : second;
  const auto& idle = first->batches == 1 ? second : first;
  idle->hold = false;
  has->vanish();
  ASSERT_TRUE(until([&] { return asked->ended; }));
  expect_twice(*asked, 7);
}

// Another SLO is in force for the next request.
TEST_F(CoreTest, TermsChangeWhileAServiceIsServed) {
  const auto any = worker(100 * kMs, "d", 0);
  ASSERT_TRUE(until_ready(1));
  EXPECT_TRUE(ask(1)->let_in);
  service_.slo = Millis{50};
  core_->serve({service_});
  const auto late = ask(1);
  ASSERT_TRUE(late->denial);
  EXPECT_EQ(late->denial->kind, Denial::Kind::would_be_late);
  service_.slo = Millis{1000};
  core_->serve({service_});
  EXPECT_TRUE(ask(1)->let_in);
}

// Who asks again from inside of his answer, and again, does not do so on one stack.
TEST_F(CoreTest, AnswersInAnswersDoNotPileUp) {
  open({.link_path = "", .shed = false});
  const auto any = worker(kMs, "d", 0);
  ASSERT_TRUE(until_ready(1));
  int left = 50'000;
  std::function<void()> again = [&] {
    const auto admitted = core_->admit({.service = "s", .timeout_ns = -1});
    ASSERT_TRUE(admitted && core_->claim(*admitted, 1));
    core_->submit(*admitted, {.ended = [&, id = *admitted](const std::optional<Denial>& denial) {
      EXPECT_EQ(denial->message, "its deadline passed while it waited");
      core_->release(id);
      if (--left > 0) again();
    }});
  };
  again();
  EXPECT_TRUE(until([&] { return left == 0; }));
  EXPECT_TRUE(core_->idle());
}

TEST_F(CoreTest, AWorkerThatLeavesEndsItsBatchFirst) {
  auto old = worker(20 * kMs, "d", 0);
  ASSERT_TRUE(until_ready(1));
  const auto asked = ask(3);
  ASSERT_TRUE(until([&] { return old->batches == 1; }));
  const auto fresh = worker(kMs, "e", 0);
  ASSERT_TRUE(until_ready(2));
  old->leave();
  EXPECT_FALSE(old->drained);
  ASSERT_TRUE(until([&] { return asked->ended && old->drained; }));
  expect_twice(*asked, 3);
  const auto next = ask(4);
  ASSERT_TRUE(until([&] { return next->ended; }));
  expect_twice(*next, 4);
  EXPECT_EQ(old->batches, 1);
  EXPECT_EQ(fresh->batches, 1);
  fresh->leave();
  ASSERT_TRUE(until([&] { return fresh->drained && core_->worker_views().empty(); }));
  const std::string process = ", process " + std::to_string(::getpid()) + " is ready\n";
  EXPECT_EQ(said_, "worker 0 of s on d" + process + "worker 0 of s on e" + process);
}

TEST_F(CoreTest, AWorkerThatDiesWhileItLeavesIsTold) {
  const auto any = worker(kMs, "d", 3);
  any->hold = true;
  ASSERT_TRUE(until_ready(1));
  const auto asked = ask(3, 1, {.service = "s", .idempotent = false});
  ASSERT_TRUE(until([&] { return any->batches == 1; }));
  any->leave();
  ASSERT_TRUE(until_ready(0));
  any->vanish();
  ASSERT_TRUE(until([&] { return asked->ended; }));
  EXPECT_EQ(asked->denial->message, "its worker died");
  EXPECT_NE(said_.find("worker 3 of s on d"), std::string::npos);
  EXPECT_NE(said_.find("its connection ended; it had 1 rows\n"), std::string::npos) << said_;
}

TEST_F(CoreTest, ASegmentThatIsTakenAwayIsDrained) {
  const auto old = worker(kMs, "d", 0), stays = worker(kMs, "e", 0);
  ASSERT_TRUE(until_ready(2));
  service_.segments = {{"e", 4, 1}};
  core_->serve({service_});
  ASSERT_TRUE(until([&] { return old->drained; }));
  EXPECT_FALSE(stays->drained);
  core_->serve({});
  ASSERT_TRUE(until([&] { return stays->drained; }));
  EXPECT_EQ(ask(1)->denial->kind, Denial::Kind::unknown_model);
}

TEST_F(CoreTest, WhoGoesAwayFreesItsSlotOnceTheWorkerIsDone) {
  const auto slow = worker(30 * kMs, "d", 0);
  ASSERT_TRUE(until_ready(1));
  const auto runs = ask(1);
  ASSERT_TRUE(until([&] { return slow->batches == 1; }));
  const auto waits = ask(2);
  core_->release(waits->id);
  EXPECT_EQ(free_slots(), slots() - 1);
  core_->release(runs->id);
  EXPECT_EQ(runs.use_count(), 1) << "nobody keeps what his answer was to be told to";
  EXPECT_EQ(free_slots(), slots() - 1);  // its worker may still write there
  ASSERT_TRUE(until([&] { return free_slots() == slots(); }));
  EXPECT_EQ(slow->cancelled, std::vector<std::uint32_t>{0});
  EXPECT_FALSE(runs->ended);
  EXPECT_FALSE(waits->ended);
  // Let in and never sent.
  const auto admitted = core_->admit({.service = "s"});
  ASSERT_TRUE(admitted);
  core_->release(*admitted);
  EXPECT_EQ(free_slots(), slots());
}

TEST_F(CoreTest, MemoryIsBounded) {
  open({.link_path = "", .queue_limit = 100, .memory_bytes = 3 * 4096, .shed = false});
  const auto slow = worker(50 * kMs, "d", 0);
  ASSERT_TRUE(until_ready(1));
  std::vector<std::shared_ptr<Asked>> asked;
  for (int i = 0; i < 5; ++i) asked.push_back(ask(static_cast<float>(i)));
  EXPECT_TRUE(asked[2]->let_in);
  ASSERT_FALSE(asked[3]->let_in);
  EXPECT_EQ(asked[3]->denial->kind, Denial::Kind::overloaded);
  EXPECT_GT(asked[3]->denial->retry_after_ns, 0);
  EXPECT_LT(asked[3]->denial->retry_after_ns, 1'000 * kMs);
  EXPECT_EQ(metric("partita_requests_refused_total{service=\"s\",reason=\"queue_full\"}"), 2);
  EXPECT_EQ(ask(0, 4)->denial->kind, Denial::Kind::too_large);
  EXPECT_EQ(core_->service_views().at(0).withdrawn, 1) << "nobody could ever serve that";
  ASSERT_TRUE(until([&] { return asked[0]->ended && asked[2]->ended; }));
  EXPECT_TRUE(ask(9)->let_in);
}

// Let in while there was room for its rows, and then there was none: that is the memory's fault.
TEST_F(CoreTest, WhoFindsNoMemoryForItsRowsWasRefused) {
  open({.link_path = "", .memory_bytes = 3 * 4096, .shed = false});
  const auto any = worker(kMs, "d", 0);
  ASSERT_TRUE(until_ready(1));
  const auto first = core_->admit({.service = "s", .items = 3}),
             second = core_->admit({.service = "s", .items = 3});
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(core_->claim(*first, 3));
  EXPECT_TRUE(core_->claim(*first, 3)) << "which it has";
  EXPECT_FALSE(core_->claim(*second, 1));
  core_->release(*second);
  EXPECT_EQ(core_->service_views().at(0).counters.refused_full, 1);
  EXPECT_EQ(core_->service_views().at(0).withdrawn, 0);
  core_->release(*first);
  EXPECT_EQ(core_->service_views().at(0).withdrawn, 1);
  EXPECT_EQ(free_slots(), 3);
}

TEST_F(CoreTest, WhatWasLetGoIsFreeOnceItsWorkerHasDied) {
  const auto first = worker(kMs, "d", 0), second = worker(kMs, "e", 0);
  first->hold = second->hold = true;
  ASSERT_TRUE(until_ready(2));
  const auto asked = ask(1);
  ASSERT_TRUE(until([&] { return first->batches + second->batches == 1; }));
  core_->release(asked->id);
  EXPECT_EQ(free_slots(), slots() - 1);
  (first->batches == 1 ? first : second)->vanish();
  ASSERT_TRUE(until_ready(1));
  EXPECT_EQ(free_slots(), slots());
}

TEST_F(CoreTest, BatchesAreAsLargeAsTheAssignmentSays) {
  service_.segments = {{"d", 2, 1}};
  core_->serve({service_});
  const auto any = worker(5 * kMs, "d", 0);
  ASSERT_TRUE(until_ready(1));
  std::vector<std::shared_ptr<Asked>> asked;
  for (int i = 0; i < 9; ++i) asked.push_back(ask(1));
  ASSERT_TRUE(until([&] { return std::ranges::all_of(asked, [](auto& a) { return a->ended; }); }));
  EXPECT_EQ(any->items, 9);
  EXPECT_GE(any->batches, 5);
}

TEST_F(CoreTest, EveryChangeIsTold) {
  int told = 0;
  core_->on_change([&] { ++told; });
  const auto first = worker(kMs, "d", 0);
  ASSERT_TRUE(until([&] { return told > 0 && core_->service_views().at(0).ready_workers == 1; }));
  loop_->run_until(Loop::now_ns() + 5 * kMs);
  const int before = told;
  const auto second = worker(kMs, "e", 0);
  ASSERT_TRUE(until_ready(2));
  EXPECT_TRUE(until([&] { return told > before; }));
  loop_->run_until(Loop::now_ns() + 5 * kMs);
  const int then = told;
  for (int i = 0; i < 3; ++i) core_->serve({service_});
  loop_->run_until(Loop::now_ns() + 5 * kMs);
  EXPECT_EQ(told, then + 1) << "once a turn";
  second->vanish();
  ASSERT_TRUE(until_ready(1));
  loop_->run_until(Loop::now_ns() + 5 * kMs);
  EXPECT_EQ(told, then + 2);
}

TEST_F(CoreTest, TheLastLossesAreKept) {
  for (int i = 0; i < static_cast<int>(kMostWorkerLosses) + 3; ++i) {
    const auto any = worker(kMs, "d", i);
    any->hold = true;
    ASSERT_TRUE(until_ready(1));
    const auto asked = ask(1, 1, {.service = "s", .idempotent = false});
    ASSERT_TRUE(until([&] { return any->batches == 1; }));
    any->vanish();
    ASSERT_TRUE(until_ready(0));
  }
  ASSERT_EQ(core_->losses().size(), kMostWorkerLosses);
  EXPECT_EQ(core_->losses().front().index, 3);
  EXPECT_EQ(core_->losses().back().index, static_cast<int>(kMostWorkerLosses) + 2);
}

TEST_F(CoreTest, SlotsAreForRowsThatCome) {
  open({.link_path = "", .shed = false});
  const auto any = worker(kMs, "d", 0);
  ASSERT_TRUE(until_ready(1));
  std::vector<RequestId> promised;
  for (int i = 0; i < 16; ++i) {
    const auto admitted = core_->admit({.service = "s", .items = 4096, .client = "a"});
    ASSERT_TRUE(admitted);
    promised.push_back(*admitted);
    ASSERT_TRUE(core_->claim(*admitted, 1));
  }
  EXPECT_EQ(free_slots(), slots() - 16);
  const auto other = ask(1, 4, {.service = "s", .client = "b"});
  ASSERT_TRUE(until([&] { return other->ended; }));
  expect_twice(*other, 1);
  for (const RequestId id : promised) core_->release(id);
  EXPECT_EQ(free_slots(), slots());
}

TEST_F(CoreTest, OneClientNeverHasAllSlots) {
  open({.link_path = "", .memory_bytes = 10 * 4096, .shed = false});
  const auto any = worker(kMs, "d", 0);
  ASSERT_TRUE(until_ready(1));
  std::vector<RequestId> held;
  const auto take = [&](std::string_view client) {
    const auto admitted = core_->admit({.service = "s", .client = client});
    if (!admitted) return false;
    held.push_back(*admitted);
    return core_->claim(*admitted, 1);
  };
  int first = 0, second = 0;
  while (take("a")) ++first;
  while (take("b")) ++second;
  EXPECT_EQ(first, 8);
  EXPECT_EQ(second, 2);
  EXPECT_TRUE(core_->claim(held[0], 1)) << "which it has";
  const auto give_back = [&](int rows) {  // the first of them
    for (int i = 0; i < rows; ++i) core_->release(held.front()), held.erase(held.begin());
  };
  for (int i = 0; i < 2; ++i) core_->release(held.back()), held.pop_back();  // b's
  for (const int rows : {1, 7}) {
    give_back(rows);
    for (int i = 0; i < rows; ++i) EXPECT_TRUE(take("a")) << i;
    EXPECT_FALSE(take("a")) << "what it still had counts";
  }
  for (const RequestId id : held) core_->release(id);
  EXPECT_EQ(free_slots(), 10);
  EXPECT_TRUE(take("b"));
  core_->release(held.back());
}

TEST_F(CoreTest, ADeadlineOfTheClient) {
  const auto slow = worker(200 * kMs, "d", 0);
  ASSERT_TRUE(until_ready(1));
  std::vector<std::shared_ptr<Asked>> first;
  for (int i = 0; i < 4; ++i) first.push_back(ask(1));
  ASSERT_TRUE(until([&] { return slow->batches == 1; }));
  // It is refused at once when it cannot be met.
  EXPECT_EQ(ask(1, 1, {.service = "s", .timeout_ns = 10 * kMs})->denial->kind,
            Denial::Kind::would_be_late);
}

TEST_F(CoreTest, ASilentWorkerGetsNothingUntilItIsHeard) {
  open({.link_path = "", .silent_after = 1, .dead_after = INT64_MAX / 2});
  const auto quiet = worker(kMs, "d", 0);
  ASSERT_TRUE(until([&] {
    const std::vector<WorkerView> views = core_->worker_views();
    return !views.empty() && views[0].state == "silent";
  }));
  EXPECT_EQ(ask(1)->denial->kind, Denial::Kind::not_ready);
  open({.link_path = "", .silent_after = 700 * kMs, .dead_after = INT64_MAX / 2});
  const auto speaks = worker(kMs, "d", 0);
  ASSERT_TRUE(until_ready(1));
  ASSERT_TRUE(until_ready(0));
  speaks->beat();
  ASSERT_TRUE(until_ready(1));
}

TEST_F(CoreTest, RefusesWorkersThatDoNotFit) {
  const auto good = worker(kMs, "d", 0);
  ASSERT_TRUE(until_ready(1));
  good->hello_again();
  ASSERT_TRUE(until([&] { return good->refused; }));
  ASSERT_TRUE(until_ready(0));
  Result<Connection> raw = Connection::connect(link_path(directory_));
  ASSERT_TRUE(raw);
  ASSERT_TRUE(raw->send("nonsense"));
  std::vector<char> buffer(kMaxFrameBytes);
  ASSERT_TRUE(until([&] {
    const Result<Received> received = raw->receive(buffer);
    return !received || received->kind == Received::Kind::ended;
  }));
}

// What workers measured is what the dispatcher reckons with: straight lines between the points,
// up to the largest batch that is used, and never quicker with more rows.
TEST_F(CoreTest, CapacityIsOfTheMeasuredTimes) {
  struct Case {
    std::vector<CurvePoint> measured;
    int batch;
    double capacity_rps;
  };
  const Case cases[] = {{{{1, 1 * kMs}, {4, 7 * kMs}}, 4, 4 / 0.007},
                        {{{1, 1 * kMs}, {4, 7 * kMs}}, 2, 2 / 0.003},
                        {{{1, 1 * kMs}, {4, 7 * kMs}}, 3, 3 / 0.005},
                        {{{2, 4 * kMs}}, 1, 1 / 0.004},
                        {{{1, 5 * kMs}, {2, 3 * kMs}, {4, 8 * kMs}}, 2, 2 / 0.005},
                        {{{1, 2 * kMs}, {8, 9 * kMs}}, 0, 4 / 0.005}};  // it offers 4
  for (const Case& one : cases) {
    service_.segments = {{"d", one.batch, 1}};
    core_->serve({service_});
    const TestWorker any(*loop_, link_path(directory_), "/state/workers.json:d:0", kMs,
                         one.measured);
    ASSERT_TRUE(until_ready(1));
    EXPECT_NEAR(core_->service_views().at(0).capacity_rps, one.capacity_rps,
                1e-6 * one.capacity_rps);
    core_->serve({});  // which ends the worker
    ASSERT_TRUE(until([&] { return core_->worker_views().empty(); }));
    core_->serve({service_});
  }
}

TEST_F(CoreTest, TimesThatMakeNoSenseAreRefused) {
  for (const std::vector<CurvePoint>& curve :
       {std::vector<CurvePoint>{{1, 0}}, {{1, kMs}, {2, 0}}, {{1, 0}, {2, kMs}}}) {
    TestWorker bad(*loop_, link_path(directory_), "/state/workers.json:d:0", kMs, curve);
    ASSERT_TRUE(until([&] { return bad.refused; }));
    EXPECT_EQ(bad.why, "its READY makes no sense");
    ASSERT_TRUE(until([&] { return core_->worker_views().empty(); }));
  }
  const TestWorker least(*loop_, link_path(directory_), "/state/workers.json:d:0", kMs,
                         std::vector<CurvePoint>{{1, 1}});
  EXPECT_TRUE(until_ready(1));
}

// Of a place that is none, the process is told apart by its number.
TEST_F(CoreTest, WorkersHaveThePlaceOfTheAssignment) {
  for (const auto& [place, device, index] :
       {std::tuple{"/s:d:2", "d", 2}, {"/a:b:MIG-1:0", "MIG-1", 0}, {":d:1", "d", 1}}) {
    const TestWorker any(*loop_, link_path(directory_), place, kMs);
    ASSERT_TRUE(until([&] { return core_->worker_views().size() == 1; })) << place;
    const WorkerView view = core_->worker_views().at(0);
    EXPECT_EQ(view.device, device);
    EXPECT_EQ(view.index, index);
    EXPECT_EQ(view.pid, ::getpid());
    EXPECT_EQ(view.service, "s");
    core_->serve({});
    ASSERT_TRUE(until([&] { return core_->worker_views().empty(); }));
    core_->serve({service_});
  }
  const std::string own = "process-" + std::to_string(::getpid());
  for (const char* place : {"", "d", "d:0", ":0", "/s:d:", "/s:d:x", "/s:d:-1"}) {
    const TestWorker any(*loop_, link_path(directory_), place, kMs);
    ASSERT_TRUE(until([&] { return core_->worker_views().size() == 1; })) << place;
    EXPECT_EQ(core_->worker_views().at(0).device, own) << place;
    EXPECT_EQ(core_->worker_views().at(0).index, 0);
    core_->serve({});
    ASSERT_TRUE(until([&] { return core_->worker_views().empty(); }));
    core_->serve({service_});
  }
}

// Denials in words: which service, and how much.
TEST_F(CoreTest, DenialsSayWhat) {
  open({.link_path = "", .queue_limit = 2});
  const auto said = [&](float value, int rows = 1, RequestHead head = {}) {
    const auto asked = ask(value, rows, head);
    return asked->denial ? asked->denial->message : "let in";
  };
  EXPECT_EQ(said(1), "no worker of 's' is ready");
  EXPECT_EQ(core_->admit({.service = "t"}).error().message, "no service 't' here");
  const auto any = worker(100 * kMs, "d", 0);
  any->hold = true;
  ASSERT_TRUE(until_ready(1));
  EXPECT_EQ(said(1, kMaxItems + 1), "'s' never takes so many rows at once");
  const auto runs = ask(1);
  ASSERT_TRUE(until([&] { return any->batches == 1; }));
  const auto late = ask(1, 1, {.service = "s", .timeout_ns = 10 * kMs});
  ASSERT_TRUE(late->denial);
  double ms = 0;
  ASSERT_EQ(std::sscanf(late->denial->message.c_str(), "'s' would answer %lf ms too late", &ms), 1);
  EXPECT_NEAR(ms, static_cast<double>(late->denial->retry_after_ns) / 1e6, 0.051);
  EXPECT_GT(ms, 50);
  EXPECT_LT(ms, 200);
  const auto second = ask(2), third = ask(3);
  EXPECT_EQ(said(4), "the queue of 's' is full");
  core_->close_doors();
  EXPECT_EQ(said(5), "this gateway is shutting down");
  EXPECT_FALSE(core_->ready());
  core_->serve({});
  EXPECT_TRUE(runs->ended && second->ended && third->ended);
  EXPECT_EQ(ended_, (std::vector<RequestId>{runs->id, second->id, third->id})) << "as they came";
  EXPECT_EQ(second->denial->kind, Denial::Kind::not_ready);
  EXPECT_EQ(second->denial->message, "'s' has just been taken out of service");
}

// Let in, and taken out of service before its body was there.
TEST_F(CoreTest, WhatComesTooLateForItsServiceIsTold) {
  const auto any = worker(kMs, "d", 0);
  ASSERT_TRUE(until_ready(1));
  const auto admitted = core_->admit({.service = "s"});
  ASSERT_TRUE(admitted && core_->claim(*admitted, 1));
  core_->serve({});
  std::optional<Denial> denial;
  core_->submit(*admitted, {.ended = [&](std::optional<Denial> why) { denial = std::move(why); }});
  ASSERT_TRUE(denial);
  EXPECT_EQ(denial->message, "taken out of service");
  EXPECT_FALSE(core_->idle());
  core_->release(*admitted);
  EXPECT_TRUE(core_->idle());
}

// What is summed per device is of what ran there.
TEST_F(CoreTest, DevicesAreCountedApart) {
  const auto first = worker(3 * kMs, "d", 0), second = worker(3 * kMs, "e", 0);
  ASSERT_TRUE(until_ready(2));
  std::vector<std::shared_ptr<Asked>> asked;
  for (int i = 0; i < 24; ++i) asked.push_back(ask(static_cast<float>(i)));
  ASSERT_TRUE(until([&] { return std::ranges::all_of(asked, [](auto& a) { return a->ended; }); }));
  const auto of = [&](const std::string& family, const std::string& device) {
    return metric("partita_segment_" + family + "{service=\"s\",device=\"" + device + "\"}");
  };
  for (const auto& [worker, device] : {std::pair{first.get(), "d"}, {second.get(), "e"}}) {
    EXPECT_EQ(of("batches_total", device), worker->batches);
    EXPECT_EQ(of("rows_total", device), worker->items);
    EXPECT_NEAR(of("busy_seconds_total", device), 0.003 * worker->batches, 1e-9);
    EXPECT_EQ(of("workers_ready", device), 1);
  }
  EXPECT_EQ(first->items + second->items, 24);
  EXPECT_NEAR(metric("nv_inference_compute_infer_duration_us{model=\"s\",version=\"1\"}"),
              3000.0 * (first->batches + second->batches), 1e-3);
  EXPECT_GT(core_->statistics("s").success_ns, 24u * 3 * kMs - 1);
  EXPECT_LT(core_->statistics("s").success_ns, static_cast<std::uint64_t>(24 * kTestPatience));
  EXPECT_GE(core_->service_views().at(0).p50, 3 * kMs * 9 / 10);
  EXPECT_LT(core_->service_views().at(0).p50, kTestPatience);
  EXPECT_GE(core_->service_views().at(0).p99, core_->service_views().at(0).p50);
  EXPECT_GT(core_->statistics("s").last_inference_ms, 1'700'000'000'000u);
  first->leave();
  ASSERT_TRUE(until([&] { return first->drained; }));
  EXPECT_EQ(of("workers_ready", "d"), 0);
  EXPECT_EQ(of("workers_ready", "e"), 1);
  second->vanish();
  ASSERT_TRUE(until_ready(0));
  EXPECT_EQ(of("workers_ready", "e"), 0);
}

// The rate that comes is smoothed: after a minute of silence nothing is left of it.
TEST_F(CoreTest, TheRateIsOfTheLastSeconds) {
  const auto any = worker(kMs, "d", 0);
  ASSERT_TRUE(until_ready(1));
  for (int i = 0; i < 50; ++i) core_->turned_away("s");
  ASSERT_TRUE(until([&] { return core_->service_views().at(0).rate_rps > 0; }));
  EXPECT_NEAR(core_->service_views().at(0).rate_rps, 0.15 * 50 / 0.5, 1e-9);
  const double before = core_->service_views().at(0).rate_rps;
  ASSERT_TRUE(until([&] { return core_->service_views().at(0).rate_rps < before; }));
  EXPECT_NEAR(core_->service_views().at(0).rate_rps, 0.85 * before, 1e-9);
}

TEST_F(CoreTest, ASecondGatewayIsRefused) {
  const auto second = Core::open(*loop_, {.link_path = link_path(directory_)}, [](const auto&) {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::in_use);
}

}  // namespace
}  // namespace partita::serve
