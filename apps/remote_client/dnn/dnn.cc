// libcudnn: what a network of convolutions needs forwards, in single precision: convolutions (as
// products of matrices), pooling, activations, softmax, normalisation, sums. Descriptors and
// heuristics are local; each operation is one or two of the stream, none waits. What is not here is
// refused by its name (unsupported.inc).
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "dnn.h"

namespace partita::remote::shim {
namespace {

constexpr int kByChannels = 1;     // cudnnTensorFormat_t
constexpr int kGemmAlgorithm = 2;  // cudnnConvolutionFwdAlgo_t
constexpr std::uint64_t kMostWindows = 64ULL << 20;  // bytes at a time, of more than one image

struct Filter {
  int type = kFloat, format = 0, k = 0, c = 0, h = 0, w = 0;
};
struct Window {  // as the kernels have it
  int height = 1, width = 1, pad_h = 0, pad_w = 0, step_h = 1, step_w = 1, apart_h = 1, apart_w = 1;
  int rows(int of) const { return 1 + (of + 2 * pad_h - ((height - 1) * apart_h + 1)) / step_h; }
  int columns(int of) const { return 1 + (of + 2 * pad_w - ((width - 1) * apart_w + 1)) / step_w; }
};
struct Convolution : Window {
  int mode = 1, groups = 1, math = 0, reorder = 0;
};
struct Pooling : Window {
  int mode = 0, nans = 0;
};
struct Algorithm {  // cudnnConvolutionFwdAlgoPerf_t
  int algorithm, status;
  float time;
  std::size_t memory;
  int determinism, math, reserved[3];
};
static_assert(sizeof(Algorithm) == 48);

float number(const void* factor) { return *static_cast<const float*>(factor); }

int set(void* tensor, int type, const Shape& shape, int dimensions = 4) {
  if (tensor == nullptr || std::min({shape.n, shape.c, shape.h, shape.w}) < 1)
    return kCodes.invalid;
  const std::uint64_t all = std::uint64_t(shape.n) * std::uint64_t(shape.c) *
                            std::uint64_t(shape.h) * std::uint64_t(shape.w);
  if (all > std::numeric_limits<int>::max()) return kCodes.unsupported;
  static_cast<Shape&>(*static_cast<Tensor*>(tensor)) = shape;
  static_cast<Tensor*>(tensor)->type = type;
  static_cast<Tensor*>(tensor)->dimensions = dimensions;
  return 0;
}
Shape packed(int format, int n, int c, int h, int w) {
  if (format == kByChannels) return {n, c, h, w, h * w * c, 1, w * c, c};
  return {n, c, h, w, c * h * w, h * w, w, 1};
}
bool is_packed(const Shape& a) {
  return a.sw == 1 && a.sh == a.w && a.sc == a.h * a.w && a.sn == a.c * a.h * a.w;
}

// Up to four dimensions, from the first; NVIDIA's wants at least four of most, so more are none.
int set_by_lists(void* tensor, int type, int count, const int* sizes, const int* steps,
                 int format) {
  if (tensor == nullptr || sizes == nullptr || count < 1) return kCodes.invalid;
  if (count > kMostDimensions) return kCodes.invalid;
  if (count > 4) {
    auto& of = *static_cast<Tensor*>(tensor);
    of = {};
    of.type = type, of.dimensions = count;
    std::copy(sizes, sizes + count, of.sizes);
    for (int i = count - 1, step = 1; i >= 0; step *= sizes[i--])
      of.steps[i] = steps == nullptr ? step : steps[i];
    return format == kByChannels ? kCodes.refused("channels last in five dimensions") : 0;
  }
  int size[4] = {1, 1, 1, 1}, step[4] = {1, 1, 1, 1};
  std::copy(sizes, sizes + count, size);
  Shape shape = packed(format, size[0], size[1], size[2], size[3]);
  if (steps != nullptr) {
    std::copy(steps, steps + count, step);
    shape = {size[0], size[1], size[2], size[3], step[0], step[1], step[2], step[3]};
  }
  return set(tensor, type, shape, count);
}

// What is wrong with an operation's tensors; 0: nothing.
int wrong(const void* handle, std::initializer_list<const void*> given,
          std::initializer_list<const void*> tensors) {
  if (handle == nullptr) return kCodes.not_ready;
  for (const void* one : given)
    if (one == nullptr) return kCodes.invalid;
  for (const void* one : tensors) {
    if (one == nullptr) return kCodes.invalid;
    if (as<Tensor>(one).dimensions > 4)
      return kCodes.refused("cuDNN on tensors of more than four dimensions");
    if (as<Tensor>(one).type != kFloat)
      return kCodes.refused("cuDNN on elements that are not float");
  }
  return 0;
}

// y = alpha f(x) + beta y, where x repeats in dimensions of length 1.
int map(void* handle, const Tensor& from, const void* x, const Tensor& to, void* y, float alpha,
        float beta, int kind = kIdentity, float how = 0) {
  const auto step = [](int size, int of, int by) { return size == of ? by : 0; };
  for (const auto& [size, of] : {std::pair(from.n, to.n), std::pair(from.c, to.c),
                                 std::pair(from.h, to.h), std::pair(from.w, to.w)})
    if (size != of && size != 1) return kCodes.invalid;
  return kCodes.of(run_own("tensor_map", as<Handle>(handle).stream, to.count(), x, y,
                           static_cast<Shape>(to), step(from.n, to.n, from.sn),
                           step(from.c, to.c, from.sc), step(from.h, to.h, from.sh),
                           step(from.w, to.w, from.sw), kind, how, alpha, beta, to.count()));
}

// ---- convolutions: y = W x, where x is what the windows see (im2col) ----

struct Sides {
  const Tensor& x;
  const Filter& w;
  const Convolution& by;
  const Tensor& y;
  Window window() const {
    Window is = by;
    is.height = w.h, is.width = w.w;
    return is;
  }
  std::uint64_t terms() const { return std::uint64_t(w.c) * std::uint64_t(w.h * w.w); }
  std::uint64_t places() const { return std::uint64_t(y.h) * std::uint64_t(y.w); }
  // Each window is one element of an image that lies as matrices do.
  bool sees_one() const {
    const Window is = window();
    return w.h == 1 && w.w == 1 && is.pad_h == 0 && is.pad_w == 0 && is.step_h == 1 &&
           is.step_w == 1 && is_packed({1, x.c, x.h, x.w, x.c * x.h * x.w, x.sc, x.sh, x.sw});
  }
  std::uint64_t image_bytes() const { return terms() * places() * sizeof(float); }
  std::uint64_t images() const {  // at a time
    return std::clamp<std::uint64_t>(kMostWindows / image_bytes(), 1, std::uint64_t(x.n));
  }
  std::uint64_t workspace() const { return sees_one() ? 0 : images() * image_bytes(); }
};

int wrong(const Sides& of) {
  const Window window = of.window();
  if (of.w.type != kFloat) return kCodes.refused("cuDNN on elements that are not float");
  if (of.w.format == kByChannels && of.terms() != std::uint64_t(of.w.c))
    return kCodes.refused("a filter with channels innermost");
  if (of.by.groups < 1 || of.w.c * of.by.groups != of.x.c || of.w.k % of.by.groups != 0 ||
      of.y.n != of.x.n || of.y.c != of.w.k || of.y.h != window.rows(of.x.h) ||
      of.y.w != window.columns(of.x.w))
    return kCodes.invalid;
  if (!is_packed({1, of.y.c, of.y.h, of.y.w, of.y.c * of.y.h * of.y.w, of.y.sc, of.y.sh, of.y.sw}))
    return kCodes.refused("a convolution into another layout than NCHW");
  return 0;
}

Status convolve_images(void* handle, const Sides& of, std::uint64_t x, std::uint64_t w,
                       std::uint64_t windows, std::uint64_t y, std::uint64_t images, float alpha,
                       float beta) {
  const auto inputs = static_cast<std::uint64_t>(of.w.c), places = of.places();
  const std::uint64_t filters = std::uint64_t(of.w.k / of.by.groups);
  void* const stream = as<Handle>(handle).stream;
  for (std::uint64_t group = 0; group < std::uint64_t(of.by.groups); ++group) {
    const std::uint64_t from = x + group * inputs * std::uint64_t(of.x.sc) * sizeof(float);
    Shape part = of.x;
    part.n = static_cast<int>(images), part.c = of.w.c;
    const auto count = static_cast<Index>(images * of.terms() * places);
    if (!of.sees_one())
      if (const Status status =
              run_own("tensor_windows", stream, count, from, windows, part, of.window(), of.y.h,
                      of.y.w, of.by.mode == 0 ? 1 : 0, count);
          status != client::kOk)
        return status;
    const Gemm product{.m = places,
                       .n = filters,
                       .k = of.terms(),
                       .batch = images,
                       .a = {of.sees_one() ? from : windows},
                       .a_step = places,
                       .a_stride = of.sees_one() ? std::uint64_t(of.x.sn) : of.terms() * places,
                       .b = {w + group * filters * of.terms() * sizeof(float)},
                       .b_step = of.terms(),
                       .c = {y + group * filters * places * sizeof(float)},
                       .c_step = places,
                       .c_stride = std::uint64_t(of.y.sn),
                       .alpha = std::bit_cast<std::uint64_t>(double{alpha}),
                       .beta = std::bit_cast<std::uint64_t>(double{beta})};
    if (const Status status = session().memory.multiply(number_of(stream), product);
        status != client::kOk)
      return status;
  }
  return client::kOk;
}

int convolve(void* handle, const Sides& of, const void* x, const void* w, void* workspace,
             std::size_t bytes, float alpha, float beta, void* y) {
  if (const int status = wrong(of); status != 0) return status;
  if (of.workspace() > 0 && (workspace == nullptr || bytes < of.workspace())) return kCodes.invalid;
  const std::uint64_t all = std::uint64_t(of.x.n);
  for (std::uint64_t first = 0; first < all; first += of.images()) {
    const std::uint64_t images = std::min(of.images(), all - first);
    const Status status = convolve_images(
        handle, of, number_of(x) + first * std::uint64_t(of.x.sn) * sizeof(float), number_of(w),
        number_of(workspace), number_of(y) + first * std::uint64_t(of.y.sn) * sizeof(float), images,
        alpha, beta);
    if (status != client::kOk) return kCodes.of(status);
  }
  return 0;
}

int algorithms(const void* x, const void* w, const void* by, const void* y, int room, int* count,
               Algorithm* results) {
  if (x == nullptr || w == nullptr || by == nullptr || y == nullptr || count == nullptr ||
      results == nullptr || room < 1)
    return kCodes.invalid;
  const Sides of{as<Tensor>(x), as<Filter>(w), as<Convolution>(by), as<Tensor>(y)};
  if (of.x.n < 1 || of.image_bytes() == 0) return kCodes.invalid;  // one of them was never set
  results[0] = {};
  results[0].algorithm = kGemmAlgorithm, results[0].memory = of.workspace();
  results[0].determinism = 1;
  *count = 1;
  return 0;
}

int output_size(const Window& window, const Tensor& x, int channels, int* n, int* c, int* h,
                int* w) {
  if (n == nullptr || c == nullptr || h == nullptr || w == nullptr) return kCodes.invalid;
  *n = x.n, *c = channels, *h = window.rows(x.h), *w = window.columns(x.w);
  return 0;
}

}  // namespace

// ---- the library, descriptors ----

// The server's where it has one: what a program leaves to cuDNN depends on it.
CUDA_EXPORT std::size_t cudnnGetVersion() {
  static const std::size_t version = [] {
    std::size_t known = 91900;
    if (!session().libraries.may_be()) return known;
    const auto answer = session().libraries.ask(client::Libraries::kNowhere, "cudnnGetVersion", {});
    if (answer && answer->results.size() == sizeof(known))
      std::memcpy(&known, answer->results.data(), sizeof(known));
    return known;
  }();
  return version;
}
CUDA_EXPORT std::size_t cudnnGetCudartVersion() { return PARTITA_CUDART * 1000; }
CUDA_EXPORT std::size_t cudnnGetMaxDeviceVersion() { return 1200; }
CUDA_EXPORT int cudnnGetProperty(int which, int* value) {
  if (value == nullptr || which < 0 || which > 2) return kCodes.invalid;
  *value = which == 0 ? 9 : which == 1 ? 19 : 0;
  return 0;
}
CUDA_EXPORT const char* cudnnGetErrorString(int status) {
  switch (status / 1000) {
    case 0:
      return "CUDNN_STATUS_SUCCESS";
    case 1:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case 2:
      return "CUDNN_STATUS_BAD_PARAM";
    case 3:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case 4:
      return "CUDNN_STATUS_INTERNAL_ERROR";
    default:
      return "CUDNN_STATUS_EXECUTION_FAILED";
  }
}
CUDA_EXPORT void cudnnGetLastErrorString(char* message, std::size_t room) {
  if (message != nullptr && room > 0) message[0] = '\0';
}
CUDA_EXPORT int cudnnQueryRuntimeError(void* handle, int* status, int, void*) {
  if (handle == nullptr || status == nullptr) return kCodes.invalid;
  *status = 0;
  return 0;
}
#define VERSION_CHECK(name) \
  CUDA_EXPORT int name() { return 0; }
VERSION_CHECK(cudnnGraphVersionCheck)
VERSION_CHECK(cudnnOpsVersionCheck)
VERSION_CHECK(cudnnCnnVersionCheck)
#undef VERSION_CHECK
CUDA_EXPORT int cudnnCreate(void** handle) {
  return kCodes.answered([&] {
    const Status status = session().ready();
    return status != client::kOk ? kCodes.of(status) : kCodes.make<Handle>(handle);
  });
}
CUDA_EXPORT int cudnnDestroy(void* handle) { return drop<Handle>(handle); }
CUDA_EXPORT int cudnnSetStream(void* handle, void* stream) {
  if (handle == nullptr) return kCodes.not_ready;
  static_cast<Handle*>(handle)->stream = stream;
  return 0;
}
CUDA_EXPORT int cudnnGetStream(void* handle, void** stream) {
  if (handle == nullptr || stream == nullptr) return kCodes.invalid;
  *stream = static_cast<Handle*>(handle)->stream;
  return 0;
}

#define DESCRIPTOR(Name, Type)                                                            \
  CUDA_EXPORT int cudnnCreate##Name##Descriptor(void** into) { return kCodes.make<Type>(into); } \
  CUDA_EXPORT int cudnnDestroy##Name##Descriptor(void* object) { return drop<Type>(object); }
DESCRIPTOR(Tensor, Tensor)
DESCRIPTOR(Filter, Filter)
DESCRIPTOR(Convolution, Convolution)
DESCRIPTOR(Pooling, Pooling)
DESCRIPTOR(Activation, Activation)
#undef DESCRIPTOR

CUDA_EXPORT int cudnnSetTensor4dDescriptor(void* tensor, int format, int type, int n, int c, int h,
                                           int w) {
  if (format > kByChannels)
    return kCodes.refused("cudnnSetTensor4dDescriptor (vectors of channels)");
  return set(tensor, type, packed(format, n, c, h, w));
}
CUDA_EXPORT int cudnnSetTensor4dDescriptorEx(void* tensor, int type, int n, int c, int h, int w,
                                             int sn, int sc, int sh, int sw) {
  return set(tensor, type, {n, c, h, w, sn, sc, sh, sw});
}
CUDA_EXPORT int cudnnSetTensorNdDescriptor(void* tensor, int type, int count, const int* sizes,
                                           const int* steps) {
  return steps == nullptr ? kCodes.invalid : set_by_lists(tensor, type, count, sizes, steps, 0);
}
CUDA_EXPORT int cudnnSetTensorNdDescriptorEx(void* tensor, int format, int type, int count,
                                             const int* sizes) {
  return set_by_lists(tensor, type, count, sizes, nullptr, format);
}
CUDA_EXPORT int cudnnGetTensor4dDescriptor(const void* tensor, int* type, int* n, int* c, int* h,
                                           int* w, int* sn, int* sc, int* sh, int* sw) {
  if (tensor == nullptr) return kCodes.invalid;
  const Tensor& is = as<Tensor>(tensor);
  const std::pair<int*, int> all[] = {{type, is.type}, {n, is.n},   {c, is.c},
                                      {h, is.h},       {w, is.w},   {sn, is.sn},
                                      {sc, is.sc},     {sh, is.sh}, {sw, is.sw}};
  for (const auto& [into, value] : all)
    if (into != nullptr) *into = value;
  return 0;
}
CUDA_EXPORT int cudnnGetTensorSizeInBytes(const void* tensor, std::size_t* bytes) {
  if (tensor == nullptr || bytes == nullptr) return kCodes.invalid;
  const Tensor& is = as<Tensor>(tensor);
  const std::size_t each = is.type == 1 ? 8 : is.type == 2 || is.type == 9 ? 2 : 4;
  const std::int64_t last = std::int64_t{is.n - 1} * is.sn + std::int64_t{is.c - 1} * is.sc +
                            std::int64_t{is.h - 1} * is.sh + std::int64_t{is.w - 1} * is.sw;
  *bytes = static_cast<std::size_t>(last + 1) * each;
  return 0;
}
CUDA_EXPORT int cudnnDeriveBNTensorDescriptor(void* derived, const void* x, int mode) {
  if (derived == nullptr || x == nullptr) return kCodes.invalid;
  const Tensor& is = as<Tensor>(x);
  return set(derived, kFloat,
             mode == 0 ? packed(0, 1, is.c, is.h, is.w) : packed(0, 1, is.c, 1, 1));
}

CUDA_EXPORT int cudnnSetFilter4dDescriptor(void* filter, int type, int format, int k, int c, int h,
                                           int w) {
  if (filter == nullptr || std::min({k, c, h, w}) < 1) return kCodes.invalid;
  *static_cast<Filter*>(filter) = {type, format, k, c, h, w};
  return 0;
}
CUDA_EXPORT int cudnnSetFilterNdDescriptor(void* filter, int type, int format, int count,
                                           const int* sizes) {
  if (sizes == nullptr || count < 1) return kCodes.invalid;
  if (count > 4) return kCodes.refused("a filter of more than four dimensions");
  int size[4] = {1, 1, 1, 1};
  std::copy(sizes, sizes + count, size);
  return cudnnSetFilter4dDescriptor(filter, type, format, size[0], size[1], size[2], size[3]);
}
CUDA_EXPORT int cudnnGetFilter4dDescriptor(const void* filter, int* type, int* format, int* k,
                                           int* c, int* h, int* w) {
  if (filter == nullptr) return kCodes.invalid;
  const Filter& is = as<Filter>(filter);
  *type = is.type, *format = is.format, *k = is.k, *c = is.c, *h = is.h, *w = is.w;
  return 0;
}

// ---- convolutions ----

CUDA_EXPORT int cudnnSetConvolution2dDescriptor(void* convolution, int pad_h, int pad_w, int step_h,
                                                int step_w, int apart_h, int apart_w, int mode,
                                                int type) {
  if (convolution == nullptr || std::min(pad_h, pad_w) < 0 ||
      std::min({step_h, step_w, apart_h, apart_w}) < 1)
    return kCodes.invalid;
  if (type != kFloat) return kCodes.refused("a convolution that is not computed in float");
  auto& is = *static_cast<Convolution*>(convolution);
  static_cast<Window&>(is) = {1, 1, pad_h, pad_w, step_h, step_w, apart_h, apart_w};
  is.mode = mode;
  return 0;
}
CUDA_EXPORT int cudnnSetConvolutionNdDescriptor(void* convolution, int count, const int* pads,
                                                const int* steps, const int* apart, int mode,
                                                int type) {
  if (count != 2) return kCodes.refused("a convolution of other than two dimensions");
  return cudnnSetConvolution2dDescriptor(convolution, pads[0], pads[1], steps[0], steps[1],
                                         apart[0], apart[1], mode, type);
}
#define PROPERTY(Name, member)                                                     \
  CUDA_EXPORT int cudnnSetConvolution##Name(void* convolution, int value) {        \
    if (convolution == nullptr) return kCodes.invalid;                             \
    static_cast<Convolution*>(convolution)->member = value;                        \
    return 0;                                                                      \
  }                                                                                \
  CUDA_EXPORT int cudnnGetConvolution##Name(const void* convolution, int* value) { \
    if (convolution == nullptr || value == nullptr) return kCodes.invalid;         \
    *value = as<Convolution>(convolution).member;                                  \
    return 0;                                                                      \
  }
PROPERTY(GroupCount, groups)
PROPERTY(MathType, math)
PROPERTY(ReorderType, reorder)
#undef PROPERTY
CUDA_EXPORT int cudnnGetConvolution2dForwardOutputDim(const void* convolution, const void* x,
                                                      const void* filter, int* n, int* c, int* h,
                                                      int* w) {
  if (convolution == nullptr || x == nullptr || filter == nullptr) return kCodes.invalid;
  const Sides of{as<Tensor>(x), as<Filter>(filter), as<Convolution>(convolution), as<Tensor>(x)};
  return output_size(of.window(), of.x, of.w.k, n, c, h, w);
}
CUDA_EXPORT int cudnnGetConvolutionForwardAlgorithmMaxCount(void*, int* count) {
  if (count == nullptr) return kCodes.invalid;
  *count = 1;
  return 0;
}
CUDA_EXPORT int cudnnGetConvolutionForwardAlgorithm_v7(void*, const void* x, const void* w,
                                                       const void* by, const void* y, int room,
                                                       int* count, Algorithm* results) {
  return algorithms(x, w, by, y, room, count, results);
}
CUDA_EXPORT int cudnnFindConvolutionForwardAlgorithm(void*, const void* x, const void* w,
                                                     const void* by, const void* y, int room,
                                                     int* count, Algorithm* results) {
  return algorithms(x, w, by, y, room, count, results);
}
CUDA_EXPORT int cudnnFindConvolutionForwardAlgorithmEx(void*, const void* x, const void*,
                                                       const void* w, const void*, const void* by,
                                                       const void* y, void*, int room, int* count,
                                                       Algorithm* results, void*, std::size_t) {
  return algorithms(x, w, by, y, room, count, results);
}
CUDA_EXPORT int cudnnGetConvolutionForwardWorkspaceSize(void*, const void* x, const void* w,
                                                        const void* by, const void* y, int,
                                                        std::size_t* bytes) {
  Algorithm found{};
  int count = 0;
  if (bytes == nullptr) return kCodes.invalid;
  const int status = algorithms(x, w, by, y, 1, &count, &found);
  *bytes = found.memory;
  return status;
}
CUDA_EXPORT int cudnnConvolutionForward(void* handle, const void* alpha, const void* x_is,
                                        const void* x, const void* w_is, const void* w,
                                        const void* by, int, void* workspace, std::size_t bytes,
                                        const void* beta, const void* y_is, void* y) {
  return kCodes.answered([&] {
    const int bad = wrong(handle, {alpha, x, w_is, w, by, beta, y}, {x_is, y_is});
    if (bad != 0) return bad;
    return convolve(handle,
                    {as<Tensor>(x_is), as<Filter>(w_is), as<Convolution>(by), as<Tensor>(y_is)}, x,
                    w, workspace, bytes, number(alpha), number(beta), y);
  });
}
CUDA_EXPORT int cudnnConvolutionBiasActivationForward(
    void* handle, const void* alpha, const void* x_is, const void* x, const void* w_is,
    const void* w, const void* by, int, void* workspace, std::size_t bytes, const void* z_factor,
    const void* z_is, const void* z, const void* bias_is, const void* bias, const void* activation,
    const void* y_is, void* y) {
  return kCodes.answered([&] {
    const int bad = wrong(handle, {alpha, x, w_is, w, by, z_factor, bias, activation, y},
                          {x_is, bias_is, y_is});
    if (bad != 0) return bad;
    const Tensor& to = as<Tensor>(y_is);
    const float more = number(z_factor);
    if (more != 0 && z != y) {
      if (z == nullptr || z_is == nullptr) return kCodes.invalid;
      if (const int status = map(handle, as<Tensor>(z_is), z, to, y, 1, 0); status != 0)
        return status;
    }
    int status = convolve(handle, {as<Tensor>(x_is), as<Filter>(w_is), as<Convolution>(by), to}, x,
                          w, workspace, bytes, number(alpha), more, y);
    if (status == 0) status = map(handle, as<Tensor>(bias_is), bias, to, y, 1, 1);
    const auto& how = as<Activation>(activation);
    if (status != 0 || how.mode == kIdentity) return status;
    return map(handle, to, y, to, y, 1, 0, how.kind(), how.by());
  });
}

// ---- pooling, activations, sums ----

CUDA_EXPORT int cudnnSetPooling2dDescriptor(void* pooling, int mode, int nans, int height,
                                            int width, int pad_h, int pad_w, int step_h,
                                            int step_w) {
  if (pooling == nullptr || std::min({height, width, step_h, step_w}) < 1 ||
      std::min(pad_h, pad_w) < 0 || pad_h >= height || pad_w >= width || mode < 0 || mode > 3)
    return kCodes.invalid;
  auto& is = *static_cast<Pooling*>(pooling);
  static_cast<Window&>(is) = {height, width, pad_h, pad_w, step_h, step_w, 1, 1};
  is.mode = mode, is.nans = nans;
  return 0;
}
CUDA_EXPORT int cudnnSetPoolingNdDescriptor(void* pooling, int mode, int nans, int count,
                                            const int* sizes, const int* pads, const int* steps) {
  if (count != 2) return kCodes.refused("pooling of other than two dimensions");
  return cudnnSetPooling2dDescriptor(pooling, mode, nans, sizes[0], sizes[1], pads[0], pads[1],
                                     steps[0], steps[1]);
}
CUDA_EXPORT int cudnnGetPooling2dForwardOutputDim(const void* pooling, const void* x, int* n,
                                                  int* c, int* h, int* w) {
  if (pooling == nullptr || x == nullptr) return kCodes.invalid;
  return output_size(as<Pooling>(pooling), as<Tensor>(x), as<Tensor>(x).c, n, c, h, w);
}
CUDA_EXPORT int cudnnPoolingForward(void* handle, const void* pooling, const void* alpha,
                                    const void* x_is, const void* x, const void* beta,
                                    const void* y_is, void* y) {
  return kCodes.answered([&] {
    const int bad = wrong(handle, {pooling, alpha, x, beta, y}, {x_is, y_is});
    if (bad != 0) return bad;
    const Tensor &from = as<Tensor>(x_is), &to = as<Tensor>(y_is);
    const auto& by = as<Pooling>(pooling);
    if (from.n != to.n || from.c != to.c || to.h != by.rows(from.h) || to.w != by.columns(from.w))
      return kCodes.invalid;
    return kCodes.of(run_own("tensor_pool", as<Handle>(handle).stream, to.count(), x, y,
                             static_cast<Shape>(from), static_cast<Shape>(to),
                             static_cast<Window>(by), by.mode, by.nans, number(alpha), number(beta),
                             to.count()));
  });
}
CUDA_EXPORT int cudnnSetActivationDescriptor(void* activation, int mode, int nans, double how) {
  if (activation == nullptr || mode < 0 || mode > 6) return kCodes.invalid;
  auto& is = *static_cast<Activation*>(activation);
  is.mode = mode, is.nans = nans, is.how = how;
  return 0;
}
CUDA_EXPORT int cudnnGetActivationDescriptor(const void* activation, int* mode, int* nans,
                                             double* how) {
  if (activation == nullptr) return kCodes.invalid;
  const auto& is = as<Activation>(activation);
  *mode = is.mode, *nans = is.nans, *how = is.how;
  return 0;
}
CUDA_EXPORT int cudnnSetActivationDescriptorSwishBeta(void* activation, double by) {
  if (activation == nullptr) return kCodes.invalid;
  static_cast<Activation*>(activation)->swish = by;
  return 0;
}
CUDA_EXPORT int cudnnActivationForward(void* handle, void* activation, const void* alpha,
                                       const void* x_is, const void* x, const void* beta,
                                       const void* y_is, void* y) {
  return kCodes.answered([&] {
    const int bad = wrong(handle, {activation, alpha, x, beta, y}, {x_is, y_is});
    if (bad != 0) return bad;
    if (!as<Tensor>(x_is).same_sizes(as<Tensor>(y_is))) return kCodes.invalid;
    const auto& how = as<Activation>(activation);
    return map(handle, as<Tensor>(x_is), x, as<Tensor>(y_is), y, number(alpha), number(beta),
               how.kind(), how.by());
  });
}
CUDA_EXPORT int cudnnAddTensor(void* handle, const void* alpha, const void* a_is, const void* a,
                               const void* beta, const void* c_is, void* c) {
  return kCodes.answered([&] {
    const int bad = wrong(handle, {alpha, a, beta, c}, {a_is, c_is});
    return bad != 0
               ? bad
               : map(handle, as<Tensor>(a_is), a, as<Tensor>(c_is), c, number(alpha), number(beta));
  });
}
CUDA_EXPORT int cudnnTransformTensor(void* handle, const void* alpha, const void* x_is,
                                     const void* x, const void* beta, const void* y_is, void* y) {
  return cudnnAddTensor(handle, alpha, x_is, x, beta, y_is, y);
}
CUDA_EXPORT int cudnnScaleTensor(void* handle, const void* y_is, void* y, const void* alpha) {
  const float none = 0;
  return cudnnAddTensor(handle, alpha, y_is, y, &none, y_is, y);
}

// ---- softmax, normalisation ----

CUDA_EXPORT int cudnnSoftmaxForward(void* handle, int algorithm, int mode, const void* alpha,
                                    const void* x_is, const void* x, const void* beta,
                                    const void* y_is, void* y) {
  return kCodes.answered([&] {
    const int bad = wrong(handle, {alpha, x, beta, y}, {x_is, y_is});
    if (bad != 0) return bad;
    const Tensor &from = as<Tensor>(x_is), &to = as<Tensor>(y_is);
    if (!from.same_sizes(to)) return kCodes.invalid;
    if (!is_packed(from) || !is_packed(to))
      return kCodes.refused("softmax in another layout than NCHW");
    const Index inner = mode == 0 ? 1 : static_cast<Index>(to.h * to.w);
    const Index size =
        mode == 0 ? static_cast<Index>(to.c * to.h * to.w) : static_cast<Index>(to.c);
    const Index rows = to.count() / size;
    return kCodes.of(run_own("tensor_softmax", as<Handle>(handle).stream, rows, x, y, size, inner,
                             algorithm == 2 ? 1 : 0, number(alpha), number(beta), rows));
  });
}
CUDA_EXPORT int cudnnBatchNormalizationForwardInference(void* handle, int, const void* alpha,
                                                        const void* beta, const void* x_is,
                                                        const void* x, const void* y_is, void* y,
                                                        const void* of, const void* scale,
                                                        const void* bias, const void* mean,
                                                        const void* variance, double epsilon) {
  return kCodes.answered([&] {
    const int bad =
        wrong(handle, {alpha, beta, x, y, scale, bias, mean, variance}, {x_is, y_is, of});
    if (bad != 0) return bad;
    const Tensor &from = as<Tensor>(x_is), &to = as<Tensor>(y_is), &by = as<Tensor>(of);
    const bool fits = by.c == to.c && (by.h == 1 || by.h == to.h) && (by.w == 1 || by.w == to.w);
    if (!from.same_sizes(to) || !fits) return kCodes.invalid;
    return kCodes.of(run_own("tensor_normalise", as<Handle>(handle).stream, to.count(), x, y,
                             static_cast<Shape>(from), static_cast<Shape>(to),
                             static_cast<Shape>(by), scale, bias, mean, variance,
                             static_cast<float>(epsilon), number(alpha), number(beta), to.count()));
  });
}

}  // namespace partita::remote::shim
