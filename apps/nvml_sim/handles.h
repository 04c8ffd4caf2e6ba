// Handles: the opaque values that stand for GPUs, instances, MIG devices and event sets in the C
// interface. They are numbers, not addresses: one that was never given out, or whose thing is gone,
// is recognised and never followed. The same thing keeps its handle; no handle is used twice.
// Thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace partita::nvml_sim {

struct Entity {
  enum class Kind { gpu, mig_device, gpu_instance, compute_instance, event_set };
  Kind kind = Kind::gpu;
  int gpu = -1, gi_id = -1, ci_id = -1;
  // What tells it from a later one with the same ids: the UUID of a compute instance, profile and
  // start of a GPU instance.
  std::string mark = {};
  auto operator<=>(const Entity&) const = default;
};

class Handles {
 public:
  // The handle of `entity`, made when it has none yet.
  template <class Handle>
  Handle of(const Entity& entity) {
    return reinterpret_cast<Handle>(number(entity));
  }
  // What a client's value stands for; nothing when it is none of ours, or was forgotten.
  template <class Handle>
  std::optional<Entity> find(Handle handle) const {
    return entity(reinterpret_cast<std::uintptr_t>(handle));
  }
  // The thing is gone; its handle stands for nothing from now on.
  void forget(const Entity& entity);

 private:
  std::uintptr_t number(const Entity& entity);
  std::optional<Entity> entity(std::uintptr_t number) const;

  mutable std::mutex mutex_;
  std::map<Entity, std::uintptr_t> numbers_;
  std::map<std::uintptr_t, Entity> entities_;
  std::uintptr_t next_ = 0x4E56'0000'0000;  // in the range of addresses, so that garbage
                                            // collectors that look at it are content
};

}  // namespace partita::nvml_sim
