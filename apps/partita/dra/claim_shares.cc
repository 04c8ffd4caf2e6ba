#include "dra/claim_shares.h"

#include <fmt/format.h>

#include "act/power_guard.h"
#include "node/state_dir.h"

namespace partita::cli {

namespace mps = drivers::mps;

ClaimShares::ClaimShares(Context& context, const OpenDriver& open, const std::string& directory)
    : context_(context),
      open_(open),
      journal_(actuate::power_journal_path(directory)),
      runtime_(directory + "/mps") {}

void ClaimShares::add_to(dra::NodeDoor& door) {
  door.mps_edits = [this](const std::string& uuid, const dra::MpsShare& share) {
    return edits(uuid, share);
  };
  door.start_mps = [this](const std::string& uuid) { return start(uuid); };
  door.quit_mps = [this](const std::string& uuid) { return quit(uuid); };
  door.may_cap = [this](int gpu, double watts) { return may_cap(gpu, watts); };
  door.cap = [this](const std::map<std::string, double>& watts) { return cap(watts); };
}

Result<dra::MpsEdits> ClaimShares::edits(const std::string& uuid,
                                         const dra::MpsShare& share) const {
  const auto place = TRY(mps::place_of(runtime_, uuid));
  return dra::MpsEdits{
      mps::client_environment(place, {share.thread_percentage, {share.memory_mib.value_or(0)}}),
      place.pipe_directory};
}

Result<void> ClaimShares::start(const std::string& uuid) {
  const auto place = TRY(mps::place_of(runtime_, uuid));
  return mps::Daemon({processes_, context_.files, context_.clock}, place).start();
}

Result<void> ClaimShares::quit(const std::string& uuid) {
  const auto place = mps::place_of(runtime_, uuid);
  if (!place || !context_.files.is_directory(place->log_directory)) return {};
  return mps::Daemon({processes_, context_.files, context_.clock}, *place).quit();
}

Result<void> ClaimShares::may_cap(int gpu, double watts) const {
  const auto board = TRY(open_.driver->power_settings(gpu));
  const double least = board.least_limit.value_or(Watts{}).value;
  const double most = board.most_limit.value_or(Watts{watts}).value;
  if (watts >= least && watts <= most) return {};
  return bad_input("powerCapWatts",
                   fmt::format("GPU {} takes {:g} to {:g} W, not {:g}", gpu, least, most, watts));
}

Result<void> ClaimShares::cap(const std::map<std::string, double>& watts) {
  if (watts.empty() && !context_.files.exists(journal_)) return {};
  const auto info = TRY(open_.driver->info());
  std::set<std::string> capped;
  std::vector<std::string> uuids;
  std::map<int, double> by_index;
  for (int gpu = 0; gpu < info.gpus; ++gpu) {
    const auto state = TRY(open_.driver->read(gpu));
    uuids.push_back(state.uuid);
    if (const auto found = watts.find(state.uuid); found != watts.end()) {
      by_index[gpu] = found->second;
      capped.insert(state.uuid);
    }
  }
  const auto lock = TRY(lock_gpus(context_, open_, uuids));
  auto guard =
      TRY(actuate::PowerGuard::open(context_.files, journal_, *open_.driver, gpu_prefix(open_)));
  for (const auto& [gpu, most] : by_index) {
    const auto now = TRY(open_.driver->power_settings(gpu));
    device::PowerSettings wanted = now.now;
    wanted.limit = Watts{most};
    if (auto set = guard.set(gpu, wanted); !set) return set;
  }
  return guard.restore(capped);
}

}  // namespace partita::cli
