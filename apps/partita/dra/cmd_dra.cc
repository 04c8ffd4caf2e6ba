#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <set>

#include "act/lease/leases.h"
#include "act/power_guard.h"
#include "base/rng.h"
#include "commands.h"
#include "control/host_meter.h"
#include "device/observe/host_energy.h"
#include "dra/keep_plan.h"
#include "drivers/mps/daemon.h"
#include "energy/instance_joules.h"
#include "fleet/dra/claims.h"
#include "fleet/kubelet/claims_sight.h"
#include "fleet/kubelet/kube_api.h"
#include "fleet/kubelet/plugin.h"
#include "fleet/kubelet/unary_server.h"
#include "fleet/objects/keeper.h"
#include "lease/lease_desk.h"
#include "node/devices.h"

namespace partita::cli {
namespace {

// What claims take, as metrics for Prometheus in a file: the joules of their instances, told apart
// as `partita energy attribute` does it, and of CPUs and memory those of their pods, by CPU time.
// A claim that has ended is said with all that it took, and is in the file no more.
struct ClaimEnergyFlags {
  std::string file;  // of metrics; empty: nothing is measured
  std::string powercap = observe::HostPaths{}.powercap, cgroups = "/sys/fs/cgroup";
};

constexpr const char* kAccount = "/var/run/secrets/kubernetes.io/serviceaccount";

// What a pod is told by its cluster, where flags say nothing.
Result<dra::KubeApiSettings> settled_cluster(Context& context, dra::KubeApiSettings api) {
  if (!api.url.empty()) return api;
  const std::string host = environment_variable("KUBERNETES_SERVICE_HOST");
  const std::string port = environment_variable("KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty())
    return bad_input("--api-server", "is wanted outside a cluster, as http://127.0.0.1:8001");
  const bool v6 = host.find(':') != std::string::npos;
  api.url = fmt::format("https://{}:{}", v6 ? "[" + host + "]" : host, port);
  if (api.token_file.empty() && context.files.exists(std::string(kAccount) + "/token"))
    api.token_file = std::string(kAccount) + "/token";
  if (api.ca_file.empty() && context.files.exists(std::string(kAccount) + "/ca.crt"))
    api.ca_file = std::string(kAccount) + "/ca.crt";
  return api;
}

constexpr std::string_view kOwner = "claim:";

// Where a kubelet puts a pod, with systemd and without, by its class of service.
std::vector<std::string> places_of(const std::string& cgroups, const std::string& uid) {
  std::string slice = uid;
  std::ranges::replace(slice, '-', '_');
  std::vector<std::string> all = {
      fmt::format("{}/kubepods.slice/kubepods-pod{}.slice", cgroups, slice),
      fmt::format("{}/kubepods/pod{}", cgroups, uid)};
  for (const char* kind : {"burstable", "besteffort"}) {
    all.push_back(fmt::format("{0}/kubepods.slice/kubepods-{1}.slice/kubepods-{1}-pod{2}.slice",
                              cgroups, kind, slice));
    all.push_back(fmt::format("{}/kubepods/{}/pod{}", cgroups, kind, uid));
  }
  return all;
}

void family(std::string& out, const char* name, const char* help) {
  append(out, "# HELP {0} {1}\n# TYPE {0} counter\n", name, help);
}

class ClaimEnergy {
 public:
  ClaimEnergy(Context& context, const ClaimEnergyFlags& flags)
      : context_(context), flags_(flags), reader_(context.files, {.powercap = flags.powercap}) {}

  // How the GPUs are now, what is lent, and who claims it.
  void look(const telemetry::Sample& sample, const std::vector<lease::Lease>& leases,
            const std::vector<dra::Claim>& claims) {
    instances_.see(sample);
    const auto pods = pods_of(claims);
    host_.see(reader_.read(sample.at, pods), {});
    std::set<std::string> there, users;
    for (const dra::Claim& claim : claims) {
      there.insert(claim.uid);
      taken_[claim.uid].claim = claim;
      for (const dra::ClaimPod& pod : claim.pods) users.insert(pod.uid);
    }
    for (const lease::Lease& lease : leases) add(lease, sample);
    for (auto one = taken_.begin(); one != taken_.end();) {
      if (there.contains(one->first)) {
        ++one;
        continue;
      }
      end(one->second);
      for (const dra::ClaimPod& pod : one->second.claim.pods)
        if (!users.contains(pod.uid)) host_.forget(pod.uid);
      one = taken_.erase(one);
    }
    std::vector<observe::TenantProcess> kept;  // those, too, whose cgroups have gone
    for (const std::string& uid : users) kept.push_back({.tenant = uid});
    reader_.keep_only(kept);
    const auto written = context_.files.write_atomic(flags_.file, metrics());
    const std::string why = written ? "" : to_string(written.error());
    if (why != said_ && !why.empty()) complain(context_, why);
    said_ = why;
  }

 private:
  struct Taken {
    dra::Claim claim;
    double joules = 0;                   // of its instances
    std::map<std::string, double> last;  // of each, by the UUID of its device
  };
  std::vector<observe::TenantProcess> pods_of(const std::vector<dra::Claim>& claims) {
    std::vector<observe::TenantProcess> pods;
    for (const dra::Claim& claim : claims)
      for (const dra::ClaimPod& pod : claim.pods) {
        if (std::ranges::find(pods, pod.uid, &observe::TenantProcess::tenant) != pods.end())
          continue;
        for (const std::string& place : places_of(flags_.cgroups, pod.uid))
          if (context_.files.exists(place + "/cpu.stat"))
            pods.push_back({.tenant = pod.uid, .cgroup = place});
      }
    return pods;
  }
  // A device may have the UUID of an earlier one: what that took is not this claim's.
  void add(const lease::Lease& lease, const telemetry::Sample& sample) {
    if (!lease.owner.starts_with(kOwner) || lease.uuid.empty()) return;
    const std::string uid =
        lease.owner.substr(kOwner.size(), lease.owner.find('/') - kOwner.size());
    const auto taken = taken_.find(uid);
    if (taken == taken_.end()) return;
    const double now = instances_.of(lease.uuid, sample.at);
    const auto [last, fresh] = taken->second.last.try_emplace(lease.uuid, now);
    taken->second.joules += std::max(0.0, now - std::exchange(last->second, now));
  }
  void end(const Taken& taken) {
    std::string text = fmt::format("claim {}/{} took {:.0f} J of its instances",
                                   taken.claim.name_space, taken.claim.name, taken.joules);
    for (const dra::ClaimPod& pod : taken.claim.pods)
      if (const auto part = host_.part_of(pod.uid))
        append(text, "; pod {} took {:.0f} J of CPUs and memory, {:.0f} J of it idle power",
               pod.name, part->joules, part->idle_joules);
    note(context_, text + "\n");
  }
  std::string metrics() const {
    std::string out;
    family(out, "partita_claim_energy_joules_total", "That the instances of a claim took.");
    for (const auto& [uid, taken] : taken_)
      append(
          out, "partita_claim_energy_joules_total{{namespace=\"{}\",claim=\"{}\",uid=\"{}\"}} {}\n",
          metric_label(taken.claim.name_space), metric_label(taken.claim.name), uid, taken.joules);
    std::map<std::string, std::string> pods;  // labels, by UID
    for (const auto& [uid, taken] : taken_)
      for (const dra::ClaimPod& pod : taken.claim.pods)
        pods[pod.uid] =
            fmt::format("{{namespace=\"{}\",pod=\"{}\",uid=\"{}\"}}",
                        metric_label(taken.claim.name_space), metric_label(pod.name), pod.uid);
    using Part = control::HostMeter::Part;
    const auto of_pods = [&](const char* name, const char* help, double Part::*what) {
      family(out, name, help);
      for (const auto& [uid, labels] : pods)
        if (const auto part = host_.part_of(uid))
          append(out, "{}{} {}\n", name, labels, (*part).*what);
    };
    of_pods("partita_pod_host_energy_joules_total",
            "The part of a pod with a claim of what CPUs and memory took, by CPU time.",
            &Part::joules);
    of_pods("partita_pod_host_idle_joules_total",
            "Of these: idle power, by the least that CPUs and memory were seen to take.",
            &Part::idle_joules);
    if (!host_.whole()) return out;
    family(out, "partita_node_energy_joules_total",
           "That CPUs and memory of the node took, by RAPL.");
    for (const auto& [part, joules] :
         {std::pair("cpu", host_.whole()->cpu_j), std::pair("dram", host_.whole()->dram_j)})
      if (joules)
        append(out, "partita_node_energy_joules_total{{part=\"{}\"}} {}\n", part, *joules);
    return out;
  }

  Context& context_;
  const ClaimEnergyFlags& flags_;
  InstanceJoules instances_;
  observe::HostEnergyReader reader_;
  control::HostMeter host_;
  std::map<std::string, Taken> taken_;  // by UID of the claim
  std::string said_;
};

namespace mps = drivers::mps;

// ClaimShares: what claims' opaque parameters ask of the node: MPS daemons of instances, caps of
// what GPUs draw. Where drivers/mps and fleet/kubelet meet. Calls block.
class ClaimShares {
 public:
  // `directory` keeps the journal of what caps have changed, and MPS' sockets. Context and driver
  // outlive it.
  ClaimShares(Context& context, const OpenDriver& open, const std::string& directory)
      : context_(context),
        open_(open),
        journal_(actuate::power_journal_path(directory)),
        runtime_(directory + "/mps") {}
  // Adds its calls to the door, which it outlives.
  void add_to(dra::NodeDoor& door) {
    door.mps_edits = [this](const std::string& uuid, const dra::MpsShare& share) {
      return edits(uuid, share);
    };
    door.start_mps = [this](const std::string& uuid) { return start(uuid); };
    door.quit_mps = [this](const std::string& uuid) { return quit(uuid); };
    door.may_cap = [this](int gpu, double watts) { return may_cap(gpu, watts); };
    door.cap = [this](const std::map<std::string, double>& watts) { return cap(watts); };
  }

 private:
  Result<dra::MpsEdits> edits(const std::string& uuid, const dra::MpsShare& share) const {
    const auto place = TRY(mps::place_of(runtime_, uuid));
    return dra::MpsEdits{
        mps::client_environment(place, {share.thread_percentage, {share.memory_mib.value_or(0)}}),
        place.pipe_directory};
  }
  Result<void> start(const std::string& uuid) {
    const auto place = TRY(mps::place_of(runtime_, uuid));
    return mps::Daemon({processes_, context_.files, context_.clock}, place).start();
  }
  Result<void> quit(const std::string& uuid) {
    const auto place = mps::place_of(runtime_, uuid);
    if (!place || !context_.files.is_directory(place->log_directory)) return {};
    return mps::Daemon({processes_, context_.files, context_.clock}, *place).quit();
  }
  Result<void> may_cap(int gpu, double watts) const {
    const auto board = TRY(open_.driver->power_settings(gpu));
    const double least = board.least_limit.value_or(Watts{}).value;
    const double most = board.most_limit.value_or(Watts{watts}).value;
    if (watts >= least && watts <= most) return {};
    return bad_input("powerCapWatts",
                     fmt::format("GPU {} takes {:g} to {:g} W, not {:g}", gpu, least, most, watts));
  }
  Result<void> cap(const std::map<std::string, double>& watts) {
    if (watts.empty() && !context_.files.exists(journal_)) return {};
    const auto info = TRY(open_.driver->info());
    std::set<std::string> capped;
    for (const auto& [uuid, most] : watts) capped.insert(uuid);
    std::vector<std::string> uuids;
    std::map<int, double> by_index;
    for (int gpu = 0; gpu < info.gpus; ++gpu) {
      const auto state = open_.driver->read(gpu);
      if (!state) continue;  // the others have their caps all the same
      uuids.push_back(state->uuid);
      if (const auto found = watts.find(state->uuid); found != watts.end())
        by_index[gpu] = found->second;
    }
    const auto lock = TRY(lock_gpus(context_, open_, uuids));
    auto guard =
        TRY(actuate::PowerGuard::open(context_.files, journal_, *open_.driver, gpu_prefix(open_)));
    for (const auto& [gpu, most] : by_index) {
      const auto now = TRY(open_.driver->power_settings(gpu));
      device::PowerSettings wanted = now.now;
      wanted.limit = Watts{most};
      if (auto set = guard.set(gpu, wanted); !set) return set;
    }
    // A GPU that does not answer, or is not in the node any more, stays in the journal and is no
    // other claim's fault.
    auto restored = guard.restore(capped);
    const bool gone = !restored && (restored.error().code == ErrorCode::lost ||
                                    restored.error().code == ErrorCode::not_found);
    return gone ? Result<void>() : restored;
  }

  Context& context_;
  const OpenDriver& open_;
  std::string journal_, runtime_;
  RealProcesses processes_;  // of MPS daemons alone
};

// What watches do not say is seen a minute after the last list, the grace of a watch included.
constexpr int kWatchSeconds = 50;
constexpr std::int64_t kLeast = 50'000'000;

class Keeper {
 public:
  Keeper(Context& context, const KeepPlanFlags& flags, const dra::KubeApi& api,
         const std::function<Result<std::string>()>& objects, std::int64_t every,
         std::int64_t patience)
      : context_(context),
        flags_(flags),
        api_(api),
        objects_(objects),
        every_(every),
        end_(context.clock.now_ns() + patience),
        rng_(static_cast<std::uint64_t>(context.clock.now_ns()) ^
             static_cast<std::uint64_t>(::getpid())) {}

  Result<Exit> run() {
    kept_.name = flags_.plan;
    kept_.name_space = flags_.name_space;
    TRY(read_plan());
    while (!stopped_) {
      look_at_plan();
      const auto round = dra::keep_round(kept_, asks());
      if (round)
        tell(*round);
      else
        fail(round.error());
      if (flags_.once) {
        if (round && round->settled) return Exit::done;
        if (auto fine = go_on(round); !fine) return failed(fine.error());
      }
      wait(round);
    }
    if (flags_.once) return environment_error("--once", "was ended before all was as planned");
    return Exit::done;
  }

 private:
  dra::AskKube asks() const {
    return [this](auto method, const auto& path, const auto& body,
                  auto type) -> Result<dra::KubeReply> {
      auto answer = TRY(api_.ask(method, path, body, type));
      return dra::KubeReply{answer.status, std::move(answer.body)};
    };
  }
  Result<void> read_plan() {
    const auto text = TRY(objects_());
    if (text == text_) return {};
    auto list = TRY(dra::parse_objects("the plan's objects", text));
    kept_.wanted = std::move(list.objects);
    text_ = text;
    changed_ = true;
    return {};
  }
  void look_at_plan() {
    changed_ = false;
    if (context_.clock.now_ns() < next_look_) return;
    next_look_ = context_.clock.now_ns() + every_;
    const auto read = read_plan();
    const std::string trouble = read ? "" : to_string(read.error());
    if (!trouble.empty() && trouble != plan_trouble_)
      complain(context_, trouble + "; the plan before it stays");
    plan_trouble_ = trouble;
  }
  // What is new is said once.
  void speak(const std::string& what) {
    if (what != said_) complain(context_, what);
    said_ = what;
  }
  void fail(const Error& error) {
    ++failures_;
    speak(to_string(error));
  }
  void tell(const dra::KeptRound& round) {
    failures_ = 0;
    busy_ = round.done > 0 ? busy_ + 1 : 0;
    if (!round.faults.empty()) return speak(round.faults.front());
    if (round.settled) return speak(fmt::format("plan '{}' is kept", kept_.name));
    if (!round.waiting.empty()) speak(round.waiting);
  }
  Result<void> go_on(const Result<dra::KeptRound>& round) const {
    if (round && !round->faults.empty()) return environment_error("--once", round->faults.front());
    if (context_.clock.now_ns() < end_) return {};
    return environment_error("--wait", "it is not as planned yet: " + said_);
  }

  // Until something may have changed.
  void wait(const Result<dra::KeptRound>& round) {
    std::int64_t pause = kLeast;
    if (!round) pause = dra::pause_ns(failures_, rng_.uniform());
    if (round && busy_ > 1) pause = dra::pause_ns(busy_, rng_.uniform());
    stopped_ = stop_.within(pause);
    if (stopped_ || !round || round->done > 0) return;
    const std::string path = fmt::format("{}?labelSelector={}%3D{}",
                                         dra::path_of(dra::KubeKind::deployment, kept_.name_space),
                                         dra::kPlan, kept_.name);
    const auto status = api_.watch(path, round->version, kWatchSeconds,
                                   [this](std::string_view line) { return goes_on(line); });
    if (!status)
      fail(status.error());
    else if (*status != 200 && *status != 410 && *status != 0)
      fail({ErrorCode::environment, fmt::format("the API server answered {}", *status), path});
  }
  bool goes_on(std::string_view line) {
    if (!line.empty()) return !dra::says_change(line);
    stopped_ = stop_.within(0);
    look_at_plan();
    return !stopped_ && !changed_ && (!flags_.once || context_.clock.now_ns() < end_);
  }

  Context& context_;
  const KeepPlanFlags& flags_;
  const dra::KubeApi& api_;
  const std::function<Result<std::string>()>& objects_;
  const std::int64_t every_, end_;
  Rng rng_;
  StopRequest stop_;
  dra::KeptPlan kept_;
  std::string text_, said_, plan_trouble_;
  std::int64_t next_look_ = 0;
  int failures_ = 0, busy_ = 0;
  bool stopped_ = false, changed_ = false;
};

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
      plugin.registered();
      ++changes;
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
struct Publishing {
  dra::Plugin& plugin;
  const dra::ClaimsSight& sight;
  const dra::KubeApi& api;
  const std::atomic<long>& changes;
  std::int64_t every_ns;
  std::function<void()> measure;
};
void keep_published(Context& context, const Publishing& how, StopRequest& stop) {
  const auto& [plugin, sight, api, changes, every_ns, measure] = how;
  std::string said, capped, blind;
  long seen = -1, version = -1;
  std::int64_t next = 0;
  do {
    const std::int64_t now = context.clock.now_ns();
    if (now < next && changes == seen && sight.version() == version) continue;
    seen = changes;
    version = sight.version();
    next = now + every_ns;
    if (measure) measure();
    const auto done = plugin.publish(sight.allocated(), now);
    for (const dra::PreparedClaim& gone :
         plugin.return_gone([&api = api] { return dra::list_claims(api); }))
      complain(context,
               fmt::format("claim {} is gone, and nobody unprepared it: {}", gone.uid,
                           gone.error.empty() ? "its instances are given back" : gone.error));
    const std::string trouble = done ? "" : to_string(done.error());
    if (trouble != said) complain(context, done ? "the API server answers again" : trouble);
    said = trouble;
    const auto settled = plugin.settle_due();
    const std::string caps = settled ? "" : "power caps: " + to_string(settled.error());
    if (caps != capped && !settled) complain(context, caps + "; they are tried again");
    capped = caps;
    if (const std::string of = sight.trouble(); of != blind) {
      if (!of.empty()) complain(context, of);
      blind = of;
    }
  } while (!stop.within(kLook));
}

Result<Exit> run_dra(Context& context, const DraFlags& flags) {
  const auto every = TRY(parse_nanos("--interval", flags.every));
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
  keep_published(context,
                 {plugin, sight, api, changes, every,
                  flags.energy.file.empty() ? std::function<void()>() : measure},
                 stop);
  return Exit::done;
}

}  // namespace

Result<Exit> run_keep_plan(Context& context, const KeepPlanFlags& flags,
                           const std::function<Result<std::string>()>& objects) {
  const auto every = TRY(parse_nanos("--interval", flags.interval));
  const auto patience = TRY(parse_nanos("--wait", flags.wait));
  const auto settings = TRY(settled_cluster(context, flags.api));
  const auto api = TRY(dra::KubeApi::to(settings, context.files, context.clock));
  return Keeper(context, flags, api, objects, every, patience).run();
}

Command add_dra(CLI::App& app) {
  auto [command, flags] = adding<DraFlags>(
      app, "dra", "Kubernetes: MIG instances for resource claims, made where most room stays free");
  takes(*command, "--plugin-dir", preset(flags->plugin_directory), "--registry-dir",
        preset(flags->registry_directory), "--cdi-dir", preset(flags->cdi_directory),
        "--api-server", also(flags->api.url, "Default: that of the cluster that it runs in"),
        "--token-file", flags->api.token_file, "--tls-ca", flags->api.ca_file, "--node-name",
        also(flags->node, "Default: $NODE_NAME, else the machine's"), "--interval",
        preset(flags->every), "--metrics", also(flags->energy.file, "Energy per claim and pod"),
        "--powercap", preset(flags->energy.powercap), "--cgroups", preset(flags->energy.cgroups),
        "--wait", preset(flags->patience, "While another command changes the node"));
  add_device_flags(*command, flags->device);
  return runs(command, flags, run_dra,
              "partita dra                                     # in a pod of the cluster\n"
              "partita dra --driver sim --api-server http://127.0.0.1:8001 --plugin-dir p "
              "--registry-dir r --cdi-dir c");
}

}  // namespace partita::cli
