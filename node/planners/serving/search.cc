#include "planners/serving/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/hash.h"
#include "base/index.h"

namespace partita::planners::serving {
namespace {

constexpr double kSlackTolerance = 1e-7;
constexpr std::size_t kTabuCandidates = 40;  // per kind
constexpr double kTieTolerance = 1e-3;       // what a cover's price may make of a tie, and more
// Where watts count.
constexpr std::size_t kNearCovers = 60;    // per kind, for the tabu search
constexpr std::size_t kAllCovers = 1'500;  // per kind, for the proof
constexpr std::size_t kMostUnits = 40;     // services of a proof
constexpr long kProofChecks = 3'000'000, kChecksPerNode = 64;  // of a proof: covers looked at
constexpr double kWork = 1e7;              // of a tabu search: moves looked at times rows
constexpr double kNoBetter = 1e-9;
constexpr double kNear = 0.15;  // of the cheapest cover: how much dearer ones are tried

// A set of 128-bit fingerprints; open addressing, never iterated.
class FingerprintSet {
 public:
  struct Fingerprint {
    std::uint64_t low = 0, high = 0;
    bool operator==(const Fingerprint&) const = default;
  };
  bool contains(const Fingerprint& f) const { return slots_[find(f)] == f; }
  void insert(const Fingerprint& f) {
    if (2 * ++count_ > slots_.size()) grow();
    slots_[find(f)] = f;
  }

 private:
  std::size_t find(const Fingerprint& f) const {
    std::size_t at = f.low & (slots_.size() - 1);
    while (slots_[at] != Fingerprint{} && slots_[at] != f) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void grow() {
    std::vector<Fingerprint> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Fingerprint& f : old)
      if (f != Fingerprint{}) slots_[find(f)] = f;
  }
  std::vector<Fingerprint> slots_ = std::vector<Fingerprint>(1024);
  std::size_t count_ = 0;
};

FingerprintSet::Fingerprint fingerprint(std::size_t unit, std::size_t first,
                                        const std::vector<std::int64_t>& load) {
  FingerprintSet::Fingerprint f{mix64(unit * kGolden64 + first + 1),
                                mix64(first * 0xd1342543de82ef95ULL + unit + 7)};
  for (const std::int64_t x : load) {
    f.low = mix64(f.low + static_cast<std::uint64_t>(x) * kGolden64 + 1);
    f.high = mix64(f.high ^ (static_cast<std::uint64_t>(x) * 0xda942042e4dd58b5ULL + 3));
  }
  return f;
}

}  // namespace

Counts sum_of(const Choice& choice) {
  Counts sum{};
  for (const auto& copies : choice)
    for (const Counts& counts : copies)
      for (std::size_t k = 0; k < counts.size(); ++k) sum[k] += counts[k];
  return sum;
}

Choice round_columns(const std::vector<Kind>& kinds, const std::vector<Column>& columns) {
  const auto groups = static_cast<std::size_t>(group_count(kinds.size()));
  std::vector<std::vector<const Column*>> of_group(groups);
  for (const Column& column : columns)
    if (column.weight > 1e-9) of_group[static_cast<std::size_t>(column.group)].push_back(&column);
  Choice choice(kinds.size());
  for (std::size_t g = 0; g < groups; ++g) {
    CHECK(!of_group[g].empty());
    double members = 0;
    for (std::size_t i = g; i < kinds.size(); i += groups) members += kinds[i].copies;
    double position = 0.5;
    std::size_t at = 0;
    double reached = of_group[g][0]->weight;
    for (std::size_t i = g; i < kinds.size(); i += groups) {
      for (int copy = 0; copy < kinds[i].copies; ++copy, position += 1) {
        while (position / members > reached && at + 1 < of_group[g].size())
          reached += of_group[g][++at]->weight;
        choice[i].push_back(of_group[g][at]->covers[i / groups]);
      }
    }
  }
  return choice;
}

Search::Search(const SearchProblem& problem, const std::vector<Column>& columns, Reach reach)
    : problem_(problem) {
  make_certificates();
  possible_ = !refuted_;
  if (!possible_) return;
  collect(columns, reach);
  make_units();
}

void Search::make_units() {
  const auto& kinds = *problem_.kinds;
  std::vector<std::size_t> order(kinds.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return candidates_[a].size() < candidates_[b].size();
  });
  for (const std::size_t kind : order) {
    if (candidates_[kind].empty()) possible_ = false;
    for (int copy = 0; copy < kinds[kind].copies; ++copy) units_.push_back({kind, copy > 0});
  }
  if (!possible_) return;
  least_.assign(units_.size() + 1, std::vector<std::int64_t>(problem_.rows.size(), 0));
  for (std::size_t u = units_.size(); u-- > 0;) {
    for (std::size_t r = 0; r < problem_.rows.size(); ++r) {
      std::int64_t least = std::numeric_limits<std::int64_t>::max();
      for (const Candidate& c : candidates_[units_[u].kind]) least = std::min(least, c.load[r]);
      least_[u][r] = least_[u + 1][r] + least;
    }
  }
}

void Search::make_certificates() {
  std::vector<std::vector<double>> all;
  for (const Certificate& certificate : problem_.certificates)
    all.emplace_back(certificate.multipliers).resize(problem_.rows.size(), 0);
  if (watts()) all.emplace_back(problem_.rows.size(), 0.0);
  for (std::size_t r = 0; r < problem_.rows.size() && !watts(); ++r) {
    std::vector<double> unit(problem_.rows.size(), 0);
    unit[r] = 1;
    all.push_back(std::move(unit));
  }
  const auto& kinds = *problem_.kinds;
  for (const auto& multipliers : all) {
    Prices prices{};
    double limit = 0;
    for (std::size_t r = 0; r < problem_.rows.size(); ++r) {
      const SearchRow& row = problem_.rows[r];
      limit += multipliers[r] * static_cast<double>(row.limit);
      for (std::size_t k = 0; k < at(problem_.classes); ++k)
        prices[k] += multipliers[r] * static_cast<double>(row.weight[k]);
    }
    std::vector<double> cheapest;
    for (const Kind& kind : kinds) {
      cheapest.push_back(cheapest_cover(kind, prices, problem_.classes).bound);
      limit -= kind.copies * cheapest.back();
    }
    if (!watts()) limit += kSlackTolerance * (1 + std::abs(limit));
    slack_.push_back(limit + problem_.below.value_or(0));
    if (slack_.back() < 0) refuted_ = true;
    limit_.push_back(limit);
    prices_.push_back(prices);
    cheapest_.push_back(std::move(cheapest));
  }
}

Search::Candidate Search::candidate(std::size_t kind, const Counts& counts) const {
  Candidate result{counts, {}, {}};
  for (const SearchRow& row : problem_.rows) {
    std::int64_t load = 0;
    for (std::size_t k = 0; k < at(problem_.classes); ++k)
      load += row.weight[k] * counts[k];
    result.load.push_back(load);
  }
  if (watts()) {
    result.watts = watts_of((*problem_.kinds)[kind], counts, problem_.classes).watts;
    result.least = least_watts_of((*problem_.kinds)[kind], counts, problem_.classes);
  }
  for (std::size_t z = 0; z < prices_.size(); ++z)
    result.excess.push_back(cost(counts, prices_[z], problem_.classes) + result.least -
                            cheapest_[z][kind]);
  return result;
}

bool Search::admissible(const Candidate& candidate) const {
  for (std::size_t z = 0; z < slack_.size(); ++z)
    if (candidate.excess[z] > slack_[z]) return false;
  return std::isfinite(candidate.watts);
}

// Few enough services for a proof where watts count.
bool Search::provable() const {
  std::size_t units = 0;
  for (const Kind& kind : *problem_.kinds) units += at(kind.copies);
  return units <= kMostUnits;
}

// Covers whose price under the first certificate leaves them a place in some solution.
std::vector<std::vector<Counts>> Search::enumerate(Reach reach) {
  const auto& kinds = *problem_.kinds;
  std::vector<std::vector<Counts>> found(kinds.size());
  if (reach == Reach::columns || kinds.size() > kMaxExactKinds) return found;
  complete_ = reach == Reach::all;
  if (watts() && complete_ && !provable()) complete_ = false;
  if (watts() && reach == Reach::all && !complete_) return found;
  const std::size_t most = reach == Reach::all ? (watts() ? kAllCovers : kMaxCovers)
                                               : (watts() ? kNearCovers : 4 * kTabuCandidates);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const double near = watts() ? kNear * cheapest_[0][i] + 1e-9 : slack_[0] / 8;
    const double slack = reach == Reach::all ? slack_[0] : near;
    const EnumerationLimits limits{cheapest_[0][i] + slack, most};
    Enumeration all = enumerate_covers(kinds[i], prices_[0], *problem_.smaller, limits);
    complete_ = complete_ && all.complete;
    if (watts() && reach == Reach::all && !complete_) return found;  // of no use
    found[i] = std::move(all.covers);
  }
  return found;
}

void Search::collect(const std::vector<Column>& columns, Reach reach) {
  const auto& kinds = *problem_.kinds;
  const auto groups = static_cast<std::size_t>(group_count(kinds.size()));
  std::vector<std::vector<Counts>> found = enumerate(reach);
  for (const Column& column : columns)
    for (std::size_t j = 0; j < column.covers.size(); ++j)
      found[static_cast<std::size_t>(column.group) + j * groups].push_back(column.covers[j]);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    std::sort(found[i].begin(), found[i].end());
    found[i].erase(std::unique(found[i].begin(), found[i].end()), found[i].end());
    std::vector<Candidate> list;
    for (const Counts& counts : found[i]) {
      Candidate c = candidate(i, counts);
      if (admissible(c) && total(counts) <= kinds[i].max_count) list.push_back(std::move(c));
    }
    std::stable_sort(list.begin(), list.end(), [](const Candidate& a, const Candidate& b) {
      return a.excess[0] < b.excess[0];
    });
    if (watts()) keep_unbeaten(list);
    candidates_.push_back(std::move(list));
  }
}

// Those that no other beats in watts and in every row; where some keep apart, with no more
// instances of any class.
void Search::keep_unbeaten(std::vector<Candidate>& list) const {
  std::vector<Candidate> kept;
  const auto beats = [&](const Candidate& other, const Candidate& one) {
    return other.watts <= one.watts && other.least <= one.least &&
           std::ranges::equal(other.load, one.load, std::less_equal<>()) &&
           (!problem_.tied || std::ranges::equal(other.counts, one.counts, std::less_equal<>()));
  };
  for (Candidate& one : list) {
    if (std::ranges::any_of(kept, [&](const Candidate& other) { return beats(other, one); }))
      continue;
    std::erase_if(kept, [&](const Candidate& other) { return beats(one, other); });
    kept.push_back(std::move(one));
  }
  list = std::move(kept);
}

double Search::violation(const std::vector<std::int64_t>& load) const {
  double sum = 0;
  for (std::size_t r = 0; r < load.size(); ++r) {
    const SearchRow& row = problem_.rows[r];
    if (load[r] > row.limit)
      sum += static_cast<double>(load[r] - row.limit) / static_cast<double>(1 + row.limit);
  }
  return sum;
}

// A point of the tabu search: a candidate per unit.
struct Search::Point {
  std::vector<std::size_t> chosen;
  std::vector<std::int64_t> load;
  std::vector<std::size_t> free_at;  // per unit, the step from which it may change again
};

// The violation when `from` gives way to `to`; any value above `enough` when it is more than that.
double Search::violation_after(const Point& point, const Candidate& from, const Candidate& to,
                               double enough) const {
  double sum = 0;
  for (std::size_t r = 0; r < point.load.size(); ++r) {
    const std::int64_t limit = problem_.rows[r].limit;
    const std::int64_t load = point.load[r] - from.load[r] + to.load[r];
    if (load <= limit) continue;
    sum += static_cast<double>(load - limit) / static_cast<double>(1 + limit);
    if (sum > enough) break;
  }
  return sum;
}

Choice Search::to_choice(const std::vector<std::size_t>& chosen) const {
  Choice choice(problem_.kinds->size());
  for (std::size_t u = 0; u < units_.size(); ++u)
    choice[units_[u].kind].push_back(candidates_[units_[u].kind][chosen[u]].counts);
  return choice;
}

Search::Point Search::point_at(const Choice& start) const {
  Point point{std::vector<std::size_t>(units_.size(), 0),
              std::vector<std::int64_t>(problem_.rows.size(), 0),
              std::vector<std::size_t>(units_.size(), 0)};
  std::vector<std::size_t> copy(problem_.kinds->size(), 0);
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const auto& list = candidates_[units_[u].kind];
    const Counts& wanted = start[units_[u].kind][copy[units_[u].kind]++];
    const auto at = std::find_if(list.begin(), list.end(),
                                 [&](const Candidate& c) { return c.counts == wanted; });
    point.chosen[u] = at == list.end() ? 0 : static_cast<std::size_t>(at - list.begin());
    for (std::size_t r = 0; r < point.load.size(); ++r)
      point.load[r] += list[point.chosen[u]].load[r];
  }
  return point;
}

// The change of one unit that leaves the least violation, or the first one that leaves none; on
// ties the cheaper cover. Where watts count: the least of what it adds to them and, at a weight, to
// the violation.
std::optional<Search::Move> Search::best_move(const Point& point, std::size_t step,
                                              double weight) const {
  const bool watted = watts();
  std::optional<Move> best;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (point.free_at[u] > step) continue;
    const std::size_t now = point.chosen[u];
    // Copies of a kind that are alike need one look.
    if (units_[u].repeats && now == point.chosen[u - 1] && point.free_at[u - 1] <= step) continue;
    const auto& list = candidates_[units_[u].kind];
    const std::size_t count = watted ? list.size() : std::min(list.size(), kTabuCandidates);
    for (std::size_t c = 0; c < count; ++c) {
      if (c == now) continue;
      const double own = watted ? list[c].watts - list[now].watts : 1e-6 * list[c].excess[0];
      const double enough = watted ? (least - own) / weight : least;
      const double left = violation_after(point, list[now], list[c], enough + kTieTolerance);
      if (left == 0 && !watted) return Move{u, c};
      const double value = weight * left + own;
      if (value >= least) continue;
      least = value;
      best = Move{u, c};
    }
  }
  return best;
}

void Search::apply(Point& point, const Move& move, std::size_t free_at) const {
  const auto& list = candidates_[units_[move.unit].kind];
  std::size_t& chosen = point.chosen[move.unit];
  for (std::size_t r = 0; r < point.load.size(); ++r)
    point.load[r] += list[move.to].load[r] - list[chosen].load[r];
  chosen = move.to;
  point.free_at[move.unit] = free_at;
}

std::optional<Choice> Search::improve(const Choice& start) {
  if (!possible_) return std::nullopt;
  Point point = point_at(start);
  double best = violation(point.load);
  const std::size_t patience = 30 + std::min<std::size_t>(units_.size() * 2, 200);
  for (std::size_t step = 1, idle = 0; best > 0 && idle < patience; ++step, ++idle) {
    const auto move = best_move(point, step, 1);
    if (!move) break;
    apply(point, *move, step + 3 + units_.size() / 6 % 12);
    const double now = violation(point.load);
    if (now >= best - 1e-12) continue;
    best = now;
    idle = 0;
  }
  if (best > 0) return std::nullopt;
  return to_choice(point.chosen);
}

// Twice: from what burns least, and from what is cheapest at the prices.
SearchResult Search::cheapen() {
  if (!possible_) return {};
  double best = *problem_.below;
  std::vector<std::size_t> found;
  for (const bool lean : {false, true}) {
    Choice start(problem_.kinds->size());
    for (const Unit& unit : units_) {
      const auto& list = candidates_[unit.kind];
      const auto least = std::ranges::min_element(list, {}, &Candidate::watts);
      start[unit.kind].push_back((lean ? list.front() : *least).counts);
    }
    best = cheapen_from(point_at(start), best, found);
  }
  if (found.empty()) return {};
  return {SearchResult::Verdict::found, to_choice(found), best};
}

// Moves one service at a time; what does not fit costs more the longer it does not, and less when
// all does.
double Search::cheapen_from(Point point, double best, std::vector<std::size_t>& found) const {
  double watts = 0;
  std::size_t moves = 0;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    watts += candidates_[units_[u].kind][point.chosen[u]].watts;
    moves += candidates_[units_[u].kind].size();
  }
  const double each = static_cast<double>(moves * (problem_.rows.size() + 1));
  const auto steps = static_cast<std::size_t>(std::clamp(kWork / each, 1.0, 3'000.0));
  double weight = watts;
  for (std::size_t step = 1; step <= steps; ++step) {
    const bool fits = violation(point.load) == 0;
    if (fits && watts < best * (1 - kNoBetter)) {
      best = watts;
      found = point.chosen;
    }
    weight *= fits ? 0.85 : 1.1;
    const auto move = best_move(point, step, weight);
    if (!move) break;
    const auto& list = candidates_[units_[move->unit].kind];
    watts += list[move->to].watts - list[point.chosen[move->unit]].watts;
    apply(point, *move, step + 2 + step % std::min<std::size_t>(7, units_.size()));
  }
  return best;
}

// The state of the depth-first search: what is chosen up to `unit`.
struct Search::Frame {
  std::size_t unit = 0;
  std::vector<std::int64_t> load;
  std::vector<double> slack;
  std::vector<std::size_t> chosen;
  FingerprintSet failed;
  const Accept* accept = nullptr;
  long nodes = 0;
  bool exhausted = false;
  bool doubtful = false;  // an answer of `accept` was unknown
  // Where watts count: the best so far, its watts, and the least that a choice could come to.
  std::vector<std::size_t> best;
  double watts = 0, least = 0;
  struct {
    double watts = 0, least = 0;
  } own;  // of what is chosen
};

bool Search::enter(Frame& frame, std::size_t c) const {
  const Candidate& next = candidates_[units_[frame.unit].kind][c];
  for (std::size_t r = 0; r < frame.load.size(); ++r)
    if (frame.load[r] + next.load[r] + least_[frame.unit + 1][r] > problem_.rows[r].limit)
      return false;
  for (std::size_t z = 0; z < frame.slack.size(); ++z)
    if (next.excess[z] > frame.slack[z]) return false;
  for (std::size_t r = 0; r < frame.load.size(); ++r) frame.load[r] += next.load[r];
  for (std::size_t z = 0; z < frame.slack.size(); ++z) frame.slack[z] -= next.excess[z];
  frame.own.watts += next.watts;
  frame.own.least += next.least;
  frame.chosen[frame.unit++] = c;
  return true;
}

bool Search::accepted(Frame& frame) const {
  if (!*frame.accept) return true;
  frame.nodes -= kNodesPerQuestion;
  const Acceptance answer = (*frame.accept)(to_choice(frame.chosen));
  frame.doubtful = frame.doubtful || answer == Acceptance::unknown;
  return answer == Acceptance::yes;
}

// A choice that fits: from here on only better ones are of interest, if it is acceptable.
void Search::weigh(Frame& frame) const {
  const bool better = frame.own.watts < frame.watts * (1 - kNoBetter);
  if (better && !accepted(frame)) return;
  frame.least = std::min(frame.least, frame.own.least);
  if (!better) return;
  frame.watts = frame.own.watts;
  frame.best = frame.chosen;
  frame.slack = limit_;
  for (std::size_t z = 0; z < limit_.size(); ++z) {
    frame.slack[z] += frame.watts;
    for (std::size_t u = 0; u < units_.size(); ++u)
      frame.slack[z] -= candidates_[units_[u].kind][frame.chosen[u]].excess[z];
  }
}

bool Search::descend(Frame& frame) {
  if (frame.unit == units_.size()) {
    if (!watts()) return accepted(frame);
    weigh(frame);
    return false;
  }
  if (--frame.nodes < 0) {
    frame.exhausted = true;
    return false;
  }
  // Copies of a kind are interchangeable: their candidates go in ascending order.
  const Unit& unit = units_[frame.unit];
  const std::size_t first = unit.repeats ? frame.chosen[frame.unit - 1] : 0;
  const auto key = fingerprint(frame.unit, first, frame.load);
  // What `accept` looks at is more than the loads, and so are watts: no failures are remembered.
  const bool alike = !*frame.accept && !watts();
  if (alike && frame.failed.contains(key)) return false;
  for (std::size_t c = first; c < candidates_[unit.kind].size(); ++c) {
    const Candidate& candidate = candidates_[unit.kind][c];
    if (candidate.excess[0] > frame.slack[0]) break;  // sorted by it
    if (watts() && --frame.nodes < 0) break;
    if (!enter(frame, c)) continue;
    if (descend(frame)) return true;
    --frame.unit;
    frame.own.watts -= candidate.watts;
    frame.own.least -= candidate.least;
    for (std::size_t r = 0; r < frame.load.size(); ++r) frame.load[r] -= candidate.load[r];
    for (std::size_t z = 0; z < frame.slack.size(); ++z) frame.slack[z] += candidate.excess[z];
    if (frame.exhausted) return false;
  }
  if (alike) frame.failed.insert(key);
  return false;
}

SearchResult Search::exhaust(long& nodes, const Accept& accept) {
  const double below = problem_.below.value_or(0);
  if (!possible_)
    return {refuted_ || complete_ ? SearchResult::Verdict::none : SearchResult::Verdict::unknown,
            {}, below, below};
  if (watts() ? !complete_ : units_.size() > kMaxExactUnits) return {};
  Frame frame;
  frame.load.assign(problem_.rows.size(), 0);
  frame.slack = slack_;
  frame.chosen.assign(units_.size(), 0);
  const long scale = watts() ? kChecksPerNode : 1;
  const long most = watts() ? std::min(scale * nodes, kProofChecks) : nodes;
  frame.nodes = most;
  frame.accept = &accept;
  frame.watts = frame.least = below;
  const bool found = descend(frame);
  nodes -= (most - std::max(0L, frame.nodes)) / scale;
  if (found) return {SearchResult::Verdict::found, to_choice(frame.chosen)};
  const bool proved = complete_ && !frame.exhausted && !frame.doubtful;
  SearchResult result{proved ? SearchResult::Verdict::none : SearchResult::Verdict::unknown, {},
                      frame.watts, std::min(frame.watts, frame.least)};
  if (!frame.best.empty()) result.choice = to_choice(frame.best);
  return result;
}

}  // namespace partita::planners::serving
