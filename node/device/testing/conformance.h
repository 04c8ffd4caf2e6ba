// The suite that every NodeDriver passes: each sentence of node_driver.h's contract as a check.
// Knows no driver; what it finds wrong comes back as sentences, so that a test, or a person before
// a real board, can print them. check_conformance() creates and destroys on a GPU that is lent to
// it empty, and leaves it empty; check_reading() changes nothing. Limits: kMaxViolations sentences.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/node_driver.h"
#include "hw/catalogue.h"

namespace partita::device {

inline constexpr std::size_t kMaxViolations = 40;

struct ConformanceSubject {
  NodeDriver& driver;
  // A GPU with MIG on, without instances and processes, that nobody else uses meanwhile.
  int gpu = 0;
  const hw::GpuModel& model;  // of that GPU: its rules say which layouts are legal
  // Makes a process hold the MIG device with this UUID; the answer ends it. Null: cannot be done.
  std::function<std::function<void()>(const std::string& uuid)> hold = {};
  // Makes the GPU fall off the bus, for good. Null: cannot be done.
  std::function<void()> lose = {};
};

// What the driver does otherwise than the contract says; empty when it conforms.
std::vector<std::string> check_conformance(const ConformanceSubject& subject);

// The part of it that a GPU without MIG has, too: telemetry, and settings, which are changed and
// put back.
std::vector<std::string> check_power(NodeDriver& driver, int gpu);

// The part of it that only reads, on every GPU of the node, in whatever state they are: answers
// agree with each other, with the contract and with the legal layouts of the models in the
// catalogue.
std::vector<std::string> check_reading(NodeDriver& driver, const hw::Catalogue& catalogue);

}  // namespace partita::device
