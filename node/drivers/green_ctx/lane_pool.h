// LanePool: the SMs of one GPU, handed out by whole atoms to sessions of this process. A PoolLane
// has its atoms alone until it is gone (or all SMs together with everybody), and makes streams on
// them. Thread rule: any thread.
#pragma once

#include <memory>
#include <mutex>

#include "drivers/green_ctx/context_pool.h"
#include "drivers/green_ctx/green_ctx_driver.h"

namespace partita::drivers::green_ctx {

class PoolLane;

class LanePool : public std::enable_shared_from_this<LanePool> {
 public:
  // Errors as GreenCtxDriver::open's.
  static Result<std::shared_ptr<LanePool>> open(const Options& options);

  // So many SMs, rounded up to whole atoms, the first that are free; 0: all, shared with everybody.
  // no_room: not so many are free; limit: the GPU has fewer.
  Result<std::shared_ptr<const PoolLane>> take(int units);
  // So many SMs, rounded up to whole atoms, from atom `first` on (modulo their number), whoever
  // else has them; all SMs where the atoms do not suffice.
  Result<std::shared_ptr<const PoolLane>> share(int first, int units);
  int atom() const { return atoms_.size; }
  int units() const { return atoms_.topology.units(); }
  int free_units() const;

 private:
  friend class PoolLane;
  LanePool(std::shared_ptr<const PrimaryContext> gpu, Atoms atoms)
      : gpu_(std::move(gpu)), atoms_(std::move(atoms)), pool_(gpu_) {}
  int free_atoms() const;  // with mutex_
  // With mutex_; which of them are given back at the lane's end.
  Result<std::shared_ptr<const PoolLane>> lane_on(const hw::UnitMask& atoms,
                                                  const hw::UnitMask& own);
  void give_back(const hw::UnitMask& atoms);

  const std::shared_ptr<const PrimaryContext> gpu_;
  const Atoms atoms_;
  mutable std::mutex mutex_;  // of what follows
  ContextPool pool_;
  hw::UnitMask taken_;  // atoms
};

// Its streams must be destroyed before it.
class PoolLane {
 public:
  PoolLane(std::shared_ptr<LanePool> pool, hw::UnitMask atoms, hw::UnitMask own,
           std::shared_ptr<const GreenContext> context)
      : pool_(std::move(pool)), atoms_(atoms), own_(own), context_(std::move(context)) {}
  ~PoolLane();
  PoolLane(const PoolLane&) = delete;
  PoolLane& operator=(const PoolLane&) = delete;

  // A stream that waits for no default stream; the lower `priority`, the sooner.
  Result<abi::Stream> create_stream(int priority) const;
  int units() const;
  const hw::UnitMask& atoms() const { return atoms_; }  // none: all SMs

 private:
  const std::shared_ptr<LanePool> pool_;
  const hw::UnitMask atoms_, own_;
  std::shared_ptr<const GreenContext> context_;  // null: all SMs
};

}  // namespace partita::drivers::green_ctx
