#include "server/gemm.h"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

namespace partita::remote::server {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<int>::max();
constexpr double kWorthAPart = 2e6;    // multiplications
constexpr double kAtOnce = 1e10;       // without looking whether to stop
constexpr std::uint64_t kBlock = 512;  // of halves that are floats at a time

std::optional<std::uint64_t> size_of(std::uint32_t type) {
  switch (type) {
    case kFloat32:
      return 4;
    case kFloat64:
      return 8;
    case kFloat16:
    case kBfloat16:
      return 2;
    default:
      return std::nullopt;
  }
}

// How a matrix lies: `rows` of each column one behind the other.
struct Shape {
  std::uint64_t at, rows, columns, step, stride, element;
};
Shape shape_a(const Gemm& op) {
  const bool turned = (op.form & kTransposedA) != 0;
  return {op.a.value, turned ? op.k : op.m, turned ? op.m : op.k,
          op.a_step,  op.a_stride,          *size_of(op.in)};
}
Shape shape_b(const Gemm& op) {
  const bool turned = (op.form & kTransposedB) != 0;
  return {op.b.value, turned ? op.n : op.k, turned ? op.k : op.n,
          op.b_step,  op.b_stride,          *size_of(op.in)};
}
Shape shape_c(const Gemm& op) {
  return {op.c.value, op.m, op.n, op.c_step, op.c_stride, *size_of(op.out)};
}

// Bytes from the first to behind the last element; nothing: more than 2^63.
std::optional<std::uint64_t> span_of(const Shape& shape, std::uint64_t batch) {
  if (shape.rows == 0 || shape.columns == 0 || batch == 0) return 0;
  std::uint64_t last = 0, columns = 0, bytes = 0;
  if (__builtin_mul_overflow(batch - 1, shape.stride, &last) ||
      __builtin_mul_overflow(shape.columns - 1, shape.step, &columns) ||
      __builtin_add_overflow(last, columns, &last) ||
      __builtin_add_overflow(last, shape.rows, &last) ||
      __builtin_mul_overflow(last, shape.element, &bytes) || bytes >> 63 != 0)
    return std::nullopt;
  return bytes;
}

bool by_pointers(const Gemm& op) { return (op.form & kByPointers) != 0; }
constexpr std::uint64_t kPointer = sizeof(std::uint64_t);

std::uint64_t scalar_bytes(const Gemm& op) { return op.out == kFloat64 ? 8 : 4; }

// ---- on the host ----

using SingleGemm = void (*)(const char*, const char*, const int*, const int*, const int*,
                            const float*, const float*, const int*, const float*, const int*,
                            const float*, float*, const int*);
using DoubleGemm = void (*)(const char*, const char*, const int*, const int*, const int*,
                            const double*, const double*, const int*, const double*, const int*,
                            const double*, double*, const int*);
struct Blas {
  SingleGemm single = nullptr;
  DoubleGemm twice = nullptr;
};

Blas find_blas() {
  for (const char* name : {"libopenblas.so.0", "libblas.so.3"}) {
    void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    // Cores are divided by us.
    if (void* const threads = ::dlsym(library, "openblas_set_num_threads"))
      reinterpret_cast<void (*)(int)>(threads)(1);
    void *const single = ::dlsym(library, "sgemm_"), *const twice = ::dlsym(library, "dgemm_");
    if (single != nullptr && twice != nullptr)
      return {reinterpret_cast<SingleGemm>(single), reinterpret_cast<DoubleGemm>(twice)};
  }
  return {};
}

const Blas& blas() {
  static const Blas found = find_blas();
  return found;
}

template <class T>
struct Product {
  bool turned_a, turned_b;
  int m, n, k;
  T alpha;
  const T* a;
  int a_step;
  const T* b;
  int b_step;
  T beta;
  T* c;
  int c_step;
};

template <class T>
void plain(const Product<T>& p) {
  std::vector<T> sums(static_cast<std::size_t>(p.m));
  for (std::ptrdiff_t column = 0; column < p.n; ++column) {
    std::fill(sums.begin(), sums.end(), T{0});
    for (std::ptrdiff_t i = 0; i < p.k; ++i) {
      const T factor = p.turned_b ? p.b[i * p.b_step + column] : p.b[column * p.b_step + i];
      for (std::ptrdiff_t row = 0; row < p.m; ++row)
        sums[static_cast<std::size_t>(row)] +=
            factor * (p.turned_a ? p.a[row * p.a_step + i] : p.a[i * p.a_step + row]);
    }
    T* const to = p.c + column * p.c_step;
    for (std::ptrdiff_t row = 0; row < p.m; ++row) {
      const T product = p.alpha * sums[static_cast<std::size_t>(row)];
      to[row] = p.beta == 0 ? product : product + p.beta * to[row];
    }
  }
}

template <class T, class Function>
void with(Function function, const Product<T>& p) {
  if (function == nullptr || p.k == 0) return plain(p);
  function(p.turned_a ? "T" : "N", p.turned_b ? "T" : "N", &p.m, &p.n, &p.k, &p.alpha, p.a,
           &p.a_step, p.b, &p.b_step, &p.beta, p.c, &p.c_step);
}
void run(const Product<float>& p, bool plainly) { with(plainly ? nullptr : blas().single, p); }
void run(const Product<double>& p, bool plainly) { with(plainly ? nullptr : blas().twice, p); }

float widened(std::uint16_t bits, std::uint32_t type) {
  if (type == kBfloat16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}

std::uint16_t narrowed(float value, std::uint32_t type) {
  if (type == kFloat16) return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>(bits >> 16 | 0x40);  // stays no number
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct Scalars {
  double alpha, beta;
};

double scalar(const Gemm& op, std::uint64_t bits, const std::byte* at) {
  if (at == nullptr) return std::bit_cast<double>(bits);
  double value = 0;
  float single = 0;
  if (op.out == kFloat64)
    std::memcpy(&value, at, 8);
  else
    std::memcpy(&single, at, 4), value = single;
  return value;
}

// Columns [from, to) of one of the batch.
struct Piece {
  std::byte* c;
  const std::byte *a, *b;
  std::uint64_t columns;
};

template <class T>
void multiply_as(const Gemm& op, const Scalars& by, const Piece& piece, bool plainly) {
  run(Product<T>{.turned_a = (op.form & kTransposedA) != 0,
                 .turned_b = (op.form & kTransposedB) != 0,
                 .m = static_cast<int>(op.m),
                 .n = static_cast<int>(piece.columns),
                 .k = static_cast<int>(op.k),
                 .alpha = static_cast<T>(by.alpha),
                 .a = reinterpret_cast<const T*>(piece.a),
                 .a_step = static_cast<int>(op.a_step),
                 .b = reinterpret_cast<const T*>(piece.b),
                 .b_step = static_cast<int>(op.b_step),
                 .beta = static_cast<T>(by.beta),
                 .c = reinterpret_cast<T*>(piece.c),
                 .c_step = static_cast<int>(op.c_step)},
      plainly);
}

// Halves as floats, `rows` of each of `columns` one behind the other.
void widen(const std::byte* from, std::uint64_t step, std::uint32_t type, std::uint64_t rows,
           std::uint64_t columns, std::vector<float>& to) {
  to.resize(rows * columns);
  for (std::uint64_t column = 0; column < columns; ++column)
    for (std::uint64_t row = 0; row < rows; ++row) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, from + (column * step + row) * 2, 2);
      to[column * rows + row] = widened(bits, type);
    }
}

// The floats of a block: part of C, and what of A and B it takes at a time.
struct Blocks {
  std::vector<float> a, b, c;
};

// Rows [row, row + rows) of C, columns [column, column + columns): through floats, rounded once.
void multiply_block(const Gemm& op, const Scalars& by, const Piece& piece, Blocks& blocks,
                    std::uint64_t row, std::uint64_t rows, std::uint64_t column,
                    std::uint64_t columns, bool plainly) {
  const bool turned_a = (op.form & kTransposedA) != 0, turned_b = (op.form & kTransposedB) != 0;
  std::byte* const c = piece.c + (column * op.c_step + row) * *size_of(op.out);
  const bool wide = op.out == kFloat32;
  if (!wide) widen(c, op.c_step, op.out, rows, columns, blocks.c);
  std::uint64_t k = 0;
  do {
    const std::uint64_t terms = std::min(kBlock, op.k - k);
    const auto at = [](const std::byte* matrix, std::uint64_t step, std::uint64_t first,
                       std::uint64_t second) { return matrix + (second * step + first) * 2; };
    if (terms > 0) {
      widen(turned_a ? at(piece.a, op.a_step, k, row) : at(piece.a, op.a_step, row, k), op.a_step,
            op.in, turned_a ? terms : rows, turned_a ? rows : terms, blocks.a);
      widen(turned_b ? at(piece.b, op.b_step, column, k) : at(piece.b, op.b_step, k, column),
            op.b_step, op.in, turned_b ? columns : terms, turned_b ? terms : columns, blocks.b);
    }
    run(
        Product<float>{
            .turned_a = turned_a,
            .turned_b = turned_b,
            .m = static_cast<int>(rows),
            .n = static_cast<int>(columns),
            .k = static_cast<int>(terms),
            .alpha = static_cast<float>(by.alpha),
            .a = blocks.a.data(),
            .a_step = static_cast<int>(std::max<std::uint64_t>(turned_a ? terms : rows, 1)),
            .b = blocks.b.data(),
            .b_step = static_cast<int>(std::max<std::uint64_t>(turned_b ? columns : terms, 1)),
            .beta = k == 0 ? static_cast<float>(by.beta) : 1.0F,
            .c = wide ? reinterpret_cast<float*>(c) : blocks.c.data(),
            .c_step = static_cast<int>(wide ? op.c_step : rows)},
        plainly);
    k += terms;
  } while (k < op.k);
  for (std::uint64_t i = 0; !wide && i < rows * columns; ++i) {
    const std::uint16_t bits = narrowed(blocks.c[i], op.out);
    std::memcpy(c + (i / rows * op.c_step + i % rows) * 2, &bits, 2);
  }
}

void multiply_halves(const Gemm& op, const Scalars& by, const Piece& piece, bool plainly) {
  Blocks blocks;
  for (std::uint64_t column = 0; column < piece.columns; column += kBlock)
    for (std::uint64_t row = 0; row < op.m; row += kBlock)
      multiply_block(op, by, piece, blocks, row, std::min(kBlock, op.m - row), column,
                     std::min(kBlock, piece.columns - column), plainly);
}

}  // namespace

const char* wrong_in(const Gemm& op) {
  const auto in = size_of(op.in), out = size_of(op.out);
  if (!in || !out) return "elements of a type that is not multiplied";
  const bool wider = *in == 2 && op.out == kFloat32;
  if (op.in != op.out && !wider) return "a product of another type than its factors";
  if ((op.form & ~std::uint32_t{kTransposedA | kTransposedB | kByPointers}) != 0)
    return "an unknown form";
  for (const std::uint64_t size : {op.m, op.n, op.k, op.batch, op.a_step, op.b_step, op.c_step})
    if (size > kMost) return "a size beyond 2^31";
  const Shape a = shape_a(op), b = shape_b(op), c = shape_c(op);
  for (const Shape& shape : {a, b, c}) {
    if (shape.step < std::max<std::uint64_t>(shape.rows, 1)) return "columns that overlap";
    if (!span_of(shape, by_pointers(op) ? 1 : op.batch)) return "a matrix beyond all memory";
    if (shape.at % (by_pointers(op) ? kPointer : shape.element) != 0)
      return "a matrix that is not aligned";
  }
  if (!by_pointers(op) && op.batch > 1 && op.n > 0 && c.stride < (op.n - 1) * c.step + op.m)
    return "products that overlap";
  for (const DevicePointer at : {op.alpha_at, op.beta_at})
    if (at.value % scalar_bytes(op) != 0) return "a factor that is not aligned";
  return nullptr;
}

std::vector<Operand> operands(const Gemm& op) {
  std::vector<Operand> all;
  if (op.m == 0 || op.n == 0 || op.batch == 0) return all;
  const auto add = [&](const Shape& shape) {
    all.push_back({shape.at, by_pointers(op) ? op.batch * kPointer : *span_of(shape, op.batch)});
  };
  add(shape_c(op));
  if (op.k > 0) add(shape_a(op)), add(shape_b(op));
  for (const DevicePointer at : {op.alpha_at, op.beta_at})
    if (at.value != 0) all.push_back({at.value, scalar_bytes(op)});
  return all;
}

std::int64_t parts_of(const Gemm& op, int cores) {
  const double work = static_cast<double>(op.m) * static_cast<double>(op.n) *
                      static_cast<double>(op.k) * static_cast<double>(op.batch);
  const double pieces =
      (by_pointers(op) ? 1 : static_cast<double>(op.n)) * static_cast<double>(op.batch);
  const double most = std::min(work / kWorthAPart, std::min<double>(cores, pieces));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(most));
}

void multiply(const Gemm& op, std::span<std::byte* const> places, std::int64_t part,
              std::int64_t parts, const std::function<bool()>& stop, bool plainly) {
  if (places.empty()) return;
  std::size_t next = 1;
  const std::byte *a = nullptr, *b = nullptr;
  if (op.k > 0) a = places[1], b = places[2], next = 3;
  const std::byte* const alpha = op.alpha_at.value != 0 ? places[next++] : nullptr;
  const std::byte* const beta = op.beta_at.value != 0 ? places[next++] : nullptr;
  const Scalars by{scalar(op, op.alpha, alpha), scalar(op, op.beta, beta)};
  // Columns of all products, one behind the other, are divided.
  const auto all = static_cast<unsigned __int128>(op.n) * op.batch;
  const auto border = [&](std::int64_t which) {
    return static_cast<std::uint64_t>(all * static_cast<std::uint64_t>(which) /
                                      static_cast<std::uint64_t>(parts));
  };
  const std::uint64_t in = *size_of(op.in), out = *size_of(op.out), end = border(part + 1);
  const double each = static_cast<double>(op.m) * static_cast<double>(op.k) + 1;  // of a column
  const auto most = static_cast<std::uint64_t>(std::max(1.0, kAtOnce / each));
  const std::uint64_t b_column = (op.form & kTransposedB) != 0 ? 1 : op.b_step;
  for (std::uint64_t at = border(part); at < end && !stop();) {
    const std::uint64_t which = at / op.n, column = at % op.n;
    const Piece piece{
        .c = places[0] + (which * op.c_stride + column * op.c_step) * out,
        .a = a == nullptr ? nullptr : a + which * op.a_stride * in,
        .b = b == nullptr ? nullptr : b + (which * op.b_stride + column * b_column) * in,
        .columns = std::min({op.n - column, end - at, most})};
    if (op.in == kFloat32)
      multiply_as<float>(op, by, piece, plainly);
    else if (op.in == kFloat64)
      multiply_as<double>(op, by, piece, plainly);
    else
      multiply_halves(op, by, piece, plainly);
    at += piece.columns;
  }
}

const char* multiply_each(const Gemm& op, std::span<std::byte* const> places, std::int64_t part,
                          std::int64_t parts, const std::function<bool()>& stop,
                          const Reach& reach) {
  if (places.empty()) return nullptr;
  const auto border = [&](std::int64_t of) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(op.batch) * of / parts);
  };
  for (std::uint64_t i = border(part); i < border(part + 1) && !stop(); ++i) {
    const auto pointer = [&](std::size_t list) {
      DevicePointer to;
      std::memcpy(&to.value, places[list] + i * kPointer, kPointer);
      return to;
    };
    Gemm one = op;
    one.form &= ~std::uint32_t{kByPointers};
    one.batch = 1;
    one.c = pointer(0);
    if (op.k > 0) one.a = pointer(1), one.b = pointer(2);
    if (const char* const wrong = wrong_in(one)) return wrong;
    std::vector<std::byte*> there;
    for (const Operand& operand : operands(one)) {
      there.push_back(reach(operand, there.empty()));
      if (there.back() == nullptr) return "a pointer to a matrix that no allocation holds";
    }
    multiply(one, there, 0, 1, stop);
  }
  return nullptr;
}

void load_blas() { blas(); }

}  // namespace partita::remote::server
