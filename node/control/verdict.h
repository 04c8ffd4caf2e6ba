// Verdicts: whether each service that is wanted is served, as one word with its reason, since when
// it is so and as of when that is known. What the page, `partita status` and `top`, the API, the
// metrics and notices say of a service all comes from here: nothing else decides whether one is
// well. Values and pure functions.
//
// What is asked for counts, answered or not; what can be carried is that of workers that are ready.
// What nobody has measured lately is `unknown`, never good; but what is known to be bad is said,
// whatever else is not known.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "act/assignment.h"
#include "act/gateway_state.h"
#include "act/recent_requests.h"
#include "control/memory.h"
#include "control/standing.h"
#include "plan/serving.h"

namespace partita::control {

// Counters of the gateway for a service, since it began; they fall when it begins anew.
struct ServiceLoad {
  std::string service;
  std::uint64_t arrived = 0;  // all requests, refused ones too
  std::uint64_t in_slo = 0;   // answered in time
  std::uint64_t shed = 0;     // refused, because they would have been late
  std::uint64_t by_pipelines = 0;  // of arrived: those that pipelines made
  std::optional<double> p99_ms = {};
  double capacity_rps = 0;  // of the workers that are ready, in full batches
  int ready_workers = 0;
  // See actuate::GatewayRequests.
  std::optional<actuate::RequestStretch> recent = {}, lately = {}, minute = {};
  std::optional<actuate::TokenTraffic> tokens = {};  // of a language model
  std::optional<actuate::ColdStarts> cold = {};      // of a set of models
  std::vector<actuate::KeyCounts> keys = {};         // what each key had
  std::vector<actuate::FanOutCounts> fan_outs = {};  // of a pipeline
  bool operator==(const ServiceLoad&) const = default;
};

// What was seen of those who serve.
struct ServersSeen {
  bool gateway = false;      // one runs; without it rates are not known
  double gateway_age_s = 0;  // so long ago it said what follows
  std::vector<ServiceLoad> loads = {};
  std::map<std::string, int> ready = {};  // workers that are, by device
  std::optional<bool> supervisor = {};    // of workers: it runs; nothing: there has never been one
  std::string counted_by = {};            // the gateway's process: another one counts from nothing
  std::vector<actuate::Uncarried> uncarried = {};  // that others of its fleet should carry
  bool operator==(const ServersSeen&) const = default;
};

struct ServiceVerdict {
  std::string service;
  Standing verdict = Standing::unknown;
  std::int64_t since_ms = 0;  // it has been so
  std::int64_t as_of_ms = 0;  // when what it is judged by was measured; 0: nothing was
  std::string why = {};       // a sentence; empty: it serves
  double asked_rps = 0;       // answered or not
  double answered_rps = 0;    // in time
  double can_carry_rps = 0;   // within the objective, by the workers that are ready
  std::optional<actuate::ColdStarts> cold = {};  // of a set of models, beside what is promised
  bool operator==(const ServiceVerdict&) const = default;
};

// What services are judged by.
struct VerdictGround {
  const std::vector<plan::Service>& services;  // that are wanted
  const AgentMemory& memory;  // the plan in force, what waits, GPUs that are out, verdicts before
  const actuate::Assignment& assignment;
  const ServersSeen& servers;
  std::string blind = {};  // why the node cannot be read now; empty: it can
};

// By service, in the order of `services`. `last`: those that were made before, whose numbers stay
// while nothing newer is measured; may be empty.
std::vector<ServiceVerdict> judge_services(const VerdictGround& ground, std::int64_t now_ms,
                                           const std::vector<ServiceVerdict>& last);

// The fields of a verdict, but for its service.
void describe_verdict(Form& f, ServiceVerdict& verdict);
// Fields of the document NodeState beside those of the node: `services`, and where what was read of
// the node is old (device::state_json takes them over).
void describe_verdicts(Form& f, std::vector<ServiceVerdict>& verdicts);
void tell_age(Form& f, std::int64_t read_ms, const std::string& fault);

// The services that an assignment tells of, where nobody has said what is wanted.
std::vector<plan::Service> services_of(const actuate::Assignment& assignment);

}  // namespace partita::control
