// libcusolver: factorisations of dense matrices, eigenvalues, singular values. The server's own
// cuSOLVER does them where it has a GPU; handles and settings are local, a size of a work area is
// asked for, nothing else waits. What is not here is refused by its name (unsupported.inc).
#include "forward.h"

namespace partita::remote::shim {
namespace {

constexpr Codes kCodes{.not_ready = 1, .no_memory = 2, .invalid = 3, .failed = 7, .unsupported = 9};

struct Handle {
  void* stream = nullptr;
  int deterministic = 1;
};
struct Jacobi {  // syevjInfo, gesvdjInfo; below 0: as the library has it
  double tolerance = -1;
  int sweeps = -1, sorted = -1;
  void put_into(Arguments& arguments) const {
    arguments.put(tolerance), arguments.put(sweeps), arguments.put(sorted);
  }
};

template <class T, class Value>
int set(void* object, Value T::*member, Value value) {
  if (object == nullptr) return kCodes.invalid;
  static_cast<T*>(object)->*member = value;
  return 0;
}

template <class... Given>
int on_server(const char* function, void* handle, const Given&... given) {
  if (handle == nullptr) return kCodes.not_ready;
  return forwarded(kCodes, function, static_cast<Handle*>(handle)->stream, given...);
}
const Jacobi& jacobi(const void* info) {
  static const Jacobi usual;
  return info == nullptr ? usual : *static_cast<const Jacobi*>(info);
}

}  // namespace

// ---- handles, settings ----

CUDA_EXPORT int cusolverDnCreate(void** handle) {
  if (!session().libraries.may_be()) return kCodes.refused("cuSOLVER, on this device");
  return kCodes.make<Handle>(handle);
}
CUDA_EXPORT int cusolverDnDestroy(void* handle) { return drop<Handle>(handle); }
CUDA_EXPORT int cusolverDnSetStream(void* handle, void* stream) {
  return set(handle, &Handle::stream, stream);
}
CUDA_EXPORT int cusolverDnGetStream(void* handle, void** stream) {
  if (handle == nullptr || stream == nullptr) return kCodes.invalid;
  *stream = static_cast<Handle*>(handle)->stream;
  return 0;
}
CUDA_EXPORT int cusolverDnCreateParams(void** settings) { return kCodes.make<char>(settings); }
CUDA_EXPORT int cusolverDnDestroyParams(void* settings) { return drop<char>(settings); }
CUDA_EXPORT int cusolverGetProperty(int which, int* value) {
  if (value == nullptr || which < 0 || which > 2) return kCodes.invalid;
  *value = which == 0 ? 12 : 0;
  return 0;
}
CUDA_EXPORT int cusolverGetVersion(int* version) {
  if (version == nullptr) return kCodes.invalid;
  *version = 12000;
  return 0;
}

#define JACOBI(Kind, kind)                                                                 \
  CUDA_EXPORT int cusolverDnCreate##Kind##Info(void** info) { return kCodes.make<Jacobi>(info); } \
  CUDA_EXPORT int cusolverDnDestroy##Kind##Info(void* info) { return drop<Jacobi>(info); } \
  CUDA_EXPORT int cusolverDnX##kind##SetTolerance(void* info, double tolerance) {          \
    return set(info, &Jacobi::tolerance, tolerance);                                       \
  }                                                                                        \
  CUDA_EXPORT int cusolverDnX##kind##SetMaxSweeps(void* info, int sweeps) {                \
    return set(info, &Jacobi::sweeps, sweeps);                                             \
  }                                                                                        \
  CUDA_EXPORT int cusolverDnX##kind##SetSortEig(void* info, int sorted) {                  \
    return set(info, &Jacobi::sorted, sorted);                                             \
  }
JACOBI(Syevj, syevj)
JACOBI(Gesvdj, gesvdj)
#undef JACOBI

// ---- functions of one number type: S and D, C and Z ----

#define FUNCTION(name, parameters, ...) \
  CUDA_EXPORT int name parameters { return on_server(#name, h, __VA_ARGS__); }
#define EACH(FUNCTIONS) FUNCTIONS(S) FUNCTIONS(D) FUNCTIONS(C) FUNCTIONS(Z)

// h: handle; a, b, c: matrices with their steps; w, n: the work area and its length; info on the
// device, each in the library's own order.
#define FACTORS(L)                                                                                 \
  FUNCTION(cusolverDn##L##getrf_bufferSize, (void* h, int m, int n, void* a, int lda, int* size),  \
           m, n, a, lda, answer(size))                                                             \
  FUNCTION(cusolverDn##L##getrf,                                                                   \
           (void* h, int m, int n, void* a, int lda, void* w, void* pivots, void* info), m, n, a,  \
           lda, w, pivots, info)                                                                   \
  FUNCTION(cusolverDn##L##getrs,                                                                   \
           (void* h, int form, int n, int count, void* a, int lda, void* pivots, void* b, int ldb, \
            void* info),                                                                           \
           form, n, count, a, lda, pivots, b, ldb, info)                                           \
  FUNCTION(cusolverDn##L##potrf_bufferSize,                                                        \
           (void* h, int side, int n, void* a, int lda, int* size), side, n, a, lda, answer(size)) \
  FUNCTION(cusolverDn##L##potrf,                                                                   \
           (void* h, int side, int n, void* a, int lda, void* w, int length, void* info), side, n, \
           a, lda, w, length, info)                                                                \
  FUNCTION(cusolverDn##L##potrs,                                                                   \
           (void* h, int side, int n, int count, void* a, int lda, void* b, int ldb, void* info),  \
           side, n, count, a, lda, b, ldb, info)                                                   \
  FUNCTION(cusolverDn##L##potrfBatched,                                                            \
           (void* h, int side, int n, void* a, int lda, void* info, int batch), side, n, a, lda,   \
           info, batch)                                                                            \
  FUNCTION(cusolverDn##L##potrsBatched,                                                            \
           (void* h, int side, int n, int count, void* a, int lda, void* b, int ldb, void* info,   \
            int batch),                                                                            \
           side, n, count, a, lda, b, ldb, info, batch)                                            \
  FUNCTION(cusolverDn##L##geqrf_bufferSize, (void* h, int m, int n, void* a, int lda, int* size),  \
           m, n, a, lda, answer(size))                                                             \
  FUNCTION(cusolverDn##L##geqrf,                                                                   \
           (void* h, int m, int n, void* a, int lda, void* tau, void* w, int length, void* info),  \
           m, n, a, lda, tau, w, length, info)                                                     \
  FUNCTION(cusolverDn##L##sytrf_bufferSize, (void* h, int n, void* a, int lda, int* size), n, a,   \
           lda, answer(size))                                                                      \
  FUNCTION(                                                                                        \
      cusolverDn##L##sytrf,                                                                        \
      (void* h, int side, int n, void* a, int lda, void* pivots, void* w, int length, void* info), \
      side, n, a, lda, pivots, w, length, info)
EACH(FACTORS)
#undef FACTORS

#define ROTATIONS(name, apply)                                                                 \
  FUNCTION(cusolverDn##name##_bufferSize,                                                      \
           (void* h, int m, int n, int k, void* a, int lda, void* tau, int* size), m, n, k, a, \
           lda, tau, answer(size))                                                             \
  FUNCTION(cusolverDn##name,                                                                   \
           (void* h, int m, int n, int k, void* a, int lda, void* tau, void* w, int length,    \
            void* info),                                                                       \
           m, n, k, a, lda, tau, w, length, info)                                              \
  FUNCTION(cusolverDn##apply##_bufferSize,                                                     \
           (void* h, int side, int form, int m, int n, int k, void* a, int lda, void* tau,     \
            void* c, int ldc, int* size),                                                      \
           side, form, m, n, k, a, lda, tau, c, ldc, answer(size))                             \
  FUNCTION(cusolverDn##apply,                                                                  \
           (void* h, int side, int form, int m, int n, int k, void* a, int lda, void* tau,     \
            void* c, int ldc, void* w, int length, void* info),                                \
           side, form, m, n, k, a, lda, tau, c, ldc, w, length, info)
ROTATIONS(Sorgqr, Sormqr)
ROTATIONS(Dorgqr, Dormqr)
ROTATIONS(Cungqr, Cunmqr)
ROTATIONS(Zungqr, Zunmqr)
#undef ROTATIONS

#define SINGULAR(L)                                                                               \
  FUNCTION(cusolverDn##L##gesvd_bufferSize, (void* h, int m, int n, int* size), m, n,             \
           answer(size))                                                                          \
  FUNCTION(                                                                                       \
      cusolverDn##L##gesvd,                                                                       \
      (void* h, signed char u_wanted, signed char v_wanted, int m, int n, void* a, int lda,       \
       void* s, void* u, int ldu, void* v, int ldv, void* w, int length, void* rest, void* info), \
      u_wanted, v_wanted, m, n, a, lda, s, u, ldu, v, ldv, w, length, rest, info)                 \
  FUNCTION(cusolverDn##L##gesvdj_bufferSize,                                                      \
           (void* h, int vectors, int thin, int m, int n, void* a, int lda, void* s, void* u,     \
            int ldu, void* v, int ldv, int* size, void* settings),                                \
           vectors, thin, m, n, a, lda, s, u, ldu, v, ldv, answer(size), jacobi(settings))        \
  FUNCTION(cusolverDn##L##gesvdj,                                                                 \
           (void* h, int vectors, int thin, int m, int n, void* a, int lda, void* s, void* u,     \
            int ldu, void* v, int ldv, void* w, int length, void* info, void* settings),          \
           vectors, thin, m, n, a, lda, s, u, ldu, v, ldv, w, length, info, jacobi(settings))     \
  FUNCTION(cusolverDn##L##gesvdjBatched_bufferSize,                                               \
           (void* h, int vectors, int m, int n, void* a, int lda, void* s, void* u, int ldu,      \
            void* v, int ldv, int* size, void* settings, int batch),                              \
           vectors, m, n, a, lda, s, u, ldu, v, ldv, answer(size), jacobi(settings), batch)       \
  FUNCTION(cusolverDn##L##gesvdjBatched,                                                          \
           (void* h, int vectors, int m, int n, void* a, int lda, void* s, void* u, int ldu,      \
            void* v, int ldv, void* w, int length, void* info, void* settings, int batch),        \
           vectors, m, n, a, lda, s, u, ldu, v, ldv, w, length, info, jacobi(settings), batch)
EACH(SINGULAR)
#undef SINGULAR

#define EIGEN(name)                                                                            \
  FUNCTION(cusolverDn##name##d_bufferSize,                                                     \
           (void* h, int vectors, int side, int n, void* a, int lda, void* values, int* size), \
           vectors, side, n, a, lda, values, answer(size))                                     \
  FUNCTION(cusolverDn##name##d,                                                                \
           (void* h, int vectors, int side, int n, void* a, int lda, void* values, void* w,    \
            int length, void* info),                                                           \
           vectors, side, n, a, lda, values, w, length, info)                                  \
  FUNCTION(cusolverDn##name##j_bufferSize,                                                     \
           (void* h, int vectors, int side, int n, void* a, int lda, void* values, int* size,  \
            void* settings),                                                                   \
           vectors, side, n, a, lda, values, answer(size), jacobi(settings))                   \
  FUNCTION(cusolverDn##name##j,                                                                \
           (void* h, int vectors, int side, int n, void* a, int lda, void* values, void* w,    \
            int length, void* info, void* settings),                                           \
           vectors, side, n, a, lda, values, w, length, info, jacobi(settings))                \
  FUNCTION(cusolverDn##name##jBatched_bufferSize,                                              \
           (void* h, int vectors, int side, int n, void* a, int lda, void* values, int* size,  \
            void* settings, int batch),                                                        \
           vectors, side, n, a, lda, values, answer(size), jacobi(settings), batch)            \
  FUNCTION(cusolverDn##name##jBatched,                                                         \
           (void* h, int vectors, int side, int n, void* a, int lda, void* values, void* w,    \
            int length, void* info, void* settings, int batch),                                \
           vectors, side, n, a, lda, values, w, length, info, jacobi(settings), batch)
EIGEN(Ssyev)
EIGEN(Dsyev)
EIGEN(Cheev)
EIGEN(Zheev)
#undef EIGEN

// ---- functions that are told the types; q: settings, hw and hn: the work area of the host ----

using Long = std::int64_t;
using Size = std::size_t;
constexpr ServersOwn kOwn;

FUNCTION(cusolverDnXpotrf_bufferSize,
         (void* h, void*, int side, Long n, int type, void* a, Long lda, int in, Size* size,
          Size* host_size),
         kOwn, side, n, type, a, lda, in, answer(size), answer(host_size))
FUNCTION(cusolverDnXpotrf,
         (void* h, void*, int side, Long n, int type, void* a, Long lda, int in, void* w,
          Size length, void*, Size host_length, void* info),
         kOwn, side, n, type, a, lda, in, w, length, kOwn, host_length, info)
FUNCTION(cusolverDnXpotrs,
         (void* h, void*, int side, Long n, Long count, int type, void* a, Long lda, int b_type,
          void* b, Long ldb, void* info),
         kOwn, side, n, count, type, a, lda, b_type, b, ldb, info)
FUNCTION(cusolverDnXgeqrf_bufferSize,
         (void* h, void*, Long m, Long n, int type, void* a, Long lda, int tau_type, void* tau,
          int in, Size* size, Size* host_size),
         kOwn, m, n, type, a, lda, tau_type, tau, in, answer(size), answer(host_size))
FUNCTION(cusolverDnXgeqrf,
         (void* h, void*, Long m, Long n, int type, void* a, Long lda, int tau_type, void* tau,
          int in, void* w, Size length, void*, Size host_length, void* info),
         kOwn, m, n, type, a, lda, tau_type, tau, in, w, length, kOwn, host_length, info)
FUNCTION(cusolverDnXsyevd_bufferSize,
         (void* h, void*, int vectors, int side, Long n, int type, void* a, Long lda, int v_type,
          void* values, int in, Size* size, Size* host_size),
         kOwn, vectors, side, n, type, a, lda, v_type, values, in, answer(size), answer(host_size))
FUNCTION(cusolverDnXsyevd,
         (void* h, void*, int vectors, int side, Long n, int type, void* a, Long lda, int v_type,
          void* values, int in, void* w, Size length, void*, Size host_length, void* info),
         kOwn, vectors, side, n, type, a, lda, v_type, values, in, w, length, kOwn, host_length,
         info)
FUNCTION(cusolverDnXsyevBatched_bufferSize,
         (void* h, void*, int vectors, int side, Long n, int type, void* a, Long lda, int v_type,
          void* values, int in, Size* size, Size* host_size, Long batch),
         kOwn, vectors, side, n, type, a, lda, v_type, values, in, answer(size), answer(host_size),
         batch)
FUNCTION(cusolverDnXsyevBatched,
         (void* h, void*, int vectors, int side, Long n, int type, void* a, Long lda, int v_type,
          void* values, int in, void* w, Size length, void*, Size host_length, void* info,
          Long batch),
         kOwn, vectors, side, n, type, a, lda, v_type, values, in, w, length, kOwn, host_length,
         info, batch)
FUNCTION(cusolverDnXgeev_bufferSize,
         (void* h, void*, int left, int right, Long n, int type, void* a, Long lda, int v_type,
          void* values, int l_type, void* l, Long ldl, int r_type, void* r, Long ldr, int in,
          Size* size, Size* host_size),
         kOwn, left, right, n, type, a, lda, v_type, values, l_type, l, ldl, r_type, r, ldr, in,
         answer(size), answer(host_size))
FUNCTION(cusolverDnXgeev,
         (void* h, void*, int left, int right, Long n, int type, void* a, Long lda, int v_type,
          void* values, int l_type, void* l, Long ldl, int r_type, void* r, Long ldr, int in,
          void* w, Size length, void*, Size host_length, void* info),
         kOwn, left, right, n, type, a, lda, v_type, values, l_type, l, ldl, r_type, r, ldr, in, w,
         length, kOwn, host_length, info)
FUNCTION(cusolverDnXsytrs_bufferSize,
         (void* h, int side, Long n, Long count, int type, void* a, Long lda, void* pivots,
          int b_type, void* b, Long ldb, Size* size, Size* host_size),
         side, n, count, type, a, lda, pivots, b_type, b, ldb, answer(size), answer(host_size))
FUNCTION(cusolverDnXsytrs,
         (void* h, int side, Long n, Long count, int type, void* a, Long lda, void* pivots,
          int b_type, void* b, Long ldb, void* w, Size length, void*, Size host_length, void* info),
         side, n, count, type, a, lda, pivots, b_type, b, ldb, w, length, kOwn, host_length, info)
#undef FUNCTION
#undef EACH

}  // namespace partita::remote::shim
