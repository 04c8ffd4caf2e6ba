// Journals of power settings: the input as it is, and as the record of a good log. What is read
// survives writing.
#include <string_view>

#include "act/power_guard.h"
#include "base/check.h"
#include "base/files.h"
#include "target.h"

namespace {

namespace actuate = partita::actuate;

void check_power_journal(const std::string& content) {
  partita::MemoryFiles files;
  files.content["power.journal"] = content;
  const auto read = actuate::read_power_journal(files, "power.journal");
  if (!read) {
    CHECK(read.error().context.starts_with("power.journal"));
    return;
  }
  for (const actuate::PowerBefore& before : *read) {
    const auto again = actuate::parse_power_record("again", actuate::power_record(before));
    CHECK(again && *again == before);
  }
}

}  // namespace

FUZZ_TARGET(power_journal) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_power_journal(text);
  check_power_journal(partita::log_header("power") +
                      partita::log_line(text.substr(0, text.find('\n'))));
  return 0;
}
