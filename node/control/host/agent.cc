#include "control/host/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "act/power_guard.h"
#include "base/check.h"
#include "control/host/change_numbers.h"
#include "control/host/servers.h"

namespace partita::control {
namespace {

// The text of a file; nothing when there is none.
Result<std::optional<std::string>> text_of(Files& files, const std::string& path) {
  if (!files.exists(path)) return std::optional<std::string>{};
  std::string text = TRY(files.read(path));
  return std::optional<std::string>{std::move(text)};
}

// Whose CPU times count as those of services.
std::vector<observe::TenantProcess> processes_of(
    const std::vector<actuate::WorkerRecord>& workers) {
  std::vector<observe::TenantProcess> processes;
  for (const actuate::WorkerRecord& worker : workers)
    if (worker.pid > 0)
      processes.push_back({worker.segment.service, worker.pid, worker.identity});
  return processes;
}

std::string fleet_fault_of(const AgentDoors& doors) {
  return doors.fleet_fault ? doors.fleet_fault() : "";
}

}  // namespace

std::string memory_path(const std::string& state_dir) { return state_dir + "/agent-memory.json"; }

Result<std::unique_ptr<Agent>> Agent::begin(AgentDoors doors, World world, long changes) {
  if (!doors.dry_run) TRY(doors.files.make_directories(doors.state_dir));
  Recalled recalled = TRY(recall_memory(doors.files, doors.state_dir, !doors.dry_run));
  AgentMemory& memory = recalled.memory;
  if (doors.dry_run) memory.mode_set = false;  // the settings' mode holds, and that is observe
  auto mended =
      TRY(doors.dry_run ? std::optional<Mended>{} : mend_last_change(doors.files, doors.state_dir));
  if (mended) recalled.mended.push_back(*std::move(mended));
  const long last = last_change(doors.files, doors.state_dir, changes).value_or(changes);
  // A memory that is lost does not know whose limits and clocks those of the boards are.
  if (!recalled.mended.empty()) {
    const auto held =
        actuate::read_power_journal(doors.files, actuate::power_journal_path(doors.state_dir));
    if (held && !held->empty()) memory.power_held = true;
  }
  std::unique_ptr<Agent> agent(
      new Agent(std::move(doors), std::move(world), std::move(memory), last));
  agent->mended_ = std::move(recalled.mended);
  return agent;
}

// ---- files that are damaged ----

// What is damaged while the agent runs is mended at its next look; a change under way has the
// journal open and the assignment in its hands.
void Agent::mend() {
  if (doors_.dry_run || applying_) return;
  const auto fine = [&](const auto& kept, const std::string& path) {
    const auto text = text_of(doors_.files, path);
    return text && (!*text || (kept.value && *kept.value && kept.text == **text));
  };
  const std::string assignment = actuate::assignment_path(doors_.state_dir);
  const auto copy = text_of(doors_.files, assignment + ".copy");
  const bool copied = assignment_.text.empty() || (copy && *copy == assignment_.text);
  if (fine(journal_, actuate::journal_path(doors_.state_dir)) && fine(assignment_, assignment) &&
      copied)
    return;  // as at the look before
  const auto take = [&](Result<std::optional<Mended>> mended) {
    if (!mended) return;  // the look says what is wrong
    if (*mended) mended_.push_back(**std::move(mended));
  };
  long followed = 0;
  if (const auto gateway = gateway_now(); gateway && *gateway) followed = (*gateway)->revision;
  if (const auto text = text_of(doors_.files, actuate::workers_path(doors_.state_dir));
      text && *text)
    if (const auto workers = actuate::parse_workers("", **text))
      followed = std::max(followed, workers->revision);
  take(mend_journal(doors_.files, doors_.state_dir));
  const bool seen = assignment_.value && *assignment_.value;
  take(mend_assignment(doors_.files, doors_.state_dir, followed, seen ? assignment_.text : ""));
}

void Agent::tell(const Mended& mended) {
  history::Event event;
  event.time_ms = doors_.wall_ms();
  event.kind = history::EventKind::repair;
  event.user = "agent";
  event.cause = "a file of the state directory is damaged";
  event.subject = mended.file;
  event.detail = mended.sentence;
  if (doors_.record) static_cast<void>(doors_.record(event).has_value());
  if (doors_.notify)
    doors_.notify({NoticeKind::damaged_file, mended.file, mended.sentence, 0});
  else
    say(mended.sentence);
}

void Agent::tell_mended() {
  for (const Mended& mended : std::exchange(mended_, {})) tell(mended);
}

Agent::Agent(AgentDoors doors, World world, AgentMemory memory, long changes)
    : doors_(std::move(doors)),
      catalogue_(world.catalogue),
      sets_power_(world.settings.power.sets()),
      loop_(std::move(world), std::move(memory), changes),
      power_({doors_.files, doors_.driver, doors_.state_dir, doors_.power_marks, doors_.dry_run}),
      host_(doors_.files, doors_.host) {}

void Agent::say(const std::string& sentence) const {
  if (doors_.say) doors_.say(sentence);
}

void Agent::take_over(Agent& before) {
  for (Mended& one : std::exchange(before.mended_, {})) mended_.push_back(std::move(one));
  for (Inquiry& one : std::exchange(before.waiting_, {})) waiting_.push_back(std::move(one));
  uuids_ = before.uuids_;
  complaints_ = before.complaints_;
  unsaved_ = before.unsaved_;
}

// ---- looking ----

// A GPU that does not answer counts as lost; the node is an error only when nobody knows which GPU
// that is.
Result<device::NodeState> Agent::read_node() {
  const auto info = TRY(doors_.driver.info());
  device::NodeState state;
  state.driver = info.name;
  state.driver_version = info.version;
  uuids_.resize(static_cast<std::size_t>(std::max(info.gpus, 0)));
  for (int gpu = 0; gpu < info.gpus; ++gpu) {
    std::string& uuid = uuids_[static_cast<std::size_t>(gpu)];
    Result<device::GpuState> read = doors_.driver.read(gpu);
    if (!read && uuid.empty()) return failed(read.error());
    if (!read) {
      device::GpuState lost;
      lost.index = gpu;
      lost.uuid = uuid;
      lost.lost = true;
      state.gpus.push_back(std::move(lost));
      continue;
    }
    if (!read->uuid.empty()) uuid = read->uuid;
    state.gpus.push_back(*std::move(read));
  }
  return state;
}

telemetry::Sample Agent::read_sample(std::int64_t now_ms) {
  telemetry::Sample sample{.at = {static_cast<double>(now_ms) / 1e3}};
  for (int gpu = 0; gpu < static_cast<int>(uuids_.size()); ++gpu)
    if (auto read = doors_.driver.telemetry(gpu)) sample.gpus.push_back(*std::move(read));
  return sample;
}

Result<std::optional<actuate::GatewayState>> Agent::gateway_now() {
  if (doors_.gateway) return doors_.gateway();
  if (doors_.processes == nullptr) return std::optional<actuate::GatewayState>{};
  const actuate::GatewayDoors doors{*doors_.processes, doors_.files, doors_.state_dir};
  return actuate::read_gateway(doors, doors_.clock.now_ns());
}

void Agent::read_gateway(ServersSeen& servers) {
  const auto read = gateway_now();
  std::string& said = complaints_["gateway"];
  if (!read) {
    if (const std::string why = to_string(read.error()); why != said) say(said = why);
    return;
  }
  said.clear();
  if (*read) tell_gateway(servers, **read, doors_.clock.now_ns());
}

// As the supervisor wrote them; null: none ever ran here, or what it wrote cannot be read.
const actuate::WorkersState* Agent::workers_now() {
  const std::string path = actuate::workers_path(doors_.state_dir);
  const auto text = text_of(doors_.files, path);
  if (!text || !*text) return nullptr;
  if (!workers_.value || workers_.text != **text)
    workers_ = {**text, actuate::parse_workers(path, **text)};
  return *workers_.value ? &**workers_.value : nullptr;
}

ServersSeen Agent::look_at_servers() {
  ServersSeen servers;
  read_gateway(servers);
  const actuate::WorkersState* workers = workers_now();
  if (workers != nullptr && doors_.processes != nullptr)
    servers.supervisor = runs(workers->supervisor, *doors_.processes);
  return servers;
}

Result<void> Agent::end() {
  if (doors_.dry_run || !loop_.memory().power_held) return {};
  TRY(power_.put_back());
  loop_.power_is_back();
  if (keep_memory()) return {};
  return environment_error(doors_.state_dir, "the agent's memory cannot be kept");
}

Seen Agent::look() {
  mend();
  Seen seen;
  seen.state = read_node();
  const std::string path = actuate::assignment_path(doors_.state_dir);
  if (const auto text = text_of(doors_.files, path); !text) {
    seen.assignment = failed(text.error());
  } else if (*text) {
    if (!assignment_.value || assignment_.text != **text)
      assignment_ = {**text, actuate::parse_assignment(path, **text)};
    seen.assignment = *assignment_.value;
  }
  const std::string journal = actuate::journal_path(doors_.state_dir);
  if (const auto text = text_of(doors_.files, journal); !text) {
    seen.journal = failed(text.error());
  } else if (*text) {
    if (!journal_.value || journal_.text != **text)
      journal_ = {**text, actuate::read_journal(doors_.files, journal)};
    seen.journal = *journal_.value;
  }
  if (doors_.telemetry && seen.state) seen.sample = read_sample(doors_.wall_ms());
  static_cast<ServersSeen&>(seen) = look_at_servers();
  if (const actuate::WorkersState* workers = workers_now()) seen.workers = workers->workers;
  if (seen.sample) seen.host = host_.read(seen.sample->at, processes_of(seen.workers));
  seen.power_ends = power_.take_ends();
  budget_w_ = seen.budget_w = budget_now();
  fleet_fault_ = seen.fleet_fault = fleet_fault_of(doors_);
  if (sets_power_ || seen.budget_w) seen.power = power_.read(uuids_);
  seen.power_back = std::exchange(power_back_, {});
  if (doors_.health) seen.health = doors_.health();
  seen.boot = doors_.boot;
  if (!doors_.services_file.empty()) {
    auto text = text_of(doors_.files, doors_.services_file);
    if (!text)
      seen.services_fault = text.error().message;
    else if (!*text)
      seen.services_fault = "there is no such file";
    else
      seen.services_file = **std::move(text);
  }
  if (applying_) seen.apply_steps = applying_->steps;
  seen.ended = std::exchange(ended_, {});
  if (doors_.batch_runs) seen.batches = doors_.batch_runs();
  return seen;
}

// ---- deciding ----

Deeds Agent::look_once() { return loop_.step(doors_.wall_ms(), look()); }

void Agent::decide() {
  if (doors_.errands)
    for (const auto& errand : doors_.errands()) errand(*this);
  std::vector<Inquiry> asked = std::exchange(waiting_, {});
  if (doors_.inquiries)
    for (Inquiry& one : doors_.inquiries()) asked.push_back(std::move(one));
  Seen seen = look();
  tell_mended();
  for (const Inquiry& one : asked) seen.asked.push_back(one.asked);
  perform(loop_.step(doors_.wall_ms(), seen), std::move(asked));
}

bool Agent::keep_memory() {
  if (doors_.dry_run) return true;
  Result<void> kept;
  if (loop_.memory().changes > last_number_)
    kept = keep_last_change(doors_.files, doors_.state_dir, loop_.memory().changes);
  if (kept) last_number_ = loop_.memory().changes;
  if (kept) kept = write_memory(doors_.files, doors_.state_dir, loop_.memory());
  std::string& said = complaints_["memory"];
  const std::string why = kept ? "" : to_string(kept.error());
  if (why != said && !why.empty()) say("what the agent is about cannot be kept: " + why);
  said = why;
  unsaved_ = !kept;
  return kept.has_value();
}

// What could not be made durable is not done: the change fails, and the loop tries it again later.
void Agent::perform(Deeds deeds, std::vector<Inquiry> asked) {
  const bool kept = !deeds.remember && !unsaved_ ? true : keep_memory();
  for (const history::Event& event : deeds.record) {
    if (!doors_.record) break;
    const auto recorded = doors_.record(event);
    std::string& said = complaints_["history"];
    const std::string why = recorded ? "" : to_string(recorded.error());
    if (why != said && !why.empty()) say("history is not kept: " + why);
    said = why;
  }
  if (doors_.measure && !deeds.measure.empty()) (void)doors_.measure(deeds.measure).has_value();
  CHECK(deeds.replies.size() == asked.size());
  if (!kept)
    for (std::size_t i = 0; i < asked.size(); ++i)
      if (is_of_batches(asked[i].asked.request) && deeds.replies[i])
        deeds.replies[i] = environment_error(
            doors_.state_dir,
            "this was taken, but cannot be written down now: look at the batches of the agent "
            "before you ask again");
  // Who was answered sees what came of it.
  if (doors_.publish) doors_.publish(loop_);
  for (std::size_t i = 0; i < asked.size(); ++i)
    if (asked[i].answer) asked[i].answer(std::move(deeds.replies[i]));
  if (deeds.stop_apply && applying_) applying_->stop = true;
  if (doors_.notify)
    for (const LoopNotice& notice : deeds.notify) doors_.notify(notice);
  if (doors_.carry_batches && kept) doors_.carry_batches(deeds.batches);
  if (kept) power_.set(deeds.power);
  if (kept && deeds.power_back) power_back_ = power_.put_back();
  if (doors_.dry_run) deeds.apply.reset();
  if (deeds.apply && kept) to_apply_ = std::move(deeds.apply);
  if (deeds.apply && !kept)
    ended_.push_back({deeds.apply->change,
                      environment_error(doors_.state_dir, "the agent's memory cannot be kept"), 0});
  next_look_ms_ = ended_.empty() ? deeds.next_look_ms : doors_.wall_ms();
}

std::int64_t Agent::step() {
  decide();
  while (to_apply_ && !(doors_.ending && doors_.ending())) {
    const ApplyDeed deed = *std::exchange(to_apply_, std::nullopt);
    carry_out(deed);
    decide();
  }
  return next_look_ms_;
}

// ---- doing ----

// Than it was at the last look, for a service or for the node as a whole.
bool Agent::is_otherwise(std::int64_t now_ms) {
  const bool answers = doors_.driver.info().has_value();
  if (budget_now() != budget_w_ || (budget_w_ && power_.has_ends())) return true;
  if (fleet_fault_of(doors_) != fleet_fault_) return true;
  return answers != snapshot().node_fault.empty() || loop_.glance(now_ms, look_at_servers());
}

std::int64_t Agent::glance() {
  if (doors_.wall_ms() >= next_look_ms_) return step();
  next_glance_ms_ = doors_.wall_ms() + kGlanceMs;
  return is_otherwise(doors_.wall_ms()) ? step() : next_look_ms_;
}

// While actuate waits: whether the change shall end.
bool Agent::pump() {
  if (doors_.ending && doors_.ending()) return true;
  if (doors_.inquiries)
    for (Inquiry& one : doors_.inquiries()) waiting_.push_back(std::move(one));
  const std::int64_t now = doors_.wall_ms();
  bool due = !waiting_.empty() || now >= next_look_ms_;
  if (!due && now >= next_glance_ms_) {
    next_glance_ms_ = now + kGlanceMs;
    due = is_otherwise(now);
  }
  if (due) decide();
  return applying_->stop;
}

Result<void> Agent::carry_out_steps(const ApplyDeed& deed) {
  actuate::Doors doors{doors_.driver,
                       doors_.files,
                       doors_.clock,
                       catalogue_,
                       doors_.state_dir,
                       doors_.processes,
                       [this] { return pump(); },
                       doors_.reset_gpu};
  const auto told = [this](const actuate::ApplyEvent& event) {
    using Kind = actuate::ApplyEvent::Kind;
    if (event.kind == Kind::begin || event.kind == Kind::retry) applying_->steps = 0;
    if (event.kind == Kind::done_step) applying_->steps = event.step + 1;
    if (event.kind == Kind::waiting) say("waiting for " + event.detail);
    if (event.kind == Kind::retry) say(event.detail + "; reading the node again");
  };
  actuate::ApplyOptions options = deed.options;
  options.can_reset = doors_.can_reset;
  TRY(actuate::apply(doors, deed.wanted, options, told));
  return {};
}

void Agent::carry_out(const ApplyDeed& deed) {
  applying_ = Applying{.change = deed.change};
  const std::int64_t began = doors_.clock.now_ns();
  const auto run = [&](const std::string& name, const char* phase) -> Result<void> {
    if (!doors_.hook) return bad_input("hooks", fmt::format("no hook is called '{}'", name));
    return doors_.hook(name, phase, deed.change);
  };
  const auto tell = [&](const std::string& sentence) {
    say(fmt::format("after change {}: {}", deed.change, sentence));
  };
  Result<void> outcome = actuate::with_hooks({deed.hooks_before, deed.hooks_after, run, tell},
                                             [&] { return carry_out_steps(deed); });
  const double took_s = static_cast<double>(doors_.clock.now_ns() - began) * 1e-9;
  applying_.reset();
  ended_.push_back({deed.change, std::move(outcome), took_s});
}

}  // namespace partita::control
