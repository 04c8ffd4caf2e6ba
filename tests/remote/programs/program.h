// What all programs share: a check of every call, noise from a seed, a last line with the verdict.
#pragma once

#include "cuda_minimal.h"  // first: clang wraps headers of the library

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define MUST(call)                                                                           \
  do {                                                                                       \
    const cudaError_t error_ = (call);                                                       \
    if (error_ != cudaSuccess) {                                                             \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
      std::exit(1);                                                                          \
    }                                                                                        \
  } while (false)

// Numbers that are the same on every machine.
class Noise {
 public:
  explicit Noise(unsigned seed) : state_(seed * 2654435761U + 12345U) {}
  unsigned next() {
    state_ = state_ * 1664525U + 1013904223U;
    return state_ >> 8;
  }
  int below(int bound) { return static_cast<int>(next() % static_cast<unsigned>(bound)); }
  // In [0, 1), a multiple of 2^-10: sums of few of them are exact.
  float unit() { return static_cast<float>(next() % 1024U) / 1024.0F; }

 private:
  unsigned state_;
};

template <class T>
T* to_device(const std::vector<T>& values) {
  T* pointer = nullptr;
  MUST(cudaMalloc(&pointer, values.size() * sizeof(T)));
  MUST(cudaMemcpy(pointer, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return pointer;
}

template <class T>
T* empty_on_device(size_t count) {
  T* pointer = nullptr;
  MUST(cudaMalloc(&pointer, count * sizeof(T)));
  return pointer;
}

template <class T>
std::vector<T> to_host(const T* pointer, size_t count) {
  std::vector<T> values(count);
  MUST(cudaMemcpy(values.data(), pointer, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

// The largest difference, each relative to the wanted value where that is above 1.
template <class T>
double difference(const std::vector<T>& have, const std::vector<T>& want) {
  double most = have.size() == want.size() ? 0 : 1e30;
  for (size_t at = 0; at < want.size() && at < have.size(); ++at) {
    const double scale = std::fmax(1.0, std::fabs(static_cast<double>(want[at])));
    const double off =
        std::fabs(static_cast<double>(have[at]) - static_cast<double>(want[at])) / scale;
    if (!(off <= most)) most = off;  // also takes NaN
  }
  return most;
}

// Prints the last line; what main returns.
inline int finish(const char* name, bool right, double off) {
  std::printf("%s: %s (difference %.3g)\n", name, right ? "right" : "WRONG", off);
  return right ? 0 : 1;
}

constexpr unsigned blocks_for(int count, int block) {
  return static_cast<unsigned>((count + block - 1) / block);
}
