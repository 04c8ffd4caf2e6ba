// FleetAgent: a node of a fleet at its store. Each turn it keeps its lease alive, hears what has
// changed, registers how its node is, stands for election, decides where it leads, and says which
// part the node may take. It has no clock and no thread; calls of the store are all that may wait.
// Who leads follows all that the store has; others what concerns them: what is wanted, power, their
// own keys, where services are for gateways, rates of the leader, who may be lost; nodes and parts
// of others while they wait for them.
// Whatever fails, the node goes on with what it took; the next turn begins anew.
//
// Two agents of one node's name: the first has it, the other registers nothing and takes nothing.
// Fencing: parts are written in transactions that name the leader's election and what the part was;
// who was leader once writes nothing. A node takes only parts newer than what it took.
// Single-threaded; the store outlives it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fleet/brain/leader.h"
#include "fleet/brain/part_services.h"
#include "fleet/brain/view.h"
#include "fleet/etcd/store.h"

namespace partita::fleet {

inline constexpr int kLeaseSeconds = 10;
// A node that was there and is not is lost when this leader has missed it for so long: after an
// outage of the store all come back within that.
inline constexpr std::int64_t kMissedMs = 2000;
// Who balances requests over nodes hears of a part that carries less before the node does less.
inline constexpr std::int64_t kHandOverMs = 2000;
inline constexpr std::int64_t kReadAnewMs = 300'000;  // all that is followed, whatever watches say
inline constexpr std::int64_t kFollowMs = 60'000;     // more than concerns it, since it was needed
inline constexpr std::int64_t kCompactMs = 300'000;   // so much of the store's past is kept
inline constexpr std::int64_t kDecideMs = 10'000;    // where what is wanted cannot be planned
inline constexpr std::int64_t kRatesMs = 5000;       // between rates
// Who has had a part for so long and has not carried it out is not counted on: two minutes more
// than draining, making instances and loading a model take.
inline constexpr std::int64_t kOverdueMs = 300'000;
// Of a node whose GPUs nobody has seen for so long the lease ends; a change may keep them longer.
inline constexpr std::int64_t kUnseenMs = 30'000, kUnseenInChangeMs = 300'000;
// What arrived at a lost node counts for so long: then those that carry its services have measured.
inline constexpr std::int64_t kLostRatesMs = 300'000;
inline constexpr std::size_t kMostHistory = 500;     // events
// Who lacks profiles of some GPU of the fleet leaves the election to others for so long, and leads
// for so long where nobody came.
inline constexpr std::int64_t kStandBackMs = 2000, kLeadsOnMs = 300'000;

struct FleetAgentSettings {
  std::string fleet = "default";
  std::string node;
  bool leads = true;  // stands for election
};

// How the node is, by its own agent; `taken` and `ready` in the record say how far it is.
struct NodeNow {
  NodeRecord record;
  bool busy = false;  // it carries something out, and can take nothing yet
  Rates rates = {};   // what arrives at its gateway
  Rates uncarried = {};  // the same, of services that nobody carries
  std::vector<AgentsVerdict> verdicts = {};
  std::optional<double> gpu_draw_w = {};  // what its GPUs draw; missing: not known
  std::optional<HeldBudget> budget = {};  // that it was told last
  std::optional<std::int64_t> seen_ms = {};  // when its GPUs were looked at last; missing: now
};

struct Turn {
  std::optional<Part> take;  // the node is to be so now; say taken = its revision from then on
  std::optional<HeldBudget> budget;  // of the node from now on, to be kept; none: it has none
  std::int64_t heard_ms = 0;         // when the store answered last, as `now_ms`
  std::string waits;                 // why its newest part is not taken yet
  std::vector<std::string> said;
  bool nameless = false;         // another agent is registered by this node's name; `waits` says so
  bool unseen = false;           // its GPUs have not been looked at for so long that its lease ends
  std::optional<Error> trouble;  // of the store, or that
};

// Those of the history that are to go, since there are more than kMostHistory; some at a time.
std::vector<Change> oldest_events(const FleetView& view, const Keys& keys);

// A store keeps all that ever was until somebody says what may go.
class StoresPast {
 public:
  // Compacts to where the store was kCompactMs ago. Why that failed, where it is not said yet.
  std::string forget(Store& store, std::int64_t now_ms, long revision);

 private:
  long known_ = 0;  // the revision, so long ago; 0: not known
  std::int64_t known_ms_ = 0;
  std::string said_;
};

// What was heard and is not in the view yet: most of it is never looked at.
class LateTexts {
 public:
  void keep(const std::string& key, std::string value, long version) {
    texts_[key] = {std::move(value), version};
  }
  void drop(const std::string& key) { texts_.erase(key); }
  // Those whose keys begin so go into the view.
  void read(FleetView& view, const Keys& keys, std::string_view prefix = {});

 private:
  struct Text {
    std::string value;
    long version = 0;
  };
  std::map<std::string, Text, std::less<>> texts_;
};

// What arrived at nodes that are lost: in the view for kLostRatesMs.
class LostRates {
 public:
  // A node's rates are gone with its lease, or are there again.
  void heard(FleetView& view, const std::string& node, bool gone, std::int64_t now_ms);
  // Whether some were forgotten.
  bool forget(FleetView& view, std::int64_t now_ms);

 private:
  std::map<std::string, std::int64_t> since_ms_ = {};
};

// Who leads first: those that have profiles of all GPU models of the fleet.
class Candidacy {
 public:
  explicit Candidacy(const FleetGround& ground);
  // GPU models that it has profiles of, sorted.
  const std::vector<std::string>& plans() const { return plans_; }
  // Of the fleet, as whoever leads said last.
  void heard(const std::optional<LeaderRecord>& leader);
  // Whether it stands for election where nobody leads, or waits for better ones.
  bool stands(bool vacant, std::int64_t now_ms);
  // A node that it gives way to, which leads; empty: nobody is better, or nobody came before.
  std::string better(const FleetView& view, const std::string& self, std::int64_t now_ms) const;

 private:
  std::vector<std::string> plans_, gpus_ = {};
  std::optional<std::int64_t> vacant_ms_ = {};
  std::int64_t leads_on_ms_ = 0;
};

class FleetAgent {
 public:
  FleetAgent(FleetAgentSettings settings, Store& store, FleetGround ground);

  // `now_ms`: never goes back; `wall_ms` is only written down.
  Turn turn(std::int64_t now_ms, std::int64_t wall_ms, const NodeNow& node);
  // All is in the view after the next turn, and for a minute.
  void follow_all() { wants_all_ = true; }
  // It will take no more turns. A node that carries nothing, and shall carry nothing, ends its
  // lease, so that others know at once. Any other one lets it run out: its GPUs serve on, and an
  // agent that is back before that goes on as if it had never been away. Who leads stops leading.
  void leave();

  bool leads() const { return fence_ != 0; }
  // Where all is followed, all of the store.
  const FleetView& view() {
    late_.read(view_, keys_);
    return view_;
  }
  // The same without what is read late: nodes, parts and rates of others, and the history.
  const FleetView& own_view() const { return view_; }
  // Grows when something of the view is other than before, but for rates and the history.
  long changes() const { return changes_; }
  const std::optional<Decision>& decision() const { return decision_; }
  // What is wanted, as it was read last.
  ServicesRead& services() { return leader_.services(); }

 private:
  Result<void> stay();
  Result<void> hear(long taken);
  // Which places it follows: all, or what concerns it.
  struct Follows {
    bool all = false, others = false;  // nodes and parts of others
    std::string rates_of = {};         // a node
    bool operator==(const Follows&) const = default;
  };
  Follows follows(long taken);
  Places places(const Follows& follows) const;
  Result<void> read_anew(Follows follows);
  void hear_of(const std::string& key, std::optional<std::string> value, long version);
  // Not registered afterwards: another agent has the name, or was faster.
  Result<void> register_node(const NodeNow& node);
  Result<void> stand();
  Result<void> give_way();
  Result<void> lead();
  Result<void> divide_power();
  bool missed_long_enough();
  Result<void> look_for_overdue();
  Result<void> write_parts(const std::vector<Part>& parts);
  Result<void> write_all(std::vector<Condition> conditions, std::vector<Change> changes);
  Result<void> propose(const Decision& decision, std::size_t written);
  Result<void> record(const std::string& what, long revision, const char* beside = "");
  Result<bool> commit_as_leader(Transaction transaction);
  void lose(const Error& error);
  bool may_go(const Part& part, const NodeRecord& is);

  const FleetAgentSettings settings_;
  const Keys keys_;
  Store& store_;
  Leader leader_;
  PowerBrain power_;
  FleetView view_;
  std::unique_ptr<Watch> watch_;
  Follows followed_;  // by the watch
  bool wants_all_ = false;
  std::string led_ = {};  // who leads, or did so last
  std::optional<Decision> decision_;
  Turn turn_;
  std::int64_t now_ms_ = 0, wall_ms_ = 0, kept_ms_ = 0, read_ms_ = 0, decided_ms_ = 0,
               rated_ms_ = 0, all_until_ms_ = 0, others_until_ms_ = 0, told_ms_ = -kRatesMs;
  long revision_ = 0;  // of the store, as heard
  StoresPast past_;
  Candidacy candidacy_;
  std::vector<std::string> noted_ = {};  // of what is wanted and cannot be, in the history
  long lease_ = 0, fence_ = 0;
  std::optional<NodeRecord> registered_;  // as it was written last
  struct Known {
    long version = 0;
    std::uint64_t hash = 0;  // a store that has lost everything counts from anew
    std::uint64_t stamp = 0;
    bool is(long now, std::uint64_t text) const { return version == now && hash == text; }
  };
  // Keys that are in the view, in their order, as they were read.
  std::vector<std::pair<std::string, Known>> known_;
  LateTexts late_;
  Rates rated_, uncarried_;
  std::vector<AgentsVerdict> judged_;  // as written, beside the rates
  bool changed_ = true, power_changed_ = true, peers_changed_ = true;
  long changes_ = 0;
  std::string no_power_;                        // why it is not divided, as it was said last
  std::optional<double> drawn_;                 // as written, beside the rates
  std::map<std::string, std::int64_t> missed_;  // nodes with a part, since when
  struct Pending {
    long ready = 0;  // what the node had carried out when this began
    std::int64_t since_ms = 0;
  };
  std::map<std::string, Pending> pending_;  // nodes whose part is not carried out
  LostRates lost_rates_;
  bool carries_ = false;  // the node did, at its last turn
  long events_ = 0;
  long going_ = 0;  // revision of a part that carries less, and since when it may be taken
  std::int64_t going_ms_ = 0;
};

}  // namespace partita::fleet
