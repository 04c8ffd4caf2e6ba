// libcufft: transforms of one to three dimensions, any lengths and layouts, by kernels of our own.
// An array is brought into a packed complex one, each axis is transformed there, and what is wanted
// goes to where the program has it.
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <vector>

#include "library.h"

namespace partita::remote::shim {
namespace {

using client::kOk;

constexpr int kInvalidPlan = 1, kInvalidType = 3, kInvalidSize = 8;
constexpr Codes kCodes{
    .not_ready = 7, .no_memory = 2, .invalid = 4, .failed = 6, .unsupported = 16};
enum Type { kC2C = 0x29, kR2C = 0x2a, kC2R = 0x2c, kZ2Z = 0x69, kD2Z = 0x6a, kZ2D = 0x6c };
enum Kind : Index { kComplex, kReal, kHalf };

// As the kernels have them.
struct Layout {
  Index n0, n1, n2, e1, e2, stride, distance, kind;
};
struct Pass {
  Index n, inner, done, radix, inverse;
};

struct Axis {
  Index n = 1, inner = 1;
  std::vector<Index> radices = {};
  std::uint64_t roots = 0;  // on the device
};

struct Side {  // how the program keeps its arrays; no embedding: one behind the other
  std::vector<long long> embed = {};
  long long stride = 1, distance = 0;
};

struct Plan {
  int type = 0;
  Index n[3] = {1, 1, 1}, batch = 1;
  Side in = {}, out = {};
  std::vector<Axis> axes = {};
  std::uint64_t work = 0;  // two packed arrays
  std::uint64_t count = 0;
  void* stream = nullptr;
  std::vector<int> devices = {};  // cufftXtSetGPUs
  bool is_double() const { return (type & 0x40) != 0; }
  std::uint64_t element() const { return is_double() ? 16 : 8; }
  bool made() const { return type != 0; }
};

std::mutex plans_mutex;
std::map<int, Plan> plans;

// With the plan's lock held, so that a plan is used by one thread at a time.
template <class Body>
int with_plan(int handle, Body&& body) {
  return kCodes.answered([&] {
    const std::lock_guard lock(plans_mutex);
    const auto found = plans.find(handle);
    return found == plans.end() ? kInvalidPlan : body(found->second);
  });
}

int create(int* handle) {
  if (handle == nullptr) return kCodes.invalid;
  if (const Status status = session().ready(); status != kOk) return kCodes.of(status);
  static int last = 0;
  const std::lock_guard lock(plans_mutex);
  plans[*handle = ++last] = {};
  return 0;
}

std::vector<Index> radices_of(Index n) {
  std::vector<Index> radices;
  for (Index radix = 4; n > 1; radix = radix == 4 ? 2 : radix == 2 ? 3 : radix + 2) {
    if (radix > 4 && std::uint64_t{radix} * radix > n) radix = n;
    for (; n % radix == 0; n /= radix) radices.push_back(radix);
  }
  return radices;
}

template <class T>
client::Got<std::uint64_t> send_roots(Index n) {
  std::vector<T> roots;
  for (Index k = 0; k < n; ++k) {
    const double angle = -2 * std::numbers::pi * k / n;
    roots.push_back(static_cast<T>(std::cos(angle)));
    roots.push_back(static_cast<T>(std::sin(angle)));
  }
  const std::uint64_t bytes = roots.size() * sizeof(T);
  const auto at = session().graph_memory.hold(bytes);
  if (!at) return at;
  const Status status = session().memory.copy_in(0, *at, roots.data(), bytes);
  return status == kOk ? at : client::Got<std::uint64_t>(client::refused(status));
}

void drop(const Plan& plan) {
  for (const Axis& axis : plan.axes) session().graph_memory.drop(axis.roots);
  if (plan.work != 0) session().graph_memory.drop(plan.work);
}

Status prepare(Plan& plan) {
  Index inner = 1;
  for (int i = 2; i >= 0; inner *= plan.n[i--]) {
    if (plan.n[i] == 1) continue;
    const auto roots =
        plan.is_double() ? send_roots<double>(plan.n[i]) : send_roots<float>(plan.n[i]);
    if (!roots) return roots.error();
    plan.axes.push_back({plan.n[i], inner, radices_of(plan.n[i]), *roots});
  }
  plan.count = std::uint64_t{inner} * plan.batch;
  const auto work = session().graph_memory.hold(2 * plan.count * plan.element());
  if (!work) return work.error();
  plan.work = *work;
  return kOk;
}

struct Shape {
  int rank;
  const long long* n;
  long long batch;
};

int make(Plan& plan, const Shape& shape, int type, Side in, Side out, std::size_t* bytes) {
  constexpr long long kMost = 1LL << 31;
  if (plan.made()) return kInvalidPlan;
  if (shape.rank < 1 || shape.rank > 3 || shape.batch < 1 || shape.batch >= kMost)
    return kInvalidSize;
  for (const int known : {kC2C, kR2C, kC2R, kZ2Z, kD2Z, kZ2D})
    if (type == known) plan.type = type;
  if (!plan.made()) return kInvalidType;
  long long count = shape.batch;
  for (int i = 0; i < shape.rank; ++i) {
    if (shape.n[i] < 1 || shape.n[i] >= kMost) return kInvalidSize;
    plan.n[3 - shape.rank + i] = static_cast<Index>(shape.n[i]);
    count *= shape.n[i];
    if (count >= kMost) return kCodes.refused("a transform of 2^31 elements");
  }
  plan.batch = static_cast<Index>(shape.batch);
  plan.in = std::move(in), plan.out = std::move(out);
  const Status status = prepare(plan);
  if (bytes != nullptr) *bytes = 2 * plan.count * plan.element();
  return kCodes.of(status);
}

Layout layout_of(const Plan& plan, const Side& side, Kind kind, bool in_place) {
  const Index half = plan.n[2] / 2 + 1;
  Layout made{plan.n[0], plan.n[1], plan.n[2], plan.n[1], plan.n[2], 1, 0, kind};
  if (kind == kHalf) made.e2 = half;
  const bool padded = in_place && kind == kReal && side.embed.empty();
  if (padded) made.e2 = 2 * half;
  made.distance = made.n0 * made.e1 * made.e2;
  if (side.embed.empty()) return made;
  const std::size_t rank = side.embed.size();
  if (rank > 1) made.e1 = static_cast<Index>(rank == 3 ? side.embed[1] : made.n1);
  if (rank > 1) made.e2 = static_cast<Index>(side.embed[rank - 1]);
  made.stride = static_cast<Index>(side.stride);
  made.distance = static_cast<Index>(side.distance);
  return made;
}

Status transform_axis(const Plan& plan, const Axis& axis, bool inverse, std::uint64_t& from,
                      std::uint64_t& to) {
  session().graph_memory.use(number_of(plan.stream), axis.roots);
  Index done = 1;
  for (const Index radix : axis.radices) {
    const Pass pass{axis.n, axis.inner, done, radix, inverse ? 1U : 0U};
    const Status status =
        run_own(plan.is_double() ? "fft_pass_d" : "fft_pass_f", plan.stream, plan.count, from, to,
                axis.roots, pass, static_cast<Index>(plan.count));
    if (status != kOk) return status;
    std::swap(from, to);
    done *= radix;
  }
  return kOk;
}

int transform(Plan& plan, int type, const void* in, void* out, bool inverse) {
  if (!plan.made() || plan.type != type) return plan.made() ? kInvalidType : kInvalidPlan;
  if (in == nullptr || out == nullptr) return kCodes.invalid;
  const int shape = type & ~0x40;
  const bool in_place = in == out;
  const Layout source = layout_of(plan, plan.in,
                                  shape == kR2C   ? kReal
                                  : shape == kC2R ? kHalf
                                                  : kComplex,
                                  in_place);
  const Layout target = layout_of(plan, plan.out,
                                  shape == kR2C   ? kHalf
                                  : shape == kC2R ? kReal
                                                  : kComplex,
                                  in_place);
  session().graph_memory.use(number_of(plan.stream), plan.work);
  std::uint64_t from = plan.work, to = plan.work + plan.count * plan.element();
  const auto count = static_cast<Index>(plan.count);
  Status status = run_own(plan.is_double() ? "fft_gather_d" : "fft_gather_f", plan.stream, count,
                          in, from, source, count);
  for (const Axis& axis : plan.axes)
    if (status == kOk) status = transform_axis(plan, axis, inverse, from, to);
  if (status == kOk)
    status = run_own(plan.is_double() ? "fft_scatter_d" : "fft_scatter_f", plan.stream, count, from,
                     out, target, count);
  return kCodes.of(status);
}

template <class Size>
int make_many(Plan& plan, int rank, const Size* n, const Size* in_embed, Size in_stride,
              Size in_distance, const Size* out_embed, Size out_stride, Size out_distance, int type,
              Size batch, std::size_t* bytes) {
  if (n == nullptr || rank < 1 || rank > 3) return kInvalidSize;
  const std::vector<long long> lengths(n, n + rank);
  const auto side = [&](const Size* embed, Size stride, Size distance) {
    // Both or none: as the library has it.
    return in_embed == nullptr || out_embed == nullptr
               ? Side{}
               : Side{std::vector<long long>(embed, embed + rank), stride, distance};
  };
  return make(plan, {rank, lengths.data(), batch}, type, side(in_embed, in_stride, in_distance),
              side(out_embed, out_stride, out_distance), bytes);
}

template <class Make>
int create_and(int* handle, Make&& make_it) {
  const int status = kCodes.answered([&] { return create(handle); });
  return status != 0 ? status : with_plan(*handle, make_it);
}

// By a throw-away plan that allocates nothing.
int estimate(const long long* n, int rank, long long batch, int type, std::size_t* bytes) {
  if (bytes == nullptr) return kCodes.invalid;
  long long count = batch;
  for (int i = 0; i < rank; ++i) count *= n[i];
  *bytes = static_cast<std::size_t>(2 * count * ((type & 0x40) != 0 ? 16 : 8));
  return 0;
}

// ---- several devices: slices of one array, which all of them reach ----

constexpr int kMostSlices = 64;
struct Slices {  // cudaXtDesc
  int version = 0, count = 0;
  int devices[kMostSlices] = {};
  void* data[kMostSlices] = {};
  std::size_t bytes[kMostSlices] = {};
  void* state = nullptr;
};
struct Sliced {  // cudaLibXtDesc
  int version = 0;
  Slices* slices = nullptr;
  int library = 0, format = 0;
  void* plan = nullptr;
  std::uint64_t all() const {
    std::uint64_t sum = 0;
    for (int i = 0; i < slices->count; ++i) sum += slices->bytes[i];
    return sum;
  }
};

int set_devices(Plan& plan, int count, const int* devices) {
  constexpr int kInvalidDevice = 11;
  if (plan.made() || devices == nullptr) return kCodes.invalid;
  if (count < 2 || count > kMostSlices) return kInvalidDevice;
  plan.devices.assign(devices, devices + count);
  for (const int device : plan.devices)
    if (device < 0 || device >= session().device().count ||
        std::ranges::count(plan.devices, device) != 1)
      return kInvalidDevice;
  return 0;
}

// By whole rows of the first axis, or elements where there is one axis.
int allocate(const Plan& plan, Sliced** made) {
  if (made == nullptr || !plan.made() || plan.devices.empty()) return kInvalidPlan;
  if (plan.type != kC2C && plan.type != kZ2Z)
    return kCodes.refused("cufftXtMalloc (a real transform on several devices)");
  const auto* const first = std::ranges::find_if(plan.n, [](Index n) { return n > 1; });
  const Index rows = first == std::end(plan.n) ? 1 : *first;
  const std::uint64_t row = plan.count / rows * plan.element();
  const auto at = session().memory.allocate(plan.count * plan.element());
  if (!at) return kCodes.of(at.error());
  auto* const slices = new Slices;
  const std::size_t count = plan.devices.size();
  std::uint64_t begun = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t end = rows * (i + 1) / count;
    slices->devices[i] = plan.devices[i];
    slices->data[i] = reinterpret_cast<void*>(*at + begun * row);
    slices->bytes[i] = (end - begun) * row;
    begun = end;
  }
  slices->count = static_cast<int>(count);
  *made = new Sliced{.slices = slices};
  return 0;
}

int copy_slices(Plan& plan, void* to, void* from, int direction) {
  enum { kToDevice, kToHost, kWithin };
  const auto address = [](void* sliced) {
    return number_of(static_cast<Sliced*>(sliced)->slices->data[0]);
  };
  if (to == nullptr || from == nullptr) return kCodes.invalid;
  const std::uint64_t stream = number_of(plan.stream);
  if (direction == kToDevice)
    return kCodes.of(
        session().memory.copy_in(stream, address(to), from, static_cast<Sliced*>(to)->all()));
  const std::uint64_t bytes = static_cast<Sliced*>(from)->all();
  if (direction == kToHost)
    return kCodes.of(session().memory.copy_out(stream, to, address(from), bytes, false));
  if (direction != kWithin || bytes != static_cast<Sliced*>(to)->all()) return kCodes.invalid;
  return kCodes.of(session().memory.copy(
      stream, {.to = {address(to)}, .from = {address(from)}, .width = bytes, .rows = 1}));
}

int transform_slices(int handle, int type, Sliced* in, Sliced* out, int direction) {
  if (in == nullptr || out == nullptr || (direction != 1 && direction != -1)) return kCodes.invalid;
  return with_plan(handle, [&](Plan& is) {
    return transform(is, type, in->slices->data[0], out->slices->data[0], direction == 1);
  });
}

}  // namespace

CUDA_EXPORT int cufftXtSetGPUs(int plan, int count, int* devices) {
  return with_plan(plan, [&](Plan& is) { return set_devices(is, count, devices); });
}
CUDA_EXPORT int cufftXtMalloc(int plan, Sliced** made, int) {
  return with_plan(plan, [&](Plan& is) { return allocate(is, made); });
}
CUDA_EXPORT int cufftXtFree(Sliced* sliced) {
  if (sliced == nullptr) return kCodes.invalid;
  const Status status = session().memory.release(number_of(sliced->slices->data[0]));
  delete sliced->slices;
  delete sliced;
  return kCodes.of(status);
}
CUDA_EXPORT int cufftXtMemcpy(int plan, void* to, void* from, int direction) {
  return with_plan(plan, [&](Plan& is) { return copy_slices(is, to, from, direction); });
}
// In their natural order before and after, so that no format is another one.
CUDA_EXPORT int cufftXtExecDescriptorC2C(int plan, Sliced* in, Sliced* out, int direction) {
  return transform_slices(plan, kC2C, in, out, direction);
}
CUDA_EXPORT int cufftXtExecDescriptorZ2Z(int plan, Sliced* in, Sliced* out, int direction) {
  return transform_slices(plan, kZ2Z, in, out, direction);
}

CUDA_EXPORT int cufftCreate(int* plan) {
  return kCodes.answered([&] { return create(plan); });
}
CUDA_EXPORT int cufftDestroy(int plan) {
  return kCodes.answered([&] {
    const std::lock_guard lock(plans_mutex);
    const auto found = plans.find(plan);
    if (found == plans.end()) return kInvalidPlan;
    drop(found->second);
    plans.erase(found);
    return 0;
  });
}
CUDA_EXPORT int cufftSetStream(int plan, void* stream) {
  return with_plan(plan, [&](Plan& is) { return is.stream = stream, 0; });
}
CUDA_EXPORT int cufftGetVersion(int* version) {
  if (version == nullptr) return kCodes.invalid;
  *version = PARTITA_CUDART >= 13 ? 12000 : 11300;
  return 0;
}
// The work area is ours in any case.
CUDA_EXPORT int cufftSetAutoAllocation(int plan, int) {
  return with_plan(plan, [](Plan&) { return 0; });
}
CUDA_EXPORT int cufftSetWorkArea(int plan, void*) {
  return with_plan(plan, [](Plan&) { return 0; });
}
CUDA_EXPORT int cufftGetSize(int plan, std::size_t* bytes) {
  return with_plan(plan, [&](Plan& is) {
    if (bytes == nullptr) return kCodes.invalid;
    *bytes = 2 * is.count * is.element();
    return 0;
  });
}

#define PLANS(rank, parameters, lengths, count)                                      \
  CUDA_EXPORT int cufftMakePlan##rank##d(int plan, parameters, std::size_t* bytes) { \
    const long long n[] = {lengths};                                                 \
    return with_plan(plan, [&](Plan& is) {                                           \
      return make(is, {rank, n, count}, type, {}, {}, bytes);                        \
    });                                                                              \
  }                                                                                  \
  CUDA_EXPORT int cufftPlan##rank##d(int* plan, parameters) {                        \
    const long long n[] = {lengths};                                                 \
    return create_and(plan, [&](Plan& is) {                                          \
      return make(is, {rank, n, count}, type, {}, {}, nullptr);                      \
    });                                                                              \
  }                                                                                  \
  CUDA_EXPORT int cufftEstimate##rank##d(parameters, std::size_t* bytes) {           \
    const long long n[] = {lengths};                                                 \
    return estimate(n, rank, count, type, bytes);                                    \
  }                                                                                  \
  CUDA_EXPORT int cufftGetSize##rank##d(int, parameters, std::size_t* bytes) {       \
    const long long n[] = {lengths};                                                 \
    return estimate(n, rank, count, type, bytes);                                    \
  }
#define WORDS(...) __VA_ARGS__
PLANS(1, WORDS(int nx, int type, int batch), WORDS(nx), batch)
PLANS(2, WORDS(int nx, int ny, int type), WORDS(nx, ny), 1)
PLANS(3, WORDS(int nx, int ny, int nz, int type), WORDS(nx, ny, nz), 1)
#undef WORDS
#undef PLANS

CUDA_EXPORT int cufftPlanMany(int* plan, int rank, int* n, int* in_embed, int in_stride,
                              int in_distance, int* out_embed, int out_stride, int out_distance,
                              int type, int batch) {
  return create_and(plan, [&](Plan& is) {
    return make_many<int>(is, rank, n, in_embed, in_stride, in_distance, out_embed, out_stride,
                          out_distance, type, batch, nullptr);
  });
}
#define MAKE_MANY(suffix, Size)                                                                    \
  CUDA_EXPORT int cufftMakePlanMany##suffix(int plan, int rank, Size* n, Size* in_embed,           \
                                            Size in_stride, Size in_distance, Size* out_embed,     \
                                            Size out_stride, Size out_distance, int type,          \
                                            Size batch, std::size_t* bytes) {                      \
    return with_plan(plan, [&](Plan& is) {                                                         \
      return make_many<Size>(is, rank, n, in_embed, in_stride, in_distance, out_embed, out_stride, \
                             out_distance, type, batch, bytes);                                    \
    });                                                                                            \
  }
MAKE_MANY(, int)
MAKE_MANY(64, long long)
#undef MAKE_MANY

// By the types of the arrays' elements (cudaDataType) and of the sums.
static int type_of(int in, int out, int sums) {
  enum { kSingle, kDouble, kSingles = 4, kDoubles = 5 };
  const bool wide = sums == kDoubles;
  if (sums != kSingles && sums != kDoubles) return 0;
  const int real = wide ? kDouble : kSingle;
  if (in == sums && out == sums) return wide ? kZ2Z : kC2C;
  if (in == real && out == sums) return wide ? kD2Z : kR2C;
  return in == sums && out == real ? (wide ? kZ2D : kC2R) : 0;
}
CUDA_EXPORT int cufftXtMakePlanMany(int plan, int rank, long long* n, long long* in_embed,
                                    long long in_stride, long long in_distance, int in_type,
                                    long long* out_embed, long long out_stride,
                                    long long out_distance, int out_type, long long batch,
                                    std::size_t* bytes, int sums) {
  const int type = type_of(in_type, out_type, sums);
  if (type == 0) return kCodes.refused("cufftXtMakePlanMany (elements of these types)");
  return with_plan(plan, [&](Plan& is) {
    return make_many<long long>(is, rank, n, in_embed, in_stride, in_distance, out_embed,
                                out_stride, out_distance, type, batch, bytes);
  });
}

#define EXECS(kind, type, inverse)                                                           \
  CUDA_EXPORT int cufftExec##kind(int plan, void* in, void* out) {                           \
    return with_plan(plan, [&](Plan& is) { return transform(is, type, in, out, inverse); }); \
  }
EXECS(R2C, kR2C, false)
EXECS(C2R, kC2R, true)
EXECS(D2Z, kD2Z, false)
EXECS(Z2D, kZ2D, true)
#undef EXECS
#define EXECS(kind, type)                                                                     \
  CUDA_EXPORT int cufftExec##kind(int plan, void* in, void* out, int direction) {             \
    if (direction != 1 && direction != -1) return kCodes.invalid;                             \
    return with_plan(plan,                                                                    \
                     [&](Plan& is) { return transform(is, type, in, out, direction == 1); }); \
  }
EXECS(C2C, kC2C)
EXECS(Z2Z, kZ2Z)
#undef EXECS
// As the plan was made; a direction is asked for between complex numbers alone.
CUDA_EXPORT int cufftXtExec(int plan, void* in, void* out, int direction) {
  return with_plan(plan, [&](Plan& is) {
    const bool forwards = is.type == kR2C || is.type == kD2Z;
    const bool back = is.type == kC2R || is.type == kZ2D || direction == 1;
    return transform(is, is.type, in, out, !forwards && back);
  });
}

}  // namespace partita::remote::shim
