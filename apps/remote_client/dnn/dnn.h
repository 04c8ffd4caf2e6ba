// What the parts of libcudnn share: its handles, and tensors as programs describe them.
#pragma once

#include "forward.h"

namespace partita::remote::shim {

inline constexpr Codes kCodes{
    .not_ready = 1001, .no_memory = 4003, .invalid = 2000, .failed = 5000, .unsupported = 3000};
inline constexpr int kFloat = 0;     // cudnnDataType_t
inline constexpr int kIdentity = 5;  // cudnnActivationMode_t

struct Handle {
  void* stream = nullptr;
};
struct Shape {  // as the kernels have it
  int n = 0, c = 0, h = 0, w = 0, sn = 0, sc = 0, sh = 0, sw = 0;
  Index count() const { return static_cast<Index>(n) * static_cast<Index>(c * h * w); }
  bool same_sizes(const Shape& o) const { return n == o.n && c == o.c && h == o.h && w == o.w; }
};
inline constexpr int kMostDimensions = 8;
struct Tensor : Shape {
  int type = kFloat, dimensions = 4;
  // Of more than four dimensions, which only the server's library takes: all of them.
  int sizes[kMostDimensions] = {}, steps[kMostDimensions] = {};
};
struct Activation {
  int mode = kIdentity, nans = 0;
  double how = 0, swish = 1;
  // As the kernels number it.
  int kind() const {
    constexpr int kRelu = 1, kClippedRelu = 3, kReluOfNumbers = 8, kClippedReluOfNumbers = 9;
    if (nans != 0) return mode;
    return mode == kRelu ? kReluOfNumbers : mode == kClippedRelu ? kClippedReluOfNumbers : mode;
  }
  float by() const { return static_cast<float>(mode == 6 ? swish : how); }
};

template <class T>
const T& as(const void* object) {
  return *static_cast<const T*>(object);
}

// As arguments of the server's library.
struct TensorAt {  // null: none
  const void* tensor;
  void put_into(Arguments& into) const {
    if (tensor == nullptr) return into.put(std::uint32_t{0});
    const auto& of = as<Tensor>(tensor);
    if (of.dimensions <= 4) {
      into.put(std::uint32_t{4});
      for (const int number : {of.type, of.n, of.c, of.h, of.w, of.sn, of.sc, of.sh, of.sw})
        into.put(number);
      return;
    }
    into.put(of.dimensions), into.put(of.type);
    for (const int* const numbers : {of.sizes, of.steps})
      for (int i = 0; i < of.dimensions; ++i) into.put(numbers[i]);
  }
};

template <class... Given>
int on_server(const char* function, const void* handle, const Given&... given) {
  if (handle == nullptr) return kCodes.not_ready;
  return forwarded(kCodes, function, as<Handle>(handle).stream, given...);
}

}  // namespace partita::remote::shim
