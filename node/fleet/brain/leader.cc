#include "fleet/brain/leader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <tuple>

#include "fleet/brain/decision_word.h"
#include "fleet/brain/sight.h"

namespace partita::fleet {
namespace {

constexpr double kSlack = 0.25;           // above the need that is not worth a change
constexpr double kLeastPiece = 1.0 / 32;  // of a need
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
constexpr int kMostFills = 600;  // plans of a decision for such rates

bool same_rates(const Rates& a, const Rates& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && !more(x.second, y.second) && !more(y.second, x.second);
  });
}

// Some that its part is on cannot be used any more.
bool lost_gpus(const NodeRecord& node, const Part* part) {
  return part != nullptr && std::ranges::any_of(part->plan.gpus, [&](const plan::PlannedGpu& gpu) {
           const auto is = std::ranges::find(node.gpus, gpu.index, &NodeGpu::index);
           return !gpu.instances.empty() && (is == node.gpus.end() || !is->unusable.empty());
         });
}

}  // namespace

// One decision.
class Leader::Work : private Sight {
 public:
  using Sight::Sight;

  Decision decide(const std::string& leader) {
    look();
    mend();
    for (const bool also : {false, true}) {
      if (also && !survives()) break;
      margins = also;
      grow();
      if (also) continue;
      make_room();
      for (Of* of : order) fill(*of);
    }
    shrink();
    return decision_of(*this, leader);
  }

 private:
  void mend();
  // `loses`: what has no room there any more is lost, so it is made up for without asking.
  void settle(At& at, Rates rates, const std::string& cause, bool loses = true);
  Result<plan::ServingPlan> plan_at(const At& at, const Rates& rates, Moves moves);
  void grow();
  void make_smaller(Of& of) const;
  bool propose(Of& of);
  void make_room();
  bool is_margin(const At& at, const Of& of) const;
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

  int fills_ = 0;
};

Result<plan::ServingPlan> Leader::Work::plan_at(const At& at, const Rates& rates, Moves moves) {
  return planner.plan({*at.record, with_steps(pieces_at(rates)), read.file->survive,
                       at.part ? &at.part->plan : nullptr, moves});
}

// The node carries these rates, or as many of them as fit; of the lowest priority the smallest go.
void Leader::Work::settle(At& at, Rates rates, const std::string& cause, bool loses) {
  std::erase_if(rates, [&](const auto& one) { return !services.contains(one.first); });
  auto plan = plan_at(at, rates, Moves::any);
  while (!plan && !rates.empty()) {
    rates.erase(std::ranges::min_element(rates, {}, [&](const auto& one) {
      const Of& of = services.at(one.first);
      return std::pair(of.priority, of.guess[at.kind].slices(one.second));
    }));
    plan = plan_at(at, rates, Moves::any);
  }
  if (!plan) return;
  for (const auto& [service, rate] : at.held) {
    const auto of = services.find(service);
    if (of == services.end()) continue;
    const double less = rate - rate_in(rates, service);
    const bool lost = loses && more(rate, rate_in(rates, service));  // drained, too
    of->second.lost = of->second.lost || lost;
    if (less > 0) at.gave_up[service] = less;
    double stays = rate_in(rates, service);
    if (is_unserved(*at.record, service)) stays = std::min(stays, rate_in(at.has, service));
    if (at.counts) count(of->second, at, stays);
  }
  at.next = std::move(rates);
  at.used = planner.slices(*plan);
  at.plan = *std::move(plan);
  at.changed = at.grows = true;
  at.cause = cause;
}

void Leader::Work::mend() {
  for (const auto& [name, at] : nodes) {
    if (!at.known || !has_other_terms(at)) continue;
    for (const plan::PlannedService& row : at.part->plan.services)
      if (const auto of = services.find(row.name); of != services.end() && !of->second.older &&
                                                   !same_terms(row, of->second.wanted(), at.base) &&
                                                   !can_be_met(of->second))
        keep_terms(of->second, fmt::format("no GPU of the fleet keeps its terms by model '{}'",
                                           of->second.terms->model));
  }
  for (auto& [name, at] : nodes)
    if (!at.known)
      continue;
    else if (lost_gpus(*at.record, at.part))
      settle(at, at.held, "its GPUs are others");
    else if (has_other_terms(at))  // by somebody's wish: nothing is lost
      settle(at, at.held, "the terms of its services are others", false);
  for (auto& [name, at] : nodes) {
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
  const int pieces = of.size() < kSmallSlices ? 2 : std::clamp(domains, 2, kPiecesToSurvive);
  return std::min(less, std::max(largest, of.need / (pieces - 1))) * of.cut;
}

// Instances may be larger than what they carry by now needs.
double Leader::Work::used(const At& at, Moves moves) const {
  if (moves == Moves::none) return at.used;
  double needed = 0;
  for (const auto& [service, rate] : at.next)
    if (const auto of = services.find(service); of != services.end())
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
  for (auto& [name, at] : nodes) {
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

// Smaller pieces, for which any node may have room; not below the least. Before they become too
// small to be worth it, larger ones again, for which instances of others may move. Last, if it may
// be, where a loss takes more of it than it should: it has no margin then.
void Leader::Work::make_smaller(Of& of) const {
  const bool any = of.moves == Moves::any;
  const bool last = of.cut * 0.5 < (any ? kLeastPiece : kLeastInPlace);
  if (last && any && (of.anywhere || !survives() || margins)) return;
  of.anywhere = of.anywhere || (last && any);
  of.cut = last ? 1 : of.cut * 0.5;
  if (last) of.moves = any ? Moves::none : of.moves == Moves::none ? Moves::in_turn : Moves::any;
  of.tried.clear();
}

// Whether a node was found to try the service, or some of it, on.
bool Leader::Work::propose(Of& of) {
  if (of.tried.size() >= kTried) make_smaller(of);
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
  make_smaller(of);
  return false;
}

// Plans what was proposed for a node; what does not fit is taken back, the newest first.
void Leader::Work::plan_adds(At& at) {
  for (;;) {
    Moves moves = Moves::none;
    for (const std::string& service : at.adds) moves = std::max(moves, services.at(service).moves);
    auto plan = plan_at(at, at.next, moves);
    if (plan && !at.adds.empty()) {
      at.plan = *std::move(plan);
      at.changed = at.grows = true;
    }
    if (plan || at.adds.empty()) break;
    take_back(at, at.adds.back(), to_string(plan.error()));
    if (at.adds.empty()) break;
  }
  at.used = at.plan ? planner.slices(*at.plan) : at.part ? planner.slices(at.part->plan) : 0;
  at.adds.clear();
  at.next_before.clear();
  at.on_before.clear();
}

void Leader::Work::take_back(At& at, const std::string service, const std::string& why) {
  std::erase(at.adds, service);
  Of& of = services.at(service);
  of.tried.insert(at.record->node);
  of.why = why;
  count(of, at, at.on_before.at(service));
  if (const double before = at.next_before.at(service); before > 0)
    at.next[service] = before;
  else
    at.next.erase(service);
}

void Leader::Work::grow() {
  for (Of* of : order) {
    of->cut = 1, of->moves = Moves::none, of->anywhere = false;
    of->tried.clear();
  }
  for (int round = 0; round < kRounds; ++round) {
    bool proposed = false, again = false;
    for (Of* of : order) {
      for (int pieces = 0; missing(*of) > 0 && pieces < kPiecesToSurvive * 8; ++pieces) {
        const auto before = std::tuple(of->cut, of->moves, of->anywhere);
        if (!propose(*of)) {
          again = again || before != std::tuple(of->cut, of->moves, of->anywhere);
          break;
        }
        proposed = true;
      }
    }
    for (auto& [name, at] : nodes)
      if (!at.adds.empty()) plan_adds(at);
    if (!proposed && !again) return;
  }
}

// Pieces are as large as guesses say, and smaller where nodes refuse them. What has no room for all
// of it gets all that fits beside others where it is new: so who asks for more gets no less.
void Leader::Work::fill(Of& of) {
  for (auto& [name, at] : nodes) {
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
    at.used = planner.slices(*plan);
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
  for (Of* of : order) {
    if (missing(*of) <= 0) continue;
    std::vector<At*> fullest;
    for (auto& [name, at] : nodes)
      if (at.gets() && !at.changed && !at.pending && !is_unserved(*at.record, of->terms->name))
        fullest.push_back(&at);
    std::ranges::stable_sort(fullest, std::greater<>{}, &At::used);
    for (At* at : fullest)
      if (make_room_at(*at, *of)) break;
  }
}

// Whether other nodes carry what it needs, now and by their parts.
bool Leader::Work::is_margin(const At& at, const Of& of) const {
  double all = 0;
  for (const auto& [name, rate] : of.on)
    if (name != at.record->node) all += std::min(rate, rate_in(nodes.at(name).has, of.terms->name));
  return !more(of.need, all);
}

// Of this node's services those that may go for another: margins first, the largest first.
std::vector<std::string> Leader::Work::victims_at(const At& at, const Of& of) const {
  std::vector<std::tuple<bool, int, double, std::string>> all;
  for (const auto& [service, rate] : at.base) {
    const auto found = services.find(service);
    if (found == services.end() || &found->second == &of) continue;
    const Of& its = found->second;
    const bool serves = !is_margin(at, its);
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
    const auto found = services.find(service);
    if (found == services.end()) {
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
        const auto of = services.find(one.first);  // it can become empty, and nothing else
        return of != services.end() && (at.counts || missing(of->second) > 0);
      }))
    return;
  Rates next = at.base, counted;
  for (const auto& [service, rate] : at.base)
    if (const auto of = services.find(service); of != services.end())
      counted[service] = rate_in(of->second.on, at.record->node);
  trim(at, next);
  if (same_rates(next, at.base)) return;
  auto plan = plan_at(at, next, Moves::any);
  if (!plan) return;
  // Less of a service on the same instances frees nothing: who else has it may have less instead.
  if (at.part && same_rates(counted, at.base) && next.size() == at.base.size() &&
      planner.slices(*plan) >= planner.slices(at.part->plan)) {
    for (const auto& [service, rate] : counted) count(services.at(service), at, rate);
    return;
  }
  at.next = std::move(next);
  at.plan = *std::move(plan);
  at.changed = true;
}

// The fullest nodes first.
void Leader::Work::shrink() {
  std::vector<At*> fullest;
  for (auto& [name, at] : nodes) fullest.push_back(&at);
  std::ranges::stable_sort(fullest, std::greater<>{}, [](const At* at) {
    return std::pair(!at->counts, at->total > 0 ? at->used / at->total : 0);
  });
  for (At* at : fullest) shrink_at(*at);
}

// ---- the interface

Leader::Leader(FleetGround ground)
    : planner_(std::move(ground)), read_(std::make_unique<WantedRead>()) {}
Leader::~Leader() = default;

ServicesRead& Leader::services() { return read_->texts; }

long Leader::plans_made() const { return planner_.plans_made(); }

Result<Decision> Leader::decide(const FleetView& view, const std::string& leader) {
  if (!says_what_is_wanted(view)) return Decision{};
  const std::string& text = view.wanted->services;
  auto file = TRY(read_->texts.of(text));
  if (file != read_->file) read_->written = PartServices(*parse_document("wanted", text));
  read_->file = std::move(file);
  return Work(planner_, *read_, view).decide(leader);
}

}  // namespace partita::fleet
