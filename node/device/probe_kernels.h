// ProbeKernels: kernels that the devices of one LaneDriver can run and that tell where and when
// they ran or take a known amount of work: what the conformance suite and `partita probe lanes` are
// made of. Each driver brings its own, on threads or on a GPU; they outlive the kernels they made.
// Thread rule: one thread; work-groups note themselves from wherever they run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "device/lane_driver.h"

namespace partita::device {

// What a work-group notes of itself.
struct GroupNote {
  std::int64_t group = 0;
  int unit = 0;  // it ran on
  // Of one counter that all work-groups of the device draw from, at their begin and at their end.
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class ProbeKernels {
 public:
  virtual ~ProbeKernels() = default;

  // A kernel whose work-groups note themselves, to be launched at most once. `number` is the
  // caller's, at least 0, and comes once. A closed one does not end before it is opened.
  virtual Result<Kernel> noting(int number, std::int64_t groups, bool closed) = 0;
  // Lets a closed kernel end.
  virtual void open(int number) = 0;
  // The notes of a kernel whose lane was synchronised since, in any order: one for each time that a
  // work-group ran.
  virtual std::vector<GroupNote> notes(int number) = 0;

  // A kernel whose work-groups compute for `rounds` steps that depend on each other, without
  // memory; may be launched often.
  virtual Result<Kernel> computing(std::int64_t groups, std::int64_t rounds) = 0;
  // A kernel whose work-groups read `bytes` (rounded up to what the device reads at once) of a
  // memory larger than its caches; may be launched often.
  virtual Result<Kernel> reading(std::int64_t groups, std::int64_t bytes) = 0;

  // Bytes of the device's memory that are free; nothing where lanes take none of it.
  virtual Result<std::optional<std::int64_t>> free_memory() = 0;
};

}  // namespace partita::device
