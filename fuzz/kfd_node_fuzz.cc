// Properties of a GPU as the kernel driver tells them: a node with sensible numbers, or none; what
// a board is made of them is a topology whose masks come back, or a refusal.
#include <bit>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "drivers/hip_mask/board.h"
#include "target.h"

namespace hip = partita::drivers::hip_mask;

FUZZ_TARGET(kfd_node) {
  const auto node = hip::parse_kfd_node({reinterpret_cast<const char*>(data), size});
  if (!node) return 0;
  CHECK(node->engines >= 0 && node->xccs >= 1 && node->bus >= 0 && node->bus < 256);
  const auto board = hip::board_of({.name = "",
                                    .major = node->gfx / 10000,
                                    .minor = node->gfx / 100 % 100,
                                    .multiprocessors = node->cus,
                                    .physical = 0,
                                    .xccs = 0,
                                    .kfd = node});
  if (!board) return 0;
  CHECK(board->topology.units() == node->cus);
  partita::hw::UnitMask mask;
  for (std::size_t unit = 0; unit < board->bits.size(); unit += 3) mask.set(unit);
  std::size_t bits = 0;
  for (const std::uint32_t word : hip::cu_words(board->bits, mask))
    bits += static_cast<std::size_t>(std::popcount(word));
  CHECK(bits == mask.count());
  return 0;
}
