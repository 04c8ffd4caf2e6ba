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
constexpr Range kPercentiles{.low = 0, .high = 100};

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

void write_service(JsonWriter& out, const AssignedService& service) {
  out.raw("{\"name\": ").string(service.name);
  if (!service.model.empty()) out.raw(", \"model\": ").string(service.model);
  if (service.slo_ms > 0) out.raw(", \"slo_ms\": ").number(service.slo_ms);
  out.raw(", \"percentile\": ").number(service.percentile);
  out.raw(", \"rate_rps\": ").number(service.rate_rps).raw("}");
}

AssignedService read_service(Fields fields) {
  AssignedService service;
  service.name = fields.name("name");
  if (fields.has("model")) service.model = fields.name("model");
  if (fields.has("slo_ms")) service.slo_ms = fields.number("slo_ms", kNotNegative);
  if (fields.has("percentile")) service.percentile = fields.number("percentile", kPercentiles);
  if (fields.has("rate_rps")) service.rate_rps = fields.number("rate_rps", kNotNegative);
  return service;
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
  if (!assignment.services.empty()) {
    out.raw(",\n  \"services\": ");
    out.list(assignment.services, "    ", [&](const AssignedService& s) { write_service(out, s); });
  }
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
  if (fields.has("services")) {
    std::set<std::string> names;
    for (const Node& item : fields.list("services")) {
      assignment.services.push_back(read_service({fields, item}));
      const std::string& name = assignment.services.back().name;
      if (!names.insert(name).second)
        fields.refuse(item, fmt::format("service '{}' is listed twice", name));
      if (fields.error()) return failed(*fields.error());
    }
    if (fields.error()) return failed(*fields.error());
  }
  std::ranges::sort(assignment.segments, {}, &AssignedSegment::device);
  std::ranges::sort(assignment.services, {}, &AssignedService::name);
  return assignment;
}

std::vector<AssignedService> services_amid(const std::vector<AssignedService>& wanted,
                                           const Assignment& now) {
  std::vector<AssignedService> services = wanted;
  for (const AssignedService& before : now.services) {
    const bool known = std::ranges::count(wanted, before.name, &AssignedService::name) > 0;
    const bool runs = std::ranges::count(now.segments, before.name, &AssignedSegment::service) > 0;
    if (runs && !known) services.push_back(before);
  }
  std::ranges::sort(services, {}, &AssignedService::name);
  return services;
}

}  // namespace partita::actuate
