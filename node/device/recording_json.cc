// recording_json and parse_recording of recording.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/append.h"
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

// ---- writing ----

void write_profile(JsonWriter& out, const ProfileInfo& profile) {
  out.raw("{\"nvml_enum\": ").number(long{profile.nvml_enum});
  out.raw(", \"profile_id\": ").number(long{profile.profile_id}).raw(", \"name\": ");
  write_text(out, profile.name);
  out.raw(", \"gpcs\": ").number(long{profile.gpcs});
  out.raw(", \"size\": ").number(long{profile.size});
  out.raw(", \"sms\": ").number(long{profile.sms});
  out.raw(", \"memory_mib\": ").number(profile.memory.value);
  out.raw(", \"max_instances\": ").number(long{profile.max_instances});
  out.raw(", \"remaining\": ").number(long{profile.remaining});
  out.raw(fmt::format(", \"starts\": [{}]}}", joined(profile.starts, ", ")));
}

void describe(Form& f, ClockRange& range) {
  constexpr Range kClocks{.high = 1e6};
  f.number("low_mhz", range.low.value, kClocks, "");
  f.number("high_mhz", range.high.value, kClocks, "");
}

template <class Unit>
void quantity(Form& f, std::string_view key, std::optional<Unit>& value) {
  std::optional<double> number;
  if (value) number = value->value;
  f.number(key, number, kNumbers, "");
  if (f.reading() != nullptr && number) value = Unit{*number};
}

void describe(Form& f, PowerState& state) {
  quantity(f, "limit_w", state.now.limit);
  f.object("locked_clocks", state.now.clocks, describe, "");
  f.boolean("clocks_told", state.clocks_told, "");
  quantity(f, "default_limit_w", state.default_limit);
  quantity(f, "least_limit_w", state.least_limit);
  quantity(f, "most_limit_w", state.most_limit);
  std::vector<int> clocks;
  for (const Mhz clock : state.clocks) clocks.push_back(static_cast<int>(clock.value));
  f.integers("clocks_mhz", clocks, {.high = 1e6}, {.most = kMaxProfiles}, "");
  if (f.reading() == nullptr) return;
  state.clocks.clear();
  for (const int clock : clocks) state.clocks.push_back(Mhz{static_cast<double>(clock)});
}

// As one line.
template <class T>
std::string line_of(const T& value, void (*how)(Form&, T&)) {
  std::string text = write_form(value, how);
  text.pop_back();
  return text;
}

template <class T>
T read_object(Fields in, void (*how)(Form&, T&)) {
  T value;
  Form::Item<T> item{&value, nullptr, how};
  if (!in.error()) Form::read(in, {&item, &Form::Item<T>::walk});
  return value;
}

struct AnswerWriter {
  JsonWriter& out;

  void operator()(const Error& error) const {
    out.raw("{\"code\": ").string(to_string(error.code)).raw(", \"message\": ");
    write_text(out, error.message);
    out.raw(", \"context\": ");
    write_text(out, error.context);
    out.raw("}");
  }
  void operator()(std::monostate) const { out.raw("null"); }
  void operator()(const DriverInfo& info) const {
    out.raw("{\"name\": ");
    write_text(out, info.name);
    out.raw(", \"version\": ");
    write_text(out, info.version);
    out.raw(", \"gpus\": ").number(long{info.gpus}).raw("}");
  }
  void operator()(const GpuState& gpu) const { write_gpu(out, gpu, {}); }
  void operator()(const std::vector<ProfileInfo>& profiles) const {
    out.list(profiles, "      ", [&](const ProfileInfo& profile) { write_profile(out, profile); });
  }
  void operator()(ModeChange change) const {
    out.string(change == ModeChange::done ? "done" : "pending_reset");
  }
  void operator()(const telemetry::GpuSample& sample) const {
    out.raw(line_of(sample, telemetry::describe_gpu));
  }
  void operator()(const PowerState& state) const { out.raw(line_of<PowerState>(state, describe)); }
  void operator()(int gi_id) const { out.number(long{gi_id}); }
  void operator()(const ComputeInstance& compute) const {
    out.raw("{\"ci_id\": ").number(long{compute.ci_id});
    out.raw(", \"gpcs\": ").number(long{compute.gpcs}).raw(", \"uuid\": ");
    write_text(out, compute.uuid);
    out.raw("}");
  }
};

void write_call(JsonWriter& out, const RecordedCall& recorded) {
  const Call& call = recorded.call;
  out.raw("{\"call\": ").string(name_of(call.method));
  const std::vector<std::string_view> names = argument_names(call.method);
  for (std::size_t i = 0; i < names.size(); ++i) {
    out.raw(", ").string(names[i]).raw(": ");
    if (names[i] == kFlag) {
      out.boolean(call.arguments[i] != 0);
    } else {
      out.number(long{call.arguments[i]});
    }
  }
  out.raw(std::holds_alternative<Error>(recorded.answer) ? ", \"error\": " : ", \"answer\": ");
  std::visit(AnswerWriter{out}, recorded.answer);
  out.raw("}");
}

// ---- reading ----

Error read_error(Fields in) {
  Error error;
  const std::string word = in.text("code");
  const auto code = parse_error_code(word);
  if (!code)
    in.refuse("code", fmt::format("unknown error code '{}'{}", word,
                                  did_you_mean(word, error_code_words())));
  error.code = code.value_or(ErrorCode::environment);
  error.message = read_text(in, "message");
  error.context = read_text(in, "context");
  return error;
}

DriverInfo read_info(Fields in) {
  return {.name = read_text(in, "name"),
          .version = read_text(in, "version"),
          .gpus = in.integer("gpus", {.high = static_cast<double>(kMaxNodeGpus)})};
}

ProfileInfo read_profile(Fields in) {
  ProfileInfo profile{.nvml_enum = in.integer("nvml_enum", kNumbers),
                      .profile_id = in.integer("profile_id", kNumbers),
                      .name = read_text(in, "name"),
                      .gpcs = in.integer("gpcs", kNumbers),
                      .size = in.integer("size", kNumbers),
                      .sms = in.integer("sms", kNumbers),
                      .memory = Mib{in.number("memory_mib", kNotNegative)},
                      .max_instances = in.integer("max_instances", kNumbers),
                      .remaining = in.integer("remaining", kNumbers),
                      .starts = {}};
  for (const Node& item : in.list("starts", kMaxProfiles)) {
    const double start = std::clamp(item.number, 0.0, 1e6);
    profile.starts.push_back(static_cast<int>(start));
    if (item.kind != Node::Kind::number || profile.starts.back() != item.number)
      in.refuse(item, "'starts' must list memory slices");
  }
  return profile;
}

std::vector<ProfileInfo> read_profiles(Fields& in) {
  std::vector<ProfileInfo> profiles;
  for (const Node& item : in.list("answer", kMaxProfiles))
    profiles.push_back(read_profile({in, item}));
  return profiles;
}

ModeChange read_change(Fields& in) {
  const std::string word = in.text("answer");
  if (word != "done" && word != "pending_reset")
    in.refuse("answer", fmt::format("'{}' is neither done nor pending_reset", word));
  return word == "done" ? ModeChange::done : ModeChange::pending_reset;
}

ComputeInstance read_compute(Fields in) {
  return {.ci_id = in.integer("ci_id", kNumbers),
          .gpcs = in.integer("gpcs", kNumbers),
          .uuid = read_text(in, "uuid")};
}

Answer read_answer(Fields& in, Method method) {
  if (in.has("error")) return read_error(in.object("error"));
  if (!in.has("answer")) in.refuse("answer", "there is neither an 'answer' nor an 'error'");
  switch (method) {
    case Method::info:
      return read_info(in.object("answer"));
    case Method::read:
      return read_gpu(in.object("answer"), hw::builtin_catalogue()).gpu;
    case Method::profiles:
      return read_profiles(in);
    case Method::set_mig_mode:
      return read_change(in);
    case Method::create_instance:
      return in.integer("answer", kNumbers);
    case Method::create_compute:
      return read_compute(in.object("answer"));
    case Method::telemetry:
      return read_object<telemetry::GpuSample>(in.object("answer"), telemetry::describe_gpu);
    case Method::power_settings:
      return read_object<PowerState>(in.object("answer"), describe);
    case Method::destroy_instance:
    case Method::destroy_compute:
    case Method::set_power_settings:
      if (in.known("answer")) in.refuse("answer", "this call answers nothing");
  }
  return std::monostate{};
}

RecordedCall read_call(Fields in) {
  const std::string word = in.text("call");
  const auto method = std::ranges::find(kMethods, word, name_of);
  if (method == kMethods.end()) {
    std::vector<std::string> names;
    for (const Method known : kMethods) names.emplace_back(name_of(known));
    in.refuse("call", fmt::format("unknown call '{}'{}", word, did_you_mean(word, names)));
    return {};
  }
  RecordedCall recorded{.call = {*method}, .answer = {}};
  for (const std::string_view name : argument_names(*method))
    recorded.call.arguments.push_back(name == kFlag ? in.boolean(name)
                                                    : in.integer(name, kArguments));
  recorded.answer = read_answer(in, *method);
  return recorded;
}

}  // namespace

std::string recording_json(const std::vector<RecordedCall>& calls) {
  JsonWriter out;
  out.raw("{\n  \"api_version\": \"partita/v1\",\n  \"kind\": \"Recording\",\n  \"calls\": ");
  out.list(calls, "    ", [&](const RecordedCall& call) { write_call(out, call); });
  return out.raw("\n}\n").take();
}

Result<std::vector<RecordedCall>> parse_recording(const std::string& file, std::string_view text) {
  const auto document = parse_document(file, text);
  if (!document) return failed(document.error());
  Fields fields(*document);
  fields.exactly("api_version", "partita/v1");
  fields.exactly("kind", "Recording");
  std::vector<RecordedCall> calls;
  for (const Node& item : fields.list("calls", kMaxRecordedCalls)) {
    calls.push_back(read_call({fields, item}));
    if (fields.error()) break;
  }
  if (fields.error()) return failed(*fields.error());
  return calls;
}

}  // namespace partita::device
