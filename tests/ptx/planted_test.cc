// Sixty and more kernels with one fault each: all are found, where they are and as what they are;
// their twins, and they alone, run to the end.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "base/source_text.h"
#include "planted.h"

namespace partita::ptx::planted {
namespace {

constexpr std::uint64_t kArena = 1 << 20;
constexpr std::uint64_t kHostPointer = 0x7ffd'1234'5000;

const std::vector<Case>& cases() {
  static const std::vector<Case> all = read_cases(source_text("tests/ptx/planted.txt"));
  return all;
}

struct Outcome {
  std::string refused = {};  // by prepare
  std::vector<Fault> faults = {};
};

// Parameters (a, b, n), as the preamble declares them.
std::vector<std::byte> parameters(const Version& version,
                                  const std::map<std::string, std::uint64_t>& addresses) {
  std::vector<std::byte> bytes(20);
  const auto address = [&](const std::string& name) {
    if (version.host.contains(name)) return kHostPointer;
    const auto found = addresses.find(name);
    return found == addresses.end() || version.null.contains(name) ? 0 : found->second;
  };
  const std::uint64_t a = address("a"), b = address("b");
  std::memcpy(bytes.data(), &a, 8);
  std::memcpy(bytes.data() + 8, &b, 8);
  std::memcpy(bytes.data() + 16, &version.n, 4);
  bytes.resize(version.parameters.value_or(bytes.size()));
  return bytes;
}

std::map<std::string, std::uint64_t> make_buffers(Machine& machine, const Version& version) {
  std::map<std::string, std::uint64_t> addresses;
  for (const Buffer& buffer : version.buffers) {
    const auto address = machine.allocate(buffer.bytes);
    EXPECT_TRUE(address.has_value()) << to_string(address.error());
    if (!address) continue;
    addresses[buffer.name] = *address;
    const std::uint64_t written = buffer.written.value_or(buffer.bytes);
    if (written == 0) continue;
    const auto bytes = machine.writable(*address, written);
    EXPECT_TRUE(bytes.has_value());
    if (bytes) std::memset(bytes->data(), 0, bytes->size());
  }
  for (const std::string& name : version.freed) {
    EXPECT_TRUE(machine.release(addresses.at(name)).has_value());
  }
  return addresses;
}

// Executes the groups; one that goes on for long is told to stop.
void execute(Run& run) {
  std::jthread stopper([&run](const std::stop_token& done) {
    for (int waited = 0; waited < 50 && !done.stop_requested(); ++waited) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!done.stop_requested()) run.request_stop();
  });
  for (std::int64_t group = 0; group < run.groups(); ++group) run.execute(group);
}

// `endless`: the kernel is one that goes on until it is told to stop.
Outcome outcome_of(const Version& version, bool endless = false) {
  auto machine = Machine::open(kArena);
  EXPECT_TRUE(machine.has_value());
  const auto module = (*machine)->load(version.text, version.name);
  EXPECT_TRUE(module.has_value()) << to_string(module.error()) << "\n" << version.text;
  if (!module) return {};
  const auto addresses = make_buffers(**machine, version);
  const auto run = (*machine)->prepare({.kernel = {*module, 0},
                                        .grid = version.grid,
                                        .block = version.block,
                                        .dynamic_shared = version.dynamic,
                                        .parameters = parameters(version, addresses),
                                        .checks = version.checks});
  if (!run) return {.refused = to_string(run.error())};
  if (endless) {
    execute(**run);
  } else {
    for (std::int64_t group = 0; group < (*run)->groups(); ++group) (*run)->execute(group);
  }
  return {.faults = (*run)->faults()};
}

void expect_fault(const Version& version, const Fault& fault) {
  const Expected& want = version.expected;
  EXPECT_EQ(to_string(fault.kind), want.kind) << to_text(fault);
  EXPECT_EQ(fault.kernel, "k");
  if (want.write) {
    EXPECT_EQ(fault.write, *want.write) << to_text(fault);
  }
  if (want.size) {
    EXPECT_EQ(fault.size, *want.size) << to_text(fault);
  }
  if (want.block) {
    EXPECT_EQ(fault.block, *want.block) << to_text(fault);
  }
  if (want.thread) {
    EXPECT_EQ(fault.thread, *want.thread) << to_text(fault);
  }
  if (!version.marked.empty()) {
    EXPECT_TRUE(version.marked.contains(fault.line)) << to_text(fault) << "\n" << version.text;
  }
}

void expect_found(const std::set<std::string>& kinds, std::size_t at_least) {
  std::size_t seen = 0;
  for (const Case& one : cases()) {
    if (!kinds.contains(one.bug.expected.kind)) continue;
    SCOPED_TRACE(one.bug.name);
    ++seen;
    const Outcome outcome = outcome_of(one.bug, one.bug.expected.kind == "stopped");
    if (one.bug.expected.kind == "refused") {
      EXPECT_FALSE(outcome.refused.empty());
      continue;
    }
    EXPECT_EQ(outcome.refused, "");
    EXPECT_FALSE(outcome.faults.empty());
    if (!outcome.faults.empty()) expect_fault(one.bug, outcome.faults.front());
  }
  EXPECT_GE(seen, at_least);  // the table is there and its words are right
}

TEST(Planted, OutOfBounds) { expect_found({"out of bounds", "read only"}, 38); }
TEST(Planted, Misaligned) { expect_found({"misaligned"}, 7); }
TEST(Planted, FreedMemory) { expect_found({"use after free"}, 4); }
TEST(Planted, Uninitialised) { expect_found({"uninitialised"}, 6); }
TEST(Planted, Races) { expect_found({"race"}, 17); }
TEST(Planted, BarriersLeftOut) { expect_found({"divergence"}, 12); }
TEST(Planted, WaitsWithoutEnd) { expect_found({"deadlock", "stopped"}, 6); }
TEST(Planted, TrapsAndAssertions) { expect_found({"trap", "assertion", "illegal"}, 5); }
TEST(Planted, LaunchesThatAreWrong) { expect_found({"refused"}, 5); }

TEST(Planted, NoTwinIsAccused) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.clean.name);
    Version twin = one.clean;
    twin.checks = {
        .uninitialised = true, .races = true, .barriers = true};  // whichever the fault needs
    const Outcome outcome = outcome_of(twin);
    EXPECT_EQ(outcome.refused, "");
    EXPECT_TRUE(outcome.faults.empty()) << to_text(outcome.faults.front()) << "\n" << twin.text;
  }
}

// What the table says is what the kernels are: the mark of a fault stands in the faulty version.
TEST(Planted, TheTableIsWhole) {
  std::set<std::string> names;
  for (const Case& one : cases()) {
    EXPECT_TRUE(names.insert(one.bug.name).second) << one.bug.name;
    const auto& [bug, clean] = one;
    const bool differ = bug.text != clean.text || bug.grid != clean.grid ||
                        bug.block != clean.block || bug.dynamic != clean.dynamic ||
                        bug.n != clean.n || bug.freed != clean.freed || bug.null != clean.null ||
                        bug.host != clean.host || bug.parameters != clean.parameters ||
                        bug.buffers.size() != clean.buffers.size() || bug.buffers != clean.buffers;
    EXPECT_TRUE(differ) << bug.name;
    const auto& kind = bug.expected.kind;
    const bool without_line = kind == "refused" || kind == "stopped";
    EXPECT_EQ(bug.marked.empty(), without_line) << bug.name;
  }
  EXPECT_GE(names.size(), 60U);
}

}  // namespace
}  // namespace partita::ptx::planted
