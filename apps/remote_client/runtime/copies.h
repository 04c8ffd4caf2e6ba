// Copies in all directions, by what the addresses are (one address space, as CUDA has it).
#pragma once

#include "abi.h"

namespace partita::remote::shim {

enum CopyKind : int { kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice, kByAddress };

struct PlainCopy {
  void* to;
  const void* from;
  std::size_t bytes;
  int kind;
};
Status copy(const PlainCopy& copy, void* stream, bool may_be_later);

// Managed memory. `flags`: who may touch it beside running work.
Status allocate_managed(void** memory, std::size_t bytes, unsigned flags);
Status attach(const void* memory, unsigned flags);
// What cudaMemPrefetchAsync and cudaMemAdvise ask for managed memory is so without them.
Status noted(const void* memory, std::size_t bytes);

struct RowsCopy {
  void* to;
  std::size_t to_pitch;
  const void* from;
  std::size_t from_pitch;
  std::size_t width, rows;
  int kind;
};
Status copy_rows(const RowsCopy& copy, void* stream, bool may_be_later);

struct RowsSet {
  void* to;
  std::size_t pitch;
  std::uint32_t value, element;
  std::size_t count, rows;
};
Status set_rows(const RowsSet& set, void* stream, bool may_be_later);
// Whether it sets memory of the device; pinned memory otherwise. Or why it cannot be.
client::Got<bool> sets_device(const RowsSet& set);

// What so many rows take, each at a multiple of `pitch`; more than there can be where that has no
// number.
std::uint64_t pitched(std::size_t width, std::size_t rows, std::size_t& pitch);

// The address of a variable of the device code, by its shadow in the program.
client::Got<client::Block> symbol_of(const void* shadow);

}  // namespace partita::remote::shim
