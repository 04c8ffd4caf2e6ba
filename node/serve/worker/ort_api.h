// Our own declarations of ONNX Runtime's C interface: a table of functions that only ever grows at
// its end, so the slots below mean the same in every version that has them. Version 1 of the table
// is asked for; what is needed beyond it is said at its slot.
#pragma once

#include <cstddef>
#include <cstdint>

namespace partita::serve::ort {

struct Status;  // null: it went well
struct Env;
struct Session;
struct SessionOptions;
struct Value;
struct MemoryInfo;
struct Allocator;
struct TypeInfo;
struct TensorInfo;
struct ProviderOptions;  // of CUDA or TensorRT

struct Base {
  const void* const* (*get_api)(std::uint32_t version);
  const char* (*get_version)();
};
inline constexpr const char* kSymbol = "OrtGetApiBase";
inline constexpr std::uint32_t kTableVersion = 13;  // the oldest with all slots below

inline constexpr std::uint32_t kTextVersion = 15;  // the oldest that takes text of any bytes

enum class Slot : std::size_t {
  get_error_message = 2,
  create_env = 3,
  create_session = 7,
  run = 9,
  create_session_options = 10,
  set_graph_optimization = 23,
  set_intra_threads = 24,
  set_inter_threads = 25,
  input_count = 30,
  output_count = 31,
  input_type = 33,
  output_type = 34,
  input_name = 36,
  output_name = 37,
  create_tensor = 48,
  create_tensor_with_data = 49,
  tensor_data = 51,
  text_bytes = 53,    // GetStringTensorDataLength
  text_content = 54,  // GetStringTensorContent
  cast_to_tensor_info = 55,
  element_type = 60,
  dimensions_count = 61,
  dimensions = 62,
  tensor_info_of_value = 65,
  create_cpu_memory_info = 69,
  allocator_free = 76,
  default_allocator = 78,
  release_env = 92,
  release_status = 93,
  release_memory_info = 94,
  release_session = 95,
  release_value = 96,
  release_type_info = 98,
  release_tensor_info = 99,
  release_session_options = 100,
  add_config_entry = 130,
  append_tensorrt = 170,  // SessionOptionsAppendExecutionProvider_TensorRT_V2
  create_tensorrt_options = 171,
  release_tensorrt_options = 174,
  append_cuda = 204,  // SessionOptionsAppendExecutionProvider_CUDA_V2
  create_cuda_options = 205,
  release_cuda_options = 208,
  resized_text = 252,  // GetResizedStringTensorElementBuffer, of kTextVersion
};

// ONNXTensorElementDataType, as far as the Open Inference Protocol has it.
enum class Element : int {
  float32 = 1,
  uint8,
  int8,
  uint16,
  int16,
  int32,
  int64,
  string,
  boolean,
  float16,
  float64,
  uint32,
  uint64,
  bfloat16 = 16
};

// The functions behind the slots.
using GetErrorMessage = const char*(const Status*);
using CreateEnv = Status*(int log_level, const char* name, Env**);
using CreateSession = Status*(const Env*, const char* path, const SessionOptions*, Session**);
using Run = Status*(Session*, const void* options, const char* const* input_names,
                    const Value* const* inputs, std::size_t input_count,
                    const char* const* output_names, std::size_t output_count, Value** outputs);
using CreateSessionOptions = Status*(SessionOptions**);
using SetOption = Status*(SessionOptions*, int);
using Count = Status*(const Session*, std::size_t*);
using TypeOf = Status*(const Session*, std::size_t, TypeInfo**);
using NameOf = Status*(const Session*, std::size_t, Allocator*, char**);
using CreateTensorWithData = Status*(const MemoryInfo*, void* data, std::size_t bytes,
                                     const std::int64_t* shape, std::size_t rank, Element, Value**);
using CreateTensor = Status*(Allocator*, const std::int64_t* shape, std::size_t rank, Element,
                             Value**);
using TextBytes = Status*(const Value*, std::size_t*);
// Elements one behind the other, and where each begins.
using TextContent = Status*(const Value*, void* bytes, std::size_t size, std::size_t* begins,
                            std::size_t elements);
using ResizedText = Status*(Value*, std::size_t element, std::size_t bytes, char** room);
using TensorData = Status*(Value*, void**);
using CastToTensorInfo = Status*(const TypeInfo*, const TensorInfo**);
using ElementType = Status*(const TensorInfo*, Element*);
using DimensionsCount = Status*(const TensorInfo*, std::size_t*);
using Dimensions = Status*(const TensorInfo*, std::int64_t*, std::size_t);
using TensorInfoOfValue = Status*(const Value*, TensorInfo**);
using CreateCpuMemoryInfo = Status*(int allocator_type, int memory_type, MemoryInfo**);
using AllocatorFree = Status*(Allocator*, void*);
using DefaultAllocator = Status*(Allocator**);
using AddConfigEntry = Status*(SessionOptions*, const char* key, const char* value);
using AppendProvider = Status*(SessionOptions*, const ProviderOptions*);
using CreateProviderOptions = Status*(ProviderOptions**);
template <class What>
using Release = void(What*);

}  // namespace partita::serve::ort
