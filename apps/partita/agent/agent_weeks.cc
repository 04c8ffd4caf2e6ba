#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "agent/agent_live.h"
#include "agent/agent_signals.h"
#include "agent/agent_world.h"
#include "api/agent_desk.h"
#include "api/server.h"
#include "control/sim/sim_weeks.h"
#include "decide/input.h"
#include "history/store/store.h"
#include "places.h"
#include "version.h"

namespace partita::cli {
namespace {

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
  static Result<std::unique_ptr<Onlooker>> open(control::SimWeeks& weeks, const WeeksFlags& flags);
  std::vector<std::string> addresses() const { return server_->addresses(); }
  // Until the real time has come; false when somebody wants it to end.
  bool keep_pace(Context& context, double pace_s);

 private:
  explicit Onlooker(control::SimWeeks& weeks, PrivateFolder folder)
      : weeks_(weeks),
        folder_(std::move(folder)),
        desk_(folder_.path() + "/history.db", [this] { signals_.wake(); }) {}
  void add_doors(control::AgentDoors& doors);

  control::SimWeeks& weeks_;
  PrivateFolder folder_;
  AgentSignals signals_;
  api::AgentDesk desk_;
  std::optional<history::Store> store_;
  std::optional<std::int64_t> began_ns_;
  std::unique_ptr<api::Server> server_;
};

Result<std::unique_ptr<Onlooker>> Onlooker::open(control::SimWeeks& weeks,
                                                 const WeeksFlags& flags) {
  PrivateFolder folder = TRY(PrivateFolder::make());
  std::unique_ptr<Onlooker> self(new Onlooker(weeks, std::move(folder)));
  auto store =
      TRY(history::Store::open(self->folder_.path() + "/history.db", history::Access::write));
  self->store_.emplace(std::move(store));
  self->server_ = TRY(api::Server::start(self->desk_, {.socket = self->folder_.path() + "/api.sock",
                                                       .listen = flags.live.listen,
                                                       .version = version()}));
  weeks.add_doors = [it = self.get()](control::AgentDoors& doors) { it->add_doors(doors); };
  return self;
}

void Onlooker::add_doors(control::AgentDoors& doors) {
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

bool Onlooker::keep_pace(Context& context, double pace_s) {
  if (!began_ns_) began_ns_ = context.clock.now_ns();
  const double days = static_cast<double>(weeks_.node().now_ns()) / 86'400e9;
  const auto due = *began_ns_ + static_cast<std::int64_t>(days * pace_s * 1e9);
  for (std::int64_t now = context.clock.now_ns(); now < due; now = context.clock.now_ns()) {
    if (signals_.ending()) return false;
    signals_.wait(std::min<std::int64_t>(due - now, 100'000'000));
  }
  return !signals_.ending();
}

}  // namespace

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

}  // namespace partita::cli
