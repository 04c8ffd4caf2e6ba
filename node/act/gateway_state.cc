#include "act/gateway_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "act/assignment.h"
#include "base/form_rules.h"

namespace partita::actuate {
namespace {

constexpr std::initializer_list<const char*> kReadiness = {"ready", "leaving", "silent"};
constexpr Range kPart{.low = 0, .high = 1};
constexpr Range kPids{.low = 1, .high = 1e9};
constexpr Range kPlaces{.high = kMaxProcessesPerSegment - 1};
constexpr Range kOpen{.high = 1e9};
constexpr Range kSeconds{.high = 1e12};

constexpr Range kRequests{.high = 1e15}, kAmounts{.high = 1e18};

void describe(Form& f, RequestStretch& stretch) {
  f.number("seconds", stretch.seconds, kSeconds, "so long it is");
  f.number("asked", stretch.asked, kRequests, "requests that came in it");
  f.number("due", stretch.due, kRequests, "that were to be answered in it, or were refused");
  f.number("in_slo", stretch.in_slo, kRequests, "of them answered in time");
}

void describe(Form& f, GatewayRequests& requests) {
  f.whole("arrived", requests.arrived, kRequests, "since the gateway has the service");
  f.whole("in_slo", requests.in_slo, kRequests, "of them answered in time");
  f.whole("missed", requests.missed, kRequests, "answered late, failed, expired or given up late");
  f.whole("shed", requests.shed, kRequests, "refused at once");
  f.optional(requests.by_pipelines > 0)
      .whole("by_pipelines", requests.by_pipelines, kRequests,
             "of those that arrived: made by pipelines; missing: none");
  f.optional(requests.p99_ms.has_value());
  f.number("p99_ms", requests.p99_ms, kNotNegative, "of the last half minute");
  f.object("recent", requests.recent, describe, "of the last seconds");
  f.object("lately", requests.lately, describe, "of the last quarter of a minute");
  f.object("minute", requests.minute, describe, "of the last minute");
  Fields* const in = f.reading();
  if (in && requests.in_slo + requests.missed + requests.shed > requests.arrived)
    in->refuse("arrived", "more requests have ended than arrived");
  if (in && requests.by_pipelines > requests.arrived)
    in->refuse("by_pipelines", "more than arrived");
}

}  // namespace

void describe(Form& f, TokenTraffic& t) {
  f.number("in_per_s", t.in_per_s, kNotNegative, "tokens of prompts a second");
  f.number("out_per_s", t.out_per_s, kNotNegative, "tokens of answers a second");
  f.number("mean_in", t.mean_in, kNotNegative, "tokens of a prompt");
  f.number("mean_out", t.mean_out, kNotNegative, "tokens of an answer");
  f.number("ttft_p50_ms", t.ttft_p50_ms, kNotNegative, "time to the first token");
  f.number("ttft_p99_ms", t.ttft_p99_ms, kNotNegative, "time to the first token");
  f.number("tpot_p50_ms", t.tpot_p50_ms, kNotNegative, "time per token after it");
  f.number("tpot_p99_ms", t.tpot_p99_ms, kNotNegative, "time per token after it");
  f.number("kv_cache_usage_perc", t.kv_cache_usage, kPart,
           "share of KV cache in use now, of the fullest engine that says it");
}

std::string to_string(const ColdStarts& cold) {
  const std::string starts = cold.requests == 1 ? "cold start" : "cold starts";
  if (cold.requests == 0) return fmt::format("no {}, {:.4g} ms promised", starts, cold.promised_ms);
  const double share =
      100.0 * static_cast<double>(cold.in_time) / static_cast<double>(cold.requests);
  return fmt::format("{} {}, {:.4g} % within {:.4g} ms (mean {:.4g} ms)", cold.requests, starts,
                     share, cold.promised_ms, cold.mean_ms);
}

void describe(Form& f, ColdStarts& cold) {
  f.whole("requests", cold.requests, kRequests, "whose model was loaded first, and were answered");
  f.whole("in_time", cold.in_time, kRequests, "of them, within what is promised");
  f.number("promised_ms", cold.promised_ms, kNotNegative, "cold_ms of the set, else its SLO");
  f.number("mean_ms", cold.mean_ms, kNotNegative, "from head to answer");
  Fields* const in = f.reading();
  if (in && cold.in_time > cold.requests) in->refuse("in_time", "more than there were");
}

void describe(Form& f, Uncarried& one) {
  f.name("service", one.service, "that the fleet wants, and no node carries that answers");
  f.number("asked_rps", one.asked_rps, kNotNegative, "at this node's gateway, of late");
}

namespace {

void describe(Form& f, KeyCounts& key) {
  f.name("key", key.key, "as /metrics has it; others: all that are not listed");
  f.number("answered", key.answered, kRequests, "requests since the gateway has the service");
  f.number("refused", key.refused, kRequests, "for its limits, or the shares of others");
  f.number("bytes", key.bytes, kAmounts, "of requests that were let in");
  f.number("tokens", key.tokens, kAmounts, "of a language model: of prompts and answers");
}

void describe(Form& f, FanOutCounts& one) {
  f.integer("step", one.step, {.high = plan::kMostSteps - 1}, "which of the pipeline's, from 0");
  f.whole("requests", one.requests, kRequests, "of the pipeline that came to it");
  f.whole("rows", one.rows, kAmounts, "that it was asked for by them");
}

void describe(Form& f, GatewayEngine& engine) {
  f.name("url", engine.url, "where it is");
  f.word("state", engine.state, kReadiness, "whether it gets requests");
  f.number("last_beat_s", engine.last_beat_s, kSeconds, "since its last sign of life");
  f.integer("open", engine.open, kOpen, "requests that it has");
  f.number("kv_cache_usage_perc", engine.kv_cache_usage, kPart,
           "share of its KV cache in use, where it says it");
}

void describe(Form& f, GatewayService& service) {
  f.name("name", service.name, "of the service");
  f.number("capacity_rps", service.capacity_rps, kNotNegative,
           "of full batches on the workers that are ready");
  f.number("rate_rps", service.rate_rps, kNotNegative, "planned for");
  f.object("requests", service.requests, describe, "what became of its requests");
  f.object("tokens", service.tokens, actuate::describe, "of a language model, of late");
  f.object("cold_starts", service.cold, actuate::describe, "of a set of models");
  f.optional(!service.keys.empty());
  f.list("keys", service.keys, describe, {.most = kMostKeysTold}, "what each key had");
  f.optional(!service.engines.empty());
  f.list("engines", service.engines, describe, {.most = kMostEngines}, "given by their URLs");
  f.optional(!service.fan_outs.empty());
  f.list("fan_outs", service.fan_outs, describe, {.most = plan::kMostSteps},
         "of a pipeline: its steps that fan out");
  Fields* const in = f.reading();
  if (!in || in->error()) return;
  std::ranges::sort(service.fan_outs, {}, &FanOutCounts::step);
  const auto twice = std::ranges::adjacent_find(service.fan_outs, {}, &FanOutCounts::step);
  if (twice != service.fan_outs.end())
    in->refuse("fan_outs", fmt::format("step {} is listed twice", twice->step));
}

void describe_process(Form& f, Pid& pid) {
  long number = static_cast<long>(pid);
  f.whole("pid", number, kPids, "of the process");
  if (f.reading()) pid = number;
}

void describe(Form& f, GatewayWorker& worker) {
  device_field(f, worker.device, "UUID of the MIG device");
  f.integer("index", worker.index, kPlaces, "which of its processes");
  f.name("service", worker.service, "that it serves");
  describe_process(f, worker.pid);
  f.word("state", worker.state, kReadiness, "whether it gets batches");
  f.number("last_beat_s", worker.last_beat_s, kSeconds, "since its last sign of life");
  f.integer("open", worker.open, kOpen, "requests that it has, of an engine that streams");
  f.number("kv_cache_usage_perc", worker.kv_cache_usage, kPart,
           "share of its KV cache in use, of an engine that says it");
}

void describe(Form& f, GatewayLoss& loss) {
  device_field(f, loss.device, "UUID of the MIG device");
  f.integer("index", loss.index, kPlaces, "which of its processes");
  describe_process(f, loss.pid);
}

void describe(Form& f, GatewayState& state) {
  f.lines("  ");
  f.document("GatewayState");
  f.whole("revision", state.revision, kNotNegative, "of the assignment that it follows");
  describe_process(f, state.pid);
  f.text("identity", state.identity, "distinguishes it from a later process of this number");
  f.number("written_s", state.written_s, kSeconds, "when, on CLOCK_MONOTONIC");
  f.list("services", state.services, describe, {.indent = "    "}, "what their workers carry");
  f.list("workers", state.workers, describe, {.indent = "    "}, "that are connected and warm");
  f.optional(!state.lost.empty());
  f.list("lost", state.lost, describe, {.indent = "    "}, "workers that ended under requests");
  f.optional(!state.uncarried.empty());
  f.list("uncarried", state.uncarried, actuate::describe, {.indent = "    "},
         "what was asked for in vain, since no node carries it");
  Fields* const in = f.reading();
  if (!in || in->error()) return;
  refuse_twice(*in, "services", state.services, &GatewayService::name, "service");
  std::set<std::pair<std::string, int>> places;
  for (const GatewayWorker& one : state.workers)
    if (!places.emplace(one.device, one.index).second)
      in->refuse("workers",
                 fmt::format("worker {} of device '{}' is listed twice", one.index, one.device));
  std::ranges::sort(state.services, {}, &GatewayService::name);
  std::ranges::sort(state.workers, {},
                    [](const GatewayWorker& one) { return std::pair(one.device, one.index); });
}

}  // namespace

const char* to_string(WorkerReadiness readiness) {
  return kReadiness.begin()[static_cast<int>(readiness)];
}

std::string gateway_path(const std::string& state_dir) { return state_dir + "/gateway.json"; }

std::string gateway_json(const GatewayState& state) { return write_form(state, describe); }

Result<GatewayState> parse_gateway(const std::string& file, std::string_view text) {
  return read_form<GatewayState>(file, text, describe);
}

DocumentKind gateway_kind() {
  return document_kind<GatewayState, describe, "GatewayState",
                       "which workers of a gateway are ready, and what they carry">();
}

Result<std::optional<GatewayState>> read_gateway(const GatewayDoors& doors, std::int64_t now_ns) {
  using Found = std::optional<GatewayState>;
  const std::string path = gateway_path(doors.state_dir);
  if (!doors.files.exists(path)) return Found{};
  const std::string text = TRY(doors.files.read(path));
  if (text.empty()) return Found{};  // the machine crashed while one wrote
  GatewayState state = TRY(parse_gateway(path, text));
  if (doors.processes.identity(state.pid) != state.identity) return Found{};
  const double age = static_cast<double>(now_ns) * 1e-9 - state.written_s;
  if (age > static_cast<double>(kGatewayStaleNs) * 1e-9) return Found{};
  return Found{std::move(state)};
}

}  // namespace partita::actuate
