// Sight: how the fleet is, as one decision of the leader counts it, and what is decided so far. The
// leader (leader.cc) changes it, decision_word.h says it. Pure.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fleet/brain/counting.h"
#include "fleet/brain/node_planner.h"
#include "fleet/brain/older_terms.h"
#include "fleet/brain/part_services.h"
#include "fleet/brain/view.h"

namespace partita::fleet {

bool more(double a, double b);  // by what counts
double rate_in(const Rates& rates, const std::string& service);
// It was to carry it, and could not serve it.
bool is_unserved(const NodeRecord& node, const std::string& service);

// Whether a node that plans by `a`, with these others, plans by `b` but for rates.
bool same_terms(plan::Service a, plan::Service b, const Rates& beside);

// What is wanted, read, as long as it is the same.
struct WantedRead {
  ServicesRead texts;
  std::shared_ptr<const forms::ServicesFile> file;
  PartServices written;  // of the same text
};

struct Sight {
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
  // A service.
  struct Of {
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
  };

  // All must outlive it. `view` says what is wanted.
  Sight(NodePlanner& planner, const WantedRead& read, const FleetView& view);

  // Of the view; to be called once, first.
  void look();
  // What a node counts as carrying of it.
  void count(Of& of, const At& at, double rate);
  // It waits for a node that will not be as it waits for it, or for more than others will carry.
  bool waits_in_vain(const At& at) const;
  // Than those that are wanted, of a service of its part.
  bool has_other_terms(const At& at) const;
  // Whether an empty node of some kind carries very little of it.
  bool can_be_met(const Of& of);
  // It goes on by the terms that it has, if any.
  void keep_terms(Of& of, const std::string& why);
  // While rates are looked after, margins are nobody's concern.
  double missing(const Of& of) const {
    return missing_of(of.need, of.by_domain, survives() && margins);
  }
  bool survives() const { return view.wanted->survive != Survive::none; }
  std::vector<plan::Service> pieces_at(const Rates& rates) const;

  NodePlanner& planner;
  const WantedRead& read;
  const FleetView& view;
  std::map<std::string, At> nodes;
  std::map<std::string, Of> services;
  OlderTerms older;
  std::vector<Of*> order;  // by priority, the largest first
  std::map<std::string, std::size_t> kinds;
  std::vector<const NodeRecord*> of_kind;                 // the largest
  std::map<std::string, std::vector<std::string>> lacks;  // GPU models without profiles, on whom
  std::map<std::string, std::string> feeds;               // of nodes, where these may be lost
  int domains = 0;                                        // that may get more
  bool margins = true;
  long revision = 1;

 private:
  void look_at(const NodeRecord& record);
  void guess(Of& of);
};

}  // namespace partita::fleet
