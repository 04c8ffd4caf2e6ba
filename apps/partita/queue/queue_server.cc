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
#include "base/parse_number.h"
#include "control/host_meter.h"
#include "energy/instance_joules.h"
#include "flags.h"
#include "lease/lease_desk.h"
#include "node/state_dir.h"
#include "queue/host/attempts.h"
#include "queue/host/instances.h"
#include "queue/queue_site.h"
#include "queue/store/sqlite_store.h"

namespace partita::cli {
namespace {

using queue::Nanos;

constexpr Nanos kLook = 50'000'000;  // between two looks at processes
constexpr Nanos kLookAtOthers = 10'000'000'000;
constexpr Nanos kMeasure = 1'000'000'000;
constexpr double kReachesOnS = 2;
constexpr Nanos kLockWait = 30'000'000'000;
constexpr Nanos kLockRetry = 5'000'000;
constexpr unsigned kSocketMode = 0600;  // commands run as who serves: nobody else may submit

// "anna=4", "*=2" of everybody else.
template <class Take>
Result<void> each_user(const char* flag, const std::vector<std::string>& all, double least,
                       const Take& take) {
  for (const std::string& one : all) {
    const std::size_t equals = one.rfind('=');
    const auto value = equals == 0 || equals == std::string::npos
                           ? std::nullopt
                           : parse_number<double>(std::string_view(one).substr(equals + 1));
    if (!value || !(*value >= least) || *value > 1e6)
      return bad_input(flag,
                       fmt::format("'{}' is not USER=N, N from {:g} to 1,000,000", one, least));
    const std::string user = one.substr(0, equals);
    take(user == "*" ? "" : user, *value);
  }
  return {};
}

Result<void> users_of(const QueueServeFlags& flags, queue::Config& config) {
  if (auto fine = each_user("--quota", flags.quotas, 0,
                            [&](const std::string& user, double most) {
                              config.quotas[user].running = static_cast<int>(most);
                            });
      !fine)
    return fine;
  TRY(each_user("--most-tasks", flags.most_tasks, 0, [&](const std::string& user, double most) {
    config.most_tasks[user] = static_cast<int>(most);
  }));
  return each_user("--share", flags.shares, 1e-3,
                   [&](const std::string& user, double due) { config.shares[user] = due; });
}

Result<queue::Config> config_of(const QueueServeFlags& flags, const OpenDriver& open,
                                const device::NodeState& node) {
  const auto usable = TRY(carry::usable_gpus(node));
  queue::Config config;
  std::map<std::string, int> models;
  for (const int index : usable) {
    const std::string& name = node.gpus[static_cast<std::size_t>(index)].model;
    const auto [found, fresh] = models.try_emplace(name, static_cast<int>(config.models.size()));
    if (fresh) config.models.push_back(*open.catalogue->find(name));
    config.gpus.push_back(found->second);
    config.indices.push_back(index);
  }
  config.reconfigurer.gpus_per_node = std::max(1, static_cast<int>(usable.size()));
  config.cpus = flags.cpus;
  config.ram_gib = flags.ram_gib;
  config.planning.ageing = Nanos{3600} * plan::kNanosInSecond;
  const std::pair<const std::string*, Nanos*> times[] = {{&flags.idle, &config.idle_return},
                                                         {&flags.grace, &config.grace},
                                                         {&flags.patience, &config.patience}};
  for (const auto& [text, into] : times) {
    const auto duration = TRY(parse_duration("--return-after, --grace and --urgent-after", *text));
    *into = plan::nanos(duration);
  }
  TRY(users_of(flags, config));
  return config;
}

// The host on a loop: processes looked at every now and then, driver calls on a thread, one at a
// time. While tasks wait, what others have is looked at, too.
class Server final : public QueueServer {
 public:
  struct Parts {
    std::unique_ptr<queue::SqliteStore> store;
    FileLock lock, node_lock;
    std::string logs, socket, powercap;
    std::size_t gpus = 0;
  };
  Server(Context& context, serve::Loop& loop, queue::InstanceDoor& instances, Parts parts)
      : loop_(loop),
        instances_(instances),
        parts_(std::move(parts)),
        origin_(wall_clock_ms() * 1'000'000 - serve::Loop::now_ns()),
        reader_(context.files, {.powercap = parts_.powercap}),
        attempts_(processes_, context.files, parts_.logs),
        timer_(loop, [this](std::int64_t) { turn(); }) {}
  ~Server() override {
    if (caller_.joinable()) caller_.join();
  }

  Result<void> begin(const queue::Config& config) {
    const auto joules = [this](const std::string& device) { return joules_of(device); };
    const auto host_joules = [this](long task, int attempt) { return of_host(task, attempt); };
    host_ = TRY(queue::Host::open(
        config, {*parts_.store, attempts_, instances_, joules, host_joules}, now()));
    calls_.emplace(queue::Calls::Doors{*host_, [this] { return now(); },
                                       [this](long task) { return attempts_.log_path(task); },
                                       [this] { turn(); }});
    site_.emplace(*calls_);
    desk_.emplace(serve::Desk{*site_, limits_, counts_});
    const auto fd = TRY(serve::listen_on_path(parts_.socket, kSocketMode));
    listener_ = serve::DoorListener::open(loop_, *desk_, fd);
    turn();
    return {};
  }

  queue::Calls& calls() override { return *calls_; }
  std::string text() const override {
    return fmt::format("queue on {} GPUs at {}", parts_.gpus, parts_.socket);
  }

 private:
  Nanos now() const { return origin_ + serve::Loop::now_ns(); }
  void turn() {
    const std::optional<Nanos> wake = host_->turn(now());
    begin_call();
    Nanos next = now() + kLook;
    if (wake) next = std::min(next, std::max(*wake, now() + 1'000'000));
    timer_.at(next - origin_);
  }

  // Runs it on the thread, then `done` with what it gave on the loop.
  template <class Ask, class Done>
  void aside(Ask ask, Done done) {
    calling_ = true;
    if (caller_.joinable()) caller_.join();
    caller_ = std::thread([this, ask = std::move(ask), done = std::move(done)] {
      loop_.post([this, done, answer = ask()] {
        calling_ = false;
        done(answer);
        turn();
      });
    });
  }

  void begin_call() {
    if (calling_ || begin_measuring()) return;
    if (const auto call = host_->next_call())
      return aside([this, call = *call] { return perform(call); },
                   [this, call = *call](const Result<std::string>& device) {
                     host_->call_done(call, device, now());
                     if (!device) looked_ = 0;  // something may be there that it does not know of
                   });
    if (host_->queue().planner().waiting().empty() || now() - looked_ < kLookAtOthers) return;
    looked_ = now();
    aside([this] { return instances_.look(); },
          [this](const Result<queue::InstanceDoor::Seen>& seen) {
            if (seen) host_->others(seen->others);
          });
  }

  // While anything runs, and once before.
  bool begin_measuring() {
    if (host_->queue().tasks().empty() || now() - measured_ < kMeasure) return false;
    measured_ = now();
    const Seconds at{static_cast<double>(measured_ - origin_) / 1e9};
    aside(
        [this, at, running = attempts_of_tasks()] {
          reader_.keep_only(running);
          return std::pair(instances_.sample(at), reader_.read(at, running));
        },
        [this](const std::pair<Result<telemetry::Sample>, telemetry::HostSample>& seen) {
          if (seen.first) meter_.see(*seen.first);
          host_meter_.see(seen.second, {});
        });
    return true;
  }
  static std::string attempt_name(long task, int attempt) {
    return fmt::format("{}.{}", task, attempt);
  }
  std::vector<observe::TenantProcess> attempts_of_tasks() const {
    std::vector<observe::TenantProcess> all;
    for (const auto& [id, task] : host_->queue().tasks())
      if (task.state == queue::State::running)
        all.push_back({attempt_name(id, task.attempts), task.pid, task.identity, true});
    return all;
  }
  std::optional<queue::HostDoors::OfHost> of_host(long task, int attempt) {
    const std::string name = attempt_name(task, attempt);
    const auto part = host_meter_.part_of(name);
    host_meter_.forget(name);
    if (!part) return std::nullopt;
    return queue::HostDoors::OfHost{part->joules, part->idle_joules};
  }
  // The last measurement is gone on from with the watts that there were.
  std::optional<double> joules_of(const std::string& device) const {
    const Seconds at{static_cast<double>(now() - origin_) / 1e9};
    if ((at - meter_.seen()).value > kReachesOnS) return std::nullopt;
    return meter_.of(device, at);
  }

  Result<std::string> perform(const queue::Host::Call& call) {
    if (call.create) return instances_.create(call.place);
    const auto done = instances_.destroy(call.place);
    return done ? Result<std::string>("") : failed(done.error());
  }

  serve::Loop& loop_;
  queue::InstanceDoor& instances_;
  Parts parts_;
  Nanos origin_, looked_ = 0, measured_ = 0;
  InstanceJoules meter_;
  observe::HostEnergyReader reader_;  // on the thread
  control::HostMeter host_meter_;
  RealProcesses processes_;
  queue::Attempts attempts_;
  std::unique_ptr<queue::Host> host_;
  std::optional<queue::Calls> calls_;
  std::optional<QueueSite> site_;
  serve::DoorLimits limits_;
  serve::DoorCounts counts_;
  std::optional<serve::Desk> desk_;
  std::unique_ptr<serve::DoorListener> listener_;
  serve::Loop::Timer timer_;
  std::thread caller_;
  bool calling_ = false;
};

}  // namespace

std::string queue_socket(const std::string& state_dir) { return state_dir + "/queue/queue.sock"; }

Result<std::unique_ptr<QueueServer>> QueueServer::start(Context& context, serve::Loop& loop,
                                                        const Place& place,
                                                        const QueueServeFlags& flags,
                                                        queue::InstanceDoor& instances) {
  auto config = TRY(config_of(flags, place.open, place.node));
  config.tariff = TRY(decide::load_tariff(context.files, flags.tariff));
  const std::string state = std::filesystem::absolute(place.state_dir).lexically_normal().string();
  Server::Parts parts;
  parts.gpus = config.gpus.size();
  parts.logs = state + "/queue/logs";
  parts.powercap = flags.powercap;
  parts.socket = flags.socket.empty() ? queue_socket(state) : flags.socket;
  TRY(context.files.make_directories(parts.logs));
  parts.node_lock = TRY(lock_queue(context, place.open, place.node));
  parts.lock = TRY(context.files.lock(state + "/queue/queue.lock"));
  parts.store = TRY(queue::SqliteStore::open(state + "/queue/queue.db"));
  auto server = std::make_unique<Server>(context, loop, instances, std::move(parts));
  TRY(server->begin(config));
  return server;
}

Result<Exit> serve_queue(Context& context, const QueueServeFlags& flags) {
  auto loop = TRY(serve::Loop::make());
  if (auto heard = loop->on_signals({SIGINT, SIGTERM}, [&](int) { loop->stop(); }); !heard)
    return failed(heard.error());
  OpenDriver open = TRY(open_driver(context, flags.device));
  const auto node = TRY(device::read_node(*open.bare));
  const auto take_lock = [&]() -> Result<FileLock> {
    const std::int64_t give_up = context.clock.now_ns() + kLockWait;
    for (;;) {
      Result<FileLock> taken = lock_node_only(context, open, node);
      if (taken || taken.error().code != ErrorCode::in_use || context.clock.now_ns() >= give_up)
        return taken;
      context.clock.sleep_ns(kLockRetry);
    }
  };
  RealProcesses processes;
  queue::LeasedInstances instances(lease_doors(context, open, processes), lease_log(open, node),
                                   take_lock);
  const auto server = TRY(QueueServer::start(
      context, *loop, {open, node, state_directory(flags.state_dir, node)}, flags, instances));
  note(context, server->text() + "\n");
  loop->run();
  return Exit::done;
}

}  // namespace partita::cli
