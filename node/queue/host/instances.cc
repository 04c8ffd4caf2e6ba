#include "queue/host/instances.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "device/node_driver.h"

namespace partita::queue {
namespace {

constexpr const char* kOwner = "queue";

std::string owner_of(const Place& place) {
  return fmt::format("{}/{}.{}@{}", kOwner, place.gpu, place.profile, place.start);
}

}  // namespace

LeasedInstances::LeasedInstances(lease::LeaseDoors doors, std::string log,
                                 std::function<Result<FileLock>()> lock)
    : doors_(std::move(doors)), log_(std::move(log)), lock_(std::move(lock)) {}

Result<lease::Outcome> LeasedInstances::ask(const lease::Ask& ask) {
  const auto lock = TRY(lock_());
  auto leases = TRY(lease::Leases::open(doors_, log_));
  return leases.ask(ask);
}

Result<std::string> LeasedInstances::create(const Place& place) {
  lease::Take take{.owner = owner_of(place), .profile = place.profile};
  take.gpu = place.gpu;
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
  Seen seen;
  for (const lease::Lease& one : outcome.leases) {
    const Place place{one.gpu, one.profile, one.start, one.uuid};
    if (one.owner == owner_of(place) && !one.uuid.empty()) seen.ours.push_back(place);
  }
  const auto node = TRY(device::read_node(doors_.driver));
  for (const device::GpuState& gpu : node.gpus) {
    const hw::GpuModel* const model = gpu.lost ? doors_.catalogue.find(gpu.model) : nullptr;
    if (model != nullptr)  // nothing is planned there
      seen.others.push_back(
          {gpu.index, std::ranges::max_element(model->profiles, {}, &hw::MigProfile::gpcs)->name, 0,
           ""});
    for (const device::Instance& instance : gpu.instances) {
      const bool ours = std::ranges::any_of(seen.ours, [&](const Place& place) {
        return place.gpu == gpu.index && place.device == instance.uuid();
      });
      if (!ours) seen.others.push_back({gpu.index, instance.profile, instance.start, ""});
    }
  }
  return seen;
}

}  // namespace partita::queue
