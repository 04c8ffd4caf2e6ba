// AgentDesk: what lies between the agent's thread and those of its API: the newest snapshot, what
// is asked, what was wanted last. Thread-safe. The agent takes questions from it, the API's server
// sees it as its backend.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/backend.h"
#include "control/host/agent.h"

namespace partita::api {

class AgentDesk final : public Backend {
 public:
  // `history`: the store's file. `wake` ends the agent's wait, from any thread. `wall_ms` is the
  // clock of looked(); without it what was published never grows old.
  AgentDesk(
      std::string history, std::function<void()> wake,
      std::function<std::int64_t()> wall_ms = [] { return std::int64_t{0}; })
      : history_(std::move(history)), wake_(std::move(wake)), wall_ms_(std::move(wall_ms)) {}

  // Who lends instances (AgentLeases), to be set before the server runs; else nobody does.
  struct Lender {
    std::function<Result<std::string>(const LeaseCall&, const control::Agent&)> answer = {};
    std::function<Result<std::string>(const device::NodeState&)> list = {};
  };
  void set_lender(Lender lender) { lender_ = std::move(lender); }

  // The queue that the agent hosts, to be set before the server runs; else there is none.
  using QueueDoor = std::function<void(queue::Call, std::function<void(Result<std::string>)>)>;
  void set_queue(QueueDoor queue) { queue_ = std::move(queue); }
  // The fleet that the node is one of, to be set before the server runs; else there is none.
  using FleetDoor = std::function<void(FleetCall, std::function<void(Result<std::string>)>)>;
  void set_fleet(FleetDoor fleet) { fleet_ = std::move(fleet); }
  // The same of its metrics.
  void set_fleet_metrics(std::function<std::string()> metrics) {
    fleet_metrics_ = std::move(metrics);
  }
  // Runs it on the agent's thread while the agent makes no change. Any thread.
  void when_idle(std::function<void(control::Agent&)> errand);

  // ---- the agent's side
  std::vector<control::Inquiry> take_inquiries();
  std::vector<std::function<void(control::Agent&)>> take_errands();
  std::vector<history::Event> take_events();
  void publish(const control::Loop& loop);
  // The agent has looked: what it published is still so.
  void looked(std::int64_t now_ms);

  // ---- the API's side
  std::shared_ptr<const control::Snapshot> snapshot() override;
  std::string services() override;
  std::shared_ptr<const std::vector<control::BatchInfo>> batches() override;
  void ask(control::Asked asked, std::function<void(control::Reply)> answer) override;
  void preview(std::string services_text,
               std::function<void(Result<control::ChangeNow>)> answer) override;
  void lease(LeaseCall call, std::function<void(Result<std::string>)> answer) override;
  Result<std::string> leases() override;
  void queue(queue::Call call, std::function<void(Result<std::string>)> answer) override;
  void fleet(FleetCall call, std::function<void(Result<std::string>)> answer) override;
  std::string fleet_metrics() override { return fleet_metrics_ ? fleet_metrics_() : ""; }
  void watch(std::function<void()> changed) override;
  Result<std::vector<history::Event>> events(const history::EventQuery& query) override;
  Result<std::vector<history::Bucket>> series(const history::SeriesQuery& query) override;
  Result<std::vector<history::Measured>> latest() override;
  void keep(history::Event event) override;

 private:
  template <class Ask>
  auto with_store(Ask ask) -> decltype(ask(std::declval<history::Store&>()));

  const std::string history_;
  const std::function<void()> wake_;
  const std::function<std::int64_t()> wall_ms_;
  Lender lender_;
  QueueDoor queue_;
  FleetDoor fleet_;
  std::function<std::string()> fleet_metrics_;
  std::mutex lock_;
  std::shared_ptr<const control::Snapshot> snapshot_ = std::make_shared<control::Snapshot>();
  std::int64_t looked_ms_ = 0;
  std::string services_;
  std::shared_ptr<const std::vector<control::BatchInfo>> batches_ =
      std::make_shared<std::vector<control::BatchInfo>>();
  std::vector<control::Inquiry> inquiries_;
  std::vector<std::function<void(control::Agent&)>> errands_;
  std::vector<history::Event> events_;
  std::function<void()> changed_;
  std::mutex store_lock_;
  std::optional<history::Store> store_;  // for reading; opened when it is first asked
};

}  // namespace partita::api
