// The settings file of an agent, /etc/partita/agent.yaml: which node, what is wanted, what was
// measured, hooks, where its API listens; the key `policy` is control/settings.h, `notify` is
// notify/notice.h. Values and a pure reader. Paths are as written; whoever reads it takes relative
// ones from beside the file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "act/hooks.h"
#include "base/result.h"
#include "control/nvlinks.h"
#include "control/settings.h"

namespace partita::control {

struct AgentNode {
  std::string driver = "nvml";  // or sim
  std::string machine = {};     // of driver sim
  std::string catalogue = {};   // directory; empty: the built-in one
  std::string state_dir = {};   // empty: as other commands choose it
  NvLinks nvlink = {};
  bool operator==(const AgentNode&) const = default;
};

// Profiles that hold for one GPU model alone.
struct ModelProfiles {
  std::string gpu, path;
  bool operator==(const ModelProfiles&) const = default;
};

// Where the API listens, see docs/api.md; `on` false: nowhere.
struct AgentServer {
  bool on = true;
  std::string socket = {};  // a Unix socket; empty: api.sock where this user's sockets are
  std::string group = {};   // its name; empty: none
  std::string listen = {}, tokens_file = {}, tls_certificate = {}, tls_key = {};
  std::string client_ca = {}, client_roles = {}, oidc = {}, access_log = {};
  std::vector<std::string> hosts = {};
  bool operator==(const AgentServer&) const = default;
};

// The fleet that the node is one of, see docs/fleet.md; without endpoints it is one of none.
struct AgentFleet {
  std::vector<std::string> endpoints = {};  // of etcd
  std::string name = "default";             // of the fleet
  std::string node = {};                    // what it calls this node; empty: its host name
  std::string rack = {}, zone = {}, feed = {}, gateway = {}, grpc = {};
  bool leads = true;  // stands for election
  std::string user = {}, password_file = {}, ca = {}, certificate = {}, key = {};
  bool operator==(const AgentFleet&) const = default;
};

// What energy costs by the hour.
struct AgentTariff {
  std::string prices = {};  // a CSV (forms/tariff_reader.h); empty: nothing is known
  double carbon_price = 0;  // of a tonne of CO2
  std::string powercap = "/sys/class/powercap";  // where CPUs and memory say what they take
  bool operator==(const AgentTariff&) const = default;
};

struct AgentFile {
  AgentNode node;
  std::string services = {};  // a services file; empty: what is wanted comes by the API alone
  std::string profiles = {};  // as `partita plan --profiles` takes it, for every GPU model
  std::vector<ModelProfiles> profiles_of = {};
  std::vector<ModelProfiles> power_tables = {};  // response tables for policy.power
  std::string slo_rule = {};  // empty: the standard one
  int max_processes = plan::kDefaultMaxProcesses;
  Settings policy;
  std::vector<actuate::Hook> hooks = {};
  AgentServer server;
  AgentFleet fleet;
  AgentTariff power;
  bool operator==(const AgentFile&) const = default;
};

// Refused with FILE:LINE: unknown keys, hooks that the policy names and the file does not have,
// and what the readers of `policy` and `hooks` refuse.
Result<AgentFile> parse_agent_file(const std::string& file, std::string_view text);

}  // namespace partita::control
