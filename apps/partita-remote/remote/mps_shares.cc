#include "remote/mps_shares.h"

#include <fmt/format.h>

#include "base/parse_number.h"
#include "drivers/mps/daemon.h"

namespace partita::cli {
namespace {

namespace mps = drivers::mps;

constexpr const char* kFirstGpu = "0";  // as in CUDA_VISIBLE_DEVICES

struct DeviceShare {
  std::string device;
  mps::Share share;
};

Result<DeviceShare> share_of(const std::string& shape) {
  std::string_view rest = shape;
  const auto percentage = take_number<double>(rest);
  if (percentage && rest == "%") return DeviceShare{kFirstGpu, {*percentage, {}}};
  if (percentage && rest.starts_with("%=") && rest.size() > 2)
    return DeviceShare{std::string(rest.substr(2)), {*percentage, {}}};
  return bad_input(
      "--shape",
      fmt::format("'{}': a share is written 25%, or 25%=UUID of a GPU or MIG instance", shape));
}

// The daemons of a server.
class RunningDaemons {
 public:
  explicit RunningDaemons(Context& context) : context_(context) {}
  ~RunningDaemons() {
    for (const auto& daemon : daemons_)
      if (const auto quit = daemon->quit(); !quit) complain(context_, to_string(quit.error()));
  }
  RunningDaemons(const RunningDaemons&) = delete;

  Result<void> start(const std::string& folder, const std::string& device) {
    mps::Place place = TRY(mps::place_of(folder, device));
    auto daemon = std::make_unique<mps::Daemon>(
        mps::Doors{processes_, context_.files, context_.clock}, std::move(place));
    TRY(daemon->start());
    daemons_.push_back(std::move(daemon));
    return {};
  }

 private:
  Context& context_;
  RealProcesses processes_;
  std::vector<std::unique_ptr<mps::Daemon>> daemons_;
};

}  // namespace

bool MpsShares::is_share(const std::string& shape) {
  return shape.substr(0, shape.find('=')).ends_with('%');
}

Result<MpsShares> MpsShares::of(const std::vector<std::string>& shapes, const std::string& folder) {
  MpsShares all;
  all.folder_ = folder;
  std::map<std::string, std::vector<mps::Share>> devices;
  for (const std::string& shape : shapes) {
    if (!is_share(shape)) continue;
    const DeviceShare one = TRY(share_of(shape));
    const mps::Place place = TRY(mps::place_of(folder, one.device));
    devices[one.device].push_back(one.share);
    all.environments_[shape] = mps::client_environment(place, one.share);
    all.environments_[shape]["CUDA_VISIBLE_DEVICES"] = one.device;
  }
  for (const auto& [device, shares] : devices) {
    if (const auto faults = mps::check_shares(shares, {}); !faults.empty())
      return bad_input("--shape", fmt::format("of {}: {}", device, mps::to_string(faults.front())));
    all.devices_.push_back(device);
  }
  return all;
}

std::map<std::string, std::string> MpsShares::environment(const std::string& shape) const {
  const auto found = environments_.find(shape);
  return found == environments_.end() ? std::map<std::string, std::string>() : found->second;
}

Result<std::shared_ptr<void>> MpsShares::start(Context& context) const {
  auto daemons = std::make_shared<RunningDaemons>(context);
  for (const std::string& device : devices_) TRY(daemons->start(folder_, device));
  return std::shared_ptr<void>(std::move(daemons));
}

}  // namespace partita::cli
