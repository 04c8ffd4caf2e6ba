#include "fleet/brain/leader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

#include "base/append.h"
#include "base/hash.h"
#include "base/terminal.h"
#include "fleet/brain/older_terms.h"
#include "fleet/brain/part_services.h"
#include "forms/serving_forms.h"

namespace partita::fleet {
namespace {

constexpr double kHeadroom = 1.15;        // over what arrived
constexpr double kStep = 1.1;             // of a need by what arrived
constexpr double kMostOver = 4;           // times the rate in the file
constexpr double kSlack = 0.25;           // above the need that is not worth a change
constexpr double kTiny = 1e-6;            // of a rate, relative
constexpr double kEnough = 1 - 1e-5;      // of a need, where others must carry it first
constexpr double kLeastPiece = 1.0 / 32;  // of a need
constexpr double kStarved = 0.95;         // of what its GPUs may draw
constexpr double kLeastInPlace = 0.5;     // while no instance of others moves for it
constexpr double kFilled = 0.85;          // of a node's slices, before others are filled further
constexpr int kRounds = 32;
constexpr std::size_t kTried = 3;     // nodes that refuse a piece, before it is cut
constexpr int kPiecesToSurvive = 3;   // one of them may be lost
constexpr double kSmallSlices = 2;    // a service of fewer has two of them, each for all of it
constexpr double kFilledTo = 1e-3;    // of the largest rate that fits on a node, relative
constexpr double kFallsBy = 0.97;     // a rate that is tried, from the one before
constexpr double kGuessedLow = 1.5;   // times a guess, no node carries more
constexpr double kLeastSlices = 0.1;  // worth of a rate that is tried
constexpr std::size_t kMostTried = 64;
constexpr int kMostFills = 600;       // plans of a decision for such rates
constexpr double kVeryLittle = 1e-3;  // of a rate: what any node could carry that may at all
constexpr std::ptrdiff_t kNamed = 3;  // nodes, of many

bool more(double a, double b) { return a > b * (1 + kTiny) + 1e-12; }
bool same_rates(const Rates& a, const Rates& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && !more(x.second, y.second) && !more(y.second, x.second);
  });
}
double rate_in(const Rates& rates, const std::string& service) {
  const auto found = rates.find(service);
  return found == rates.end() ? 0 : found->second;
}
Rates highest(Rates a, const Rates& b) {
  for (const auto& [service, rate] : b) a[service] = std::max(a[service], rate);
  return a;
}
Rates lowest(Rates a, const Rates& b) {
  for (auto& [service, rate] : a) rate = std::min(rate, rate_in(b, service));
  std::erase_if(a, [](const auto& one) { return one.second <= 0; });
  return a;
}

// Whether a node still plans for other terms than these.
bool same_terms(plan::Service a, plan::Service b, const Rates& beside) {
  a.rate = b.rate = Rps{0};
  a.min_replicas = b.min_replicas = 1;
  a.dispatch = b.dispatch;
  std::erase_if(b.avoid, [&](const std::string& name) { return !beside.contains(name); });
  if (a.pipeline && b.pipeline && same_graph(*a.pipeline, *b.pipeline)) a.pipeline = b.pipeline;
  a.traffic.rates.clear();
  b.traffic.rates.clear();
  return a == b;
}

// It was to carry it, and could not serve it.
bool is_unserved(const NodeRecord& node, const std::string& service) {
  return std::ranges::count(node.unserved, service) > 0;
}

// Some that its part is on cannot be used any more.
bool lost_gpus(const NodeRecord& node, const Part* part) {
  return part != nullptr && std::ranges::any_of(part->plan.gpus, [&](const plan::PlannedGpu& gpu) {
           const auto is = std::ranges::find(node.gpus, gpu.index, &NodeGpu::index);
           return !gpu.instances.empty() && (is == node.gpus.end() || !is->unusable.empty());
         });
}

}  // namespace

double need_of(const plan::Service& service, double arrived_rps) {
  const double file = service.rate.value,
               asked = std::min(arrived_rps * kHeadroom, kMostOver * file);
  if (asked <= file) return file;
  return file * std::pow(kStep, std::ceil(std::log(asked / file) / std::log(kStep) - 1e-9));
}

double missing_of(double need_rps, const std::map<std::string, double>& by_domain, bool survive) {
  double all = 0, largest = 0;
  for (const auto& [domain, rate] : by_domain) all += rate, largest = std::max(largest, rate);
  const double missing = need_rps - (survive ? all - largest : all);
  return missing > need_rps * kTiny ? missing : 0;
}

std::string domain_of(const NodeRecord& node, Survive survive,
                      const std::map<std::string, std::string>& feeds) {
  if (survive == Survive::feed) {
    const auto of_tree = feeds.find(node.node);
    const std::string& feed = of_tree == feeds.end() ? node.feed : of_tree->second;
    if (!feed.empty()) return "feed " + feed;
  }
  if (survive == Survive::rack && !node.rack.empty()) return "rack " + node.rack;
  if (survive == Survive::zone && !node.zone.empty()) return "zone " + node.zone;
  return "node " + node.node;
}

std::string why_own_domains(const FleetView& view) {
  const Survive survive = view.wanted ? view.wanted->survive : Survive::none;
  if (survive == Survive::none || survive == Survive::node || view.nodes.empty()) return {};
  const auto feeds = view.power ? feeds_of(*view.power) : std::map<std::string, std::string>{};
  if (!std::ranges::all_of(view.nodes, [&](const auto& one) {
        return domain_of(one.second, survive, feeds).starts_with("node ");
      }))
    return {};
  return fmt::format("no node says its {}: each counts as one of its own",
                     kSurviveWords.begin()[static_cast<int>(survive)]);
}

std::vector<std::string> gpu_models(const FleetView& view) {
  std::set<std::string> models;
  for (const auto& [name, node] : view.nodes)
    for (const NodeGpu& gpu : node.gpus)
      if (gpu.unusable.empty()) models.insert(gpu.model);
  return {models.begin(), models.end()};
}

Result<void> check_carriable(const FleetGround& ground, const FleetView& view,
                             const std::vector<plan::Service>& services, const std::string& file) {
  std::vector<std::string> models = gpu_models(view);
  if (models.empty())
    for (const plan::FleetEntry& entry : ground.profiles) models.push_back(entry.gpu.name);
  const NodePlanner planner(ground);
  for (const std::string& model : models)
    if (!planner.knows(model)) return {};
  for (const plan::Service& one : services)
    if (const std::string why = one.member ? "" : planner.why_none(one, models); !why.empty())
      return bad_input(fmt::format("{}:{}", file, one.line),
                       fmt::format("service '{}': {}", one.name, why));
  return {};
}

std::string why_last(const FleetView& view, const std::string& node) {
  const auto draw = view.draws.find(node);
  if (!view.budgets || !view.power || draw == view.draws.end()) return {};
  const auto budget = std::ranges::find(view.budgets->nodes, node, &NodeBudget::node);
  const auto load = std::ranges::find(view.power->nodes, node, &FleetLoad::node);
  if (budget == view.budgets->nodes.end() || budget->limited_by.empty() ||
      load == view.power->nodes.end())
    return {};
  const double gpus_w = budget->watts - load->other_w;
  if (draw->second < gpus_w * kStarved) return {};
  return fmt::format("its GPUs draw {:.0f} W of the {:.0f} W that {} leaves them", draw->second,
                     gpus_w, budget->limited_by);
}

struct Leader::Read {
  ServicesRead texts;
  std::shared_ptr<const forms::ServicesFile> file;
  PartServices written;  // of the same text
};

// How the fleet is, as one decision counts it.
class Leader::Sight {
 protected:
  Sight(NodePlanner& planner, const Read& read, const FleetView& view)
      : planner_(planner), read_(read), view_(view) {}

  // A node that is there.
  struct At {
    const NodeRecord* record = nullptr;
    const Part* part = nullptr;  // null: it never had one
    std::string domain;
    bool counts = true;  // not drained
    bool open = true;    // may get more
    bool known = true;   // there are profiles of all its GPUs; else it stays as it is
    bool pending = false;
    bool able = true;            // to carry out its part, as far as is known
    bool starved = false;        // draws all the power that it may
    Rates base, has, held;       // by its part; carried now; either
    double total = 0, used = 0;  // compute slices
    // What is decided.
    Rates next;
    bool changed = false, grows = false, mended = false;
    std::optional<plan::ServingPlan> plan;
    std::string cause;
    Rates gave_up;
    std::size_t kind = 0;           // nodes with the same GPU models
    std::vector<std::string> adds;  // not planned yet, in this order
    Rates next_before, on_before;   // of them
    bool gets() const { return open && known && total > 0; }
  };
  struct Of {  // a service
    const plan::Service* terms = nullptr;
    double need = 0;
    std::map<std::string, double> on;         // counted, by node
    std::map<std::string, double> by_domain;  // the same
    std::set<std::string> tried;              // nodes that had no room for such a piece
    double cut = 1;                           // of the size of pieces
    Moves moves = Moves::none;                // of others, for it
    bool anywhere = false;                    // more than a piece of it on one domain
    int priority = 0;
    std::vector<Guess> guess;  // by kind of node
    std::string why;
    std::string unmet;       // why no node could carry it by the terms that are wanted
    bool older = false;      // so it goes on by those that it has
    bool lost = false;       // not all that was to carry it does
    bool is_short() const {  // of what its file says
      double all = 0;
      for (const auto& [node, rate] : on) all += rate;
      return more(terms->rate.value, all);
    }
    // As nodes are told it.
    plan::Service wanted() const {
      plan::Service told = *terms;
      told.priority = priority;
      return told;
    }
    // By nodes but for this one.
    double elsewhere(const std::string& than) const {
      double all = 0;
      for (const auto& [node, rate] : on) all += node == than ? 0 : rate;
      return all;
    }
    // In slices, of the first kind of node.
    double size() const { return guess.empty() ? need : guess.front().slices(need); }
    // Whether it can do without so much of what this node carries.
    bool can_spare(const At& at, double less, bool survive) const {
      std::map<std::string, double> left = by_domain;
      left[at.domain] -= less;
      return missing_of(need, left, survive) <= 0;
    }
    // Smaller pieces, for which any node may have room; not below the least. Before they become too
    // small to be worth it, larger ones again, for which instances of others may move. Last, if it
    // may be, where a loss takes more of it than it should: it has no margin then.
    void make_smaller(bool may_loosen) {
      const bool any = moves == Moves::any;
      const bool last = cut * 0.5 < (any ? kLeastPiece : kLeastInPlace);
      if (last && any && (anywhere || !may_loosen)) return;
      anywhere = anywhere || (last && any);
      cut = last ? 1 : cut * 0.5;
      if (last) moves = any ? Moves::none : moves == Moves::none ? Moves::in_turn : Moves::any;
      tried.clear();
    }
  };

  void look();
  void look_at(const NodeRecord& record);
  void guess(Of& of);
  bool waits_in_vain(const At& at) const;
  bool has_other_terms(const At& at) const;
  bool can_be_met(const Of& of);
  void keep_terms(Of& of, const std::string& why);
  void count(Of& of, const At& at, double rate);
  // While rates are looked after, margins are nobody's concern.
  double missing(const Of& of) const {
    return missing_of(of.need, of.by_domain, survives() && margins_);
  }
  bool survives() const { return view_.wanted->survive != Survive::none; }
  std::vector<plan::Service> pieces_at(const Rates& rates) const;

  NodePlanner& planner_;
  const Read& read_;
  const FleetView& view_;
  std::map<std::string, At> nodes_;
  std::map<std::string, Of> services_;
  OlderTerms older_;
  std::vector<Of*> order_;  // by priority, the largest first
  std::map<std::string, std::size_t> kinds_;
  std::vector<const NodeRecord*> of_kind_;                 // the largest
  std::map<std::string, std::vector<std::string>> lacks_;  // GPU models without profiles, on whom
  std::map<std::string, std::string> feeds_;               // of nodes, where these may be lost
  int domains_ = 0;                                        // that may get more
  bool margins_ = true;
  long revision_ = 1;
};

// One decision.
class Leader::Work : private Sight {
 public:
  Work(NodePlanner& planner, const Read& read, const FleetView& view, const std::string& leader)
      : Sight(planner, read, view), leader_(leader) {}

  Decision decide() {
    look();
    mend();
    for (const bool margins : {false, true}) {
      if (margins && !survives()) break;
      margins_ = margins;
      grow();
      if (margins) continue;
      make_room();
      for (Of* of : order_) fill(*of);
    }
    shrink();
    return word();
  }

 private:
  void mend();
  // `loses`: what has no room there any more is lost, so it is made up for without asking.
  void settle(At& at, Rates rates, const std::string& cause, bool loses = true);
  Result<plan::ServingPlan> plan_at(const At& at, const Rates& rates, Moves moves);
  void grow();
  bool propose(Of& of);
  void make_room();
  std::vector<std::string> victims_at(const At& at, const Of& of) const;
  bool make_room_at(At& at, Of& of);
  double used(const At& at, Moves moves) const;
  double piece_size(const Of& of) const;
  At* place_for(const Of& of, double& piece);
  void plan_adds(At& at);
  void take_back(At& at, std::string service, const std::string& why);
  void fill(Of& of);
  void fill(At& at, Of& of);
  void shrink();
  void shrink_at(At& at);
  void trim(At& at, Rates& next);
  void hold_back(Part& part, const At& at) const;
  Decision word() const;
  void tell(Decision& decision, const At& at, const Part& part) const;
  std::vector<ServiceOutlook> outlooks() const;

  const std::string& leader_;
  int fills_ = 0;
};

// ---- how it is

void Leader::Sight::look() {
  if (view_.wanted->survive == Survive::feed && view_.power) feeds_ = feeds_of(*view_.power);
  const Rates asked = view_.asked_steadily();
  for (const plan::Service& terms : read_.file->services) services_[terms.name].terms = &terms;
  for (auto& [name, of] : services_) {
    of.need = need_of(*of.terms, rate_in(asked, name));
    of.priority = of.terms->priority;
    if (const auto its = view_.wanted->priorities.find(name); its != view_.wanted->priorities.end())
      of.priority = its->second;
    order_.push_back(&of);
  }
  for (const auto& [name, part] : view_.parts) {
    revision_ = std::max(revision_, part.revision + 1);
    if (view_.nodes.contains(name)) continue;
    for (const auto& [service, rate] : rates_of(part))
      if (services_.contains(service)) services_[service].lost = true;
  }
  for (const auto& [name, record] : view_.nodes) look_at(record);
  for (const auto& [name, part] : view_.parts)
    for (const Carried& one : part.gave_up)
      if (const auto of = services_.find(one.service); of != services_.end())
        of->second.lost = of->second.lost || of->second.is_short();
  std::set<std::string> domains;
  of_kind_.resize(kinds_.size());
  for (const auto& [name, at] : nodes_) {
    if (at.open && at.known) domains.insert(at.domain);
    const NodeRecord*& largest = of_kind_[at.kind];
    if (!largest || largest->gpus.size() < at.record->gpus.size()) largest = at.record;
  }
  domains_ = static_cast<int>(domains.size());
  const std::vector<std::string> models = gpu_models(view_);
  for (auto& [name, of] : services_) {
    guess(of);
    if (std::ranges::all_of(of.guess, [](const Guess& one) { return one.rate_per_slice <= 0; }))
      keep_terms(of, planner_.why_none(*of.terms, models));
  }
  std::ranges::stable_sort(order_, std::greater<>{},
                           [&](const Of* of) { return std::pair(of->priority, of->size()); });
}

void Leader::Sight::look_at(const NodeRecord& record) {
  At& at = nodes_[record.node];
  at.record = &record;
  if (const auto part = view_.parts.find(record.node); part != view_.parts.end())
    at.part = &part->second;
  revision_ = std::max(revision_, std::max(record.taken, record.ready) + 1);
  at.domain = domain_of(record, view_.wanted->survive, feeds_);
  at.counts = std::ranges::count(view_.wanted->drained, record.node) == 0;
  at.has = rates_of(record.carries);
  at.base = at.part ? rates_of(*at.part) : at.has;
  at.held = at.next = highest(at.base, at.has);
  at.pending = at.part && at.part->revision > record.ready;
  at.able = record.trouble.empty() && !view_.overdue.contains(record.node);
  at.open = at.counts && at.able;
  at.starved = !why_last(view_, record.node).empty();
  std::string models;
  for (const NodeGpu& gpu : record.gpus) {
    if (!gpu.unusable.empty() || models.ends_with(gpu.model + ",")) continue;
    models += gpu.model + ",";
    if (planner_.knows(gpu.model)) continue;
    at.known = false;
    lacks_[gpu.model].push_back(record.node);
  }
  at.kind = kinds_.emplace(models, kinds_.size()).first->second;
  at.total = planner_.slices(record);
  at.used = at.part ? planner_.slices(at.part->plan) : 0;
  if (!at.counts) return;
  const bool comes = at.pending && at.able;
  for (const auto& [service, rate] : comes ? at.base : lowest(at.base, at.has))
    if (const auto of = services_.find(service); of != services_.end()) count(of->second, at, rate);
  if (comes) return;
  for (const auto& [service, rate] : at.base)
    if (const auto of = services_.find(service);
        of != services_.end() && more(rate, rate_in(at.has, service)))
      of->second.lost = true;
}

void Leader::Sight::count(Of& of, const At& at, double rate) {
  double& now = of.on[at.record->node];
  of.by_domain[at.domain] += rate - now;
  now = rate;
  if (rate <= 0) of.on.erase(at.record->node);
}

// Who waits for a node that will not be as it waits for it, or for more than others will carry.
bool Leader::Sight::waits_in_vain(const At& at) const {
  if (!at.pending || at.record->taken >= at.part->revision) return false;
  if (std::ranges::any_of(at.part->elsewhere, [&](const Carried& one) {
        const auto of = services_.find(one.service);
        return of != services_.end() && of->second.elsewhere(at.record->node) < one.rate_rps;
      }))
    return true;
  return std::ranges::any_of(at.part->waits_for, [&](const Wait& wait) {
    const auto other = nodes_.find(wait.node);
    if (other == nodes_.end() || !other->second.open) return true;
    const At& is = other->second;
    return is.record->ready < wait.revision && (!is.part || is.part->revision < wait.revision);
  });
}

bool Leader::Sight::has_other_terms(const At& at) const {
  return at.part &&
         std::ranges::any_of(at.part->plan.services, [&](const plan::PlannedService& row) {
           const auto of = services_.find(row.name);
           return of != services_.end() && !same_terms(row, of->second.wanted(), at.base);
         });
}

void Leader::Sight::guess(Of& of) {
  of.guess.clear();
  for (const NodeRecord* node : of_kind_) of.guess.push_back(planner_.guess(*of.terms, *node));
}

// Whether an empty node of some kind carries very little of it.
bool Leader::Sight::can_be_met(const Of& of) {
  const auto little =
      with_steps({piece_of(of.wanted(), of.terms->rate.value * kVeryLittle, of.need)});
  return std::ranges::any_of(of_kind_, [&](const NodeRecord* node) {
    NodeRecord empty{.node = node->node, .gpus = node->gpus};
    for (NodeGpu& gpu : empty.gpus) gpu.lent.clear();
    return planner_.plan({empty, little}).has_value();
  });
}

void Leader::Sight::keep_terms(Of& of, const std::string& why) {
  of.unmet = why;
  const plan::Service* older = why.empty() ? nullptr : older_.take(view_, *of.terms);
  if (older == nullptr) return;
  of.terms = older;
  of.older = true;
  guess(of);
}

// ---- plans of nodes

std::vector<plan::Service> Leader::Sight::pieces_at(const Rates& rates) const {
  std::vector<plan::Service> all;
  for (const auto& [name, rate] : rates)
    if (const auto of = services_.find(name); of != services_.end() && rate > 0)
      all.push_back(piece_of(of->second.wanted(), rate, of->second.need));
  return all;
}

Result<plan::ServingPlan> Leader::Work::plan_at(const At& at, const Rates& rates, Moves moves) {
  return planner_.plan({*at.record, with_steps(pieces_at(rates)), read_.file->survive,
                        at.part ? &at.part->plan : nullptr, moves});
}

// The node carries these rates, or as many of them as fit; of the lowest priority the smallest go.
void Leader::Work::settle(At& at, Rates rates, const std::string& cause, bool loses) {
  std::erase_if(rates, [&](const auto& one) { return !services_.contains(one.first); });
  auto plan = plan_at(at, rates, Moves::any);
  while (!plan && !rates.empty()) {
    rates.erase(std::ranges::min_element(rates, {}, [&](const auto& one) {
      const Of& of = services_.at(one.first);
      return std::pair(of.priority, of.guess[at.kind].slices(one.second));
    }));
    plan = plan_at(at, rates, Moves::any);
  }
  if (!plan) return;
  for (const auto& [service, rate] : at.held) {
    const auto of = services_.find(service);
    if (of == services_.end()) continue;
    const double less = rate - rate_in(rates, service);
    const bool lost = loses && more(rate, rate_in(rates, service));  // drained, too
    of->second.lost = of->second.lost || lost;
    if (less > 0) at.gave_up[service] = less;
    double stays = rate_in(rates, service);
    if (is_unserved(*at.record, service)) stays = std::min(stays, rate_in(at.has, service));
    if (at.counts) count(of->second, at, stays);
  }
  at.next = std::move(rates);
  at.used = planner_.slices(*plan);
  at.plan = *std::move(plan);
  at.changed = at.grows = true;
  at.cause = cause;
}

void Leader::Work::mend() {
  for (const auto& [name, at] : nodes_) {
    if (!at.known || !has_other_terms(at)) continue;
    for (const plan::PlannedService& row : at.part->plan.services)
      if (const auto of = services_.find(row.name);
          of != services_.end() && !of->second.older &&
          !same_terms(row, of->second.wanted(), at.base) && !can_be_met(of->second))
        keep_terms(of->second, fmt::format("no GPU of the fleet keeps its terms by model '{}'",
                                           of->second.terms->model));
  }
  for (auto& [name, at] : nodes_)
    if (!at.known)
      continue;
    else if (lost_gpus(*at.record, at.part))
      settle(at, at.held, "its GPUs are others");
    else if (has_other_terms(at))  // by somebody's wish: nothing is lost
      settle(at, at.held, "the terms of its services are others", false);
  for (auto& [name, at] : nodes_) {
    if (!at.changed && at.known && waits_in_vain(at))
      settle(at, at.held, "whom it waited for will not carry its services");
    at.mended = at.changed && (lost_gpus(*at.record, at.part) || !has_other_terms(at));
  }
}

// ---- more

// What one node should get of a service.
double Leader::Work::piece_size(const Of& of) const {
  const double less = missing(of);
  if (!survives() || of.anywhere) return less * of.cut;
  double largest = 0;
  for (const auto& [domain, rate] : of.by_domain) largest = std::max(largest, rate);
  const int pieces = of.size() < kSmallSlices ? 2 : std::clamp(domains_, 2, kPiecesToSurvive);
  return std::min(less, std::max(largest, of.need / (pieces - 1))) * of.cut;
}

// Instances may be larger than what they carry by now needs.
double Leader::Work::used(const At& at, Moves moves) const {
  if (moves == Moves::none) return at.used;
  double needed = 0;
  for (const auto& [service, rate] : at.next)
    if (const auto of = services_.find(service); of != services_.end())
      needed += of->second.guess[at.kind].slices(rate);
  return std::min(at.used, needed);
}

// Null: there is none. The piece becomes smaller where no node has room for all of it. To survive,
// no domain gets more than a piece of the usual size.
Leader::Work::At* Leader::Work::place_for(const Of& of, double& piece) {
  At *best = nullptr, *widest = nullptr;
  std::tuple<bool, bool, bool, double> best_key;
  double free = 0;  // of the widest
  const double most = piece * (1 + kTiny);
  for (auto& [name, at] : nodes_) {
    if (!at.gets() || of.tried.contains(name)) continue;
    if (is_unserved(*at.record, of.terms->name)) continue;
    if (survives() && !of.anywhere && rate_in(of.by_domain, at.domain) + piece > most) continue;
    const double there = rate_in(at.next, of.terms->name);
    const double takes = of.guess[at.kind].slices(rate_in(of.on, name) + piece - there);
    const double room = at.total - used(at, of.moves), left = room - takes;
    if (std::isinf(takes)) continue;
    if (!widest || std::pair(!at.starved, room) > std::pair(!widest->starved, free))
      widest = &at, free = room;
    if (left < 0) continue;
    const std::tuple key(at.starved, there <= 0, left < at.total * (1 - kFilled), left);
    if (!best || key < best_key) best = &at, best_key = key;
  }
  if (best || !widest) return best;
  if (of.terms->tokens || free <= 0) return free > 0 ? widest : nullptr;
  const double per_slice = piece / of.guess[widest->kind].slices(piece);
  const double least = std::min(of.need * kLeastPiece, widest->total * kLeastInPlace * per_slice);
  piece = std::min(piece, std::max(free * kFilled * per_slice, least));
  return widest;
}

// Whether a node was found to try the service, or some of it, on.
bool Leader::Work::propose(Of& of) {
  const bool may_loosen = survives() && !margins_;
  if (of.tried.size() >= kTried) of.make_smaller(may_loosen);
  double piece = piece_size(of);
  if (At* at = place_for(of, piece)) {
    const std::string& name = of.terms->name;
    const double on = rate_in(of.on, at->record->node), there = rate_in(at->next, name);
    at->next_before.emplace(name, there);
    at->on_before.emplace(name, on);
    at->adds.push_back(name);
    at->next[name] = std::max(there, on + piece);
    at->used += of.guess[at->kind].slices(on + piece - there);
    count(of, *at, on + piece);
    return true;
  }
  of.make_smaller(may_loosen);
  return false;
}

// Plans what was proposed for a node; what does not fit is taken back, the newest first.
void Leader::Work::plan_adds(At& at) {
  for (;;) {
    Moves moves = Moves::none;
    for (const std::string& service : at.adds) moves = std::max(moves, services_.at(service).moves);
    auto plan = plan_at(at, at.next, moves);
    if (plan && !at.adds.empty()) {
      at.plan = *std::move(plan);
      at.changed = at.grows = true;
    }
    if (plan || at.adds.empty()) break;
    take_back(at, at.adds.back(), to_string(plan.error()));
    if (at.adds.empty()) break;
  }
  at.used = at.plan ? planner_.slices(*at.plan) : at.part ? planner_.slices(at.part->plan) : 0;
  at.adds.clear();
  at.next_before.clear();
  at.on_before.clear();
}

void Leader::Work::take_back(At& at, const std::string service, const std::string& why) {
  std::erase(at.adds, service);
  Of& of = services_.at(service);
  of.tried.insert(at.record->node);
  of.why = why;
  count(of, at, at.on_before.at(service));
  if (const double before = at.next_before.at(service); before > 0)
    at.next[service] = before;
  else
    at.next.erase(service);
}

void Leader::Work::grow() {
  for (Of* of : order_) {
    of->cut = 1, of->moves = Moves::none, of->anywhere = false;
    of->tried.clear();
  }
  for (int round = 0; round < kRounds; ++round) {
    bool proposed = false, again = false;
    for (Of* of : order_) {
      for (int pieces = 0; missing(*of) > 0 && pieces < kPiecesToSurvive * 8; ++pieces) {
        const auto before = std::tuple(of->cut, of->moves, of->anywhere);
        if (!propose(*of)) {
          again = again || before != std::tuple(of->cut, of->moves, of->anywhere);
          break;
        }
        proposed = true;
      }
    }
    for (auto& [name, at] : nodes_)
      if (!at.adds.empty()) plan_adds(at);
    if (!proposed && !again) return;
  }
}

// Pieces are as large as guesses say, and smaller where nodes refuse them. What has no room for all
// of it gets all that fits beside others where it is new: so who asks for more gets no less.
void Leader::Work::fill(Of& of) {
  for (auto& [name, at] : nodes_) {
    if (missing(of) <= 0 || fills_ >= kMostFills) return;
    const bool room = at.next.contains(of.terms->name) || at.used < at.total;
    if (at.gets() && room && !at.held.contains(of.terms->name) &&
        !is_unserved(*at.record, of.terms->name))
      fill(at, of);
  }
}

// Planners find plans for some rates and none for lower ones: so the rates that are tried do not
// hang on what is asked for. The least that is enough, else the greatest. Where there is no room
// for the least of them no other is tried, so that plans are left for other nodes and services.
void Leader::Work::fill(At& at, Of& of) {
  const std::string& name = of.terms->name;
  const double has = rate_in(at.next, name), most = has + missing(of);
  const double per_slice = of.guess[at.kind].rate_per_slice;
  if (per_slice <= 0) return;
  std::vector<double> tried;  // falling
  double highest = of.terms->tokens ? most : per_slice * kGuessedLow * at.total;
  const double least = std::max(has, of.terms->tokens ? 0 : per_slice * kLeastSlices);
  for (; highest > least && tried.size() < kMostTried;
       highest *= of.terms->tokens || tried.size() > kMostTried / 2 ? 0.5 : kFallsBy)
    tried.push_back(highest);
  double fits = has, too_much = most;
  const auto takes = [&](double rate) {
    Rates rates = at.next;
    rates[name] = rate;
    if (fills_++ >= kMostFills) return false;
    auto plan = plan_at(at, rates, Moves::none);
    if (!plan) return false;
    fits = rate;
    at.next = std::move(rates);
    at.used = planner_.slices(*plan);
    at.plan = *std::move(plan);
    at.changed = at.grows = true;
    count(of, at, rate);
    return true;
  };
  const auto less = std::ranges::find_if(tried, [&](double rate) { return rate < most; });
  if (takes(most)) return;
  if (has <= 0 && fills_++ < kMostFills && !tried.empty()) {
    Rates rates = at.next;
    rates[name] = tried.back();
    if (!plan_at(at, rates, Moves::none)) return;
  }
  if (std::any_of(std::make_reverse_iterator(less), tried.rend(), takes)) return;
  for (auto one = less; one != tried.end() && !takes(*one); ++one) too_much = *one;
  while (fits > 0 && too_much - fits > kFilledTo * too_much && fills_ < kMostFills)
    if (const double rate = (fits + too_much) / 2; !takes(rate)) too_much = rate;
}

// Who has no room gets that of margins, then that of those that are of less priority.
void Leader::Work::make_room() {
  for (Of* of : order_) {
    if (missing(*of) <= 0) continue;
    std::vector<At*> fullest;
    for (auto& [name, at] : nodes_)
      if (at.gets() && !at.changed && !at.pending && !is_unserved(*at.record, of->terms->name))
        fullest.push_back(&at);
    std::ranges::stable_sort(fullest, std::greater<>{}, &At::used);
    for (At* at : fullest)
      if (make_room_at(*at, *of)) break;
  }
}

// Of this node's services those that may go for another: margins first, the largest first.
std::vector<std::string> Leader::Work::victims_at(const At& at, const Of& of) const {
  std::vector<std::tuple<bool, int, double, std::string>> all;
  for (const auto& [service, rate] : at.base) {
    const auto found = services_.find(service);
    if (found == services_.end() || &found->second == &of) continue;
    const Of& its = found->second;
    const bool serves = !its.can_spare(at, rate_in(its.on, at.record->node), false);
    if (serves ? its.priority < of.priority : survives() && its.priority <= of.priority)
      all.emplace_back(serves, its.priority, -its.guess[at.kind].slices(rate), service);
  }
  std::ranges::sort(all);
  std::vector<std::string> names;
  for (const auto& one : all) names.push_back(std::get<3>(one));
  return names;
}

// Whether there is a plan with what is missing, or with half of it, and with fewer of the others.
bool Leader::Work::make_room_at(At& at, Of& of) {
  if (of.guess[at.kind].slices(missing(of) * 0.5) > at.total) return false;
  const std::string& name = of.terms->name;
  Rates rates = at.base;
  const double there = rate_in(rates, name);
  for (const std::string& victim : victims_at(at, of)) {
    rates.erase(victim);
    for (const double share : {1.0, 0.5}) {
      rates[name] = there + missing(of) * share;
      if (!plan_at(at, rates, Moves::any)) continue;
      settle(at, rates, fmt::format("room for {} is made", name));
      count(of, at, rate_in(at.next, name));
      return true;
    }
  }
  return false;
}

// ---- less

// Takes from the rates of a node what its services do not need.
void Leader::Work::trim(At& at, Rates& next) {
  for (auto& [service, rate] : next) {
    const auto found = services_.find(service);
    if (found == services_.end()) {
      rate = 0;
      continue;
    }
    Of& of = found->second;
    if (!at.counts) {
      if (missing(of) <= 0) rate = 0;
      continue;
    }
    const double counted = rate_in(of.on, at.record->node);
    // Some of its workers are gone: nobody knows whose instances a smaller plan would keep.
    if (counted > 0 && is_unserved(*at.record, service)) continue;
    if (rate > counted && missing(of) <= 0) rate = counted;  // it is leaving already
    double all = 0, largest = 0;
    for (const auto& [domain, there] : of.by_domain)
      all += there, largest = std::max(largest, there);
    const double over = (survives() ? all - largest : all) - of.need;
    if (over <= of.need * kSlack && !of.can_spare(at, rate, survives())) continue;
    if (of.can_spare(at, rate, survives()))
      rate = 0;
    else if (over > of.need * kSlack && !survives())
      rate -= over;
    else
      continue;
    count(of, at, rate);
  }
  std::erase_if(next, [](const auto& one) { return one.second <= 0; });
}

void Leader::Work::shrink_at(At& at) {
  if (at.grows || (at.pending && at.counts && at.able)) return;
  if (!at.known && std::ranges::any_of(at.base, [&](const auto& one) {
        const auto of = services_.find(one.first);  // it can become empty, and nothing else
        return of != services_.end() && (at.counts || missing(of->second) > 0);
      }))
    return;
  Rates next = at.base, counted;
  for (const auto& [service, rate] : at.base)
    if (const auto of = services_.find(service); of != services_.end())
      counted[service] = rate_in(of->second.on, at.record->node);
  trim(at, next);
  if (same_rates(next, at.base)) return;
  auto plan = plan_at(at, next, Moves::any);
  if (!plan) return;
  // Less of a service on the same instances frees nothing: who else has it may have less instead.
  if (at.part && same_rates(counted, at.base) && next.size() == at.base.size() &&
      planner_.slices(*plan) >= planner_.slices(at.part->plan)) {
    for (const auto& [service, rate] : counted) count(services_.at(service), at, rate);
    return;
  }
  at.next = std::move(next);
  at.plan = *std::move(plan);
  at.changed = true;
}

// The fullest nodes first.
void Leader::Work::shrink() {
  std::vector<At*> order;
  for (auto& [name, at] : nodes_) order.push_back(&at);
  std::ranges::stable_sort(order, std::greater<>{}, [](const At* at) {
    return std::pair(!at->counts, at->total > 0 ? at->used / at->total : 0);
  });
  for (At* at : order) shrink_at(*at);
}

// ---- what is said

// Until those that will carry, and do not yet, what this node carries no more have carried out
// their parts, and others have what is needed of it.
void Leader::Work::hold_back(Part& part, const At& at) const {
  if (at.grows) return;
  for (const auto& [name, other] : nodes_) {
    if (&other == &at || !other.counts || !other.able) continue;  // nobody waits for who cannot
    // It may have taken less meanwhile, of a part that this one came instead of.
    const bool unsure = other.pending && !other.grows && other.part->waits_for.empty();
    const bool due = std::ranges::any_of(at.held, [&](const auto& one) {
      const auto of = services_.find(one.first);
      if (of == services_.end() || !more(one.second, rate_in(at.next, one.first))) return false;
      const double on = rate_in(of->second.on, name);
      return more(on, rate_in(other.has, one.first)) || (on > 0 && unsure);
    });
    if (!due) continue;
    if (other.grows)
      part.waits_for.push_back({name, revision_});
    else if (other.pending)
      part.waits_for.push_back({name, other.part->revision});
  }
  for (const auto& [service, rate] : at.held) {
    const auto of = services_.find(service);
    const double next = rate_in(at.next, service);
    if (of == services_.end() || !more(rate, next)) continue;
    const double due = of->second.need * kEnough - next;
    if (due > 0) part.elsewhere.push_back({service, due});
  }
}

std::vector<ServiceOutlook> Leader::Work::outlooks() const {
  std::vector<ServiceOutlook> all;
  for (const auto& [name, of] : services_) {
    ServiceOutlook& one = all.emplace_back(ServiceOutlook{.name = name, .need_rps = of.need});
    one.on = of.on;
    for (const auto& [node, rate] : of.on) one.planned_rps += rate;
    if (of.older) one.why = "goes on by the terms that it has: " + of.unmet;
    one.unmet = of.older || (missing(of) > 0 && !of.unmet.empty());
    if (of.older || missing(of) <= 0) continue;
    one.margin_only = missing_of(of.need, of.by_domain, false) <= 0;
    one.why = nodes_.empty()    ? "no node is there"
              : one.unmet       ? of.unmet
              : one.margin_only ? "no node has room for what it needs when another is lost"
                                : "no node has room for it";
    if (!of.why.empty()) one.why += ": " + of.why;
    for (const auto& [model, nodes] : lacks_)
      one.why += fmt::format("; the leader has no profiles of {}", model);
  }
  for (const auto& [node, at] : nodes_)
    for (const auto& [service, rate] : at.has) {
      const auto one = std::ranges::lower_bound(all, service, {}, &ServiceOutlook::name);
      if (one != all.end() && one->name == service) one->carried_rps += rate;
    }
  return all;
}

void Leader::Work::tell(Decision& decision, const At& at, const Part& part) const {
  bool urgent = false;
  std::string less, gains;
  for (const auto& [service, of] : services_) {
    const double was = rate_in(at.held, service), is = rate_in(at.next, service);
    // Its own part may be what is lost: then it gains what it does not carry.
    urgent = urgent || (of.lost && more(is, at.pending ? was : rate_in(at.has, service)));
    if (more(is, was)) {
      gains += fmt::format("{}{} {} req/s", gains.empty() ? "" : ", ", service, number_text(is));
    } else if (more(was, is)) {
      less += fmt::format("{}{} {} to {} req/s", less.empty() ? "" : ", ", service,
                          number_text(was), number_text(is));
    }
  }
  std::string text = part.node + ":";
  if (!gains.empty()) text += " carries " + gains;
  if (!less.empty()) text += fmt::format("{} less of {}", gains.empty() ? "" : ";", less);
  for (const Wait& wait : part.waits_for)
    text += fmt::format(", once {} has revision {}", wait.node, wait.revision);
  if (!at.cause.empty()) text += fmt::format(" ({})", at.cause);
  decision.changes.push_back(text);
  decision.urgent.push_back(urgent || at.mended);
}

Decision Leader::Work::word() const {
  Decision decision;
  std::string key = std::to_string(revision_);  // a yes is to what is decided now, not later again
  std::map<std::string, std::uint64_t> terms;
  for (const bool grows : {true, false})
    for (const auto& [name, at] : nodes_) {
      if (!at.changed || at.grows != grows) continue;
      Part part;
      part.node = name;
      part.revision = revision_;
      part.by = leader_;
      part.cause = at.cause;
      hold_back(part, at);
      part.services = read_.written.text(pieces_at(at.next), older_.written());
      part.plan = *at.plan;
      Rates gave_up = at.gave_up;
      if (at.part)
        for (const Carried& one : at.part->gave_up) gave_up.emplace(one.service, one.rate_rps);
      std::erase_if(gave_up, [&](const auto& one) {
        const auto of = services_.find(one.first);
        return of == services_.end() || !of->second.is_short();
      });
      part.gave_up = carried_of(gave_up);
      tell(decision, at, part);
      key += name;
      for (const auto& [service, rate] : at.next) {
        const auto [its, anew] = terms.emplace(service, 0);
        if (const auto of = services_.find(service); anew && of != services_.end())
          its->second = text_hash(
              read_.written.text({piece_of(of->second.wanted(), 1, 1)}, older_.written()));
        key += fmt::format("|{}={:.9g},{:x}", service, rate, its->second);
      }
      if (part.cause.empty()) part.cause = decision.changes.back();
      decision.parts.push_back(std::move(part));
    }
  decision.services = outlooks();
  for (const auto& [model, nodes] : lacks_) {
    const std::vector named(nodes.begin(), nodes.begin() + std::min(std::ssize(nodes), kNamed));
    decision.notes.push_back(fmt::format(
        "the leader has no profiles of {}: nothing changes on {}{}", model, joined(named, ", "),
        std::ssize(nodes) > kNamed ? fmt::format(" and {} more", std::ssize(nodes) - kNamed) : ""));
  }
  if (std::string own = why_own_domains(view_); !own.empty())
    decision.notes.push_back(std::move(own));
  decision.digest = fmt::format("{:016x}", text_hash(key));
  return decision;
}

// ---- the interface

Leader::Leader(FleetGround ground) : planner_(std::move(ground)), read_(std::make_unique<Read>()) {}
Leader::~Leader() = default;

ServicesRead& Leader::services() { return read_->texts; }

long Leader::plans_made() const { return planner_.plans_made(); }

Result<Decision> Leader::decide(const FleetView& view, const std::string& leader) {
  if (!says_what_is_wanted(view)) return Decision{};
  const std::string& text = view.wanted->services;
  auto file = TRY(read_->texts.of(text));
  if (file != read_->file)
    read_->written = PartServices(*parse_document("wanted", text));
  read_->file = std::move(file);
  return Work(planner_, *read_, view, leader).decide();
}

}  // namespace partita::fleet
