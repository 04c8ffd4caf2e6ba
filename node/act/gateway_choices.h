// What people and a gateway itself decided while it ran: services that take nothing, versions on
// trial and what became of them. `choices.json` in the state directory, written whole and
// atomically when something is decided, read when a gateway is started. Pure, but for the path.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "base/result.h"

namespace partita::actuate {

enum class TrialState : std::uint8_t { on_trial, promoted, taken_back };

struct CanaryChoice {
  std::string version;
  double share = 0;  // of the service's requests, above 0, at most 1
  bool shadow = false;
  bool by_flag = false;  // it holds for who says the same flag again, and was not asked for since
  TrialState state = TrialState::on_trial;
  std::string why = {};
  bool operator==(const CanaryChoice&) const = default;
};

struct ServiceChoice {
  std::string service;
  bool unloaded = false;
  std::optional<CanaryChoice> canary = {};
  bool operator==(const ServiceChoice&) const = default;
};

struct GatewayChoices {
  std::vector<ServiceChoice> services = {};  // by name; those of which something was decided
  bool operator==(const GatewayChoices&) const = default;
};

std::string choices_path(const std::string& state_dir);

// The document `kind: GatewayChoices`; parse_choices(choices_json(c)) == c. Refused with FILE:LINE:
// a service twice.
std::string choices_json(const GatewayChoices& choices);
Result<GatewayChoices> parse_choices(const std::string& file, std::string_view text);
DocumentKind choices_kind();

}  // namespace partita::actuate
