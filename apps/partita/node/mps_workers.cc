#include "node/mps_workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/parse_number.h"
#include "base/unicode.h"
#include "flags.h"

namespace partita::cli {
namespace {

namespace mps = drivers::mps;
using actuate::AssignedSegment;
using actuate::Environment;

// "PERCENT" or "PERCENT:MIB"
Result<mps::Share> parse_share(const std::string& word) {
  const std::size_t colon = word.find(':');
  const auto percentage = parse_number<double>(word.substr(0, colon));
  if (!percentage)
    return bad_input("--mps-shares",
                     fmt::format("'{}' is no percentage", utf8(printable(word.substr(0, colon)))));
  mps::Share share{.percentage = *percentage, .pinned_memory = {}};
  if (colon == std::string::npos) return share;
  const auto memory = parse_number<double>(word.substr(colon + 1));
  if (!memory || *memory < 1)
    return bad_input("--mps-shares", fmt::format("'{}' is not a number of MiB",
                                                 utf8(printable(word.substr(colon + 1)))));
  share.pinned_memory = {*memory};
  return share;
}

Result<ShareRule> parse_rule(const std::string& text, bool oversubscribe) {
  ShareRule rule;
  const std::size_t equals = text.rfind('=');  // services may have one in their names
  const std::string what = equals == std::string::npos ? text : text.substr(equals + 1);
  if (equals != std::string::npos) rule.service = text.substr(0, equals);
  if (what == "equal") return rule;
  rule.kind = what == "none" ? ShareRule::Kind::none : ShareRule::Kind::listed;
  if (what == "none") return rule;
  for (const std::string& word : split(what, ',')) {
    const mps::Share share = TRY(parse_share(word));
    rule.shares.push_back(share);
  }
  const auto faults = mps::check_shares(rule.shares, {.oversubscribed = oversubscribe});
  if (!faults.empty()) return bad_input("--mps-shares", mps::to_string(faults.front()));
  return rule;
}

bool applies(const ShareRule& rule, const AssignedSegment& segment) {
  const auto processes = static_cast<std::size_t>(segment.processes);
  return (rule.service.empty() || rule.service == segment.service) &&
         (rule.kind != ShareRule::Kind::listed || rule.shares.size() == processes);
}

// The most memory that an instance of this profile has on any GPU model; 0: unknown.
Mib memory_of(const hw::Catalogue& catalogue, const std::string& profile) {
  Mib most;
  for (const hw::GpuModel& model : catalogue.gpus) {
    const int index = model.profile_index(profile);
    if (index < 0) continue;
    most = std::max(most, model.profiles[static_cast<std::size_t>(index)].memory.value_or(Mib{}));
  }
  return most;
}

struct Rules {
  MpsFlags flags;
  std::vector<ShareRule> shares;
};

Result<std::vector<mps::Share>> shares_of(const Rules& rules, const hw::Catalogue& catalogue,
                                          const AssignedSegment& segment) {
  const auto found = std::ranges::find_if(
      rules.shares, [&](const ShareRule& rule) { return applies(rule, segment); });
  const ShareRule rule = found == rules.shares.end() ? ShareRule{} : *found;
  const auto count = static_cast<std::size_t>(segment.processes);
  std::vector<mps::Share> shares(count);
  if (rule.kind == ShareRule::Kind::listed) shares = rule.shares;
  if (rule.kind == ShareRule::Kind::equal && segment.processes <= mps::kMaxClients)
    shares = mps::equal_shares(segment.processes, {});
  // Without percentages everybody may use all threads.
  const bool free = rules.flags.oversubscribe || rule.kind == ShareRule::Kind::none;
  const auto faults = mps::check_shares(
      shares, {.memory = memory_of(catalogue, segment.profile), .oversubscribed = free});
  if (!faults.empty()) return bad_input("--mps-shares", mps::to_string(faults.front()));
  return shares;
}

Result<std::vector<Environment>> prepare(const mps::Doors& doors, const Rules& rules,
                                         const hw::Catalogue& catalogue,
                                         const AssignedSegment& segment) {
  const auto count = static_cast<std::size_t>(segment.processes);
  const bool lanes = segment.prefill_units > 0;
  if (!rules.flags.on || (segment.processes < 2 && !lanes)) return std::vector<Environment>(count);
  // Lanes are processes of the worker, which gives each its share.
  const std::vector<mps::Share> shares =
      TRY(lanes ? std::vector<mps::Share>(count) : shares_of(rules, catalogue, segment));
  const mps::Place place = TRY(mps::place_of(rules.flags.runtime_directory, segment.device));
  TRY(mps::Daemon(doors, place).start());
  std::vector<Environment> environments;
  for (const mps::Share& share : shares)
    environments.push_back(mps::client_environment(place, share));
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

Result<std::vector<ShareRule>> share_rules(const MpsFlags& flags) {
  std::vector<ShareRule> rules;
  for (const std::string& text : flags.shares) {
    ShareRule rule = TRY(parse_rule(text, flags.oversubscribe));
    rules.push_back(std::move(rule));
  }
  std::ranges::stable_partition(rules, [](const ShareRule& rule) { return !rule.service.empty(); });
  return rules;
}

actuate::WorkerHooks mps_hooks(const MpsWorkers& world, const MpsFlags& flags,
                               std::vector<ShareRule> rules) {
  const mps::Doors doors{world.processes, world.context.files, world.context.clock};
  const Rules how{flags, std::move(rules)};
  actuate::WorkerHooks hooks;
  hooks.prepare = [doors, how, &catalogue = world.catalogue](const AssignedSegment& segment) {
    return prepare(doors, how, catalogue, segment);
  };
  hooks.release = [doors, flags](const AssignedSegment& segment) {
    return release(doors, flags, segment);
  };
  return hooks;
}

}  // namespace partita::cli
