#include "serve/worker/ort_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/unicode.h"
#include "serve/worker/ort_text.h"

namespace partita::serve {
namespace {

using ort::Slot;

constexpr int kLogErrors = 3, kAllOptimisations = 99, kArenaAllocator = 1, kDefaultMemory = 0;

struct ElementRow {
  ort::Element element;
  DataType type;
};
constexpr std::array<ElementRow, kDataTypes> kElements = {
    {{ort::Element::float32, DataType::fp32},
     {ort::Element::uint8, DataType::uint8},
     {ort::Element::int8, DataType::int8},
     {ort::Element::uint16, DataType::uint16},
     {ort::Element::int16, DataType::int16},
     {ort::Element::int32, DataType::int32},
     {ort::Element::int64, DataType::int64},
     {ort::Element::boolean, DataType::boolean},
     {ort::Element::float16, DataType::fp16},
     {ort::Element::float64, DataType::fp64},
     {ort::Element::uint32, DataType::uint32},
     {ort::Element::uint64, DataType::uint64},
     {ort::Element::bfloat16, DataType::bf16},
     {ort::Element::string, DataType::bytes}}};

ort::Element element_of(DataType type) {
  return std::ranges::find(kElements, type, &ElementRow::type)->element;
}

// A tensor of the model as the library tells it.
struct WholeTensor {
  std::string name;
  DataType type = DataType::fp32;
  std::vector<std::int64_t> shape;
};

// What the library makes, owned.
class OrtObjects {
 public:
  explicit OrtObjects(const OrtLibrary& library) : library_(library) {}

  template <class What>
  OrtOwned<What> own(What* what, Slot release) const {
    return {what, {library_.call<ort::Release<What>>(release)}};
  }
  Result<void> check(ort::Status* status) const { return library_.check(status, "onnxruntime"); }
  const OrtLibrary& library() const { return library_; }

  Result<OrtOwned<ort::Value>> tensor(const ort::MemoryInfo& memory, const TensorSpec& spec,
                                      std::size_t items, char* data) const {
    std::vector<std::int64_t> shape = {static_cast<std::int64_t>(items)};
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    ort::Value* value = nullptr;
    const auto made = check(library_.call<ort::CreateTensorWithData>(Slot::create_tensor_with_data)(
        &memory, data, items * bytes_of(spec), shape.data(), shape.size(), element_of(spec.type),
        &value));
    if (!made) return failed(made.error());
    return own(value, Slot::release_value);
  }

  Result<WholeTensor> described(std::string name, const ort::TensorInfo* info) const {
    ort::Element element{};
    std::size_t rank = 0;
    if (auto got = check(library_.call<ort::ElementType>(Slot::element_type)(info, &element)); !got)
      return failed(got.error());
    if (auto got = check(library_.call<ort::DimensionsCount>(Slot::dimensions_count)(info, &rank));
        !got)
      return failed(got.error());
    WholeTensor tensor{.name = std::move(name), .shape = std::vector<std::int64_t>(rank)};
    if (auto got = check(
            library_.call<ort::Dimensions>(Slot::dimensions)(info, tensor.shape.data(), rank));
        !got)
      return failed(got.error());
    const auto* row = std::ranges::find(kElements, element, &ElementRow::element);
    if (row == kElements.end()) return bad_input(tensor.name, "its data type cannot be served");
    if (row->type == DataType::bytes && !library_.takes_text()) {
      return environment_error(
          tensor.name, fmt::format("text (BYTES) needs ONNX Runtime 1.{}", ort::kTextVersion));
    }
    tensor.type = row->type;
    return tensor;
  }

 private:
  const OrtLibrary& library_;
};

struct Side {  // of a session: its inputs, or its outputs
  Slot count, type, name;
};
constexpr Side kInputs = {Slot::input_count, Slot::input_type, Slot::input_name};
constexpr Side kOutputs = {Slot::output_count, Slot::output_type, Slot::output_name};

Result<std::string> name_of_tensor(const OrtObjects& objects, const ort::Session& session,
                                   Slot slot, std::size_t index) {
  const OrtLibrary& library = objects.library();
  ort::Allocator* allocator = nullptr;
  char* text = nullptr;
  if (auto got =
          objects.check(library.call<ort::DefaultAllocator>(Slot::default_allocator)(&allocator));
      !got)
    return failed(got.error());
  if (auto got = objects.check(library.call<ort::NameOf>(slot)(&session, index, allocator, &text));
      !got)
    return failed(got.error());
  const std::string name = text;
  static_cast<void>(
      objects.check(library.call<ort::AllocatorFree>(Slot::allocator_free)(allocator, text)));
  return name;
}

Result<std::vector<WholeTensor>> tensors_of(const OrtObjects& objects, const ort::Session& session,
                                            const Side& side) {
  const OrtLibrary& library = objects.library();
  std::size_t count = 0;
  if (auto got = objects.check(library.call<ort::Count>(side.count)(&session, &count)); !got)
    return failed(got.error());
  std::vector<WholeTensor> tensors;
  for (std::size_t i = 0; i < count; ++i) {
    Result<std::string> name = name_of_tensor(objects, session, side.name, i);
    if (!name) return failed(name.error());
    ort::TypeInfo* type = nullptr;
    if (auto got = objects.check(library.call<ort::TypeOf>(side.type)(&session, i, &type)); !got)
      return failed(got.error());
    const auto owned = objects.own(type, Slot::release_type_info);
    const ort::TensorInfo* info = nullptr;  // part of the type
    if (auto got = objects.check(
            library.call<ort::CastToTensorInfo>(Slot::cast_to_tensor_info)(type, &info));
        !got)
      return failed(got.error());
    if (info == nullptr) return bad_input(*name, "it is no tensor");
    Result<WholeTensor> tensor = objects.described(*std::move(name), info);
    if (!tensor) return failed(tensor.error());
    tensors.push_back(*std::move(tensor));
  }
  return tensors;
}

class OrtEngine final : public Engine {
 public:
  OrtEngine(const OrtLibrary& library, const OrtOptions& options)
      : library_(library), objects_(library_), max_batch_(options.max_batch) {
    spec_.name = options.name;
    spec_.platform = "onnxruntime";
  }
  OrtEngine(const OrtEngine&) = delete;

  const ModelSpec& spec() const override { return spec_; }
  Result<void> open(const OrtOptions& options);
  Result<void> run(std::span<char* const> slots) override;

 private:
  using Values = std::vector<OrtOwned<ort::Value>>;
  struct Tensors {  // of batches of one size, on the staging memory
    Values inputs, outputs;
  };

  Result<void> set_up(ort::SessionOptions& session_options, const OrtOptions& options);
  Result<void> add_provider(ort::SessionOptions& session_options);
  Result<void> learn_inputs(const OrtOptions& options);
  Result<void> learn_outputs();
  Result<Values> try_zeros(std::size_t items);
  Result<Values> values_on(const std::vector<TensorSpec>& specs, std::size_t items,
                           const std::vector<char*>& data);
  Result<void> execute(const Values& inputs, const Values& outputs);
  Result<void> run_in_place(char* slot);
  Result<const Tensors*> staged(std::size_t items);
  Result<Values> inputs_of(std::span<char* const> slots);
  Result<void> run_text(std::span<char* const> slots);

  OrtLibrary library_;
  OrtObjects objects_;
  ModelSpec spec_;
  int max_batch_ = 1;
  SlotLayout layout_;
  bool text_ = false;  // some tensor is of BYTES
  OrtOwned<ort::Env> env_;
  OrtOwned<ort::Session> session_;
  OrtOwned<ort::MemoryInfo> memory_;
  std::vector<std::vector<char>> staging_in_, staging_out_;  // a whole batch per tensor
  std::map<std::size_t, Tensors> staged_;                    // by items
  std::vector<const char*> input_names_, output_names_;
};

// The GPU's providers are files beside the library, of the same version.
Result<void> OrtEngine::add_provider(ort::SessionOptions& session_options) {
  const std::filesystem::path folder = std::filesystem::path(library_.path()).parent_path();
  struct Provider {
    const char* file;
    Slot create, release, append;
  };
  constexpr Provider kProviders[] = {
      {"libonnxruntime_providers_tensorrt.so", Slot::create_tensorrt_options,
       Slot::release_tensorrt_options, Slot::append_tensorrt},
      {"libonnxruntime_providers_cuda.so", Slot::create_cuda_options, Slot::release_cuda_options,
       Slot::append_cuda}};
  for (const Provider& provider : kProviders) {
    std::error_code ignored;
    if (!std::filesystem::exists(folder / provider.file, ignored)) continue;
    ort::ProviderOptions* made = nullptr;
    if (auto got =
            objects_.check(library_.call<ort::CreateProviderOptions>(provider.create)(&made));
        !got)
      return got;
    const auto owned = objects_.own(made, provider.release);
    if (auto got = objects_.check(
            library_.call<ort::AppendProvider>(provider.append)(&session_options, made));
        !got)
      return got;
    spec_.platform = "onnxruntime_gpu";
  }
  return {};
}

Result<void> OrtEngine::set_up(ort::SessionOptions& session_options, const OrtOptions& options) {
  const auto set = [&](Slot slot, int value) {
    return objects_.check(library_.call<ort::SetOption>(slot)(&session_options, value));
  };
  if (auto done = set(Slot::set_graph_optimization, kAllOptimisations); !done) return done;
  if (auto done = set(Slot::set_intra_threads, options.threads); !done) return done;
  if (auto done = set(Slot::set_inter_threads, 1); !done) return done;
  const auto spin = library_.call<ort::AddConfigEntry>(Slot::add_config_entry)(
      &session_options, "session.intra_op.allow_spinning", options.spin ? "1" : "0");
  if (auto done = objects_.check(spin); !done) return done;
  std::error_code ignored;
  const bool gpu = options.gpu && std::filesystem::exists("/dev/nvidiactl", ignored);
  return gpu ? add_provider(session_options) : Result<void>{};
}

Result<void> OrtEngine::open(const OrtOptions& options) {
  ort::Env* env = nullptr;
  if (auto made = objects_.check(
          library_.call<ort::CreateEnv>(Slot::create_env)(kLogErrors, "partita", &env));
      !made)
    return made;
  env_ = objects_.own(env, Slot::release_env);
  ort::SessionOptions* made_options = nullptr;
  if (auto made = objects_.check(
          library_.call<ort::CreateSessionOptions>(Slot::create_session_options)(&made_options));
      !made)
    return made;
  const auto session_options = objects_.own(made_options, Slot::release_session_options);
  if (auto done = set_up(*session_options, options); !done) return done;
  ort::Session* session = nullptr;
  const auto created =
      library_.check(library_.call<ort::CreateSession>(Slot::create_session)(
                         env, options.model_file.c_str(), session_options.get(), &session),
                     options.model_file);
  if (!created) return created;
  session_ = objects_.own(session, Slot::release_session);
  ort::MemoryInfo* memory = nullptr;
  if (auto made = objects_.check(library_.call<ort::CreateCpuMemoryInfo>(
          Slot::create_cpu_memory_info)(kArenaAllocator, kDefaultMemory, &memory));
      !made)
    return made;
  memory_ = objects_.own(memory, Slot::release_memory_info);
  if (auto learnt = learn_inputs(options); !learnt) return learnt;
  return learn_outputs();
}

Result<void> OrtEngine::learn_inputs(const OrtOptions& options) {
  const Result<std::vector<WholeTensor>> inputs = tensors_of(objects_, *session_, kInputs);
  if (!inputs) return failed(inputs.error());
  const Result<std::vector<WholeTensor>> outputs = tensors_of(objects_, *session_, kOutputs);
  if (!outputs) return failed(outputs.error());
  spec_.max_batch = options.max_batch;
  for (const WholeTensor& input : *inputs) {
    Result<ItemShape> item = item_shape(input.name, input.shape, options.shapes);
    if (!item) return failed(item.error());
    if (!item->batched && options.max_batch > 1) {
      return bad_input("--batch", fmt::format("input '{}' takes one item at a time; export the "
                                              "model with a dynamic batch, or say --batch 1",
                                              input.name));
    }
    spec_.inputs.push_back(
        {.name = input.name, .type = input.type, .shape = std::move(item->shape)});
  }
  for (const auto& [name, shape] : options.shapes) {
    if (std::ranges::find(spec_.inputs, name, &TensorSpec::name) == spec_.inputs.end())
      return bad_input("--shape", "the model has no input '" + name + "'");
  }
  for (const WholeTensor& output : *outputs) {
    spec_.outputs.push_back({.name = output.name, .type = output.type});
  }
  give_text_room(spec_, options.text_bytes);
  const auto is_text = [](const TensorSpec& tensor) { return tensor.type == DataType::bytes; };
  text_ = std::ranges::any_of(spec_.inputs, is_text) || std::ranges::any_of(spec_.outputs, is_text);
  if (auto checked = check_model(options.model_file, spec_); !checked) return checked;
  for (const TensorSpec& input : spec_.inputs) input_names_.push_back(input.name.c_str());
  for (const TensorSpec& output : spec_.outputs) output_names_.push_back(output.name.c_str());
  return {};
}

// Runs zeros (empty texts) with outputs made by the library.
Result<OrtEngine::Values> OrtEngine::try_zeros(std::size_t items) {
  std::vector<std::vector<char>> zeros;
  std::vector<char*> data;
  for (const TensorSpec& input : spec_.inputs) {
    zeros.emplace_back(std::max<std::size_t>(1, items * bytes_of(input)));
    data.push_back(zeros.back().data());
  }
  const Result<Values> inputs = values_on(spec_.inputs, items, data);
  if (!inputs) return failed(inputs.error());
  std::vector<const ort::Value*> in;
  for (const auto& value : *inputs) in.push_back(value.get());
  std::vector<ort::Value*> out(spec_.outputs.size());
  const auto ran = objects_.check(
      library_.call<ort::Run>(Slot::run)(session_.get(), nullptr, input_names_.data(), in.data(),
                                         in.size(), output_names_.data(), out.size(), out.data()));
  Values outputs;
  for (ort::Value* value : out) outputs.push_back(objects_.own(value, Slot::release_value));
  if (!ran) return failed(ran.error());
  return outputs;
}

// Outputs' shapes are what comes out: models often leave them open.
Result<void> OrtEngine::learn_outputs() {
  const std::size_t items = spec_.max_batch > 1 ? 2 : 1;
  const Result<Values> outputs = try_zeros(items);
  if (!outputs) return failed(outputs.error());
  for (std::size_t i = 0; i < spec_.outputs.size(); ++i) {
    TensorSpec& output = spec_.outputs[i];
    ort::TensorInfo* info = nullptr;
    if (auto got = objects_.check(library_.call<ort::TensorInfoOfValue>(Slot::tensor_info_of_value)(
            (*outputs)[i].get(), &info));
        !got)
      return got;
    const auto owned = objects_.own(info, Slot::release_tensor_info);
    const Result<WholeTensor> whole = objects_.described(output.name, info);
    if (!whole) return failed(whole.error());
    if (whole->shape.empty() || whole->shape[0] != static_cast<std::int64_t>(items)) {
      return bad_input(output.name,
                       fmt::format("this output has not one row per item, so the model cannot be "
                                   "run in batches{}",
                                   items > 1 ? "; try --batch 1" : ""));
    }
    output.shape.assign(whole->shape.begin() + 1, whole->shape.end());
  }
  if (auto checked = check_model(spec_.name, spec_); !checked) return checked;
  layout_ = slot_layout(spec_);
  const auto items_at_most = static_cast<std::size_t>(spec_.max_batch);
  if (items_at_most > 1 || text_) {
    for (const TensorSpec& input : spec_.inputs)
      staging_in_.emplace_back(items_at_most * bytes_of(input));
    for (const TensorSpec& output : spec_.outputs)
      staging_out_.emplace_back(items_at_most * bytes_of(output));
  }
  return {};
}

Result<OrtEngine::Values> OrtEngine::values_on(const std::vector<TensorSpec>& specs,
                                               std::size_t items, const std::vector<char*>& data) {
  Values values;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    Result<OrtOwned<ort::Value>> value =
        specs[i].type == DataType::bytes
            ? text_value(library_, specs[i],
                         std::vector<std::span<const char>>(items, {data[i], bytes_of(specs[i])}))
            : objects_.tensor(*memory_, specs[i], items, data[i]);
    if (!value) return failed(value.error());
    values.push_back(*std::move(value));
  }
  return values;
}

Result<void> OrtEngine::execute(const Values& inputs, const Values& outputs) {
  std::array<const ort::Value*, kMaxTensors> in{};
  std::array<ort::Value*, kMaxTensors> out{};
  for (std::size_t i = 0; i < inputs.size(); ++i) in.at(i) = inputs[i].get();
  for (std::size_t i = 0; i < outputs.size(); ++i) out.at(i) = outputs[i].get();
  return objects_.check(library_.call<ort::Run>(Slot::run)(
      session_.get(), nullptr, input_names_.data(), in.data(), inputs.size(), output_names_.data(),
      outputs.size(), out.data()));
}

Result<void> OrtEngine::run_in_place(char* slot) {
  const auto places = [&](const std::vector<std::size_t>& offsets) {
    std::vector<char*> data;
    for (const std::size_t offset : offsets) data.push_back(slot + offset);
    return data;
  };
  const Result<Values> inputs = values_on(spec_.inputs, 1, places(layout_.inputs));
  if (!inputs) return failed(inputs.error());
  const Result<Values> outputs = values_on(spec_.outputs, 1, places(layout_.outputs));
  if (!outputs) return failed(outputs.error());
  return execute(*inputs, *outputs);
}

Result<const OrtEngine::Tensors*> OrtEngine::staged(std::size_t items) {
  if (const auto found = staged_.find(items); found != staged_.end()) return &found->second;
  const auto starts = [](std::vector<std::vector<char>>& buffers) {
    std::vector<char*> data;
    for (std::vector<char>& buffer : buffers) data.push_back(buffer.data());
    return data;
  };
  Result<Values> inputs = values_on(spec_.inputs, items, starts(staging_in_));
  if (!inputs) return failed(inputs.error());
  Result<Values> outputs = values_on(spec_.outputs, items, starts(staging_out_));
  if (!outputs) return failed(outputs.error());
  Tensors tensors{*std::move(inputs), *std::move(outputs)};
  return &staged_.emplace(items, std::move(tensors)).first->second;
}

// The inputs of a batch on the staging memory, texts in objects of the library.
Result<OrtEngine::Values> OrtEngine::inputs_of(std::span<char* const> slots) {
  Values values;
  for (std::size_t t = 0; t < spec_.inputs.size(); ++t) {
    const TensorSpec& input = spec_.inputs[t];
    const std::size_t bytes = bytes_of(input);
    std::vector<std::span<const char>> rows;
    for (const char* slot : slots) rows.emplace_back(slot + layout_.inputs[t], bytes);
    if (input.type != DataType::bytes) {
      for (std::size_t i = 0; i < rows.size(); ++i)
        std::memcpy(staging_in_[t].data() + (i * bytes), rows[i].data(), bytes);
    }
    Result<OrtOwned<ort::Value>> value =
        input.type == DataType::bytes
            ? text_value(library_, input, rows)
            : objects_.tensor(*memory_, input, slots.size(), staging_in_[t].data());
    if (!value) return failed(value.error());
    values.push_back(*std::move(value));
  }
  return values;
}

// How much text comes out is not known before, so the library makes the outputs that hold text.
Result<void> OrtEngine::run_text(std::span<char* const> slots) {
  const Result<Values> inputs = inputs_of(slots);
  if (!inputs) return failed(inputs.error());
  Values outputs;
  for (std::size_t t = 0; t < spec_.outputs.size(); ++t) {
    outputs.push_back(objects_.own<ort::Value>(nullptr, Slot::release_value));
    if (spec_.outputs[t].type == DataType::bytes) continue;
    auto value = objects_.tensor(*memory_, spec_.outputs[t], slots.size(), staging_out_[t].data());
    if (!value) return failed(value.error());
    outputs.back() = *std::move(value);
  }
  std::array<const ort::Value*, kMaxTensors> in{};
  std::array<ort::Value*, kMaxTensors> out{};
  for (std::size_t i = 0; i < inputs->size(); ++i) in.at(i) = (*inputs)[i].get();
  for (std::size_t i = 0; i < outputs.size(); ++i) out.at(i) = outputs[i].get();
  const auto ran = objects_.check(library_.call<ort::Run>(Slot::run)(
      session_.get(), nullptr, input_names_.data(), in.data(), inputs->size(), output_names_.data(),
      outputs.size(), out.data()));
  for (std::size_t t = 0; t < outputs.size(); ++t)
    if (outputs[t] == nullptr) outputs[t].reset(out.at(t));
  if (!ran) return ran;
  for (std::size_t t = 0; t < outputs.size(); ++t) {
    const TensorSpec& output = spec_.outputs[t];
    const std::size_t bytes = bytes_of(output);
    std::vector<std::span<char>> rows;
    for (char* slot : slots) rows.emplace_back(slot + layout_.outputs[t], bytes);
    if (output.type != DataType::bytes) {
      for (std::size_t i = 0; i < rows.size(); ++i)
        std::memcpy(rows[i].data(), staging_out_[t].data() + (i * bytes), bytes);
    } else {
      const auto read = read_text_value(library_, *outputs[t], output, rows);
      if (!read) return failed(read.error());
      too_long(*read, output);
    }
  }
  return {};
}

Result<void> OrtEngine::run(std::span<char* const> slots) {
  faults_.clear();
  if (text_) return run_text(slots);
  if (slots.size() == 1) return run_in_place(slots[0]);
  const Result<const Tensors*> tensors = staged(slots.size());
  if (!tensors) return failed(tensors.error());
  for (std::size_t t = 0; t < spec_.inputs.size(); ++t) {
    const std::size_t bytes = bytes_of(spec_.inputs[t]);
    char* to = staging_in_[t].data();
    for (std::size_t i = 0; i < slots.size(); ++i)
      std::memcpy(to + (i * bytes), slots[i] + layout_.inputs[t], bytes);
  }
  if (auto ran = execute((*tensors)->inputs, (*tensors)->outputs); !ran) return ran;
  for (std::size_t t = 0; t < spec_.outputs.size(); ++t) {
    const std::size_t bytes = bytes_of(spec_.outputs[t]);
    const char* from = staging_out_[t].data();
    for (std::size_t i = 0; i < slots.size(); ++i)
      std::memcpy(slots[i] + layout_.outputs[t], from + (i * bytes), bytes);
  }
  return {};
}

}  // namespace

Result<EnginePointer> ort_engine(const OrtLibrary& library, const OrtOptions& options) {
  auto engine = std::make_unique<OrtEngine>(library, options);
  if (auto opened = engine->open(options); !opened) return failed(opened.error());
  return EnginePointer(std::move(engine));
}

}  // namespace partita::serve
