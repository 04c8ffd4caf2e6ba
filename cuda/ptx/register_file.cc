#include "ptx/register_file.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ptx/modifiers.h"

namespace partita::ptx {
namespace {

constexpr std::uint32_t kMaxRegisterBytes = 16u << 20;  // of a warp
constexpr std::uint32_t kMaxLocalBytes = 512u << 10;    // of a thread
constexpr std::uint32_t kStackBytes = 128u << 10;       // of a thread, for calls in a circle
// Marks a slot of a constant until finish() knows where they begin.
constexpr std::uint32_t kConstantSlot = 0x8000'0000u;

}  // namespace

void FirstRefusal::refuse(const std::string& what) {
  if (error) return;
  std::string text;
  if (now != nullptr) {
    text = now->opcode;
    for (const std::string& word : now->modifiers) text += "." + word;
    text = "'" + text + "' ";
  }
  error = Error{ErrorCode::not_supported, text + what,
                module + ":" + std::to_string(now != nullptr ? now->line : line)};
}

std::uint32_t RegisterFile::add(std::uint32_t bytes) {
  if (bytes == 0) {  // masks lie sixteen to a line
    if (next_predicate_ % 64 == 0) {
      next_predicate_ = next_slot_;
      next_slot_ += 64;
    }
    const std::uint32_t slot = next_predicate_;
    next_predicate_ += 4;
    return slot;
  }
  const std::uint32_t slot = next_slot_;
  next_slot_ += bytes * kLanes;
  if (next_slot_ > kMaxRegisterBytes) {
    refusal_.refuse("needs more registers than there are");
    next_slot_ = 0;
  }
  return slot;
}

std::uint32_t RegisterFile::add_local(std::uint32_t bytes, std::uint32_t alignment) {
  const std::uint32_t to = std::max(alignment, 8u);
  next_local_ = (next_local_ + to - 1) / to * to;
  const std::uint32_t at = next_local_;
  next_local_ += bytes;
  if (bytes > kMaxLocalBytes || next_local_ > kMaxLocalBytes) {
    refusal_.refuse("needs more than " + std::to_string(kMaxLocalBytes) + " bytes of local memory");
    next_local_ = 0;
  }
  return at;
}

std::uint32_t RegisterFile::add_constant(std::size_t bytes) {
  const std::size_t begin = program_.constants.size();
  program_.constants.resize((begin + bytes + 63) / 64 * 64);
  return kConstantSlot | static_cast<std::uint32_t>(begin);
}

std::uint32_t RegisterFile::constant(std::uint64_t bits, std::uint32_t bytes) {
  if (bytes == 0) bits = bits != 0 ? kAllLanes : 0;
  if (bytes > 0 && bytes < 8) bits &= (std::uint64_t{1} << (8 * bytes)) - 1;
  const auto [at, is_new] = constants_.try_emplace({bytes, bits}, 0);
  if (!is_new) return at->second;
  const std::uint32_t lanes = bytes == 0 ? 16 : kLanes, each = bytes == 0 ? 4 : bytes;
  at->second = add_constant(lanes * each);
  std::byte* const to = &program_.constants[at->second & ~kConstantSlot];
  for (std::uint32_t i = 0; i < lanes; ++i) std::memcpy(to + i * each, &bits, each);
  return at->second;
}

std::uint32_t RegisterFile::fill(Fill what) {
  const auto [at, is_new] = fills_.try_emplace(what, 0);
  if (!is_new) return at->second;
  at->second = add_constant(4 * kLanes);
  program_.fills.push_back({what, at->second});
  return at->second;
}

std::uint32_t RegisterFile::parameter(std::uint32_t offset, Type type) {
  const auto size = static_cast<std::uint32_t>(size_of(type));
  const auto [at, is_new] = parameters_.try_emplace({offset, size | (is_signed(type) ? 256u : 0u)});
  if (!is_new) return at->second;
  const std::uint32_t bytes = register_bytes_of(type);
  at->second = add_constant(kLanes * bytes);
  program_.parameters.push_back({offset, size, at->second, is_signed(type), bytes});
  return at->second;
}

std::uint32_t RegisterFile::temporary(std::uint32_t bytes) {
  const std::size_t kind = bytes == 0 ? 0 : static_cast<std::size_t>(std::bit_width(bytes)) - 1;
  auto& slots = temporaries_[kind];
  if (used_temporaries_[kind] == slots.size()) slots.push_back(add(bytes));
  return slots[used_temporaries_[kind]++];
}

void RegisterFile::free_temporaries() {
  std::fill(std::begin(used_temporaries_), std::end(used_temporaries_), std::size_t{0});
}

void RegisterFile::use_stack() {
  if (program_.stack_slot == 0) program_.stack_slot = add(8);
}

void RegisterFile::finish() {
  const std::uint32_t base = (next_slot_ + 63) / 64 * 64;
  const auto move = [&](std::uint32_t& slot) {
    if ((slot & kConstantSlot) != 0) slot = base + (slot & ~kConstantSlot);
  };
  for (Op& op : program_.code)
    for (std::uint32_t* slot : {&op.d, &op.a, &op.b, &op.c, &op.e}) move(*slot);
  for (FillSlot& fill : program_.fills) move(fill.slot);
  for (ParameterSlot& parameter : program_.parameters) move(parameter.slot);
  for (CallSite& site : program_.calls) {
    move(site.target);
    for (Place& place : site.arguments) move(place.offset);
  }
  for (TextureOp& texture : program_.textures) {
    move(texture.handle);
    move(texture.layer);
    for (std::uint32_t& slot : texture.coordinates) move(slot);
    for (std::optional<std::uint32_t>& slot : texture.values)
      if (slot) move(*slot);
  }
  for (MatrixOp& matrix : program_.matrices) {
    move(matrix.stride);
    for (Fragment* fragment : {&matrix.a, &matrix.b, &matrix.c, &matrix.d})
      for (std::uint32_t& slot : fragment->slots) move(slot);
  }
  program_.constant_begin = base;
  program_.register_bytes = base + static_cast<std::uint32_t>(program_.constants.size());
  program_.local_bytes = (next_local_ + 15) / 16 * 16;
  if (program_.stack_slot == 0) return;
  program_.stack_begin = program_.local_bytes;
  program_.local_bytes += kStackBytes;
}

}  // namespace partita::ptx
