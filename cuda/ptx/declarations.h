// Variables as PTX declares them: space, alignment, type, name, dimensions, initial values.
#pragma once

#include <cstddef>
#include <vector>

#include "ptx/module.h"
#include "ptx/reader.h"

namespace partita::ptx {

inline constexpr std::uint64_t kMaxVariableBytes = std::uint64_t{1} << 40;
inline constexpr std::uint32_t kMaxVariableAlignment = 1U << 16;

// What stands before the names of a declaration.
struct DeclarationHead {
  Space space = Space::none;
  Type type = Type::none;
  std::uint32_t vector = 1;     // .v2, .v4, .v8
  std::uint32_t alignment = 0;  // 0: not said
  bool is_extern = false;
  bool is_visible = false;
};

// .extern .global .align 4 .v2 .f32, .param .u64 .ptr .global .align 8, ... in any order.
DeclarationHead read_head(Reader& reader);
// NAME[4][2]; no initial values.
Variable read_declarator(Reader& reader, const DeclarationHead& head);
// The same with the initial values that may follow; `budget`: bytes of initial values at most.
Variable read_initialised(Reader& reader, const DeclarationHead& head, std::size_t budget);

}  // namespace partita::ptx
