// cublasXt on one device: products of matrices that lie in the program's memory or on the device.
// Those of the program go there and, of the result, come back; the call waits for it.

#include "blas.h"

#define XT_GEMM(name, T)                                                                         \
  CUDA_EXPORT int name(void* handle, int ta, int tb, std::int64_t m, std::int64_t n,             \
                       std::int64_t k, const T* alpha, const T* a, std::int64_t lda, const T* b, \
                       std::int64_t ldb, const T* beta, T* c, std::int64_t ldc)
CUDA_EXPORT int cublasCreate_v2(void** handle);
CUDA_EXPORT int cublasDestroy_v2(void* handle);
XT_GEMM(cublasSgemm_v2_64, float);
XT_GEMM(cublasDgemm_v2_64, double);
#undef XT_GEMM

namespace partita::remote::shim {
namespace {

struct Xt {
  void* blas = nullptr;
  int block = 1024;  // said and asked; products are not cut here
};

// A matrix on the device: where it is, or a copy for as long as this lives.
class There {
 public:
  There(const void* matrix, std::size_t rows, std::size_t columns, std::size_t step)
      : here_(matrix), bytes_(columns == 0 ? 0 : (columns - 1) * step + rows) {
    if (bytes_ == 0 || session().memory.contains(number_of(matrix))) return;
    const auto memory = session().memory.allocate(bytes_);
    status_ = memory ? client::kOk : memory.error();
    if (memory) copy_ = *memory;
    if (memory) status_ = session().memory.copy_in(0, copy_, matrix, bytes_);
  }
  ~There() {
    if (copy_ != 0) session().memory.release(copy_);
  }
  There(const There&) = delete;
  There& operator=(const There&) = delete;

  Status status() const { return status_; }
  template <class T>
  T* at() const {
    return static_cast<T*>(copy_ != 0 ? handle_of(copy_) : const_cast<void*>(here_));
  }
  Status bring_back(void* to) const {
    return copy_ == 0 ? session().streams.synchronise()
                      : session().memory.copy_out(0, to, copy_, bytes_, false);
  }

 private:
  const void* here_;
  std::size_t bytes_;
  std::uint64_t copy_ = 0;
  Status status_ = client::kOk;
};

template <class T, class Gemm>
int multiply(Gemm* gemm, void* handle, int ta, int tb, std::size_t m, std::size_t n, std::size_t k,
             const T* alpha, const T* a, std::size_t lda, const T* b, std::size_t ldb,
             const T* beta, T* c, std::size_t ldc) {
  if (handle == nullptr) return kCodes.not_ready;
  const auto matrix = [](const T* at, bool turned, std::size_t rows, std::size_t columns,
                         std::size_t step) {
    return There(at, (turned ? columns : rows) * sizeof(T), turned ? rows : columns,
                 step * sizeof(T));
  };
  const There a_there = matrix(a, ta != 0, m, k, lda), b_there = matrix(b, tb != 0, k, n, ldb),
              c_there = matrix(c, false, m, n, ldc);
  for (const There* one : {&a_there, &b_there, &c_there})
    if (one->status() != client::kOk) return kCodes.of(one->status());
  const auto wide = [](std::size_t size) { return static_cast<std::int64_t>(size); };
  const int status = gemm(static_cast<Xt*>(handle)->blas, ta, tb, wide(m), wide(n), wide(k), alpha,
                          a_there.at<const T>(), wide(lda), b_there.at<const T>(), wide(ldb), beta,
                          c_there.at<T>(), wide(ldc));
  return status != 0 ? status : kCodes.of(c_there.bring_back(c));
}

}  // namespace

CUDA_EXPORT int cublasXtCreate(void** handle) {
  return kCodes.answered([&] {
    void* blas = nullptr;
    if (handle == nullptr) return kCodes.invalid;
    const int status = cublasCreate_v2(&blas);
    if (status == 0) *handle = new Xt{blas};
    return status;
  });
}
CUDA_EXPORT int cublasXtDestroy(void* handle) {
  if (handle == nullptr) return kCodes.not_ready;
  const int status = cublasDestroy_v2(static_cast<Xt*>(handle)->blas);
  delete static_cast<Xt*>(handle);
  return status;
}
CUDA_EXPORT int cublasXtDeviceSelect(void* handle, int count, const int* devices) {
  if (handle == nullptr) return kCodes.not_ready;
  return count == 1 && devices != nullptr && devices[0] == 0 ? 0 : kCodes.invalid;
}
CUDA_EXPORT int cublasXtSetBlockDim(void* handle, int block) {
  if (handle == nullptr || block < 1) return kCodes.invalid;
  static_cast<Xt*>(handle)->block = block;
  return 0;
}
CUDA_EXPORT int cublasXtGetBlockDim(void* handle, int* block) {
  if (handle == nullptr || block == nullptr) return kCodes.invalid;
  *block = static_cast<Xt*>(handle)->block;
  return 0;
}
#define XT_GEMM(letter, T)                                                                         \
  CUDA_EXPORT int cublasXt##letter##gemm(void* handle, int ta, int tb, std::size_t m,              \
                                         std::size_t n, std::size_t k, const T* alpha, const T* a, \
                                         std::size_t lda, const T* b, std::size_t ldb,             \
                                         const T* beta, T* c, std::size_t ldc) {                   \
    return kCodes.answered([&] {                                                                   \
      return multiply<T>(cublas##letter##gemm_v2_64, handle, ta, tb, m, n, k, alpha, a, lda, b,    \
                         ldb, beta, c, ldc);                                                       \
    });                                                                                            \
  }
XT_GEMM(S, float)
XT_GEMM(D, double)
#undef XT_GEMM

}  // namespace partita::remote::shim
