#include "hw/telemetry/log.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/document.h"
#include "hw/telemetry/forms.h"
#include "hw/telemetry/physics.h"

namespace partita::telemetry {
namespace {

// One line that is not blank.
Result<Sample> read_line(std::string_view line, const std::string& at) {
  if (!line.starts_with('{')) return bad_input(at, "a line must be a JSON object");
  auto sample = read_form<Sample>("line", line, describe_sample);
  if (!sample) return bad_input(at, sample.error().message);
  return sample;
}

}  // namespace

std::string write_line(const Sample& sample) {
  std::string line = write_form(sample, describe_sample);
  std::erase(line, '\n');
  return line + '\n';
}

std::string_view torn_end(std::string_view text) {
  const std::string_view last = text.substr(text.rfind('\n') + 1);  // npos + 1 is 0
  if (!last.starts_with('{') || parse_document("line", last)) return {};
  return last;
}

std::string torn_note(std::string_view text, const std::string& name) {
  const std::size_t bytes = torn_end(text).size();
  if (bytes == 0) return {};
  return fmt::format("{}: the last line was not written to its end ({} bytes), and is left out",
                     name, bytes);
}

Result<Log> read_log(std::string_view text, const std::string& name) {
  text.remove_suffix(torn_end(text).size());
  Log log;
  Continuity continuity;
  for (int line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (one.ends_with('\r')) one.remove_suffix(1);
    if (one.find_first_not_of(" \t") == std::string_view::npos) continue;
    const std::string at = fmt::format("{}:{}", name, line);
    auto sample = TRY(read_line(one, at));
    const std::string fault = continuity.fault_of(sample);
    if (!fault.empty()) return bad_input(at, fault);
    log.push_back(std::move(sample));
  }
  if (log.empty()) return bad_input(name, "no sample");
  return log;
}

}  // namespace partita::telemetry
