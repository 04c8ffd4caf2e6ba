// libcusparse: products of matrices kept by rows with vectors, triangles solved, factors,
// by kernels of our own.
#include <cstring>

#include "library.h"

namespace partita::remote::shim {
namespace {

constexpr Codes kCodes{
    .not_ready = 1, .no_memory = 2, .invalid = 3, .failed = 6, .unsupported = 10};
constexpr int kZeroPivot = 9;
constexpr int kSingle = 0, kDouble = 1;  // cudaDataType
constexpr int kIndex32 = 2;

struct Handle {
  void* stream = nullptr;
  int pointer_mode = 0;  // 1: factors lie on the device
};
struct Matrix {  // by rows
  std::int64_t rows, columns, entries;
  void *row, *column, *value;
  int base, type;
  int upper = 0, unit = 0;
};
struct Vector {
  std::int64_t size;
  void* values;
  int type;
};
struct Description {  // cusparseMatDescr
  int type = 0, fill = 0, diagonal = 0, base = 0;
};
struct Factors {
  std::uint64_t zero = 0;  // where the first zero on the diagonal is said, on the device
};

template <class T>
struct Csr {  // as the kernels have it
  const void *row, *column, *value;
  int rows, base;
};
template <class T>
Csr<T> as_kernels(const Matrix& a) {
  return {a.row, a.column, a.value, static_cast<int>(a.rows), a.base};
}

template <class T>
struct Factor {
  const void* at = nullptr;
  T here{};
};
template <class T>
Factor<T> factor(const Handle& handle, const void* given) {
  Factor<T> made;
  if (handle.pointer_mode == 1)
    made.at = given;
  else
    std::memcpy(&made.here, given, sizeof(T));
  return made;
}

int multiply(void* handle, int operation, const void* alpha, const void* matrix, const void* from,
             const void* beta, void* to, int type) {
  if (handle == nullptr) return kCodes.not_ready;
  if (alpha == nullptr || beta == nullptr || matrix == nullptr || from == nullptr || to == nullptr)
    return kCodes.invalid;
  const Handle& is = *static_cast<Handle*>(handle);
  const Matrix& a = *static_cast<const Matrix*>(matrix);
  const Vector &x = *static_cast<const Vector*>(from), &y = *static_cast<Vector*>(to);
  if (operation != 0) return kCodes.refused("cusparseSpMV (a transposed matrix)");
  if (type != a.type || x.type != type || y.type != type)
    return kCodes.refused("cusparseSpMV (mixed types)");
  if (x.size != a.columns || y.size != a.rows) return kCodes.invalid;
  const auto rows = static_cast<std::uint64_t>(a.rows);
  if (type == kDouble) {
    const auto by = factor<double>(is, alpha), and_by = factor<double>(is, beta);
    return kCodes.of(run_own("csr_times_d", is.stream, rows, as_kernels<double>(a), x.values,
                             y.values, by.at, and_by.at, by.here, and_by.here));
  }
  const auto by = factor<float>(is, alpha), and_by = factor<float>(is, beta);
  return kCodes.of(run_own("csr_times_f", is.stream, rows, as_kernels<float>(a), x.values, y.values,
                           by.at, and_by.at, by.here, and_by.here));
}

int solve(void* handle, int operation, const void* alpha, const void* matrix, const void* from,
          void* to, int type) {
  if (handle == nullptr) return kCodes.not_ready;
  if (alpha == nullptr || matrix == nullptr || from == nullptr || to == nullptr)
    return kCodes.invalid;
  const Handle& is = *static_cast<Handle*>(handle);
  const Matrix& a = *static_cast<const Matrix*>(matrix);
  const Vector &b = *static_cast<const Vector*>(from), &x = *static_cast<Vector*>(to);
  if (operation != 0) return kCodes.refused("cusparseSpSV_solve (a transposed matrix)");
  if (type != a.type || b.type != type || x.type != type)
    return kCodes.refused("cusparseSpSV_solve (mixed types)");
  if (a.rows != a.columns || b.size != a.rows || x.size != a.rows) return kCodes.invalid;
  if (type == kDouble) {
    const auto by = factor<double>(is, alpha);
    return kCodes.of(run_own("csr_solve_d", is.stream, 1, as_kernels<double>(a), b.values, x.values,
                             by.at, by.here, a.upper, a.unit));
  }
  const auto by = factor<float>(is, alpha);
  return kCodes.of(run_own("csr_solve_f", is.stream, 1, as_kernels<float>(a), b.values, x.values,
                           by.at, by.here, a.upper, a.unit));
}

template <class T>
int factorise(void* handle, int rows, const void* description, void* value, const int* row,
              const int* column, void* info, const char* kernel) {
  if (handle == nullptr) return kCodes.not_ready;
  if (rows < 0 || description == nullptr || info == nullptr) return kCodes.invalid;
  auto& factors = *static_cast<Factors*>(info);
  if (factors.zero == 0) {
    const auto memory = session().graph_memory.hold(sizeof(int));
    if (!memory) return kCodes.of(memory.error());
    factors.zero = *memory;
  }
  session().graph_memory.use(number_of(static_cast<Handle*>(handle)->stream), factors.zero);
  const Csr<T> a{row, column, value, rows, static_cast<const Description*>(description)->base};
  return kCodes.of(run_own(kernel, static_cast<Handle*>(handle)->stream, 1, a, factors.zero));
}

int zero_pivot(void* handle, void* info, int* position) {
  if (handle == nullptr) return kCodes.not_ready;
  if (info == nullptr || position == nullptr) return kCodes.invalid;
  const Handle& is = *static_cast<Handle*>(handle);
  const Factors& factors = *static_cast<Factors*>(info);
  int found = -1;
  if (spoils_capture(is.stream))
    return kCodes.refused("cusparseXcsrilu02_zeroPivot (in a captured stream)");
  if (factors.zero != 0) {
    const Status status =
        session().memory.copy_out(number_of(is.stream), &found, factors.zero, sizeof found, false);
    if (status != client::kOk) return kCodes.of(status);
  }
  if (is.pointer_mode == 1) return kCodes.refused("cusparseXcsrilu02_zeroPivot (on the device)");
  *position = found;
  return found < 0 ? 0 : kZeroPivot;
}

int make_matrix(void** matrix, const Matrix& as, int row_type, int column_type) {
  if (as.rows < 0 || as.columns < 0 || as.entries < 0 || as.base < 0 || as.base > 1)
    return kCodes.invalid;
  if (row_type != kIndex32 || column_type != kIndex32 || as.rows > INT32_MAX ||
      as.entries > INT32_MAX)
    return kCodes.refused("cusparseCreateCsr (indices that are not of 32 bits)");
  if (as.type != kSingle && as.type != kDouble)
    return kCodes.refused("cusparseCreateCsr (values of this type)");
  return kCodes.make<Matrix>(matrix, as);
}

int set_attribute(void* matrix, int attribute, const void* data, std::size_t bytes) {
  enum { kFill, kDiagonal };
  if (matrix == nullptr || data == nullptr || bytes != sizeof(int) || attribute < 0 ||
      attribute > kDiagonal)
    return kCodes.invalid;
  auto& a = *static_cast<Matrix*>(matrix);
  std::memcpy(attribute == kFill ? &a.upper : &a.unit, data, sizeof(int));
  return 0;
}

int small_buffer(std::size_t* bytes) {
  if (bytes == nullptr) return kCodes.invalid;
  *bytes = sizeof(double);  // programs allocate what is asked for
  return 0;
}

}  // namespace

// ---- handles ----

CUDA_EXPORT int cusparseCreate(void** handle) {
  return kCodes.answered([&] {
    const Status status = session().ready();
    return status != client::kOk ? kCodes.of(status) : kCodes.make<Handle>(handle);
  });
}
CUDA_EXPORT int cusparseDestroy(void* handle) { return drop<Handle>(handle); }
CUDA_EXPORT int cusparseGetProperty(int which, int* value) {
  if (value == nullptr || which < 0 || which > 2) return kCodes.invalid;
  *value = which == 0 ? 12 : 0;
  return 0;
}
CUDA_EXPORT const char* cusparseGetErrorName(int status) {
  constexpr const char* kNames[] = {"CUSPARSE_STATUS_SUCCESS",
                                    "CUSPARSE_STATUS_NOT_INITIALIZED",
                                    "CUSPARSE_STATUS_ALLOC_FAILED",
                                    "CUSPARSE_STATUS_INVALID_VALUE",
                                    "CUSPARSE_STATUS_ARCH_MISMATCH",
                                    "CUSPARSE_STATUS_MAPPING_ERROR",
                                    "CUSPARSE_STATUS_EXECUTION_FAILED",
                                    "CUSPARSE_STATUS_INTERNAL_ERROR",
                                    "CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED",
                                    "CUSPARSE_STATUS_ZERO_PIVOT",
                                    "CUSPARSE_STATUS_NOT_SUPPORTED",
                                    "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES"};
  return status >= 0 && status < static_cast<int>(std::size(kNames)) ? kNames[status]
                                                                     : "unrecognized error code";
}
CUDA_EXPORT const char* cusparseGetErrorString(int status) { return cusparseGetErrorName(status); }
CUDA_EXPORT int cusparseGetVersion(void*, int* version) {
  if (version == nullptr) return kCodes.invalid;
  *version = 12600;
  return 0;
}
CUDA_EXPORT int cusparseSetStream(void* handle, void* stream) {
  if (handle == nullptr) return kCodes.not_ready;
  static_cast<Handle*>(handle)->stream = stream;
  return 0;
}
CUDA_EXPORT int cusparseGetStream(void* handle, void** stream) {
  if (handle == nullptr || stream == nullptr) return kCodes.invalid;
  *stream = static_cast<Handle*>(handle)->stream;
  return 0;
}
CUDA_EXPORT int cusparseSetPointerMode(void* handle, int mode) {
  if (handle == nullptr || mode < 0 || mode > 1) return kCodes.invalid;
  static_cast<Handle*>(handle)->pointer_mode = mode;
  return 0;
}
CUDA_EXPORT int cusparseGetPointerMode(void* handle, int* mode) {
  if (handle == nullptr || mode == nullptr) return kCodes.invalid;
  *mode = static_cast<Handle*>(handle)->pointer_mode;
  return 0;
}

// ---- matrices and vectors ----

#define CREATE_CSR(name)                                                                         \
  CUDA_EXPORT int name(void** matrix, std::int64_t rows, std::int64_t columns,                   \
                       std::int64_t entries, void* row, void* column, void* value, int row_type, \
                       int column_type, int base, int type) {                                    \
    return kCodes.answered([&] {                                                                 \
      return make_matrix(matrix, {rows, columns, entries, row, column, value, base, type},       \
                         row_type, column_type);                                                 \
    });                                                                                          \
  }
CREATE_CSR(cusparseCreateCsr)
CREATE_CSR(cusparseCreateConstCsr)
#undef CREATE_CSR
CUDA_EXPORT int cusparseDestroySpMat(const void* matrix) { return drop<Matrix>(matrix); }
CUDA_EXPORT int cusparseSpMatSetAttribute(void* matrix, int attribute, const void* data,
                                          std::size_t bytes) {
  return set_attribute(matrix, attribute, data, bytes);
}
#define CREATE_VECTOR(name)                                                           \
  CUDA_EXPORT int name(void** vector, std::int64_t size, void* values, int type) {    \
    if (size < 0) return kCodes.invalid;                                              \
    return kCodes.answered([&] { return kCodes.make<Vector>(vector, size, values, type); }); \
  }
CREATE_VECTOR(cusparseCreateDnVec)
CREATE_VECTOR(cusparseCreateConstDnVec)
#undef CREATE_VECTOR
CUDA_EXPORT int cusparseDestroyDnVec(const void* vector) { return drop<Vector>(vector); }
CUDA_EXPORT int cusparseDnVecSetValues(void* vector, void* values) {
  if (vector == nullptr) return kCodes.invalid;
  static_cast<Vector*>(vector)->values = values;
  return 0;
}

CUDA_EXPORT int cusparseCreateMatDescr(void** description) {
  return kCodes.answered([&] { return kCodes.make<Description>(description); });
}
CUDA_EXPORT int cusparseDestroyMatDescr(void* description) {
  return drop<Description>(description);
}
#define DESCRIPTION(name, member)                                   \
  CUDA_EXPORT int cusparseSet##name(void* description, int value) { \
    if (description == nullptr) return kCodes.invalid;              \
    static_cast<Description*>(description)->member = value;         \
    return 0;                                                       \
  }                                                                 \
  CUDA_EXPORT int cusparseGet##name(const void* description) {      \
    return static_cast<const Description*>(description)->member;    \
  }
DESCRIPTION(MatType, type)
DESCRIPTION(MatFillMode, fill)
DESCRIPTION(MatDiagType, diagonal)
DESCRIPTION(MatIndexBase, base)
#undef DESCRIPTION

// ---- products and solutions ----

CUDA_EXPORT int cusparseSpMV_bufferSize(void*, int, const void*, const void*, const void*,
                                        const void*, void*, int, int, std::size_t* bytes) {
  return small_buffer(bytes);
}
CUDA_EXPORT int cusparseSpMV_preprocess(void*, int, const void*, const void*, const void*,
                                        const void*, void*, int, int, void*) {
  return 0;
}
CUDA_EXPORT int cusparseSpMV(void* handle, int operation, const void* alpha, const void* matrix,
                             const void* x, const void* beta, void* y, int type, int, void*) {
  return kCodes.answered(
      [&] { return multiply(handle, operation, alpha, matrix, x, beta, y, type); });
}

struct Nothing {};
CUDA_EXPORT int cusparseSpSV_createDescr(void** description) {
  return kCodes.answered([&] { return kCodes.make<Nothing>(description); });
}
CUDA_EXPORT int cusparseSpSV_destroyDescr(void* description) { return drop<Nothing>(description); }
CUDA_EXPORT int cusparseSpSV_bufferSize(void*, int, const void*, const void*, const void*, void*,
                                        int, int, void*, std::size_t* bytes) {
  return small_buffer(bytes);
}
CUDA_EXPORT int cusparseSpSV_analysis(void*, int, const void*, const void*, const void*, void*, int,
                                      int, void*, void*) {
  return 0;
}
CUDA_EXPORT int cusparseSpSV_solve(void* handle, int operation, const void* alpha,
                                   const void* matrix, const void* b, void* x, int type, int,
                                   void*) {
  return kCodes.answered([&] { return solve(handle, operation, alpha, matrix, b, x, type); });
}

// ---- incomplete factors ----

CUDA_EXPORT int cusparseCreateCsrilu02Info(void** info) {
  return kCodes.answered([&] { return kCodes.make<Factors>(info); });
}
CUDA_EXPORT int cusparseDestroyCsrilu02Info(void* info) {
  return kCodes.answered([&] {
    if (info != nullptr) session().graph_memory.drop(static_cast<Factors*>(info)->zero);
    return drop<Factors>(info);
  });
}
CUDA_EXPORT int cusparseXcsrilu02_zeroPivot(void* handle, void* info, int* position) {
  return kCodes.answered([&] { return zero_pivot(handle, info, position); });
}
#define FACTORS(letter, T, suffix)                                                                 \
  CUDA_EXPORT int cusparse##letter##csrilu02_bufferSize(                                           \
      void*, int, int, const void*, void*, const int*, const int*, void*, int* bytes) {            \
    if (bytes == nullptr) return kCodes.invalid;                                                   \
    *bytes = sizeof(double);                                                                       \
    return 0;                                                                                      \
  }                                                                                                \
  CUDA_EXPORT int cusparse##letter##csrilu02_analysis(void*, int, int, const void*, const void*,   \
                                                      const int*, const int*, void*, int, void*) { \
    return 0;                                                                                      \
  }                                                                                                \
  CUDA_EXPORT int cusparse##letter##csrilu02(void* handle, int rows, int, const void* description, \
                                             void* value, const int* row, const int* column,       \
                                             void* info, int, void*) {                             \
    return kCodes.answered([&] {                                                                   \
      return factorise<T>(handle, rows, description, value, row, column, info,                     \
                          "csr_factor_" #suffix);                                                  \
    });                                                                                            \
  }
FACTORS(S, float, f)
FACTORS(D, double, d)
#undef FACTORS

}  // namespace partita::remote::shim
