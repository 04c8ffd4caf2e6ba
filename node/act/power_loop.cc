#include "act/power_loop.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace partita::actuate {
namespace {

Seconds since(std::int64_t start_ns, Clock& clock) {
  return Seconds{static_cast<double>(clock.now_ns() - start_ns) * 1e-9};
}

}  // namespace

device::PowerSettings on_board(const plan::Setting& setting, const device::PowerState& board) {
  device::PowerSettings settings;
  Mhz clock = setting.clock;
  if (!board.clocks.empty()) {
    const auto at = std::ranges::lower_bound(board.clocks, setting.clock);
    clock = at == board.clocks.end() ? board.clocks.back() : *at;
  }
  settings.clocks = {clock, clock};
  settings.limit = setting.cap ? setting.cap : board.now.limit;
  if (settings.limit && board.least_limit && board.most_limit)
    settings.limit = std::clamp(*settings.limit, *board.least_limit, *board.most_limit);
  return settings;
}

Result<PowerLoopReport> run_power_loop(const PowerLoop& loop, device::NodeDriver& driver,
                                       PowerGuard* guard, Clock& clock) {
  const auto board = TRY(driver.power_settings(loop.gpu));
  const std::int64_t start_ns = clock.now_ns();
  const auto poll_ns = static_cast<std::int64_t>(loop.policy.poll.value * 1e9);
  PowerLoopReport report;
  std::optional<device::PowerSettings> present;
  std::optional<Joules> first, last;
  std::optional<std::pair<std::vector<int>, std::vector<int>>> shares;  // units, batches
  const auto apply = [&](PowerStep step) -> Result<void> {
    step.settings = on_board(step.setting, board);
    step.changed = present != step.settings;
    const std::pair wanted{step.setting.units, step.setting.batches};
    step.shared = shares != wanted;
    if (step.shared && guard != nullptr && loop.share) TRY(loop.share(step.setting));
    shares = wanted;
    if (step.changed) {
      if (guard != nullptr) TRY(guard->set(loop.gpu, step.settings));
      ++report.changes;
      present = step.settings;
    }
    loop.tell(step);
    return {};
  };
  TRY(apply({.setting = loop.policy.start}));
  std::int64_t due = start_ns;
  while (true) {
    due = std::max(due + poll_ns, clock.now_ns());  // polls that were missed are not made up for
    if (loop.stopped(due - clock.now_ns())) break;
    PowerStep step;
    step.seen.at = since(start_ns, clock);
    const auto sample = TRY(driver.telemetry(loop.gpu));
    step.seen.power = sample.power;
    if (!first) first = sample.energy;
    last = sample.energy;
    auto services = loop.services(step.seen.at);
    step.blind = !services;
    if (!services) step.why = to_string(services.error());
    if (services) step.seen.services = *std::move(services);
    step.setting = step.blind ? loop.policy.start : loop.policy.decide(step.seen);
    ++report.polls;
    report.blind += step.blind;
    TRY(apply(std::move(step)));
  }
  report.time = since(start_ns, clock);
  if (first && last) report.energy = *last - *first;
  return report;
}

}  // namespace partita::actuate
