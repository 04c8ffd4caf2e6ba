// Elements: the types of raw memory that kernels work on, by the words that PTX has for them (f32,
// u64), and their values: read from words, filled into memory, written for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace partita {

struct ElementType {
  std::string_view name;
  std::size_t bytes = 0;
  char kind = 'u';  // u, s (signed), f
};

// u8 s8 u16 s16 u32 s32 u64 s64 f32 f64; bad_input for another word.
Result<ElementType> element_type(std::string_view name);
// The bytes of a value in the lowest ones. bad_input: no number, or one that the type does not
// hold.
Result<std::uint64_t> element_bits(const ElementType& type, std::string_view value);
// The element that lies there, for people.
std::string text_of_element(const ElementType& type, const std::byte* at);
// Fills memory of whole elements: zero, ramp (0, 1, 2 ...), or a number; bad_input for another
// word.
Result<void> fill_elements(std::span<std::byte> memory, const ElementType& type,
                           std::string_view fill);

}  // namespace partita
