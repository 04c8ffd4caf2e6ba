// The ops that work on 32 lanes at once, compiled once per level of the processor (x86-64-v3, -v4
// and what the compiler takes as a baseline). Ops are named by opcode, modifiers and types in one
// canonical form ("add.u32", "setp.lt.f64", "ld.shared.u8.u32.v2.32").
#pragma once

#include <span>
#include <string_view>

#include "ptx/program.h"

namespace partita::ptx {

struct NamedOp {
  const char* name = nullptr;
  OpFn fn = nullptr;
};

// By part (integers, floats, conversions, memory) of one level.
struct Level {
  std::string_view name;
  std::span<const NamedOp> parts[4];
};

// Levels this processor can run, best first; the last is always the baseline.
std::span<const Level> usable_levels();

class OpNames {
 public:
  explicit OpNames(const Level& level);
  // nullptr where there is no such op.
  OpFn find(std::string_view name) const;

 private:
  std::vector<NamedOp> sorted_;
};
// The best level's; made at the first call.
const OpNames& op_names();

}  // namespace partita::ptx
