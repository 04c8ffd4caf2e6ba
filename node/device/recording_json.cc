// recording_json and parse_recording of recording.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/error_code.h"
#include "base/nearest.h"
#include "device/gpu_json.h"
#include "device/recording.h"
#include "hw/telemetry/forms.h"

namespace partita::device {
namespace {

constexpr Range kNumbers{.high = 1e9};
constexpr Range kArguments{.low = -1e9, .high = 1e9};  // a caller may ask for anything
constexpr std::size_t kMaxProfiles = 1024;
constexpr std::string_view kFlag = "enabled";  // the one argument that is no number

void describe_profile(Form& f, ProfileInfo& profile) {
  f.integer("nvml_enum", profile.nvml_enum, kNumbers, "index in the driver's enumeration");
  f.integer("profile_id", profile.profile_id, kNumbers, "the driver's");
  f.quote("name", profile.name, "the driver's");
  f.integer("gpcs", profile.gpcs, kNumbers, "compute slices");
  f.integer("size", profile.size, kNumbers, "memory slices");
  f.integer("sms", profile.sms, kNumbers, "multiprocessors");
  f.number("memory_mib", profile.memory, kNotNegative, "of an instance");
  f.integer("max_instances", profile.max_instances, kNumbers, "on one GPU");
  f.integer("remaining", profile.remaining, kNumbers, "how many more fit now");
  f.integers("starts", profile.starts, {.high = 1e6}, {.most = kMaxProfiles}, "memory slices");
}

void describe_clocks(Form& f, ClockRange& range) {
  constexpr Range kClocks{.high = 1e6};
  f.number("low_mhz", range.low, kClocks, "");
  f.number("high_mhz", range.high, kClocks, "");
}

void describe_power(Form& f, PowerState& state) {
  f.number("limit_w", state.now.limit, kNumbers, "");
  f.object("locked_clocks", state.now.clocks, describe_clocks, "");
  f.boolean("clocks_told", state.clocks_told, "");
  f.number("default_limit_w", state.default_limit, kNumbers, "");
  f.number("least_limit_w", state.least_limit, kNumbers, "");
  f.number("most_limit_w", state.most_limit, kNumbers, "");
  std::vector<int> clocks;
  for (const Mhz clock : state.clocks) clocks.push_back(static_cast<int>(clock.value));
  f.integers("clocks_mhz", clocks, {.high = 1e6}, {.most = kMaxProfiles}, "");
  if (f.reading() == nullptr) return;
  state.clocks.clear();
  for (const int clock : clocks) state.clocks.push_back(Mhz{static_cast<double>(clock)});
}

void describe_error(Form& f, Error& error) {
  std::string word = to_string(error.code);
  f.text("code", word, "as errors are called");
  f.quote("message", error.message, "a sentence");
  f.quote("context", error.context, "where");
  Fields* const in = f.reading();
  const auto code = parse_error_code(word);
  if (in && !code)
    in->refuse("code", fmt::format("unknown error code '{}'{}", word,
                                   did_you_mean(word, error_code_words())));
  error.code = code.value_or(ErrorCode::environment);
}

void describe_info(Form& f, DriverInfo& info) {
  f.quote("name", info.name, "of the driver");
  f.quote("version", info.version, "as it says");
  f.integer("gpus", info.gpus, {.high = static_cast<double>(kMaxNodeGpus)}, "that it has");
}

void describe_gpu(Form& f, GpuState& gpu) {
  Occupants unknown;
  GpuForm{hw::builtin_catalogue(), unknown}(f, gpu);
}

// What the answer holds; a reader makes it one of this type first.
template <class T>
T& as(Form& f, Answer& answer) {
  if (f.reading()) answer = T{};
  return std::get<T>(answer);
}

constexpr std::string_view kAnswer = "answer";

void describe_answer(Form& f, Method method, Answer& answer) {
  const auto object = [&]<class T>(T& value, void (*describe)(Form&, T&)) {
    f.object(kAnswer, value, describe, "");
  };
  switch (method) {
    case Method::info:
      return object(as<DriverInfo>(f, answer), describe_info);
    case Method::read:
      return object(as<GpuState>(f, answer), describe_gpu);
    case Method::profiles:
      return f.list(kAnswer, as<std::vector<ProfileInfo>>(f, answer), describe_profile,
                    {.most = kMaxProfiles, .indent = "      "}, "");
    case Method::set_mig_mode:
      return f.word(kAnswer, as<ModeChange>(f, answer), {"done", "pending_reset"}, "");
    case Method::create_instance:
      return f.integer(kAnswer, as<int>(f, answer), kNumbers, "");
    case Method::create_compute:
      return object(as<ComputeInstance>(f, answer), describe_compute);
    case Method::telemetry:
      return object(as<telemetry::GpuSample>(f, answer), telemetry::describe_gpu);
    case Method::power_settings:
      return object(as<PowerState>(f, answer), describe_power);
    case Method::destroy_instance:
    case Method::destroy_compute:
    case Method::set_power_settings:
      f.told(kAnswer, std::optional<bool>());
      if (f.reading() && f.reading()->known(kAnswer))
        f.reading()->refuse(kAnswer, "this call answers nothing");
      as<std::monostate>(f, answer);
  }
}

void describe_call(Form& f, RecordedCall& recorded) {
  std::string word(name_of(recorded.call.method));
  f.text("call", word, "of the door");
  Fields* const in = f.reading();
  const auto method = std::ranges::find(kMethods, word, name_of);
  if (method == kMethods.end()) {
    std::vector<std::string> names;
    for (const Method known : kMethods) names.emplace_back(name_of(known));
    return in->refuse("call",
                      fmt::format("unknown call '{}'{}", word, did_you_mean(word, names)));
  }
  recorded.call.method = *method;
  const std::vector<std::string_view> names = argument_names(*method);
  recorded.call.arguments.resize(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    int& argument = recorded.call.arguments[i];
    bool flag = argument != 0;
    if (names[i] != kFlag) f.integer(names[i], argument, kArguments, "");
    if (names[i] == kFlag) f.boolean(names[i], flag, "");
    if (in && names[i] == kFlag) argument = flag;
  }
  if (f.given("error", std::holds_alternative<Error>(recorded.answer)))
    return f.object("error", as<Error>(f, recorded.answer), describe_error, "");
  if (in && !in->has(kAnswer))
    in->refuse(kAnswer, "there is neither an 'answer' nor an 'error'");
  describe_answer(f, *method, recorded.answer);
}

using Calls = std::vector<RecordedCall>;

void describe_recording(Form& f, Calls& calls) {
  f.lines("  ");
  f.document("Recording");
  f.list("calls", calls, describe_call, {.most = kMaxRecordedCalls, .indent = "    "}, "in order");
}

}  // namespace

std::string recording_json(const std::vector<RecordedCall>& calls) {
  return write_form(calls, describe_recording);
}

Result<std::vector<RecordedCall>> parse_recording(const std::string& file, std::string_view text) {
  return read_form<Calls>(file, text, describe_recording);
}

}  // namespace partita::device
