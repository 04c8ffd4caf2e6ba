#include "queue/host/instances.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "device/node_driver.h"

namespace partita::queue {
namespace {

constexpr const char* kOwner = "queue";

}  // namespace

LeasedInstances::LeasedInstances(lease::LeaseDoors doors, std::string log,
                                 std::function<Result<FileLock>()> lock)
    : doors_(std::move(doors)), log_(std::move(log)), lock_(std::move(lock)) {}

Result<lease::Outcome> LeasedInstances::ask(const lease::Ask& ask) {
  const auto lock = TRY(lock_());
  auto leases = TRY(lease::Leases::open(doors_, log_));
  return leases.ask(ask);
}

std::string LeasedInstances::owner_of(const Place& place) const {
  const auto gpu = gpus_.find(place.gpu);
  return fmt::format("{}/{}.{}@{}", kOwner, gpu == gpus_.end() ? "" : gpu->second, place.profile,
                     place.start);
}

int LeasedInstances::number_of(const std::string& uuid) const {
  const auto found = std::ranges::find(gpus_, uuid, [](const auto& gpu) { return gpu.second; });
  return found == gpus_.end() ? -1 : found->first;
}

// Where the driver has it now.
Result<int> LeasedInstances::index_of(int gpu) {
  const auto known = gpus_.find(gpu);
  const auto node = TRY(device::read_node(doors_.driver));
  const auto* const now = known == gpus_.end() ? nullptr : node.find(known->second);
  if (now != nullptr) return now->index;
  return failed({ErrorCode::not_found, fmt::format("GPU {} is not there", gpu), ""});
}

Result<std::string> LeasedInstances::create(const Place& place) {
  lease::Take take{.owner = owner_of(place), .profile = place.profile};
  take.gpu = TRY(index_of(place.gpu));
  take.start = place.start;
  take.exact = true;
  const auto outcome = TRY(ask(take));
  if (outcome.refused) return failed(lease::error_of(*outcome.refused));
  return outcome.leases.front().uuid;
}

Result<void> LeasedInstances::destroy(const Place& place) {
  const auto outcome = TRY(ask(lease::Return{owner_of(place)}));
  if (outcome.refused) return failed(lease::error_of(*outcome.refused));
  return {};
}

Result<telemetry::Sample> LeasedInstances::sample(Seconds at) {
  const auto info = TRY(doors_.driver.info());
  telemetry::Sample sample{.at = at};
  for (int gpu = 0; gpu < info.gpus; ++gpu)
    if (auto read = doors_.driver.telemetry(gpu)) sample.gpus.push_back(*std::move(read));
  return sample;
}

Result<InstanceDoor::Seen> LeasedInstances::look() {
  const auto outcome = TRY(ask(lease::Sweep{}));
  const auto node = TRY(device::read_node(doors_.driver));
  if (gpus_.empty())
    for (const device::GpuState& gpu : node.gpus) gpus_[gpu.index] = gpu.uuid;
  Seen seen;
  for (const lease::Lease& one : outcome.leases) {
    const Place place{one, number_of(one.gpu_uuid), one.uuid};
    if (one.owner == owner_of(place) && !one.uuid.empty()) seen.ours.push_back(place);
  }
  for (const device::GpuState& gpu : node.gpus) {
    const int number = number_of(gpu.uuid);
    const hw::GpuModel* const model = gpu.lost ? doors_.catalogue.find(gpu.model) : nullptr;
    if (model != nullptr)  // nothing is planned there
      seen.others.push_back(
          {{std::ranges::max_element(model->profiles, {}, &hw::MigProfile::gpcs)->name, 0},
           number,
           ""});
    for (const device::Instance& instance : gpu.instances) {
      const bool ours = std::ranges::any_of(seen.ours, [&](const Place& place) {
        return place.gpu == number && place.device == instance.uuid();
      });
      if (!ours) seen.others.push_back({instance, number, ""});
    }
  }
  return seen;
}

}  // namespace partita::queue
