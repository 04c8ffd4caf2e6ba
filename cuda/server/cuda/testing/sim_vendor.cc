// NVIDIA's libraries for the tests: a few functions of cuSOLVER, cuBLAS and cuDNN that refuse wrong
// use and write down what they were given, in the host's memory.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

// Where given: how many streams are being captured, during which no handle can be made.
EXPORT int (*sim_vendor_captured)();
int (*sim_vendor_captured)() = nullptr;

namespace {

constexpr int kWrong = 2000;

struct Handle {
  void* stream = nullptr;
};
std::set<void*> handles;

int create(void** handle) {
  if (sim_vendor_captured != nullptr && sim_vendor_captured() != 0) return kWrong;
  handles.insert(*handle = new Handle);
  return 0;
}
int destroy(void* handle) {
  if (handles.erase(handle) == 0) return kWrong;
  delete static_cast<Handle*>(handle);
  return 0;
}
int set_stream(void* handle, void* stream) {
  if (!handles.contains(handle)) return kWrong;
  static_cast<Handle*>(handle)->stream = stream;
  return 0;
}

struct Tensor {
  int type = -1, dimensions = 0, numbers[16] = {};
};
struct Activation {
  int mode = -1, nans = 0;
  double coefficient = 0;
};
struct Jacobi {
  double tolerance = 1e-7;
  int sweeps = 100, sorted = 1;
};

struct Dropout {
  float dropped = 0;
  double* states = nullptr;
  std::size_t bytes = 0;
  unsigned long long seed = 0;
};
struct Recurrent {
  int numbers[12] = {};
  unsigned flags = 0;
  Dropout dropout = {};
};
struct Sequences {
  int numbers[5] = {}, length = 0;  // type, layout, longest, batch, width
  float filling = 0;
};

struct Graph {  // a descriptor of cuDNN's backend interface
  int type = 0;
  bool final = false;
  std::map<int, std::vector<std::int64_t>> attributes = {};  // of 8 bytes each
};
constexpr int kHandleType = 0, kAddress = 6, kInteger = 3, kDescriptor = 15;

}  // namespace

EXPORT int cusolverDnCreate(void** handle) { return create(handle); }
EXPORT int cusolverDnDestroy(void* handle) { return destroy(handle); }
EXPORT int cusolverDnSetStream(void* handle, void* stream) { return set_stream(handle, stream); }
EXPORT int cublasCreate_v2(void** handle) { return create(handle); }
EXPORT int cublasDestroy_v2(void* handle) { return destroy(handle); }
EXPORT int cublasSetStream_v2(void* handle, void* stream) { return set_stream(handle, stream); }
EXPORT int cudnnCreate(void** handle) { return create(handle); }
EXPORT int cudnnDestroy(void* handle) { return destroy(handle); }
EXPORT int cudnnSetStream(void* handle, void* stream) { return set_stream(handle, stream); }
EXPORT std::size_t cudnnGetVersion() { return 0x1'0000'91900; }

// ---- solver ----

EXPORT int cusolverDnCreateParams(void** settings) {
  *settings = new int(77);
  return 0;
}
EXPORT int cusolverDnDestroyParams(void* settings) {
  delete static_cast<int*>(settings);
  return 0;
}
EXPORT int cusolverDnCreateGesvdjInfo(void** info) {
  *info = new Jacobi;
  return 0;
}
EXPORT int cusolverDnDestroyGesvdjInfo(void* info) {
  delete static_cast<Jacobi*>(info);
  return 0;
}
EXPORT int cusolverDnXgesvdjSetTolerance(void* info, double tolerance) {
  static_cast<Jacobi*>(info)->tolerance = tolerance;
  return 0;
}
EXPORT int cusolverDnXgesvdjSetMaxSweeps(void* info, int sweeps) {
  static_cast<Jacobi*>(info)->sweeps = sweeps;
  return 0;
}
EXPORT int cusolverDnXgesvdjSetSortEig(void* info, int sorted) {
  static_cast<Jacobi*>(info)->sorted = sorted;
  return 0;
}
EXPORT int cusolverDnSgetrf_bufferSize(void* handle, int m, int n, void*, int lda, int* size) {
  if (!handles.contains(handle)) return 1;
  *size = m * 10000 + n * 100 + lda;
  return 0;
}
// Into a: all that it was given, as doubles.
EXPORT int cusolverDnDgesvdj(void* handle, int vectors, int thin, int m, int n, double* a, int lda,
                             double* s, double* u, int ldu, double* v, int ldv, double* work,
                             int length, int* info, void* settings) {
  if (!handles.contains(handle) || settings == nullptr) return 1;
  const auto& how = *static_cast<const Jacobi*>(settings);
  const auto stream = reinterpret_cast<std::intptr_t>(static_cast<Handle*>(handle)->stream);
  const double all[] = {double(vectors), double(thin),       double(m),          double(n),
                        double(lda),     double(s - a),      double(u - a),      double(ldu),
                        double(v - a),   double(ldv),        double(work - a),   double(length),
                        how.tolerance,   double(how.sweeps), double(how.sorted), double(stream)};
  std::memcpy(a, all, sizeof(all));
  *info = -3;
  return 0;
}
EXPORT int cusolverDnXpotrf(void* handle, void* settings, int side, std::int64_t n, int type,
                            double* a, std::int64_t lda, int in, void* work, std::size_t length,
                            unsigned char* host, std::size_t host_length, int* info) {
  if (!handles.contains(handle) || settings == nullptr || *static_cast<int*>(settings) != 77)
    return 1;
  for (std::size_t i = 0; i < host_length; ++i) host[i] = 1;  // all of it is there
  const double all[] = {
      double(side), double(n),      double(type),        double(lda),
      double(in),   double(length), double(host_length), work == nullptr ? 1.0 : 0.0};
  std::memcpy(a, all, sizeof(all));
  *info = 4;
  return 0;
}
EXPORT int cublasZscal_v2(void* handle, int n, const double* alpha, double* x, int step) {
  if (!handles.contains(handle)) return 1;
  for (int i = 0; i < n; ++i) {
    double* const one = x + 2 * i * step;
    const double real = one[0] * alpha[0] - one[1] * alpha[1];
    one[1] = one[0] * alpha[1] + one[1] * alpha[0];
    one[0] = real;
  }
  return 0;
}
EXPORT int cusolverDnSsyevd(void*, int, int, int, void*, int, void*, void*, int, void*) {
  return 6;
}

// ---- normalisation ----

EXPORT int cudnnCreateTensorDescriptor(void** tensor) {
  *tensor = new Tensor;
  return 0;
}
EXPORT int cudnnDestroyTensorDescriptor(void* tensor) {
  delete static_cast<Tensor*>(tensor);
  return 0;
}
EXPORT int cudnnSetTensorNdDescriptor(void* tensor, int type, int dimensions, const int* sizes,
                                      const int* steps) {
  auto& of = *static_cast<Tensor*>(tensor);
  of.type = type, of.dimensions = dimensions;
  for (int i = 0; i < dimensions; ++i) of.numbers[i] = sizes[i], of.numbers[8 + i] = steps[i];
  return 0;
}
EXPORT int cudnnCreateActivationDescriptor(void** activation) {
  *activation = new Activation;
  return 0;
}
EXPORT int cudnnDestroyActivationDescriptor(void* activation) {
  delete static_cast<Activation*>(activation);
  return 0;
}
EXPORT int cudnnSetActivationDescriptor(void* activation, int mode, int nans, double coefficient) {
  *static_cast<Activation*>(activation) = {mode, nans, coefficient};
  return 0;
}
EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void* handle, int mode, int more,
                                                                const Activation* activation,
                                                                const Tensor* x,
                                                                std::size_t* bytes) {
  if (!handles.contains(handle) || x == nullptr) return kWrong;
  *bytes = static_cast<std::size_t>(mode * 1000 + more * 100 + x->numbers[1] * 10 +
                                    (activation == nullptr ? 0 : activation->mode));
  return 0;
}
// Into y: numbers of each kind, and of those behind the sixth of a kind.
EXPORT int cudnnBatchNormalizationForwardTrainingEx(
    void* handle, int mode, int more, const float* alpha, const float* beta, const Tensor* x,
    const double* x_at, const Tensor* z, const double*, const Tensor* y, double* y_at,
    const Tensor* scale, const double*, const double*, double weight, double*, double*,
    double epsilon, double*, double*, const Activation* activation, void*, std::size_t bytes, void*,
    std::size_t reserve) {
  if (!handles.contains(handle) || z != nullptr) return kWrong;
  const double all[] = {double(mode),
                        double(more),
                        double(*alpha),
                        double(*beta),
                        double(x->type),
                        double(x->dimensions),
                        double(x->numbers[3]),
                        double(x->numbers[8]),
                        *x_at,
                        double(y->numbers[0]),
                        double(scale->numbers[1]),
                        weight,
                        epsilon,
                        activation->coefficient,
                        double(bytes),
                        double(reserve)};
  std::memcpy(y_at, all, sizeof(all));
  return 0;
}

// ---- recurrent layers ----

EXPORT int cudnnGetTensorNdDescriptor(const Tensor* tensor, int room, int* type, int* dimensions,
                                      int* sizes, int* steps) {
  *type = tensor->type, *dimensions = tensor->dimensions;
  for (int i = 0; i < tensor->dimensions && i < room; ++i)
    sizes[i] = tensor->numbers[i], steps[i] = tensor->numbers[8 + i];
  return 0;
}
EXPORT int cudnnCreateDropoutDescriptor(void** dropout) {
  *dropout = new Dropout;
  return 0;
}
EXPORT int cudnnDestroyDropoutDescriptor(void* dropout) {
  delete static_cast<Dropout*>(dropout);
  return 0;
}
EXPORT int cudnnRestoreDropoutDescriptor(Dropout* dropout, void* handle, float dropped,
                                         double* states, std::size_t bytes,
                                         unsigned long long seed) {
  if (!handles.contains(handle)) return kWrong;
  *dropout = {dropped, states, bytes, seed};
  return 0;
}
EXPORT int cudnnSetDropoutDescriptor(Dropout* dropout, void* handle, float dropped, double* states,
                                     std::size_t bytes, unsigned long long seed) {
  if (states != nullptr) *states = double(seed) + dropped;
  return cudnnRestoreDropoutDescriptor(dropout, handle, dropped, states, bytes, seed);
}
EXPORT int cudnnCreateRNNDescriptor(void** layers) {
  *layers = new Recurrent;
  return 0;
}
EXPORT int cudnnDestroyRNNDescriptor(void* layers) {
  delete static_cast<Recurrent*>(layers);
  return 0;
}
EXPORT int cudnnSetRNNDescriptor_v8(Recurrent* layers, int algorithm, int cell, int bias,
                                    int direction, int input, int type, int precision, int math,
                                    int width, int hidden, int projected, int count,
                                    const Dropout* dropout, unsigned flags) {
  *layers = {{algorithm, cell, bias, direction, input, type, precision, math, width, hidden,
              projected, count},
             flags,
             *dropout};
  return 0;
}
EXPORT int cudnnCreateRNNDataDescriptor(void** data) {
  *data = new Sequences;
  return 0;
}
EXPORT int cudnnDestroyRNNDataDescriptor(void* data) {
  delete static_cast<Sequences*>(data);
  return 0;
}
EXPORT int cudnnSetRNNDataDescriptor(Sequences* data, int type, int layout, int longest, int batch,
                                     int width, const int* lengths, const float* filling) {
  *data = {{type, layout, longest, batch, width}, 0, *filling};
  for (int i = 0; i < batch; ++i) data->length += lengths[i];
  return 0;
}
// Where a matrix lies says what was asked for; there is no bias.
EXPORT int cudnnGetRNNWeightParams(void* handle, const Recurrent* layers, int layer,
                                   std::size_t bytes, char* weights, int which, Tensor* matrix,
                                   void** matrix_at, Tensor*, void** bias_at) {
  if (!handles.contains(handle)) return kWrong;
  const int sizes[] = {1, layers->numbers[9], layers->numbers[8]}, steps[] = {100, 10, 1};
  *matrix_at = weights + layer * 10 + which + static_cast<int>(bytes);
  *bias_at = nullptr;
  return cudnnSetTensorNdDescriptor(matrix, 0, 3, sizes, steps);
}
// Into y: all that it was given, but for addresses that it only checks.
EXPORT int cudnnRNNForward(void* handle, const Recurrent* layers, int training, const int* lengths,
                           const Sequences* x, const double* x_at, const Sequences* y, double* y_at,
                           const Tensor* h, const double* h_at, double* h_to, const Tensor* c,
                           const double* c_at, double* c_to, std::size_t weight_bytes,
                           const double* weights, std::size_t work_bytes, double*,
                           std::size_t reserve_bytes, double* reserve) {
  if (!handles.contains(handle) || c != nullptr || c_at != nullptr || c_to != nullptr)
    return kWrong;
  std::vector<double> all(layers->numbers, layers->numbers + 12);
  for (const double one : {double(layers->flags),
                           double(layers->dropout.dropped),
                           *layers->dropout.states,
                           double(layers->dropout.bytes),
                           double(layers->dropout.seed),
                           double(training),
                           double(*lengths),
                           double(x->numbers[0]),
                           double(x->numbers[1]),
                           double(x->numbers[2]),
                           double(x->numbers[3]),
                           double(x->numbers[4]),
                           double(x->length),
                           double(x->filling),
                           *x_at,
                           double(y->numbers[4]),
                           double(h->dimensions),
                           double(h->numbers[4]),
                           double(h->numbers[8]),
                           *h_at,
                           double(weight_bytes),
                           *weights,
                           double(work_bytes),
                           double(reserve_bytes)})
    all.push_back(one);
  std::memcpy(y_at, all.data(), all.size() * sizeof(double));
  *h_to = -1, *reserve = -2;
  return 0;
}

// ---- graphs ----

EXPORT int cudnnBackendCreateDescriptor(int type, void** descriptor) {
  *descriptor = new Graph{.type = type};
  return 0;
}
EXPORT int cudnnBackendDestroyDescriptor(void* descriptor) {
  delete static_cast<Graph*>(descriptor);
  return 0;
}
EXPORT int cudnnBackendFinalize(void* descriptor) {
  auto& graph = *static_cast<Graph*>(descriptor);
  if (graph.final || graph.attributes.contains(666)) return 3000;
  graph.final = true;
  return 0;
}
EXPORT int cudnnBackendSetAttribute(void* descriptor, int name, int type, std::int64_t elements,
                                    const void* values) {
  auto& graph = *static_cast<Graph*>(descriptor);
  if (graph.final) return kWrong;
  std::vector<std::int64_t> all(static_cast<std::size_t>(elements));
  if (!all.empty()) std::memcpy(all.data(), values, all.size() * 8);
  for (const std::int64_t one : all) {
    if (type == kDescriptor && !reinterpret_cast<const Graph*>(one)->final) return 2004;
    if (type == kHandleType && !handles.contains(reinterpret_cast<void*>(one))) return kWrong;
  }
  if (type != kHandleType && type != kAddress && type != kInteger && type != kDescriptor)
    return kWrong;
  graph.attributes[name] = all;
  return 0;
}
// A descriptor's descriptors: as many as its attribute says, each with its place in it.
EXPORT int cudnnBackendGetAttribute(void* descriptor, int name, int type, std::int64_t room,
                                    std::int64_t* elements, void* values) {
  const auto& graph = *static_cast<const Graph*>(descriptor);
  if (!graph.final || !graph.attributes.contains(name)) return 2004;
  const std::vector<std::int64_t>& own = graph.attributes.at(name);
  *elements = type == kDescriptor ? own.at(0) : static_cast<std::int64_t>(own.size());
  for (std::int64_t i = 0; i < std::min(room, *elements); ++i) {
    if (type != kDescriptor) {
      static_cast<std::int64_t*>(values)[i] = own[static_cast<std::size_t>(i)];
      continue;
    }
    auto& one = *static_cast<Graph**>(values)[i];
    one.attributes[name] = {i};
    one.final = true;
  }
  return 0;
}
// y = x times what the plan says, plus a value; where the pack is of 3 tensors: x, y, the value.
EXPORT int cudnnBackendExecute(void* handle, void* plan, void* pack) {
  auto& what = *static_cast<Graph*>(pack);
  auto& how = *static_cast<Graph*>(plan);
  if (!handles.contains(handle) || !what.final || what.type != 16 || !how.final) return kWrong;
  if (what.attributes[1000] != std::vector<std::int64_t>{10, 11, 12}) return kWrong;
  const std::vector<std::int64_t>& places = what.attributes[1001];
  const double x = *reinterpret_cast<const double*>(places[0]);
  const double more = *reinterpret_cast<const double*>(places[2]);
  *reinterpret_cast<double*>(places[1]) = x * static_cast<double>(how.attributes[500][0]) + more;
  *reinterpret_cast<double*>(what.attributes[1003][0]) = -1;
  return 0;
}
