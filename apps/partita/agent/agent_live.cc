#include <fmt/format.h>
#include <grp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <thread>

#include "act/change_forms.h"
#include "agent/agent.h"
#include "agent/agent_fleet.h"
#include "api/agent_desk.h"
#include "api/backend.h"
#include "api/server.h"
#include "base/boot.h"
#include "base/input.h"
#include "base/table.h"
#include "control/host/agent.h"
#include "control/host/batch_runner.h"
#include "control/loop.h"
#include "control/notify/notifier.h"
#include "control/settings.h"
#include "drivers/sim/sim_driver.h"
#include "history/event.h"
#include "history/store/lasting_store.h"
#include "lease/lease_desk.h"
#include "node/chronicle.h"
#include "node/devices.h"
#include "places.h"
#include "queue/host/instances.h"
#include "queue/queue_server.h"
#include "version.h"

namespace partita::cli {
namespace {

// A queue that an agent hosts: on a thread of its own, its instances made by the agent's, which has
// the node's lock, as leases; so the agent's plans know of them. Tasks outlive both.
class AgentQueue {
 public:
  // All must outlive it, and the desk's agent step, or it must end. `log`: of leases. `closed`:
  // GPUs that nothing is lent of, asked on the agent's thread.
  struct Doors {
    Context& context;
    const OpenDriver& open;
    std::string log;
    api::AgentDesk& desk;
    std::function<std::map<std::string, std::string>(const control::Agent&)> closed;
  };
  // To be called while nobody else uses the driver. The sentence that says where it is: text().
  static Result<std::unique_ptr<AgentQueue>> start(const Doors& doors,
                                                   const QueueServer::Place& place,
                                                   const QueueServeFlags& flags);
  ~AgentQueue();

  // An operation of the queue; any thread, and `answer` is called on the queue's.
  void ask(queue::Call call, std::function<void(Result<std::string>)> answer);
  std::string text() const { return server_->text(); }

 private:
  class Instances;
  AgentQueue() = default;

  std::atomic<bool> ending_ = false;
  std::unique_ptr<serve::Loop> loop_;
  std::unique_ptr<Instances> instances_;
  std::unique_ptr<QueueServer> server_;
  std::thread thread_;
};

// What receivers may ask for; other notices are lines of the log alone.
std::optional<notify::Alarm> alarm_of(control::NoticeKind kind) {
  using control::NoticeKind, notify::Alarm;
  static constexpr std::pair<NoticeKind, Alarm> kAlarms[] = {
      {NoticeKind::failed_change, Alarm::failed_change},
      {NoticeKind::given_up_worker, Alarm::given_up_worker},
      {NoticeKind::slo_risk, Alarm::slo_at_risk},
      {NoticeKind::approval, Alarm::waits_for_approval},
      {NoticeKind::health, Alarm::gpu_out},
      {NoticeKind::drift, Alarm::drift_repaired},
      {NoticeKind::damaged_file, Alarm::damaged_file}};
  for (const auto& [its, alarm] : kAlarms)
    if (its == kind) return alarm;
  return std::nullopt;
}

// Who is told of what happens: the receivers of the settings file, from the loop's notices.
class AgentNotices {
 public:
  // The key `notify` of that file; null where it has none.
  static Result<std::unique_ptr<AgentNotices>> read(Files& files, const std::string& path) {
    auto receivers = TRY(read_input(files, "--settings", path, notify::parse_receivers));
    if (receivers.empty()) return std::unique_ptr<AgentNotices>();
    return std::unique_ptr<AgentNotices>(new AgentNotices(std::move(receivers)));
  }

  const std::vector<notify::Receiver>& receivers() const { return receivers_; }
  void tell(const control::LoopNotice& notice, const std::string& node, std::int64_t now_ms) {
    if (const auto alarm = alarm_of(notice.kind))
      notifier_.tell({*alarm, now_ms, node, notice.subject, notice.change, notice.sentence});
  }
  // Who was told or could not be, since it was asked last, for the history.
  std::vector<history::Event> told(std::int64_t now_ms) {
    std::vector<history::Event> events;
    for (const notify::Report& report : notifier_.reports())
      events.push_back({0,
                        now_ms,
                        history::EventKind::notice,
                        report.notice.change,
                        "agent",
                        report.notice.text,
                        report.receiver,
                        report.told ? history::Outcome::succeeded : history::Outcome::failed,
                        report.told ? fmt::format("told after {} tries", report.tries) : report.why,
                        {}});
    return events;
  }

 private:
  explicit AgentNotices(std::vector<notify::Receiver> receivers)
      : receivers_(receivers), notifier_(std::move(receivers)) {}

  const std::vector<notify::Receiver> receivers_;
  notify::Notifier notifier_;
};

// Leases of a running agent, which has the node's lock: asked by its API, on its own thread.
class AgentLeases {
 public:
  // Both must outlive it. `log` is the log of leases; empty: nobody else sees the node.
  AgentLeases(Context& context, const OpenDriver& open, std::string log)
      : context_(context), open_(open), log_(std::move(log)) {}

  // On the thread of the agent, while it makes no change. `closed`: GPUs that are not lent of.
  Result<std::string> answer(const api::Backend::LeaseCall& call,
                             std::map<std::string, std::string> closed) {
    RealProcesses processes;
    lease::Ask ask = lease::Return{call.owner};
    if (call.wanted.empty()) {
      if (const std::string fault = lease::owner_fault(call.owner); !fault.empty())
        return bad_input("owner", fault);
    } else {
      const lease::Wanted wanted = TRY(lease::parse_wanted("body", call.wanted));
      ask = TRY(lease::ask_of(wanted, processes, wall_clock_ms()));
    }
    lease::LeaseDoors doors = lease_doors(context_, open_, processes);
    doors.closed = std::move(closed);
    auto leases = TRY(lease::Leases::open(std::move(doors), log_));
    const lease::Outcome outcome = TRY(leases.ask(ask));
    if (outcome.refused) return failed(lease::error_of(*outcome.refused));
    const std::string minors = mig_minors(context_);
    if (!call.wanted.empty())
      return lease::lease_json(lease::document_of(outcome.leases.front(), minors));
    return lease::leases_json({{}, outcome.returned});
  }
  // Ends what has expired; to be called now and then.
  void sweep() {
    if (log_.empty() || !context_.files.exists(log_)) return;
    const Result<std::string> text = context_.files.read(log_);
    const auto standing = text ? lease::parse_leases(log_, *text) : failed(text.error());
    RealProcesses processes;
    const bool due = !standing || std::ranges::any_of(standing->leases, [&](const auto& entry) {
      const lease::Terms& terms = entry.second.terms;
      return (terms.until_ms > 0 && terms.until_ms <= wall_clock_ms()) ||
             (terms.pid > 0 && processes.identity(terms.pid) != terms.identity);
    });
    if (due) settle_leases(context_, open_, log_);
  }
  // The document Leases on the node as it was read last; any thread.
  Result<std::string> list(const device::NodeState& node) {
    RealProcesses processes;
    const auto leases =
        TRY(lease::read_leases(lease_doors(context_, open_, processes), log_, node));
    const std::string minors = mig_minors(context_);
    lease::LeasesDocument document;
    for (const lease::Lease& one : leases)
      document.leases.push_back(lease::document_of(one, minors));
    return lease::leases_json(document);
  }

 private:
  Context& context_;
  const OpenDriver& open_;
  const std::string log_;
};

// GPUs that are out, or are for batches: nothing is lent of them, and why.
std::map<std::string, std::string> closed_gpus(const control::Agent& agent,
                                               const control::Settings& policy) {
  std::map<std::string, std::string> closed;
  const control::Snapshot& now = agent.snapshot();
  for (const control::GpuNow& gpu : now.gpus) {
    const bool batch = std::ranges::count(policy.batch.gpus, gpu.index) > 0 ||
                       std::ranges::count(now.batch.gpus, gpu.uuid) > 0;
    if (batch) closed[gpu.uuid] = "is for batches";
  }
  for (const control::OutGpu& one : agent.memory().out)
    closed[one.uuid] = "is taken out (" + one.why + ")";
  return closed;
}

constexpr std::chrono::milliseconds kLookForEnd{100};

// Asks the agent's thread, between its changes, and waits.
class AgentQueue::Instances final : public queue::InstanceDoor {
 public:
  Instances(const Doors& doors, const std::atomic<bool>& ending)
      : doors_(doors),
        ending_(ending),
        leased_(lease_doors(doors.context, doors.open, processes_), doors.log,
                [] { return Result<FileLock>(FileLock()); }) {}
  bool at_once = true;  // nobody else uses the driver

  Result<std::string> create(const queue::Place& place) override {
    return on_agent<Result<std::string>>([place](auto& leased) { return leased.create(place); });
  }
  Result<void> destroy(const queue::Place& place) override {
    return on_agent<Result<void>>([place](auto& leased) { return leased.destroy(place); });
  }
  Result<telemetry::Sample> sample(Seconds at) override {
    return on_agent<Result<telemetry::Sample>>([at](auto& leased) { return leased.sample(at); });
  }
  Result<Seen> look() override {
    if (at_once) return leased_.look();
    return on_agent<Result<Seen>>([](auto& leased) { return leased.look(); });
  }

 private:
  template <class Answer, class Ask>
  Answer on_agent(Ask ask) {
    const auto promise = std::make_shared<std::promise<Answer>>();
    std::future<Answer> answer = promise->get_future();
    doors_.desk.when_idle([this, ask, promise](control::Agent& agent) {
      leased_.close(doors_.closed(agent));
      promise->set_value(ask(leased_));
    });
    while (answer.wait_for(kLookForEnd) != std::future_status::ready)
      if (ending_) return failed({ErrorCode::environment, "the agent ends", ""});
    return answer.get();
  }

  Doors doors_;
  const std::atomic<bool>& ending_;
  RealProcesses processes_;
  queue::LeasedInstances leased_;
};

Result<std::unique_ptr<AgentQueue>> AgentQueue::start(const Doors& doors,
                                                      const QueueServer::Place& place,
                                                      const QueueServeFlags& flags) {
  std::unique_ptr<AgentQueue> queue(new AgentQueue());
  queue->loop_ = TRY(serve::Loop::make());
  queue->instances_ = std::make_unique<Instances>(doors, queue->ending_);
  queue->server_ =
      TRY(QueueServer::start(doors.context, *queue->loop_, place, flags, *queue->instances_));
  queue->instances_->at_once = false;
  queue->thread_ = std::thread([own = queue.get()] { own->loop_->run(); });
  return queue;
}

AgentQueue::~AgentQueue() {
  ending_ = true;
  if (loop_) loop_->stop();
  if (thread_.joinable()) thread_.join();
}

void AgentQueue::ask(queue::Call call, std::function<void(Result<std::string>)> answer) {
  loop_->post([this, call = std::move(call), answer = std::move(answer)] {
    answer(server_->calls().answer(call));
  });
}

constexpr std::int64_t kTidyMs = 60'000;
constexpr std::int64_t kMilli = 1'000'000;

// What a live agent owns, from when it has read its settings until it ends.
struct LiveNode {
  control::AgentFile file;
  OpenDriver open;
  std::string state_dir;
  device::NodeState state;  // as it was at the beginning
  FileLock lock, state_lock;
  std::unique_ptr<device::HealthWatch> health;  // null: nobody hears of it
};

// The flags of the command line are stronger than the file.
Result<control::AgentFile> settled_file(Context& context, const LiveFlags& flags) {
  control::AgentFile file = TRY(load_agent_file(context, flags.config));
  if (flags.driver_said || flags.config.empty()) file.node.driver = flags.device.driver;
  const auto over = [](const std::string& flag, std::string& place) {
    if (!flag.empty()) place = flag;
  };
  over(flags.device.machine, file.node.machine);
  over(flags.device.catalogue, file.node.catalogue);
  over(flags.state_dir, file.node.state_dir);
  over(flags.services, file.services);
  over(flags.profiles, file.profiles);
  over(flags.listen, file.server.listen);
  over(flags.queue.tariff.prices, file.power.prices);
  if (flags.queue.tariff.carbon_price > 0)
    file.power.carbon_price = flags.queue.tariff.carbon_price;
  if (!flags.mode.empty()) file.policy.mode = *control::parse_mode(flags.mode);
  file.fleet = TRY(settled_fleet(file.fleet, flags.fleet));
  if (!file.fleet.endpoints.empty()) {
    if (!file.services.empty())
      return bad_input(flags.services.empty() ? "services" : "--services",
                       "a node of a fleet has none of its own: `partita apply FILE --fleet` says "
                       "what is wanted");
    // Who is asked first is the fleet's to say.
    if (flags.mode.empty()) file.policy.mode = control::Mode::automatic;
    file.policy.forecast.floor_share = 1;  // a part is the least that it plans for
  }
  if (flags.dry_run) file.policy.mode = control::Mode::observe;
  return file;
}

// Of the state directory: two agents of one would each take the other's journal for its own.
Result<FileLock> lock_state(Context& context, const std::string& directory) {
  TRY(context.files.make_directories(directory));
  auto lock = context.files.lock(directory + "/agent.lock");
  if (lock || lock.error().code != ErrorCode::in_use) return lock;
  Error error = lock.error();
  error.message +=
      ": an agent keeps its state in this directory; each needs one of its own "
      "(node.state_dir, --state-dir)";
  return failed(std::move(error));
}

Result<LiveNode> open_live(Context& context, const LiveFlags& flags) {
  control::AgentFile file = TRY(settled_file(context, flags));
  const DeviceFlags device{file.node.driver, file.node.machine, file.node.catalogue};
  OpenDriver open = TRY(open_driver(context, device));
  device::NodeState state = TRY(device::read_node(*open.driver));
  std::string directory = state_directory(file.node.state_dir, state);
  // One that knows what was wanted before goes on with that, and says that the file is missing.
  if (!file.services.empty() && !context.files.exists(control::memory_path(directory)))
    TRY(read_input(context.files, flags.services.empty() ? "services" : "--services",
                   file.services));
  LiveNode live{
      std::move(file), std::move(open), std::move(directory), std::move(state), {}, {}, {}};
  if (auto health = open_health(device, live.open))
    live.health = *std::move(health);
  else
    complain(context, "the health of GPUs is not heard of: " + to_string(health.error()));
  if (flags.once || flags.dry_run) return live;
  live.lock = TRY(lock_node(context, live.open, live.state));
  live.state_lock = TRY(lock_state(context, live.state_dir));
  return live;
}

std::string services_table(const control::Snapshot& now) {
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.1f}", *value) : "-";
  };
  Table table = headed("service|wanted|rate|forecast|planned|can carry|verdict|");
  for (const control::ServiceNow& one : now.services)
    table.add("{}|{:.1f}|{}|{}|{:.1f}|{:.1f}|{}|{}", one.name, one.rate.value, number(one.rate_rps),
              number(one.forecast_rps), one.planned_rps, one.is.can_carry_rps,
              control::to_string(one.is.verdict), one.is.why);
  return table.rows.empty() ? "" : to_string(table);
}

// What a plan leaves out; empty where it serves all that is asked for.
std::string part_text(const plan::ServingPlan& plan) {
  std::string text;
  for (const plan::PlannedService& row : plan.services)
    if (row.wanted)
      text +=
          fmt::format("{}{} {:.4g} of {:.4g} req/s ({:.0f} %)", text.empty() ? "" : ", ", row.name,
                      row.rate.value, row.wanted->value, 100 * row.rate.value / row.wanted->value);
  return text.empty() ? text : "the plan in force serves only a part: " + text + "\n";
}

std::string look_text(const control::Snapshot& now) {
  std::string text = now.doing + "\n" + services_table(now);
  if (now.plan) text += part_text(*now.plan);
  if (!now.current) return text;
  text += fmt::format("\nchange {}, {}: {}\n", now.current->number,
                      control::to_string(now.current->state), now.current->cause);
  for (const std::string& line : now.current->explanation) text += "  " + line + "\n";
  return text + actuate::change_text(now.current->change, true);
}

Result<Exit> look_once(Context& context, const LiveFlags& flags, control::Agent& agent) {
  const control::Deeds deeds = agent.look_once();
  if (deeds.refused_file) return failed(*deeds.refused_file);
  const control::Snapshot& now = agent.snapshot();
  const Exit shown = TRY(finish(
      context, flags.output, flags.output.json() ? control::snapshot_json(now) : look_text(now)));
  return deeds.unplanned ? Exit::no : shown;
}

class LiveRun {
 public:
  LiveRun(Context& context, const LiveFlags& flags, LiveNode node)
      : context_(context),
        flags_(flags),
        node_(std::move(node)),
        desk_(
            history::history_path(node_.state_dir), [this] { signals_.wake(); }, wall_clock_ms),
        hooks_(context, node_.state_dir,
               [this](history::Event event) { keep_hook(std::move(event)); }),
        leases_(context, node_.open, lease_log(node_.open, node_.state)) {
    if (flags.once || flags.dry_run) return;
    desk_.set_lender({[this](const api::Backend::LeaseCall& call, const control::Agent& agent) {
                        return leases_.answer(call, closed_gpus(agent, node_.file.policy));
                      },
                      [this](const device::NodeState& now) { return leases_.list(now); }});
  }

  Result<void> begin() {
    TRY(open_history());
    open_batches();
    TRY(begin_agent());
    if (flags_.once) return {};
    notices_ = TRY(read_notices());
    TRY(host_queue());
    TRY(join_fleet());
    return serve();
  }
  Result<Exit> run() {
    const std::size_t gpus = node_.state.gpus.size();
    say(fmt::format("keeps {} GPU{} as wanted; its state is in {}", gpus, gpus == 1 ? "" : "s",
                    node_.state_dir));
    for (bool woken = true; !signals_.ending();) {
      const bool anew = signals_.reread();
      if (anew) reread();
      const std::int64_t next = woken || anew ? agent_->step() : agent_->glance();
      tell_looked();
      leases_.sweep();
      keep_events();
      if (signals_.ending()) break;
      woken = signals_.wait(std::min(next - wall_clock_ms(), control::kGlanceMs) * kMilli);
    }
    if (server_) server_->stop();
    fleet_.reset();
    queue_.reset();
    if (auto ended = agent_->end(); !ended)
      say("limits and clocks of GPUs stay as they are: " + to_string(ended.error()) +
          "; `partita power set --restore` puts them back");
    keep_events();
    if (store_ && !store_->append({.time_ms = wall_clock_ms(),
                                   .kind = history::EventKind::stopped,
                                   .user = "agent",
                                   .cause = "it was asked to end"}))
      say("history is not kept");
    say("ends, as it was asked to; the node stays as it is");
    return Exit::done;
  }
  control::Agent& agent() { return *agent_; }

 private:
  void say(const std::string& sentence) { complain(context_, sentence); }
  // Whatever is the matter with the history, the node is kept.
  Result<void> open_history() {
    if (flags_.dry_run || flags_.once) return {};
    TRY(context_.files.make_directories(node_.state_dir));
    store_.emplace(context_.files, history::history_path(node_.state_dir),
                   [this](const std::string& sentence) {
                     say("notice: " + sentence);
                     history_news_.push_back(sentence);
                   });
    store_->open(wall_clock_ms());
    highest_change_ = store_->last_change();
    return {};
  }
  // Each run of a batch has a driver of its own.
  void open_batches() {
    if (flags_.dry_run || flags_.once) return;
    const auto driver = [this]() -> Result<std::shared_ptr<device::NodeDriver>> {
      if (node_.open.machine) return std::make_shared<drivers::sim::SimDriver>(*node_.open.machine);
      OpenDriver open = TRY(open_driver(
          context_, {node_.file.node.driver, node_.file.node.machine, node_.file.node.catalogue}));
      auto kept = std::make_shared<OpenDriver>(std::move(open));
      return std::shared_ptr<device::NodeDriver>(kept, kept->driver.get());
    };
    batches_ = std::make_unique<control::BatchRunner>(
        control::BatchRunnerDoors{driver, std::filesystem::absolute(node_.state_dir).string(),
                                  wall_clock_ms, *node_.open.catalogue,
                                  [this] { signals_.wake(); }});
  }
  // The profiles of other nodes' GPUs are read too: any node may lead.
  Result<void> join_fleet() {
    if (node_.file.fleet.endpoints.empty() || flags_.dry_run) return {};
    std::vector<std::string> models = models_of(node_.state);
    for (const control::ModelProfiles& one : node_.file.profiles_of) models.push_back(one.gpu);
    std::ranges::sort(models);
    models.erase(std::ranges::unique(models).begin(), models.end());
    auto world = TRY(agent_world(context_, node_.file, *node_.open.catalogue, models));
    auto joined = TRY(
        AgentFleet::start(context_, {.fleet = node_.file.fleet,
                                     .world = std::move(world),
                                     .state_dir = node_.state_dir,
                                     .boot = boot_of(context_.files),
                                     .wall_ms = wall_clock_ms,
                                     .wake = [this] { signals_.wake(); },
                                     .say = [this](const std::string& text) { say(text); }}));
    fleet_ = std::move(joined);
    desk_.set_fleet([this](AgentFleet::Call call, std::function<void(Result<std::string>)> answer) {
      fleet_->tell_of(std::move(call), std::move(answer));
    });
    desk_.set_fleet_metrics([this] { return fleet_ ? fleet_->metrics() : ""; });
    return {};
  }
  Result<void> begin_agent() {
    auto world =
        TRY(agent_world(context_, node_.file, *node_.open.catalogue, models_of(node_.state)));
    if (world.profiles.empty())
      say("no profiles for the GPUs of this node: nothing can be planned until 'profiles' names "
          "some");
    // Numbers that were given since this process began are in the state directory.
    agent_ = TRY(control::Agent::begin(doors(), std::move(world), highest_change_));
    return {};
  }
  Result<void> host_queue() {
    if (!flags_.host_queue || flags_.dry_run) return {};
    QueueServeFlags flags = flags_.queue;
    flags.tariff = {node_.file.power.prices, node_.file.power.carbon_price};
    flags.powercap = node_.file.power.powercap;
    queue_ = TRY(AgentQueue::start(
        {context_, node_.open, lease_log(node_.open, node_.state), desk_,
         [this](const control::Agent& agent) { return closed_gpus(agent, node_.file.policy); }},
        {node_.open, node_.state, node_.state_dir}, flags));
    desk_.set_queue([this](queue::Call call, std::function<void(Result<std::string>)> answer) {
      queue_->ask(std::move(call), std::move(answer));
    });
    say(queue_->text());
    return {};
  }
  Result<void> serve() {
    const control::AgentServer& wanted = node_.file.server;
    if (!wanted.on) return {};
    // Without a settings file there may be several agents, each on a machine of its own.
    const std::string standard = std::filesystem::absolute(
        (flags_.config.empty() ? node_.state_dir : default_runtime_directory()) + "/api.sock");
    api::ServerOptions options{.socket = wanted.socket.empty() ? standard : wanted.socket,
                               .listen = wanted.listen,
                               .tokens_file = wanted.tokens_file,
                               .tls_certificate = wanted.tls_certificate,
                               .tls_key = wanted.tls_key,
                               .client_ca = wanted.client_ca,
                               .client_roles = wanted.client_roles,
                               .oidc = wanted.oidc,
                               .hosts = wanted.hosts,
                               .access_log = wanted.access_log,
                               .version = version()};
    if (!wanted.group.empty()) {
      const group* found = ::getgrnam(wanted.group.c_str());
      if (found == nullptr)
        return bad_input("server", fmt::format("there is no group '{}'", wanted.group));
      options.group = found->gr_gid;
    }
    TRY(context_.files.make_directories(node_.state_dir));
    server_ = TRY(api::Server::start(desk_, std::move(options)));
    // The socket is the one where who commands this node has a role.
    const std::vector<std::string> all = server_->addresses();
    const auto local =
        std::ranges::find_if(all, [](const std::string& one) { return one.starts_with("unix:"); });
    tell_address(context_, node_.open, node_.state, local == all.end() ? all.front() : *local);
    for (const std::string& address : all) say("its API is at " + address);
    return {};
  }
  // The API at its new place, or, where that cannot be, at the old one.
  void serve_anew(const control::AgentServer& before) {
    server_.reset();
    auto served = serve();
    if (served && !node_.file.server.on) say("there is no API any more");
    if (served) return;
    say(to_string(served.error()) + "; the API stays where it was");
    node_.file.server = before;
    if (served = serve(); !served) say(to_string(served.error()) + "; there is no API");
  }
  Result<std::unique_ptr<AgentNotices>> read_notices() {
    if (flags_.config.empty() || flags_.dry_run) return std::unique_ptr<AgentNotices>();
    return AgentNotices::read(context_.files, flags_.config);
  }
  // Who stays as he was keeps what still waits for him only if nobody changed.
  void take_notices(std::unique_ptr<AgentNotices> now) {
    if ((now ? now->receivers() : std::vector<notify::Receiver>{}) ==
        (notices_ ? notices_->receivers() : std::vector<notify::Receiver>{}))
      return;
    keep_events();
    notices_ = std::move(now);
  }
  control::AgentDoors doors() {
    control::AgentDoors doors{*node_.open.driver, context_.files, context_.clock, wall_clock_ms,
                              node_.state_dir};
    doors.services_file = node_.file.services;
    doors.processes = &processes_;
    doors.dry_run = flags_.dry_run || flags_.once;
    if (node_.health) {
      doors.health = [this] {
        auto news = node_.health->look();
        for (const std::string& sentence : node_.health->complaints()) say(sentence);
        return news;
      };
      doors.boot = boot_of(context_.files);
    }
    doors.inquiries = [this] { return inquiries(); };
    if (!node_.file.fleet.endpoints.empty())
      doors.budget_w = [this] { return fleet_ ? fleet_->budget_w() : std::nullopt; };
    doors.fleet_fault = [this] { return fleet_ ? fleet_->fault() : ""; };
    doors.errands = [this] { return desk_.take_errands(); };
    doors.ending = [this] {  // asked while a change is made, between glances
      tell_looked();
      return signals_.ending();
    };
    doors.record = [this](const history::Event& event) -> Result<void> {
      return store_ ? store_->append(event) : Result<void>{};
    };
    doors.measure = [this](const std::vector<history::Measured>& values) -> Result<void> {
      return store_ ? store_->measure(values) : Result<void>{};
    };
    doors.notify = [this](const control::LoopNotice& notice) {
      say("notice: " + notice.sentence);
      if (notices_) notices_->tell(notice, agent_ ? agent_->snapshot().node : "", wall_clock_ms());
    };
    doors.publish = [this](const control::Loop& loop) { publish(loop); };
    doors.say = [this](const std::string& sentence) { say(sentence); };
    doors.hook = [this](const std::string& name, const std::string& phase, long change) {
      return hooks_.run(node_.file.hooks, name, phase, change);
    };
    doors.reset_gpu = gpu_reset(node_.open);
    doors.can_reset = true;
    doors.power_marks = gpu_prefix(node_.open);
    doors.host.powercap = node_.file.power.powercap;
    if (batches_ == nullptr) return doors;
    doors.batch_runs = [this] { return batches_->runs(); };
    doors.carry_batches = [this](const std::vector<control::BatchDeed>& deeds) {
      batches_->carry(deeds);
    };
    return doors;
  }
  // A node of a fleet carries what the fleet says, and nothing that nobody else knows of.
  std::vector<control::Inquiry> inquiries() {
    auto asked = desk_.take_inquiries();
    if (!fleet_) return asked;
    std::erase_if(asked, [this](const control::Inquiry& one) {
      const control::Request& request = one.asked.request;
      if (!std::holds_alternative<control::SetServices>(request) &&
          !std::holds_alternative<control::SetPlan>(request))
        return false;
      one.answer(failed({ErrorCode::infeasible,
                         fmt::format("this node is one of fleet '{}': `partita apply FILE --fleet` "
                                     "says which services the fleet carries",
                                     node_.file.fleet.name),
                         ""}));
      return true;
    });
    std::ranges::move(fleet_->take_inquiries(), std::back_inserter(asked));
    return asked;
  }
  void tell_looked() {
    desk_.looked(wall_clock_ms());
    if (fleet_) fleet_->looked();
  }
  void publish(const control::Loop& loop) {
    desk_.publish(loop);
    desk_.looked(wall_clock_ms());
    if (fleet_) fleet_->hear(loop);
    keep_events();
    // What repeats itself from look to look is said once.
    const std::string& doing_now = loop.snapshot().doing;
    const std::string doing = doing_now.substr(0, doing_now.find(';'));
    if (doing != said_ && !doing.empty()) say(doing);
    said_ = doing;
  }
  void keep_events() {
    if (!store_) return;
    tell_history_news();
    for (const history::Event& event : desk_.take_events())
      if (const auto kept = store_->append(event); !kept) say(to_string(kept.error()));
    if (notices_)
      for (const history::Event& event : notices_->told(wall_clock_ms()))
        if (const auto kept = store_->append(event); !kept) say(to_string(kept.error()));
    const std::int64_t now = wall_clock_ms();
    if (now < tidy_ms_ + kTidyMs) return;
    tidy_ms_ = now;
    if (auto tidied = store_->tidy(now); !tidied) say(to_string(tidied.error()));
  }
  void tell_history_news() {
    for (const std::string& sentence : std::exchange(history_news_, {})) {
      const std::string path = history::history_path(node_.state_dir);
      static_cast<void>(store_
                            ->append({.time_ms = wall_clock_ms(),
                                      .kind = history::EventKind::repair,
                                      .user = "agent",
                                      .cause = "a file of the state directory is damaged",
                                      .subject = path,
                                      .detail = sentence})
                            .has_value());
      if (notices_)
        notices_->tell({control::NoticeKind::damaged_file, path, sentence, 0},
                       agent_ ? agent_->snapshot().node : "", wall_clock_ms());
    }
  }
  // A file that cannot be read leaves everything as it is.
  void reread() {
    Result<control::AgentFile> file = settled_file(context_, flags_);
    if (!file) return say(to_string(file.error()) + "; the settings stay as they were");
    auto notices = read_notices();
    if (!notices) return say(to_string(notices.error()) + "; the settings stay as they were");
    control::AgentFile before = std::exchange(node_.file, *std::move(file));
    std::unique_ptr<control::Agent> old = std::move(agent_);
    if (auto begun = begin_agent(); !begun) {
      say(to_string(begun.error()) + "; the settings stay as they were");
      node_.file = std::move(before);
      agent_ = std::move(old);
      return;
    }
    agent_->take_over(*old);
    if (node_.file.node != before.node) {
      say("'node' was changed: that holds when the agent is started again");
      node_.file.node = before.node;
    }
    take_notices(*std::move(notices));
    if (node_.file.server != before.server) serve_anew(before.server);
    say("the settings were read again");
  }
  void keep_hook(history::Event event) {
    event.time_ms = wall_clock_ms();
    event.user = "agent";
    if (store_ && !store_->append(event)) say("history is not kept");
  }

  Context& context_;
  const LiveFlags& flags_;
  LiveNode node_;
  AgentSignals signals_;
  api::AgentDesk desk_;
  RealProcesses processes_;
  NodeHooks hooks_;
  AgentLeases leases_;
  std::optional<history::LastingStore> store_;
  std::vector<std::string> history_news_;  // what became of its file, and nobody was told yet
  long highest_change_ = 0;
  std::unique_ptr<control::Agent> agent_;
  std::string said_;
  std::int64_t tidy_ms_ = 0;
  std::unique_ptr<AgentNotices> notices_;
  std::unique_ptr<control::BatchRunner> batches_;
  std::unique_ptr<AgentQueue> queue_;
  std::unique_ptr<AgentFleet> fleet_;
  std::unique_ptr<api::Server> server_;  // last: it calls the desk until it ends
};

}  // namespace

Result<Exit> run_live_agent(Context& context, const LiveFlags& flags) {
  LiveNode node = TRY(open_live(context, flags));
  LiveRun run(context, flags, std::move(node));
  TRY(run.begin());
  return flags.once ? look_once(context, flags, run.agent()) : run.run();
}

}  // namespace partita::cli
