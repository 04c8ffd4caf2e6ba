// ContextPool: green contexts by the atoms that they have. A set of atoms that comes again gets the
// context that it had; of those that nobody uses kMaxIdleContexts are kept, the least recently used
// go first. Thread rule: one call at a time, with the primary context current.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "drivers/green_ctx/atoms.h"

namespace partita::drivers::green_ctx {

inline constexpr std::size_t kMaxIdleContexts = 32;

// A green context, destroyed with its last owner; its streams must be destroyed before.
struct GreenContext {
  explicit GreenContext(std::shared_ptr<const PrimaryContext> on) : gpu(std::move(on)) {}
  ~GreenContext();
  GreenContext(const GreenContext&) = delete;
  GreenContext& operator=(const GreenContext&) = delete;

  std::shared_ptr<const PrimaryContext> gpu;
  abi::GreenContext handle = nullptr;
  abi::Context context = nullptr;  // to name it where CUDA wants a context
};

class ContextPool {
 public:
  explicit ContextPool(std::shared_ptr<const PrimaryContext> gpu) : gpu_(std::move(gpu)) {}

  // The context of these atoms (bit i: groups[i]), at least one.
  Result<std::shared_ptr<const GreenContext>> take(const Atoms& atoms, const hw::UnitMask& which);
  // Lets go of idle contexts beyond `keep`.
  void trim(std::size_t keep = kMaxIdleContexts);
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    hw::UnitMask atoms;
    std::shared_ptr<const GreenContext> context;
    std::int64_t used = 0;  // when it was last taken
  };
  Result<std::shared_ptr<const GreenContext>> create(const Atoms& atoms, const hw::UnitMask& which);

  std::shared_ptr<const PrimaryContext> gpu_;
  std::vector<Entry> entries_;
  std::int64_t clock_ = 0;
};

}  // namespace partita::drivers::green_ctx
