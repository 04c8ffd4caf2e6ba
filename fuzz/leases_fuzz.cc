// Logs of leases: the input as it is, and as the record of a good log. What is read survives
// writing.
#include <string_view>

#include "act/lease/lease_record.h"
#include "base/check.h"
#include "target.h"

namespace {

namespace lease = partita::lease;

void check(const std::string& content) {
  const auto standing = lease::parse_leases("leases", content);
  if (!standing) {
    CHECK(standing.error().context.starts_with("leases:"));
    return;
  }
  std::string again = partita::log_header(lease::kLeaseLogKind);
  for (const auto& [number, record] : standing->leases)
    again += partita::log_line(lease::lease_record_text(record));
  const auto read = lease::parse_leases("again", again);
  CHECK(read && read->leases == standing->leases);
}

}  // namespace

FUZZ_TARGET(leases) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check(text);
  check(partita::log_header(lease::kLeaseLogKind) +
        partita::log_line(text.substr(0, text.find('\n'))));
  return 0;
}
