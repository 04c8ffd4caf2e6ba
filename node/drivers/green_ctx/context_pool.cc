#include "drivers/green_ctx/context_pool.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace partita::drivers::green_ctx {

GreenContext::~GreenContext() {
  if (!handle) return;
  const Current current(*gpu);
  gpu->api().destroy_green(handle);
}

Result<std::shared_ptr<const GreenContext>> ContextPool::take(const Atoms& atoms,
                                                              const hw::UnitMask& which) {
  const auto known = std::ranges::find(entries_, which, &Entry::atoms);
  if (known != entries_.end()) {
    known->used = ++clock_;
    return known->context;
  }
  auto made = create(atoms, which);
  if (!made && made.error().code == ErrorCode::limit) {
    trim(0);  // what is only kept may be what is in the way
    made = create(atoms, which);
  }
  if (!made) return made;
  entries_.push_back({which, *made, ++clock_});
  return made;
}

Result<std::shared_ptr<const GreenContext>> ContextPool::create(const Atoms& atoms,
                                                                const hw::UnitMask& which) {
  std::vector<abi::Resource> groups;
  for (std::size_t i = 0; i < atoms.groups.size(); ++i)
    if (which[i]) groups.push_back(atoms.groups[i]);
  CHECK(!groups.empty());
  const std::string call = fmt::format("green_context(atoms {})", hw::mask_hex(which));
  const CudaApi& api = gpu_->api();
  const auto context = std::make_shared<GreenContext>(gpu_);
  abi::ResourceDesc description = nullptr;
  abi::Return code =
      api.describe(&description, groups.data(), static_cast<unsigned>(groups.size()));
  if (code == abi::Return::success)
    code =
        api.create_green(&context->handle, description, gpu_->device(), abi::kGreenDefaultStream);
  if (code == abi::Return::success) code = api.context_of_green(&context->context, context->handle);
  abi::Resource got = {};
  if (code == abi::Return::success)
    code = api.green_resource(context->handle, &got, abi::kResourceTypeSm);
  if (code != abi::Return::success) return failed(gpu_->library().error(code, call));
  const std::size_t wanted = groups.size() * static_cast<std::size_t>(atoms.size);
  if (got.sm.count != wanted)
    return environment_error(
        call, fmt::format("asked for {} SMs and got {}; is MPS on?", wanted, got.sm.count));
  return std::shared_ptr<const GreenContext>(context);
}

void ContextPool::trim(std::size_t keep) {
  const auto idle = [](const Entry& entry) { return entry.context.use_count() == 1; };
  auto left = static_cast<std::size_t>(std::ranges::count_if(entries_, idle));
  for (; left > keep; --left) {
    auto oldest = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry)
      if (idle(*entry) && (oldest == entries_.end() || entry->used < oldest->used)) oldest = entry;
    entries_.erase(oldest);
  }
}

}  // namespace partita::drivers::green_ctx
