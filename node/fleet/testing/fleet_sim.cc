#include "fleet/testing/fleet_sim.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "base/check.h"
#include "base/rng.h"
#include "fleet/brain/documents.h"
#include "fleet/brain/leader.h"
#include "fleet/brain/part_services.h"
#include "fleet/brain/peers.h"
#include "fleet/brain/status.h"
#include "fleet/brain/testing/invented_fleet.h"
#include "fleet/etcd/fleet_agent.h"
#include "fleet/etcd/testing/memory_store.h"
#include "fleet/testing/fault_store.h"
#include "fleet/testing/sim_batches.h"
#include "fleet/testing/sim_clients.h"
#include "fleet/testing/sim_places.h"
#include "verify/judge.h"
#include "verify/pool_memo.h"

namespace partita::fleet {
namespace {

constexpr std::int64_t kTickMs = 250;
constexpr std::int64_t kTurnMs = 1000;  // between turns of a node's agent
constexpr std::int64_t kHourMs = 3'600'000;
constexpr std::int64_t kCalmMs = 600'000;  // at the end of each hour
// A part that was decided so shortly before the end of a calm spell may be under way then: the
// spell goes on for so long.
constexpr std::int64_t kUnderWayMs = kRecoveryMs;
constexpr std::int64_t kFaultEveryMs = 90'000;
constexpr std::int64_t kStartMs = 1'767'571'200'000;
constexpr double kLostCalls = 0.003;
constexpr std::int64_t kSaidMs = 15'000;  // what was asked for in vain, so long after
constexpr std::size_t kMostWrong = 20;
constexpr std::size_t kAnswersKept = 65'536;
const std::string kLentInTheWay = "what is lent is in the way: ";  // of a part

// What of a node outlives its agent, and the agent.
struct SimNode {
  NodeRecord record;  // as it is; `taken` is what the agent wrote to its disk
  std::unique_ptr<FaultStore> way;
  std::unique_ptr<FleetAgent> agent;  // null: it does not run
  bool alive = true, cut = false;
  std::int64_t next_turn_ms = 0, agent_back_ms = 0, back_ms = 0, joined_ms = 0;
  double pace = 1;                        // of its clock, which drifts
  double clock_ms = 0;                    // as it was at `paced_ms`
  std::int64_t off_ms = 0, paced_ms = 0;  // its wall clock
  std::optional<Part> content;            // what its own agent shall make it, on its disk
  bool cursed = false;                    // its agent dies while it leads
  bool carrying = false;                  // it is being made so
  std::int64_t carried_ms = 0, well_ms = 0, stuck_ms = 0;
  long newest = 0;           // part that it ever took
  long arriving_as_of = -1;  // what it hangs on, as it was then
  Rates arriving, uncarried;
  std::map<std::string, std::int64_t> uncarried_ms;  // when it was counted last
  std::unique_ptr<SimBatches> jobs;                  // null: it has none
  std::vector<NodeGpu> fallen;                       // GPUs that are not listed any more
};

Rates lower(const Rates& a, const Rates& b) {
  Rates rates;
  for (const auto& [service, rate] : a)
    if (const auto found = b.find(service); found != b.end())
      rates[service] = std::min(rate, found->second);
  return rates;
}

Rates carried_there(const std::vector<SimNode>& nodes) {
  Rates all;
  for (const SimNode& node : nodes)
    if (node.alive && !node.cut)
      for (const Carried& one : node.record.carries) all[one.service] += one.rate_rps;
  return all;
}

// By nodes that are there; counted again when something has changed.
class CarriedThere {
 public:
  explicit CarriedThere(const std::vector<SimNode>& nodes) : nodes_(nodes) {}
  void changed() {
    all_.reset();
    ++version_;
  }
  long version() const { return version_; }
  const Rates& all() {
    if (!all_) all_ = carried_there(nodes_);
    return *all_;
  }
  double of(const std::string& service) {
    const auto found = all().find(service);
    return found == all().end() ? 0 : found->second;
  }

 private:
  const std::vector<SimNode>& nodes_;
  std::optional<Rates> all_;
  long version_ = 0;
};

// Agents of a simulation may remember together, since they are in one thread; of plans all
// simulations may.
FleetGround ground_of(const FleetSimOptions& options) {
  FleetGround ground = language_ground_of_tests();
  if (!options.remembers) return ground;
  static const auto memory = std::make_shared<PlannerMemory>(kAnswersKept);
  ground.memory = memory;
  ground.texts = std::make_shared<ReadTexts>();
  return ground;
}

// What arrives at the gateway of a node: its part of what clients ask for, by what it carries of
// all; of a service that nobody carries, by how many gateways there are.
void arrive_anew(SimNode& node, const std::vector<SimNode>& nodes, const Rates& all,
                 const Rates& asked) {
  const Rates own = rates_of(node.record.carries);
  const auto doors =
      std::ranges::count_if(nodes, [](const SimNode& one) { return one.alive && !one.cut; });
  node.arriving.clear();
  for (const auto& [service, rate] : asked) {
    const auto carried = all.find(service), here = own.find(service);
    if (carried == all.end()) {
      node.uncarried[service] = rate / static_cast<double>(std::max<std::ptrdiff_t>(1, doors));
    } else if (here != own.end()) {
      node.arriving[service] = rate * here->second / carried->second;
    }
  }
}

// What was asked for in vain is said for a while after.
void forget_uncarried(SimNode& node, const Rates& all, const Rates& asked, std::int64_t now) {
  std::erase_if(node.uncarried, [&](const auto& one) {
    std::int64_t& counted = node.uncarried_ms[one.first];
    if (!all.contains(one.first) && asked.contains(one.first)) counted = now;
    return now - counted > kSaidMs;
  });
}

// Rates of simulations with language models and jobs are on steps: what pools carry of them is
// known from other ones.
double on_step(double rate) {
  constexpr double kStep = 1.25;
  return std::pow(kStep, std::round(std::log(rate) / std::log(kStep)));
}

// What a compute slice carries, roughly.
double rate_per_slice(const std::string& service) { return is_language(service) ? 3 : 130; }

int away(const std::vector<SimNode>& nodes) {
  return static_cast<int>(
      std::ranges::count_if(nodes, [](const SimNode& node) { return !node.alive || node.cut; }));
}

long lent_of(const NodeRecord& node) {
  long all = 0;
  for (const NodeGpu& gpu : node.gpus) all += std::ssize(gpu.lent);
  return all;
}
// Language models beside the others; a pair of GPUs where enough nodes have two.
std::vector<std::string> language_models(const std::vector<SimNode>& nodes, Rng& rng) {
  std::vector<std::string> names;
  for (std::size_t n = 0; n < 1 + nodes.size() / 6; ++n) names.push_back(fmt::format("lm{}", n));
  const auto wide = std::ranges::count_if(
      nodes, [](const SimNode& node) { return node.record.gpus.size() >= 2; });
  if (wide >= 4 && rng.below(2) == 0) names.emplace_back("pair");
  return names;
}

// Makes the part of a node fit beside what is lent there, as its agent does: by a plan of its own
// for the same services. Why there is none; empty: it fits.
std::string fit_beside_lent(SimNode& node, NodePlanner& planner) {
  if (faults_of_owners(node.record, node.content->plan.gpus).empty()) return {};
  const std::vector<plan::Service> services(node.content->plan.services.begin(),
                                            node.content->plan.services.end());
  auto plan = planner.plan({node.record, services, 0, nullptr, Moves::any});
  if (!plan) return kLentInTheWay + to_string(plan.error());
  node.content->plan = *std::move(plan);
  return {};
}

double drawn_pace(Rng& rng) { return 0.98 + 0.04 * rng.uniform(); }

// Its pace is another one now and then.
std::int64_t clock_of(SimNode& node, std::int64_t now, Rng& rng) {
  node.clock_ms += static_cast<double>(now - std::exchange(node.paced_ms, now)) * node.pace;
  if (rng.below(3600) == 0) node.pace = drawn_pace(rng);
  return static_cast<std::int64_t>(node.clock_ms);
}

// Its agent dies at one of its next calls of the store.
void curse(SimNode& node, Rng& rng) {
  node.way->kill_after(static_cast<int>(rng.below(12)));
  node.cursed = true;
}

// By a problem made here: GPUs are the node's, each once, and the judge lets the plan pass.
std::string fault_of_part(const Part& part, int gpus, verify::PoolMemo& memo) {
  plan::ServingProblem problem;
  for (const plan::PlannedService& row : part.plan.services) problem.services.push_back(row);
  problem.fleet = language_ground_of_tests().profiles;
  problem.fleet[0].count = gpus;
  std::set<int> indices;
  for (const plan::PlannedGpu& gpu : part.plan.gpus)
    if (!indices.insert(gpu.index).second || gpu.index >= gpus)
      return fmt::format("revision {} of {} has GPU {} twice, or has none such", part.revision,
                         part.node, gpu.index);
  if (!part.plan.services.empty() && !verify::judge(problem, &memo, part.plan))
    return fmt::format("the judge refuses revision {} of {}", part.revision, part.node);
  return {};
}

// Instances of services that its part does not have.
std::string left_over(const SimNode& node, const FleetView& view) {
  const auto part = view.parts.find(node.record.node);
  std::set<std::string> planned;  // steps of pipelines, too
  if (part != view.parts.end())
    for (const plan::PlannedService& row : part->second.plan.services) planned.insert(row.name);
  for (const plan::PlannedGpu& gpu : node.record.runs)
    for (const plan::PlannedInstance& one : gpu.instances)
      if (!planned.contains(one.service))
        return fmt::format("GPU {} of {} has an instance of {}, which is planned elsewhere",
                           gpu.index, node.record.node, one.service);
  return {};
}

// Of all parts that were ever written: revisions grow, plans are right.
std::vector<std::string> faults_of_parts(MemoryStore& store, const Keys& keys,
                                         const std::vector<SimNode>& nodes) {
  std::vector<std::string> faults;
  store.forget(0);
  const auto all = store.watch({keys.part("")}, 0);
  const auto seen = (*all)->take();
  if (!seen) return {"the log of the store cannot be read"};
  std::map<std::string, long> newest;
  verify::PoolMemo memo;
  for (const SeenChange& one : *seen) {
    if (!one.value) continue;
    const auto part = parse_part(one.key, *one.value);
    if (!part) {
      faults.push_back(to_string(part.error()));
      continue;
    }
    long& before = newest[part->node];
    if (part->revision <= before)
      faults.push_back(fmt::format("revision {} of {} was written after {}", part->revision,
                                   part->node, before));
    before = part->revision;
    const auto node =
        std::ranges::find(nodes, part->node, [](const SimNode& is) { return is.record.node; });
    if (node == nodes.end()) return {part->node + " is no node"};
    const std::size_t count = node->record.gpus.size() + node->fallen.size();
    if (std::string fault = fault_of_part(*part, static_cast<int>(count), memo); !fault.empty())
      faults.push_back(fault);
    std::ranges::move(faults_of_groups(node->record, part->plan.gpus), std::back_inserter(faults));
  }
  return faults;
}

// What of services is carried, and is to stay by the parts that were written: during a move both
// nodes carry it.
class Promises {
 public:
  // `carried`: counts what nodes carry.
  const Rates& all(const std::vector<SimNode>& nodes, long carried, MemoryStore& store,
                   const Keys& keys) {
    if (std::pair(store.revision(), carried) == as_of_) return all_;
    if (store.revision() != as_of_.first) read(store, keys);
    as_of_ = {store.revision(), carried};
    all_.clear();
    for (const SimNode& node : nodes)
      if (const auto staying = staying_.find(node.record.node);
          staying != staying_.end() && node.alive && !node.cut)
        for (const auto& [service, rate] :
             lower(rates_of(node.record.carries), staying->second.rates))
          all_[service] += rate;
    return all_;
  }

 private:
  struct Staying {
    long version = 0;
    Rates rates;
  };
  void read(MemoryStore& store, const Keys& keys) {
    const auto read = store.read({keys.part("")}, [&](const KeyValue& one, auto) {
      Staying& its = staying_[one.key.substr(keys.part("").size())];
      if (std::exchange(its.version, one.version) == one.version) return;
      const auto part = parse_part(one.key, one.value);
      its.rates = part ? rates_of(*part) : Rates{};
    });
    CHECK(read.has_value());
  }

  std::map<std::string, Staying> staying_;  // by node
  std::pair<long, long> as_of_{-1, -1};     // revision of the store, and what nodes carry
  Rates all_;
};

// What the store has now, without a watch.
FleetView view_of(MemoryStore& store, const Keys& keys, const FleetGround& ground) {
  FleetView view;
  view.texts = ground.texts;
  const auto read = store.read({keys.root}, [&](const KeyValue& one, auto) {
    view.hear(keys, one.key, one.value, one.version);
  });
  CHECK(read.has_value());
  return view;
}

// Whether a part that is younger than these revisions is not carried out.
bool some_under_way(const FleetView& view, const std::map<std::string, long>& early,
                    const std::vector<SimNode>& nodes) {
  return std::ranges::any_of(nodes, [&](const SimNode& node) {
    const auto part = view.parts.find(node.record.node);
    if (part == view.parts.end() || part->second.revision == node.record.ready) return false;
    const auto was = early.find(node.record.node);
    return was == early.end() || was->second != part->second.revision;
  });
}

// From a loss, or from when there is room, until others have what was lost: a node that is stuck
// may be told to carry it first.
std::int64_t recovered_ms(const std::vector<SimNode>& nodes, std::int64_t now) {
  const bool stuck =
      std::ranges::any_of(nodes, [&](const SimNode& node) { return node.stuck_ms > now; });
  return now + kRecoveryMs + (stuck ? kOverdueMs : 0);
}

// But for roundings of shares.
bool alike(const actuate::GatewayPeers& a, const actuate::GatewayPeers& b) {
  const auto share = [](const actuate::PeerShare& x, const actuate::PeerShare& y) {
    return x.service == y.service && std::abs(x.share - y.share) < 1e-6;
  };
  return std::ranges::equal(a.peers, b.peers, [&](const auto& x, const auto& y) {
    return x.node == y.node && x.http == y.http && x.grpc == y.grpc &&
           std::ranges::equal(x.carries, y.carries, share);
  });
}

// What each node's gateway is told is what the whole store says of services that are carried.
std::vector<std::string> faults_of_peers(const std::vector<SimNode>& nodes, const FleetView& view,
                                         ServicesRead& services) {
  const auto status = status_of(view, "sim", &services);
  if (!status) return {to_string(status.error())};
  std::vector<std::string> carried, faults;
  for (const ServiceStatus& service : status->services)
    if (service.carried_rps > 0) carried.push_back(service.service);
  for (const SimNode& node : nodes) {
    const std::string& name = node.record.node;
    actuate::GatewayPeers expected = peers_of(*status, name, {});
    expected.wanted = carried;
    for (actuate::GatewayPeer& peer : expected.peers)
      std::erase_if(peer.carries, [&](const auto& one) {
        return !std::ranges::binary_search(carried, one.service);
      });
    std::erase_if(expected.peers, [](const auto& peer) { return peer.carries.empty(); });
    if (!alike(peers_of(node.agent->own_view().peers, carried, name, {}), expected))
      faults.push_back("the gateway of " + name + " is told otherwise where services are");
  }
  return faults;
}

SimNode* leader_of(std::vector<SimNode>& nodes) {
  for (SimNode& node : nodes)
    if (node.agent && node.alive && node.agent->leads()) return &node;
  return nullptr;
}

// Groups that are short though some node has room for one.
void check_groups(const Decision& decision, CarriedThere& carried, const Wanted& wanted,
                  const std::vector<SimNode>& nodes,
                  const std::function<void(std::string)>& fault) {
  for (const auto& [service, gpus] : {std::pair{"pair", 2}, {"quad", 4}}) {
    const auto is = std::ranges::find(decision.services, service, &ServiceOutlook::name);
    if (is == decision.services.end() || carried.of(service) >= is->need_rps * (1 - 1e-5)) continue;
    for (const SimNode& node : nodes)
      if (std::ranges::count(wanted.drained, node.record.node) == 0 &&
          node.record.trouble.empty() && has_free_domain(node.record, gpus))
        fault(
            fmt::format("{} is short, and {} has {} linked GPUs", service, node.record.node, gpus));
  }
}

class FleetSim {
 public:
  explicit FleetSim(const FleetSimOptions& options)
      : options_(options), rng_(options.seed * 7919 + 17), clients_(options.seed) {
    begin();
  }

  FleetSimReport run() {
    const auto goes_on = [&] {
      return (now_ < options_.hours * kHourMs || now_ <= under_way_until_ms_) &&
             report_.wrong.size() < kMostWrong;
    };
    for (bool others = false; goes_on(); now_ += kTickMs) {
      const std::int64_t in_hour = now_ % kHourMs;
      const bool calm = in_hour >= kHourMs - kCalmMs || now_ <= under_way_until_ms_;
      jobs_rest_ = in_hour >= kHourMs - kUnderWayMs || now_ <= under_way_until_ms_;
      others = others || (now_ > 0 && in_hour == 0);
      if (others && now_ > under_way_until_ms_) {
        clients_.ask_otherwise(rates_);
        others = false;
      }
      if (in_hour == kHourMs - kUnderWayMs) {
        early_.clear();
        for (const auto& [node, part] : view_of(store_, keys_, ground_).parts)
          early_[node] = part.revision;
      }
      if (calm)
        heal();
      else if (now_ >= next_fault_ms_)
        trouble();
      if (!outage_until_ms_) store_.tell_time(now_ - without_ms_);
      end_troubles();
      if (asks_ && now_ >= person_ms_) approve();
      for (SimNode& node : nodes_) live(node);
      check_services();
      if (in_hour == kHourMs - kTickMs) {
        // Whose last call was lost leads again a turn later, and may decide something then.
        const bool waits = leader_of(nodes_) == nullptr ||
                           some_under_way(view_of(store_, keys_, ground_), early_, nodes_);
        under_way_until_ms_ = waits ? now_ + kUnderWayMs : -1;
        if (!waits) check_converged();
      } else if (now_ == under_way_until_ms_) {
        check_converged();
      }
    }
    for (const std::string& text : faults_of_parts(store_, keys_, nodes_)) wrong(text);
    report_.nodes = static_cast<int>(nodes_.size());
    for (const SimNode& node : nodes_)
      if (node.jobs) {
        report_.jobs += node.jobs->submitted();
        report_.jobs_done += node.jobs->done();
        report_.attempts += node.jobs->attempts();
      }
    return std::move(report_);
  }

 private:
  // ---- the beginning

  void begin() {
    const int count = 3 + static_cast<int>(rng_.below(options_.seed % 5 == 0 ? 18 : 6));
    for (int n = 0; n < count; ++n) {
      SimNode& node = nodes_.emplace_back();
      node.record = node_of_tests(fmt::format("n{:02}", n), 1 + static_cast<int>(rng_.below(3)));
      node.record.rack = fmt::format("r{}", n % 3);
      places_.put(node.record, n);
      if (options_.seed % 3 == 0) node.record.gateway = node.record.node + ":80";
      node.pace = drawn_pace(rng_);
      node.off_ms = static_cast<std::int64_t>(rng_.below(1'200'000)) - 600'000;
      start_agent(node);
      slices_ += 7.0 * static_cast<double>(node.record.gpus.size());
    }
    survives_ = rng_.below(3) == 0;
    asks_ = options_.seed % 4 == 1;
    wanted_.approval = asks_ ? Approval::approve : Approval::automatic;
    wanted_.survive = places_.survive(survives_ ? Survive::node : Survive::none);
    survives_ = wanted_.survive != Survive::none;
    const double load = slices_ * (survives_ ? 0.2 : 0.35);  // room for what is lost
    for (int s = 0; s < 2 + count / 2; ++s) rates_[fmt::format("s{}", s)] = 0;
    if (rng_.below(beside_ ? 12 : 3) == 0) rates_["way"] = 0;  // they take most of the time
    if (beside_ && rng_.below(2) == 0)
      for (const std::string& name : language_models(nodes_, rng_))
        rates_[name] = 0, ++report_.language;
    for (const std::string& name : places_.groups()) rates_[name] = 0, ++report_.language;
    for (auto& [name, rate] : rates_) {
      rate = rate_per_slice(name) * load / static_cast<double>(rates_.size()) *
             (0.4 + 1.2 * rng_.uniform());
      if (beside_) rate = on_step(rate);
    }
    if (beside_ && rng_.below(2) == 0)
      for (SimNode& node : nodes_) {
        node.jobs = std::make_unique<SimBatches>(node.record, rng_.next());
        node.jobs->agent_starts(0, node.record);
      }
    if (options_.seed % 3 == 1) rates_["tight"] = 50;  // nobody can carry it
    clients_.ask_otherwise(rates_);
    wish("rates of the beginning");
    next_fault_ms_ = 120'000;
  }

  void start_agent(SimNode& node) {
    node.way = std::make_unique<FaultStore>(store_, rng_.split(rng_.next()));
    node.way->lose(kLostCalls);
    node.cursed = false;
    node.way->cut(node.cut || outage_until_ms_ != 0);
    node.agent = std::make_unique<FleetAgent>(
        FleetAgentSettings{.fleet = "sim", .node = node.record.node}, *node.way, ground_);
    node.next_turn_ms = now_ + static_cast<std::int64_t>(rng_.below(1000));
    node.record.trouble.clear();  // it does not remember it, and tries again
    if (node.jobs) node.jobs->agent_starts(now_, node.record);
    go_on(node);
  }

  // Makes the node what it shall be, again, if it was not made so.
  void go_on(SimNode& node) {
    node.carrying = node.content && node.content->revision != node.record.ready;
    if (!node.carrying) return;
    // What goes, goes at once; what comes is there at the end.
    carried_.changed();
    node.record.carries = carried_of(lower(rates_of(node.record.carries), rates_of(*node.content)));
    node.carried_ms = now_ + 1000 + static_cast<std::int64_t>(rng_.below(kMostCarryMs - 1000));
    if (!node.jobs) return;
    const std::string why = fit_beside_lent(node, own_plans_);
    if (why.empty()) return;
    tell(node.record.node + ": " + why);
    refuse(node, why);
  }

  // It tries again by and by; its services go elsewhere.
  void refuse(SimNode& node, const std::string& why) {
    tell(node.record.node + " cannot carry out its part");
    node.record.trouble = why;
    node.carrying = false;
    node.carried_ms = now_ + 30'000;
    node.record.taken = node.newest;
    excuse_all();
    for (const auto& [service, rate] : rates_)
      excused_ms_[service] = std::max(excused_ms_[service], now_ + 2 * kRecoveryMs);
  }

  void tell(const std::string& text) {
    if (options_.tells)
      report_.story.push_back(fmt::format("{:8.2f} s  {}", 1e-3 * static_cast<double>(now_), text));
  }
  void wrong(const std::string& text) {
    report_.wrong.push_back(fmt::format("{:.2f} s: {}", 1e-3 * static_cast<double>(now_), text));
    tell("WRONG " + report_.wrong.back());
  }

  // ---- what happens

  void trouble() {
    next_fault_ms_ = now_ + static_cast<std::int64_t>(rng_.exponential() * kFaultEveryMs);
    if (const std::string feed = places_.failing_feed(); !feed.empty()) return lose_feed(feed);
    SimNode& node = nodes_[rng_.below(nodes_.size())];
    const auto soon = [&](double mean_ms) {
      return now_ + 2000 + static_cast<std::int64_t>(rng_.exponential() * mean_ms);
    };
    switch (rng_.below(8)) {
      case 0:
        if (node.alive && away(nodes_) == 0) die({&node}, soon(300'000));
        break;
      case 1:
        if (node.alive && away(nodes_) == 0) cut_off(node, soon(120'000));
        break;
      case 2:
        if (SimNode* leads = leader_of(nodes_); leads && rng_.below(2) == 0)
          leaders_to_die_ = static_cast<int>(rng_.below(4)), ++report_.leaders_killed,
          curse(*leads, rng_);
        else if (node.agent)
          kill_agent(node);
        excuse_all();
        break;
      case 3:
        outage_until_ms_ = soon(40'000);
        ++report_.outages;
        for (SimNode& one : nodes_) one.way->cut(true);
        tell("the store has no quorum");
        break;
      case 4:
        store_.forget(store_.revision());
        break;
      case 5:
        drain(node);
        break;
      case 6:
        lose_gpu(node, soon(200'000));
        break;
      default:
        move_rates();
    }
  }

  // Who carried something of a service is lost: it may have less for some time. With `survive`, not
  // by the first loss after a calm spell, if there was room for what it needs then, and they are
  // together what may be lost.
  void excuse(const std::vector<SimNode*>& lost) {
    std::set<std::string> domains;
    for (const SimNode* node : lost) domains.insert(lost_together(node->record, wanted_.survive));
    const bool first = survives_ && !lost_since_calm_ && converged_ && domains.size() == 1;
    lost_since_calm_ = true;
    for (const SimNode* node : lost)
      for (const Carried& one : node->record.carries)
        if (!first || has_no_room(one.service, true))
          excused_ms_[one.service] = recovered_ms(nodes_, now_);
  }
  // What is short already takes longer.
  void excuse_all() {
    for (auto& [service, until] : excused_ms_)
      if (until > now_) until = std::max(until, recovered_ms(nodes_, now_));
  }

  void lose_feed(const std::string& feed) {
    std::vector<SimNode*> hang;
    for (SimNode& node : nodes_)
      if (node.record.feed == feed) hang.push_back(&node);
    if (hang.empty() || away(nodes_) != 0) return;
    tell("feed " + feed + " fails");
    ++report_.feeds_lost;
    die(hang, now_ + 2000 + static_cast<std::int64_t>(rng_.exponential() * 200'000));
  }
  // All of them at once.
  void die(const std::vector<SimNode*>& lost, std::int64_t until) {
    excuse_all();
    excuse(lost);
    for (SimNode* node : lost) {
      tell(node->record.node + " dies");
      ++report_.deaths;
      node->alive = false;
      node->agent.reset();
      if (node->jobs) node->jobs->node_dies(now_, node->record);
      node->carrying = false;
      node->back_ms = until;
    }
    carried_.changed();
  }
  void cut_off(SimNode& node, std::int64_t until) {
    tell(node.record.node + " is cut off");
    ++report_.cuts;
    excuse_all();
    excuse({&node});
    node.cut = true;
    carried_.changed();
    node.way->cut(true);
    node.back_ms = until;
  }
  void kill_agent(SimNode& node) {
    tell(node.record.node + ": its agent is killed");
    node.agent.reset();
    if (node.jobs) node.jobs->agent_ends();
    node.carrying = false;
    node.agent_back_ms = now_ + 3000 + static_cast<std::int64_t>(rng_.below(5000));
  }
  void drain(const SimNode& node) {
    wanted_.drained.clear();
    if (away(nodes_) == 0 && rng_.below(2) == 0) wanted_.drained.push_back(node.record.node);
    lost_since_calm_ = true;  // survive is planned for nodes that are not drained
    wish(wanted_.drained.empty() ? "nothing is drained" : node.record.node + " is drained");
  }
  void move_rates() {
    auto one = rates_.begin();
    std::advance(one, rng_.below(rates_.size()));
    const double per_slice = rate_per_slice(one->first);
    double rate = std::min(one->second * (0.6 + 0.75 * rng_.uniform()), per_slice * slices_ * 0.1);
    if (beside_ && rate > 0) rate = on_step(rate);
    if (std::exchange(one->second, rate) <= 0) return;
    lost_since_calm_ = true;  // until it is carried out
    wish(fmt::format("{} has a rate of {:.4g}", one->first, one->second));
  }
  void lose_gpu(SimNode& node, std::int64_t until) {
    if (node.record.gpus.empty()) return;
    const auto at =
        node.record.gpus.begin() + static_cast<std::ptrdiff_t>(rng_.below(node.record.gpus.size()));
    if (!at->unusable.empty() || !node.alive) return;
    const NodeGpu gpu = *at;
    const bool falls_out = places_.falls_out();
    tell(fmt::format("{} {} GPU {}", node.record.node,
                     falls_out ? "does not list any more" : "loses", gpu.index));
    at->unusable = "off the bus";
    if (falls_out) {
      ++report_.fell_out;
      node.fallen.push_back(gpu);
      node.record.gpus.erase(at);
    }
    node.well_ms = until;
    excuse_all();
    excuse({&node});
    // The node's own agent keeps what is left.
    for (Carried& one : node.record.carries)
      one.rate_rps *= left_without(node.record, one.service, gpu.index);
    std::erase_if(node.record.carries, [](const Carried& one) { return one.rate_rps <= 0; });
    carried_.changed();
    std::erase_if(node.record.runs, [&](const auto& there) { return there.index == gpu.index; });
    if (node.jobs) node.jobs->loses_gpu(now_, node.record, gpu.index);
  }

  // A person changes what is wanted, at the store itself.
  void wish(const std::string& what) {
    tell(what);
    ++report_.wishes;
    wanted_.services = services_of_tests(rates_);
    CHECK(store_.commit({{}, {{keys_.wanted(), write(wanted_), 0}}})->done);
    for (auto& [service, had] : had_) had = std::min(had, rates_[service]);
    clients_.hear(rates_);
  }

  void end_troubles() {
    if (outage_until_ms_ != 0) without_ms_ += kTickMs;
    if (outage_until_ms_ != 0 && now_ >= outage_until_ms_) {
      outage_until_ms_ = 0;
      tell("the store has a quorum again");
      for (SimNode& node : nodes_) node.way->cut(node.cut);
    }
    if (outage_until_ms_ != 0) excuse_all();
    for (SimNode& node : nodes_) end_troubles_of(node);
  }
  void end_troubles_of(SimNode& node) {
    if ((!node.alive || node.cut) && now_ >= node.back_ms) {
      tell(node.record.node + " is back");
      node.alive = true;
      node.cut = false;
      carried_.changed();
      node.way->cut(outage_until_ms_ != 0);
    }
    if (node.agent && node.way->killed()) {
      excuse_all();
      kill_agent(node);
    }
    if (!node.agent && node.alive && now_ >= node.agent_back_ms) start_agent(node);
    if (node.well_ms != 0 && now_ >= node.well_ms) {
      node.well_ms = 0;
      for (NodeGpu& gpu : node.record.gpus) gpu.unusable.clear();
      for (NodeGpu& gpu : node.fallen) gpu.lent.clear(), node.record.gpus.push_back(gpu);
      node.fallen.clear();
      std::ranges::sort(node.record.gpus, {}, &NodeGpu::index);
    }
    if (!node.record.trouble.empty() && node.agent && now_ >= node.carried_ms) {
      node.record.trouble.clear();
      go_on(node);
    }
  }

  void heal() {
    outage_until_ms_ = std::min(outage_until_ms_, now_);
    leaders_to_die_ = 0;
    for (SimNode& node : nodes_) {
      node.back_ms = std::min(node.back_ms, now_);
      node.well_ms = std::min(node.well_ms, now_);
      node.stuck_ms = 0;
      if (node.well_ms == 0) continue;
      node.well_ms = now_;
    }
    next_fault_ms_ = now_ + kCalmMs + kTickMs;
  }

  // ---- a node

  void live(SimNode& node) {
    if (!node.alive || !node.agent) return;
    if (node.carrying && now_ >= std::max(node.carried_ms, node.stuck_ms)) carried_out(node);
    if (now_ < node.next_turn_ms) return;
    node.next_turn_ms = now_ + static_cast<std::int64_t>(kTurnMs * (0.8 + 0.4 * rng_.uniform()));
    if (const long as_of = carried_.version() + clients_.version();
        std::exchange(node.arriving_as_of, as_of) != as_of)
      arrive_anew(node, nodes_, carried_.all(), clients_.asked());
    forget_uncarried(node, carried_.all(), clients_.asked(), now_);
    if (node.jobs && !jobs_rest_) {
      const bool others = node.jobs->turn(now_, node.record, node.carrying);
      for (const std::string& fault : node.jobs->take_faults()) wrong(fault);
      for (const std::string& fault : faults_of_owners(node.record, node.record.runs)) wrong(fault);
      if (others)
        tell(fmt::format("{} has {} instances lent", node.record.node, lent_of(node.record)));
    }
    const bool busy = node.carrying || !node.record.trouble.empty();
    NodeNow is{std::move(node.record), busy, std::move(node.arriving), std::move(node.uncarried)};
    Turn turn = node.agent->turn(clock_of(node, now_, rng_), kStartMs + now_ + node.off_ms, is);
    node.record = std::move(is.record);
    node.arriving = std::move(is.rates);
    node.uncarried = std::move(is.uncarried);
    ++report_.turns;
    for (const std::string& said : turn.said) {
      tell(node.record.node + ": " + said);
      if (said.starts_with("revision")) ++report_.decisions;
    }
    if (turn.take) take(node, *std::move(turn.take));
    if (!node.agent || !node.agent->leads() || node.cursed || leaders_to_die_ == 0) return;
    --leaders_to_die_;
    ++report_.leaders_killed;
    curse(node, rng_);
  }
  // ---- a person

  // Says yes to what waits, sooner or later.
  void approve() {
    const bool calm = now_ % kHourMs >= kHourMs - kCalmMs;
    person_ms_ = now_ + (calm ? 2000 : static_cast<std::int64_t>(rng_.exponential() * 60'000));
    const auto range = store_.range({keys_.proposal()});
    if (range->all.empty()) return;
    const auto proposal = parse_proposal(range->all[0].key, range->all[0].value);
    if (!proposal) return wrong(to_string(proposal.error()));
    wanted_.approved = proposal->digest;
    ++report_.approvals;
    tell("a person says yes to " + proposal->digest);
    CHECK(store_.commit({{}, {{keys_.wanted(), write(wanted_), 0}}})->done);
  }

  void take(SimNode& node, Part part) {
    if (part.revision <= node.newest) {
      // A kill between what the node is told and what its agent writes down may repeat one.
      if (part.revision < node.newest)
        wrong(fmt::format("{} takes revision {} after {}", node.record.node, part.revision,
                          node.newest));
    }
    node.newest = std::max(node.newest, part.revision);
    tell(fmt::format("{} takes revision {}", node.record.node, part.revision));
    ++report_.parts;
    node.content = std::move(part);
    if (rng_stuck_.below(30) == 0) {
      tell(node.record.node + " will not get on with it, and says nothing");
      ++report_.stuck;
      node.stuck_ms = now_ + 4 * kOverdueMs;  // or until all is healed
      excuse_all();
      for (const auto& [service, rate] : rates_)
        excused_ms_[service] = std::max(excused_ms_[service], now_ + kOverdueMs + 2 * kRecoveryMs);
    }
    go_on(node);
    if (rng_.below(50) == 0)
      kill_agent(node);  // before it wrote down what it took
    else
      node.record.taken = node.newest;
  }

  void carried_out(SimNode& node) {
    if (rng_.below(60) == 0) {
      return refuse(node, "an instance cannot be made");
    }
    const Part& part = *node.content;
    node.carrying = false;
    for (const plan::PlannedGpu& gpu : part.plan.gpus) {
      const auto is = std::ranges::find(node.record.gpus, gpu.index, &NodeGpu::index);
      if (is == node.record.gpus.end() || !is->unusable.empty())
        return;  // lost meanwhile: another part comes
    }
    node.record.carries = carried_of(rates_of(part));
    carried_.changed();
    node.record.runs = part.plan.gpus;
    for (const std::string& fault : faults_of_owners(node.record, node.record.runs)) wrong(fault);
    report_.groups += groups_on(node.record.runs);
    node.record.ready = part.revision;
    tell(fmt::format("{} has carried out revision {}", node.record.node, part.revision));
  }

  // ---- what must hold

  // For all of its rate, or for what is to be there when something is lost.
  bool has_no_room(const std::string& service, bool with_margin) {
    if (SimNode* leads = leader_of(nodes_); leads && leads->agent->decision())
      outlooks_ = leads->agent->decision()->services;
    for (const ServiceOutlook& one : outlooks_)
      if (one.name == service) return !one.why.empty() && (with_margin || !one.margin_only);
    return false;
  }

  void check_services() {
    const std::tuple as_of(carried_.version(), store_.revision(), report_.wishes);
    if (std::exchange(well_as_of_, as_of) == as_of && is_well_) return;
    is_well_ = true;
    for (const auto& [service, rate] : rates_) {
      double& had = had_[service];
      const double is = carried_.of(service);
      std::int64_t& since = short_ms_[service];
      if (is >= had * (1 - 1e-6)) {
        since = 0;
        if (had < std::min(rate, is)) {
          const Rates& all = promises_.all(nodes_, carried_.version(), store_, keys_);
          if (const auto promise = all.find(service); promise != all.end())
            had = std::max(had, std::min(rate, promise->second));
        }
        continue;
      }
      is_well_ = false;
      if (since == 0) since = now_;
      report_.longest_short_ms = std::max(report_.longest_short_ms, now_ - since);
      // Room that comes is used within the same time.
      if (has_no_room(service, false))
        excused_ms_[service] = std::max(excused_ms_[service], recovered_ms(nodes_, now_));
      if (now_ <= excused_ms_[service]) continue;
      wrong(fmt::format("{} has {:.4g} of {:.4g} req/s since {:.2f} s", service, is, had,
                        1e-3 * static_cast<double>(since)));
      had = is;
    }
  }

  void check_converged() {
    converged_ = true;
    lost_since_calm_ = false;
    const auto fault = [&](const std::string& text) {
      converged_ = false;
      wrong("after a calm spell: " + text);
    };
    FleetView view = view_of(store_, keys_, ground_);
    if (!view.leader) return fault("nobody leads");
    if (const SimNode* leads = leader_of(nodes_))
      view.asked_before = leads->agent->own_view().asked_before;
    if (!view.damaged.empty()) fault(view.damaged.begin()->second);
    Leader brain(ground_);
    const auto decision = brain.decide(view, "oracle");
    if (!decision) return fault(to_string(decision.error()));
    if (!decision->parts.empty()) fault("something is to decide: " + decision->changes.front());
    for (const SimNode& node : nodes_)
      if (const auto part = view.parts.find(node.record.node);
          part != view.parts.end() && node.record.ready != part->second.revision &&
          !node.record.trouble.starts_with(kLentInTheWay))
        fault(fmt::format("{} has carried out revision {} of {}", node.record.node,
                          node.record.ready, part->second.revision));
    for (const SimNode& node : nodes_)
      if (std::string left = left_over(node, view);
          !left.empty() && !node.record.trouble.starts_with(kLentInTheWay))
        fault(left);
    for (const std::string& text : faults_of_peers(nodes_, view, services_)) fault(text);
    for (const std::string& text : faults_of_need(*decision, clients_.asked())) fault(text);
    report_.asked += static_cast<long>(clients_.asked().size());
    report_.asked_in_vain += static_cast<long>(clients_.asked().size() - carried_.all().size());
    for (const ServiceOutlook& one : decision->services)
      if ((one.why.empty() || one.margin_only) && carried_.of(one.name) < one.need_rps * (1 - 1e-5))
        fault(fmt::format("{} has {:.4g} of {:.4g} req/s", one.name, carried_.of(one.name),
                          one.need_rps));
    check_groups(*decision, carried_, wanted_, nodes_, fault);
    if (survives_) check_survives();
  }

  void check_survives() {
    std::map<std::string, Rates> lost;
    for (const SimNode& node : nodes_)
      for (const Carried& one : node.record.carries)
        lost[lost_together(node.record, wanted_.survive)][one.service] += one.rate_rps;
    for (const auto& [what, rates] : lost)
      for (const auto& [service, rate] : rates)
        if (!has_no_room(service, true) &&
            carried_.of(service) - rate < rates_[service] * (1 - 1e-5))
          wrong(fmt::format("without {}, {} has {:.4g} of {:.4g} req/s", what, service,
                            carried_.of(service) - rate, rates_[service]));
  }

  const FleetSimOptions options_;
  const bool beside_ = options_.seed >= kFirstBeside;  // language models and jobs
  const FleetGround ground_ = ground_of(options_);
  NodePlanner own_plans_{ground_};
  Rng rng_, rng_stuck_{options_.seed * 104'729 + 5};
  SimPlaces places_{options_.seed};
  FleetSimReport report_;
  MemoryStore store_;
  const Keys keys_{"sim"};
  std::vector<SimNode> nodes_;
  ServicesRead services_;
  Wanted wanted_;
  Rates rates_;  // in the file
  Clients clients_;
  CarriedThere carried_{nodes_};
  double slices_ = 0;
  std::int64_t under_way_until_ms_ = -1;
  std::map<std::string, long> early_;  // revisions of parts so long before the end of a calm spell
  int leaders_to_die_ = 0;             // one after another
  std::int64_t person_ms_ = 0;
  bool jobs_rest_ = false;  // shortly before the fleet is looked at
  bool asks_ = false, survives_ = false, converged_ = false, lost_since_calm_ = false;
  std::int64_t now_ = 0, next_fault_ms_ = 0, outage_until_ms_ = 0, without_ms_ = 0;
  std::vector<ServiceOutlook> outlooks_;  // of the last decision of anybody
  std::map<std::string, double> had_;
  Promises promises_;
  std::map<std::string, std::int64_t> excused_ms_, short_ms_;
  // No service was short when these were so: what nodes carry, the store's revision, wishes.
  std::tuple<long, long, int> well_as_of_{-1, -1, -1};
  bool is_well_ = false;
};

}  // namespace

FleetSimReport simulate_fleet(const FleetSimOptions& options) { return FleetSim(options).run(); }

}  // namespace partita::fleet
