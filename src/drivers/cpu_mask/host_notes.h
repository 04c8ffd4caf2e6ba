// HostNotes: kernels on threads whose work-groups note where and when they ran, for tests: the
// oracle of the conformance suite and of random programs. Independent of any dispatcher: the unit
// is what the thread calls itself. Outlives the driver that runs its kernels. Thread rule: kernel()
// before the launch, notes() after the lane was synchronised; one thread calls them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "device/lane_conformance.h"
#include "drivers/cpu_mask/cpu_mask_driver.h"

namespace partita::drivers::cpu_mask {

class HostNotes {
 public:
  device::Kernel kernel(int number, std::int64_t groups, bool closed) {
    if (kernels_.size() <= static_cast<std::size_t>(number))
      kernels_.resize(static_cast<std::size_t>(number) + 1);
    Notes& notes = at(number);
    notes.groups = std::vector<Cell>(static_cast<std::size_t>(groups));
    notes.open = !closed;
    return {groups, device::HostKernel{[this, &notes](std::int64_t group) {
              Cell& cell = notes.groups[static_cast<std::size_t>(group)];
              const std::int64_t begin = ++stamps_;
              notes.open.wait(false);
              cell.runs.fetch_add(1, std::memory_order_relaxed);
              cell.note = {group, this_unit(), begin, ++stamps_};
            }}};
  }

  void open(int number) {
    at(number).open = true;
    at(number).open.notify_all();
  }

  // One note for each time that a work-group ran.
  std::vector<device::GroupNote> notes(int number) {
    std::vector<device::GroupNote> all;
    for (const Cell& cell : at(number).groups) all.insert(all.end(), cell.runs.load(), cell.note);
    return all;
  }

  device::LaneSubject subject(device::LaneDriver& driver) {
    return {driver, [this](int n, std::int64_t g, bool closed) { return kernel(n, g, closed); },
            [this](int n) { open(n); }, [this](int n) { return notes(n); }};
  }

 private:
  struct Cell {
    std::atomic<std::size_t> runs = 0;
    device::GroupNote note;
  };
  struct Notes {
    std::vector<Cell> groups;
    std::atomic<bool> open = true;
  };
  Notes& at(int number) { return kernels_[static_cast<std::size_t>(number)]; }

  std::deque<Notes> kernels_;
  std::atomic<std::int64_t> stamps_ = 0;
};

}  // namespace partita::drivers::cpu_mask
