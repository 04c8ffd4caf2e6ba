#include "actuate/assignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/fields.h"
#include "base/json_writer.h"

namespace partita::actuate {
namespace {

constexpr Range kCounts{.high = 1e6};
constexpr Range kStarts{.high = 1023};

void write(JsonWriter& out, const AssignedSegment& segment) {
  out.raw("{\"device\": ").string(segment.device);
  out.raw(", \"gpu_uuid\": ").string(segment.gpu_uuid);
  out.raw(", \"profile\": ").string(segment.profile);
  out.raw(", \"start\": ").number(long{segment.start});
  out.raw(", \"service\": ").string(segment.service);
  out.raw(", \"batch\": ").number(long{segment.batch});
  out.raw(", \"processes\": ").number(long{segment.processes});
  if (segment.throughput_rps > 0) out.raw(", \"throughput_rps\": ").number(segment.throughput_rps);
  out.raw("}");
}

AssignedSegment read_segment(Fields fields) {
  AssignedSegment segment;
  segment.device = fields.name("device");
  segment.gpu_uuid = fields.name("gpu_uuid");
  segment.profile = fields.name("profile");
  segment.start = fields.integer("start", kStarts);
  segment.service = fields.name("service");
  segment.batch = fields.integer("batch", kCounts);
  segment.processes = fields.integer("processes", {.high = kMaxProcessesPerSegment});
  if (fields.has("throughput_rps"))
    segment.throughput_rps = fields.number("throughput_rps", kNotNegative);
  return segment;
}

}  // namespace

std::string assignment_json(const Assignment& assignment) {
  JsonWriter out;
  out.raw("{\n  \"api_version\": \"partita/v1\",\n  \"kind\": \"Assignment\",\n  \"revision\": ");
  out.number(assignment.revision).raw(",\n  \"segments\": ");
  out.list(assignment.segments, "    ", [&](const AssignedSegment& s) { write(out, s); });
  out.raw("\n}\n");
  return out.take();
}

Result<Assignment> parse_assignment(const std::string& file, std::string_view text) {
  const Result<Document> document = parse_document(file, text);
  if (!document) return failed(document.error());
  Fields fields(*document);
  fields.exactly("api_version", "partita/v1");
  fields.exactly("kind", "Assignment");
  Assignment assignment;
  assignment.revision = fields.whole("revision", kNotNegative);
  std::set<std::string> devices;
  for (const Node& item : fields.list("segments")) {
    assignment.segments.push_back(read_segment({fields, item}));
    const std::string& device = assignment.segments.back().device;
    if (!devices.insert(device).second)
      fields.refuse(item, fmt::format("device '{}' is assigned twice", device));
    if (fields.error()) return failed(*fields.error());
  }
  if (fields.error()) return failed(*fields.error());
  std::ranges::sort(assignment.segments, {}, &AssignedSegment::device);
  return assignment;
}

}  // namespace partita::actuate
