#include "control/host/agent_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/document.h"
#include "base/form_lists.h"
#include "base/nearest.h"
#include "base/url.h"

namespace partita::control {
namespace {

constexpr Range kLinkedGpus{.high = 1023};

enum class DriverWord : std::uint8_t { nvml, sim };

void describe_node(Form& f, AgentNode& node) {
  DriverWord driver = node.driver == "sim" ? DriverWord::sim : DriverWord::nvml;
  f.optional().word("driver", driver, {"nvml", "sim"}, "which GPUs");
  if (f.reading()) node.driver = driver == DriverWord::sim ? "sim" : "nvml";
  f.optional().note("machine", node.machine, "description of the simulated machine");
  f.optional().note("catalogue", node.catalogue, "directory of GPU models");
  f.optional().note("state_dir", node.state_dir, "of journal, assignment and memory");
  form::number_or_lists(f.optional(), "nvlink", node.nvlink.each, node.nvlink.domains, kLinkedGpus,
                        "so many GPUs at a time are linked, or those of each list");
  std::vector<int> named;
  for (const std::vector<int>& domain : node.nvlink.domains)
    named.insert(named.end(), domain.begin(), domain.end());
  std::ranges::sort(named);
  if (const auto twice = std::ranges::adjacent_find(named); twice != named.end() && f.reading())
    f.reading()->refuse("nvlink", fmt::format("GPU {} is in two lists of 'nvlink'", *twice));
  f.closed();
}

void describe_profiles(Form& f, ModelProfiles& one) {
  f.name("gpu", one.gpu, "model");
  f.text("path", one.path, "of its profiles");
  f.closed();
}

void describe_server(Form& f, AgentServer& server) {
  f.optional().boolean("on", server.on, "whether there is an API");
  f.optional().note("socket", server.socket, "a Unix socket; empty: the usual one");
  f.optional().note("group", server.group, "of the socket; its members have the role operator");
  f.optional().note("listen", server.listen, "HOST:PORT");
  f.optional().note("tokens_file", server.tokens_file, "lines NAME:ROLE:SHA256");
  f.optional().note("tls_certificate", server.tls_certificate, "PEM");
  f.optional().note("tls_key", server.tls_key, "PEM");
  f.optional().note("client_ca", server.client_ca, "PEM");
  f.optional().note("client_roles", server.client_roles, "lines CN:ROLE");
  f.optional().note("oidc", server.oidc, "an OpenID provider and its roles");
  f.optional().note("access_log", server.access_log, "a file");
  f.optional().names("hosts", server.hosts, {.most = 100}, "names by which browsers may call");
  f.closed();
}

// Whether other machines may find a gateway there: HOST:PORT, of no wildcard.
bool is_found_at(const std::string& address) {
  const auto url = parse_url("", "http://" + address);
  if (!url || !url->path.empty() || !address.ends_with(fmt::format(":{}", url->port))) return false;
  return url->host != "*" && url->host != "0.0.0.0" && url->host != "::";
}

void describe_fleet(Form& f, AgentFleet& fleet) {
  f.names("endpoints", fleet.endpoints, {.most = 20}, "URLs of etcd");
  f.optional().name("name", fleet.name, "of the fleet");
  f.optional().note("node", fleet.node, "what it calls this node; empty: its host name");
  f.optional().note("rack", fleet.rack, "where the node is");
  f.optional().note("zone", fleet.zone, "where the node is");
  f.optional().note("feed", fleet.feed, "of power, where no tree says it");
  f.optional().note("gateway", fleet.gateway, "address of the node's gateway");
  f.optional().note("grpc", fleet.grpc, "the same for gRPC");
  f.optional().boolean("leads", fleet.leads, "whether the node stands for election");
  f.optional().note("user", fleet.user, "of etcd");
  f.optional().note("password_file", fleet.password_file, "of the user");
  f.optional().note("ca", fleet.ca, "PEM; empty: the system's");
  f.optional().note("certificate", fleet.certificate, "PEM, of this client");
  f.optional().note("key", fleet.key, "PEM, of this client");
  f.closed();
  if (!f.reading()) return;
  for (const auto& [key, address] : {std::pair("gateway", fleet.gateway), {"grpc", fleet.grpc}})
    if (!address.empty() && !is_found_at(address))
      f.reading()->refuse(
          key, fmt::format("'{}' is no HOST:PORT at which other machines find it", address));
}

void describe_tariff(Form& f, AgentTariff& tariff) {
  f.optional().note("prices", tariff.prices, "prices and CO2 by the hour, a CSV");
  f.optional().number("carbon_price", tariff.carbon_price, {.high = 1e6}, "of a tonne of CO2");
  f.optional().note("powercap", tariff.powercap, "directory of RAPL's counters");
  f.closed();
}

void describe_file(Form& f, AgentFile& file) {
  f.optional().object("node", file.node, describe_node, "which node");
  f.optional().note("services", file.services, "a services file");
  f.optional().note("profiles", file.profiles, "of every GPU model");
  f.optional().list("profiles_of", file.profiles_of, describe_profiles, {.most = 100},
                    "of single GPU models");
  f.optional().list("power_tables", file.power_tables, describe_profiles, {.most = 100},
                    "response tables of GPU models, units being compute slices");
  f.optional().note("slo_rule", file.slo_rule, "as `partita plan --slo-rule`");
  f.optional().integer("max_processes", file.max_processes, {.low = 1, .high = 64}, "of a segment");
  f.optional().object("server", file.server, describe_server, "the API");
  f.optional().object("fleet", file.fleet, describe_fleet, "the fleet that it is one of");
  f.optional().object("power", file.power, describe_tariff, "what energy costs");
}

// Keys that nobody reads.
Result<void> check_keys(const Document& document) {
  const std::vector<std::string> keys{
      "api_version", "kind",   "node",  "services", "profiles", "slo_rule",    "max_processes",
      "profiles_of", "policy", "hooks", "server",   "notify",   "power_tables", "fleet", "power"};
  for (const auto& [name, value] : document.root.members)
    if (std::ranges::find(keys, name) == keys.end())
      return bad_input(document.at(value),
                       fmt::format("unknown key '{}'{}", name, did_you_mean(name, keys)));
  return {};
}

Result<void> check_hooks(const std::string& name, const AgentFile& file) {
  for (const auto* names : {&file.policy.hooks_before, &file.policy.hooks_after})
    for (const std::string& hook : *names)
      if (std::ranges::find(file.hooks, hook, &actuate::Hook::name) == file.hooks.end())
        return bad_input(name, fmt::format("policy names the hook '{}', which is not listed under "
                                           "'hooks'",
                                           hook));
  return {};
}

}  // namespace

Result<AgentFile> parse_agent_file(const std::string& file, std::string_view text) {
  const auto document = TRY(parse_document(file, text));
  TRY(check_keys(document));
  AgentFile read = TRY(read_form<AgentFile>(document, describe_file));
  auto policy = TRY(parse_settings(file, text));
  auto hooks = TRY(actuate::parse_hooks(file, text));
  read.policy = std::move(policy);
  read.hooks = std::move(hooks);
  TRY(check_hooks(file, read));
  return read;
}

}  // namespace partita::control
