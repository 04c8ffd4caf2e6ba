// Families of instructions: for each opcode the function that decodes it at a site, words, operands
// and ops, or refuses it there. A family knows nothing of the others but the pieces named here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ptx/control.h"
#include "ptx/site.h"

namespace partita::ptx {

struct Opcode {
  std::string_view name;
  void (*decode)(Site& at);
};

// One namespace per family, so that they need not know each other's names.
using Opcodes = std::span<const Opcode>;
// clang-format off
namespace integers { Opcodes opcodes(); }
namespace floats { Opcodes opcodes(); }
namespace selects { Opcodes opcodes(); }    // comparisons, and what chooses by them
namespace moves { Opcodes opcodes(); }      // and conversions
namespace accesses { Opcodes opcodes(); }   // loads, stores, addresses
namespace atomics { Opcodes opcodes(); }    // and barriers in memory
namespace flow { Opcodes opcodes(); }       // branches, calls, fences
namespace exchanges { Opcodes opcodes(); }  // barriers, and what lanes exchange
namespace matrices { Opcodes opcodes(); }
namespace textures { Opcodes opcodes(); }   // and surfaces
// clang-format on

// nullptr where no family has it.
const Opcode* find_opcode(std::string_view name);

// Floats and halves: `base` of so many sources, with the words that such have.
void float_op(Site& at, const std::string& base, std::size_t sources);
// The rounding of the op emitted next.
void emit_rounding(Site& at, const std::string& mode);

// Flags of memory ops, as ops_memory.h has them.
inline constexpr std::uint32_t kWideAddressFlag = 4, kStaticFlag = 8;

// Where an access goes.
struct Address {
  Space space = Space::none;  // global stands for generic too
  bool is_generic = false;
  std::uint32_t slot = 0;
  std::int64_t offset = 0;
  bool is_wide = true;
  bool is_static = false;
  bool is_parameter = false;  // a kernel's, at `offset`
  ArrayBounds array = {};     // in shared memory, where it is known
};
// `space`: as the instruction says. An address that says more is believed.
Address address(Site& at, const Operand& operand, Space space);
// The same in any space, as a generic one.
std::uint32_t generic_address(Site& at, const Operand& operand, Space space);
// The space that the words name; `generic`: none. Then global stands for all.
struct SpaceWord {
  Space space = Space::global;
  bool generic = false;
};
SpaceWord take_space(Site& at);
// What says nothing here: caches, evictions, scopes.
void take_memory_words(Site& at);

// cp.async with `bulk` or `mbarrier` taken, and copies of a size that is not fixed.
void bulk_copy(Site& at);
void arrive_of_copies(Site& at);
// From the second operand, in global memory, to the first, in shared memory: pieces of so many
// bytes; registers of 64 bits say how many there are and how many are wanted.
void emit_copy(Site& at, std::uint32_t piece, std::uint32_t have, std::uint32_t want,
               std::uint32_t flags = 0);
// A number of 32 bits as one of 64.
std::uint32_t wide_source(Site& at, std::size_t i);

}  // namespace partita::ptx
