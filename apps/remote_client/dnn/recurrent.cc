// libcudnn's recurrent layers (RNN, LSTM, GRU) and their dropout: the server's own. What a program
// says of them is kept here and goes along with each call.
#include "dnn.h"

namespace partita::remote::shim {
namespace {

struct Dropout {
  float dropped = 0;
  void* states = nullptr;
  std::size_t bytes = 0;
  unsigned long long seed = 0;
};
struct Recurrent {
  int numbers[12] = {};  // as cudnnSetRNNDescriptor_v8 has them, to the layers
  unsigned flags = 0;
  Dropout dropout = {};
};
struct Sequences {
  int type = 0, layout = 0, longest = 0, width = 0;
  std::uint64_t filling = 0;
  std::vector<int> lengths = {};
};

struct RecurrentAt {
  const void* layers;
  void put_into(Arguments& into) const {
    const auto& of = as<Recurrent>(layers);
    for (const int number : of.numbers) into.put(number);
    into.put(of.flags), into.put(of.dropout.dropped);
    into.add(static_cast<const void*>(of.dropout.states));
    into.put(std::uint64_t{of.dropout.bytes}), into.put(std::uint64_t{of.dropout.seed});
  }
};
struct SequencesAt {
  const void* sequences;
  void put_into(Arguments& into) const {
    if (sequences == nullptr) return into.put(std::uint32_t{0});
    const auto& of = as<Sequences>(sequences);
    into.put(static_cast<std::uint32_t>(of.lengths.size()));
    into.put(of.type), into.put(of.layout), into.put(of.longest), into.put(of.width);
    into.put(of.filling);
    for (const int length : of.lengths) into.put(length);
  }
};
struct Single {
  float value;
  void put_into(Arguments& into) const { into.put(value); }
};
// As the server answers a tensor.
struct AnsweredTensor {
  int dimensions, type, sizes[kMostDimensions], steps[kMostDimensions];
};

int check(const void* handle, std::initializer_list<const void*> given) {
  if (handle == nullptr) return kCodes.not_ready;
  for (const void* one : given)
    if (one == nullptr) return kCodes.invalid;
  return 0;
}

}  // namespace

// ---- descriptors ----

CUDA_EXPORT int cudnnCreateDropoutDescriptor(void** dropout) {
  return kCodes.make<Dropout>(dropout);
}
CUDA_EXPORT int cudnnDestroyDropoutDescriptor(void* dropout) { return drop<Dropout>(dropout); }
CUDA_EXPORT int cudnnDropoutGetStatesSize(void* handle, std::size_t* bytes) {
  return on_server(__func__, handle, answer(bytes));
}
CUDA_EXPORT int cudnnRestoreDropoutDescriptor(void* dropout, void*, float dropped, void* states,
                                              std::size_t bytes, unsigned long long seed) {
  if (dropout == nullptr) return kCodes.invalid;
  *static_cast<Dropout*>(dropout) = {dropped, states, bytes, seed};
  return 0;
}
// The states are drawn anew, on the device.
CUDA_EXPORT int cudnnSetDropoutDescriptor(void* dropout, void* handle, float dropped, void* states,
                                          std::size_t bytes, unsigned long long seed) {
  const int known = cudnnRestoreDropoutDescriptor(dropout, handle, dropped, states, bytes, seed);
  if (known != 0 || states == nullptr) return known;
  return on_server(__func__, handle, ServersOwn{}, Single{dropped},
                   static_cast<const void*>(states), bytes, seed);
}
CUDA_EXPORT int cudnnCreateRNNDescriptor(void** layers) { return kCodes.make<Recurrent>(layers); }
CUDA_EXPORT int cudnnDestroyRNNDescriptor(void* layers) { return drop<Recurrent>(layers); }
CUDA_EXPORT int cudnnSetRNNDescriptor_v8(void* layers, int algorithm, int cell, int bias,
                                         int direction, int input, int type, int precision,
                                         int math, int width, int hidden, int projected, int count,
                                         const void* dropout, unsigned flags) {
  if (layers == nullptr || dropout == nullptr) return kCodes.invalid;
  *static_cast<Recurrent*>(layers) = {{algorithm, cell, bias, direction, input, type, precision,
                                       math, width, hidden, projected, count},
                                      flags,
                                      as<Dropout>(dropout)};
  return 0;
}
CUDA_EXPORT int cudnnCreateRNNDataDescriptor(void** data) { return kCodes.make<Sequences>(data); }
CUDA_EXPORT int cudnnDestroyRNNDataDescriptor(void* data) { return drop<Sequences>(data); }
CUDA_EXPORT int cudnnSetRNNDataDescriptor(void* data, int type, int layout, int longest, int batch,
                                          int width, const int* lengths, const void* filling) {
  return kCodes.answered([&] {
    if (data == nullptr || lengths == nullptr || batch < 1) return kCodes.invalid;
    auto& of = *static_cast<Sequences*>(data);
    of = {type, layout, longest, width, 0, {lengths, lengths + batch}};
    const std::size_t element = type == 1 ? 8 : type == kFloat ? 4 : 2;
    if (filling != nullptr) std::memcpy(&of.filling, filling, element);
    return 0;
  });
}
CUDA_EXPORT int cudnnGetTensorNdDescriptor(const void* tensor, int room, int* type, int* dimensions,
                                           int* sizes, int* steps) {
  if (tensor == nullptr || dimensions == nullptr || sizes == nullptr || steps == nullptr)
    return kCodes.invalid;
  const auto& of = as<Tensor>(tensor);
  const int size[] = {of.n, of.c, of.h, of.w}, step[] = {of.sn, of.sc, of.sh, of.sw};
  const bool many = of.dimensions > 4;
  if (type != nullptr) *type = of.type;
  *dimensions = of.dimensions;
  for (int i = 0; i < of.dimensions && i < room; ++i)
    sizes[i] = many ? of.sizes[i] : size[i], steps[i] = many ? of.steps[i] : step[i];
  return 0;
}

// ---- layers ----

CUDA_EXPORT int cudnnSetTensorNdDescriptor(void* tensor, int type, int count, const int* sizes,
                                           const int* steps);

CUDA_EXPORT int cudnnGetRNNTempSpaceSizes(void* handle, void* layers, int training, void* x,
                                          std::size_t* work, std::size_t* reserve) {
  if (const int wrong = check(handle, {layers, x}); wrong != 0) return wrong;
  return on_server(__func__, handle, RecurrentAt{layers}, training, SequencesAt{x}, answer(work),
                   answer(reserve));
}
CUDA_EXPORT int cudnnGetRNNWeightSpaceSize(void* handle, void* layers, std::size_t* bytes) {
  if (const int wrong = check(handle, {layers}); wrong != 0) return wrong;
  return on_server(__func__, handle, RecurrentAt{layers}, answer(bytes));
}
CUDA_EXPORT int cudnnGetRNNWeightParams(void* handle, void* layers, int layer, std::size_t bytes,
                                        const void* weights, int which, void* matrix,
                                        void** matrix_at, void* bias, void** bias_at) {
  if (const int wrong = check(handle, {layers}); wrong != 0) return wrong;
  AnsweredTensor tensors[2] = {};
  const int status =
      on_server(__func__, handle, RecurrentAt{layers}, layer, bytes, weights, which,
                Answer{&tensors[0], sizeof(AnsweredTensor)}, Answer{matrix_at, sizeof(void*)},
                Answer{&tensors[1], sizeof(AnsweredTensor)}, Answer{bias_at, sizeof(void*)});
  if (status != 0) return status;
  for (const auto& [into, of] : {std::pair(matrix, &tensors[0]), std::pair(bias, &tensors[1])})
    if (into != nullptr && of->dimensions > 0)  // none of a layer without a bias
      if (const int wrong =
              cudnnSetTensorNdDescriptor(into, of->type, of->dimensions, of->sizes, of->steps);
          wrong != 0)
        return wrong;
  return 0;
}
CUDA_EXPORT int cudnnRNNForward(void* handle, void* layers, int training, const void* lengths,
                                void* x, const void* x_at, void* y, void* y_at, void* h,
                                const void* h_at, void* h_to, void* c, const void* c_at, void* c_to,
                                std::size_t weight_bytes, const void* weights,
                                std::size_t work_bytes, void* work, std::size_t reserve_bytes,
                                void* reserve) {
  if (const int wrong = check(handle, {layers, x, y}); wrong != 0) return wrong;
  return on_server(__func__, handle, RecurrentAt{layers}, training, lengths, SequencesAt{x}, x_at,
                   SequencesAt{y}, y_at, TensorAt{h}, h_at, h_to, TensorAt{c}, c_at, c_to,
                   weight_bytes, weights, work_bytes, work, reserve_bytes, reserve);
}
CUDA_EXPORT int cudnnRNNBackwardData_v8(void* handle, void* layers, const void* lengths, void* y,
                                        const void* y_at, const void* dy, void* x, void* dx,
                                        void* h, const void* h_at, const void* dh_from, void* dh_to,
                                        void* c, const void* c_at, const void* dc_from, void* dc_to,
                                        std::size_t weight_bytes, const void* weights,
                                        std::size_t work_bytes, void* work,
                                        std::size_t reserve_bytes, void* reserve) {
  if (const int wrong = check(handle, {layers, x, y}); wrong != 0) return wrong;
  return on_server(__func__, handle, RecurrentAt{layers}, lengths, SequencesAt{y}, y_at, dy,
                   SequencesAt{x}, dx, TensorAt{h}, h_at, dh_from, dh_to, TensorAt{c}, c_at,
                   dc_from, dc_to, weight_bytes, weights, work_bytes, work, reserve_bytes, reserve);
}
CUDA_EXPORT int cudnnRNNBackwardWeights_v8(void* handle, void* layers, int added,
                                           const void* lengths, void* x, const void* x_at, void* h,
                                           const void* h_at, void* y, const void* y_at,
                                           std::size_t weight_bytes, void* weights,
                                           std::size_t work_bytes, void* work,
                                           std::size_t reserve_bytes, void* reserve) {
  if (const int wrong = check(handle, {layers, x, y}); wrong != 0) return wrong;
  return on_server(__func__, handle, RecurrentAt{layers}, added, lengths, SequencesAt{x}, x_at,
                   TensorAt{h}, h_at, SequencesAt{y}, y_at, weight_bytes, weights, work_bytes, work,
                   reserve_bytes, reserve);
}

}  // namespace partita::remote::shim
