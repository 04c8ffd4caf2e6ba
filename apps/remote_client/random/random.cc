// libcurand: numbers on the device by Philox 4x32-10 in an order of our own: the same for the same
// seed and offset, but not NVIDIA's. Other generators are refused by their name.
#include "library.h"

namespace partita::remote::shim {
namespace {

constexpr Codes kCodes{
    .not_ready = 101, .no_memory = 102, .invalid = 104, .failed = 201, .unsupported = 103};
constexpr int kLengthNotMultiple = 105;

struct Generator {
  void* stream = nullptr;
  std::uint64_t seed = 0, next = 0;  // the counter of the next call
};

int create(void** generator, int type) {
  constexpr int kDefault = 100, kPhilox = 161;
  if (generator == nullptr) return kCodes.not_ready;
  if (type != kDefault && type != kPhilox)
    return kCodes.refused("curandCreateGenerator (a generator that is not Philox)");
  if (const Status status = session().ready(); status != client::kOk) return kCodes.of(status);
  *generator = new Generator{};
  return 0;
}

// `each`: numbers that one counter gives.
template <class T, class... Parameters>
int generate(void* generator, const char* kernel, T* to, std::size_t count, std::size_t each,
             Parameters... parameters) {
  constexpr std::size_t kMost = std::size_t{1} << 31;
  if (generator == nullptr) return kCodes.not_ready;
  if (to == nullptr || count >= kMost) return kCodes.invalid;
  auto& is = *static_cast<Generator*>(generator);
  const std::uint64_t threads = (count + each - 1) / each, first = is.next;
  is.next += threads;
  return kCodes.of(run_own(kernel, is.stream, threads, to, is.seed, first,
                           static_cast<Index>(count), parameters...));
}

template <class T>
int normal(void* generator, const char* kernel, T* to, std::size_t count, std::size_t each, T mean,
           T deviation) {
  if (count % 2 != 0) return kLengthNotMultiple;
  return generate(generator, kernel, to, count, each, mean, deviation);
}

}  // namespace

CUDA_EXPORT int curandCreateGenerator(void** generator, int type) {
  return kCodes.answered([&] { return create(generator, type); });
}
CUDA_EXPORT int curandDestroyGenerator(void* generator) {
  if (generator == nullptr) return kCodes.not_ready;
  delete static_cast<Generator*>(generator);
  return 0;
}
CUDA_EXPORT int curandGetVersion(int* version) {
  if (version == nullptr) return kCodes.invalid;
  *version = 10400;
  return 0;
}
CUDA_EXPORT int curandSetStream(void* generator, void* stream) {
  if (generator == nullptr) return kCodes.not_ready;
  static_cast<Generator*>(generator)->stream = stream;
  return 0;
}
CUDA_EXPORT int curandSetPseudoRandomGeneratorSeed(void* generator, unsigned long long seed) {
  if (generator == nullptr) return kCodes.not_ready;
  auto& is = *static_cast<Generator*>(generator);
  is.seed = seed, is.next = 0;
  return 0;
}
CUDA_EXPORT int curandSetGeneratorOffset(void* generator, unsigned long long offset) {
  if (generator == nullptr) return kCodes.not_ready;
  static_cast<Generator*>(generator)->next = offset;
  return 0;
}
CUDA_EXPORT int curandGenerateSeeds(void* generator) {
  return generator == nullptr ? kCodes.not_ready : 0;
}
CUDA_EXPORT int curandGenerate(void* generator, unsigned* to, std::size_t count) {
  return kCodes.answered([&] { return generate(generator, "random_bits", to, count, 4); });
}
CUDA_EXPORT int curandGenerateLongLong(void* generator, unsigned long long* to, std::size_t count) {
  return kCodes.answered([&] {
    return generate(generator, "random_bits", reinterpret_cast<unsigned*>(to), 2 * count, 4);
  });
}
CUDA_EXPORT int curandGenerateUniform(void* generator, float* to, std::size_t count) {
  return kCodes.answered([&] { return generate(generator, "random_uniform_f", to, count, 4); });
}
CUDA_EXPORT int curandGenerateUniformDouble(void* generator, double* to, std::size_t count) {
  return kCodes.answered([&] { return generate(generator, "random_uniform_d", to, count, 2); });
}
CUDA_EXPORT int curandGenerateNormal(void* generator, float* to, std::size_t count, float mean,
                                     float deviation) {
  return kCodes.answered(
      [&] { return normal(generator, "random_normal_f", to, count, 4, mean, deviation); });
}
CUDA_EXPORT int curandGenerateNormalDouble(void* generator, double* to, std::size_t count,
                                           double mean, double deviation) {
  return kCodes.answered(
      [&] { return normal(generator, "random_normal_d", to, count, 2, mean, deviation); });
}

}  // namespace partita::remote::shim
