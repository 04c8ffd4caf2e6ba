#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>

#include "commands.h"
#include "dra/claim_energy.h"
#include "dra/claim_shares.h"
#include "dra/cluster.h"
#include "flags.h"
#include "fleet/kubelet/claims_sight.h"
#include "fleet/kubelet/plugin.h"
#include "fleet/kubelet/unary_server.h"
#include "lease/lease_desk.h"
#include "stop_request.h"

namespace partita::cli {
namespace {

constexpr const char* kPrepare = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources";
constexpr const char* kUnprepare =
    "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources";
constexpr const char* kInfo = "/pluginregistration.Registration/GetInfo";
constexpr const char* kStatus = "/pluginregistration.Registration/NotifyRegistrationStatus";
constexpr std::int64_t kLook = 50'000'000;

struct DraFlags {
  DeviceFlags device;
  std::string plugin_directory = "/var/lib/kubelet/plugins/partita.gpu";
  std::string registry_directory = "/var/lib/kubelet/plugins_registry";
  std::string cdi_directory = "/var/run/cdi";
  std::string node, every = "1s", patience = "30s";
  dra::KubeApiSettings api;
  ClaimEnergyFlags energy;
};

Result<std::string> node_of(const DraFlags& flags) {
  if (!flags.node.empty()) return flags.node;
  if (const char* name = std::getenv("NODE_NAME"); name != nullptr && *name != '\0')
    return std::string(name);
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0')
    return bad_input("--node-name", "is wanted: this machine has no name");
  return std::string(name.data());
}

// The node, as leases and the driver show it.
class Node {
 public:
  Node(LeaseDesk& desk, const OpenDriver& open) : desk_(desk), open_(open) {}

  dra::NodeDoor door() {
    dra::NodeDoor door;
    door.look = [this] { return look(); };
    door.take = [this](const lease::Wanted& wanted) { return take(wanted); };
    door.give_back = [this](const std::string& owner) { return give_back(owner); };
    return door;
  }

 private:
  Result<dra::NodeLook> look() {
    const auto node = TRY(device::read_node(*open_.bare));
    auto leases = TRY(desk_.list(node));
    dra::NodeLook all{.gpus = {}, .leases = std::move(leases)};
    for (const device::GpuState& gpu : node.gpus)
      if (gpu.mig_enabled && !gpu.lost)
        all.gpus.push_back({gpu, lease::model_of(gpu, {}, open_.catalogue.get())});
    return all;
  }
  Result<lease::LeaseDocument> take(const lease::Wanted& wanted) {
    const auto answer = TRY(desk_.take(wanted));
    if (answer.refused) return failed(lease::error_of(*answer.refused));
    return answer.leases.leases.front();
  }
  Result<void> give_back(const std::string& owner) {
    const auto answer = desk_.give_back(owner);
    return answer ? Result<void>() : failed(answer.error());
  }

  LeaseDesk& desk_;
  const OpenDriver& open_;
};

// What the kubelet asks, on both sockets; it counts what it has changed.
dra::UnaryMethod methods_of(Context& context, dra::Plugin& plugin, std::atomic<long>& changes,
                            const std::string& socket) {
  return [&context, &plugin, &changes, socket](std::string_view method,
                                               dra::Pieces message) -> Result<std::string> {
    if (method == kInfo) return dra::encode_plugin_info(socket);
    if (method == kStatus) {
      const auto why = TRY(dra::parse_registration_status(message));
      if (!why.empty()) complain(context, "the kubelet does not register this plugin: " + why);
      return std::string();
    }
    if (method != kPrepare && method != kUnprepare)
      return failed({ErrorCode::not_supported, "no such method", std::string(method)});
    const auto claims = TRY(dra::parse_claim_names(message));
    const auto done = method == kPrepare ? plugin.prepare(claims) : plugin.unprepare(claims);
    ++changes;
    for (const dra::PreparedClaim& claim : done)
      if (!claim.error.empty()) complain(context, "claim " + claim.uid + ": " + claim.error);
    return method == kPrepare ? dra::encode_prepared(done) : dra::encode_unprepared(done);
  };
}

// Publishes at each look and when something has changed, until a signal comes.
void keep_published(Context& context, dra::Plugin& plugin, const dra::ClaimsSight& sight,
                    const std::atomic<long>& changes, StopRequest& stop, std::int64_t every_ns,
                    const std::function<void()>& measure) {
  std::string said, blind;
  long seen = -1, version = -1;
  std::int64_t next = 0;
  do {
    const std::int64_t now = context.clock.now_ns();
    if (now < next && changes == seen && sight.version() == version) continue;
    seen = changes;
    version = sight.version();
    next = now + every_ns;
    if (measure) measure();
    const auto done = plugin.publish(sight.allocated());
    const std::string trouble = done ? "" : to_string(done.error());
    if (trouble != said) complain(context, done ? "the API server answers again" : trouble);
    said = trouble;
    if (const std::string of = sight.trouble(); of != blind) {
      if (!of.empty()) complain(context, of);
      blind = of;
    }
  } while (!stop.within(kLook));
}

Result<Exit> run_dra(Context& context, const DraFlags& flags) {
  const auto every = TRY(parse_duration("--interval", flags.every));
  const auto patience = TRY(parse_duration("--wait", flags.patience));
  const auto node_name = TRY(node_of(flags));
  const auto settings = TRY(settled_cluster(context, flags.api));
  const auto api = TRY(dra::KubeApi::to(settings, context.files, context.clock));
  const auto open = TRY(open_driver(context, flags.device));
  auto desk = TRY(LeaseDesk::open(context, flags.device, patience));
  for (const std::string& folder : {flags.plugin_directory, flags.registry_directory})
    TRY(context.files.make_directories(folder));
  const auto lock = TRY(context.files.lock(flags.plugin_directory + "/dra.lock"));

  StopRequest stop;  // before any thread
  Node node(desk, open);
  ClaimShares shares(context, open, flags.plugin_directory);
  dra::NodeDoor door = node.door();
  shares.add_to(door);
  dra::Plugin plugin({node_name, flags.cdi_directory}, door, api, context.files);
  if (const auto recovered = plugin.recover(); !recovered)
    complain(context, to_string(recovered.error()));
  std::atomic<long> changes = 0;
  const std::string socket = flags.plugin_directory + "/dra.sock";
  const dra::UnaryMethod methods = methods_of(context, plugin, changes, socket);
  const auto server = TRY(dra::UnaryServer::open(socket, methods));
  const dra::ClaimsSight sight(api, context.clock, node_name);
  // Last: the kubelet comes as soon as it sees this socket.
  const auto registration =
      TRY(dra::UnaryServer::open(flags.registry_directory + "/partita.gpu-reg.sock", methods));
  say(context, fmt::format("node {}: claims at {}\n", node_name, socket));
  ClaimEnergy energy(context, flags.energy);
  const auto measure = [&] {
    plugin.with_node([&](const dra::NodeLook& seen) {
      telemetry::Sample sample{.at = Seconds{static_cast<double>(context.clock.now_ns()) * 1e-9}};
      for (const dra::PoolGpu& one : seen.gpus)
        if (auto read = open.bare->telemetry(one.gpu.index))
          sample.gpus.push_back(*std::move(read));
      energy.look(sample, seen.leases, sight.claims());
    });
  };
  keep_published(context, plugin, sight, changes, stop,
                 static_cast<std::int64_t>(every.value * 1e9),
                 flags.energy.file.empty() ? std::function<void()>() : measure);
  return Exit::done;
}

}  // namespace

Command add_dra(CLI::App& app) {
  auto [command, flags] = adding<DraFlags>(
      app, "dra", "Kubernetes: MIG instances for resource claims, made where most room stays free");
  flag(*command, "--plugin-dir", flags->plugin_directory)->default_str(flags->plugin_directory);
  flag(*command, "--registry-dir", flags->registry_directory)
      ->default_str(flags->registry_directory);
  flag(*command, "--cdi-dir", flags->cdi_directory)->default_str(flags->cdi_directory);
  flag(*command, "--api-server", flags->api.url, "Default: that of the cluster that it runs in");
  flag(*command, "--token-file", flags->api.token_file);
  flag(*command, "--tls-ca", flags->api.ca_file);
  flag(*command, "--node-name", flags->node, "Default: $NODE_NAME, else the machine's");
  flag(*command, "--interval", flags->every)->default_str(flags->every);
  flag(*command, "--metrics", flags->energy.file, "Of what claims and their pods take");
  flag(*command, "--powercap", flags->energy.powercap)->capture_default_str();
  flag(*command, "--cgroups", flags->energy.cgroups)->capture_default_str();
  flag(*command, "--wait", flags->patience, "For another command that changes the node")
      ->default_str(flags->patience);
  add_device_flags(*command, flags->device);
  command->footer(
      "partita dra                                     # in a pod of the cluster\n"
      "partita dra --driver sim --api-server http://127.0.0.1:8001 --plugin-dir p "
      "--registry-dir r --cdi-dir c");
  return {command, [flags](Context& context) { return run_dra(context, *flags); }};
}

}  // namespace partita::cli
