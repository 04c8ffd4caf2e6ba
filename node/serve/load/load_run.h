// The load generator: sends the requests of several services when they are due, whatever became of
// those before them, over at most `connections` connections. A request that finds none free waits
// for one; its latency counts from when it was due all the same. In a closed loop a request is due
// when another one ends. One thread: an epoll set and a
// timerfd. Limits: kMaxLoadConnections, kMaxWaiting requests that wait (more are failed).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/http/http_stream.h"
#include "base/result.h"
#include "base/url.h"
#include "serve/load/load_tally.h"
#include "sim/arrivals.h"

namespace partita::serve {

inline constexpr int kMaxLoadConnections = 20'000;
inline constexpr std::size_t kMaxWaiting = 1'000'000;

struct LoadService {
  std::string name;  // of the model that is asked
  sim::Nanos slo = 0;
  sim::ArrivalSource arrivals;
  std::optional<plan::TokenTerms> tokens = {};  // of a language model; a trace is loaded
  std::optional<plan::ModelSet> models = {};    // each request is one's, by their weights
  // Closed loop: so many requests are under way, one after the other of these lengths; its arrivals
  // are none. 0: open loop, of these lengths too, as many as arrivals, where there are any.
  int in_flight = 0;
  std::vector<plan::Length> lengths = {};
  bool keeps_times = false;  // of every token of every answer that is whole
};

// Every so often, for people.
struct LoadMoment {
  double seconds = 0;  // since the first request could be due
  std::vector<LoadTally>& services;
};

struct LoadOptions {
  Url url;
  TlsWishes tls = {};
  std::string token = {};                // bearer; empty: none
  int connections = 128;                 // at most
  sim::Nanos duration = 0;               // arrivals stop there...
  long min_requests = 0;                 // ...but not before there were so many
  sim::Nanos patience = 10'000'000'000;  // how long answers are waited for after the last arrival
  std::uint64_t seed = 1;  // of tensors and of which prompts begin alike; words are new each time,
                           // so that an engine has nothing of them cached
  bool first_in_line = false;       // real-time priority (SCHED_FIFO), where the system grants it
  std::function<bool()> stop = {};  // asked often: should arrivals end now?
  std::function<void(const LoadMoment&)> watch = {};  // about once a second
};

struct LoadOutcome {
  std::vector<LoadTally> services;  // as given
  double seconds = 0;               // from the first possible arrival to the last
  double answered_s = 0;            // to the last answer
  long waited = 0;                  // requests that found no connection free
  int connections = 0;              // most that were open
  bool stopped = false;             // by `stop`
  bool first_in_line = false;       // the priority was granted
};

// Asks the server what the models take, but for language models, then runs. Refused: a server that
// cannot be reached or does not know a model, metadata that cannot be read, certificates. `clock`
// is CLOCK_MONOTONIC's.
Result<LoadOutcome> run_load(const LoadOptions& options, std::vector<LoadService> services,
                             Clock& clock);

}  // namespace partita::serve
