#include "act/assignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/fields.h"
#include "base/files.h"
#include "base/split.h"
#include "base/unicode.h"
#include "forms/terms_form.h"

namespace partita::actuate {
namespace {

constexpr Range kCounts{.high = 1e6};
constexpr Range kStarts{.high = 1023};

void describe_assigned(Form& f, AssignedSegment& one) {
  device_field(f, one.device, "UUID of the MIG device; of a group of whole GPUs theirs");
  f.name("gpu_uuid", one.gpu_uuid, "of its GPU, the first one of a group");
  f.name("profile", one.profile, "catalogue name");
  f.integer("start", one.start, kStarts, "first memory slice");
  f.name("service", one.service, "that runs there");
  f.integer("batch", one.batch, kCounts, "largest batch");
  f.integer("processes", one.processes, {.high = kMaxProcessesPerSegment}, "that share it");
  f.optional(one.throughput_rps > 0)
      .number("throughput_rps", one.throughput_rps, kNotNegative, "planned to carry at most");
  describe_shares(f, one);
}

// Refuses the second item of a name.
template <class Items, class Name>
void refuse_twice(Fields& in, std::string_view key, const Items& items, Name name,
                  std::string_view sentence) {
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < items.size() && !in.error(); ++i)
    if (!seen.insert(name(items[i])).second)
      in.refuse(in.node().find(key)->items[i], fmt::format(fmt::runtime(sentence), name(items[i])));
}

void describe_file(Form& f, Assignment& assignment) {
  f.lines("  ");
  f.document("Assignment");
  describe_assignment(f, assignment);
}

}  // namespace

void describe_shares(Form& f, Segment& one) {
  f.optional(one.held > 0).integer("held", one.held, kCounts, "models at once, of a set of them");
  f.optional(one.prefill_units > 0)
      .integer("prefill_units", one.prefill_units, kCounts, "SMs that only compute prompts");
  f.optional(one.decode_units > 0)
      .integer("decode_units", one.decode_units, kCounts, "SMs that only decode");
  forms::describe_engine(f, one.engine);
}

void describe_kept_terms(Form& f, plan::Terms& terms) {
  forms::describe_terms(f, terms, forms::TermsKept::known);
  const bool read = f.reading() != nullptr;
  if (read && terms.model.empty() && terms.percentile == plan::kDefaultPercentile)
    terms.percentile = 0;
}

void describe_assignment(Form& f, Assignment& assignment) {
  const ListForm rows{.indent = "    "};
  f.whole("revision", assignment.revision, kNotNegative, "grows with every write");
  f.list("segments", assignment.segments, describe_assigned, rows, "by device");
  f.optional(!assignment.services.empty())
      .list("services", assignment.services, describe_kept_terms, rows,
            "by name: what they ask for and are promised");
  Fields* const in = f.reading();
  if (!in || in->error()) return;
  refuse_twice(
      *in, "segments", assignment.segments,
      [](const AssignedSegment& one) -> const std::string& { return one.device; },
      "device '{}' is assigned twice");
  refuse_twice(
      *in, "services", assignment.services,
      [](const plan::Terms& one) -> const std::string& { return one.name; },
      "service '{}' is listed twice");
  std::ranges::sort(assignment.segments, {}, &AssignedSegment::device);
  std::ranges::sort(assignment.services, {}, &plan::Terms::name);
}

std::vector<std::string> whole_gpus(const std::string& device) {
  if (!device.starts_with("GPU-")) return {};
  return split(device, ',');
}

device::Occupants occupants_of(const Assignment& assignment) {
  device::Occupants all;
  for (const AssignedSegment& one : assignment.segments) {
    const std::vector<std::string> whole = whole_gpus(one.device);
    device::Occupant runs{one.service, one.batch, one.processes};
    if (whole.size() > 1) runs.group = whole;
    for (const std::string& gpu : whole) all[gpu] = runs;
    if (whole.empty()) all[one.device] = runs;
  }
  return all;
}

void device_field(Form& f, std::string& device, std::string_view about) {
  f.text("device", device, about);
  if (f.reading() == nullptr || device.empty()) return;
  for (const std::string& name : split(device, ','))
    if (const std::string fault = name_fault(name); !fault.empty())
      return f.reading()->refuse("device", "'device' " + fault);
}

std::string assignment_json(const Assignment& assignment) {
  return sealed(write_form(assignment, describe_file));
}

Result<Assignment> parse_assignment(const std::string& file, std::string_view text) {
  const auto json = TRY(unsealed(file, text));
  return read_form<Assignment>(file, json, describe_file);
}

std::vector<plan::Terms> services_amid(const std::vector<plan::Terms>& wanted,
                                       const Assignment& now) {
  std::vector<plan::Terms> services = wanted;
  for (const plan::Terms& before : now.services) {
    const bool known = std::ranges::count(wanted, before.name, &plan::Terms::name) > 0;
    const bool runs = std::ranges::count(now.segments, before.name, &AssignedSegment::service) > 0;
    if (runs && !known) services.push_back(before);
  }
  std::ranges::sort(services, {}, &plan::Terms::name);
  return services;
}

}  // namespace partita::actuate
