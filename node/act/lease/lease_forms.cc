#include "act/lease/lease_forms.h"

#include <fmt/format.h>

#include <cmath>

#include "base/append.h"
#include "base/form_rules.h"
#include "base/parse_number.h"
#include "base/shell_word.h"
#include "base/table.h"
#include "forms/reason_forms.h"

namespace partita::lease {
namespace {

constexpr Range kIndex{.high = 1e6};
constexpr Range kTime{.high = 9e15};
constexpr Range kSomePid{.high = 9e15};
constexpr double kMilli = 1000;

void describe_minors(Form& f, DeviceNodes& nodes) {
  f.integer("gpu", nodes.gpu_minor, kIndex, "of /dev/nvidiaN");
  f.integer("gpu_instance", nodes.gpu_instance_minor, kIndex, "of /dev/nvidia-caps");
  f.integer("compute_instance", nodes.compute_instance_minor, kIndex, "of /dev/nvidia-caps");
}

void lease_fields(Form& f, LeaseDocument& document) {
  Lease& lease = document.lease;
  f.text("owner", lease.owner, "whose it is");
  f.note("uuid", lease.uuid, "of the MIG device; empty: it is not there");
  f.integer("gpu", lease.gpu, {.low = -1, .high = 1e6}, "the driver's index; -1: it is not there");
  f.name("gpu_uuid", lease.gpu_uuid, "of the GPU");
  f.name("profile", lease.profile, "its shape");
  f.integer("start", lease.start, kIndex, "first memory slice");
  f.integer("gi_id", lease.gi_id, kIndex, "of the GPU instance");
  f.integer("ci_id", lease.ci_id, kIndex, "of the compute instance");
  f.names("device_nodes", document.nodes.paths, {}, "what a container or a cgroup needs");
  f.object("minors", document.nodes, describe_minors, "of these nodes");
  f.whole("since_ms", lease.since_ms, kTime, "since 1970");
  f.optional(lease.terms.until_ms > 0).whole("until_ms", lease.terms.until_ms, kTime, "its end");
  f.optional(lease.terms.pid > 0)
      .whole("while_pid", lease.terms.pid, kSomePid, "it ends with this process");
  f.boolean("busy", lease.busy, "a process uses it");
  f.boolean("expired", lease.expired, "it goes once nobody uses it");
}

void describe_lease(Form& f, LeaseDocument& document) {
  f.document("Lease");
  lease_fields(f, document);
}

void describe_leases(Form& f, LeasesDocument& document) {
  f.document("Leases");
  f.list("leases", document.leases, lease_fields, {.most = kMaxLeases, .indent = "    "},
         "that stand, the oldest first");
  f.optional().names("returned", document.returned, {.most = kMaxLeases},
                     "owners whose leases have ended now");
}

void describe_wanted(Form& f, Wanted& wanted) {
  f.closed();
  f.text("owner", wanted.owner, "whose it will be");
  f.optional(!wanted.profile.empty()).name("profile", wanted.profile, "its shape");
  f.optional(wanted.gpu.has_value()).integer("gpu", wanted.gpu, kIndex, "this one alone");
  f.optional(wanted.start.has_value()).integer("start", wanted.start, kIndex, "there first");
  f.optional(wanted.exact).boolean("exact", wanted.exact, "there or nowhere");
  f.optional(wanted.ttl_s.has_value())
      .number("ttl_s", wanted.ttl_s, {.low = 0, .high = 1e9}, "how long it stands");
  f.optional(wanted.while_pid > 0)
      .whole("while_pid", wanted.while_pid, kSomePid, "a process of the node that ends it");
  f.optional(!wanted.from.empty()).text("from", wanted.from, "whose lease is handed over");
}

struct RefusalDocument {
  std::vector<plan::Reason> reasons;
  std::vector<FreeShape> free;
};
void describe_free(Form& f, FreeShape& shape) {
  f.integer("gpu", shape.gpu, kIndex, "the driver's index");
  f.name("profile", shape.profile, "a shape that could be made");
  f.integers("starts", shape.starts, kIndex, {}, "where");
}
void describe_refusal(Form& f, RefusalDocument& refusal) {
  f.document("Refusal");
  f.list("reasons", refusal.reasons, forms::describe_reason, {}, "why");
  f.list("free", refusal.free, describe_free, {.indent = "    "}, "what there is room for");
}

// The number behind "gpu0/gi3/access "; -1: the table does not name it.
int minor_of(std::string_view table, const std::string& name) {
  const std::string wanted = name + " ";
  for (std::size_t at = 0; at < table.size();) {
    const std::size_t end = std::min(table.find('\n', at), table.size());
    const std::string_view line = table.substr(at, end - at);
    if (line.starts_with(wanted)) return parse_number<int>(line.substr(wanted.size())).value_or(-1);
    at = end + 1;
  }
  return -1;
}

}  // namespace

Result<Ask> ask_of(const Wanted& wanted, Processes& processes, std::int64_t now_ms) {
  if (const std::string fault = owner_fault(wanted.owner); !fault.empty())
    return bad_input("owner", fmt::format("'{}': {}", wanted.owner, fault));
  if (const std::string fault = wanted.from.empty() ? "" : owner_fault(wanted.from); !fault.empty())
    return bad_input("from", fmt::format("'{}': {}", wanted.from, fault));
  if (wanted.profile.empty() && wanted.from.empty())
    return bad_input("profile", "which shape? As in 3g.40gb");
  if (wanted.exact && !wanted.start) return bad_input("exact", "where exactly? `start` says it");
  if (wanted.ttl_s && wanted.while_pid > 0)
    return bad_input("ttl", "a time or a process ends a lease, not both");
  if (!wanted.from.empty() && (wanted.gpu || wanted.start))
    return bad_input("from", "what is handed over stays where it is");
  std::optional<Terms> terms;
  if (wanted.ttl_s) {
    if (!(*wanted.ttl_s > 0)) return bad_input("ttl", "a time above 0 is wanted");
    terms = Terms{.until_ms = static_cast<long>(now_ms) + std::lround(*wanted.ttl_s * kMilli)};
  }
  if (wanted.while_pid > 0) {
    terms = Terms{.pid = wanted.while_pid, .identity = processes.identity(wanted.while_pid)};
    if (terms->identity.empty())
      return bad_input("while", fmt::format("no process {} lives here", wanted.while_pid));
  }
  if (!wanted.from.empty())
    return Ask{HandOver{wanted.from, wanted.owner, wanted.profile, terms.value_or(Terms{})}};
  return Ask{Take{wanted.owner, wanted.profile, wanted.gpu, wanted.start, wanted.exact, terms}};
}

Result<Wanted> parse_wanted(const std::string& file, std::string_view text) {
  return read_form<Wanted>(file, text, describe_wanted);
}
std::string wanted_json(const Wanted& wanted) { return write_form(wanted, describe_wanted); }

DeviceNodes device_nodes(const Lease& lease, std::string_view mig_minors) {
  DeviceNodes nodes;
  if (lease.uuid.empty()) return nodes;
  // Three numbers are for the whole machine and gi0 of gpu0; each instance has one and 8 for parts.
  constexpr int kFirst = 3, kOfInstance = 9, kOfGpu = 15 * kOfInstance;
  nodes.gpu_minor = lease.gpu;
  const std::string instance = fmt::format("gpu{}/gi{}", lease.gpu, lease.gi_id);
  const int computed = kFirst + lease.gpu * kOfGpu + lease.gi_id * kOfInstance;
  const auto named = [&](const std::string& name, int otherwise) {
    const int minor = minor_of(mig_minors, name);
    return minor < 0 ? otherwise : minor;
  };
  nodes.gpu_instance_minor = named(instance + "/access", computed);
  nodes.compute_instance_minor =
      named(fmt::format("{}/ci{}/access", instance, lease.ci_id), computed + 1 + lease.ci_id);
  nodes.paths = {"/dev/nvidiactl", "/dev/nvidia-uvm", fmt::format("/dev/nvidia{}", nodes.gpu_minor),
                 fmt::format("/dev/nvidia-caps/nvidia-cap{}", nodes.gpu_instance_minor),
                 fmt::format("/dev/nvidia-caps/nvidia-cap{}", nodes.compute_instance_minor)};
  return nodes;
}

LeaseDocument document_of(const Lease& lease, std::string_view mig_minors) {
  return {lease, device_nodes(lease, mig_minors)};
}

std::string lease_json(const LeaseDocument& lease) {
  return write_form(lease, describe_lease, Form::Style::indented);
}
Result<LeaseDocument> parse_lease(const std::string& file, std::string_view text) {
  return read_form<LeaseDocument>(file, text, describe_lease);
}

std::string lease_text(const LeaseDocument& document) {
  const Lease& lease = document.lease;
  return fmt::format("{} is {} at {} of GPU {}, held by {}\n", lease.uuid, lease.profile,
                     lease.start, lease.gpu, lease.owner);
}

std::string lease_shell(const LeaseDocument& document) {
  const Lease& lease = document.lease;
  const DeviceNodes& nodes = document.nodes;
  std::string text;
  const auto line = [&](const std::string& name, const std::string& value) {
    text += fmt::format("export {}={}\n", name, quoted_for_shell(value));
  };
  line("CUDA_VISIBLE_DEVICES", lease.uuid);
  line("PARTITA_LEASE_OWNER", lease.owner);
  line("PARTITA_LEASE_UUID", lease.uuid);
  line("PARTITA_LEASE_GPU", std::to_string(lease.gpu));
  line("PARTITA_LEASE_GPU_UUID", lease.gpu_uuid);
  line("PARTITA_LEASE_PROFILE", lease.profile);
  line("PARTITA_LEASE_START", std::to_string(lease.start));
  line("PARTITA_LEASE_DEVICE_NODES", joined(nodes.paths, ":"));
  line("PARTITA_LEASE_MINORS", fmt::format("{} {} {}", nodes.gpu_minor, nodes.gpu_instance_minor,
                                           nodes.compute_instance_minor));
  return text;
}

std::string leases_json(const LeasesDocument& leases) {
  return write_form(leases, describe_leases, Form::Style::indented);
}
Result<LeasesDocument> parse_leases_document(const std::string& file, std::string_view text) {
  return read_form<LeasesDocument>(file, text, describe_leases);
}

std::string leases_text(const LeasesDocument& leases, std::int64_t now_ms) {
  std::string text;
  for (const std::string& owner : leases.returned)
    text += fmt::format("the lease of {} has ended\n", owner);
  if (leases.leases.empty()) return text + "no leases stand\n";
  Table table{{"OWNER", "GPU", "PROFILE", "START", "UUID", "USED", "UNTIL"}, {}};
  for (const LeaseDocument& one : leases.leases) {
    const Lease& lease = one.lease;
    const Terms& terms = lease.terms;
    std::string until = "returned";
    if (terms.pid > 0) until = fmt::format("process {} ends", terms.pid);
    if (terms.until_ms > 0)
      until =
          fmt::format("{} s", (std::max<std::int64_t>(terms.until_ms - now_ms, 0) + 999) / 1000);
    if (lease.expired) until = "now: it has expired";
    table.rows.push_back({lease.owner, lease.gpu < 0 ? lease.gpu_uuid : std::to_string(lease.gpu),
                          lease.profile, std::to_string(lease.start),
                          lease.uuid.empty() ? "(not there)" : lease.uuid, lease.busy ? "yes" : "-",
                          until});
  }
  return text + to_string(table);
}

std::string refusal_json(const Refused& refused) {
  return write_form(RefusalDocument{{refused.reason}, refused.free}, describe_refusal,
                    Form::Style::indented);
}

Error error_of(const Refused& refused) {
  const bool room = refused.reason.constraint == "room";
  return {room ? ErrorCode::no_room : ErrorCode::infeasible,
          fmt::format("{}: {}", refused.reason.subject, refused.reason.detail), "owner"};
}

DocumentKind lease_kind() {
  return document_kind<LeaseDocument, describe_lease, "Lease",
                       "an instance that somebody holds by name">();
}
DocumentKind leases_kind() {
  return document_kind<LeasesDocument, describe_leases, "Leases", "the leases that stand">();
}
DocumentKind lease_wanted_kind() {
  return document_kind<Wanted, describe_wanted, "LeaseWanted", "what somebody wants to hold">();
}

}  // namespace partita::lease
