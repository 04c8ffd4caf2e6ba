// RecordingDriver and replay() of adaptors.h.
#include "device/recording.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "device/adaptors.h"

namespace partita::device {

// ---- recording ----

struct RecordingDriver::Notes {
  std::vector<RecordedCall> calls;

  template <class T>
  Result<T> keep(Call call, Result<T> result) {
    Answer answer;
    if (!result) {
      answer = result.error();
    } else if constexpr (std::is_void_v<T>) {
      answer = std::monostate{};
    } else {
      answer = *result;
    }
    calls.push_back({std::move(call), std::move(answer)});
    return result;
  }
};

RecordingDriver::RecordingDriver(NodeDriver& inner)
    : inner_(inner), notes_(std::make_unique<Notes>()) {}
RecordingDriver::~RecordingDriver() = default;

Result<DriverInfo> RecordingDriver::info() { return notes_->keep({Method::info}, inner_.info()); }
Result<GpuState> RecordingDriver::read(int gpu) {
  return notes_->keep({Method::read, {gpu}}, inner_.read(gpu));
}
Result<std::vector<ProfileInfo>> RecordingDriver::profiles(int gpu) {
  return notes_->keep({Method::profiles, {gpu}}, inner_.profiles(gpu));
}
Result<ModeChange> RecordingDriver::set_mig_mode(int gpu, bool enabled) {
  return notes_->keep({Method::set_mig_mode, {gpu, enabled}}, inner_.set_mig_mode(gpu, enabled));
}
Result<int> RecordingDriver::create_instance(int gpu, const Placement& at) {
  return notes_->keep({Method::create_instance, {gpu, at.nvml_enum, at.start}},
                      inner_.create_instance(gpu, at));
}
Result<void> RecordingDriver::destroy_instance(int gpu, int gi_id) {
  return notes_->keep({Method::destroy_instance, {gpu, gi_id}},
                      inner_.destroy_instance(gpu, gi_id));
}
Result<ComputeInstance> RecordingDriver::create_compute(int gpu, int gi_id) {
  return notes_->keep({Method::create_compute, {gpu, gi_id}}, inner_.create_compute(gpu, gi_id));
}
Result<void> RecordingDriver::destroy_compute(int gpu, int gi_id, int ci_id) {
  return notes_->keep({Method::destroy_compute, {gpu, gi_id, ci_id}},
                      inner_.destroy_compute(gpu, gi_id, ci_id));
}
Result<telemetry::GpuSample> RecordingDriver::telemetry(int gpu) {
  return notes_->keep({Method::telemetry, {gpu}}, inner_.telemetry(gpu));
}
Result<PowerState> RecordingDriver::power_settings(int gpu) {
  return notes_->keep({Method::power_settings, {gpu}}, inner_.power_settings(gpu));
}
Result<void> RecordingDriver::set_power_settings(int gpu, const PowerSettings& settings) {
  return notes_->keep(power_call(gpu, settings), inner_.set_power_settings(gpu, settings));
}
std::string RecordingDriver::json() const { return recording_json(notes_->calls); }

// ---- replay ----

namespace {

class ReplayDriver final : public NodeDriver {
 public:
  explicit ReplayDriver(std::vector<RecordedCall> calls) : calls_(std::move(calls)) {
    next_ = next_change(0);
  }

  Result<DriverInfo> info() override { return answer<DriverInfo>({Method::info}); }
  Result<GpuState> read(int gpu) override { return answer<GpuState>({Method::read, {gpu}}); }
  Result<std::vector<ProfileInfo>> profiles(int gpu) override {
    return answer<std::vector<ProfileInfo>>({Method::profiles, {gpu}});
  }
  Result<ModeChange> set_mig_mode(int gpu, bool enabled) override {
    return answer<ModeChange>({Method::set_mig_mode, {gpu, enabled}});
  }
  Result<int> create_instance(int gpu, const Placement& at) override {
    return answer<int>({Method::create_instance, {gpu, at.nvml_enum, at.start}});
  }
  Result<void> destroy_instance(int gpu, int gi_id) override {
    return done({Method::destroy_instance, {gpu, gi_id}});
  }
  Result<ComputeInstance> create_compute(int gpu, int gi_id) override {
    return answer<ComputeInstance>({Method::create_compute, {gpu, gi_id}});
  }
  Result<void> destroy_compute(int gpu, int gi_id, int ci_id) override {
    return done({Method::destroy_compute, {gpu, gi_id, ci_id}});
  }
  Result<telemetry::GpuSample> telemetry(int gpu) override {
    return answer<telemetry::GpuSample>({Method::telemetry, {gpu}});
  }
  Result<PowerState> power_settings(int gpu) override {
    return answer<PowerState>({Method::power_settings, {gpu}});
  }
  Result<void> set_power_settings(int gpu, const PowerSettings& settings) override {
    return done(power_call(gpu, settings));
  }

 private:
  std::size_t next_change(std::size_t from) const {
    while (from < calls_.size() && !changes(calls_[from].call.method)) ++from;
    return from;
  }

  // The record that answers a call; null when there is none.
  const RecordedCall* find(const Call& call) {
    if (changes(call.method)) {
      if (next_ == calls_.size() || calls_[next_].call != call) return nullptr;
      const RecordedCall& found = calls_[next_];
      next_ = next_change(next_ + 1);
      return &found;
    }
    for (std::size_t i = next_; i-- > 0;)
      if (calls_[i].call == call) return &calls_[i];
    for (std::size_t i = next_; i < calls_.size(); ++i)
      if (calls_[i].call == call) return &calls_[i];
    return nullptr;
  }

  Result<Answer> recorded(const Call& call) {
    const RecordedCall* found = find(call);
    if (!found)
      return failed({ErrorCode::not_found, "the recording has no such call here", to_string(call)});
    if (const Error* error = std::get_if<Error>(&found->answer)) return failed(*error);
    return found->answer;
  }

  template <class T>
  Result<T> answer(const Call& call) {
    const Answer found = TRY(recorded(call));
    const T* value = std::get_if<T>(&found);
    CHECK(value);
    return *value;
  }
  Result<void> done(const Call& call) {
    TRY(recorded(call));
    return {};
  }

  std::vector<RecordedCall> calls_;
  std::size_t next_ = 0;  // the change that comes next
};

}  // namespace

Result<std::unique_ptr<NodeDriver>> replay(const std::string& file, std::string_view recording) {
  auto calls = TRY(parse_recording(file, recording));
  return std::make_unique<ReplayDriver>(std::move(calls));
}

}  // namespace partita::device
