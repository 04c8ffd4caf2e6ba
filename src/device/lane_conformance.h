// The suite that every LaneDriver passes: each sentence of lane_driver.h's contract as a check.
// Knows no driver; what it finds wrong comes back as sentences. It uses a driver that is lent to it
// without lanes and events, and leaves it so. What ran where and when is told by the kernels
// themselves, which the subject makes. Limits: kMaxLaneViolations sentences.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "device/lane_driver.h"

namespace partita::device {

inline constexpr std::size_t kMaxLaneViolations = 40;

// What a work-group notes of itself.
struct GroupNote {
  std::int64_t group = 0;
  int unit = 0;  // it ran on
  // Of one counter that all work-groups of the device draw from, at their begin and at their end.
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct LaneSubject {
  LaneDriver& driver;
  // A kernel whose work-groups note themselves. A closed one does not end before it is opened.
  std::function<Kernel(int number, std::int64_t groups, bool closed)> kernel;
  std::function<void(int number)> open;
  // The notes of a kernel that has finished, in any order.
  std::function<std::vector<GroupNote>(int number)> notes;
};

// What the driver does otherwise than the contract says; empty when it conforms.
std::vector<std::string> check_lanes(const LaneSubject& subject);

}  // namespace partita::device
