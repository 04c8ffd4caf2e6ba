#include "ptx/modifiers.h"

#include <algorithm>
#include <array>

namespace partita::ptx {

bool is_half(Type type) {
  return type == Type::f16 || type == Type::bf16 || type == Type::f16x2 || type == Type::bf16x2;
}
bool is_float(Type type) { return type == Type::f32 || type == Type::f64 || is_half(type); }
bool is_signed(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}
std::uint32_t register_bytes_of(Type type) {
  if (type == Type::pred) return 0;
  return std::max<std::uint32_t>(2, static_cast<std::uint32_t>(size_of(type)));
}
Type type_named(std::string_view name) {
  static constexpr std::array kTypes = {
      Type::b8,    Type::b16,  Type::b32,    Type::b64,  Type::b128, Type::u8,  Type::u16,
      Type::u32,   Type::u64,  Type::s8,     Type::s16,  Type::s32,  Type::s64, Type::f16,
      Type::f16x2, Type::bf16, Type::bf16x2, Type::tf32, Type::f32,  Type::f64, Type::pred};
  for (const Type type : kTypes)
    if (to_string(type) == name) return type;
  return Type::none;
}
Type bits_type(std::uint32_t bytes) {
  return bytes == 8 ? Type::b64 : bytes == 4 ? Type::b32 : Type::b16;
}
std::string bits_name(Type type) { return "u" + std::to_string(8 * register_bytes_of(type)); }
std::string signed_name(Type type) {
  return (is_signed(type) ? "s" : "u") + std::to_string(8 * register_bytes_of(type));
}

Modifiers::Modifiers(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const Type type = type_named(word);
    if (type == Type::none)
      words_.push_back(word);
    else
      types_.push_back(type);
  }
}
bool Modifiers::take(std::string_view word) {
  const auto at = std::find(words_.begin(), words_.end(), word);
  if (at == words_.end()) return false;
  words_.erase(at);
  return true;
}
std::string Modifiers::take_any(std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words)
    if (take(word)) return std::string(word);
  return {};
}
std::string Modifiers::take_starting(char letter) {
  for (const std::string& word : words_) {
    if (word.size() < 2 || word[0] != letter || word[1] < '0' || word[1] > '9') continue;
    const std::string found = word;
    take(found);
    return found;
  }
  return {};
}
std::string Modifiers::left() const { return words_.empty() ? std::string() : words_.front(); }

}  // namespace partita::ptx
