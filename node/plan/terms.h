// Terms: everything that a service asks for and is promised. One type from the services file to the
// gateway: a problem's services, a plan's rows, the assignment, the journal, the gateway's services
// and what the agent shows hold it, so that no term is lost between two of them. A value; how it is
// written is forms/terms_form.h. Zero is "not known" where a file of an older version has none:
// rate, SLO, percentile; so is an empty model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "plan/model_set.h"
#include "plan/pipeline.h"
#include "plan/tokens.h"
#include "plan/traffic.h"

namespace partita::plan {

inline constexpr double kDefaultPercentile = 99;

// The server that a promise is made for.
enum class Dispatch {
  pooled,        // one queue per service over all its instances (dispatcher.h, pooled_policy)
  paced,         // a queue per instance, paced; requests join the one that should be done first
  shared_queue,  // a queue per instance, whatever waits starts when a process is idle (an ordinary
                 // server's dynamic batching with no queue delay); requests are split at random
  per_process,   // a queue per process; requests are split at random
};
Result<Dispatch> parse_dispatch(const std::string& text);
std::string to_string(Dispatch dispatch);

// Its gateways keep answers for whoever asks the same again. Says nothing of GPUs, so that no plan
// depends on it.
struct CacheTerms {
  Mib memory = {};      // of a gateway, for answers and their bookkeeping
  Seconds ttl = {};     // how long an answer is good; 0: for as long as its worker is there
  bool shared = false;  // by all clients; else each finds its own alone
  bool operator==(const CacheTerms&) const = default;
};
inline constexpr int kMostPriority = 1000;  // of a service, either way
inline constexpr int kMostCacheMib = 1'000'000;
inline constexpr double kMostCacheSeconds = 1e9;
// "64 MiB, 600 s, shared", for messages.
std::string to_string(const CacheTerms& cache);

struct Terms {
  std::string name = {};   // unique
  std::string model = {};  // key into the profile table
  Rps rate = {};
  Millis slo = {};                         // of a whole answer; with tokens, 0: not promised
  double percentile = kDefaultPercentile;  // of the requests that shall keep the SLO
  int min_replicas = 1;                    // at least this many instances
  bool spread = false;                  // anti_affinity: true -- no two instances of it on one GPU
  std::vector<std::string> avoid = {};  // anti_affinity: [names] -- never on a GPU with one of them
  int line = 0;                         // in its file, for messages; not compared
  Traffic traffic = {};
  std::optional<TokenTerms> tokens = {};  // kind: llm, which answers token by token
  std::optional<ModelSet> models = {};    // many that share its instances; `model` is their profile
  std::optional<PipelineTerms> pipeline = {};  // then it has no model and no instance of its own
  // Nobody asks for it but pipelines: its SLO is a share of theirs, which the planner chooses.
  bool member = false;
  std::optional<CacheTerms> cache = {};
  int priority = 0;  // where not all have room the lower ones get less; says nothing of a plan
  Dispatch dispatch = Dispatch::pooled;  // what a plan promises for; a problem says it in its rule
  // Of the compute of all its buckets; of a services file, for messages; not compared.
  double padding = 0;
  bool operator==(const Terms& other) const;
};

// Whether all of them are said: rows of plans that older versions wrote have name, rate and SLO.
bool all_said(const Terms& terms);

// What its instances carry adds up to what it carries: they are no pool.
inline bool adds_up(const Terms& terms) { return terms.tokens || terms.models; }

// A term on which two differ.
struct TermDifference {
  std::string term;        // as files name it: "percentile", "rate_rps"
  std::string one, other;  // as files write them
  bool operator==(const TermDifference&) const = default;
};
// In the order of Terms; empty when they are equal.
std::vector<TermDifference> differences(const Terms& one, const Terms& other);

// The rate that a plan must carry: what arrives, and the headroom.
Rps planning_rate(const Terms& terms);

}  // namespace partita::plan
