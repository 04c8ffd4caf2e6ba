// An agent for tests and the fuzzer of the API: a small node, answers at once or when the test
// says, a history in memory. Any thread.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "act/lease/lease_forms.h"
#include "api/backend.h"
#include "api/documents.h"
#include "fleet/brain/documents.h"
#include "fleet/brain/leader.h"
#include "fleet/brain/status.h"

namespace partita::api::test {

inline control::ChangeNow fake_change(long number) {
  control::ChangeNow change;
  change.number = number;
  change.state = control::ChangeState::proposed;
  change.cause = "rate of bert rose from 10 to 20 req/s";
  change.planned_ms = 1'700'000'000'000;
  change.plan.gpu_model = "A100-80GB";
  change.plan.planner = "exact";
  change.explanation = {"bert needs 1g.10gb"};
  return change;
}

inline control::Snapshot fake_snapshot(int services = 2) {
  control::Snapshot is;
  is.version = 7;
  is.time_ms = 1'700'000'000'000;
  is.node = "node1";
  is.doing = "nothing to do";
  is.converged = true;
  is.state.gpus.emplace_back().uuid = "GPU-1";  // of a model that is not known
  is.plan = fake_change(1).plan;
  is.current = fake_change(3);
  is.gpus.push_back({.index = 0, .uuid = "GPU-1", .model = "A100-80GB", .out = false});
  is.gpus.back().sample.emplace();
  is.gpus.back().sample->uuid = "GPU-1";
  is.gpus.back().sample->model = "A100-80GB";
  is.gpus.back().sample->power = Watts{250};
  for (int i = 0; i < services; ++i) {
    control::ServiceNow one;
    one.name = "service \"" + std::to_string(i) + "\\";
    one.model = "bert";
    one.slo = Millis{50};
    one.rate = Rps{20};
    one.planned_rps = one.is.can_carry_rps = 20;
    one.is.service = one.name;
    one.is.verdict = control::Standing::serves;
    one.rate_rps = 10.5;
    one.attainment = 0.999;
    is.services.push_back(one);
  }
  is.restarts = 4;
  return is;
}

// Numbers 4 (one task runs, one waits) and 3 (cancelled).
inline std::vector<control::BatchInfo> fake_batches() {
  std::vector<control::BatchInfo> all(2);
  all[0] = {.number = 4, .state = control::BatchState::running, .user = "ops"};
  all[0].received_ms = all[1].received_ms = 1'700'000'000'000;
  all[0].ends_ms = 1'700'000'600'000;
  all[0].waiting = all[0].running = 1;
  all[0].gpus = {"GPU-1"};
  all[0].tasks = {{{}, 4, "train", control::BatchTaskState::running}, {{}, 4, "eval"}};
  all[1].number = 3;
  all[1].state = control::BatchState::cancelled;
  all[1].user = all[1].cancelled_by = "somebody \"else\"";
  all[1].ended_ms = 1'700'000'100'000;
  all[1].cancelled = 1;
  all[1].tasks = {{{}, 3, "tune", control::BatchTaskState::cancelled}};
  all[1].tasks[0].reason = "why";
  return all;
}

inline lease::LeaseDocument fake_lease(const std::string& owner) {
  lease::Lease one;
  one.owner = owner;
  one.uuid = "MIG-1";
  one.gpu_uuid = "GPU-1";
  one.profile = "1g.10gb";
  return lease::document_of(one, "");
}

// A body of queue_submit.
inline constexpr const char* kSubmission =
    R"({"api_version": "partita/v1", "kind": "QueueSubmission", "command": "true"})";

class FakeAgent final : public Backend {
 public:
  std::shared_ptr<const control::Snapshot> snapshot() override {
    const std::lock_guard lock(mutex_);
    return snapshot_;
  }
  std::string services() override { return "services: []\n"; }
  std::shared_ptr<const std::vector<control::BatchInfo>> batches() override {
    const std::lock_guard lock(mutex_);
    return std::make_shared<const std::vector<control::BatchInfo>>(batches_);
  }
  void ask(control::Asked asked, std::function<void(control::Reply)> answer) override {
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(asked);
      if (!at_once) {
        waiting_.push_back(std::move(answer));
        return;
      }
    }
    answer(reply_to(asked));
  }
  void preview(std::string text, std::function<void(Result<control::ChangeNow>)> answer) override {
    if (text.find("services") == std::string::npos)
      return answer(bad_input("services:1", "a list of services is wanted"));
    answer(fake_change(0));
  }
  void lease(LeaseCall call, std::function<void(Result<std::string>)> answer) override {
    if (call.wanted.empty())
      return answer(lease::leases_json({.leases = {}, .returned = {call.owner}}));
    const auto wanted = lease::parse_wanted("body", call.wanted);
    if (!wanted) return answer(failed(wanted.error()));
    if (wanted->profile == "7g.80gb")
      return answer(failed({ErrorCode::no_room, "node: no room for 7g.80gb", "owner"}));
    answer(lease::lease_json(fake_lease(wanted->owner)));
  }
  Result<std::string> leases() override {
    return lease::leases_json({.leases = {fake_lease("slurm:42")}, .returned = {}});
  }
  void queue(queue::Call call, std::function<void(Result<std::string>)> answer) override {
    if (call.task == 9) return answer(failed({ErrorCode::not_found, "there is no task 9", ""}));
    if (call.name == "queue_log") return answer("hello\n");
    if (call.name == "queue_submit") {
      const auto spec = queue::parse_submission("body", call.body);
      if (!spec) return answer(failed(spec.error()));
    }
    queue::Shown one;
    one.task = {.id = 3, .spec = {.name = call.name, .command = "true", .user = call.user}};
    if (call.name == "queue_submit" || call.name == "queue_tasks")
      return answer(queue::tasks_json({{one}}));
    answer(queue::task_json(one, {}));
  }
  void fleet(FleetCall call, std::function<void(Result<std::string>)> answer) override {
    const std::string& name = call.name;
    if (name == "fleet_explain") return answer(call.of + " carries chat\n");
    if (name == "fleet_apply" || name == "fleet_approve" || name == "fleet_drain")
      return answer(receipt_json({0, fmt::format("{} {}{}{} {} by {}", name, call.of, call.survive,
                                                 call.mode, call.back, call.user)}));
    fleet::FleetView view;
    view.history["1"] = {1, 2, "n1", "n1 leads"};
    if (name == "fleet") return answer(fleet::status_json(*fleet::status_of(view, "f")));
    if (name == "fleet_history") return answer(fleet::history_json(view));
    answer(fleet::decision_json({.parts = {}, .digest = "d1"}));
  }
  std::string fleet_metrics() override { return {}; }
  void watch(std::function<void()> changed) override { changed_ = std::move(changed); }
  Result<std::vector<history::Event>> events(const history::EventQuery& query) override {
    const std::lock_guard lock(mutex_);
    std::vector<history::Event> found;
    for (auto event = events_.rbegin(); event != events_.rend(); ++event) {
      const bool fits = (!query.before || event->id < *query.before) &&
                        (!query.after || event->id > *query.after) &&
                        (!query.change || event->change == *query.change) &&
                        (query.kinds.empty() || query.kinds[0] == event->kind);
      if (fits && static_cast<int>(found.size()) < query.most) found.push_back(*event);
    }
    return found;
  }
  Result<std::vector<history::Bucket>> series(const history::SeriesQuery& query) override {
    return std::vector<history::Bucket>{{query.from_ms, 1000, 2, 1.5, 1, 2}};
  }
  Result<std::vector<history::Measured>> latest() override {
    return std::vector<history::Measured>{{1'700'000'000'000, "watts", "", 250}};
  }
  void keep(history::Event event) override {
    const std::lock_guard lock(mutex_);
    event.id = static_cast<long>(events_.size()) + 1;
    events_.push_back(std::move(event));
  }

  // What the tests do and see.
  void set(control::Snapshot next) {
    {
      const std::lock_guard lock(mutex_);
      snapshot_ = std::make_shared<const control::Snapshot>(std::move(next));
    }
    if (changed_) changed_();
  }
  std::vector<control::Asked> asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  std::vector<history::Event> kept() {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  std::vector<std::function<void(control::Reply)>> take_waiting() {
    const std::lock_guard lock(mutex_);
    return std::exchange(waiting_, {});
  }
  bool at_once = true;  // set before the server starts

 private:
  static control::Reply reply_to(const control::Asked& asked) {
    if (const auto* approve = std::get_if<control::Approve>(&asked.request))
      if (approve->change != 3)
        return failed({ErrorCode::not_found, "no such change waits for a person", ""});
    if (const auto* wanted = std::get_if<control::SetServices>(&asked.request))
      if (wanted->text.find("services") == std::string::npos)
        return bad_input("services:1", "a list of services is wanted");
    if (const auto* sent = std::get_if<control::SetPlan>(&asked.request))
      if (sent->text.find("ServingPlan") == std::string::npos)
        return bad_input("plan:1", "a ServingPlan is wanted");
    return control::Receipt{.change = 3, .sentence = "planned at the next look"};
  }
  std::mutex mutex_;
  std::shared_ptr<const control::Snapshot> snapshot_ =
      std::make_shared<const control::Snapshot>(fake_snapshot());
  std::vector<control::BatchInfo> batches_ = fake_batches();
  std::vector<control::Asked> asked_;
  std::vector<std::function<void(control::Reply)>> waiting_;
  std::vector<history::Event> events_ = {{.id = 1,
                                          .time_ms = 1'600'000'000'000,
                                          .kind = history::EventKind::proposed,
                                          .change = 1,
                                          .user = "agent",
                                          .cause = "the node is new",
                                          .documents = {{"plan", "{\"kind\": \"ServingPlan\"}"}}},
                                         {.id = 2,
                                          .time_ms = 1'600'000'100'000,
                                          .kind = history::EventKind::applied,
                                          .change = 1,
                                          .user = "agent",
                                          .outcome = history::Outcome::succeeded,
                                          .detail = "3 steps"}};
  std::function<void()> changed_;
};

}  // namespace partita::api::test
