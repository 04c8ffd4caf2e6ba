// libcublas: products of matrices and vectors, each an operation of the session's stream. What is
// not listed here is refused by its name (unsupported.inc).
//
// Vectors are matrices with one row: x with a step of incx is 1 x n with columns incx apart. So
// y = A x is y' = x' A', a rank-one update a product with one term, a scaled sum one with a factor
// of one.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "blas.h"
#include "library.h"

namespace partita::remote::shim {
namespace {

using client::kOk;

// What a factor that lies on the device is beside one that does not: constants of every handle.
struct Constants {
  double one = 1, zero = 0;
  float one_single = 1, zero_single = 0;
};

// What a sum comes in, to be summed up: parts of up to three numbers.
constexpr std::uint64_t kMostParts = 1024, kInOnePart = 64;  // elements
constexpr std::uint64_t kSumBytes = kMostParts * 3 * sizeof(double);

template <class Body>
int answered(Body&& body) noexcept {
  try {
    session().stats().calls.fetch_add(1, std::memory_order_relaxed);
    return body();
  } catch (const std::bad_alloc&) {
    return kAllocFailed;
  } catch (...) {
    return kInternal;
  }
}

int create(void** handle) {
  if (handle == nullptr) return kInvalid;
  if (const Status status = session().ready(); status != kOk) return kCodes.of(status);
  const auto memory = session().graph_memory.hold(sizeof(Constants));
  if (!memory) return kCodes.of(memory.error());
  const Constants constants;
  const Status status = session().memory.copy_in(0, *memory, &constants, sizeof constants);
  if (status != kOk) return kCodes.of(status);
  *handle = new BlasHandle{.constants = *memory};
  return kSuccess;
}

template <class T>
constexpr std::uint32_t type_of() {
  return std::is_same_v<T, double> ? kFloat64 : kFloat32;
}

bool is_transposed(int operation) { return operation == 1 || operation == 2; }

struct Factors {
  std::uint64_t alpha = 0, beta = 0, alpha_at = 0, beta_at = 0;
};

template <class T>
std::uint64_t bits_of(const void* at) {
  T value{};
  std::memcpy(&value, at, sizeof value);
  const double wide = static_cast<double>(value);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &wide, sizeof bits);
  return bits;
}

template <class T>
std::uint64_t place_of(const BlasHandle& handle, T value) {
  session().graph_memory.use(number_of(handle.stream), handle.constants);
  const bool one = value == T{1};
  if constexpr (std::is_same_v<T, double>)
    return handle.constants + (one ? offsetof(Constants, one) : offsetof(Constants, zero));
  else
    return handle.constants +
           (one ? offsetof(Constants, one_single) : offsetof(Constants, zero_single));
}

// As the program gives them; null: `otherwise`, which is 0 or 1.
template <class T>
Factors factors(const BlasHandle& handle, const void* alpha, const void* beta, T otherwise) {
  if (!handle.on_device())
    return {bits_of<T>(alpha != nullptr ? alpha : &otherwise),
            bits_of<T>(beta != nullptr ? beta : &otherwise)};
  const auto at = [&](const void* given) {
    return given != nullptr ? number_of(given) : place_of(handle, otherwise);
  };
  return {.alpha_at = at(alpha), .beta_at = at(beta)};
}

void put(Gemm& gemm, const Factors& by) {
  gemm.alpha = by.alpha, gemm.beta = by.beta;
  gemm.alpha_at = {by.alpha_at}, gemm.beta_at = {by.beta_at};
}

struct MatrixArgument {
  const void* at;
  std::int64_t step, stride = 0;
};

struct Sizes {
  std::int64_t m, n, k, batch = 1;
};

int product(void* handle, std::uint32_t form, std::uint32_t in, std::uint32_t out,
            const Sizes& sizes, const MatrixArgument& a, const MatrixArgument& b,
            const MatrixArgument& c, const Factors& by) {
  for (const std::int64_t size : {sizes.m, sizes.n, sizes.k, sizes.batch, a.step, b.step, c.step,
                                  a.stride, b.stride, c.stride})
    if (size < 0) return kInvalid;
  const bool turned_a = (form & kTransposedA) != 0, turned_b = (form & kTransposedB) != 0;
  const auto at_least = [](std::int64_t step, std::int64_t rows) {
    return step >= std::max<std::int64_t>(rows, 1);
  };
  if (!at_least(a.step, turned_a ? sizes.k : sizes.m) ||
      !at_least(b.step, turned_b ? sizes.n : sizes.k) || !at_least(c.step, sizes.m))
    return kInvalid;
  if (sizes.m == 0 || sizes.n == 0 || sizes.batch == 0) return kSuccess;
  const auto number = [](std::int64_t size) { return static_cast<std::uint64_t>(size); };
  Gemm gemm{.form = form,
            .in = in,
            .out = out,
            .m = number(sizes.m),
            .n = number(sizes.n),
            .k = number(sizes.k),
            .batch = number(sizes.batch),
            .a = {number_of(a.at)},
            .a_step = number(a.step),
            .a_stride = number(a.stride),
            .b = {number_of(b.at)},
            .b_step = number(b.step),
            .b_stride = number(b.stride),
            .c = {number_of(c.at)},
            .c_step = number(c.step),
            .c_stride = number(c.stride)};
  put(gemm, by);
  return kCodes.of(
      session().memory.multiply(number_of(static_cast<BlasHandle*>(handle)->stream), gemm));
}

std::uint32_t form_of(int a, int b) {
  return (is_transposed(a) ? kTransposedA : 0U) | (is_transposed(b) ? kTransposedB : 0U);
}

// ---- what the functions share, by the type of the elements ----

template <class T>
int gemm(void* handle, int ta, int tb, const Sizes& sizes, const void* alpha,
         const MatrixArgument& a, const MatrixArgument& b, const void* beta,
         const MatrixArgument& c, std::uint32_t form = 0) {
  if (handle == nullptr) return kNotInitialized;
  if (alpha == nullptr || beta == nullptr || ta < 0 || ta > 2 || tb < 0 || tb > 2) return kInvalid;
  return product(handle, form | form_of(ta, tb), type_of<T>(), type_of<T>(), sizes, a, b, c,
                 factors<T>(*static_cast<BlasHandle*>(handle), alpha, beta, T{1}));
}

template <class T>
int gemv(void* handle, int operation, std::int64_t m, std::int64_t n, const void* alpha,
         const MatrixArgument& a, const MatrixArgument& x, const void* beta,
         const MatrixArgument& y) {
  if (handle == nullptr) return kNotInitialized;
  if (alpha == nullptr || beta == nullptr || operation < 0 || operation > 2) return kInvalid;
  if (x.step == 0 || y.step == 0) return kInvalid;
  if (x.step < 0 || y.step < 0) return kCodes.refused("vectors from the end");
  const bool turned = is_transposed(operation);
  const Sizes sizes{.m = 1, .n = turned ? n : m, .k = turned ? m : n};
  return product(handle, turned ? 0U : kTransposedB, type_of<T>(), type_of<T>(), sizes, x, a, y,
                 factors<T>(*static_cast<BlasHandle*>(handle), alpha, beta, T{1}));
}

template <class T>
int ger(void* handle, std::int64_t m, std::int64_t n, const void* alpha, const MatrixArgument& x,
        const MatrixArgument& y, const MatrixArgument& a) {
  if (handle == nullptr) return kNotInitialized;
  if (alpha == nullptr || x.step == 0 || y.step == 0) return kInvalid;
  if (x.step < 0 || y.step < 0) return kCodes.refused("vectors from the end");
  return product(handle, kTransposedA, type_of<T>(), type_of<T>(), {m, n, 1}, x, y, a,
                 factors<T>(*static_cast<BlasHandle*>(handle), alpha, nullptr, T{1}));
}

// Two vectors, element by element: both from the end is both from the begin.
bool from_the_begin(MatrixArgument& x, MatrixArgument& y) {
  if (x.step < 0 && y.step < 0) x.step = -x.step, y.step = -y.step;
  return x.step > 0 && y.step > 0;
}

template <class T>
int axpy(void* handle, std::int64_t n, const void* alpha, MatrixArgument x, MatrixArgument y) {
  if (handle == nullptr) return kNotInitialized;
  if (alpha == nullptr) return kInvalid;
  if (n <= 0) return kSuccess;
  if (!from_the_begin(x, y)) return kCodes.refused("vectors from the end");
  const BlasHandle& is = *static_cast<BlasHandle*>(handle);
  return product(handle, 0, type_of<T>(), type_of<T>(), {1, n, 1},
                 {handle_of(place_of(is, T{1})), 1}, x, y, factors<T>(is, alpha, nullptr, T{1}));
}

template <class T>
int scal(void* handle, std::int64_t n, const void* alpha, const MatrixArgument& x) {
  if (handle == nullptr) return kNotInitialized;
  if (alpha == nullptr) return kInvalid;
  if (n <= 0 || x.step < 1) return kSuccess;
  return product(handle, 0, type_of<T>(), type_of<T>(), {1, n, 0}, {nullptr, 1}, {nullptr, 1}, x,
                 factors<T>(*static_cast<BlasHandle*>(handle), nullptr, alpha, T{1}));
}

Index parts_of(std::int64_t n) {
  const auto elements = static_cast<std::uint64_t>(std::max<std::int64_t>(n, 0));
  return static_cast<Index>(std::clamp<std::uint64_t>(elements / kInOnePart, 1, kMostParts));
}

// For parts of a sum: the stream's own, or the graph's that it is captured into; streams, and
// graphs, run beside each other.
client::Got<std::uint64_t> room_for_parts(BlasHandle& is) {
  if (is_captured(is.stream)) return session().memory.allocate_on(number_of(is.stream), kSumBytes);
  const auto known = is.sums.find(is.stream);
  if (known != is.sums.end()) return known->second;
  const auto made = session().graph_memory.hold(kSumBytes);
  if (made) is.sums[is.stream] = *made;
  return made;
}

Status launch_dot(const BlasHandle& is, std::int64_t n, const MatrixArgument& x,
                  const MatrixArgument& y, std::uint64_t to) {
  const Index parts = parts_of(n);
  const auto elements = static_cast<std::uint64_t>(std::max<std::int64_t>(n, 0));
  return run_own("dot_parts_f", is.stream, parts, x.at, x.step, y.at, y.step, to, elements, parts);
}

// `each` numbers for every part, from the device.
std::vector<double> fetched(const BlasHandle& is, std::uint64_t from, std::int64_t n,
                            std::size_t each, Status& status) {
  std::vector<double> numbers(parts_of(n) * each);
  if (status == kOk)
    status = session().memory.copy_out(number_of(is.stream), numbers.data(), from,
                                       numbers.size() * sizeof(double), false);
  return numbers;
}

// What keeps a sum from being asked for; 0: nothing.
int wrong(const void* handle, MatrixArgument& x, MatrixArgument& y, const void* result) {
  if (handle == nullptr) return kNotInitialized;
  if (result == nullptr) return kInvalid;
  if (!from_the_begin(x, y)) return kCodes.refused("vectors from the end");
  const BlasHandle& is = *static_cast<const BlasHandle*>(handle);
  if (!is.on_device() && spoils_capture(is.stream))
    return kCodes.refused("a sum for the program from a captured stream");
  return kSuccess;
}

// Into memory on the device, which is fetched where the program wants it here.
int dot(void* handle, std::int64_t n, MatrixArgument x, MatrixArgument y, float* result) {
  if (const int status = wrong(handle, x, y, result); status != kSuccess) return status;
  BlasHandle& is = *static_cast<BlasHandle*>(handle);
  if (n <= 0 && !is.on_device()) {
    *result = 0;
    return kSuccess;
  }
  const auto room = room_for_parts(is);
  if (!room) return kCodes.of(room.error());
  Status status = launch_dot(is, n, x, y, *room);
  if (status != kOk) return kCodes.of(status);
  if (is.on_device())
    return kCodes.of(run_own("sum_parts_f", is.stream, 1, *room, parts_of(n), result, Index{1}));
  const std::vector<double> parts = fetched(is, *room, n, 1, status);
  *result = static_cast<float>(std::accumulate(parts.begin(), parts.end(), 0.0));
  return kCodes.of(status);
}

int dot(void* handle, std::int64_t n, MatrixArgument x, MatrixArgument y, double* result) {
  using T = double;
  if (const int status = wrong(handle, x, y, result); status != kSuccess) return status;
  BlasHandle& is = *static_cast<BlasHandle*>(handle);
  if (n <= 0 && !is.on_device()) {
    *result = 0;
    return kSuccess;
  }
  const client::Got<std::uint64_t> room = is.on_device() ? number_of(result) : room_for_parts(is);
  if (!room) return kCodes.of(room.error());
  const std::uint64_t to = *room;
  Factors by = factors<T>(is, nullptr, nullptr, T{1});
  if (is.on_device())
    by.beta_at = place_of(is, T{0});
  else
    by.beta = 0;
  const int status = product(handle, kTransposedB, type_of<T>(), type_of<T>(), {1, 1, n}, x, y,
                             {handle_of(to), 1}, by);
  if (status != kSuccess || is.on_device()) return status;
  return kCodes.of(session().memory.copy_out(number_of(is.stream), result, to, sizeof(T), false));
}

// Of squares in three sums, as the kernel makes them (LAPACK's dnrm2).
double norm_of(double large, double small, double middle) {
  if (large > 0) return std::sqrt(large + (middle * 0x1p-538) * 0x1p-538) * 0x1p538;
  if (small > 0 && !(middle > 0) && !std::isnan(middle)) return std::sqrt(small) * 0x1p-537;
  return std::sqrt(middle + (small * 0x1p-537) * 0x1p-537);
}

template <class T>
int nrm2(void* handle, std::int64_t n, MatrixArgument x, T* result) {
  if (handle != nullptr && static_cast<BlasHandle*>(handle)->on_device())
    return kCodes.refused("a norm that stays on the device");
  const bool none = n <= 0 || x.step <= 0;
  x.step = std::max<std::int64_t>(x.step, 1);
  if (const int status = wrong(handle, x, x, result); status != kSuccess) return status;
  BlasHandle& is = *static_cast<BlasHandle*>(handle);
  *result = 0;
  if (none) return kSuccess;
  const auto room = room_for_parts(is);
  if (!room) return kCodes.of(room.error());
  Status status = kOk;
  if constexpr (std::is_same_v<T, float>) {
    status = launch_dot(is, n, x, x, *room);
    const std::vector<double> parts = fetched(is, *room, n, 1, status);
    *result = static_cast<T>(std::sqrt(std::accumulate(parts.begin(), parts.end(), 0.0)));
  } else {
    status = run_own("norm_parts_d", is.stream, parts_of(n), x.at, x.step, *room,
                     static_cast<std::uint64_t>(n), parts_of(n));
    const std::vector<double> parts = fetched(is, *room, n, 3, status);
    double sums[3] = {};
    for (std::size_t i = 0; i < parts.size(); ++i) sums[i % 3] += parts[i];
    *result = norm_of(sums[0], sums[1], sums[2]);
  }
  return kCodes.of(status);
}

int copy_vector(void* handle, std::int64_t n, MatrixArgument x, MatrixArgument y,
                std::size_t element) {
  if (handle == nullptr) return kNotInitialized;
  if (n <= 0) return kSuccess;
  if (!from_the_begin(x, y)) return kCodes.refused("vectors from the end");
  const CopyDevice copy{.to = {number_of(y.at)},
                        .from = {number_of(x.at)},
                        .to_pitch = static_cast<std::uint64_t>(y.step) * element,
                        .from_pitch = static_cast<std::uint64_t>(x.step) * element,
                        .width = element,
                        .rows = static_cast<std::uint64_t>(n)};
  return kCodes.of(
      session().memory.copy(number_of(static_cast<BlasHandle*>(handle)->stream), copy));
}

struct Types {
  int a, b, c, compute;
};

// The types that products are made of here; products of halves are summed as floats.
int gemm_ex(void* handle, int ta, int tb, const Sizes& sizes, const void* alpha,
            const MatrixArgument& a, const MatrixArgument& b, const void* beta,
            const MatrixArgument& c, const Types& types, std::uint32_t form = 0) {
  if (handle == nullptr) return kNotInitialized;
  if (alpha == nullptr || beta == nullptr || ta < 0 || ta > 2 || tb < 0 || tb > 2) return kInvalid;
  const auto is_half = [](int type) { return type == kFloat16 || type == kBfloat16; };
  constexpr int kHalf = 64, kHalfPedantic = 65, kDouble = 70, kDoublePedantic = 71;
  const bool half = types.compute == kHalf || types.compute == kHalfPedantic;
  const bool twice = types.compute == kDouble || types.compute == kDoublePedantic;
  const bool known = types.a == types.b &&
                     (types.c == types.a || (is_half(types.a) && types.c == kFloat32)) &&
                     (is_half(types.a) || types.a == kFloat32 || types.a == kFloat64) &&
                     twice == (types.a == kFloat64);
  BlasHandle& is = *static_cast<BlasHandle*>(handle);
  if (!known || (half && is.on_device())) return kCodes.refused("a product of these types");
  Factors by;
  if (twice) {
    by = factors<double>(is, alpha, beta, 1.0);
  } else if (half) {
    by = {bits_of<_Float16>(alpha), bits_of<_Float16>(beta)};
  } else {
    by = factors<float>(is, alpha, beta, 1.0F);
  }
  return product(handle, form | form_of(ta, tb), static_cast<std::uint32_t>(types.a),
                 static_cast<std::uint32_t>(types.c), sizes, a, b, c, by);
}

// Of each matrix of a list on the device.
int factorise(void* handle, const char* kernel, int n, const void* matrices, int step, int* pivots,
              int* info, int count) {
  if (handle == nullptr) return kNotInitialized;
  if (n < 0 || count < 0 || step < std::max(n, 1) || matrices == nullptr || info == nullptr)
    return kInvalid;
  return kCodes.of(run_own(kernel, static_cast<BlasHandle*>(handle)->stream,
                           static_cast<std::uint64_t>(count), matrices, n, step, pivots, info,
                           static_cast<Index>(count)));
}

int copy_columns(void* to, std::int64_t to_step, const void* from, std::int64_t from_step,
                 std::int64_t rows, std::int64_t columns, std::int64_t element, bool in,
                 void* stream) {
  if (std::min(rows, columns) < 0 || std::min({to_step, from_step, element}) < 1) return kInvalid;
  Status status = kOk;
  const auto bytes = static_cast<std::uint64_t>(rows * element);
  for (std::int64_t i = 0; i < columns && status == kOk && bytes > 0; ++i) {
    auto* const there = static_cast<std::byte*>(to) + i * to_step * element;
    const auto* const here = static_cast<const std::byte*>(from) + i * from_step * element;
    status =
        in ? session().memory.copy_in(number_of(stream), number_of(there), here, bytes)
           : session().memory.copy_out(number_of(stream), there, number_of(here), bytes, false);
  }
  return kCodes.of(status);
}

int copy_vector_columns(void* to, std::int64_t to_step, const void* from, std::int64_t from_step,
                        std::int64_t n, std::int64_t element, bool in) {
  if (to_step != 1 || from_step != 1)
    return copy_columns(to, to_step, from, from_step, 1, n, element, in, nullptr);
  const std::int64_t step = std::max<std::int64_t>(n, 1);
  return copy_columns(to, step, from, step, n, 1, element, in, nullptr);
}

}  // namespace

// ---- handles ----

CUDA_EXPORT int cublasCreate_v2(void** handle) {
  return answered([&] { return create(handle); });
}
CUDA_EXPORT int cublasDestroy_v2(void* handle) {
  return answered([&] {
    if (handle == nullptr) return int{kNotInitialized};
    const auto* const is = static_cast<BlasHandle*>(handle);
    const Status status = session().streams.synchronise();
    session().graph_memory.drop(is->constants);
    for (const auto& [stream, sums] : is->sums) session().graph_memory.drop(sums);
    delete is;
    return kCodes.of(status);
  });
}
CUDA_EXPORT int cublasGetVersion_v2(void*, int* version) {
  if (version == nullptr) return kInvalid;
  *version = PARTITA_CUDART >= 13 ? 130000 : 120900;
  return kSuccess;
}
CUDA_EXPORT int cublasGetProperty(int which, int* value) {
  if (value == nullptr || which < 0 || which > 2) return kInvalid;
  *value = which == 0 ? PARTITA_CUDART : 0;
  return kSuccess;
}
CUDA_EXPORT std::size_t cublasGetCudartVersion() { return PARTITA_CUDART * 1000; }
CUDA_EXPORT const char* cublasGetStatusName(int status) {
  switch (status) {
    case kSuccess:
      return "CUBLAS_STATUS_SUCCESS";
    case kNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case kAllocFailed:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case kInvalid:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case kExecutionFailed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case kUnsupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}
CUDA_EXPORT const char* cublasGetStatusString(int status) { return cublasGetStatusName(status); }

// A word of the handle that is set, and asked for.
#define KEPT(set, get, Type, word)                 \
  CUDA_EXPORT int set(void* handle, Type value) {  \
    if (handle == nullptr) return kNotInitialized; \
    static_cast<BlasHandle*>(handle)->word = value;    \
    return kSuccess;                               \
  }                                                \
  CUDA_EXPORT int get(void* handle, Type* value) { \
    if (handle == nullptr) return kNotInitialized; \
    if (value == nullptr) return kInvalid;         \
    *value = static_cast<BlasHandle*>(handle)->word;   \
    return kSuccess;                               \
  }
KEPT(cublasSetStream_v2, cublasGetStream_v2, void*, stream)
KEPT(cublasSetPointerMode_v2, cublasGetPointerMode_v2, int, pointer_mode)
KEPT(cublasSetMathMode, cublasGetMathMode, int, math_mode)
KEPT(cublasSetAtomicsMode, cublasGetAtomicsMode, int, atomics)
KEPT(cublasSetSmCountTarget, cublasGetSmCountTarget, int, units)
#undef KEPT
CUDA_EXPORT int cublasSetWorkspace_v2(void* handle, void*, std::size_t) {
  return handle == nullptr ? kNotInitialized : kSuccess;  // none is needed
}
CUDA_EXPORT int cublasLoggerConfigure(int, int, int, const char*) { return kSuccess; }
CUDA_EXPORT int cublasSetLoggerCallback(void (*)(const char*)) { return kSuccess; }
CUDA_EXPORT int cublasGetLoggerCallback(void (**callback)(const char*)) {
  if (callback == nullptr) return kInvalid;
  *callback = nullptr;
  return kSuccess;
}

// ---- products ----

#define GEMMS(T, letter, suffix, Size)                                                             \
  CUDA_EXPORT int cublas##letter##gemm_v2##suffix(                                                 \
      void* handle, int ta, int tb, Size m, Size n, Size k, const T* alpha, const T* a, Size lda,  \
      const T* b, Size ldb, const T* beta, T* c, Size ldc) {                                       \
    return answered([&] {                                                                          \
      return gemm<T>(handle, ta, tb, {m, n, k}, alpha, {a, lda}, {b, ldb}, beta, {c, ldc});        \
    });                                                                                            \
  }                                                                                                \
  CUDA_EXPORT int cublas##letter##gemmStridedBatched##suffix(                                      \
      void* handle, int ta, int tb, Size m, Size n, Size k, const T* alpha, const T* a, Size lda,  \
      long long a_stride, const T* b, Size ldb, long long b_stride, const T* beta, T* c, Size ldc, \
      long long c_stride, Size batch) {                                                            \
    return answered([&] {                                                                          \
      return gemm<T>(handle, ta, tb, {m, n, k, batch}, alpha, {a, lda, a_stride},                  \
                     {b, ldb, b_stride}, beta, {c, ldc, c_stride});                                \
    });                                                                                            \
  }                                                                                                \
  CUDA_EXPORT int cublas##letter##gemmBatched##suffix(                                             \
      void* handle, int ta, int tb, Size m, Size n, Size k, const T* alpha, const T* const a[],    \
      Size lda, const T* const b[], Size ldb, const T* beta, T* const c[], Size ldc, Size batch) { \
    return answered([&] {                                                                          \
      return gemm<T>(handle, ta, tb, {m, n, k, batch}, alpha, {a, lda}, {b, ldb}, beta, {c, ldc},  \
                     kByPointers);                                                                 \
    });                                                                                            \
  }                                                                                                \
  CUDA_EXPORT int cublas##letter##gemv_v2##suffix(                                                 \
      void* handle, int operation, Size m, Size n, const T* alpha, const T* a, Size lda,           \
      const T* x, Size incx, const T* beta, T* y, Size incy) {                                     \
    return answered([&] {                                                                          \
      return gemv<T>(handle, operation, m, n, alpha, {a, lda}, {x, incx}, beta, {y, incy});        \
    });                                                                                            \
  }                                                                                                \
  CUDA_EXPORT int cublas##letter##ger_v2##suffix(void* handle, Size m, Size n, const T* alpha,     \
                                                 const T* x, Size incx, const T* y, Size incy,     \
                                                 T* a, Size lda) {                                 \
    return answered([&] { return ger<T>(handle, m, n, alpha, {x, incx}, {y, incy}, {a, lda}); });  \
  }                                                                                                \
  CUDA_EXPORT int cublas##letter##axpy_v2##suffix(void* handle, Size n, const T* alpha,            \
                                                  const T* x, Size incx, T* y, Size incy) {        \
    return answered([&] { return axpy<T>(handle, n, alpha, {x, incx}, {y, incy}); });              \
  }                                                                                                \
  CUDA_EXPORT int cublas##letter##scal_v2##suffix(void* handle, Size n, const T* alpha, T* x,      \
                                                  Size incx) {                                     \
    return answered([&] { return scal<T>(handle, n, alpha, {x, incx}); });                         \
  }                                                                                                \
  CUDA_EXPORT int cublas##letter##copy_v2##suffix(void* handle, Size n, const T* x, Size incx,     \
                                                  T* y, Size incy) {                               \
    return answered([&] { return copy_vector(handle, n, {x, incx}, {y, incy}, sizeof(T)); });      \
  }                                                                                                \
  CUDA_EXPORT int cublas##letter##dot_v2##suffix(void* handle, Size n, const T* x, Size incx,      \
                                                 const T* y, Size incy, T* result) {               \
    return answered([&] { return dot(handle, n, {x, incx}, {y, incy}, result); });                 \
  }                                                                                                \
  CUDA_EXPORT int cublas##letter##nrm2_v2##suffix(void* handle, Size n, const T* x, Size incx,     \
                                                  T* result) {                                     \
    return answered([&] { return nrm2<T>(handle, n, {x, incx}, result); });                        \
  }
GEMMS(float, S, , int)
GEMMS(double, D, , int)
GEMMS(float, S, _64, std::int64_t)
GEMMS(double, D, _64, std::int64_t)
#undef GEMMS

#define GEMMS_EX(suffix, Size)                                                                    \
  CUDA_EXPORT int cublasGemmEx##suffix(void* handle, int ta, int tb, Size m, Size n, Size k,      \
                                       const void* alpha, const void* a, int a_type, Size lda,    \
                                       const void* b, int b_type, Size ldb, const void* beta,     \
                                       void* c, int c_type, Size ldc, int compute, int) {         \
    return answered([&] {                                                                         \
      return gemm_ex(handle, ta, tb, {m, n, k}, alpha, {a, lda}, {b, ldb}, beta, {c, ldc},        \
                     {a_type, b_type, c_type, compute});                                          \
    });                                                                                           \
  }                                                                                               \
  CUDA_EXPORT int cublasGemmStridedBatchedEx##suffix(                                             \
      void* handle, int ta, int tb, Size m, Size n, Size k, const void* alpha, const void* a,     \
      int a_type, Size lda, long long a_stride, const void* b, int b_type, Size ldb,              \
      long long b_stride, const void* beta, void* c, int c_type, Size ldc, long long c_stride,    \
      Size batch, int compute, int) {                                                             \
    return answered([&] {                                                                         \
      return gemm_ex(handle, ta, tb, {m, n, k, batch}, alpha, {a, lda, a_stride},                 \
                     {b, ldb, b_stride}, beta, {c, ldc, c_stride},                                \
                     {a_type, b_type, c_type, compute});                                          \
    });                                                                                           \
  }                                                                                               \
  CUDA_EXPORT int cublasGemmBatchedEx##suffix(                                                    \
      void* handle, int ta, int tb, Size m, Size n, Size k, const void* alpha,                    \
      const void* const a[], int a_type, Size lda, const void* const b[], int b_type, Size ldb,   \
      const void* beta, void* const c[], int c_type, Size ldc, Size batch, int compute, int) {    \
    return answered([&] {                                                                         \
      return gemm_ex(handle, ta, tb, {m, n, k, batch}, alpha, {a, lda}, {b, ldb}, beta, {c, ldc}, \
                     {a_type, b_type, c_type, compute}, kByPointers);                             \
    });                                                                                           \
  }                                                                                               \
  CUDA_EXPORT int cublasSgemmEx##suffix(void* handle, int ta, int tb, Size m, Size n, Size k,     \
                                        const float* alpha, const void* a, int a_type, Size lda,  \
                                        const void* b, int b_type, Size ldb, const float* beta,   \
                                        void* c, int c_type, Size ldc) {                          \
    constexpr int kSingle = 68;                                                                   \
    return answered([&] {                                                                         \
      return gemm_ex(handle, ta, tb, {m, n, k}, alpha, {a, lda}, {b, ldb}, beta, {c, ldc},        \
                     {a_type, b_type, c_type, kSingle});                                          \
    });                                                                                           \
  }                                                                                               \
  CUDA_EXPORT int cublasHgemm##suffix(void* handle, int ta, int tb, Size m, Size n, Size k,       \
                                      const void* alpha, const void* a, Size lda, const void* b,  \
                                      Size ldb, const void* beta, void* c, Size ldc) {            \
    constexpr int kType = kFloat16, kHalf = 64;                                                   \
    return answered([&] {                                                                         \
      return gemm_ex(handle, ta, tb, {m, n, k}, alpha, {a, lda}, {b, ldb}, beta, {c, ldc},        \
                     {kType, kType, kType, kHalf});                                               \
    });                                                                                           \
  }
GEMMS_EX(, int)
GEMMS_EX(_64, std::int64_t)
#undef GEMMS_EX

#define FACTORS(letter, suffix)                                                              \
  CUDA_EXPORT int cublas##letter##getrfBatched(void* handle, int n, void* matrices, int lda, \
                                               int* pivots, int* info, int count) {          \
    return answered([&] {                                                                    \
      return factorise(handle, "lu_factor_" suffix, n, matrices, lda, pivots, info, count);  \
    });                                                                                      \
  }
FACTORS(S, "f")
FACTORS(D, "d")
#undef FACTORS

// ---- copies ----

#define COPIES(suffix, Size)                                                                       \
  CUDA_EXPORT int cublasSetVector##suffix(Size n, Size element, const void* from, Size incx,       \
                                          void* to, Size incy) {                                   \
    return answered([&] { return copy_vector_columns(to, incy, from, incx, n, element, true); });  \
  }                                                                                                \
  CUDA_EXPORT int cublasGetVector##suffix(Size n, Size element, const void* from, Size incx,       \
                                          void* to, Size incy) {                                   \
    return answered([&] { return copy_vector_columns(to, incy, from, incx, n, element, false); }); \
  }                                                                                                \
  CUDA_EXPORT int cublasSetMatrix##suffix(Size rows, Size columns, Size element, const void* from, \
                                          Size lda, void* to, Size ldb) {                          \
    return answered(                                                                               \
        [&] { return copy_columns(to, ldb, from, lda, rows, columns, element, true, nullptr); });  \
  }                                                                                                \
  CUDA_EXPORT int cublasGetMatrix##suffix(Size rows, Size columns, Size element, const void* from, \
                                          Size lda, void* to, Size ldb) {                          \
    return answered(                                                                               \
        [&] { return copy_columns(to, ldb, from, lda, rows, columns, element, false, nullptr); }); \
  }
COPIES(, int)
COPIES(_64, std::int64_t)
#undef COPIES

}  // namespace partita::remote::shim
