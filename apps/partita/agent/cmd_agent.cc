#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "agent/agent.h"
#include "api/agent_desk.h"
#include "api/server.h"
#include "commands.h"
#include "control/sim/sim_weeks.h"
#include "decide/gpu_costs.h"
#include "decide/power.h"
#include "decide/serving_inputs.h"
#include "decide/traces.h"
#include "history/store/store.h"
#include "node/devices.h"
#include "version.h"

namespace partita::cli {
namespace {

constexpr const char* kSettingsFlag = "--settings";

constexpr int kStandardGpus = 8;
constexpr const char* kStandardModel = "A100-80GB";

// By its description, else kStandardGpus of kStandardModel. The catalogue must outlive it.
Result<drivers::sim::Machine> weeks_machine(const std::string& path, const std::string& text,
                                            const hw::Catalogue& catalogue) {
  drivers::sim::MachineDescription description;
  if (path.empty()) {
    const auto model = TRY(catalogue.get(kStandardModel));
    description.gpus.push_back({model, kStandardGpus, true});
  } else {
    description = TRY(drivers::sim::parse_machine(path, text, catalogue));
    description.processes.clear();
  }
  return drivers::sim::make_machine(description, "agent --simulate");
}

std::vector<std::string> models_in(const drivers::sim::Machine& machine) {
  device::NodeState node;
  for (const drivers::sim::SimGpu& gpu : machine.gpus())
    node.gpus.emplace_back().model = gpu.model->name;
  return models_of(node);
}

Result<control::WeeksOptions> weeks_options(Context& context, const WeeksFlags& flags) {
  control::AgentFile file = TRY(load_agent_file(context, flags.live.config));
  if (!flags.live.services.empty()) file.services = flags.live.services;
  if (!flags.live.profiles.empty()) file.profiles = flags.live.profiles;
  if (file.services.empty()) return bad_input("--services", "is required: a services file");
  if (file.profiles.empty() && file.profiles_of.empty())
    return bad_input("--profiles", "is required: profiles of the node's GPU models");
  file.policy.mode = control::Mode::automatic;
  file.policy.hooks_before.clear();
  file.policy.hooks_after.clear();
  auto catalogue = TRY(decide::load_catalogue(context.files, flags.live.device.catalogue));
  const std::string node = !flags.machine.empty()               ? flags.machine
                           : !flags.live.device.machine.empty() ? flags.live.device.machine
                                                                : file.node.machine;
  const std::string described = TRY(node.empty() ? "" : read_input(context.files, "--node", node));
  const auto first = TRY(weeks_machine(node, described, catalogue));
  auto world = TRY(agent_world(context, file, catalogue, models_in(first)));
  auto machine = weeks_machine(node, described, world.catalogue);  // which stays where it is
  if (!machine) return failed(machine.error());
  const auto services = TRY(read_input(context.files, "--services", file.services));
  const std::string tasks =
      TRY(flags.tasks.empty() ? "" : read_input(context.files, "--tasks", flags.tasks));
  return control::WeeksOptions{
      .world = std::move(world),
      .services_file = file.services,
      .services_text = services,
      .machine = *std::move(machine),
      .days = flags.days,
      .seed = flags.seed,
      .troubles = flags.calm ? control::SimTroubles{} : control::usual_troubles(),
      .tasks_text = tasks};
}

// Somebody looks on while the days pass: API and page of the simulated agent, its history in a
// folder that goes with it.
class Onlooker {
 public:
  static Result<std::unique_ptr<Onlooker>> open(control::SimWeeks& weeks, const WeeksFlags& flags) {
    PrivateFolder folder = TRY(PrivateFolder::make());
    std::unique_ptr<Onlooker> self(new Onlooker(weeks, std::move(folder)));
    self->store_.emplace(
        TRY(history::Store::open(self->folder_.path() + "/history.db", history::Access::write)));
    self->server_ =
        TRY(api::Server::start(self->desk_, {.socket = self->folder_.path() + "/api.sock",
                                             .listen = flags.live.listen,
                                             .version = version()}));
    weeks.add_doors = [it = self.get()](control::AgentDoors& doors) { it->add_doors(doors); };
    return self;
  }
  std::vector<std::string> addresses() const { return server_->addresses(); }
  // Until the real time has come; false when somebody wants it to end.
  bool keep_pace(Context& context, double pace_s) {
    if (!began_ns_) began_ns_ = context.clock.now_ns();
    const double days = static_cast<double>(weeks_.node().now_ns()) / 86'400e9;
    const auto due = *began_ns_ + static_cast<std::int64_t>(days * pace_s * 1e9);
    for (std::int64_t now = context.clock.now_ns(); now < due; now = context.clock.now_ns()) {
      if (signals_.ending()) return false;
      signals_.wait(std::min<std::int64_t>(due - now, 100'000'000));
    }
    return !signals_.ending();
  }

 private:
  explicit Onlooker(control::SimWeeks& weeks, PrivateFolder folder)
      : weeks_(weeks),
        folder_(std::move(folder)),
        desk_(folder_.path() + "/history.db", [this] { signals_.wake(); }) {}
  void add_doors(control::AgentDoors& doors) {
    doors.telemetry = true;
    doors.inquiries = [this] { return desk_.take_inquiries(); };
    doors.errands = [this] { return desk_.take_errands(); };
    doors.measure = [this](const auto& values) { return store_->measure(values); };
    doors.record = [this, counted = doors.record](const history::Event& event) -> Result<void> {
      TRY(store_->append(event));
      return counted(event);
    };
    doors.publish = [this](const control::Loop& loop) { desk_.publish(loop); };
  }

  control::SimWeeks& weeks_;
  PrivateFolder folder_;
  AgentSignals signals_;
  api::AgentDesk desk_;
  std::optional<history::Store> store_;
  std::optional<std::int64_t> began_ns_;
  std::unique_ptr<api::Server> server_;
};

struct AgentFlags {
  LiveFlags live;
  WeeksFlags weeks;
};

Result<Exit> run_agent(Context& context, const CLI::App& command, AgentFlags& flags) {
  flags.live.driver_said = command.count("--driver") > 0;
  if (flags.weeks.days == 0) {
    if (flags.live.output.svg()) return bad_input("--format", "svg is a picture of --simulate");
    for (const char* flag : {"--node", "--tasks", "--calm", "--pace"})
      if (std::ranges::count(command.parse_order(), command.get_option(flag)) > 0)
        return bad_input(flag, "is of a simulation: --simulate DAYS");
    return run_live_agent(context, flags.live);
  }
  flags.weeks.live = flags.live;
  return run_agent_weeks(context, flags.weeks);
}

}  // namespace

AgentSignals::AgentSignals() : signal_(-1), event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  sigemptyset(&signals_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals_, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  signal_ = Descriptor(::signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK));
  std::signal(SIGPIPE, SIG_IGN);  // who reads our lines may go away
}

AgentSignals::~AgentSignals() {
  look();  // what came too late is not for others
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void AgentSignals::look() {
  signalfd_siginfo info{};
  while (::read(signal_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGHUP)
      reread_ = true;
    else
      ending_ = true;
  }
}

bool AgentSignals::wait(std::int64_t ns) {
  pollfd ready[] = {{signal_.get(), POLLIN, 0}, {event_.get(), POLLIN, 0}};
  constexpr std::int64_t kMilli = 1'000'000, kLongest = 3'600'000;
  const std::int64_t ms = std::clamp((ns + kMilli - 1) / kMilli, std::int64_t{0}, kLongest);
  const bool came = ::poll(ready, 2, static_cast<int>(ms)) != 0;
  std::uint64_t woken = 0;
  while (::read(event_.get(), &woken, sizeof woken) > 0) continue;
  return came;
}

void AgentSignals::wake() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(event_.get(), &one, sizeof one) > 0);
}

bool AgentSignals::ending() {
  look();
  return ending_;
}

bool AgentSignals::reread() {
  look();
  const bool came = reread_;
  reread_ = false;
  return came;
}

Result<control::AgentFile> load_agent_file(Context& context, const std::string& path) {
  if (path.empty()) return control::AgentFile{};
  control::AgentFile file =
      TRY(read_input(context.files, kSettingsFlag, path, control::parse_agent_file));
  for (std::string* named :
       {&file.node.machine, &file.node.catalogue, &file.node.state_dir, &file.services,
        &file.server.tokens_file, &file.server.tls_certificate, &file.server.tls_key,
        &file.server.client_ca, &file.server.client_roles, &file.server.oidc,
        &file.server.access_log, &file.server.socket, &file.fleet.password_file, &file.fleet.ca,
        &file.fleet.certificate, &file.fleet.key})
    if (!named->empty()) *named = beside(path, *named);
  if (!file.profiles.empty()) file.profiles = decide::all_beside(path, file.profiles);
  for (auto* named : {&file.profiles_of, &file.power_tables})
    for (control::ModelProfiles& one : *named) one.path = decide::all_beside(path, one.path);
  return file;
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != 0 ? name : "node";
}

std::vector<std::string> models_of(const device::NodeState& node) {
  std::set<std::string> models;
  for (const device::GpuState& gpu : node.gpus)
    if (!gpu.model.empty()) models.insert(gpu.model);
  return {models.begin(), models.end()};
}

Result<control::World> agent_world(Context& context, const control::AgentFile& file,
                                   const hw::Catalogue& catalogue,
                                   const std::vector<std::string>& models) {
  control::World world{host_name(), file.policy, catalogue, {}, {}, file.max_processes};
  if (!file.slo_rule.empty()) world.rule = TRY(decide::load_rule("slo_rule", file.slo_rule));
  world.tariff =
      TRY(decide::load_tariff(context.files, {file.power.prices, file.power.carbon_price}));
  if (!file.services.empty()) world.services_file = file.services;
  world.nvlink = file.node.nvlink;
  if (const auto text = context.files.read(file.services); !file.services.empty() && text)
    world.token_traces = TRY(decide::token_traces(context.files, file.services, *text));
  for (const control::ModelProfiles& one : file.power_tables) {
    const auto gpu = TRY(catalogue.get(one.gpu));
    world.power_tables.push_back(TRY(decide::load_slice_table(context.files, one.path, *gpu)));
  }
  for (const std::string& model : models) {
    const hw::GpuModel* gpu = catalogue.find(model);
    const auto own = std::ranges::find(file.profiles_of, model, &control::ModelProfiles::gpu);
    const std::string path = own != file.profiles_of.end() ? own->path : file.profiles;
    if (gpu == nullptr || path.empty()) continue;
    world.profiles.push_back(TRY(decide::load_measured(context.files, "profiles", path, *gpu)));
  }
  return world;
}

Result<Exit> run_agent_weeks(Context& context, const WeeksFlags& flags) {
  control::WeeksOptions options = TRY(weeks_options(context, flags));
  auto weeks = TRY(control::SimWeeks::begin(std::move(options)));
  std::unique_ptr<Onlooker> onlooker;
  if (!flags.live.listen.empty()) {
    onlooker = TRY(Onlooker::open(*weeks, flags));
    for (const std::string& address : onlooker->addresses())
      if (address.starts_with("http")) complain(context, "look on at " + address);
  }
  while (weeks->step())
    if (onlooker && !onlooker->keep_pace(context, flags.pace_s)) break;
  const auto report = TRY(weeks->report());
  const std::string& format = flags.live.output.format;
  const std::string content = format == "json"  ? control::weeks_json(report)
                              : format == "svg" ? control::weeks_svg(report)
                                                : control::weeks_text(report);
  TRY(deliver(context, flags.live.output, content));
  Exit exit = Exit::done;
  for (const control::ServiceWeeks& one : report.services) {
    if (one.requests == 0 || one.attainment > 0) continue;
    complain(context, fmt::format("service {}: no request was answered in time", one.name));
    exit = Exit::no;
  }
  return exit;
}

Command add_agent(CLI::App& app) {
  auto [command, flags] = adding<AgentFlags>(
      app, "agent", "Keep this node as wanted: watch rates and health, plan, judge, apply, repair");
  takes(*command, "--settings", flags->live.config, "--services", flags->live.services,
        "--profiles", flags->live.profiles);
  add_device_flags(*command, flags->live.device);
  takes(*command, "--state-dir", flags->live.state_dir, "--listen", flags->live.listen, "--mode",
        word_from(flags->live.mode, {"automatic", "approve", "observe"}), "--host-queue",
        flags->live.host_queue);
  add_fleet_flags(*command, flags->live.fleet);
  takes(*command, "--quota", flags->live.queue.quotas, "--most-tasks", flags->live.queue.most_tasks,
        "--share", flags->live.queue.shares);
  add_tariff_flags(*command, flags->live.queue.tariff);
  takes(*command, "--once", flags->live.once, "--dry-run", flags->live.dry_run, "--simulate",
        limited(flags->weeks.days, 1, control::kMostSimDays), "--node", flags->weeks.machine,
        "--tasks", flags->weeks.tasks, "--calm", flags->weeks.calm, "--pace",
        limited(flags->weeks.pace_s, 0, 86'400), "--seed", seeded(flags->weeks.seed));
  add_output(*command, flags->live.output, {"text", "json", "svg"});
  command->footer(
      "partita agent --settings /etc/partita/agent.yaml\n"
      "partita agent --settings /etc/partita/agent.yaml --fleet http://10.0.0.1:2379\n"
      "partita agent --once --services services.yaml --profiles profiles.csv\n"
      "partita agent --simulate 7 --services services.yaml --profiles profiles.csv\n"
      "partita agent --simulate 7 --services s.yaml --profiles p.csv --pace 60 --listen "
      "127.0.0.1:0");
  return {command,
          [flags, command](Context& context) { return run_agent(context, *command, *flags); }};
}

}  // namespace partita::cli
