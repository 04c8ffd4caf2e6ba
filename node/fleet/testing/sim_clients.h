// What clients of a simulated fleet ask for, and whether a leader plans for it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "fleet/brain/leader.h"
#include "fleet/brain/values.h"

namespace partita::fleet {

// Clients ask for more or less than the file says.
class Clients {
 public:
  static constexpr double kLeastAsked = 0.5, kMostAsked = 1.8;  // times the rate in the file

  explicit Clients(std::uint64_t seed) : rng_(seed) {}
  void ask_otherwise(const Rates& file) {
    for (const auto& [service, rate] : file)
      times_[service] = kLeastAsked + (kMostAsked - kLeastAsked) * rng_.uniform();
    hear(file);
  }
  long version() const { return version_; }
  // The file has these rates from now on.
  void hear(const Rates& file) {
    ++version_;
    asked_ = file;
    for (auto& [service, rate] : asked_) rate *= times_.at(service);
  }
  const Rates& asked() const { return asked_; }

 private:
  Rng rng_;
  Rates times_, asked_;  // times the rate in the file
  long version_ = 0;
};

// What clients ask for is what is planned for, whoever carries it, or nobody.
inline std::vector<std::string> faults_of_need(const Decision& decision, const Rates& asked) {
  constexpr double kToldExact = 0.85;  // a node tells of a rate that moves by more than a tenth
  std::vector<std::string> faults;
  for (const auto& [service, rate] : asked) {
    const auto one = std::ranges::find(decision.services, service, &ServiceOutlook::name);
    if (one->need_rps < rate * kToldExact)
      faults.push_back(fmt::format("{:.4g} req/s of {} are asked for, {:.4g} planned for", rate,
                                   service, one->need_rps));
  }
  return faults;
}

}  // namespace partita::fleet
