// Events: XIDs and double-bit ECC errors that the machine's GPUs report after somebody began to
// listen. Waiting looks at the machine every few milliseconds, since others may change it.
#include <algorithm>

#include "library.h"

namespace partita::nvml_sim {

namespace {

constexpr unsigned long long kEventTypes = 0x1F;  // ECC errors, performance state, Xid, clocks
constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::int64_t kBetweenLooksNs = 5 * kNsPerMs;
constexpr int kDoubleBitXid = 48;

std::optional<int> number_of(abi::EventSet set) {
  const auto entity = Library::here().handles.find(set);
  if (!entity || entity->kind != Entity::Kind::event_set) return std::nullopt;
  return entity->ci_id;
}

// Looks once: timeout where there is nothing.
Return look(abi::EventSet set, abi::EventData* data) {
  return on_machine(given(data), [&](const Machine& machine) {
    const auto number = number_of(set);
    if (!number) return Return::invalid_argument;
    const auto heard = Library::here().event_sets.next(*number, machine);
    if (!heard) return Return::timeout;
    *data = heard->data;
    data->device = device_handle(heard->gpu);
    return Return::success;
  });
}

Return wait(abi::EventSet set, abi::EventData* data, unsigned timeout_ms) {
  RealClock& clock = Library::here().clock;
  const std::int64_t end = clock.now_ns() + timeout_ms * kNsPerMs;
  for (;;) {
    const Return seen = look(set, data);
    const std::int64_t left = end - clock.now_ns();
    if (seen != Return::timeout || left <= 0) return seen;
    clock.sleep_ns(std::min(left, kBetweenLooksNs));
  }
}

}  // namespace

int EventSets::make() {
  const std::lock_guard lock(mutex_);
  sets_[next_];
  return next_++;
}

void EventSets::forget(int set) {
  const std::lock_guard lock(mutex_);
  sets_.erase(set);
}

void EventSets::listen(int set, int gpu, unsigned long long types, long reported) {
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = sets_[set].try_emplace(gpu, Listening{types, reported});
  if (!is_new) at->second.types |= types;
}

std::optional<EventSets::Heard> EventSets::next(int set, const Machine& machine) {
  const std::lock_guard lock(mutex_);
  const auto found = sets_.find(set);
  if (found == sets_.end()) return std::nullopt;
  for (auto& [gpu, listening] : found->second) {
    const SimGpu* there = machine.find(gpu);
    if (there == nullptr) continue;
    for (const drivers::sim::SimXid& one : there->health.xids) {
      const auto as = [&](unsigned long long type) {
        const auto id = [](int n) { return n < 0 ? abi::kNoInstance : static_cast<unsigned>(n); };
        const auto code = type == abi::kEventXid ? static_cast<unsigned long long>(one.xid) : 0;
        return Heard{gpu, {nullptr, type, code, id(one.gi_id), id(one.ci_id)}};
      };
      if (listening.ecc && one.number == listening.heard) {
        listening.ecc = false;
        return as(abi::kEventDoubleBitEcc);
      }
      if (one.number <= listening.heard) continue;
      listening.heard = one.number;
      listening.ecc = one.xid == kDoubleBitXid && (listening.types & abi::kEventDoubleBitEcc) != 0;
      if ((listening.types & abi::kEventXid) != 0) return as(abi::kEventXid);
    }
  }
  return std::nullopt;
}

extern "C" {

Return nvmlEventSetCreate(abi::EventSet* set) {
  return on_machine(given(set), [&](const Machine&) {
    const Entity entity{.kind = Entity::Kind::event_set,
                        .ci_id = Library::here().event_sets.make()};
    return answer(set, Library::here().handles.of<abi::EventSet>(entity));
  });
}

Return nvmlEventSetFree(abi::EventSet set) {
  return on_machine(given(set), [&](const Machine&) {
    const auto number = number_of(set);
    if (!number) return Return::invalid_argument;
    Library::here().event_sets.forget(*number);
    Library::here().handles.forget(*Library::here().handles.find(set));
    return Return::success;
  });
}

Return nvmlEventSetWait(abi::EventSet set, abi::EventDataV1* data, unsigned timeout_ms) {
  abi::EventData whole{};
  const Return seen = wait(set, given(data) ? &whole : nullptr, timeout_ms);
  if (seen == Return::success) *data = {whole.device, whole.type, whole.data};
  return seen;
}
Return nvmlEventSetWait_v2(abi::EventSet set, abi::EventData* data, unsigned timeout_ms) {
  return wait(set, data, timeout_ms);
}

Return nvmlDeviceRegisterEvents(Device device, unsigned long long types, abi::EventSet set) {
  return on_gpu(device, given(set), [&](const Target& target) {
    const auto number = number_of(set);
    if (!number) return Return::invalid_argument;
    if ((types & ~kEventTypes) != 0) return Return::not_supported;
    Library::here().event_sets.listen(*number, target.index, types, target.gpu.health.reported);
    return Return::success;
  });
}

Return nvmlDeviceGetSupportedEventTypes(Device device, unsigned long long* types) {
  return on_gpu(device, given(types), [&](const Target&) { return answer(types, kEventTypes); });
}

}  // extern "C"

}  // namespace partita::nvml_sim
