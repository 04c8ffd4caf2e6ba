// What the gateway says of itself and of the workers that are connected to it: `gateway.json` in
// the state directory, written whole and atomically when something changes and at least every
// kGatewayWriteNs. The supervisor of the workers takes readiness and heartbeats from it, apply what
// is ready and how much that carries. Pure, but for gateway_path() and read_gateway().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "act/recent_requests.h"
#include "base/files.h"
#include "base/form.h"
#include "base/processes.h"
#include "base/result.h"

namespace partita::actuate {

inline constexpr std::int64_t kGatewayWriteNs = 500'000'000;
// What is older says nothing any more: the gateway itself hangs.
inline constexpr std::int64_t kGatewayStaleNs = 5'000'000'000;
// What is older is no ground to say that a service is served: that has to be told within 5 s.
inline constexpr double kGatewayFreshS = 3;

// ready: it gets batches. leaving: it has asked to be drained, or is being drained. silent: no beat
// for too long, so it gets no more batches.
enum class WorkerReadiness : std::uint8_t { ready, leaving, silent };
const char* to_string(WorkerReadiness readiness);

struct GatewayWorker {
  std::string device;  // with index its place, as in the assignment and the workers' state
  int index = 0;
  std::string service;
  Pid pid = 0;
  WorkerReadiness state = WorkerReadiness::ready;
  double last_beat_s = 0;        // so long ago when this was written
  std::optional<int> open = {};  // of an engine that streams: requests that it has
  std::optional<double> kv_cache_usage = {};  // share of it in use, of one that says it
  bool operator==(const GatewayWorker&) const = default;
};

// Requests of a service since the gateway was started, or took the service up. Those under way, and
// those that their clients cancelled, are in none of the last three.
struct GatewayRequests {
  long arrived = 0;
  long in_slo = 0;                    // answered in time
  long missed = 0;                    // answered late, failed, expired, or given up once late
  long shed = 0;                      // refused at once
  std::optional<double> p99_ms = {};  // of the answers of the last half minute; none: no answer
  // Of the last kShortStretch, kMiddleStretch and kLongStretch; a gateway of an older version does
  // not say.
  std::optional<RequestStretch> recent = {}, lately = {}, minute = {};
  long by_pipelines = 0;  // of arrived: those that pipelines made
  bool operator==(const GatewayRequests&) const = default;
};

// "482 cold starts, 99.8 % within 600 ms".
std::string to_string(const ColdStarts& cold);
void describe(Form& f, ColdStarts& cold);

// An engine of a language model that was given by its URL: nobody here runs it.
struct GatewayEngine {
  std::string url;
  WorkerReadiness state = WorkerReadiness::ready;  // silent: not heard yet, too
  double last_beat_s = 0;                          // as of a worker
  int open = 0;                                    // requests that it has
  std::optional<double> kv_cache_usage = {};       // as of a worker
  bool operator==(const GatewayEngine&) const = default;
};
inline constexpr std::size_t kMostEngines = 4096;  // of a service

struct GatewayService {
  std::string name;
  double capacity_rps = 0;                       // of full batches on the workers that are ready
  double rate_rps = 0;                           // planned for, as the assignment says
  std::optional<GatewayRequests> requests = {};  // a gateway of an older version does not count
  std::optional<TokenTraffic> tokens = {};       // of a language model
  std::optional<ColdStarts> cold = {};           // of a set of models
  std::vector<KeyCounts> keys = {};              // by name, at most kMostKeysTold
  std::vector<FanOutCounts> fan_outs = {};       // of a pipeline, by step
  std::vector<GatewayEngine> engines = {};       // besides its workers; capacity unknown
  bool operator==(const GatewayService&) const = default;
};

// A worker that ended with requests in flight: it had started well, whatever became of it then.
struct GatewayLoss {
  std::string device;
  int index = 0;
  Pid pid = 0;
  bool operator==(const GatewayLoss&) const = default;
};

// Requests of a service that the fleet wants and no node carried that answered, at this door.
struct Uncarried {
  std::string service;
  double asked_rps = 0;  // of late: in the last kMiddleStretch
  bool operator==(const Uncarried&) const = default;
};
void describe(Form& f, Uncarried& one);

struct GatewayState {
  long revision = 0;  // of the assignment that it follows
  Pid pid = 0;
  std::string identity;                  // of that process, see Processes::identity
  double written_s = 0;                  // on CLOCK_MONOTONIC
  std::vector<GatewayService> services;  // by name
  std::vector<GatewayWorker> workers;    // by device, index
  std::vector<GatewayLoss> lost = {};    // the newest last
  std::vector<Uncarried> uncarried = {};  // by service, those that were asked for
  bool operator==(const GatewayState&) const = default;
};

std::string gateway_path(const std::string& state_dir);
void describe(Form& f, TokenTraffic& tokens);

// The document `kind: GatewayState`; parse_gateway(gateway_json(s)) == s. Refused with FILE:LINE: a
// place or a service twice, empty names, numbers out of range.
std::string gateway_json(const GatewayState& state);
Result<GatewayState> parse_gateway(const std::string& file, std::string_view text);
DocumentKind gateway_kind();

// What a gateway that lives says in `state_dir`; nothing when none runs there (no file, or its
// process is gone), or when what it said is stale. `now_ns` is on CLOCK_MONOTONIC. A damaged file
// is refused.
struct GatewayDoors {
  Processes& processes;
  Files& files;
  std::string state_dir;
};
Result<std::optional<GatewayState>> read_gateway(const GatewayDoors& doors, std::int64_t now_ns);

}  // namespace partita::actuate
