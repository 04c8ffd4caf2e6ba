#include "actuate/workers_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "base/fields.h"
#include "base/json_writer.h"

namespace partita::actuate {
namespace {

constexpr Range kCounts{.high = 1e9};
constexpr Range kPorts{.high = 65535};
constexpr Range kStatuses{.low = kUnknownStatus, .high = 255};

// Counters that may grow for ever stop growing in the file.
long bounded(int count) { return std::min(count, 1'000'000'000); }

void write(JsonWriter& out, const WorkerRecord& worker) {
  const AssignedSegment& segment = worker.segment;
  out.raw("{\"device\": ").string(segment.device);
  out.raw(", \"index\": ").number(long{worker.index});
  out.raw(", \"gpu_uuid\": ").string(segment.gpu_uuid);
  out.raw(", \"profile\": ").string(segment.profile);
  out.raw(", \"start\": ").number(long{segment.start});
  out.raw(", \"service\": ").string(segment.service);
  out.raw(", \"batch\": ").number(long{segment.batch});
  out.raw(", \"processes\": ").number(long{segment.processes});
  out.raw(",\n     \"pid\": ").number(static_cast<long>(worker.pid));
  if (!worker.identity.empty()) out.raw(", \"identity\": ").string(worker.identity);
  if (worker.port > 0) out.raw(", \"port\": ").number(long{worker.port});
  out.raw(", \"restarts\": ").number(bounded(worker.restarts));
  out.raw(", \"quick_failures\": ").number(bounded(worker.quick_failures));
  out.raw(", \"given_up\": ").boolean(worker.given_up);
  if (worker.last_status) out.raw(", \"last_status\": ").number(long{*worker.last_status});
  out.raw(",\n     \"command\": ");
  out.list(worker.command, "      ", [&](const std::string& word) { out.string(word); });
  out.raw(",\n     \"environment\": {");
  const char* separator = "";
  for (const auto& [name, value] : worker.environment) {
    out.raw(std::exchange(separator, ", ")).string(name).raw(": ").string(value);
  }
  out.raw("}}");
}

Environment read_environment(Fields fields) {
  Environment environment;
  for (const auto& [name, value] : fields.node().members) {
    if (value.kind != Node::Kind::string) fields.refuse(value, "a value here must be a text");
    environment[name] = value.text;
  }
  return environment;
}

WorkerRecord read_worker(Fields fields) {
  WorkerRecord worker;
  AssignedSegment& segment = worker.segment;
  segment.device = fields.name("device");
  segment.gpu_uuid = fields.name("gpu_uuid");
  segment.profile = fields.name("profile");
  segment.start = fields.integer("start", kCounts);
  segment.service = fields.name("service");
  segment.batch = fields.integer("batch", kCounts);
  segment.processes = fields.integer("processes", {.high = kMaxProcessesPerSegment});
  worker.index = fields.integer("index", {.high = kMaxProcessesPerSegment - 1});
  worker.pid = static_cast<Pid>(std::floor(fields.number("pid", kCounts)));
  if (fields.has("identity")) worker.identity = fields.name("identity");
  if (fields.has("port")) worker.port = fields.integer("port", kPorts);
  worker.restarts = fields.integer("restarts", kCounts);
  worker.quick_failures = fields.integer("quick_failures", kCounts);
  worker.given_up = fields.boolean("given_up");
  if (fields.has("last_status")) worker.last_status = fields.integer("last_status", kStatuses);
  for (const Node& item : fields.list("command")) {
    if (item.kind != Node::Kind::string) fields.refuse(item, "'command' must list texts");
    worker.command.push_back(item.text);
  }
  worker.environment = read_environment(fields.object("environment"));
  return worker;
}

}  // namespace

std::string workers_json(const WorkersState& state) {
  JsonWriter out;
  out.raw("{\n  \"api_version\": \"partita/v1\",\n  \"kind\": \"Workers\",\n  \"revision\": ");
  out.number(state.revision).raw(",\n  \"workers\": ");
  out.list(state.workers, "    ", [&](const WorkerRecord& worker) { write(out, worker); });
  out.raw("\n}\n");
  return out.take();
}

Result<WorkersState> parse_workers(const std::string& file, std::string_view text) {
  const Result<Document> document = parse_document(file, text);
  if (!document) return failed(document.error());
  Fields fields(*document);
  fields.exactly("api_version", "partita/v1");
  fields.exactly("kind", "Workers");
  WorkersState state;
  state.revision = static_cast<long>(std::floor(fields.number("revision", kNotNegative)));
  std::set<std::pair<std::string, int>> places;
  for (const Node& item : fields.list("workers")) {
    const WorkerRecord& worker = state.workers.emplace_back(read_worker({fields, item}));
    if (!places.emplace(worker.segment.device, worker.index).second)
      fields.refuse(item, fmt::format("worker {} of device '{}' is there twice", worker.index,
                                      worker.segment.device));
    if (fields.error()) return failed(*fields.error());
  }
  if (fields.error()) return failed(*fields.error());
  std::ranges::sort(state.workers, {}, [](const WorkerRecord& worker) {
    return std::pair(worker.segment.device, worker.index);
  });
  return state;
}

}  // namespace partita::actuate
