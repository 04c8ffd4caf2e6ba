// What a model takes and gives, item by item, and where that lies in a slot of shared memory.
// An item is one row of a batch: its tensors have the shapes below, the batch axis left out. Sizes
// may be open: then the item says its own (items.h). Values only; sizes are bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita::serve {

inline constexpr int kMaxTensors = 64;  // inputs, and outputs, of a model
inline constexpr int kMaxDimensions = 16;
inline constexpr std::size_t kMaxItemBytes = 1u << 30;  // of all inputs, or all outputs

// The data types of the Open Inference Protocol. An element of BYTES is text of any length
// (texts.h).
enum class DataType : std::uint8_t {
  boolean,
  uint8,
  uint16,
  uint32,
  uint64,
  int8,
  int16,
  int32,
  int64,
  fp16,
  fp32,
  fp64,
  bf16,
  bytes
};
inline constexpr int kDataTypes = 14;

std::string_view name_of(DataType type);  // "FP32"
std::size_t size_of(DataType type);       // of an element; of BYTES its length alone
// bad_input with `context` for any other word.
Result<DataType> parse_data_type(const std::string& context, std::string_view name);

inline constexpr std::int64_t kOpen = -1;  // a size that each item says for itself
inline constexpr int kNoBatchAxis = -1;

struct TensorSpec {
  std::string name;
  DataType type = DataType::fp32;
  std::vector<std::int64_t> shape = {};  // of one item: without the batch axis; >= 1, or kOpen
  std::size_t text_bytes = 0;            // BYTES: room for the text of one item, without lengths
  // Where rows lie beside each other in the whole tensor. kNoBatchAxis: an input that all items of
  // a batch share, or, where no tensor has one, a model that runs one request at a time.
  int batch_axis = 0;
  std::size_t open_bytes = 0;            // room for the values of an item whose sizes are open
  std::vector<std::int64_t> usual = {};  // sizes of a usual item, of an input with open ones
  double usual_value = 0;                // of its elements, in warm-up and measurements
  bool operator==(const TensorSpec&) const = default;
};

bool is_open(const TensorSpec& tensor);              // some size is
std::int64_t elements_of(const TensorSpec& tensor);  // of one item; where sizes are open at most
// Of one item; of BYTES and open sizes at most, the item's own sizes in front included.
std::size_t bytes_of(const TensorSpec& tensor);
// In front of the values of an item with open sizes: its sizes. 0 for others.
std::size_t head_bytes(const TensorSpec& tensor);

// tensors: requests are tensors of these shapes. openai: an item is the JSON body of a chat or
// completion request, and its answer comes in parts (frames.h); inputs and outputs are empty then.
enum class ModelKind : std::uint8_t { tensors, openai };

struct ModelSpec {
  ModelKind kind = ModelKind::tensors;
  std::string name;
  std::string platform;  // "onnxruntime", "null", "forward"
  std::vector<TensorSpec> inputs = {}, outputs = {};
  int max_batch = 1;
  bool sequences = false;  // it has state: every request is a step of a sequence
  bool set = false;        // of models that take and give the same: each item names its own
  std::string version = "1";
  bool cache = false;  // its answers may be kept for whoever asks the same again
  bool operator==(const ModelSpec&) const = default;
};

// Some tensor has a batch axis. Else a request is one item.
bool has_rows(const ModelSpec& model);

inline constexpr std::size_t kTextBytes = 4096;  // of an item, where nobody says more
inline constexpr std::size_t kOpenBytes = 4u << 20;
// Says how much text there may be in each tensor of BYTES.
void give_text_room(ModelSpec& model, std::size_t text_bytes);

// bad_input for what breaks the limits above, or says the same name twice.
Result<void> check_model(const std::string& context, const ModelSpec& model);

inline constexpr std::size_t kSlotPage = 4096;
// From so many bytes on a tensor has pages of its own, which may be others' as well (JOINT).
inline constexpr std::size_t kJointBytes = 64 << 10;
// Byte offsets of the tensors of one item in its slot: inputs, then outputs, each aligned to 64
// bytes, or to pages, so that gateway and worker agree without saying more than the model. openai:
// `inputs` has one entry, the body's place (8 bytes little-endian length, then the text).
struct SlotLayout {
  std::vector<std::size_t> inputs = {}, outputs = {};
  std::size_t trace = 0;  // of the item's trace context (slot_trace.h), behind the tensors
  std::size_t step = 0;   // of what step of which sequence it is, behind that
  std::size_t model = 0;  // of the name of its model in a set, behind that
  std::size_t bytes = 0;  // of a slot; a multiple of kSlotPage
  bool operator==(const SlotLayout&) const = default;
};
inline constexpr std::size_t kOpenaiBodyBytes = 1u << 20;  // the longest body of an openai request
SlotLayout slot_layout(const ModelSpec& model);

// Which step of which sequence an item is, in its slot. The gateway numbers sequences anew, so that
// a number is never used for two; 0: of none. kSlotStepBytes at the place.
struct SlotStep {
  std::uint64_t sequence = 0;
  bool begins = false, ends = false;
  bool operator==(const SlotStep&) const = default;
};
inline constexpr std::size_t kSlotStepBytes = 16;
void write_slot_step(char* place, const SlotStep& step);
SlotStep read_slot_step(const char* place);

// Which model of a set an item is for; kSlotModelBytes at the place. Empty: any of them.
inline constexpr std::size_t kSlotModelBytes = 256;
bool fits_slot_model(std::string_view name);
void write_slot_model(char* place, std::string_view name);  // that fits
std::string_view read_slot_model(const char* place);        // whatever lies there

}  // namespace partita::serve
