#include "act/lease/lease_record.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/form.h"

namespace partita::lease {
namespace {

using State = LeaseRecord::State;

constexpr double kMostNumber = 9e15;  // a double holds them exactly
constexpr Range kNumber{.low = 1, .high = kMostNumber};

void describe_lease(Form& f, LeaseRecord& record) {
  Terms& terms = record.terms;
  f.whole("lease", record.lease, kNumber, "its number");
  f.word("state", record.state, {"intended", "made", "returning", "gone"}, "what became of it");
  f.text("owner", record.owner, "whose it is");
  f.name("gpu", record.gpu, "UUID");
  f.name("profile", record.profile, "its shape");
  f.integer("profile_id", record.profile_id, {.low = 0}, "the driver's");
  f.integer("start", record.start, {.low = 0}, "first memory slice");
  f.optional(!record.device.empty()).name("device", record.device, "UUID of the MIG device");
  f.whole("since_ms", record.since_ms, {.low = 0, .high = kMostNumber}, "since 1970");
  f.optional(terms.until_ms > 0).whole("until_ms", terms.until_ms, kNumber, "it ends then");
  f.optional(terms.pid > 0).whole("pid", terms.pid, kNumber, "it ends with this process");
  f.optional(terms.pid > 0).text("identity", terms.identity, "what tells that one from later ones");
  Fields* const in = f.reading();
  if (in == nullptr || in->error()) return;
  if (record.state == State::made && record.device.empty())
    in->refuse("device", "an instance that was made has a device");
  if (const std::string fault = owner_fault(record.owner); !fault.empty())
    in->refuse("owner", fault);
  if (terms.pid > 0 && terms.identity.empty()) in->refuse("identity", "which process is meant");
}

bool is_owner_character(char c) {
  const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  return word || std::string_view("._:/@+=,-").find(c) != std::string_view::npos;
}

}  // namespace

std::string owner_fault(std::string_view owner) {
  if (owner.empty()) return "an owner has a name";
  if (owner.size() > kMaxOwner)
    return fmt::format("{} characters; {} are the limit", owner.size(), kMaxOwner);
  if (!std::ranges::all_of(owner, is_owner_character) || owner[0] == '/' || owner[0] == '-' ||
      owner.ends_with('/'))
    return "letters, digits and . _ : / @ + = , - are wanted, as in slurm:42 or slurm:42/2";
  return {};
}

bool belongs(std::string_view owner, std::string_view named) {
  if (!owner.starts_with(named)) return false;
  return owner.size() == named.size() || owner[named.size()] == '/';
}

const LeaseRecord* StandingLeases::of(std::string_view owner) const {
  for (const auto& [number, lease] : leases)
    if (lease.owner == owner) return &lease;
  return nullptr;
}

std::string lease_record_text(const LeaseRecord& record) {
  std::string text = write_form(record, describe_lease);
  text.pop_back();
  return text;
}

Result<StandingLeases> standing_leases(const std::string& file, const ParsedLog& log) {
  StandingLeases standing;
  std::map<std::string, long> by_owner;
  for (const LogRecord& line : log.records) {
    const std::string where = fmt::format("{}:{}", file, line.line);
    const Result<LeaseRecord> record = read_form<LeaseRecord>("lease", line.text, describe_lease);
    if (!record) return bad_input(where, record.error().message);
    standing.last = std::max(standing.last, record->lease);
    if (const auto was = standing.leases.find(record->lease); was != standing.leases.end())
      by_owner.erase(was->second.owner);
    if (record->state == State::gone) {
      standing.leases.erase(record->lease);
      continue;
    }
    if (standing.leases.size() == kMaxLeases && !standing.leases.contains(record->lease))
      return bad_input(where, fmt::format("more than {} leases stand", kMaxLeases));
    if (const auto [other, fresh] = by_owner.emplace(record->owner, record->lease); !fresh)
      return bad_input(where, fmt::format("'{}' has lease {}, too", record->owner, other->second));
    standing.leases[record->lease] = *record;
  }
  return standing;
}

Result<StandingLeases> parse_leases(const std::string& file, std::string_view text) {
  const ParsedLog log = TRY(parse_log(file, kLeaseLogKind, text));
  return standing_leases(file, log);
}

}  // namespace partita::lease
