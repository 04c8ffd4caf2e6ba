// Multiplication of matrices that lie in registers, and their loads and stores. Sums are made in
// double and rounded once, so they are at least as exact as a GPU's. All lanes are here: the
// decoder puts a barrier of the warp before.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "ptx/control.h"
#include "ptx/exec.h"
#include "ptx/matrix.h"
#include "ptx/memory_ops.h"

namespace partita::ptx::control {
namespace {

constexpr std::uint32_t kMostElements = 1024;  // of a matrix
using Matrix = std::array<double, kMostElements>;

const MatrixOp& matrix_of(const Op* op, const Warp& w) {
  return w.block->run->program->matrices[static_cast<std::size_t>(op->imm)];
}

// The bytes of element `e` of a lane.
std::byte* element_at(Warp& w, const Fragment& fragment, std::uint32_t lane, std::uint32_t e) {
  return w.registers + fragment.elements[lane * element_count(fragment) + e].offset;
}

template <class T>
T bits_at(const std::byte* at) {
  T bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

float half(std::uint16_t bits) {
  const std::uint32_t number = (bits & 0x7fffu) << 13, sign = (bits & 0x8000u) << 16;
  const bool finite = (bits & 0x7c00u) != 0x7c00u;
  const float scaled = std::bit_cast<float>(number) * 0x1p112f;  // subnormal ones come out right
  const std::uint32_t value = finite ? std::bit_cast<std::uint32_t>(scaled) : number | 0x7f80'0000u;
  return std::bit_cast<float>(value | sign);
}

void store_value(std::byte* at, Element element, double value, bool saturates) {
  const auto put = [at](auto bits) { std::memcpy(at, &bits, sizeof bits); };
  if (element == Element::f16) return put(static_cast<_Float16>(value));
  if (element == Element::f32) return put(static_cast<float>(value));
  if (element == Element::f64) return put(value);
  const double most = std::numeric_limits<std::int32_t>::max(), least = -most - 1;
  if (saturates) value = std::fmin(std::fmax(value, least), most);
  put(static_cast<std::uint32_t>(static_cast<std::int64_t>(value)));
}

template <class T>
void gather(Matrix& to, const Warp& w, const Fragment& fragment, auto&& value_of) {
  for (const Fragment::At& at : fragment.elements)
    to[at.index] = static_cast<double>(value_of(bits_at<T>(w.registers + at.offset)));
}

void gather(Matrix& to, const Warp& w, const Fragment& fragment) {
  constexpr std::uint32_t kOfTf32 = 0xffff'e000u;
  const auto same = [](auto value) { return value; };
  switch (fragment.element) {
    case Element::f16:
      return gather<std::uint16_t>(to, w, fragment, half);
    case Element::bf16:
      return gather<std::uint16_t>(to, w, fragment, [](std::uint16_t bits) {
        return std::bit_cast<float>(std::uint32_t{bits} << 16);
      });
    case Element::tf32:
      return gather<std::uint32_t>(
          to, w, fragment, [](std::uint32_t bits) { return std::bit_cast<float>(bits & kOfTf32); });
    case Element::f32:
      return gather<float>(to, w, fragment, same);
    case Element::f64:
      return gather<double>(to, w, fragment, same);
    case Element::s8:
      return gather<std::int8_t>(to, w, fragment, same);
    case Element::u8:
      return gather<std::uint8_t>(to, w, fragment, same);
    case Element::s32:
      return gather<std::int32_t>(to, w, fragment, same);
  }
}

struct Extents {
  std::uint32_t rows = 0, columns = 0, inner = 0;
};
// d += a * b, along k in order. Products of all types but f64 are exact in double, so that it does
// not matter whether they are rounded before they are added.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void add_products(double* __restrict d, const double* __restrict a, const double* __restrict b,
                  const Extents& of) {
  for (std::uint32_t row = 0; row < of.rows; ++row)
    for (std::uint32_t k = 0; k < of.inner; ++k) {
      const double left = a[row * of.inner + k];
      for (std::uint32_t column = 0; column < of.columns; column += 8)  // a multiple of it
        for (std::uint32_t i = column; i < column + 8; ++i)
          d[row * of.columns + i] += left * b[k * of.columns + i];
    }
}
void add_rounded_products(double* d, const double* a, const double* b, const Extents& of) {
  for (std::uint32_t row = 0; row < of.rows; ++row)
    for (std::uint32_t column = 0; column < of.columns; ++column)
      for (std::uint32_t k = 0; k < of.inner; ++k)
        d[row * of.columns + column] = std::fma(a[row * of.inner + k], b[k * of.columns + column],
                                                d[row * of.columns + column]);
}

}  // namespace

const Op* matrix_multiply(const Op* op, Warp& w) {
  const MatrixOp& what = matrix_of(op, w);
  alignas(64) Matrix a, b, d;
  gather(a, w, what.a);
  gather(b, w, what.b);
  gather(d, w, what.c);
  const Extents of{what.d.rows, what.d.columns, what.a.columns};
  (what.a.element == Element::f64 ? add_rounded_products : add_products)(d.data(), a.data(),
                                                                         b.data(), of);
  const std::size_t count = what.d.elements.size() / kLanes;
  for (std::size_t i = 0; i < what.d.elements.size(); ++i)
    if ((w.mask >> i / count & 1) != 0)
      store_value(w.registers + what.d.elements[i].offset, what.d.element,
                  d[what.d.elements[i].index], what.saturates);
  return op + 1;
}

// a: generic address of the first element, in each lane.
const Op* matrix_access(const Op* op, Warp& w) {
  const MatrixOp& what = matrix_of(op, w);
  const bool stores = (op->flags & kMatrixStore) != 0;
  const std::uint32_t size = bytes_of(what.c.element), count = element_count(what.c);
  const auto* begin = lane_registers<std::uint64_t>(w, op->a);
  const auto* stride = lane_registers<std::uint32_t>(w, what.stride);
  Op access = *op;
  access.flags = kGeneric;
  access.size = size;
  for (std::uint32_t e = 0; e < count; ++e) {
    alignas(64) std::uint64_t address[kLanes];
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      const Position at = position(what.c, lane, e);
      const std::uint64_t outer = what.by_columns ? at.column : at.row;
      const std::uint64_t within = what.by_columns ? at.row : at.column;
      address[lane] = begin[lane] + (outer * stride[lane] + within) * size;
    }
    const LanePointers found = resolve(&access, w, address, stores);
    if (found.failed) return nullptr;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      if ((w.mask >> lane & 1) == 0) continue;
      std::byte* const at = element_at(w, what.c, lane, e);
      std::memcpy(stores ? found.at[lane] : at, stores ? at : found.at[lane], size);
    }
    if (stores && found.local != 0) write_back(&access, w, address, found);
  }
  return op + 1;
}

// a: generic addresses of rows of eight halves, of matrix i in lanes 8 i .. 8 i + 7.
const Op* matrix_rows(const Op* op, Warp& w) {
  constexpr std::uint32_t kRow = 16;
  const MatrixOp& what = matrix_of(op, w);
  const auto* begin = lane_registers<std::uint64_t>(w, op->a);
  const auto count = static_cast<std::uint32_t>(what.c.slots.size());
  const std::uint32_t mask = w.mask;
  alignas(64) std::uint64_t address[kLanes] = {};
  std::memcpy(address, begin, sizeof address);
  Op access = *op;
  access.flags = kGeneric;
  access.size = kRow;
  w.mask &= count == 4 ? kAllLanes : (1u << 8 * count) - 1;
  const LanePointers found = resolve(&access, w, address, false);
  const std::uint32_t reading = std::exchange(w.mask, mask);
  if (found.failed) return nullptr;
  std::uint16_t rows[kLanes][8] = {};
  for (std::uint32_t lane = 0; lane < kLanes; ++lane)
    if ((reading >> lane & 1) != 0) std::memcpy(rows[lane], found.at[lane], kRow);
  for (std::uint32_t i = 0; i < count; ++i)
    for (std::uint32_t lane = 0; lane < kLanes; ++lane)
      for (std::uint32_t e = 0; (mask >> lane & 1) != 0 && e < 2; ++e) {
        const std::uint32_t row = lane / 4, column = 2 * (lane % 4) + e;
        const std::uint16_t value =
            what.by_columns ? rows[8 * i + column][row] : rows[8 * i + row][column];
        std::memcpy(w.registers + what.c.slots[i] + 4 * lane + 2 * e, &value, sizeof value);
      }
  return op + 1;
}

}  // namespace partita::ptx::control
