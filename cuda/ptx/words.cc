#include "ptx/words.h"

#include <array>
#include <utility>

namespace partita::ptx {
namespace {

struct TypeRow {
  std::string_view word;
  std::size_t bytes;
};
// By Type.
constexpr std::array<TypeRow, 22> kTypes = {{
    {"none", 0}, {"b8", 1},  {"b16", 2}, {"b32", 4},   {"b64", 8},  {"b128", 16},
    {"u8", 1},   {"u16", 2}, {"u32", 4}, {"u64", 8},   {"s8", 1},   {"s16", 2},
    {"s32", 4},  {"s64", 8}, {"f16", 2}, {"f16x2", 4}, {"bf16", 2}, {"bf16x2", 4},
    {"tf32", 4}, {"f32", 4}, {"f64", 8}, {"pred", 0},
}};
constexpr std::array<std::string_view, 7> kSpaces = {"",      "reg",   "const", "global",
                                                     "local", "param", "shared"};

}  // namespace

std::size_t size_of(Type type) { return kTypes[static_cast<std::size_t>(type)].bytes; }

std::string to_string(Type type) {
  return std::string(kTypes[static_cast<std::size_t>(type)].word);
}

Type type_of(std::string_view word) {
  for (std::size_t at = 1; at < kTypes.size(); ++at) {
    if (kTypes[at].word == word) return static_cast<Type>(at);
  }
  if (word == "texref" || word == "samplerref" || word == "surfref") return Type::b64;
  return Type::none;
}

std::string_view space_word(Space space) { return kSpaces[static_cast<std::size_t>(space)]; }

Space space_of(std::string_view word) {
  for (std::size_t at = 1; at < kSpaces.size(); ++at) {
    if (kSpaces[at] == word) return static_cast<Space>(at);
  }
  return Space::none;
}

}  // namespace partita::ptx
