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
  const std::uint32_t size = bytes_of(fragment.element),
                      wide = fragment.element == Element::f64 ? 8 : 4;
  const std::uint32_t each = wide / size;
  return w.registers + fragment.slots[e / each] + lane * wide + e % each * size;
}

template <class T>
T bits_at(const std::byte* at) {
  T bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

double value_at(const std::byte* at, Element element) {
  constexpr std::uint32_t kOfTf32 = 0xffff'e000u;
  switch (element) {
    case Element::f16:
      return static_cast<double>(std::bit_cast<_Float16>(bits_at<std::uint16_t>(at)));
    case Element::bf16:
      return std::bit_cast<float>(std::uint32_t{bits_at<std::uint16_t>(at)} << 16);
    case Element::tf32:
      return std::bit_cast<float>(bits_at<std::uint32_t>(at) & kOfTf32);
    case Element::f32:
      return bits_at<float>(at);
    case Element::f64:
      return bits_at<double>(at);
    case Element::s8:
      return bits_at<std::int8_t>(at);
    case Element::u8:
      return bits_at<std::uint8_t>(at);
    case Element::s32:
      return bits_at<std::int32_t>(at);
  }
  return 0;
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

Matrix gathered(Warp& w, const Fragment& fragment) {
  Matrix matrix{};
  const std::uint32_t count = element_count(fragment);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane)
    for (std::uint32_t e = 0; e < count; ++e) {
      const Position at = position(fragment, lane, e);
      matrix[at.row * fragment.columns + at.column] =
          value_at(element_at(w, fragment, lane, e), fragment.element);
    }
  return matrix;
}

}  // namespace

const Op* matrix_multiply(const Op* op, Warp& w) {
  const MatrixOp& what = matrix_of(op, w);
  const Matrix a = gathered(w, what.a), b = gathered(w, what.b), c = gathered(w, what.c);
  const std::uint32_t inner = what.a.columns, columns = what.d.columns;
  Matrix d{};
  for (std::uint32_t row = 0; row < what.d.rows; ++row)
    for (std::uint32_t column = 0; column < columns; ++column) {
      double sum = c[row * columns + column];
      for (std::uint32_t k = 0; k < inner; ++k)
        sum = std::fma(a[row * inner + k], b[k * columns + column], sum);
      d[row * columns + column] = sum;
    }
  const std::uint32_t count = element_count(what.d);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane)
    for (std::uint32_t e = 0; (w.mask >> lane & 1) != 0 && e < count; ++e) {
      const Position at = position(what.d, lane, e);
      store_value(element_at(w, what.d, lane, e), what.d.element, d[at.row * columns + at.column],
                  what.saturates);
    }
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
