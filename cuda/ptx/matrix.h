// Matrices that lie spread over the registers of a warp, for mma, wmma and ldmatrix. Where the
// elements of a fragment lie is PTX's for mma (ISA, "Matrix Fragments for mma"); for wmma, where
// PTX leaves it open, it is ours.
#pragma once

#include <cstdint>
#include <vector>

namespace partita::ptx {

enum class Element : std::uint8_t { f16, bf16, tf32, f32, f64, s8, u8, s32 };
constexpr std::uint32_t bytes_of(Element element) {
  switch (element) {
    case Element::s8:
    case Element::u8:
      return 1;
    case Element::f16:
    case Element::bf16:
      return 2;
    case Element::f64:
      return 8;
    default:
      return 4;
  }
}
constexpr bool is_integer(Element element) {
  return element == Element::s8 || element == Element::u8 || element == Element::s32;
}

enum class Role : std::uint8_t { a, b, c };  // d lies as c

struct Fragment {
  Role role = Role::c;
  Element element = Element::f32;
  std::uint32_t rows = 0, columns = 0;
  bool native = false;               // as mma has it
  std::vector<std::uint32_t> slots;  // of its registers
  // Of each lane's elements in turn: bytes into the register file, and row * columns + column.
  struct At {
    std::uint32_t offset = 0, index = 0;
    bool operator==(const At&) const = default;
  };
  std::vector<At> elements = {};  // find_elements()
  bool operator==(const Fragment&) const = default;
};

// How many registers it takes: of 8 bytes for f64, else of 4.
constexpr std::uint32_t register_count(Role role, Element element, std::uint32_t rows,
                                       std::uint32_t columns, bool native) {
  if (!native && element == Element::f16 && role != Role::c) return 8;  // some lie in several lanes
  return rows * columns * bytes_of(element) / 32 / (element == Element::f64 ? 8 : 4);
}

struct Position {
  std::uint32_t row = 0, column = 0;
  bool operator==(const Position&) const = default;
};
// Where element `e` of a lane lies in the matrix; elements are counted from the lowest bits of the
// first register.
Position position(const Fragment& fragment, std::uint32_t lane, std::uint32_t e);
void find_elements(Fragment& fragment);
// Elements of one lane.
std::uint32_t element_count(const Fragment& fragment);

struct MatrixOp {
  Fragment a, b, c, d;       // of a load or store: c
  bool saturates = false;    // sums of integers stay within s32
  bool by_columns = false;   // of a load or store: the matrix in memory
  std::uint32_t stride = 0;  // of a load or store: slot of the distance of rows, in elements
};

}  // namespace partita::ptx
