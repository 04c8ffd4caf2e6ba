// libcublasLt: products of matrices with what follows them (bias, ReLU, GELU), each one or two
// operations of the stream. Descriptors and heuristics are local. What is not here is refused by
// its name (unsupported.inc).
#include <bit>
#include <cstring>
#include <map>

#include "library.h"

namespace partita::remote::shim {
namespace {

constexpr Codes kCodes{
    .not_ready = 1, .no_memory = 3, .invalid = 7, .failed = 13, .unsupported = 15};

// Numbers of the attributes that count, and of what must have its first value.
enum Description : int {
  kScaleType = 1,
  kPointerMode = 2,
  kTransposeA = 3,
  kTransposeB = 4,
  kTransposeC = 5,
  kFill = 6,
  kEpilogue = 7,
  kBias = 8,
  kBiasType = 26,
};
enum Layout : int { kType, kOrder, kRows, kColumns, kStep, kBatch, kStride };
enum Epilogue : std::uint64_t { kPlain = 1, kRelu = 2, kWithBias = 4, kGelu = 32 };

// The attributes of a descriptor, as the program set them, the first bytes of each; 0: not set.
struct Attributes {
  std::map<int, std::uint64_t> values = {};
  std::uint64_t at(int which, std::uint64_t otherwise = 0) const {
    const auto found = values.find(which);
    return found == values.end() ? otherwise : found->second;
  }
};

int make(void** into, std::map<int, std::uint64_t> values) {
  return kCodes.answered([&] {
    if (into == nullptr) return kCodes.invalid;
    *into = new Attributes{std::move(values)};
    return 0;
  });
}
int drop(void* attributes) {
  delete static_cast<Attributes*>(attributes);
  return 0;
}
int set(void* attributes, int which, const void* from, std::size_t bytes) {
  return kCodes.answered([&] {
    if (attributes == nullptr || from == nullptr || bytes == 0) return kCodes.invalid;
    std::uint64_t value = 0;
    std::memcpy(&value, from, std::min(bytes, sizeof value));
    static_cast<Attributes*>(attributes)->values[which] = value;
    return 0;
  });
}
int get(const void* attributes, int which, void* into, std::size_t bytes, std::size_t* written) {
  if (attributes == nullptr) return kCodes.invalid;
  const std::uint64_t value = static_cast<const Attributes*>(attributes)->at(which);
  const std::size_t has = std::min(bytes, sizeof value);
  if (into != nullptr) std::memcpy(into, &value, has);
  if (written != nullptr) *written = has;
  return 0;
}

struct Side {
  std::uint64_t at;
  const Attributes& is;
  std::uint64_t rows() const { return is.at(kRows); }
  std::uint64_t columns() const { return is.at(kColumns); }
  std::uint32_t type() const { return static_cast<std::uint32_t>(is.at(kType)); }
};

struct Work {
  const Attributes& how;
  Side a, b, c, d;
  bool turned_a() const { return how.at(kTransposeA) != 0; }
  bool turned_b() const { return how.at(kTransposeB) != 0; }
};

// Nothing: it can be done.
const char* missing_in(const Work& work) {
  for (const Side* side : {&work.a, &work.b, &work.c, &work.d})
    if (side->is.at(kOrder) != 0) return "cublasLtMatmul (rows one behind the other)";
  for (const auto& [which, value] : work.how.values) {
    const bool first = which == 0 || which == kScaleType || which == kBias || which == kBiasType ||
                       (which >= kTransposeA && which <= kTransposeB) || which == kEpilogue ||
                       (which >= 15 && which <= 16) || which == 25;
    if (!first && value != 0) return "cublasLtMatmul (an attribute of its descriptor)";
  }
  const std::uint64_t epilogue = work.how.at(kEpilogue, kPlain);
  if ((epilogue & ~std::uint64_t{kPlain | kRelu | kWithBias | kGelu}) != 0)
    return "cublasLtMatmul (an epilogue other than bias, ReLU, GELU)";
  if (epilogue != kPlain && work.d.type() == kFloat64)
    return "cublasLtMatmul (an epilogue in double precision)";
  const auto scale = static_cast<std::uint32_t>(work.how.at(kScaleType));
  if (work.a.type() == kFloat64
          ? scale != kFloat64
          : scale != kFloat32 && (scale != kFloat16 || work.d.type() != kFloat16))
    return "cublasLtMatmul (factors of this type)";
  const bool wider = work.a.type() != kFloat64 && work.d.type() == kFloat32;
  if (work.a.type() != work.b.type() || (work.a.type() != work.d.type() && !wider) ||
      work.c.type() != work.d.type())
    return "cublasLtMatmul (these types)";
  for (const Side* side : {&work.a, &work.d})
    if (side->type() != kFloat32 && side->type() != kFloat64 && side->type() != kFloat16 &&
        side->type() != kBfloat16)
      return "cublasLtMatmul (this type)";
  return nullptr;
}

bool fits(const Work& work) {
  const std::uint64_t m = work.turned_a() ? work.a.columns() : work.a.rows();
  const std::uint64_t k = work.turned_a() ? work.a.rows() : work.a.columns();
  const std::uint64_t n = work.turned_b() ? work.b.rows() : work.b.columns();
  const std::uint64_t k_of_b = work.turned_b() ? work.b.columns() : work.b.rows();
  return k == k_of_b && m == work.d.rows() && n == work.d.columns() && m == work.c.rows() &&
         n == work.c.columns();
}

std::uint64_t factor(const Work& work, const void* at) {
  const auto read = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return std::bit_cast<std::uint64_t>(static_cast<double>(value));
  };
  switch (work.how.at(kScaleType)) {
    case kFloat64:
      return read(double{});
    case kFloat16:
      return read(_Float16{});
    default:
      return read(float{});
  }
}

Gemm product(const Work& work, const void* alpha, const void* beta) {
  return {.form = (work.turned_a() ? kTransposedA : 0U) | (work.turned_b() ? kTransposedB : 0U),
          .in = work.a.type(),
          .out = work.d.type(),
          .m = work.d.rows(),
          .n = work.d.columns(),
          .k = work.turned_a() ? work.a.rows() : work.a.columns(),
          .batch = work.d.is.at(kBatch, 1),
          .a = {work.a.at},
          .a_step = work.a.is.at(kStep),
          .a_stride = work.a.is.at(kStride),
          .b = {work.b.at},
          .b_step = work.b.is.at(kStep),
          .b_stride = work.b.is.at(kStride),
          .c = {work.d.at},
          .c_step = work.d.is.at(kStep),
          .c_stride = work.d.is.at(kStride),
          .alpha = factor(work, alpha),
          .beta = factor(work, beta)};
}

// C to where D is to be, one of the batch after the other.
Status bring(const Work& work, std::uint64_t stream) {
  const std::uint64_t bytes = work.d.type() == kFloat64 ? 8 : work.d.type() == kFloat32 ? 4 : 2;
  for (std::uint64_t i = 0; i < work.d.is.at(kBatch, 1); ++i) {
    const Status status =
        session().memory.copy(stream, {.to = {work.d.at + i * work.d.is.at(kStride) * bytes},
                                       .from = {work.c.at + i * work.c.is.at(kStride) * bytes},
                                       .to_pitch = work.d.is.at(kStep) * bytes,
                                       .from_pitch = work.c.is.at(kStep) * bytes,
                                       .width = work.d.rows() * bytes,
                                       .rows = work.d.columns()});
    if (status != client::kOk) return status;
  }
  return client::kOk;
}

Status finish(const Work& work, void* stream) {
  const std::uint64_t epilogue = work.how.at(kEpilogue, kPlain);
  if (epilogue == kPlain) return client::kOk;
  constexpr int kReluKind = 1, kIdentityKind = 5, kGeluKind = 7;
  const int kind = (epilogue & kRelu) != 0   ? kReluKind
                   : (epilogue & kGelu) != 0 ? kGeluKind
                                             : kIdentityKind;
  const std::uint32_t type = work.d.type();
  const bool float_bias = work.how.at(kBiasType, type) == kFloat32;
  const std::string_view kernel = type == kFloat32   ? "epilogue_f"
                                  : type == kFloat16 ? (float_bias ? "epilogue_hf" : "epilogue_h")
                                                     : (float_bias ? "epilogue_bf" : "epilogue_b");
  const auto rows = static_cast<Index>(work.d.rows()),
             columns = static_cast<Index>(work.d.columns());
  const Index count = rows * columns * static_cast<Index>(work.d.is.at(kBatch, 1));
  const std::uint64_t bias = (epilogue & kWithBias) != 0 ? work.how.at(kBias) : 0;
  return run_own(kernel, stream, count, work.d.at, bias, rows, columns, work.d.is.at(kStep),
                 work.d.is.at(kStride), kind, count);
}

int multiply(const Work& work, const void* alpha, const void* beta, void* stream) {
  if (const char* const what = missing_in(work)) return kCodes.refused(what);
  if (!fits(work)) return kCodes.invalid;
  const Gemm gemm = product(work, alpha, beta);
  if (gemm.m == 0 || gemm.n == 0 || gemm.batch == 0) return 0;
  const bool brings = std::bit_cast<double>(gemm.beta) != 0 && work.c.at != work.d.at;
  Status status = brings ? bring(work, number_of(stream)) : client::kOk;
  if (status == client::kOk) status = session().memory.multiply(number_of(stream), gemm);
  if (status == client::kOk) status = finish(work, stream);
  return kCodes.of(status);
}

struct Heuristic {  // cublasLtMatmulHeuristicResult_t
  std::uint64_t algorithm[8];
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Heuristic) == 96);

const Attributes& as(const void* attributes) { return *static_cast<const Attributes*>(attributes); }

}  // namespace

CUDA_EXPORT std::size_t cublasLtGetVersion() { return PARTITA_CUDART * 10000; }
CUDA_EXPORT std::size_t cublasLtGetCudartVersion() { return PARTITA_CUDART * 1000; }
CUDA_EXPORT int cublasLtGetProperty(int which, int* value) {
  if (value == nullptr || which < 0 || which > 2) return kCodes.invalid;
  *value = which == 0 ? PARTITA_CUDART : 0;
  return 0;
}
CUDA_EXPORT int cublasLtCreate(void** handle) {
  const Status status = session().ready();
  return status == client::kOk ? make(handle, {}) : kCodes.of(status);
}
CUDA_EXPORT int cublasLtDestroy(void* handle) { return drop(handle); }

#define ATTRIBUTES(Name)                                                                  \
  CUDA_EXPORT int cublasLt##Name##Destroy(void* object) { return drop(object); }          \
  CUDA_EXPORT int cublasLt##Name##SetAttribute(void* object, int which, const void* from, \
                                               std::size_t bytes) {                       \
    return set(object, which, from, bytes);                                               \
  }                                                                                       \
  CUDA_EXPORT int cublasLt##Name##GetAttribute(const void* object, int which, void* into, \
                                               std::size_t bytes, std::size_t* written) { \
    return get(object, which, into, bytes, written);                                      \
  }
ATTRIBUTES(MatmulDesc)
ATTRIBUTES(MatrixLayout)
ATTRIBUTES(MatmulPreference)
#undef ATTRIBUTES
CUDA_EXPORT int cublasLtMatmulDescCreate(void** into, int compute, int scale) {
  return make(into, {{0, static_cast<std::uint64_t>(compute)},
                     {kScaleType, static_cast<std::uint64_t>(scale)},
                     {kEpilogue, kPlain}});
}
CUDA_EXPORT int cublasLtMatrixLayoutCreate(void** into, int type, std::uint64_t rows,
                                           std::uint64_t columns, std::int64_t step) {
  return make(into, {{kType, static_cast<std::uint64_t>(type)},
                     {kRows, rows},
                     {kColumns, columns},
                     {kStep, static_cast<std::uint64_t>(step)},
                     {kBatch, 1}});
}
CUDA_EXPORT int cublasLtMatmulPreferenceCreate(void** into) { return make(into, {}); }

CUDA_EXPORT int cublasLtMatmulAlgoGetHeuristic(void* handle, const void* how, const void* a_is,
                                               const void* b_is, const void* c_is, const void* d_is,
                                               const void*, int room, Heuristic* results,
                                               int* count) {
  return kCodes.answered([&] {
    for (const void* given : {static_cast<const void*>(handle), how, a_is, b_is, c_is, d_is})
      if (given == nullptr) return kCodes.invalid;
    if (room < 1 || results == nullptr || count == nullptr) return kCodes.invalid;
    const Work work{as(how), {0, as(a_is)}, {0, as(b_is)}, {0, as(c_is)}, {0, as(d_is)}};
    *count = 0;
    if (const char* const what = missing_in(work)) return kCodes.refused(what);
    if (!fits(work)) return kCodes.invalid;
    results[0] = {};
    results[0].algorithm[0] = 1, results[0].waves = 1;
    *count = 1;
    return 0;
  });
}

CUDA_EXPORT int cublasLtMatmul(void* handle, const void* how, const void* alpha, const void* a,
                               const void* a_is, const void* b, const void* b_is, const void* beta,
                               const void* c, const void* c_is, void* d, const void* d_is,
                               const void*, void*, std::size_t, void* stream) {
  return kCodes.answered([&] {
    if (handle == nullptr) return kCodes.not_ready;
    for (const void* given :
         {how, alpha, a, a_is, b, b_is, beta, c_is, static_cast<const void*>(d), d_is})
      if (given == nullptr) return kCodes.invalid;
    return multiply({as(how),
                     {number_of(a), as(a_is)},
                     {number_of(b), as(b_is)},
                     {number_of(c), as(c_is)},
                     {number_of(d), as(d_is)}},
                    alpha, beta, stream);
  });
}

}  // namespace partita::remote::shim
