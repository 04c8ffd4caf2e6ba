// partita remote serve: gives parts of this machine to programs that run elsewhere.
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>
#include <memory>

#include "base/child.h"
#include "base/descriptor.h"
#include "base/secret_file.h"
#include "flags.h"
#include "hw/topology.h"
#include "remote/gpu_part_maker.h"
#include "remote/remote_commands.h"
#include "remote/server_places.h"
#include "remote/serving_parts.h"
#include "server/broker.h"
#include "wire/net/system_net.h"

namespace partita::cli {
namespace {

using remote::server::Broker;
using remote::server::BrokerOptions;
using remote::server::Confinement;

constexpr int kMaxSessions = 1024, kMostGpus = 1023;
constexpr double kMebibyte = 1 << 20, kSecondNs = 1e9, kCpuMemoryMib = 4096;

struct RemoteServeFlags {
  KernelPlanFlags kernels;
  std::string listen, token_file, state_directory, metrics, images, user, idle, wall;
  PartFlags parts;
  std::vector<int> gpus;  // whose MIG instances are made on demand
  DeviceFlags device;
  int warm = 1, queue = 64;
  double memory_mib = 0;  // 0: kCpuMemoryMib, or what the GPU has
  bool open_sandbox = false, with_parent = false;
};

Result<remote::Nanos> limit_of(const std::string& flag, const std::string& text) {
  if (text.empty()) return remote::Nanos(0);
  const Seconds time = TRY(parse_duration(flag, text));
  return remote::Nanos(static_cast<std::int64_t>(time.value * kSecondNs));
}

// A secret of one line that only its owner may read.
Result<std::string> token_of(Context& context, const std::string& file) {
  if (file.empty()) return std::string();
  TRY(check_secret_file(file));
  std::string text = TRY(context.files.read(file));
  const std::string token = text.substr(0, text.find('\n'));
  if (token.empty() || token.size() > remote::kMaxText)
    return bad_input("--token-file", fmt::format("the first line of {} is no token", file));
  return token;
}

Result<void> set_user(const std::string& name, remote::server::SandboxOptions& sandbox) {
  if (name.empty()) return {};
  const passwd* const user = ::getpwnam(name.c_str());
  if (user == nullptr) return bad_input("--user", fmt::format("there is no user {}", name));
  sandbox.uid = static_cast<long>(user->pw_uid);
  sandbox.gid = static_cast<long>(user->pw_gid);
  return {};
}

Result<BrokerOptions> broker_options(Context& context, RemoteServeFlags flags) {
  BrokerOptions options;
  if (flags.memory_mib == 0 && flags.parts.backend == "cpu") flags.memory_mib = kCpuMemoryMib;
  flags.parts.memory = static_cast<std::uint64_t>(flags.memory_mib * kMebibyte);
  if (!flags.gpus.empty() && flags.parts.backend != "cuda")
    return bad_input("--gpu", "instances are made for --backend cuda");
  if (flags.parts.devices > 1 && (flags.parts.backend != "cpu" || !flags.kernels.plan.empty()))
    return bad_input("--devices", "several are for --backend cpu, without --kernel-plan");
  flags.parts.on_demand = !flags.gpus.empty();
  const std::string directory = remote_state_directory(flags.state_directory);
  auto shares = MpsShares::of(flags.parts.shapes, directory + "/mps");
  if (!shares) return failed(shares.error());
  if (!shares->empty()) {
    options.begin_beside = [&context, shares = *shares] { return shares.start(context); };
  }
  flags.parts.shares = *std::move(shares);
  if (!flags.kernels.plan.empty()) {
    flags.kernels.units = flags.parts.units;
    auto policy = TRY(read_kernel_policy(context.files, flags.kernels));
    if (flags.parts.backend == "cuda" && policy.plan_units.empty())
      return bad_input("--kernel-plan", "on a GPU, a plan of `kernels plan`");
    flags.parts.planned = planned_workers(policy);
    if (flags.parts.backend == "cpu")
      flags.parts.house = std::make_shared<CpuHouse>(std::move(policy));
  }
  options.parts = TRY(parts_of(flags.parts));
  if (!flags.gpus.empty()) {
    options.open_maker = [&context, device = flags.device, gpus = flags.gpus] {
      return gpu_part_maker(context, device, gpus);
    };
  }
  TRY(set_opener(flags.parts, options.worker));
  options.worker.limits.memory = flags.parts.memory == 0 ? ~std::uint64_t{0} : flags.parts.memory;
  options.backend = flags.parts.backend;
  options.worker.sandbox.confinement = flags.open_sandbox ? Confinement::none
                                       : flags.parts.backend == "cpu" && !flags.parts.house
                                           ? Confinement::strict
                                           : Confinement::driver;
  TRY(set_user(flags.user, options.worker.sandbox));
  const auto idle = limit_of("--idle-limit", flags.idle);
  const auto wall = limit_of("--wall-limit", flags.wall);
  const auto token = token_of(context, flags.token_file);
  for (const Error* error : {idle ? nullptr : &idle.error(), wall ? nullptr : &wall.error(),
                             token ? nullptr : &token.error()})
    if (error != nullptr) return failed(*error);
  options.worker.idle_limit = *idle;
  options.worker.wall_limit = *wall;
  options.token = *token;
  options.worker.images = flags.images;
  options.limits.warm = static_cast<std::size_t>(flags.warm);
  options.limits.queue = static_cast<std::size_t>(flags.queue);
  options.metrics_file = flags.metrics;
  TRY(context.files.make_directories(directory));
  static_cast<void>(living_servers(context.files, directory));  // dead ones' files go
  options.state_file = fmt::format("{}/server-{}.json", directory, ::getpid());
  return options;
}

// Others than this host's users may only come with a token.
Result<void> check_address(const RemoteServeFlags& flags) {
  if (remote::only_this_host(flags.listen) || !flags.token_file.empty()) return {};
  return bad_input("--listen", fmt::format("{} can be reached from other hosts: give a "
                                           "--token-file, too",
                                           flags.listen));
}

Result<Exit> run_remote_serve(Context& context, RemoteServeFlags flags) {
  if (flags.listen.empty()) flags.listen = default_remote_address();
  TRY(check_address(flags));
  if (flags.with_parent) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const Descriptor stop(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  BrokerOptions options = TRY(broker_options(context, flags));
  if (flags.listen.starts_with("unix:/") || flags.listen.starts_with("socket:/")) {
    const std::string path = flags.listen.substr(flags.listen.find(':') + 1);
    const std::string folder = std::filesystem::path(path).parent_path().string();
    if (auto made = context.files.make_directories(folder); !made) return failed(made.error());
  }
  auto broker = TRY(Broker::open(flags.listen, std::move(options), context.files));
  say(context, fmt::format("listening on {}\n", broker->address()));
  say_ready();
  TRY(broker->run(stop.get()));
  return Exit::done;
}

void add_part_flags(CLI::App& command, RemoteServeFlags& flags) {
  one_of(flag(command, "--backend", flags.parts.backend), {"cpu", "cuda"})->default_str("cpu");
  flag(command, "--library", flags.parts.vendor_library)->default_str("libcuda.so.1");
  within(flag(command, "--units", flags.parts.units), 1, hw::kMaxUnits);
  within(flag(command, "--devices", flags.parts.devices), 1, kMostDevices)->default_str("1");
  flag(command, "--shape", flags.parts.shapes);
  within(flag(command, "--gpu-index", flags.gpus), 0, kMostGpus);
  CLI::Option* const profiles = flag(command, "--kernel-profiles", flags.kernels.profiles);
  profiles->needs(flag(command, "--kernel-plan", flags.kernels.plan)->needs(profiles));
  flag(command, "--workers", flags.kernels.workers)->needs(profiles);
  flag(command, "--kernel-times", flags.parts.kernel_times);
  add_device_flags(command, flags.device);
  within(flag(command, "--sessions", flags.parts.sessions), 1, kMaxSessions)->default_str("8");
  within(flag(command, "--memory", flags.memory_mib), 1, 256 * 1024);
}

void add_guard_flags(CLI::App& command, RemoteServeFlags& flags) {
  flag(command, "--token-file", flags.token_file);
  flag(command, "--idle-limit", flags.idle);
  flag(command, "--wall-limit", flags.wall);
  flag(command, "--run-as", flags.user);
  flag(command, "--no-sandbox", flags.open_sandbox);
}

}  // namespace

Command add_remote_serve(CLI::App& remote) {
  auto [command, flags] = adding<RemoteServeFlags>(
      remote, "serve",
      "Give parts of this machine to programs that were started with `remote run`");
  flag(*command, "--listen", flags->listen);
  add_part_flags(*command, *flags);
  within(flag(*command, "--warm", flags->warm), 0, kMaxSessions)->default_str("1");
  within(flag(*command, "--queue", flags->queue), 0, kMaxSessions)->default_str("64");
  add_guard_flags(*command, *flags);
  flag(*command, "--images", flags->images);
  flag(*command, "--metrics", flags->metrics);
  flag(*command, "--state-dir", flags->state_directory);
  flag(*command, "--with-parent", flags->with_parent);
  command->footer(
      "partita remote serve --listen unix:/tmp/partita.sock --shape CPU-2 --shape CPU-2");
  return {command, [flags](Context& context) { return run_remote_serve(context, *flags); }};
}

}  // namespace partita::cli
