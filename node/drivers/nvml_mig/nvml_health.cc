#include "drivers/nvml_mig/nvml_health.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "drivers/nvml_mig/nvml_library.h"

namespace partita::drivers::nvml_mig {
namespace {

using abi::Return;
using device::HealthEvent;
using device::HealthReading;
using Kind = HealthEvent::Kind;

constexpr unsigned kMaxWatchedGpus = 1024;

int instance_id(unsigned id) { return id == abi::kNoInstance ? -1 : static_cast<int>(id); }

class NvmlHealth final : public device::HealthWatch {
 public:
  explicit NvmlHealth(std::unique_ptr<NvmlLibrary> library)
      : library_(std::move(library)), api_(library_->api()) {}
  ~NvmlHealth() override { forget_set(); }
  NvmlHealth(const NvmlHealth&) = delete;
  NvmlHealth& operator=(const NvmlHealth&) = delete;

  std::vector<HealthEvent> look() override;
  std::vector<std::string> complaints() override { return std::exchange(to_say_, {}); }

 private:
  struct Watched {
    abi::Device device = nullptr;
    bool lost = false;
    bool tried = false;  // to hear its events
  };

  void find_gpus();
  void hear_events_of(const std::string& uuid, Watched& gpu);
  void take_events(std::vector<HealthEvent>& news);
  Return wait(abi::EventData& data) const;
  std::string uuid_of(abi::Device device) const;
  HealthReading read(const std::string& uuid, abi::Device device) const;
  void forget_set();
  void complain(const std::string& subject, const std::string& why);

  std::unique_ptr<NvmlLibrary> library_;
  const NvmlApi& api_;
  abi::EventSet set_ = nullptr;
  std::map<std::string, Watched> gpus_;  // by UUID
  device::HealthChanges changes_;
  std::map<std::string, std::string> said_;  // by subject
  std::vector<std::string> to_say_;
};

void NvmlHealth::complain(const std::string& subject, const std::string& why) {
  std::string& said = said_[subject];
  if (why == said) return;
  said = why;
  to_say_.push_back(why);
}

void NvmlHealth::forget_set() {
  if (set_ != nullptr && api_.event_set_free != nullptr) api_.event_set_free(set_);
  set_ = nullptr;
  for (auto& [uuid, gpu] : gpus_) gpu.tried = false;
}

std::string NvmlHealth::uuid_of(abi::Device device) const {
  std::array<char, abi::kUuidSize> text{};
  if (!library_->call("nvmlDeviceGetUUID", api_.uuid, device, text.data(), abi::kUuidSize - 1))
    return {};
  return text.data();
}

// GPUs keep their registration as long as they are there; one that was lost needs a new one.
void NvmlHealth::find_gpus() {
  for (auto& [uuid, gpu] : gpus_) gpu.lost = true;
  unsigned count = 0;
  if (!library_->call("nvmlDeviceGetCount", api_.gpu_count, &count)) return;
  for (unsigned i = 0; i < std::min(count, kMaxWatchedGpus); ++i) {
    abi::Device device = nullptr;
    if (!library_->call("nvmlDeviceGetHandleByIndex", api_.gpu_by_index, i, &device)) continue;
    const std::string uuid = uuid_of(device);
    if (uuid.empty()) continue;
    Watched& gpu = gpus_[uuid];
    // Some drivers know the UUID of a GPU that is lost; its memory nobody can ask for.
    abi::Memory memory{};
    const auto alive = library_->call("nvmlDeviceGetMemoryInfo", api_.memory_info, device, &memory);
    gpu.lost = !alive && alive.error().code == ErrorCode::lost;
    if (gpu.device != device) gpu.tried = false;
    gpu.device = device;
  }
  for (auto& [uuid, gpu] : gpus_)
    if (gpu.lost) gpu.tried = false;
}

void NvmlHealth::hear_events_of(const std::string& uuid, Watched& gpu) {
  if (gpu.tried || gpu.lost) return;
  gpu.tried = true;
  if (set_ == nullptr)
    if (auto made = library_->call("nvmlEventSetCreate", api_.event_set_create, &set_); !made) {
      set_ = nullptr;
      return complain("set", "XIDs are not heard, health is only read at each look: " +
                                 to_string(made.error()));
    }
  unsigned long long can = abi::kEventXid | abi::kEventDoubleBitEcc;
  unsigned long long types = can;
  if (api_.event_types != nullptr && api_.event_types(gpu.device, &types) == Return::success)
    can &= types;
  const auto heard =
      (can & abi::kEventXid) == 0
          ? Result<void>(failed({ErrorCode::not_supported, "the board has no such events", uuid}))
          : library_->call("nvmlDeviceRegisterEvents", api_.register_events, gpu.device, can, set_);
  if (!heard)
    complain(uuid, fmt::format("XIDs of {} are not heard, its health is only read at each look: {}",
                               uuid, to_string(heard.error())));
}

Return NvmlHealth::wait(abi::EventData& data) const {
  if (api_.event_wait != nullptr) return api_.event_wait(set_, &data, 0);
  if (api_.event_wait_v1 == nullptr) return Return::function_not_found;
  abi::EventDataV1 old{};
  const Return got = api_.event_wait_v1(set_, &old, 0);
  data = {old.device, old.type, old.data, abi::kNoInstance, abi::kNoInstance};
  return got;
}

void NvmlHealth::take_events(std::vector<HealthEvent>& news) {
  for (int n = 0; n < kMaxEventsPerLook && set_ != nullptr; ++n) {
    abi::EventData data{};
    data.gpu_instance_id = data.compute_instance_id = abi::kNoInstance;
    const Return got = wait(data);
    if (got == Return::timeout) return;
    if (got != Return::success) {
      complain("wait", "events of GPUs cannot be read, they are asked for anew: " +
                           to_string(library_->error(got, "nvmlEventSetWait")));
      return forget_set();
    }
    // A GPU that has just been lost may not say its name any more; its handle does.
    std::string uuid = uuid_of(data.device);
    for (const auto& [known, gpu] : gpus_)
      if (uuid.empty() && gpu.device == data.device) uuid = known;
    const int gi = instance_id(data.gpu_instance_id), ci = instance_id(data.compute_instance_id);
    if (uuid.empty())
      complain("nameless",
               fmt::format("a GPU that does not say which one reported XID {}", data.data));
    else if (data.type == abi::kEventXid)
      news.push_back(
          {uuid, Kind::xid, static_cast<int>(std::min(data.data, 1'000'000ULL)), gi, ci});
    // How many errors there are is read below.
  }
}

HealthReading NvmlHealth::read(const std::string& uuid, abi::Device device) const {
  HealthReading reading{.gpu_uuid = uuid};
  unsigned long long errors = 0;
  if (library_->call("nvmlDeviceGetTotalEccErrors", api_.ecc_errors, device,
                     abi::kUncorrectedErrors, abi::kSinceReset, &errors))
    reading.uncorrected_errors = static_cast<long>(std::min(errors, 1'000'000'000ULL));
  unsigned corrected = 0, uncorrected = 0, pending = 0, failure = 0;
  if (library_->call("nvmlDeviceGetRemappedRows", api_.remapped_rows, device, &corrected,
                     &uncorrected, &pending, &failure)) {
    reading.rows_pending = pending != 0;
    reading.rows_failed = failure != 0;
  }
  abi::FieldValue action{};
  action.field = abi::kFieldRecoveryAction;
  if (library_->call("nvmlDeviceGetFieldValues", api_.field_values, device, 1, &action) &&
      action.result == Return::success &&
      action.value_type == static_cast<unsigned>(abi::ValueType::word))
    reading.recovery = static_cast<int>(std::min(action.value.word, 1000u));
  return reading;
}

std::vector<HealthEvent> NvmlHealth::look() {
  std::vector<HealthEvent> news;
  take_events(news);
  find_gpus();
  for (auto& [uuid, gpu] : gpus_) {
    hear_events_of(uuid, gpu);
    const HealthReading now =
        gpu.lost ? HealthReading{.gpu_uuid = uuid, .lost = true} : read(uuid, gpu.device);
    for (HealthEvent& one : changes_.hear(now)) news.push_back(std::move(one));
  }
  return news;
}

}  // namespace

Result<std::unique_ptr<device::HealthWatch>> watch_nvml(const std::string& library) {
  auto loaded = TRY(NvmlLibrary::open(library));
  return std::make_unique<NvmlHealth>(std::move(loaded));
}

}  // namespace partita::drivers::nvml_mig
