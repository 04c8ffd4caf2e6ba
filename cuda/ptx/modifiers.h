// The words behind an opcode, and the types among them.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/module.h"

namespace partita::ptx {

bool is_float(Type type);
bool is_signed(Type type);
bool is_half(Type type);                     // f16, bf16 and their pairs
std::uint32_t register_bytes_of(Type type);  // of one lane; 8-bit values lie in 16 bits
Type type_named(std::string_view name);      // none where it is no type
Type bits_type(std::uint32_t bytes);         // b16, b32, b64
std::string bits_name(Type type);            // of a register: "u32"
std::string signed_name(Type type);          // the same, "s32" where the type is signed

// The modifiers of an instruction; what no decoder takes is refused.
class Modifiers {
 public:
  explicit Modifiers(const std::vector<std::string>& words = {});
  bool take(std::string_view word);  // whether it is there
  // The first of the words that is there; empty where none is.
  std::string take_any(std::initializer_list<std::string_view> words);
  // The first that begins with this letter and goes on with a digit.
  std::string take_starting(char letter);
  void take_all() { words_.clear(); }
  const std::vector<Type>& types() const { return types_; }
  Type type(std::size_t i) const { return i < types_.size() ? types_[i] : Type::none; }
  std::string left() const;  // the first that nobody took

 private:
  std::vector<std::string> words_;
  std::vector<Type> types_;
};

}  // namespace partita::ptx
