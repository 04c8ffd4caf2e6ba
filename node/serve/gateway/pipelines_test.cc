#include "serve/gateway/pipelines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "serve/gateway/testing/core_fixture.h"

namespace partita::serve {
namespace {

using test::Asked;
using test::CoreTest;
using testing::HasSubstr;

// Members whose models are functions of a request's rows, done when the test says so.
class Members final : public Backend {
 public:
  struct Member {
    ModelSpec model;
    std::function<void(const char* in, char* out)> run;
  };
  struct Row {
    std::vector<char> in, out;
  };
  struct Request {
    std::string service;
    std::vector<Row> rows;
    Completion completion;
  };
  std::map<std::string, Member, std::less<>> members;
  std::map<RequestId, Request> requests;
  std::optional<Denial> deny = {};
  std::string denies;  // the member that does
  std::vector<std::string> ran;
  std::map<std::string, Nanos> done_by;  // from when it was asked, by member

  // Everything that was submitted is answered, with the denial where there is one.
  void answer(const std::optional<Denial>& denial = {}) {
    for (auto& [id, request] : requests) {
      if (!request.completion.ended) continue;
      const Member& member = members.at(request.service);
      for (Row& row : request.rows) member.run(row.in.data(), row.out.data());
      ran.push_back(request.service + " " + std::to_string(request.rows.size()));
      std::exchange(request.completion, {}).ended(denial);
    }
  }

  std::vector<std::string> services() const override { return {}; }
  const ModelSpec* model(std::string_view name) const override {
    const auto found = members.find(name);
    return found == members.end() ? nullptr : &found->second.model;
  }
  bool known(std::string_view name) const override { return model(name) != nullptr; }
  bool ready(std::string_view name) const override { return known(name); }
  bool ready() const override { return true; }
  tl::expected<RequestId, Denial> admit(const RequestHead& head) override {
    if (deny && head.service == denies) return tl::unexpected<Denial>(*deny);
    if (head.done_by) done_by[std::string(head.service)] = *head.done_by - Loop::now_ns();
    Request request{std::string(head.service), {}, {}};
    const ModelSpec& model = members.find(head.service)->second.model;
    for (int row = 0; row < head.items; ++row)
      request.rows.push_back({std::vector<char>(bytes_of(model.inputs[0])),
                              std::vector<char>(bytes_of(model.outputs[0]))});
    requests.emplace(next_, std::move(request));
    return next_++;
  }
  void turned_away(std::string_view) override {}
  bool claim(RequestId, int) override { return true; }
  std::span<char> input(RequestId id, int item, int) override {
    return requests.at(id).rows.at(static_cast<std::size_t>(item)).in;
  }
  void submit(RequestId id, Completion completion) override {
    requests.at(id).completion = std::move(completion);
  }
  std::span<const char> output(RequestId id, int item, int) override {
    return requests.at(id).rows.at(static_cast<std::size_t>(item)).out;
  }
  void release(RequestId id) override { EXPECT_EQ(requests.erase(id), 1u); }
  ServiceStatistics statistics(std::string_view) const override { return {}; }
  std::string metrics() const override { return ""; }
  bool set_loaded(std::string_view, bool) override { return false; }
  bool loaded(std::string_view) const override { return true; }
  std::string set_canary(std::string_view, const CanaryWish&) override { return ""; }
  std::optional<CanaryView> canary(std::string_view) const override { return {}; }

 private:
  RequestId next_ = 1;
};

plan::PipelineStep step(const std::string& service, const std::string& from, const std::string& to,
                        double fan_out = 1) {
  return {service, {{"x", from}}, {{"y", to}}, fan_out};
}

class PipelinesTest : public testing::Test {
 protected:
  PipelinesTest() {
    // "find" gives as many pairs (n, n + 1) as its number says; "sum" adds the two of a pair.
    TensorSpec pairs{"y", DataType::fp32, {kOpen, 2}};
    pairs.open_bytes = 1024;
    members_.members["find"] = {
        {.name = "find",
         .platform = "null",
         .inputs = {{"x", DataType::fp32, {1}}},
         .outputs = {pairs},
         .max_batch = 4},
        [pairs](const char* in, char* out) {
          float count = 0;
          std::memcpy(&count, in, 4);
          const std::int64_t sizes[] = {static_cast<std::int64_t>(count), 2};
          const std::span<char> values = begin_item(pairs, sizes, {out, bytes_of(pairs)});
          for (int i = 0; i < 2 * static_cast<int>(count); ++i) {
            const float value = static_cast<float>(i);
            std::memcpy(values.data() + 4 * i, &value, 4);
          }
        }};
    members_.members["sum"] = {{.name = "sum",
                                .platform = "null",
                                .inputs = {{"x", DataType::fp32, {2}}},
                                .outputs = {{"y", DataType::fp32, {1}}},
                                .max_batch = 8},
                               [](const char* in, char* out) {
                                 float values[2];
                                 std::memcpy(values, in, 8);
                                 values[0] += values[1];
                                 std::memcpy(out, values, 4);
                               }};
    terms_.pipeline = {{step("find", "picture", "pairs"), step("sum", "pairs", "sums", 3)}};
    pipelines_.serve({terms_});
  }

  std::optional<RequestId> ask(float count) {
    ended_ = false;
    const auto id = pipelines_.admit({.service = "p", .items = 1});
    if (!id) {
      denial_ = id.error();
      return std::nullopt;
    }
    EXPECT_TRUE(pipelines_.claim(*id, 1));
    std::memcpy(pipelines_.input(*id, 0, 0).data(), &count, 4);
    pipelines_.submit(*id, {.ended = [this](std::optional<Denial> denial) {
      ended_ = true;
      denial_ = std::move(denial);
    }});
    return *id;
  }
  void turn() { loop_->run_until(Loop::now_ns() + 1'000'000); }
  ServiceCounters counters() const { return pipelines_.snapshots().at(0).counters; }

  std::unique_ptr<Loop> loop_ = *Loop::make();
  Members members_;
  std::string said_;
  plan::Terms terms_{.name = "p", .rate = Rps{10}, .slo = Millis{1000}};
  std::map<std::string, plan::Foreseen> foreseen_;
  std::map<std::string, long> coming_;   // rows, as a member was told last
  std::map<std::string, int> held_off_;  // rows
  MemberDoors doors_{
      .foresee =
          [this](const std::string& member, long coming, int) {
            coming_[member] = coming;
            const auto found = foreseen_.find(member);
            return found == foreseen_.end() ? std::nullopt : std::optional(found->second);
          },
      .held_off = [this](const std::string& member, int rows) { held_off_[member] += rows; }};
  Pipelines pipelines_{*loop_, members_, doors_,
                       [this](const std::string& line) { said_ += line; }};
  bool ended_ = false;
  std::optional<Denial> denial_ = {};
};

TEST_F(PipelinesTest, AsksForEachThatWasFoundAndGivesAllAsOne) {
  const ModelSpec* const model = pipelines_.model("p");
  ASSERT_NE(model, nullptr) << said_;
  EXPECT_EQ(model->inputs[0].name, "picture");
  EXPECT_EQ(model->outputs[0].name, "sums");
  EXPECT_EQ(model->outputs[0].shape, (std::vector<std::int64_t>{kOpen, 1}));
  const auto id = ask(3);
  ASSERT_TRUE(id);
  members_.answer();
  turn();
  members_.answer();
  turn();
  ASSERT_TRUE(ended_);
  EXPECT_FALSE(denial_);
  EXPECT_THAT(members_.ran, testing::ElementsAre("find 1", "sum 3"));
  const std::span<const char> out = pipelines_.output(*id, 0, 0);
  const auto sizes = sizes_in(model->outputs[0], out);
  ASSERT_TRUE(sizes);
  EXPECT_EQ(*sizes, (std::vector<std::int64_t>{3, 1}));
  float sums[3];
  std::memcpy(sums, out.data() + head_bytes(model->outputs[0]), sizeof sums);
  EXPECT_THAT(sums, testing::ElementsAre(1, 5, 9));
  EXPECT_EQ(members_.requests.size(), 1u);  // what nobody reads any more was given back
  pipelines_.release(*id);
  EXPECT_TRUE(members_.requests.empty());
  EXPECT_EQ(counters().completed, 1);
  EXPECT_EQ(counters().in_slo, 1);
}

// What an agent learns fan-outs by: requests that came so far, and what they asked for. It may plan
// for another fan-out meanwhile, and nothing is lost by that.
TEST_F(PipelinesTest, CountsWhatStepsFanOutTo) {
  EXPECT_TRUE(pipelines_.snapshots().at(0).fan_outs.empty());
  for (const double planned : {3.0, 5.5, 0.5}) {
    terms_.pipeline->steps[1].fan_out = planned;
    pipelines_.serve({terms_});
    for (const float found : {4.0F, 0.0F, 2.0F}) {
      const auto id = ask(found);
      for (int step = 0; step < 2; ++step) {
        members_.answer();
        turn();
      }
      pipelines_.release(*id);
    }
  }
  const auto id = ask(7);  // fails before it is known how many there are
  members_.answer(Denial{.kind = Denial::Kind::failed, .message = "died"});
  turn();
  pipelines_.release(*id);
  EXPECT_EQ(pipelines_.snapshots().at(0).fan_outs,
            (std::vector<actuate::FanOutCounts>{{1, 9, 18}}));
  EXPECT_EQ(counters().offered, 10);
}

TEST_F(PipelinesTest, FindsNothing) {
  const auto id = ask(0);
  members_.answer();
  turn();
  ASSERT_TRUE(ended_);
  EXPECT_FALSE(denial_);
  const auto sizes = sizes_in(pipelines_.model("p")->outputs[0], pipelines_.output(*id, 0, 0));
  EXPECT_EQ(*sizes, (std::vector<std::int64_t>{0, 1}));
  pipelines_.release(*id);
}

TEST_F(PipelinesTest, NamesTheStepThatFailsOrRefuses) {
  auto id = ask(2);
  members_.answer(Denial{.kind = Denial::Kind::failed, .message = "its worker died"});
  turn();
  ASSERT_TRUE(denial_);
  EXPECT_EQ(denial_->message, "pipeline 'p', step 'find': its worker died");
  pipelines_.release(*id);
  id = ask(2);
  members_.deny = Denial{.kind = Denial::Kind::would_be_late, .message = "too late"};
  members_.denies = "sum";
  members_.answer();
  turn();
  ASSERT_TRUE(ended_ && denial_);
  EXPECT_EQ(denial_->message, "pipeline 'p', step 'sum': too late");
  pipelines_.release(*id);
  members_.denies = "find";
  EXPECT_FALSE(ask(2));
  EXPECT_EQ(denial_->message, "pipeline 'p', step 'find': too late");
  EXPECT_TRUE(members_.requests.empty());
  EXPECT_EQ(counters().offered, 3);
  EXPECT_EQ(counters().failed, 2);
  EXPECT_EQ(counters().refused_miss, 1);
}

// A second is promised.
TEST_F(PipelinesTest, RefusesAtTheDoorWhoCannotMakeTheWholeWay) {
  constexpr Nanos ms = 1'000'000;
  foreseen_ = {{"find", {300 * ms, 20 * ms}}, {"sum", {900 * ms, 50 * ms}}};
  auto id = ask(2);
  ASSERT_TRUE(id) << denial_->message;
  EXPECT_NEAR(static_cast<double>(members_.done_by["find"]), 400.0 * ms, 30.0 * ms);
  foreseen_["sum"] = {100 * ms, 50 * ms};
  members_.answer();
  turn();
  EXPECT_NEAR(static_cast<double>(members_.done_by["sum"]), 1000.0 * ms, 60.0 * ms)
      << "the last step has all that is left";
  pipelines_.release(*id);
  EXPECT_EQ(pipelines_.asked_of("find"), 1);
  EXPECT_EQ(pipelines_.asked_of("sum"), 1);
  foreseen_["sum"] = {1200 * ms, 50 * ms};
  EXPECT_FALSE(ask(2));
  EXPECT_EQ(denial_->kind, Denial::Kind::would_be_late);
  EXPECT_THAT(denial_->message, HasSubstr("pipeline 'p' would answer 2"));
  EXPECT_NEAR(static_cast<double>(denial_->retry_after_ns), 200.0 * ms, 5.0 * ms);
  EXPECT_EQ(pipelines_.asked_of("find"), 1) << "no step has worked for it";
  EXPECT_EQ(held_off_, (std::map<std::string, int>{{"find", 1}, {"sum", 3}}));
  EXPECT_EQ(counters().refused_miss, 1);
}

// Three rows of the second step are reckoned with for each that was let in and is not there yet.
TEST_F(PipelinesTest, ReckonsWithThoseWhoAreOnTheirWay) {
  constexpr Nanos ms = 1'000'000;
  foreseen_ = {{"find", {10 * ms, 10 * ms}}, {"sum", {10 * ms, 10 * ms}}};
  const auto first = ask(2), second = ask(1), third = ask(0);
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(coming_["sum"], 6) << "as the third was let in";
  pipelines_.release(*second);  // its client went
  members_.answer();
  turn();  // the first is there, the third found nothing
  const auto fourth = ask(2);
  EXPECT_EQ(coming_["sum"], 0);
  members_.answer(Denial{.kind = Denial::Kind::failed, .message = "died"});
  turn();
  for (const auto& id : {first, third, fourth}) pipelines_.release(*id);
  ASSERT_TRUE(ask(1));
  EXPECT_EQ(coming_["sum"], 0);
}

TEST_F(PipelinesTest, GoesWithItsClient) {
  const auto id = ask(2);
  members_.answer();  // and before the loop's turn
  pipelines_.release(*id);
  turn();
  EXPECT_FALSE(ended_);
  EXPECT_TRUE(members_.requests.empty());
  EXPECT_TRUE(pipelines_.idle());
  EXPECT_EQ(counters().cancelled, 1);
}

TEST_F(PipelinesTest, SaysWhatDoesNotFit) {
  terms_.pipeline = {{step("find", "picture", "pairs"), step("sum", "pairs", "sums")}};
  pipelines_.serve({terms_});
  EXPECT_EQ(pipelines_.model("p"), nullptr);
  EXPECT_THAT(said_, HasSubstr("tensor 'pairs'"));
  terms_.pipeline = {{step("find", "picture", "pairs"), step("gone", "pairs", "sums")}};
  pipelines_.serve({terms_});
  EXPECT_FALSE(ask(1));
  EXPECT_THAT(denial_->message, HasSubstr("step 'gone'"));
}

// With workers at sockets: twice and twice again.
TEST_F(CoreTest, ServesAPipelineOfItsServices) {
  ServedService pipeline{{.name = "p", .rate = Rps{5}, .slo = Millis{1000}}};
  pipeline.pipeline = {{step("s", "in", "mid"), step("t", "mid", "out")}};
  ServedService other = service_;
  other.name = "t";
  core_->serve({service_, other, pipeline});
  auto first = worker(test::kMs);
  test::TestWorker second(*loop_, link_path(directory_), "", test::kMs, {}, false, "t");
  ASSERT_TRUE(until([&] { return core_->ready("p"); }));
  const ModelSpec* const model = core_->model("p");
  ASSERT_NE(model, nullptr) << said_;
  EXPECT_EQ(model->inputs[0].name, "in");
  const auto ask_p = [&](float value) {
    auto asked = std::make_shared<Asked>();
    asked->id = *core_->admit({.service = "p", .items = 2});
    EXPECT_TRUE(core_->claim(asked->id, 2));
    for (int row = 0; row < 2; ++row)
      std::memcpy(core_->input(asked->id, row, 0).data(), &value, sizeof value);
    core_->submit(asked->id, {.ended = [this, asked](std::optional<Denial> denial) {
                    asked->ended = true;
                    asked->denial = std::move(denial);
                    if (asked->denial) return;
                    for (int row = 0; row < 2; ++row) {
                      float& out = asked->answer.emplace_back();
                      std::memcpy(&out, core_->output(asked->id, row, 0).data(), sizeof out);
                    }
                  }});
    return asked;
  };
  const auto well = ask_p(3);
  ASSERT_TRUE(until([&] { return well->ended; }));
  ASSERT_FALSE(well->denial) << well->denial->message;
  EXPECT_THAT(well->answer, testing::ElementsAre(12, 12));
  core_->release(well->id);
  EXPECT_EQ(metric("partita_requests_in_slo_total{service=\"p\"}"), 1);
  EXPECT_EQ(metric("partita_requests_offered_total{service=\"t\"}"), 1);
  EXPECT_EQ(metric("partita_slo_seconds{service=\"p\"}"), 1);
  // The second step's only worker dies of what the first one gives.
  second.fails_of = 8;
  const auto bad = ask_p(4);
  ASSERT_TRUE(until([&] { return bad->ended; }));
  ASSERT_TRUE(bad->denial);
  EXPECT_THAT(bad->denial->message, HasSubstr("pipeline 'p', step 't': "));
  core_->release(bad->id);
  EXPECT_TRUE(core_->idle());
  EXPECT_EQ(free_slots(), slots());
}

// For itself: its steps go on for others, and the next gateway goes by it.
TEST_F(CoreTest, APipelineIsUnloadedForItself) {
  ServedService pipeline{{.name = "p", .rate = Rps{5}, .slo = Millis{1000}}};
  pipeline.pipeline = {{step("s", "in", "out")}};
  actuate::GatewayChoices kept;
  CoreOptions options{.link_path = "", .chosen = [&](const auto& told) { kept = told; }};
  open(options);
  core_->serve({service_, pipeline});
  const auto only = worker(test::kMs);
  ASSERT_TRUE(until([&] { return core_->ready("p"); }));
  EXPECT_TRUE(core_->set_loaded("p", false));
  EXPECT_FALSE(core_->loaded("p") || core_->ready("p"));
  EXPECT_TRUE(core_->ready("s"));
  const auto denied = core_->admit({.service = "p", .items = 1});
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().message, "'p' was unloaded");
  options.choices = kept;
  open(options);
  core_->serve({service_, pipeline});
  EXPECT_FALSE(core_->loaded("p"));
  EXPECT_TRUE(core_->set_loaded("p", true));
  EXPECT_TRUE(core_->loaded("p"));
  EXPECT_EQ(kept, actuate::GatewayChoices());
}

// Two services whose tensors have pages, and a pipeline through both.
class JointSteps : public CoreTest {
 protected:
  static constexpr int kValues = 20'000;  // 80,000 bytes
  static ModelSpec large() {
    ModelSpec model = test::doubler(8);
    for (auto* tensors : {&model.inputs, &model.outputs}) tensors->front().shape = {kValues};
    return model;
  }
  JointSteps() {
    service_.slo = Millis{20'000};
    pipeline_.pipeline = {{step("s", "in", "mid"), step("t", "mid", "out")}};
    other_ = service_;
    other_.name = "t";
  }
  std::unique_ptr<test::TestWorker> large_worker(const std::string& service) {
    return std::make_unique<test::TestWorker>(*loop_, link_path(directory_), "", test::kMs / 10,
                                              std::nullopt, false, service, false, large());
  }
  // Asks for `first`, first + 1, ... and gives what came of it, or why nothing did.
  std::shared_ptr<Asked> ask_large(const std::string& name, float first, int rows = 1) {
    auto asked = std::make_shared<Asked>();
    RequestHead head{.service = name, .items = rows};
    head.client = "c";
    const auto id = core_->admit(head);
    EXPECT_TRUE(id) << id.error().message;
    asked->id = *id;
    EXPECT_TRUE(core_->claim(*id, rows));
    std::vector<float> values(kValues);
    for (int row = 0; row < rows; ++row) {
      for (float& value : values) value = first++;
      std::memcpy(core_->input(*id, row, 0).data(), values.data(), 4 * kValues);
    }
    core_->submit(*id, {.ended = [this, asked, rows](std::optional<Denial> denial) {
      asked->ended = true;
      asked->denial = std::move(denial);
      for (int row = 0; !asked->denial && row < rows; ++row) {
        asked->answer.resize(static_cast<std::size_t>(row + 1) * kValues);
        std::memcpy(&asked->answer[static_cast<std::size_t>(row) * kValues],
                    core_->output(asked->id, row, 0).data(), 4 * kValues);
      }
      core_->release(asked->id);
    }});
    return asked;
  }
  void expect_times(const Asked& asked, float first, float times) {
    ASSERT_FALSE(asked.denial) << asked.denial->message;
    for (const float value : asked.answer) {
      if (value == times * first++) continue;
      ADD_FAILURE() << value << " at " << first - 1;
      return;
    }
  }
  double rows(const std::string& how) {
    return metric("partita_step_tensors_" + how + "_total{service=\"p\"}");
  }
  bool all_free() {
    return metric("partita_slots_free{service=\"s\"}") == slots() &&
           metric("partita_slots_free{service=\"t\"}") == metric("partita_slots{service=\"t\"}");
  }
  ServedService pipeline_{{.name = "p", .rate = Rps{5}, .slo = Millis{20'000}}}, other_;
};

TEST_F(JointSteps, NothingIsCopiedOnTheWay) {
  core_->serve({service_, other_, pipeline_});
  auto first = large_worker("s"), second = large_worker("t");
  ASSERT_TRUE(until([&] { return core_->ready("p"); }));
  ASSERT_NE(core_->model("p"), nullptr) << said_;
  float value = 1;
  for (int round = 0; round < 30; ++round) {
    // With clients of the steps' own beside, who have slots of their own.
    std::vector<std::shared_ptr<Asked>> ways;
    std::vector<std::shared_ptr<Asked>> alone;
    for (int i = 0; i < 3; ++i) {
      ways.push_back(ask_large("p", value + 1000 * static_cast<float>(i), i + 1));
      alone.push_back(ask_large(i % 2 == 0 ? "s" : "t", value + 7));
    }
    for (const auto* all : {&ways, &alone})
      for (const auto& one : *all) ASSERT_TRUE(until([&] { return one->ended; }));
    for (int i = 0; i < 3; ++i) {
      expect_times(*ways[static_cast<std::size_t>(i)], value + 1000 * static_cast<float>(i), 4);
      expect_times(*alone[static_cast<std::size_t>(i)], value + 7, 2);
    }
    value += 3;
  }
  EXPECT_EQ(first->joined, 1);
  EXPECT_EQ(second->joined, 1);
  EXPECT_EQ(rows("in_common"), 30 * (1 + 2 + 3));
  EXPECT_EQ(rows("copied"), 0);
  EXPECT_TRUE(all_free());
  // A worker that comes later has them, too; without the pipeline nobody has.
  auto third = large_worker("t");
  ASSERT_TRUE(until([&] { return third->joined == 1; }));
  core_->serve({service_, other_});
  ASSERT_TRUE(until([&] { return first->joined + second->joined + third->joined == 0; }));
  for (int i = 0; i < 40; ++i) {
    const auto asked = ask_large(i % 2 == 0 ? "s" : "t", value, 2);
    ASSERT_TRUE(until([&] { return asked->ended; }));
    expect_times(*asked, value++, 2);
  }
  EXPECT_TRUE(core_->idle());
  EXPECT_TRUE(all_free());
}

// Where lanes are short the rest is copied, whatever workers do in between.
TEST_F(JointSteps, WhatHasNoLaneIsCopied) {
  CoreOptions options = patient();
  options.memory_bytes = 16 * slot_layout(large()).bytes;  // two lanes
  options.hang_after = 50 * test::kMs;
  service_.slo = other_.slo = Millis{1};
  pipeline_.slo = Millis{20'000};
  options.shed = false;
  open(options);
  core_->serve({service_, other_, pipeline_});
  auto first = large_worker("s"), second = large_worker("t");
  ASSERT_TRUE(until([&] { return core_->ready("p"); }));
  ASSERT_NE(core_->model("p"), nullptr) << said_;
  const auto four = ask_large("p", 5, 4);
  ASSERT_TRUE(until([&] { return four->ended; }));
  expect_times(*four, 5, 4);
  EXPECT_EQ(rows("in_common"), 2);
  EXPECT_EQ(rows("copied"), 2);
  // Of three workers of the first step that which has the next hangs: its row moves on.
  auto again = large_worker("s"), third = large_worker("s");
  ASSERT_TRUE(until([&] { return core_->service_views().at(1).ready_workers == 3; }));
  const std::vector<test::TestWorker*> all{first.get(), again.get(), third.get()};
  std::map<const test::TestWorker*, int> had;
  for (test::TestWorker* one : all) one->hold = true, had[one] = one->batches;
  const auto moved = ask_large("p", 9);
  const auto has = [&](const test::TestWorker* one) { return one->batches > had[one]; };
  ASSERT_TRUE(until([&] { return std::ranges::any_of(all, has); }));
  test::TestWorker& hangs = **std::ranges::find_if(all, has);
  for (test::TestWorker* one : all) one->hold = one == &hangs;
  ASSERT_TRUE(until([&] { return moved->ended; }));
  expect_times(*moved, 9, 4);
  EXPECT_EQ(rows("copied"), 3);
  // And writes to the slot that it had, while others use theirs.
  const auto beside = ask_large("p", 11);
  hangs.hold = false;
  hangs.let_go();
  ASSERT_TRUE(until([&] { return beside->ended; }));
  expect_times(*beside, 11, 4);
  ASSERT_TRUE(until([&] { return all_free(); }));
}

}  // namespace
}  // namespace partita::serve
