// RecordingDriver and replay() of adaptors.h.
#include "device/recording.h"

#include <utility>

#include "device/adaptors.h"

namespace partita::device {

// ---- recording ----

Result<Answer> RecordingDriver::on_call(const Call& call, const Make& make) {
  Result<Answer> result = make(inner_);
  calls_.push_back({call, result ? *result : Answer(result.error())});
  return result;
}

// ---- replay ----

namespace {

class ReplayDriver final : public AdaptedDriver {
 public:
  explicit ReplayDriver(std::vector<RecordedCall> calls) : calls_(std::move(calls)) {
    next_ = next_change(0);
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

  Result<Answer> on_call(const Call& call, const Make&) override {
    const RecordedCall* found = find(call);
    if (!found)
      return failed({ErrorCode::not_found, "the recording has no such call here", to_string(call)});
    if (const Error* error = std::get_if<Error>(&found->answer)) return failed(*error);
    return found->answer;
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
