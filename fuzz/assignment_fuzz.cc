// Assignments: an assignment or a refusal; what was read is printed and read back the same.
#include <cstdint>
#include <string_view>

#include "act/assignment.h"
#include "base/check.h"
#include "target.h"

FUZZ_TARGET(assignment) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto assignment = partita::actuate::parse_assignment("fuzz.json", text);
  if (!assignment) {
    CHECK(assignment.error().context.starts_with("fuzz.json"));
    return 0;
  }
  const auto again = partita::actuate::parse_assignment(
      "again.json", partita::actuate::assignment_json(*assignment));
  CHECK(again && *again == *assignment);
  return 0;
}
