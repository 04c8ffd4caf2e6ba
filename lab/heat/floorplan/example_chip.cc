#include "heat/floorplan/example_chip.h"

#include <fmt/format.h>

#include <string_view>

namespace partita::floorplan {
namespace {

constexpr double kMm = 1e-3, kIdleWatts = 17.4;
constexpr double kColumn = 4.9, kRow = 3.1, kFirstRow = 1.5, kRightColumn = 6.9;

// Where the blocks of an SM meet, as shares of its width and height.
struct Lines {
  double exe = 0.62, registers = 0.42, shared = 0.74;  // from the left
  double lower = 0.32, upper = 0.68;                   // from below
};

Lines lines_of(std::uint64_t seed) {
  Lines lines;
  if (seed == 0) return lines;
  Rng random(seed);
  const auto moved = [&](double at, double by) { return at + by * (2 * random.uniform() - 1); };
  lines.exe = moved(0.58, 0.12);
  lines.registers = moved(0.38, 0.08);
  lines.shared = moved(0.70, 0.07);
  lines.lower = moved(0.32, 0.06);
  lines.upper = moved(0.67, 0.06);
  return lines;
}

void add_sm(thermal::Floorplan& plan, int sm, const Lines& lines) {
  const double left = sm % 2 == 0 ? 0 : kRightColumn, bottom = kFirstRow + (2 - sm / 2) * kRow;
  const auto add = [&](std::string_view name, double x, double x_end, double y, double y_end) {
    const double from = sm % 2 == 0 ? x : 1 - x_end;  // odd SMs are mirrored
    plan.blocks.push_back({fmt::format("SM{}_{}", sm, name), (x_end - x) * kColumn * kMm,
                           (y_end - y) * kRow * kMm, (left + from * kColumn) * kMm,
                           (bottom + y * kRow) * kMm});
  };
  add("EXE_T", 0, lines.exe, lines.upper, 1);
  add("MEM_T", lines.exe, 1, lines.upper, 1);
  add("REG_FILE", 0, lines.registers, lines.lower, lines.upper);
  add("SHD_MEM", lines.registers, lines.shared, lines.lower, lines.upper);
  add("I_CACHE", lines.shared, 1, lines.lower, lines.upper);
  add("EXE_B", 0, lines.exe, 0, lines.lower);
  add("MEM_B", lines.exe, 1, 0, lines.lower);
}

// Joules per access, Table 5.1.
constexpr double kDecode = 2.5e-11, kInt = 3.42e-11, kFp = 3.35e-11, kSfu = 9.52e-10,
                 kRegisters = 6.05e-12, kL1 = 6.15e-11, kShared = 5.72e-11, kL2 = 6.87e-11;

}  // namespace

ExampleChip example_chip(std::uint64_t seed) {
  ExampleChip chip;
  const Lines lines = lines_of(seed);
  for (int sm = 0; sm < 6; ++sm) add_sm(chip.plan, sm, lines);
  const auto add = [&](const char* name, double x, double y, double x_end, double y_end) {
    chip.plan.blocks.push_back({name, (x_end - x) * kMm, (y_end - y) * kMm, x * kMm, y * kMm});
  };
  add("L2", kColumn, kFirstRow, kRightColumn, 10.8);
  add("GRAPHICS", 0, 0, kRightColumn, kFirstRow);
  add("IO_TOP", 0, 10.8, 12.6, 11.7);
  add("IO_RIGHT", 11.8, kFirstRow, 12.6, 10.8);
  add("IO_BOTTOM", kRightColumn, 0, 12.6, kFirstRow);
  chip.plan.width = 12.6 * kMm;
  chip.plan.height = 11.7 * kMm;
  double sum = 0;
  for (const thermal::Block& block : chip.plan.blocks) {
    const double density = block.name.starts_with("IO") ? 2.5 : block.name == "GRAPHICS" ? 0.4 : 1;
    chip.idle_watts.push_back(density * block.width * block.height);
    sum += chip.idle_watts.back();
  }
  for (double& watts : chip.idle_watts) watts *= kIdleWatts / sum;
  return chip;
}

std::vector<Component> example_components(int sm) {
  const auto named = [&](const char* block) { return fmt::format("SM{}_{}", sm, block); };
  return {{"DECODE", {named("I_CACHE")}, true}, {"EXE", {named("EXE_T"), named("EXE_B")}, true},
          {"RF", {named("REG_FILE")}, true},    {"L1", {named("MEM_T"), named("MEM_B")}, true},
          {"SHRD", {named("SHD_MEM")}, true},   {"L2", {"L2"}, false}};
}

// Instructions per second of the threads of one SM, and accesses per instruction.
std::vector<Program> example_programs() {
  const auto program = [](const char* name, double rate, const std::vector<double>& joules) {
    Program made{name, joules};
    for (double& watts : made.watts) watts *= rate;
    return made;
  };
  return {program("INT_ADD", 30e9, {kDecode, kInt, 3 * kRegisters, 0, 0, 0}),
          program("FP_ADD", 28e9, {kDecode, kFp, 3 * kRegisters, 0, 0, 0}),
          program("SFU_SIN", 2e9, {6 * kDecode, kSfu, 2 * kRegisters, 0, 0, 0}),
          program("REG_FILE", 45e9, {kDecode, 0, 4 * kRegisters, 0, 0, 0}),
          program("SHD_MEM", 20e9, {kDecode, 0, 2 * kRegisters, 0, kShared, 0}),
          program("L1", 18e9, {kDecode, 0, 2 * kRegisters, kL1, 0, 0}),
          program("I_CACHE", 60e9, {kDecode, 0, 0.5 * kRegisters, 0, 0, 0}),
          program("L2", 14e9, {kDecode, 0, 2 * kRegisters, kL1, 0, kL2})};
}

}  // namespace partita::floorplan
