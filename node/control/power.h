// Power: the node's power policy, a cap on its watts and clocks. The brain of that; it knows of
// services what runs where and how much they ask for. Internal to control.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/gpu_clock.h"
#include "control/node_view.h"
#include "control/report.h"

namespace partita::control {

class Power {
 public:
  // `held` is written here only, and outlives this: boards may be set otherwise than they were.
  Power(const World& world, bool& held, Report& report)
      : world_(world), held_(held), report_(report) {}

  // What came of what was set.
  void hear(const Seen& seen, std::int64_t now_ms);
  // What boards had before was put back.
  void is_back();

  struct Ground {
    std::int64_t now_ms = 0;
    Mode mode = Mode::automatic;
    const NodeView& node;
    const std::vector<plan::Service>& services;
    const std::map<std::string, ClockedRate>& rates;  // by service
    const std::optional<Target>& target;
    bool changes = false;  // a change is under way: clocks are left alone
    const Seen& seen;
  };
  struct Deeds {
    std::vector<PowerDeed> set;  // in this order
    bool put_back = false;
  };
  Deeds look(const Ground& ground);
  // Whether look() needs rates.
  bool by_rates() const { return world_.settings.power.clocks == Clocks::slo; }

 private:
  std::optional<plan::Setting> slo_setting(const Ground& ground, const device::GpuState& gpu,
                                           bool poll);
  std::optional<plan::Setting> clock_of(const Ground& ground, const device::GpuState& gpu,
                                        bool poll);
  std::vector<double> capped(const std::vector<PowerBoard>& boards,
                             const std::optional<double>& budget);
  std::optional<PowerDeed> deed_of(const PowerBoard& board,
                                   const std::optional<plan::Setting>& clock, double limit);

  const World& world_;
  bool& held_;
  Report& report_;
  std::set<std::string> denied_;                               // UUIDs
  std::map<std::string, device::PowerSettings> wanted_, set_;  // by UUID
  std::map<std::string, GpuClock> clocks_;                     // by UUID
  std::map<std::string, plan::Setting> clock_setting_;         // of clocks_
  std::int64_t next_poll_ms_ = 0;
  std::map<std::string, std::int64_t> retry_ms_;  // of boards that could not be set, by UUID
  std::int64_t retry_back_ms_ = 0;
};

}  // namespace partita::control
