// Language models beside other services: what a replica carries on each MIG profile, and on groups
// of whole GPUs, so that the core plans them as it plans points. A replica is an engine
// (profile/token_engine.h) with a limit of requests at once; requests are split among replicas at
// random. What it carries is simulated step by step (llm/engine): the highest rate at which the
// percentile of the requests keep all that is promised, with half of the late ones that this
// allows.
//
// More even arrivals never carry less, and no replica is planned at more than an engine serves that
// is never without work, whatever is promised.
//
// Upper bounds are fluid: with lengths at their means and nothing that waits, an engine whose steps
// last as long as TPOT allows, and prompts computed in between.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "planners/serving/points.h"
#include "profile/token_engine.h"

namespace partita::planners::serving {

// What an engine carries of a service.
struct TokenRate {
  int sequences = 0;  // the limit of requests at once
  Rps rate;           // 0: it keeps the promise at no rate
  Millis step;        // of a full batch
};

class TokenTrials;

// Simulates; asks equal questions once.
class TokenOracle {
 public:
  // Only rates above `beat` are of interest: others may come out as 0.
  TokenRate rate(const plan::Service& service, const profile::TokenEngine& engine,
                 Rps beat = Rps{0});

 private:
  TokenRate simulated(const plan::Service& service, const profile::TokenEngine& engine, Rps beat);

  struct Known {
    TokenRate rate;
    Rps beaten;  // asked for more than that
  };
  std::map<std::string, Known> known_;
  struct Asked {
    std::string question;  // of whose requests
    std::shared_ptr<TokenTrials> trials;
  };
  Asked poisson_, other_;  // the last ones
};

// Of the GPU model, the profile of an instance with that engine; of a group, that of all of a GPU.
// Below 0: it has none.
int profile_of(const hw::GpuModel& gpu, const profile::TokenEngine& engine);

// The sequences that fit, at most: by the limit that was measured and the cache.
int most_sequences(const plan::Service& service, const profile::TokenEngine& engine);
// Of these, the most whose steps keep TPOT, as a real number; below 1: none.
double sequences_in_time(const plan::Service& service, const profile::TokenEngine& engine);

// No replica of that engine carries more with lengths at their means.
Rps fluid_rate(const plan::Service& service, const profile::TokenEngine& engine);

// By any engine of the fleet, of a request alone with its tokens as they are on average. Infinite:
// none.
struct AloneTimes {
  Millis ttft, tpot;
};
AloneTimes alone_times(const plan::ServingProblem& problem, const plan::Service& service);

// No engine of the fleet keeps the promise at any rate: what comes closest.
plan::Reason missed_tokens(const plan::ServingProblem& problem, const plan::Service& service);

// The columns of language models: by rate, or by fluid rate.
enum class TokenSize { simulated, fluid };
class TokenColumns {
 public:
  TokenColumns(const plan::ServingProblem& problem, TokenOracle& oracle,
               bool all_groups = false);  // as Options::all_groups
  // Adds groups of GPUs to the table of a fleet entry, and the points of all language models.
  void add_to(PointTable& table, std::size_t entry, TokenSize size) const;

 private:
  struct Column {
    int profile = 0;  // of the GPU model
    int gpus = 1;
    auto operator<=>(const Column&) const = default;
  };
  struct Cell {
    const profile::TokenEngine* engine = nullptr;
    TokenRate best;
    Rps fluid;
  };
  using Cells = std::map<Column, Cell>;  // of one service on one entry
  const Cell* cell_at(std::size_t entry, std::size_t service, const Column& column) const;
  Cells cells_of(const plan::Service& service, const plan::FleetEntry& entry, TokenOracle& oracle);

  const plan::ServingProblem& problem_;
  const bool all_groups_;
  std::vector<std::vector<Cells>> cells_;      // [entry][service]
  std::vector<std::vector<int>> group_sizes_;  // [entry]
};

// Throughput that a plan states of an instance of a group of GPUs is its part; the row of a
// language model, with the latency and the outlook that a simulation of its replicas tells.
void fill_token_row(const plan::ServingProblem& problem, const plan::Service& service,
                    plan::ServingPlan& plan, plan::PlannedService& row);

}  // namespace partita::planners::serving
