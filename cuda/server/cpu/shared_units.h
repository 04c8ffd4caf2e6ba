// SharedUnits: the units (threads) of a process, the kernels of its sessions on them, and where a
// session's kernels run: a Placing, which a Tenant is given by who knows all of them.
// Thread rule: any thread, at the same time.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "drivers/cpu_mask/cpu_mask_driver.h"
#include "lanes/phase_share.h"

namespace partita::remote::cpu {

// Where the kernels of a session run. Constant.
struct Placing {
  std::vector<std::string> kernels = {};  // of a request, in its order
  // Of each of them, and behind them of those that are none of them. Empty: `live` says it.
  std::vector<hw::UnitMask> masks = {};
  // Once a kernel may begin, given how many run on each unit; nothing: it waits until one ends.
  // `kernel`: its place above, or behind the last.
  std::function<std::optional<hw::UnitMask>(std::size_t kernel, const std::vector<int>& running)>
      live = {};
  // Where given, kernels are of a phase, prefill or decode, and nothing else says where they run:
  // `masks` are of all units, then of prefill's and decode's, border by border.
  lanes::PhaseUse phases = {};
};

// A session among those who share units; it goes with this object.
class Tenant {
 public:
  virtual ~Tenant() = default;
  // Asked where a request begins; with the first one it comes.
  virtual std::shared_ptr<const Placing> placing() = 0;
  // A kernel came that is not the placing's.
  virtual void unplanned() {}
};

class SharedUnits {
 public:
  static Result<std::shared_ptr<SharedUnits>> open(int units);

  drivers::cpu_mask::CpuMaskDriver& driver() { return *driver_; }
  int units() const { return units_; }

  using Choose = std::function<std::optional<hw::UnitMask>(const std::vector<int>& running)>;
  // Units for a kernel that begins now. Nothing where `choose` gives none: `again` is called, once,
  // when a kernel has ended, from the thread that ended it.
  std::optional<hw::UnitMask> take(const Choose& choose, std::function<void()> again);
  void give_back(const hw::UnitMask& mask);

 private:
  SharedUnits(int units, std::unique_ptr<drivers::cpu_mask::CpuMaskDriver> driver)
      : units_(units), driver_(std::move(driver)), running_(static_cast<std::size_t>(units)) {}

  const int units_;
  const std::unique_ptr<drivers::cpu_mask::CpuMaskDriver> driver_;
  std::mutex mutex_;
  std::vector<int> running_;  // kernels on each unit
  std::vector<std::function<void()>> waiting_;
};

}  // namespace partita::remote::cpu
