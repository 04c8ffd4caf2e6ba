#include "serve/worker/ort_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "profile/buckets.h"
#include "serve/wire/items.h"
#include "serve/wire/texts.h"
#include "serve/worker/ort_objects.h"
#include "serve/worker/ort_text.h"

namespace partita::serve {
namespace {

using ort::Slot;

constexpr int kLogFatal = 4, kAllOptimisations = 99, kArenaAllocator = 1, kDefaultMemory = 0;
// Open sizes of which nobody says what is usual: the first with which the model runs.
constexpr std::int64_t kUsual[] = {32, 64, 128, 224, 512, 16, 8, 2, 1};

SlotStep step_of(const SlotLayout& layout, const char* slot) {
  return read_slot_step(slot + layout.step);
}

bool is_text(const TensorSpec& tensor) { return tensor.type == DataType::bytes; }

// What open sizes are padded up to: given buckets, or so many learned of each.
class Padding {
 public:
  Padding(std::vector<std::int64_t> given, int learns) : given_(std::move(given)), learns_(learns) {
    std::ranges::sort(given_);
  }
  bool any() const { return learns_ > 0 || !given_.empty(); }
  // Up to the next bucket, where they then still fit.
  std::vector<std::int64_t> padded(std::size_t input, const TensorSpec& spec, Sizes sizes) {
    std::vector<std::int64_t> padded(sizes.begin(), sizes.end());
    for (std::size_t i = 0; i < padded.size(); ++i)
      if (spec.shape[i] == kOpen) padded[i] = bucket_of({input, i}, sizes[i]);
    if (bytes_of_item(spec, padded)) return padded;
    return {sizes.begin(), sizes.end()};
  }

 private:
  using Place = std::pair<std::size_t, std::size_t>;  // input, axis
  std::int64_t bucket_of(const Place& place, std::int64_t size) {
    if (learns_ == 0) {
      const auto bucket = std::ranges::lower_bound(given_, size);
      return bucket == given_.end() ? size : *bucket;
    }
    auto& learned = learned_.try_emplace(place, learns_).first->second;
    const std::int64_t padded = learned.padded(size);
    learned.saw(size);
    return padded;
  }
  std::vector<std::int64_t> given_;
  int learns_;
  std::map<Place, profile::LearnedBuckets> learned_;
};

class OrtEngine final : public Engine {
 public:
  OrtEngine(const OrtLibrary& library, const OrtOptions& options)
      : library_(library), objects_(library_), padding_(options.buckets, options.learned_buckets) {
    model_.name = options.name;
    model_.version = options.version;
    model_.platform = "onnxruntime";
    for (const auto& [input, output] : options.states)
      states_.push_back({.input = input, .output = output});
  }
  OrtEngine(const OrtEngine&) = delete;

  const ModelSpec& spec() const override { return spec_; }
  Result<void> open(const OrtOptions& options);
  Result<void> run(std::span<char* const> slots) override;
  SequenceStates* states() override { return states_.empty() ? nullptr : &sequences_; }

 private:
  using Values = std::vector<OrtOwned<ort::Value>>;
  struct Tensors {  // of batches of one size, on the staging memory
    Values inputs, outputs;
  };
  using ItemSizes = std::vector<std::vector<std::int64_t>>;  // by input
  struct State {  // an input that is fed with what an output gave in the step before
    std::string input, output;
    std::size_t bytes = 0, offset = 0;  // in what is kept of a sequence
    bool found = false, found_output = false;
  };
  struct Group {  // items that run together
    ItemSizes padded;
    std::vector<std::size_t> items = {};  // of the batch
    std::vector<ItemSizes> sizes = {};    // of each
  };

  Result<void> set_up(ort::SessionOptions& session_options, const OrtOptions& options);
  Result<void> add_provider(ort::SessionOptions& session_options);
  Result<void> learn(const OrtOptions& options);
  Result<bool> learn_with(const OrtOptions& options, InputWishes wishes);
  Result<bool> learn_rows(std::size_t rows);
  void learn_sizes(const std::vector<WholeTensor>& a, const std::vector<WholeTensor>& b);
  Result<std::vector<WholeTensor>> try_out(std::size_t rows, bool ones);
  Result<void> make_room();
  Result<void> hide_states();
  Result<Values> values_on(const std::vector<TensorSpec>& specs, std::size_t rows,
                           const std::vector<char*>& data);
  // Where `outputs` has nulls the library makes what comes out.
  Result<void> execute(const Values& inputs, Values& outputs);
  Result<void> run_in_place(char* slot);
  Result<Tensors*> staged(std::size_t rows);
  Result<void> run_together(std::span<char* const> slots);
  Result<void> run_groups(std::span<char* const> slots);
  std::map<std::string, Group> groups_of(std::span<char* const> slots);
  Result<void> run_group(const Group& group, std::span<char* const> slots);
  Result<Values> gather(const Group& group, std::span<char* const> slots);
  Result<void> scatter(const Group& group, std::span<char* const> slots, std::size_t output,
                       const ort::Value& value);
  std::vector<std::int64_t> cropped(const Group& group, std::size_t item, const TensorSpec& output,
                                    Sizes padded) const;
  const State* at_state(int index) const {
    return static_cast<std::size_t>(index) < states_.size()
               ? &states_[static_cast<std::size_t>(index)]
               : nullptr;
  }
  // Where an item's values of an input lie: in its slot, or in the state of its sequence.
  const char* input_at(char* slot, std::size_t input) const;
  void settle(std::span<char* const> slots);
  std::span<char> output_row(char* slot, std::size_t output) const {
    return {slot + layout_.outputs[shown_output_[output]], bytes_of(model_.outputs[output])};
  }

  OrtLibrary library_;
  OrtObjects objects_;
  ModelSpec model_;                            // with its state,
  ModelSpec spec_;                             // and without: what requests see
  std::vector<WholeTensor> inputs_, outputs_;  // as the model has them
  Padding padding_;
  std::vector<State> states_;
  std::vector<int> state_of_input_, state_of_output_;    // states_.size(): none
  std::vector<std::size_t> shown_input_, shown_output_;  // where it is in what requests see
  SequenceStates sequences_;
  SlotLayout layout_;
  bool plain_ = false;  // rows first, fixed sizes, no text
  OrtOwned<ort::Env> env_;
  OrtOwned<ort::Session> session_;
  OrtOwned<ort::MemoryInfo> memory_;
  std::vector<std::vector<char>> staging_in_, staging_out_;  // a whole batch per tensor
  std::map<std::size_t, Tensors> staged_;                    // by rows
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
    TRY(library_.ask<ort::CreateProviderOptions>(provider.create, &made));
    const auto owned = objects_.own(made, provider.release);
    TRY(library_.ask<ort::AppendProvider>(provider.append, &session_options, made));
    model_.platform = "onnxruntime_gpu";
  }
  return {};
}

Result<void> OrtEngine::set_up(ort::SessionOptions& session_options, const OrtOptions& options) {
  const auto set = [&](Slot slot, int value) {
    return library_.ask<ort::SetOption>(slot, &session_options, value);
  };
  TRY(set(Slot::set_graph_optimization, kAllOptimisations));
  TRY(set(Slot::set_intra_threads, options.threads));
  TRY(set(Slot::set_inter_threads, 1));
  TRY(library_.ask<ort::AddConfigEntry>(Slot::add_config_entry, &session_options,
                                        "session.intra_op.allow_spinning",
                                        options.spin ? "1" : "0"));
  std::error_code ignored;
  const bool gpu = options.gpu && std::filesystem::exists("/dev/nvidiactl", ignored);
  return gpu ? add_provider(session_options) : Result<void>{};
}

Result<void> OrtEngine::open(const OrtOptions& options) {
  ort::Env* env = nullptr;
  TRY(library_.ask<ort::CreateEnv>(Slot::create_env, kLogFatal, "partita", &env));
  env_ = objects_.own(env, Slot::release_env);
  ort::SessionOptions* made_options = nullptr;
  TRY(library_.ask<ort::CreateSessionOptions>(Slot::create_session_options, &made_options));
  const auto session_options = objects_.own(made_options, Slot::release_session_options);
  TRY(set_up(*session_options, options));
  ort::Session* session = nullptr;
  TRY(library_.check(library_.call<ort::CreateSession>(Slot::create_session)(
                         env, options.model_file.c_str(), session_options.get(), &session),
                     options.model_file));
  session_ = objects_.own(session, Slot::release_session);
  ort::MemoryInfo* memory = nullptr;
  TRY(library_.ask<ort::CreateCpuMemoryInfo>(Slot::create_cpu_memory_info, kArenaAllocator,
                                             kDefaultMemory, &memory));
  memory_ = objects_.own(memory, Slot::release_memory_info);
  return learn(options);
}

// ---- what the model takes and gives ----

// Whether rows can be run together, and how large open sizes may be, is tried out.
Result<void> OrtEngine::learn(const OrtOptions& options) {
  auto inputs = TRY(model_inputs(objects_, *session_));
  auto outputs = TRY(model_outputs(objects_, *session_));
  inputs_ = std::move(inputs);
  outputs_ = std::move(outputs);
  for (const WholeTensor& input : inputs_) input_names_.push_back(input.name.c_str());
  for (const WholeTensor& output : outputs_) output_names_.push_back(output.name.c_str());
  Result<bool> learnt = false;
  std::optional<Error> fault;  // of running rows: it says more than what comes after it
  for (const bool rows : {true, false}) {
    if (rows && options.max_batch == 0) continue;
    std::vector<std::int64_t> sizes(std::begin(kUsual), std::end(kUsual));
    if (options.usual > 0) sizes.insert(sizes.begin(), options.usual);
    for (const std::int64_t usual : sizes) {
      learnt = learn_with(options, {.shapes = options.shapes,
                                    .axes = options.axes,
                                    .values = options.values,
                                    .rows = rows,
                                    .usual = usual,
                                    .open_bytes = options.open_bytes});
      if (learnt && *learnt) return make_room();
      const bool last = learnt || learnt.error().code == ErrorCode::bad_input;
      if (last || std::ranges::none_of(model_.inputs, is_open)) break;
    }
    if (!learnt && !fault) fault = learnt.error();
    if (!learnt && learnt.error().code == ErrorCode::bad_input) break;
  }
  return failed(*fault);
}

// False: some output has no rows. bad_input: no other try will do better.
Result<bool> OrtEngine::learn_with(const OrtOptions& options, InputWishes wishes) {
  model_.inputs = TRY(inputs_of(inputs_, wishes));
  model_.max_batch = std::max(1, options.max_batch);
  model_.outputs.clear();
  for (const WholeTensor& output : outputs_)
    model_.outputs.push_back({.name = output.name, .type = output.type});
  give_text_room(model_, options.text_bytes);
  model_.cache = options.cache;
  for (const TensorSpec& input : model_.inputs)
    if (is_open(input) && !bytes_of_item(input, input.usual))
      return environment_error(input.name, "its usual sizes are more than --open-bytes");
  if (wishes.rows && !has_rows(model_)) return false;
  const bool several = takes_rows(inputs_, model_.inputs);
  const Result<bool> together = several ? learn_rows(2) : false;
  // Two ran, and what came out is not made of them: nor is it of one, whatever its sizes are.
  if (several && together && !*together) return false;
  if (!together || !*together) {
    const Result<bool> one = learn_rows(1);
    if (!one || !*one) return one;
    model_.max_batch = 1;
  }
  for (TensorSpec& output : model_.outputs)
    if (is_open(output)) output.open_bytes = options.open_bytes;
  TRY(check_model(options.model_file, model_));
  return true;
}

// Where rows come out: the axis that grows with them, and no other does. False: of some output
// nowhere.
Result<bool> OrtEngine::learn_rows(std::size_t rows) {
  const auto few = try_out(rows, false);
  if (!few) return failed(few.error());
  auto more = TRY(rows > 1 ? try_out(rows + 1, false) : few);
  const bool axes = has_rows(model_);
  for (std::size_t i = 0; i < model_.outputs.size(); ++i) {
    const std::vector<std::int64_t>&a = (*few)[i].shape, &b = more[i].shape;
    int axis = kNoBatchAxis, others = 0;
    for (std::size_t d = 0; axes && a.size() == b.size() && d < a.size(); ++d) {
      const bool grows = rows > 1 ? b[d] == a[d] + 1 : d == 0 && outputs_[i].shape[0] <= 1;
      if (a[d] == static_cast<std::int64_t>(rows) && grows && axis == kNoBatchAxis)
        axis = static_cast<int>(d);
      else if (b[d] != a[d])
        ++others;
    }
    if (others > 0) axis = kNoBatchAxis;
    model_.outputs[i].batch_axis = axis;
    if (axes && axis == kNoBatchAxis) return false;
  }
  // Sizes that values decide show when these are others; a model may refuse them.
  const auto others = try_out(rows, true);
  learn_sizes(*few, others ? *others : *few);
  return true;
}

// Of the outputs, without their rows. What the model leaves open is open where inputs are, and
// where it depends on values; models often leave open what is fixed.
void OrtEngine::learn_sizes(const std::vector<WholeTensor>& a, const std::vector<WholeTensor>& b) {
  const bool any_open = std::ranges::any_of(model_.inputs, is_open);
  for (std::size_t i = 0; i < model_.outputs.size(); ++i) {
    TensorSpec& output = model_.outputs[i];
    const std::vector<std::int64_t>& declared = outputs_[i].shape;
    output.shape.clear();
    for (std::size_t d = 0; d < a[i].shape.size(); ++d) {
      if (static_cast<int>(d) == output.batch_axis) continue;
      const std::int64_t size = a[i].shape[d];
      const bool said_open = d >= declared.size() || declared[d] < 0;
      const bool moves = size == 0 || b[i].shape.size() <= d || b[i].shape[d] != size;
      output.shape.push_back(moves || (said_open && any_open) ? kOpen : size);
    }
  }
}

// The shapes that come out of zeros (empty texts), or of ones.
Result<std::vector<WholeTensor>> OrtEngine::try_out(std::size_t rows, bool ones) {
  Values inputs, outputs;
  std::vector<std::vector<char>> memory;
  for (const TensorSpec& input : model_.inputs) {
    const Sizes sizes = is_open(input) ? Sizes(input.usual) : Sizes(input.shape);
    const std::size_t bytes = is_text(input) ? bytes_of(input) : *bytes_of_item(input, sizes);
    std::vector<char>& data = memory.emplace_back(std::max<std::size_t>(1, rows * bytes));
    const double value_of_all = input.usual_value != 0 ? input.usual_value : ones ? 1 : 0;
    if (value_of_all != 0) fill_values(input.type, value_of_all, data);
    const std::vector<std::span<const char>> texts(input.batch_axis < 0 ? 1 : rows,
                                                   std::span<const char>(data).first(bytes));
    auto value = TRY(is_text(input) ? text_value(library_, input, texts)
                                    : objects_.tensor(*memory_, input, sizes, rows, data.data()));
    inputs.push_back(std::move(value));
  }
  for (std::size_t i = 0; i < model_.outputs.size(); ++i)
    outputs.push_back(objects_.own<ort::Value>(nullptr, Slot::release_value));
  TRY(execute(inputs, outputs));
  std::vector<WholeTensor> made;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    auto whole = TRY(objects_.described(model_.outputs[i].name, *outputs[i]));
    made.push_back(std::move(whole));
  }
  return made;
}

Result<void> OrtEngine::make_room() {
  TRY(hide_states());
  layout_ = slot_layout(spec_);
  const auto simple = [](const TensorSpec& tensor) {
    return tensor.batch_axis == 0 && tensor.open_bytes == 0 && !is_text(tensor);
  };
  plain_ = !spec_.sequences && std::ranges::all_of(spec_.inputs, simple) &&
           std::ranges::all_of(spec_.outputs, simple);
  staging_in_.resize(model_.inputs.size());
  staging_out_.resize(model_.outputs.size());
  const auto rows = static_cast<std::size_t>(spec_.max_batch);
  if (!plain_ || rows == 1) return {};
  for (std::size_t i = 0; i < staging_in_.size(); ++i)
    staging_in_[i].resize(rows * bytes_of(spec_.inputs[i]));
  for (std::size_t i = 0; i < staging_out_.size(); ++i)
    staging_out_[i].resize(rows * bytes_of(spec_.outputs[i]));
  return {};
}

// Takes the state's inputs and outputs out of what requests see.
Result<void> OrtEngine::hide_states() {
  spec_ = model_;
  spec_.inputs.clear();
  spec_.outputs.clear();
  spec_.sequences = !states_.empty();
  for (const TensorSpec& input : model_.inputs) {
    const auto state = std::ranges::find(states_, input.name, &State::input);
    state_of_input_.push_back(static_cast<int>(state - states_.begin()));
    shown_input_.push_back(spec_.inputs.size());
    if (state == states_.end()) {
      spec_.inputs.push_back(input);
      continue;
    }
    if (is_open(input) || is_text(input) || input.batch_axis == kNoBatchAxis)
      return bad_input(
          "--carry",
          fmt::format("'{}' is to have rows of fixed sizes, see --input-shape", input.name));
    state->bytes = bytes_of(input);
    state->found = true;
  }
  for (TensorSpec& output : model_.outputs) {
    const auto state = std::ranges::find(states_, output.name, &State::output);
    state_of_output_.push_back(static_cast<int>(state - states_.begin()));
    shown_output_.push_back(spec_.outputs.size());
    if (state == states_.end())
      spec_.outputs.push_back(output);
    else
      state->found_output = true;
  }
  std::size_t bytes = 0;
  for (State& state : states_) {
    if (!state.found || !state.found_output)
      return bad_input("--carry",
                       fmt::format("the model has no '{}' or '{}'", state.input, state.output));
    state.offset = std::exchange(bytes, bytes + state.bytes);
  }
  sequences_ = SequenceStates(bytes);
  return check_model("--carry", spec_);
}

// ---- batches of equal rows ----

Result<OrtEngine::Values> OrtEngine::values_on(const std::vector<TensorSpec>& specs,
                                               std::size_t rows, const std::vector<char*>& data) {
  Values values;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    auto value = TRY(objects_.tensor(*memory_, specs[i], specs[i].shape, rows, data[i]));
    values.push_back(std::move(value));
  }
  return values;
}

Result<void> OrtEngine::execute(const Values& inputs, Values& outputs) {
  std::array<const ort::Value*, kMaxTensors> in{};
  std::array<ort::Value*, kMaxTensors> out{};
  for (std::size_t i = 0; i < inputs.size(); ++i) in.at(i) = inputs[i].get();
  for (std::size_t i = 0; i < outputs.size(); ++i) out.at(i) = outputs[i].get();
  const auto ran =
      library_.ask<ort::Run>(Slot::run, session_.get(), nullptr, input_names_.data(), in.data(),
                             inputs.size(), output_names_.data(), outputs.size(), out.data());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i] == nullptr) outputs[i].reset(out.at(i));
  return ran;
}

Result<void> OrtEngine::run_in_place(char* slot) {
  const auto places = [&](const std::vector<std::size_t>& offsets) {
    std::vector<char*> data;
    for (const std::size_t offset : offsets) data.push_back(slot + offset);
    return data;
  };
  const Values inputs = TRY(values_on(model_.inputs, 1, places(layout_.inputs)));
  Values outputs = TRY(values_on(model_.outputs, 1, places(layout_.outputs)));
  return execute(inputs, outputs);
}

Result<OrtEngine::Tensors*> OrtEngine::staged(std::size_t rows) {
  if (const auto found = staged_.find(rows); found != staged_.end()) return &found->second;
  const auto starts = [](std::vector<std::vector<char>>& buffers) {
    std::vector<char*> data;
    for (std::vector<char>& buffer : buffers) data.push_back(buffer.data());
    return data;
  };
  Values inputs = TRY(values_on(model_.inputs, rows, starts(staging_in_)));
  Values outputs = TRY(values_on(model_.outputs, rows, starts(staging_out_)));
  Tensors tensors{std::move(inputs), std::move(outputs)};
  return &staged_.emplace(rows, std::move(tensors)).first->second;
}

Result<void> OrtEngine::run_together(std::span<char* const> slots) {
  Tensors* const tensors = TRY(staged(slots.size()));
  for (std::size_t t = 0; t < model_.inputs.size(); ++t) {
    const std::size_t bytes = bytes_of(model_.inputs[t]);
    char* to = staging_in_[t].data();
    for (std::size_t i = 0; i < slots.size(); ++i)
      std::memcpy(to + (i * bytes), slots[i] + layout_.inputs[t], bytes);
  }
  TRY(execute(tensors->inputs, tensors->outputs));
  for (std::size_t t = 0; t < model_.outputs.size(); ++t) {
    const std::size_t bytes = bytes_of(model_.outputs[t]);
    const char* from = staging_out_[t].data();
    for (std::size_t i = 0; i < slots.size(); ++i)
      std::memcpy(slots[i] + layout_.outputs[t], from + (i * bytes), bytes);
  }
  return {};
}

// ---- batches of rows that differ ----

const char* OrtEngine::input_at(char* slot, std::size_t input) const {
  const State* const state = at_state(state_of_input_[input]);
  if (state == nullptr) return slot + layout_.inputs[shown_input_[input]];
  return sequences_.at(step_of(layout_, slot)).now.data() + state->offset;
}

// After a run: what became of the states.
void OrtEngine::settle(std::span<char* const> slots) {
  for (std::size_t item = 0; item < slots.size(); ++item)
    if (std::ranges::find(faults_, item, &Fault::item) == faults_.end())
      sequences_.settle(step_of(layout_, slots[item]), true);
  for (const Fault& fault : faults_) sequences_.settle(step_of(layout_, slots[fault.item]), false);
}

// Items of the same sizes, and the same values in what they share. Those that make no sense fail.
std::map<std::string, OrtEngine::Group> OrtEngine::groups_of(std::span<char* const> slots) {
  std::map<std::string, Group> groups;
  for (std::size_t item = 0; item < slots.size(); ++item) {
    ItemSizes own, padded;
    std::string key;
    const bool here = states_.empty() || sequences_.begin(step_of(layout_, slots[item])) != nullptr;
    bool good = here;
    for (std::size_t t = 0; t < model_.inputs.size() && good; ++t) {
      const TensorSpec& input = model_.inputs[t];
      if (at_state(state_of_input_[t]) != nullptr) {
        own.push_back(input.shape);
        padded.push_back(input.shape);
        continue;
      }
      const std::span<const char> row(input_at(slots[item], t), bytes_of(input));
      auto sizes = sizes_in(input, row);
      const auto used = used_part(input, row);
      good = sizes && used;
      if (!good) break;
      if (sizes->empty()) *sizes = input.shape;
      padded.push_back(padding_.padded(t, input, *sizes));
      for (const std::int64_t size : padded.back())
        key.append(reinterpret_cast<const char*>(&size), sizeof size);
      if (input.batch_axis == kNoBatchAxis) key.append(used->data(), used->size());
      own.push_back(*std::move(sizes));
    }
    if (!good) {
      faults_.push_back({item, here ? "input does not hold such values"
                                    : "the state of its sequence is not here"});
      continue;
    }
    Group& group = groups.try_emplace(key, Group{.padded = padded}).first->second;
    group.items.push_back(item);
    group.sizes.push_back(std::move(own));
  }
  return groups;
}

// The inputs of a group on the staging memory, texts in objects of the library.
Result<OrtEngine::Values> OrtEngine::gather(const Group& group, std::span<char* const> slots) {
  Values values;
  const std::size_t rows = group.items.size();
  for (std::size_t t = 0; t < model_.inputs.size(); ++t) {
    const TensorSpec& input = model_.inputs[t];
    const std::size_t own = input.batch_axis == kNoBatchAxis ? 1 : rows;
    if (is_text(input)) {
      std::vector<std::span<const char>> texts;
      for (std::size_t i = 0; i < own; ++i)
        texts.emplace_back(input_at(slots[group.items[i]], t), bytes_of(input));
      auto value = TRY(text_value(library_, input, texts));
      values.push_back(std::move(value));
      continue;
    }
    const std::size_t bytes = *bytes_of_item(input, group.padded[t]);
    staging_in_[t].assign(std::max<std::size_t>(1, own * bytes), 0);
    for (std::size_t i = 0; i < own; ++i) {
      const char* from = input_at(slots[group.items[i]], t) + head_bytes(input);
      copy_item({input, group.sizes[i][t], group.padded[t], i, own},
                [&](std::size_t whole, std::size_t item, std::size_t size) {
                  std::memcpy(staging_in_[t].data() + whole, from + item, size);
                });
      if (!is_open(input)) continue;
      const std::size_t given = *bytes_of_item(input, group.sizes[i][t]),
                        size = size_of(input.type);
      filling_.values += given / size;
      filling_.padding += (bytes - given) / size;
    }
    auto value = TRY(objects_.tensor(*memory_, input, group.padded[t], own, staging_in_[t].data()));
    values.push_back(std::move(value));
  }
  return values;
}

// What an output's sizes are without the padding: those that came out as long as a padded size of
// an input are as long as it was.
std::vector<std::int64_t> OrtEngine::cropped(const Group& group, std::size_t item,
                                             const TensorSpec& output, Sizes padded) const {
  std::vector<std::int64_t> sizes(padded.begin(), padded.end());
  for (std::size_t d = 0; d < sizes.size() && padding_.any(); ++d) {
    if (output.shape[d] != kOpen) continue;
    bool found = false;
    for (std::size_t t = 0; t < model_.inputs.size() && !found; ++t) {
      for (std::size_t i = 0; i < group.padded[t].size() && !found; ++i) {
        found = model_.inputs[t].shape[i] == kOpen && group.padded[t][i] == padded[d];
        if (found) sizes[d] = group.sizes[item][t][i];
      }
    }
  }
  return sizes;
}

Result<void> OrtEngine::scatter(const Group& group, std::span<char* const> slots,
                                std::size_t output, const ort::Value& value) {
  const TensorSpec& spec = model_.outputs[output];
  const std::size_t rows = group.items.size();
  if (is_text(spec)) {
    std::vector<std::span<char>> places;
    for (const std::size_t item : group.items) places.push_back(output_row(slots[item], output));
    auto read = TRY(read_text_value(library_, value, spec, places));
    for (std::size_t& item : read) item = group.items[item];
    too_long(read, spec);
    return {};
  }
  const auto whole = TRY(objects_.described(spec.name, value));
  std::vector<std::int64_t> padded = whole.shape;
  const auto axis = static_cast<std::size_t>(std::max(spec.batch_axis, 0));
  if (spec.batch_axis != kNoBatchAxis) {
    if (padded.size() <= axis || padded[axis] != static_cast<std::int64_t>(rows))
      return bad_input(spec.name, "this output has not one row per item");
    padded.erase(padded.begin() + spec.batch_axis);
  }
  void* data = nullptr;
  TRY(library_.ask<ort::TensorData>(Slot::tensor_data, const_cast<ort::Value*>(&value), &data));
  for (std::size_t i = 0; i < rows; ++i) {
    if (const State* state = at_state(state_of_output_[output])) {
      char* const next =
          sequences_.at(step_of(layout_, slots[group.items[i]])).next.data() + state->offset;
      std::size_t got = 0;
      copy_item({spec, padded, padded, i, rows},
                [&](std::size_t from, std::size_t item, std::size_t size) {
                  got += size;
                  if (item + size <= state->bytes)
                    std::memcpy(next + item, static_cast<const char*>(data) + from, size);
                });
      if (got != state->bytes) return bad_input(spec.name, "a state of another size came out");
      continue;
    }
    const bool same_rank = padded.size() == spec.shape.size();
    const auto sizes = same_rank ? cropped(group, i, spec, padded) : padded;
    if (!bytes_of_item(spec, sizes)) {
      faults_.push_back({group.items[i],
                         fmt::format("output '{}': sizes that it never had, or more than {} bytes "
                                     "(--open-bytes)",
                                     spec.name, spec.open_bytes)});
      continue;
    }
    const std::span<char> to = begin_item(spec, sizes, output_row(slots[group.items[i]], output));
    copy_item({spec, sizes, padded, i, rows},
              [&](std::size_t from, std::size_t item, std::size_t size) {
                std::memcpy(to.data() + item, static_cast<const char*>(data) + from, size);
              });
  }
  return {};
}

Result<void> OrtEngine::run_group(const Group& group, std::span<char* const> slots) {
  const Values inputs = TRY(gather(group, slots));
  Values outputs;
  for (std::size_t i = 0; i < model_.outputs.size(); ++i)
    outputs.push_back(objects_.own<ort::Value>(nullptr, Slot::release_value));
  TRY(execute(inputs, outputs));
  for (std::size_t i = 0; i < outputs.size(); ++i) TRY(scatter(group, slots, i, *outputs[i]));
  return {};
}

Result<void> OrtEngine::run_groups(std::span<char* const> slots) {
  for (const auto& [key, group] : groups_of(slots)) {
    const Result<void> ran = run_group(group, slots);
    if (!ran && group.items.size() == slots.size() && states_.empty()) return ran;
    for (const std::size_t item : group.items)
      if (!ran) faults_.push_back({item, to_string(ran.error())});
  }
  return {};
}

Result<void> OrtEngine::run(std::span<char* const> slots) {
  faults_.clear();
  filling_ = {};
  if (!plain_) {
    const Result<void> ran = run_groups(slots);
    if (!states_.empty()) settle(slots);
    return ran;
  }
  return slots.size() == 1 ? run_in_place(slots[0]) : run_together(slots);
}

}  // namespace

Result<EnginePointer> ort_engine(const OrtLibrary& library, const OrtOptions& options) {
  auto engine = std::make_unique<OrtEngine>(library, options);
  TRY(engine->open(options));
  return EnginePointer(std::move(engine));
}

}  // namespace partita::serve
