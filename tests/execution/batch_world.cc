#include "batch_world.h"

#include "base/check.h"
#include "verify/judge.h"

namespace partita::execution_tests {
namespace {

drivers::sim::Machine machine_of(const plan::BatchProblem& problem) {
  std::vector<drivers::sim::Machine::Gpus> gpus;
  for (const int model : problem.gpus) {
    const std::string& name = problem.models[static_cast<std::size_t>(model)].name;
    gpus.push_back({hw::builtin_catalogue().find(name), 1, true});
  }
  return {gpus, "batch"};
}

exec::Script script_of(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule,
                       std::optional<double> timeout_factor) {
  carry::ScriptOptions options;
  for (std::size_t g = 0; g < problem.gpus.size(); ++g)
    options.devices.push_back(static_cast<int>(g));
  options.timeout_factor = timeout_factor;
  auto script = carry::make_script(problem, verify::judge(problem, schedule).value(), options);
  CHECK(script.has_value());
  return *std::move(script);
}

}  // namespace

BatchWorld::BatchWorld(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule,
                       const exec::Options& options, std::optional<double> timeout_factor)
    : script_(script_of(problem, schedule, timeout_factor)),
      options_(options),
      shared_(drivers::sim::own_machine(machine_of(problem), clock, 1)),
      sim_(*shared_),
      processes_(clock, [this](const ProcessSpec& spec) { return begin_process(spec); }) {
  behaviour = [](const exec::ScriptTask& task, int) {
    return SimBehaviour{.run_ns = task.planned.end - task.planned.begin};
  };
}

drivers::sim::Machine BatchWorld::machine() {
  std::optional<drivers::sim::Machine> copy;
  change_machine([&](drivers::sim::Machine& machine) { copy = machine; });
  return *std::move(copy);
}

void BatchWorld::change_machine(const std::function<void(drivers::sim::Machine&)>& use) {
  CHECK(shared_->with(use).has_value());
}

// Records of ends, not memory, say what has finished: they are all that a later life has.
bool BatchWorld::has_finished(const std::string& task) const {
  const auto text = files.content.find(kJournal);
  if (text == files.content.end()) return false;
  const auto parsed = exec::parse_journal(kJournal, text->second);
  CHECK(parsed.has_value());
  for (const exec::Record& record : parsed->records) {
    if (record.kind == exec::Record::Kind::end && record.task == task && record.status == 0 &&
        record.in_time)
      return true;
  }
  return false;
}

SimBehaviour BatchWorld::begin_process(const ProcessSpec& spec) {
  const std::string& name = spec.environment.at("PARTITA_TASK");
  const std::string& device = spec.environment.at("CUDA_VISIBLE_DEVICES");
  ++starts[name];
  if (has_finished(name)) broken.push_back(name + " runs again though it has finished");
  for (const auto& [pid, other] : processes_.running()) {
    if (other.spec.environment.at("PARTITA_TASK") == name)
      broken.push_back(name + " runs twice at once");
    if (other.spec.environment.at("CUDA_VISIBLE_DEVICES") == device)
      broken.push_back(name + " runs where another task does");
  }
  const exec::ScriptTask* task = nullptr;
  for (const exec::ScriptTask& one : script_.tasks)
    if (one.name == name) task = &one;
  const drivers::sim::Machine now = machine();
  const exec::Visit& visit = script_.visits[static_cast<std::size_t>(task->visit)];
  const drivers::sim::SimGpu& gpu = now.gpus()[static_cast<std::size_t>(visit.gpu)];
  bool there = gpu.lost;  // which nobody knows before the driver is asked for something
  for (const auto& instance : gpu.instances)
    there = there || (instance.start == visit.place.start && !instance.compute.empty() &&
                      instance.compute.front().uuid == device);
  if (!there) broken.push_back(name + " runs on a device that is not its instance");
  for (const int before : task->after) {
    const std::string& other = script_.tasks[static_cast<std::size_t>(before)].name;
    if (!has_finished(other)) broken.push_back(name + " runs before " + other + " has finished");
  }
  return behaviour(*task, std::stoi(spec.environment.at("PARTITA_ATTEMPT")));
}

// As the shell around each command does, unless it was killed.
void BatchWorld::write_statuses() {
  for (const auto& [pid, process] : seen_) {
    if (!process.ends_ns || *process.ends_ns > clock.now || process.status > 128) continue;
    const std::string& path = process.spec.argv.at(5);
    files.content[path] =
        process.spec.environment.at("PARTITA_RUN") + " " + std::to_string(process.status) + "\n";
  }
}

// Processes hold their devices while they run; `seen_` remembers how they end.
void BatchWorld::see_processes() {
  const auto running = processes_.running();
  for (const auto& [pid, process] : running) seen_[pid] = process;
  write_statuses();
  change_machine([&](drivers::sim::Machine& machine) {
    std::set<Pid> held;
    for (std::size_t g = 0; g < machine.gpus().size(); ++g)
      for (const auto& process : machine.gpus()[g].processes) held.insert(process.pid);
    for (const Pid pid : held)
      if (pid >= 1000 && !running.contains(pid)) machine.detach(pid);
    for (const auto& [pid, process] : running) {
      if (held.contains(pid)) continue;
      const std::string& device = process.spec.environment.at("CUDA_VISIBLE_DEVICES");
      for (int g = 0; static_cast<std::size_t>(g) < machine.gpus().size(); ++g) {
        for (const auto& instance : machine.gpus()[static_cast<std::size_t>(g)].instances)
          for (const auto& compute : instance.compute)
            if (compute.uuid == device)
              static_cast<void>(machine.attach(
                  g,
                  {.pid = pid, .name = "task", .gi_id = instance.gi_id, .ci_id = compute.ci_id}));
      }
    }
  });
}

std::optional<Nanos> BatchWorld::tick(Nanos) {
  see_processes();
  for (; next_incident_ < incidents.size() && incidents[next_incident_].time <= clock.now;
       ++next_incident_)
    change_machine(incidents[next_incident_].happens);
  if (next_incident_ == incidents.size()) return std::nullopt;
  return incidents[next_incident_].time;
}

// The processes live on without us; the exit statuses of those that end are in their files.
void BatchWorld::die() {
  const auto running = processes_.running();
  for (const auto& [pid, process] : running) seen_[pid] = process;
  processes_.orphan_all();
  clock.now += downtime;
  // What appears at an announced place while nobody watches would be taken for ours.
  for (std::size_t i = next_incident_; i < incidents.size(); ++i)
    incidents[i].time = std::max(incidents[i].time, clock.now + 1);
  static_cast<void>(tick(0));
}

bool BatchWorld::live(bool resume) {
  if (!driver_) {
    driver_ = std::make_unique<device::FaultyDriver>(sim_, clock, faults, [] { throw Death{}; });
  }
  const exec::Doors doors{*driver_, processes_, files, clock};
  exec::SessionFlags flags{.journal = kJournal, .resume = resume, .run = "r1", .log_dir = "logs"};
  flags.find = [&](const std::string& run) {
    exec::Attempts attempts;
    for (const auto& [pid, process] : processes_.running()) {
      const auto& variables = process.spec.environment;
      if (variables.at("PARTITA_RUN") == run)
        attempts[{variables.at("PARTITA_TASK"), std::stoi(variables.at("PARTITA_ATTEMPT"))}] = pid;
    }
    return attempts;
  };
  try {
    auto session = exec::open_session(script_, doors, flags);
    refused_ = session ? std::nullopt : std::optional(session.error());
    if (!session) return true;
    session->settings.interrupted = interrupted;
    exec::BatchExecutor executor(script_, options_, session->past);
    const exec::RunEnd end =
        exec::run_simulated(executor, script_, doors, session->settings, clock, processes_,
                            [this](Nanos now) { return tick(now); });
    report_ = executor.report();
    CHECK(exec::close_session(*session, report_, doors) || files.refuse_from > 0);
    log_hash_ = end.log_hash;
    see_processes();
    CHECK(exec::end_session(*session, report_, files));
    return true;
  } catch (const Death&) {
    die();
    return false;
  }
}

int BatchWorld::live_to_the_end() {
  int deaths = 0;
  while (!live(false)) {
    ++deaths;
    CHECK(deaths < 100);
  }
  return deaths;
}

std::vector<std::string> BatchWorld::instances(const std::set<std::string>& others) {
  std::vector<std::string> found;
  const drivers::sim::Machine now = machine();
  for (std::size_t g = 0; g < now.gpus().size(); ++g) {
    for (const auto& instance : now.gpus()[g].instances) {
      if (!instance.compute.empty() && others.contains(instance.compute.front().uuid)) continue;
      const auto profile = static_cast<std::size_t>(instance.profile);
      found.push_back(now.gpus()[g].model->profiles[profile].name + "@" +
                      std::to_string(instance.start) + " on GPU " + std::to_string(g));
    }
  }
  return found;
}

}  // namespace partita::execution_tests
