// Joints: memory that steps of a pipeline have in common. What one step gives lies in pages of its
// slots, and those are pages of the next step's slots as well, in the gateway and in the workers of
// both: mapped once, when the pipeline is served, and no value is copied on its way. Slots are set
// apart for that in each step's pool, one of each in a lane; a lane is somebody's while he has it,
// and until no worker may write to any of its slots. Each worker has the pages of the tensors that
// go through its own step and no others, those that it reads for reading alone. Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "serve/wire/frames.h"

namespace partita::serve {

struct LiveService;

inline constexpr std::size_t kMostLanes = 64;  // of a pipeline,
inline constexpr std::size_t kLaneShare = 8;   // for which a pool gives one in so many of its slots

// A tensor that a step writes and others read; of one layout and size in all of them.
struct JointTensor {
  struct End {
    std::string service;
    std::size_t step = 0, tensor = 0;  // of the pipeline; of the model's outputs, or its inputs
    bool operator==(const End&) const = default;
  };
  End writer;
  std::vector<End> readers;
  std::size_t bytes = 0;  // of an item
  bool operator==(const JointTensor&) const = default;
};

// A slot of one pool.
struct PoolSlot {
  const void* pool = nullptr;  // SlotPool::mark()
  std::uint32_t slot = 0;
  bool operator==(const PoolSlot&) const = default;
};

struct JointDoors {
  std::function<std::shared_ptr<LiveService>(const std::string& service)> find;
  // To all workers of a service.
  std::function<void(const LiveService&, const Joint&, int descriptor)> tell;
};

// What a worker that comes later is told.
struct JointPages {
  Joint joint;
  std::shared_ptr<const Descriptor> memory = {};
};

class Joints {
 public:
  // Null where a service has no workers or too few slots.
  static std::shared_ptr<Joints> make(const JointDoors& doors, std::vector<JointTensor> tensors);

  const std::vector<JointTensor>& tensors() const { return tensors_; }
  bool alive() const;  // no pool has been replaced since
  // A lane of which nothing is in use.
  std::optional<std::size_t> take();
  void give_back(std::size_t lane) { taken_[lane] = false; }
  // Nothing: the step has no part in it.
  std::optional<PoolSlot> slot(std::size_t lane, std::size_t step) const;
  // Slots become what they were; false: some are in use still, and nothing has happened.
  bool undo(const JointDoors& doors);

 private:
  struct Part {
    std::size_t step = 0;
    std::weak_ptr<LiveService> service = {};
    std::shared_ptr<const int> pool = {};
    std::vector<std::uint32_t> slots = {};  // by lane
    std::vector<std::shared_ptr<const JointPages>> pages = {};
    bool torn = false;  // the kernel would not map some back: its slots stay apart
  };
  explicit Joints(std::vector<JointTensor> tensors) : tensors_(std::move(tensors)) {}
  static std::shared_ptr<LiveService> alive(const Part& part);
  Part* part_of(std::size_t step);
  bool join(const JointDoors& doors, const JointTensor& tensor);

  std::vector<JointTensor> tensors_;
  std::vector<Part> parts_;  // by step
  std::vector<bool> taken_;  // by lane
};

}  // namespace partita::serve
