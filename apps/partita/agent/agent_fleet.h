// AgentFleet: a live agent as a node of a fleet. A thread of its own speaks with the store, so that
// a store that does not answer keeps the node waiting for nothing; between it and the agent lie
// values. A part reaches the loop as services and plan that somebody sent; it is on disk, in the
// state directory, when the fleet is told that it was taken.
// Thread rule: everything that is public is called on the agent's thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "act/gateway_peers.h"
#include "api/backend.h"
#include "context.h"
#include "control/host/agent.h"
#include "control/host/agent_file.h"
#include "fleet/brain/part_services.h"
#include "fleet/brain/status.h"
#include "fleet/etcd/etcd_store.h"
#include "fleet/etcd/fleet_agent.h"

namespace partita::cli {

class AgentFleet {
 public:
  struct Wishes {
    control::AgentFleet fleet;
    control::World world;
    std::string state_dir;
    std::string boot;  // of the node; empty: unknown
    std::function<std::int64_t()> wall_ms;
    std::function<void()> wake;  // the agent has something to ask
    std::function<void(const std::string&)> say;
  };
  // Refused: settings that cannot be, a part on disk that cannot be read.
  static Result<std::unique_ptr<AgentFleet>> start(Context& context, Wishes wishes);
  ~AgentFleet();

  std::vector<control::Inquiry> take_inquiries();
  // Answers an operation of the API after the next turn; any thread.
  using Call = api::Backend::FleetCall;
  void tell_of(Call call, std::function<void(Result<std::string>)> answer);
  // What its GPUs may draw together now; nothing: it has no budget.
  std::optional<double> budget_w();
  // Of /metrics, what the fleet is like; any thread.
  std::string metrics();
  // What is the matter with the fleet, a sentence: its store is not heard, another agent has this
  // node's name. Empty: nothing. Any thread.
  std::string fault();
  // How the node is after a step of its loop.
  void hear(const control::Loop& loop);
  // The agent has looked, or waits in a change and could: what was heard last is still so.
  void looked();

 private:
  AgentFleet(Context& context, Wishes wishes, std::unique_ptr<fleet::EtcdStore> store);
  void run();
  fleet::FleetGround ground() const;
  void tell(const std::string& sentence);  // with lock_ held
  struct Question {
    Call call;
    std::function<void(Result<std::string>)> answer;
  };
  std::size_t answer(const std::vector<Question>& asked, fleet::FleetAgent& agent,
                     const fleet::Turn& turn);
  Result<std::string> document(const Call& call, fleet::FleetAgent& agent, const fleet::Turn& turn);
  Result<std::string> changed(const Call& call) const;
  void handed(const fleet::Part& part, const control::Reply& reply);
  void hand_over_again(const control::AgentMemory& memory);  // with lock_ held
  void take_budget(const fleet::Turn& turn);          // with lock_ held
  void tell_of_fault(const fleet::Turn& turn);        // the same
  void show(fleet::FleetAgent& agent, bool follows_all);
  std::string carry(const fleet::Rates& planned, bool done, const control::Snapshot& now);
  void tell_of_budget(const control::Snapshot& now);  // the same
  void tell_of_part(fleet::NodeRecord& record, const control::Loop& loop);
  std::string budget_path() const { return wishes_.state_dir + "/fleet-budget.json"; }
  void tell_gateway(fleet::FleetAgent& agent);
  std::string part_path() const { return wishes_.state_dir + "/fleet-part.json"; }

  Context& context_;
  const Wishes wishes_;
  const std::unique_ptr<fleet::EtcdStore> store_;
  const std::int64_t begun_;
  std::int64_t heard_ns_;            // the store, last
  const std::string self_;           // of this state directory, on this machine
  bool is_all_ = false;              // it carries all that is planned
  std::optional<fleet::Part> part_;  // taken; agent's thread alone
  std::string refused_;              // why the loop did not take its services
  std::int64_t again_ns_ = 0;        // not before then are they handed over again
  fleet::Rates carries_;
  struct Lack {  // of workers
    std::int64_t since_ns = 0, last_ns = 0, until_ns = 0;
    bool lost = false;  // for so long that it is not carried
  };
  std::map<std::string, Lack> lacks_;  // by service
  std::string fault_;  // of the store, and when it was heard last; its thread alone
  std::int64_t known_ms_ = 0;
  long told_changes_ = -1;  // of the fleet, as the gateway was told of it; its thread alone
  actuate::GatewayPeers told_peers_;
  long ready_ = 0;
  std::mutex lock_;
  std::condition_variable wake_;
  fleet::NodeNow now_;  // of the next turn
  std::int64_t looked_ms_ = 0;
  bool heard_ = false, ending_ = false;
  std::int64_t scraped_ns_ = -1'000'000'000'000;
  std::shared_ptr<const fleet::FleetStatus> shown_;  // by metrics; null: it does not follow all
  std::string told_fault_, silent_;                  // silent_: while the store is not heard
  std::int64_t show_next_ = 0;                       // its thread alone
  bool small_ = true;  // so few nodes that all may follow all; the same
  std::optional<fleet::Part> to_hand_;
  bool handing_ = false;
  long holds_ = 0;                           // revision of budgets
  std::optional<fleet::HeldBudget> budget_;  // as it is on disk
  std::int64_t spoken_ms_ = -1'000'000'000;  // when the store answered last; before: never
  std::vector<std::string> said_;            // by its thread
  std::vector<Question> asked_;
  std::thread thread_;
};

}  // namespace partita::cli
