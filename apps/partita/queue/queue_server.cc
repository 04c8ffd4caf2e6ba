#include "queue/queue_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>

#include "act/carry/occupancy.h"
#include "base/door/address.h"
#include "base/door/listener.h"
#include "flags.h"
#include "lease/lease_desk.h"
#include "node/state_dir.h"
#include "queue/host/attempts.h"
#include "queue/host/instances.h"
#include "queue/host/site.h"
#include "queue/store/sqlite_store.h"

namespace partita::cli {
namespace {

using queue::Nanos;

constexpr Nanos kLook = 50'000'000;  // between two looks at processes
constexpr Nanos kLockWait = 30'000'000'000;
constexpr Nanos kLockRetry = 5'000'000;
constexpr unsigned kSocketMode = 0600;  // commands run as who serves: nobody else may submit

Result<queue::Config> config_of(const QueueServeFlags& flags, const OpenDriver& open,
                                const device::NodeState& node) {
  const auto usable = carry::usable_gpus(node);
  if (!usable) return failed(usable.error());
  queue::Config config;
  std::map<std::string, int> models;
  for (const int index : *usable) {
    const std::string& name = node.gpus[static_cast<std::size_t>(index)].model;
    const auto [found, fresh] = models.try_emplace(name, static_cast<int>(config.models.size()));
    if (fresh) config.models.push_back(*open.catalogue->find(name));
    config.gpus.push_back(found->second);
    config.indices.push_back(index);
  }
  config.reconfigurer.gpus_per_node = std::max(1, static_cast<int>(usable->size()));
  config.cpus = flags.cpus;
  config.ram_gib = flags.ram_gib;
  config.planning.ageing = Nanos{3600} * plan::kNanosInSecond;
  const std::pair<const std::string*, Nanos*> times[] = {{&flags.idle, &config.idle_return},
                                                         {&flags.grace, &config.grace},
                                                         {&flags.patience, &config.patience}};
  for (const auto& [text, into] : times) {
    const auto duration = parse_duration("--return-after, --grace and --urgent-after", *text);
    if (!duration) return failed(duration.error());
    *into = plan::nanos(*duration);
  }
  return config;
}

// The host on a loop: processes looked at every now and then, driver calls on a thread, one at a
// time.
class Server {
 public:
  Server(queue::Host& host, queue::InstanceDoor& instances, serve::Loop& loop, Nanos wall_origin)
      : host_(host),
        instances_(instances),
        loop_(loop),
        origin_(wall_origin),
        timer_(loop, [this](std::int64_t) { turn(); }) {}
  ~Server() {
    if (caller_.joinable()) caller_.join();
  }

  Nanos now() const { return origin_ + serve::Loop::now_ns(); }
  void turn() {
    const std::optional<Nanos> wake = host_.turn(now());
    begin_call();
    Nanos next = now() + kLook;
    if (wake) next = std::min(next, std::max(*wake, now() + 1'000'000));
    timer_.at(next - origin_);
  }

 private:
  void begin_call() {
    if (calling_) return;
    const auto call = host_.next_call();
    if (!call) return;
    calling_ = true;
    if (caller_.joinable()) caller_.join();
    caller_ = std::thread([this, call = *call] {
      Result<std::string> answer = std::string();
      if (call.create) {
        answer = instances_.create(call.place);
      } else if (auto done = instances_.destroy(call.place); !done) {
        answer = failed(done.error());
      }
      loop_.post([this, call, answer = std::move(answer)] {
        calling_ = false;
        host_.call_done(call, answer, now());
        turn();
      });
    });
  }

  queue::Host& host_;
  queue::InstanceDoor& instances_;
  serve::Loop& loop_;
  Nanos origin_;
  serve::Loop::Timer timer_;
  std::thread caller_;
  bool calling_ = false;
};

struct Folders {
  std::string state, logs, socket;
};
Result<Folders> make_folders(Context& context, const QueueServeFlags& flags,
                             const device::NodeState& node) {
  Folders folders;
  folders.state =
      std::filesystem::absolute(state_directory(flags.state_dir, node)).lexically_normal().string();
  folders.logs = folders.state + "/queue/logs";
  folders.socket = flags.socket.empty() ? queue_socket(folders.state) : flags.socket;
  if (auto made = context.files.make_directories(folders.logs); !made) return failed(made.error());
  return folders;
}

}  // namespace

std::string queue_socket(const std::string& state_dir) { return state_dir + "/queue/queue.sock"; }

Result<Exit> serve_queue(Context& context, const QueueServeFlags& flags) {
  auto loop = serve::Loop::make();
  if (!loop) return failed(loop.error());
  if (auto heard = (*loop)->on_signals({SIGINT, SIGTERM}, [&](int) { (*loop)->stop(); }); !heard)
    return failed(heard.error());
  Result<OpenDriver> open = open_driver(context, flags.device);
  if (!open) return failed(open.error());
  const auto node = device::read_node(*open->bare);
  if (!node) return failed(node.error());
  const auto config = config_of(flags, *open, *node);
  if (!config) return failed(config.error());
  const auto folders = make_folders(context, flags, *node);
  if (!folders) return failed(folders.error());
  const auto lock = context.files.lock(folders->state + "/queue/queue.lock");
  if (!lock) return failed(lock.error());
  RealProcesses processes;
  queue::Attempts attempts(processes, context.files, folders->logs);
  const auto take_lock = [&]() -> Result<FileLock> {
    const std::int64_t give_up = context.clock.now_ns() + kLockWait;
    for (;;) {
      Result<FileLock> taken = lock_node_only(context, *open, *node);
      if (taken || taken.error().code != ErrorCode::in_use || context.clock.now_ns() >= give_up)
        return taken;
      context.clock.sleep_ns(kLockRetry);
    }
  };
  queue::LeasedInstances instances(lease_doors(context, *open, processes), lease_log(*open, *node),
                                   take_lock);
  auto store = queue::SqliteStore::open(folders->state + "/queue/queue.db");
  if (!store) return failed(store.error());
  const Nanos origin = wall_clock_ms() * 1'000'000 - serve::Loop::now_ns();
  auto host =
      queue::Host::open(*config, {**store, attempts, instances}, origin + serve::Loop::now_ns());
  if (!host) return failed(host.error());
  Server server(**host, instances, **loop, origin);
  queue::QueueSite site({**host, [&] { return server.now(); },
                         [&](long task) { return attempts.log_path(task); },
                         [&] { server.turn(); }});
  serve::DoorLimits limits;
  serve::DoorCounts counts;
  serve::Desk desk{site, limits, counts};
  const auto fd = serve::listen_on_path(folders->socket, kSocketMode);
  if (!fd) return failed(fd.error());
  const auto listener = serve::DoorListener::open(**loop, desk, *fd);
  server.turn();
  note(context, fmt::format("queue on {} GPUs at {}\n", config->gpus.size(), folders->socket));
  (*loop)->run();
  return Exit::done;
}

}  // namespace partita::cli
