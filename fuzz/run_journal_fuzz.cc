// The journal of a batch run, as it stands and with the checksums made right: a refusal with its
// line, or records that are written and read the same. Whatever is behind the last newline is torn.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "act/batch/run_journal.h"
#include "target.h"

namespace {

namespace exec = partita::exec;

void check_run_journal(const std::string& text) {
  const auto parsed = exec::parse_journal("fuzz", text);
  if (!parsed) {
    CHECK(parsed.error().context.starts_with("fuzz:"));
    return;
  }
  CHECK(parsed->valid_bytes == text.rfind('\n') + 1);
  std::string again;
  for (const exec::Record& record : parsed->records) again += exec::record_line(record);
  const auto same = exec::parse_journal("again", again);
  CHECK(same && same->records == parsed->records && same->valid_bytes == again.size());
}

}  // namespace

FUZZ_TARGET(run_journal) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_run_journal(text);
  std::string summed;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    summed += partita::log_line(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
  }
  check_run_journal(summed);
  return 0;
}
