#include "serve/worker/null_engine.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <optional>

#include "base/check.h"
#include "base/parse_number.h"
#include "base/split.h"
#include "serve/wire/texts.h"

namespace partita::serve {
namespace {

constexpr std::uint64_t kFnvPrime = 0x100000001B3;
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kSpin = 80'000;  // sleeps end that much too late, most often

std::int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec * kSecond) + now.tv_nsec;
}

void wait_until(std::int64_t end) {
  const std::int64_t wake = end - kSpin;
  if (wake > monotonic_ns()) {
    const timespec at{wake / kSecond, wake % kSecond};
    ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
  }
  while (monotonic_ns() < end) continue;
}

class NullEngine final : public Engine {
 public:
  NullEngine(ModelSpec spec, NullTimes times)
      : spec_(std::move(spec)), times_(times), layout_(slot_layout(spec_)) {
    ::prctl(PR_SET_TIMERSLACK, 1UL);
    if (spec_.sequences) states_.emplace(sizeof(std::uint64_t));
  }
  const ModelSpec& spec() const override { return spec_; }
  SequenceStates* states() override { return states_ ? &*states_ : nullptr; }

  Result<void> run(std::span<char* const> slots) override {
    const auto items = static_cast<std::int64_t>(slots.size());
    const std::int64_t takes = times_.batch_ns + (items * times_.item_ns);
    const std::int64_t end = takes > 0 ? monotonic_ns() + takes : 0;
    faults_.clear();
    for (char* slot : slots) item(slot);
    for (std::size_t i = 0; states_ && i < slots.size(); ++i) step(slots[i], i);
    if (takes > 0) wait_until(end);
    return {};
  }

 private:
  void item(char* slot) {
    for (std::size_t i = 0; i < layout_.inputs.size(); ++i) {
      const std::size_t first = layout_.inputs[i], last = first + bytes_of(spec_.inputs[i]) - 1;
      touched_ = touched_ + static_cast<unsigned char>(slot[first]) +
                 static_cast<unsigned char>(slot[last]);
    }
    for (std::size_t i = 0; i < layout_.outputs.size(); ++i) {
      char* out = slot + layout_.outputs[i];
      const std::size_t bytes = bytes_of(spec_.outputs[i]);
      if (spec_.outputs[i].type == DataType::bytes) {
        write_texts(slot, i, {out, bytes});
        continue;
      }
      const std::size_t copied = i == 0 ? std::min(bytes, bytes_of(spec_.inputs[0])) : 0;
      std::memcpy(out, slot + layout_.inputs[0], copied);
      std::memset(out + copied, 0, bytes - copied);
    }
  }

  // The first input's elements into the first output as far as they go; the rest is empty.
  void write_texts(const char* slot, std::size_t output, std::span<char> row) {
    const TensorSpec& from = spec_.inputs[0];
    TextRows into(spec_.outputs[output], {&row, 1});
    const auto used = used_part(from, {slot + layout_.inputs[0], bytes_of(from)});
    if (output == 0 && from.type == DataType::bytes && used) {
      each_text(*used, [&](std::string_view text) {
        if (!into.full() && !into.put(text).empty()) static_cast<void>(into.put(""));
      });
    }
    while (!into.full()) static_cast<void>(into.put(""));
  }

  // What it answers is a hash of all first inputs of the sequence so far, and who says so.
  void step(char* slot, std::size_t item) {
    const SlotStep step = read_slot_step(slot + layout_.step);
    SequenceStates::Kept* const kept = states_->begin(step);
    if (kept == nullptr) return faults_.push_back({item, "the state of its sequence is not here"});
    std::uint64_t hash = 0;
    std::memcpy(&hash, kept->now.data(), sizeof hash);
    for (const char c : std::span(slot + layout_.inputs[0], bytes_of(spec_.inputs[0])))
      hash = (hash ^ (static_cast<unsigned char>(c) + 1U)) * kFnvPrime;
    std::memcpy(kept->next.data(), &hash, sizeof hash);
    const std::array<std::uint64_t, 2> answer = {hash, static_cast<std::uint64_t>(::getpid())};
    if (!layout_.outputs.empty())
      std::memcpy(slot + layout_.outputs[0], answer.data(),
                  std::min(sizeof answer, bytes_of(spec_.outputs[0])));
    states_->settle(step, true);
  }

  ModelSpec spec_;
  NullTimes times_;
  std::optional<SequenceStates> states_;
  SlotLayout layout_;
  volatile unsigned touched_ = 0;  // so that reading is not optimised away
};

}  // namespace

EnginePointer null_engine(ModelSpec spec, NullTimes times) {
  CHECK(spec.kind == ModelKind::tensors && !spec.inputs.empty());
  return std::make_unique<NullEngine>(std::move(spec), times);
}

Result<TensorSpec> parse_tensor_spec(const std::string& flag, const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 3)
    return bad_input(flag, "'" + text + "': say NAME:TYPE:SIZES, as in x:FP32:3,224,224");
  const DataType type = TRY(parse_data_type(flag, parts[1]));
  TensorSpec tensor{.name = parts[0], .type = type};
  if (parts.size() == 2) return tensor;
  for (const std::string& part : split(parts[2], ',')) {
    const auto size = parse_number<long>(part);
    if (!size) return bad_input(flag, "'" + part + "' is no size");
    tensor.shape.push_back(*size);
  }
  return tensor;
}

}  // namespace partita::serve
