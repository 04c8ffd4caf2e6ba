#include "mps_workers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>

#include "flags.h"

namespace partita::cli {
namespace {

namespace mps = drivers::mps;
using actuate::AssignedSegment;
using actuate::Environment;

Result<std::vector<mps::Share>> listed_shares(const std::string& text) {
  std::vector<mps::Share> shares;
  for (const std::string& word : split(text, ',')) {
    mps::Share share;
    const auto [end, code] =
        std::from_chars(word.data(), word.data() + word.size(), share.percentage);
    if (code != std::errc{} || end != word.data() + word.size())
      return bad_input("--mps-shares", fmt::format("'{}' is no percentage", word));
    shares.push_back(share);
  }
  return shares;
}

Result<std::vector<mps::Share>> shares_of(const MpsFlags& flags, int processes) {
  if (processes > mps::kMaxClients) {
    const mps::ShareFault fault{.constraint = mps::ShareFault::Constraint::clients,
                                .client = -1,
                                .have = mps::kMaxClients,
                                .need = static_cast<double>(processes)};
    return bad_input("--mps", mps::to_string(fault));
  }
  if (flags.shares == "none") return std::vector(static_cast<std::size_t>(processes), mps::Share{});
  if (flags.shares == "equal") return mps::equal_shares(processes, {});
  Result<std::vector<mps::Share>> listed = listed_shares(flags.shares);
  if (listed && listed->size() != static_cast<std::size_t>(processes)) {
    return bad_input("--mps-shares", fmt::format("{} percentages for a segment of {} processes",
                                                 listed->size(), processes));
  }
  return listed;
}

Result<std::vector<Environment>> prepare(const mps::Doors& doors, const MpsFlags& flags,
                                         const AssignedSegment& segment) {
  const auto count = static_cast<std::size_t>(segment.processes);
  if (!flags.on || segment.processes < 2) return std::vector<Environment>(count);
  const Result<std::vector<mps::Share>> shares = shares_of(flags, segment.processes);
  if (!shares) return failed(shares.error());
  const Result<mps::Place> place = mps::place_of(flags.runtime_directory, segment.device);
  if (!place) return failed(place.error());
  if (auto started = mps::Daemon(doors, *place).start(); !started) return failed(started.error());
  std::vector<Environment> environments;
  for (const mps::Share& share : *shares)
    environments.push_back(mps::client_environment(*place, share));
  return environments;
}

// Also without --mps: an earlier supervisor may have left a daemon.
Result<void> release(const mps::Doors& doors, const MpsFlags& flags,
                     const AssignedSegment& segment) {
  const Result<mps::Place> place = mps::place_of(flags.runtime_directory, segment.device);
  if (!place || !doors.files.is_directory(place->log_directory)) return {};
  return mps::Daemon(doors, *place).quit();
}

}  // namespace

std::string default_runtime_directory() {
  if (::geteuid() == 0) return "/run/partita";
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime != '\0') return std::string(runtime) + "/partita";
  return fmt::format("/tmp/partita-{}", ::geteuid());
}

Result<void> check_shares(const MpsFlags& flags) {
  if (flags.shares == "none" || flags.shares == "equal") return {};
  const Result<std::vector<mps::Share>> shares = listed_shares(flags.shares);
  if (!shares) return failed(shares.error());
  const auto faults = mps::check_shares(*shares, {.oversubscribed = flags.oversubscribe});
  if (!faults.empty()) return bad_input("--mps-shares", mps::to_string(faults.front()));
  return {};
}

actuate::WorkerHooks mps_hooks(Context& context, Processes& processes, const MpsFlags& flags) {
  const mps::Doors doors{processes, context.files, context.clock};
  actuate::WorkerHooks hooks;
  hooks.prepare = [doors, flags](const AssignedSegment& segment) {
    return prepare(doors, flags, segment);
  };
  hooks.release = [doors, flags](const AssignedSegment& segment) {
    return release(doors, flags, segment);
  };
  return hooks;
}

}  // namespace partita::cli
