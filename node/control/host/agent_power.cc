#include "control/host/agent_power.h"

#include <algorithm>

namespace partita::control {

Result<actuate::PowerGuard> AgentPower::guard() {
  return actuate::PowerGuard::open(doors_.files, actuate::power_journal_path(doors_.state_dir),
                                   doors_.driver, doors_.marks);
}

std::vector<PowerBoard> AgentPower::read(const std::vector<std::string>& uuids) {
  std::vector<PowerBoard> boards;
  std::vector<int> unknown;
  double most = 0;  // that any board can be limited to
  for (int gpu = 0; gpu < static_cast<int>(uuids.size()); ++gpu) {
    const auto read = doors_.driver.power_settings(gpu);
    const auto last = last_.find(uuids[static_cast<std::size_t>(gpu)]);
    if (!read && last != last_.end()) {
      PowerBoard& board = boards.emplace_back(last->second);
      board.index = gpu;
      board.fixed = true;
      continue;
    }
    if (!read && read.error().code != ErrorCode::not_supported) unknown.push_back(gpu);
    if (!read || !read->now.limit || !read->least_limit) continue;
    PowerBoard board{.index = gpu, .uuid = uuids[static_cast<std::size_t>(gpu)]};
    board.least = read->least_limit->value;
    board.now = read->now.limit->value;
    board.state = *read;
    board.most = read->default_limit.value_or(read->most_limit.value_or(*read->now.limit)).value;
    most = std::max(most, read->most_limit.value_or(Watts{board.most}).value);
    last_[board.uuid] = board;
    boards.push_back(std::move(board));
  }
  for (const int gpu : unknown)
    if (most > 0)
      boards.push_back({.index = gpu,
                        .uuid = uuids[static_cast<std::size_t>(gpu)],
                        .least = most,
                        .most = most,
                        .now = most,
                        .fixed = true});
  return boards;
}

void AgentPower::set(const std::vector<PowerDeed>& deeds) {
  if (deeds.empty() || doors_.dry_run) return;
  auto guarded = guard();
  for (const PowerDeed& deed : deeds) {
    Result<void> outcome =
        guarded ? guarded->set(deed.gpu, deed.settings) : Result<void>(failed(guarded.error()));
    const bool done = outcome.has_value();
    if (const auto last = last_.find(deed.uuid); last != last_.end() && deed.settings.limit) {
      double& now = last->second.now;
      now = done ? deed.settings.limit->value : std::max(now, deed.settings.limit->value);
    }
    ends_.push_back({deed.uuid, std::move(outcome)});
    if (!done && deed.lowers()) return;  // what it has cannot go to others
  }
}

Result<void> AgentPower::put_back() {
  if (doors_.dry_run) return {};
  auto guarded = guard();
  return guarded ? guarded->restore() : failed(guarded.error());
}

}  // namespace partita::control
