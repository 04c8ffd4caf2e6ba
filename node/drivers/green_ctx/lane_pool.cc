#include "drivers/green_ctx/lane_pool.h"

#include <fmt/format.h>

namespace partita::drivers::green_ctx {

Result<std::shared_ptr<LanePool>> LanePool::open(const Options& options) {
  auto split = TRY(open_split(options.vendor_library, options.gpu, options.atom));
  return std::shared_ptr<LanePool>(new LanePool(std::move(split.gpu), std::move(split.atoms)));
}

int LanePool::free_atoms() const { return static_cast<int>(atoms_.groups.size() - taken_.count()); }

int LanePool::free_units() const {
  const std::lock_guard lock(mutex_);
  return free_atoms() * atoms_.size;
}

void LanePool::give_back(const hw::UnitMask& atoms) {
  const std::lock_guard lock(mutex_);
  taken_ &= ~atoms;
  const Current current(*gpu_);
  pool_.trim();
}

Result<std::shared_ptr<const PoolLane>> LanePool::take(int units) {
  if (units == 0) return share(0, this->units());
  const int wanted = (units + atoms_.size - 1) / atoms_.size;
  const auto all = static_cast<int>(atoms_.groups.size());
  const std::string call = fmt::format("a lane of {} SMs", units);
  if (units < 0 || wanted > all)
    return failed(
        {ErrorCode::limit,
         fmt::format("masks of this GPU have {} to {} SMs", atoms_.size, all * atoms_.size), call});
  const std::lock_guard lock(mutex_);
  if (wanted > free_atoms())
    return failed(
        {ErrorCode::no_room,
         fmt::format("{} of {} SMs are free", free_atoms() * atoms_.size, all * atoms_.size),
         call});
  hw::UnitMask atoms;
  for (std::size_t i = 0; static_cast<int>(atoms.count()) < wanted; ++i)
    if (!taken_[i]) atoms.set(i);
  auto lane = lane_on(atoms, atoms);
  if (lane) taken_ |= atoms;
  return lane;
}

Result<std::shared_ptr<const PoolLane>> LanePool::share(int first, int units) {
  const auto all = static_cast<int>(atoms_.groups.size());
  const int wanted = (units + atoms_.size - 1) / atoms_.size;
  if (units >= all * atoms_.size)
    return std::make_shared<const PoolLane>(shared_from_this(), hw::UnitMask{}, hw::UnitMask{},
                                            nullptr);
  hw::UnitMask atoms;
  for (int i = 0; i < wanted; ++i) atoms.set(static_cast<std::size_t>((first + i) % all));
  const std::lock_guard lock(mutex_);
  return lane_on(atoms, hw::UnitMask{});
}

Result<std::shared_ptr<const PoolLane>> LanePool::lane_on(const hw::UnitMask& atoms,
                                                          const hw::UnitMask& own) {
  const Current current(*gpu_);
  auto context = TRY(pool_.take(atoms_, atoms));
  return std::make_shared<const PoolLane>(shared_from_this(), atoms, own, std::move(context));
}

PoolLane::~PoolLane() {
  context_.reset();
  pool_->give_back(own_);
}

int PoolLane::units() const {
  return context_ ? static_cast<int>(atoms_.count()) * pool_->atoms_.size : pool_->units();
}

Result<abi::Stream> PoolLane::create_stream(int priority) const {
  const CudaApi& api = pool_->gpu_->api();
  const Current current(*pool_->gpu_);
  abi::Stream stream = nullptr;
  const abi::Return code = context_ ? api.create_green_stream(&stream, context_->handle,
                                                              abi::kStreamNonBlocking, priority)
                                    : api.create_stream(&stream, abi::kStreamNonBlocking);
  TRY(pool_->gpu_->library().checked(code, "a stream of a lane"));
  return stream;
}

}  // namespace partita::drivers::green_ctx
