// libcublas: what the server's own cuBLAS does where it has a GPU: triangles, symmetric matrices,
// complex numbers, factors of many matrices. blas.cc has what runs anywhere.
#include "forward.h"
#include "blas.h"

namespace partita::remote::shim {
namespace {

template <class... Given>
int on_server(const char* function, void* handle, const Given&... given) {
  if (handle == nullptr) return kNotInitialized;
  const auto& of = *static_cast<const BlasHandle*>(handle);
  if (of.on_device()) return kCodes.refused("factors on the device, in this function of cuBLAS");
  return forwarded(kCodes, function, of.stream, given...);
}

constexpr Factor factor_s(const void* at) { return {at, 4}; }
constexpr Factor factor_d(const void* at) { return {at, 8}; }
constexpr Factor factor_c(const void* at) { return {at, 8}; }
constexpr Factor factor_z(const void* at) { return {at, 16}; }

}  // namespace

#define FUNCTION(name, parameters, ...) \
  CUDA_EXPORT int name parameters { return on_server(#name, h, __VA_ARGS__); }

#define ANY(L, factor)                                                                            \
  FUNCTION(cublas##L##trsm_v2,                                                                    \
           (void* h, int side, int fill, int form, int unit, int m, int n, const void* alpha,     \
            const void* a, int lda, void* b, int ldb),                                            \
           side, fill, form, unit, m, n, factor(alpha), a, lda, b, ldb)                           \
  FUNCTION(cublas##L##trsmBatched,                                                                \
           (void* h, int side, int fill, int form, int unit, int m, int n, const void* alpha,     \
            const void* a, int lda, void* b, int ldb, int batch),                                 \
           side, fill, form, unit, m, n, factor(alpha), a, lda, b, ldb, batch)                    \
  FUNCTION(                                                                                       \
      cublas##L##trsv_v2,                                                                         \
      (void* h, int fill, int form, int unit, int n, const void* a, int lda, void* x, int incx),  \
      fill, form, unit, n, a, lda, x, incx)                                                       \
  FUNCTION(cublas##L##trmm_v2,                                                                    \
           (void* h, int side, int fill, int form, int unit, int m, int n, const void* alpha,     \
            const void* a, int lda, const void* b, int ldb, void* c, int ldc),                    \
           side, fill, form, unit, m, n, factor(alpha), a, lda, b, ldb, c, ldc)                   \
  FUNCTION(cublas##L##symm_v2,                                                                    \
           (void* h, int side, int fill, int m, int n, const void* alpha, const void* a, int lda, \
            const void* b, int ldb, const void* beta, void* c, int ldc),                          \
           side, fill, m, n, factor(alpha), a, lda, b, ldb, factor(beta), c, ldc)                 \
  FUNCTION(cublas##L##syrk_v2,                                                                    \
           (void* h, int fill, int form, int n, int k, const void* alpha, const void* a, int lda, \
            const void* beta, void* c, int ldc),                                                  \
           fill, form, n, k, factor(alpha), a, lda, factor(beta), c, ldc)                         \
  FUNCTION(cublas##L##geam,                                                                       \
           (void* h, int a_form, int b_form, int m, int n, const void* alpha, const void* a,      \
            int lda, const void* beta, const void* b, int ldb, void* c, int ldc),                 \
           a_form, b_form, m, n, factor(alpha), a, lda, factor(beta), b, ldb, c, ldc)             \
  FUNCTION(cublas##L##dgmm,                                                                       \
           (void* h, int side, int m, int n, const void* a, int lda, const void* x, int incx,     \
            void* c, int ldc),                                                                    \
           side, m, n, a, lda, x, incx, c, ldc)                                                   \
  FUNCTION(cublas##L##getrsBatched,                                                               \
           (void* h, int form, int n, int count, const void* a, int lda, const void* pivots,      \
            void* b, int ldb, int* info, int batch),                                              \
           form, n, count, a, lda, pivots, b, ldb, answer(info), batch)                           \
  FUNCTION(cublas##L##getriBatched,                                                               \
           (void* h, int n, const void* a, int lda, const void* pivots, void* c, int ldc,         \
            void* info, int batch),                                                               \
           n, a, lda, pivots, c, ldc, info, batch)                                                \
  FUNCTION(cublas##L##geqrfBatched,                                                               \
           (void* h, int m, int n, void* a, int lda, void* tau, int* info, int batch), m, n, a,   \
           lda, tau, answer(info), batch)                                                         \
  FUNCTION(cublas##L##gelsBatched,                                                                \
           (void* h, int form, int m, int n, int count, void* a, int lda, void* c, int ldc,       \
            int* info, void* device_info, int batch),                                             \
           form, m, n, count, a, lda, c, ldc, answer(info), device_info, batch)
ANY(S, factor_s)
ANY(D, factor_d)
ANY(C, factor_c)
ANY(Z, factor_z)
#undef ANY

#define COMPLEX(L, factor, real)                                                                   \
  FUNCTION(cublas##L##gemm_v2,                                                                     \
           (void* h, int a_form, int b_form, int m, int n, int k, const void* alpha,               \
            const void* a, int lda, const void* b, int ldb, const void* beta, void* c, int ldc),   \
           a_form, b_form, m, n, k, factor(alpha), a, lda, b, ldb, factor(beta), c, ldc)           \
  FUNCTION(                                                                                        \
      cublas##L##gemmStridedBatched,                                                               \
      (void* h, int a_form, int b_form, int m, int n, int k, const void* alpha, const void* a,     \
       int lda, long long a_stride, const void* b, int ldb, long long b_stride, const void* beta,  \
       void* c, int ldc, long long c_stride, int batch),                                           \
      a_form, b_form, m, n, k, factor(alpha), a, lda, a_stride, b, ldb, b_stride, factor(beta), c, \
      ldc, c_stride, batch)                                                                        \
  FUNCTION(                                                                                        \
      cublas##L##gemmBatched,                                                                      \
      (void* h, int a_form, int b_form, int m, int n, int k, const void* alpha, const void* a,     \
       int lda, const void* b, int ldb, const void* beta, void* c, int ldc, int batch),            \
      a_form, b_form, m, n, k, factor(alpha), a, lda, b, ldb, factor(beta), c, ldc, batch)         \
  FUNCTION(cublas##L##gemv_v2,                                                                     \
           (void* h, int form, int m, int n, const void* alpha, const void* a, int lda,            \
            const void* x, int incx, const void* beta, void* y, int incy),                         \
           form, m, n, factor(alpha), a, lda, x, incx, factor(beta), y, incy)                      \
  FUNCTION(cublas##L##axpy_v2,                                                                     \
           (void* h, int n, const void* alpha, const void* x, int incx, void* y, int incy), n,     \
           factor(alpha), x, incx, y, incy)                                                        \
  FUNCTION(cublas##L##scal_v2, (void* h, int n, const void* alpha, void* x, int incx), n,          \
           factor(alpha), x, incx)                                                                 \
  FUNCTION(cublas##L##hemm_v2,                                                                     \
           (void* h, int side, int fill, int m, int n, const void* alpha, const void* a, int lda,  \
            const void* b, int ldb, const void* beta, void* c, int ldc),                           \
           side, fill, m, n, factor(alpha), a, lda, b, ldb, factor(beta), c, ldc)                  \
  FUNCTION(cublas##L##herk_v2,                                                                     \
           (void* h, int fill, int form, int n, int k, const void* alpha, const void* a, int lda,  \
            const void* beta, void* c, int ldc),                                                   \
           fill, form, n, k, real(alpha), a, lda, real(beta), c, ldc)                              \
  FUNCTION(cublas##L##getrfBatched,                                                                \
           (void* h, int n, void* a, int lda, void* pivots, void* info, int batch), n, a, lda,     \
           pivots, info, batch)
COMPLEX(C, factor_c, factor_s)
COMPLEX(Z, factor_z, factor_d)
#undef COMPLEX
#undef FUNCTION

}  // namespace partita::remote::shim
