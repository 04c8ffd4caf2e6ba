// Integer search: one cover for every copy of every kind so that all rows hold, and (where watts
// count, cover.h) so that all burn least. First a tabu search from a rounded master solution, then
// depth-first search that is exhaustive: its "none" is a proof.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planners/serving/cover.h"
#include "planners/serving/master.h"

namespace partita::planners::serving {

// weight . N <= limit, N the summed counts of all chosen covers.
struct SearchRow {
  std::array<std::int64_t, kMaxClasses> weight{};
  std::int64_t limit = 0;
};

// Non-negative multipliers of the rows: prices under which a solution may cost at most the summed
// limits, and what covers cost of their own at most `below`. What a choice costs above the cheapest
// cover is charged against that slack.
struct Certificate {
  std::vector<double> multipliers;  // per row; of further rows 0
};

struct SearchProblem {
  int classes = 0;
  const std::vector<Kind>* kinds = nullptr;
  std::vector<SearchRow> rows;
  // The first one guides. Without watts every row counts as one more, with them the watts do.
  std::vector<Certificate> certificates;
  const Smaller* smaller = nullptr;
  std::optional<double> below = {};  // watts count, of which only so few are of interest
  bool tied = false;                 // which classes a choice has matters to `accept`
};

// covers[kind][copy]
using Choice = std::vector<std::vector<Counts>>;

Counts sum_of(const Choice& choice);

// Covers in the proportions of the master's columns, rounded.
Choice round_columns(const std::vector<Kind>& kinds, const std::vector<Column>& columns);

// Whether a choice that satisfies all rows is acceptable in other respects too.
enum class Acceptance { yes, no, unknown };
using Accept = std::function<Acceptance(const Choice&)>;

struct SearchResult {
  enum class Verdict { found, none, unknown } verdict = Verdict::unknown;
  Choice choice;  // when found; where watts count the best of an exhausted search, if it found one
  double watts = 0;  // of its covers, where they count
  double bound = 0;  // with `none`: all that come to less than `below` come to that at least
};

class Search {
 public:
  // Covers per kind and search nodes beyond which the search gives up (deterministic).
  static constexpr std::size_t kMaxCovers = 20'000;
  // Kinds and copies beyond which nothing is enumerated and nothing proved.
  static constexpr std::size_t kMaxExactKinds = 400;
  static constexpr std::size_t kMaxExactUnits = 5'000;

  // Which covers are candidates besides those of `columns`: none, the nearly cheapest, or all that
  // can matter.
  enum class Reach { columns, near, all };
  Search(const SearchProblem& problem, const std::vector<Column>& columns, Reach reach);

  // With so many kinds the candidates are the columns', however far it may reach.
  static bool same_everywhere(const SearchProblem& problem) {
    return problem.kinds->size() > kMaxExactKinds;
  }

  // The certificates alone show that nothing can be found.
  bool refuted() const { return refuted_; }

  // Tabu search from `start`; a choice that satisfies all rows, or nothing (no proof).
  std::optional<Choice> improve(const Choice& start);
  // Where watts count: one that comes to few.
  SearchResult cheapen();

  // Exhaustive within `nodes`; counts them down. With `accept`, the first acceptable choice, or the
  // best one where watts count; asking costs kNodesPerQuestion nodes.
  static constexpr long kNodesPerQuestion = 2'000;
  SearchResult exhaust(long& nodes, const Accept& accept);

 private:
  struct Candidate {
    Counts counts{};
    std::vector<std::int64_t> load;  // per row
    std::vector<double> excess;      // per certificate: price above the kind's cheapest cover
    double watts = 0, least = 0;     // where they count
  };
  struct Unit {
    std::size_t kind;
    bool repeats;  // the unit before is of the same kind
  };
  struct Move {
    std::size_t unit, to;
  };
  struct Point;
  struct Frame;

  bool provable() const;
  bool watts() const { return problem_.below.has_value(); }
  void make_certificates();
  void make_units();
  std::vector<std::vector<Counts>> enumerate(Reach reach);
  void keep_unbeaten(std::vector<Candidate>& list) const;
  void collect(const std::vector<Column>& columns, Reach reach);
  Candidate candidate(std::size_t kind, const Counts& counts) const;
  bool admissible(const Candidate& candidate) const;
  Point point_at(const Choice& start) const;
  std::optional<Move> best_move(const Point& point, std::size_t step, double weight) const;
  void apply(Point& point, const Move& move, std::size_t free_at) const;
  double cheapen_from(Point point, double best, std::vector<std::size_t>& found) const;
  bool accepted(Frame& frame) const;
  void weigh(Frame& frame) const;
  bool descend(Frame& frame);
  bool enter(Frame& frame, std::size_t c) const;
  double violation(const std::vector<std::int64_t>& load) const;
  double violation_after(const Point& point, const Candidate& from, const Candidate& to,
                         double enough) const;
  Choice to_choice(const std::vector<std::size_t>& chosen) const;

  const SearchProblem& problem_;
  std::vector<Prices> prices_;                      // per certificate
  std::vector<double> limit_, slack_;               // per certificate; slack: with `below`
  std::vector<std::vector<double>> cheapest_;       // [certificate][kind]
  std::vector<std::vector<Candidate>> candidates_;  // [kind], cheapest excess first
  std::vector<Unit> units_;
  std::vector<std::vector<std::int64_t>>
      least_;              // [unit][row]: least load of the units from there on
  bool refuted_ = false;   // by the certificates: a proof
  bool possible_ = true;   // false too when a kind has no candidate
  bool complete_ = false;  // the candidates are all that can matter
};

}  // namespace partita::planners::serving
