#include "act/workers_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>

#include "base/fields.h"
#include "base/json_writer.h"
#include "base/parse_number.h"

namespace partita::actuate {
namespace {

constexpr Range kNumbers{.high = 1e9};
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
  if (worker.answering != Answering::unknown)
    out.raw(", \"readiness\": ").string(to_string(worker.answering));
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

constexpr Answering kAnswers[] = {Answering::starting, Answering::ready, Answering::leaving,
                                  Answering::silent};

Answering read_answering(Fields& fields) {
  if (!fields.has("readiness")) return Answering::unknown;
  const std::string word = fields.text("readiness");
  for (const Answering one : kAnswers)
    if (word == to_string(one)) return one;
  fields.refuse("readiness",
                fmt::format("'readiness' is '{}', not starting, ready, leaving or silent", word));
  return Answering::unknown;
}

SupervisorRecord read_supervisor(Fields fields) {
  SupervisorRecord supervisor;
  supervisor.pid = static_cast<Pid>(fields.whole("pid", kNumbers));
  if (fields.has("identity")) supervisor.identity = fields.name("identity");
  return supervisor;
}

Environment read_environment(Fields fields) {
  Environment environment;
  for (const auto& [name, value] : fields.node().members) {
    if (value.kind != Node::Kind::string) fields.refuse(value, "must be text");
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
  segment.start = fields.integer("start", kNumbers);
  segment.service = fields.name("service");
  segment.batch = fields.integer("batch", kNumbers);
  segment.processes = fields.integer("processes", {.high = kMaxProcessesPerSegment});
  worker.index = fields.integer("index", {.high = kMaxProcessesPerSegment - 1});
  worker.pid = static_cast<Pid>(fields.whole("pid", kNumbers));
  if (fields.has("identity")) worker.identity = fields.name("identity");
  if (fields.has("port")) worker.port = fields.integer("port", kPorts);
  worker.restarts = fields.integer("restarts", kNumbers);
  worker.quick_failures = fields.integer("quick_failures", kNumbers);
  worker.given_up = fields.boolean("given_up");
  worker.answering = read_answering(fields);
  if (fields.has("last_status")) worker.last_status = fields.integer("last_status", kStatuses);
  for (const Node& item : fields.list("command")) {
    if (item.kind != Node::Kind::string) fields.refuse(item, "'command' must list texts");
    worker.command.push_back(item.text);
  }
  worker.environment = read_environment(fields.object("environment"));
  return worker;
}

}  // namespace

const char* to_string(Answering answering) {
  switch (answering) {
    case Answering::unknown:
      return "";
    case Answering::starting:
      return "starting";
    case Answering::ready:
      return "ready";
    case Answering::leaving:
      return "leaving";
    case Answering::silent:
      return "silent";
  }
  return "";
}

std::string workers_path(const std::string& state_dir) {
  namespace fs = std::filesystem;
  std::error_code code;
  const fs::path absolute = fs::absolute(state_dir, code).lexically_normal();
  const fs::path resolved = fs::weakly_canonical(absolute, code);
  return ((code ? absolute : resolved) / "workers.json").string();
}

std::string worker_tag(const std::string& state_file, const std::string& device, int index) {
  return fmt::format("{}:{}:{}", state_file, device, index);
}

std::optional<std::pair<std::string, int>> worker_place(std::string_view tag,
                                                        const std::string& state_file) {
  if (!tag.starts_with(state_file + ":")) return std::nullopt;
  tag.remove_prefix(state_file.size() + 1);
  const std::size_t colon = tag.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::optional<int> index = parse_number<int>(tag.substr(colon + 1));
  if (!index) return std::nullopt;
  return std::pair(std::string(tag.substr(0, colon)), *index);
}

std::string to_string(const WorkerRecord& worker) {
  const std::string who = fmt::format("worker {} of {}", worker.index, worker.segment.service);
  return worker.pid == 0 ? who : fmt::format("{}, process {}", who, worker.pid);
}

std::string workers_json(const WorkersState& state) {
  JsonWriter out;
  out.raw("{\n  \"api_version\": \"partita/v1\",\n  \"kind\": \"Workers\",\n  \"revision\": ");
  out.number(state.revision);
  if (state.supervisor.pid != 0) {
    out.raw(",\n  \"supervisor\": {\"pid\": ").number(static_cast<long>(state.supervisor.pid));
    if (!state.supervisor.identity.empty())
      out.raw(", \"identity\": ").string(state.supervisor.identity);
    out.raw("}");
  }
  out.raw(",\n  \"workers\": ");
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
  state.revision = fields.whole("revision", kNotNegative);
  if (fields.has("supervisor")) state.supervisor = read_supervisor(fields.object("supervisor"));
  std::set<std::pair<std::string, int>> places;
  for (const Node& item : fields.list("workers")) {
    const WorkerRecord& worker = state.workers.emplace_back(read_worker({fields, item}));
    if (!places.emplace(worker.segment.device, worker.index).second)
      fields.refuse(item, fmt::format("worker {} of device '{}' is listed twice", worker.index,
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
