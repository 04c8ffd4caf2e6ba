// The table of planted faults (planted.txt) as values: each case is two kernels that differ in what
// is wrong with one of them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ptx/machine.h"

namespace partita::ptx::planted {

struct Buffer {
  std::string name = {};
  std::uint64_t bytes = 0;
  std::optional<std::uint64_t> written = {};  // the first bytes the host wrote; nothing: all
  bool operator==(const Buffer&) const = default;
};

// What is certain about the fault.
struct Expected {
  std::string kind = {};  // as to_string(FaultKind), or "refused"
  std::optional<bool> write = {};
  std::optional<std::uint32_t> size = {};
  std::optional<Extent> block = {}, thread = {};
};

struct Version {
  std::string name = {};  // of the case
  Expected expected = {};
  Extent grid = {}, block = {32, 1, 1};
  std::uint32_t dynamic = 0, n = 0;
  std::optional<std::uint64_t> parameters = {};  // bytes, where not as many as there are
  Checks checks = {};
  std::vector<Buffer> buffers = {};
  std::set<std::string> freed = {}, null = {}, host = {};
  std::string text = {};      // the module
  std::set<int> marked = {};  // lines of `text` where the fault may be named
};

struct Case {
  Version bug, clean;
};

std::vector<Case> read_cases(const std::string& table);

}  // namespace partita::ptx::planted
