// libcudnn's normalisation over a batch while training, and its derivative: the server's own.
#include "dnn.h"

namespace partita::remote::shim {
namespace {

struct TensorAt {  // as the server makes it again; null: none
  const void* tensor;
  void put_into(Arguments& into) const {
    if (tensor == nullptr) return into.put(std::uint32_t{0});
    const auto& of = as<Tensor>(tensor);
    into.put(std::uint32_t{4});
    for (const int number : {of.type, of.n, of.c, of.h, of.w, of.sn, of.sc, of.sh, of.sw})
      into.put(number);
  }
};
struct ActivationAt {
  const void* activation;
  void put_into(Arguments& into) const {
    into.put(std::uint32_t{activation != nullptr});
    if (activation == nullptr) return;
    const auto& of = as<Activation>(activation);
    into.put(of.mode), into.put(of.nans), into.put(of.how);
  }
};

template <class... Given>
int on_server(const char* function, const void* handle, const Given&... given) {
  if (handle == nullptr) return kCodes.not_ready;
  return forwarded(kCodes, function, as<Handle>(handle).stream, given...);
}

}  // namespace

CUDA_EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    void* handle, int mode, int more, const void* x, const void* z, const void* y,
    const void* scale, const void* activation, std::size_t* bytes) {
  return on_server(__func__, handle, mode, more, TensorAt{x}, TensorAt{z}, TensorAt{y},
                   TensorAt{scale}, ActivationAt{activation}, answer(bytes));
}
CUDA_EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    void* handle, int mode, int more, const void* x, const void* y, const void* dy, const void* dz,
    const void* dx, const void* scale, const void* activation, std::size_t* bytes) {
  return on_server(__func__, handle, mode, more, TensorAt{x}, TensorAt{y}, TensorAt{dy},
                   TensorAt{dz}, TensorAt{dx}, TensorAt{scale}, ActivationAt{activation},
                   answer(bytes));
}
CUDA_EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void* handle, int mode,
                                                                     int more,
                                                                     const void* activation,
                                                                     const void* x,
                                                                     std::size_t* bytes) {
  return on_server(__func__, handle, mode, more, ActivationAt{activation}, TensorAt{x},
                   answer(bytes));
}
CUDA_EXPORT int cudnnBatchNormalizationForwardTrainingEx(
    void* handle, int mode, int more, const void* alpha, const void* beta, const void* x,
    const void* x_at, const void* z, const void* z_at, const void* y, void* y_at,
    const void* scale, const void* scale_at, const void* bias_at, double weight, void* mean,
    void* variance, double epsilon, void* saved_mean, void* saved_inverse, const void* activation,
    void* workspace, std::size_t bytes, void* reserve, std::size_t reserve_bytes) {
  return on_server(__func__, handle, mode, more, Factor{alpha}, Factor{beta}, TensorAt{x}, x_at,
                   TensorAt{z}, z_at, TensorAt{y}, y_at, TensorAt{scale}, scale_at, bias_at,
                   weight, mean, variance, epsilon, saved_mean, saved_inverse,
                   ActivationAt{activation}, workspace, bytes, reserve, reserve_bytes);
}
CUDA_EXPORT int cudnnBatchNormalizationBackwardEx(
    void* handle, int mode, int more, const void* alpha, const void* beta, const void* alpha_scale,
    const void* beta_scale, const void* x, const void* x_at, const void* y, const void* y_at,
    const void* dy, const void* dy_at, const void* dz, void* dz_at, const void* dx, void* dx_at,
    const void* scale, const void* scale_at, const void* bias_at, void* d_scale, void* d_bias,
    double epsilon, const void* mean, const void* inverse, const void* activation,
    void* workspace, std::size_t bytes, void* reserve, std::size_t reserve_bytes) {
  return on_server(__func__, handle, mode, more, Factor{alpha}, Factor{beta}, Factor{alpha_scale},
                   Factor{beta_scale}, TensorAt{x}, x_at, TensorAt{y}, y_at, TensorAt{dy}, dy_at,
                   TensorAt{dz}, dz_at, TensorAt{dx}, dx_at, TensorAt{scale}, scale_at, bias_at,
                   d_scale, d_bias, epsilon, mean, inverse, ActivationAt{activation}, workspace,
                   bytes, reserve, reserve_bytes);
}

}  // namespace partita::remote::shim
