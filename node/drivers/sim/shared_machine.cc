// SharedMachine in memory, and what both kinds of it do alike.
#include "drivers/sim/shared_machine.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>

#include "base/error_code.h"

namespace partita::drivers::sim {
namespace {

using device::Fault;

// As of a process that was killed.
constexpr int kDiedStatus = 137;

std::optional<Fault> fault_of(const std::vector<Fault>& script, std::string_view method,
                              const CallCount& count) {
  for (const Fault& fault : script)
    if (fault.method.empty() ? fault.call == count.of_all
                             : fault.method == method && fault.call == count.of_method)
      return fault;
  return std::nullopt;
}

Result<void> struck(const Fault& fault) {
  if (fault.dies) ::_exit(kDiedStatus);
  return failed(
      Error{fault.code, to_string(fault.code) + " (a fault of the machine's script)", {}});
}

class OwnMachine final : public SharedMachine {
 public:
  OwnMachine(Machine machine, Clock& clock, double speed, std::vector<Fault> faults,
             PowerRights rights)
      : SharedMachine(clock, speed, std::move(faults), rights), machine_(std::move(machine)) {}

  Result<void> with(const std::function<void(Machine&)>& use) override {
    const std::lock_guard guard(mutex_);
    use(machine_);
    machine_.settle(now_ns());
    return {};
  }

  Result<void> glance(const std::function<void(const Machine&)>& use) override {
    const std::lock_guard guard(mutex_);
    use(machine_);
    return {};
  }

 protected:
  Result<std::shared_ptr<void>> busy() override {
    return std::make_shared<std::unique_lock<std::mutex>>(busy_);
  }

 private:
  std::mutex mutex_, busy_;
  Machine machine_;
};

}  // namespace

Result<void> SharedMachine::change(std::string_view method,
                                   const std::function<Result<std::int64_t>(Machine&)>& effect) {
  std::optional<Fault> fault;
  if (!faults_.empty()) {
    const auto counted = with(
        [&](Machine& machine) { fault = fault_of(faults_, method, machine.count_call(method)); });
    if (!counted) return counted;
  }
  if (fault) {
    clock_.sleep_ns(fault->hang_ns);
    if (!fault->after_effect) return struck(*fault);
  }
  Result<std::int64_t> duration = 0;
  TRY(with([&](Machine& machine) { duration = effect(machine); }));
  if (duration) {
    TRY(spend(*duration));
  }
  if (fault) return struck(*fault);
  if (!duration) return failed(duration.error());
  return {};
}

Result<void> SharedMachine::spend(std::int64_t duration_ns) {
  const auto scaled =
      static_cast<std::int64_t>(std::llround(static_cast<double>(duration_ns) * speed_));
  if (scaled <= 0) return {};
  const auto held = TRY(busy());
  clock_.sleep_ns(scaled);
  return {};
}

Result<void> SharedMachine::set_power(int gpu, const device::PowerSettings& settings) {
  const bool may = power_rights_ == PowerRights::anybody ||
                   (power_rights_ == PowerRights::root && ::geteuid() == 0);
  if (!may) return failed({ErrorCode::denied, "power limits and clocks are set by root", {}});
  return change("set_power_settings", [&](Machine& machine) -> Result<std::int64_t> {
    TRY(machine.set_power(gpu, settings, now_ns()));
    return 0;
  });
}

std::unique_ptr<SharedMachine> own_machine(Machine machine, Clock& clock, double speed,
                                           std::vector<Fault> faults, PowerRights power_rights) {
  return std::make_unique<OwnMachine>(std::move(machine), clock, speed, std::move(faults),
                                      power_rights);
}

}  // namespace partita::drivers::sim
