#include "act/workers_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/form_rules.h"
#include "base/parse_number.h"

namespace partita::actuate {
namespace {

constexpr std::initializer_list<const char*> kAnswering = {"", "starting", "ready", "leaving",
                                                           "silent"};
constexpr Range kNumbers{.high = 1e9};
constexpr Range kPorts{.high = 65535};
constexpr Range kStatuses{.low = kUnknownStatus, .high = 255};

constexpr int kMostCounted = 1'000'000'000;  // counters that may grow for ever stop there

void describe_worker(Form& f, WorkerRecord& worker) {
  AssignedSegment& segment = worker.segment;
  const auto counter = [&](std::string_view key, int& count, std::string_view about) {
    int kept = std::min(count, kMostCounted);
    f.integer(key, kept, kNumbers, about);
    if (f.reading()) count = kept;
  };
  device_field(f, segment.device, "UUID of the MIG device");
  f.integer("index", worker.index, {.high = kMaxProcessesPerSegment - 1}, "which of its processes");
  f.name("gpu_uuid", segment.gpu_uuid, "of its GPU");
  f.name("profile", segment.profile, "catalogue name");
  f.integer("start", segment.start, kNumbers, "first memory slice");
  f.name("service", segment.service, "that it serves");
  f.integer("batch", segment.batch, kNumbers, "largest batch");
  f.integer("processes", segment.processes, {.high = kMaxProcessesPerSegment}, "of the segment");
  describe_shares(f, segment);
  f.line("     ").whole("pid", worker.pid, kNumbers, "0: none runs now");
  f.optional(!worker.identity.empty()).name("identity", worker.identity, "of the process");
  f.optional(worker.port > 0).integer("port", worker.port, kPorts, "that it listens on");
  counter("restarts", worker.restarts, "so far");
  counter("quick_failures", worker.quick_failures, "in a row");
  f.boolean("given_up", worker.given_up, "failed so often that it is tried seldom");
  f.optional(worker.answering != Answering::unknown)
      .word("readiness", worker.answering, kAnswering, "whether it answers");
  f.integer("last_status", worker.last_status, kStatuses, "of the process before this one");
  f.number("start_s", worker.start_s, {.high = 1e6}, "that the last start took until it was ready");
  f.line("     ").notes("command", worker.command, {.indent = "      "}, "that runs");
  form::texts(f.line("     "), "environment", worker.environment, "of the segment");
}

void describe_supervisor(Form& f, SupervisorRecord& supervisor) {
  f.whole("pid", supervisor.pid, kNumbers, "0: not told");
  f.optional(!supervisor.identity.empty()).name("identity", supervisor.identity, "of the process");
}

void describe_workers(Form& f, WorkersState& state) {
  f.lines("  ");
  f.document("Workers");
  f.whole("revision", state.revision, kNotNegative, "of the assignment that is followed");
  f.optional(state.supervisor.pid != 0)
      .object("supervisor", state.supervisor, describe_supervisor, "which process wrote this");
  f.list("workers", state.workers, describe_worker, {.indent = "    "}, "by device, index");
  Fields* const in = f.reading();
  if (!in || in->error()) return;
  std::set<std::pair<std::string, int>> places;
  for (std::size_t i = 0; i < state.workers.size(); ++i) {
    const WorkerRecord& worker = state.workers[i];
    if (!places.emplace(worker.segment.device, worker.index).second)
      in->refuse(in->node().find("workers")->items[i],
                 fmt::format("worker {} of device '{}' is listed twice", worker.index,
                             worker.segment.device));
  }
  std::ranges::sort(state.workers, {}, [](const WorkerRecord& worker) {
    return std::pair(worker.segment.device, worker.index);
  });
}

}  // namespace

const char* to_string(Answering answering) {
  return kAnswering.begin()[static_cast<int>(answering)];
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

std::string workers_json(const WorkersState& state) { return write_form(state, describe_workers); }

Result<WorkersState> parse_workers(const std::string& file, std::string_view text) {
  return read_form<WorkersState>(file, text, describe_workers);
}

DocumentKind workers_kind() {
  return document_kind<WorkersState, describe_workers, "Workers",
                       "which worker of which segment is which process">();
}

}  // namespace partita::actuate
