#include <pwd.h>
#include <unistd.h>

#include <chrono>

#include "act/apply.h"
#include "act/change_forms.h"
#include "act/node_picture.h"
#include "commands.h"
#include "control/host/agent_file.h"
#include "control/host/change_numbers.h"
#include "control/host/memory_file.h"
#include "decide/layout_file.h"
#include "decide/reasons.h"
#include "decide/serving_inputs.h"
#include "forms/serving_forms.h"
#include "node/chronicle.h"
#include "node/devices.h"

namespace partita::cli {
namespace {

using history::EventKind;
using history::Outcome;

constexpr int kTidyTimes = 3;  // pieces, for a history that no agent tidies

Outcome outcome_of(const Result<void>& result) {
  if (result) return Outcome::succeeded;
  return result.error().message.starts_with("interrupted") ? Outcome::interrupted : Outcome::failed;
}

constexpr double kMaxWait = 86'400;  // seconds

struct ApplyFlags {
  std::string plan;  // empty: what rollback goes back to
  std::string services, profiles;
  DeviceFlags device;
  std::string state_dir, why, hooks;
  bool dry_run = false, again = false, explain = false, no_reset = false;
  actuate::ApplyOptions options{.can_reset = true};
  Output output;
};

// The node with its doors, as apply takes them.
struct OpenNode {
  OpenDriver open;
  std::string state_dir;
  device::NodeState state;  // as it was when it was opened
  RealProcesses processes = {};
  actuate::Doors doors(Context& context) {
    return {*open.driver, context.files,  context.clock, *open.catalogue, state_dir, &processes,
            {},           gpu_reset(open)};
  }
};

Result<OpenNode> open_node(Context& context, const DeviceFlags& flags,
                           const std::string& state_dir) {
  OpenDriver open = TRY(open_driver(context, flags));
  device::NodeState state = TRY(device::read_node(*open.driver));
  std::string directory = state_directory(state_dir, state);
  return OpenNode{std::move(open), std::move(directory), std::move(state)};
}

// A plan that the judge lets pass, by the services and profiles where they are named.
Result<actuate::Wanted> judged(Context& context, const ApplyFlags& flags, plan::ServingPlan plan,
                               const hw::Catalogue& catalogue) {
  const auto passed =
      [&](const verify::Verdict<plan::ServingPlan>& verdict) -> Result<actuate::Wanted> {
    if (verdict) return actuate::wanted_of(*verdict);
    return failed({ErrorCode::infeasible,
                   decide::reasons_text("the plan is broken:", verdict.error().violations),
                   flags.plan});
  };
  if (const auto legal = actuate::check_places(plan, catalogue); !legal)
    return bad_input(flags.plan, to_string(legal.error()));
  if (flags.services.empty() && flags.profiles.empty())
    return passed(verify::judge_alone(catalogue, std::move(plan)));
  if (flags.services.empty()) return bad_input("--services", "is needed with --profiles");
  decide::ProblemFiles inputs;
  inputs.services = flags.services;
  inputs.profiles = flags.profiles;
  inputs.catalogue = flags.device.catalogue;
  const auto full = TRY(decide::judge_plan(context.files, flags.plan, std::move(plan), inputs));
  return passed(full.verdict);
}

// A serving plan, or the state of a node to be restored.
Result<actuate::Wanted> load_wanted(Context& context, const ApplyFlags& flags,
                                    const hw::Catalogue& catalogue) {
  auto layout = TRY(decide::load_layout(context.files, "PLAN", flags.plan, catalogue));
  if (auto* plan = std::get_if<plan::ServingPlan>(&layout))
    return judged(context, flags, std::move(*plan), catalogue);
  actuate::Wanted wanted = actuate::wanted_of(std::get<device::StateDocument>(layout));
  if (const auto legal = actuate::check_wanted(wanted, catalogue); !legal)
    return bad_input(flags.plan, to_string(legal.error()));
  return wanted;
}

// Tells people on standard error what is being done.
void tell(Context& context, const actuate::ApplyEvent& event) {
  using Kind = actuate::ApplyEvent::Kind;
  if (event.kind == Kind::begin && !event.detail.empty())
    complain(context, "continuing an earlier run that was interrupted");
  if (event.kind == Kind::step)
    note(context, fmt::format("{:>3}/{}  {}\n", event.step + 1, event.change->steps.size(),
                              actuate::step_text(event.change->steps[event.step])));
  if (event.kind == Kind::waiting) complain(context, "waiting for " + event.detail);
  if (event.kind == Kind::retry) complain(context, event.detail + "; reading the node again");
}

Result<Exit> show(Context& context, const ApplyFlags& flags, const OpenNode& node,
                  const actuate::Change& change) {
  return finish(context, flags.output,
                flags.output.json()  ? actuate::change_json(change)
                : flags.output.svg() ? actuate::change_svg(change, node.state, *node.open.catalogue)
                : flags.dry_run      ? actuate::change_text(change, flags.explain)
                                     : actuate::change_summary(change));
}

// The plan that is applied, as a history keeps it; nothing where it is none.
void attach_plan(Chronicle& chronicle, Context& context, const ApplyFlags& flags) {
  if (flags.plan.empty() || flags.plan == "-" || !context.files.exists(flags.plan)) return;
  const auto text = context.files.read(flags.plan);
  const auto plan = text ? forms::parse_plan(flags.plan, *text) : failed(text.error());
  if (plan) chronicle.attach("plan", forms::plan_json(*plan));
}

// Hooks around work on a node, for apply and drain.
Result<void> within_hooks(Context& context, const OpenNode& node, Chronicle& chronicle,
                          const HookSettings& settings, const std::function<Result<void>()>& work) {
  if (settings.none()) return work();
  NodeHooks hooks(context, node.state_dir,
                  [&](history::Event event) { chronicle.keep(std::move(event)); });
  const auto run = [&](const std::string& name, const char* phase) {
    return hooks.run(settings.hooks, name, phase, chronicle.known_number());
  };
  const auto say = [&](const std::string& sentence) { complain(context, sentence); };
  return actuate::with_hooks({settings.before, settings.after, run, say}, work);
}

// Whether there is anything to do; what cannot be planned is for apply to say.
bool something_to_do(const actuate::Doors& doors, const actuate::Wanted& wanted,
                     const ApplyFlags& flags) {
  const auto change = actuate::preview(doors, wanted, flags.options);
  return !change || !change->empty() || !change->blockers.empty();
}

// The one way from a command to a change of the node.
Result<Exit> carry_out(Context& context, const ApplyFlags& flags, OpenNode& node,
                       const actuate::Wanted& wanted) {
  HookSettings hooks = TRY(read_hooks(context, flags.hooks));
  StopRequest stop;
  actuate::Doors doors = node.doors(context);
  doors.interrupted = [&stop] { return stop.within(0); };
  Chronicle chronicle(context, node.state_dir,
                      flags.again              ? "partita apply --again"
                      : flags.options.rollback ? "partita apply --rollback"
                                               : "partita apply " + flags.plan,
                      flags.why);
  attach_plan(chronicle, context, flags);
  Result<actuate::ApplyReport> report = actuate::ApplyReport{};
  const auto work = [&]() -> Result<void> {
    report = actuate::apply(doors, wanted, flags.options, [&](const auto& event) {
      tell(context, event);
      chronicle.hear(event);
    });
    return report ? Result<void>{} : Result<void>(failed(report.error()));
  };
  if (!hooks.none() && something_to_do(doors, wanted, flags)) {
    chronicle.number();  // hooks are told it
  } else {
    hooks = {};
  }
  if (auto done = within_hooks(context, node, chronicle, hooks, work); !done)
    report = failed(done.error());
  std::vector<history::Event::Attachment> after;
  if (const auto state = device::read_node(*node.open.driver); state)
    after.push_back({"state", device::state_json(*state, load_occupants(context, node.state_dir))});
  if (!report) {
    chronicle.end(failed(report.error()), "", after);
    return failed(report.error());
  }
  chronicle.end(
      {}, fmt::format("{} steps in {:.2f} s", report->change.steps.size(), report->took.value),
      after);
  complain(context, report->change.empty()
                        ? std::string("the node already matches; nothing to do")
                        : fmt::format("done in {:.2f} s ({:.2f} s predicted for the driver)",
                                      report->took.value, report->change.predicted.value));
  return show(context, flags, node, report->change);
}

// What the flags name: a file, or what the journal knows.
Result<actuate::Wanted> named_target(Context& context, const ApplyFlags& flags,
                                     const actuate::Doors& doors) {
  if (flags.again) return actuate::again_target(doors);
  return flags.options.rollback ? actuate::rollback_target(doors)
                                : load_wanted(context, flags, doors.catalogue);
}

Result<Exit> run_apply(Context& context, ApplyFlags flags) {
  if (flags.plan.empty() && !flags.options.rollback && !flags.again)
    return bad_input("", "PLAN is required: a plan as `partita plan --format json` writes it");
  if (flags.again && (flags.options.rollback || !flags.plan.empty()))
    return bad_input("--again", "is what was applied last: no PLAN, no --rollback");
  if (flags.options.rollback && !flags.plan.empty())
    return bad_input("--rollback", "goes back to what was before: no PLAN");
  flags.options.allow_reset = !flags.no_reset;
  OpenNode node = TRY(open_node(context, flags.device, flags.state_dir));
  FileLock lock;
  if (!flags.dry_run) lock = TRY(lock_node(context, node.open, node.state));
  const actuate::Doors doors = node.doors(context);
  if (flags.again) flags.options.rollback = load_unfinished(context, node.state_dir).has_value();
  const actuate::Wanted wanted = TRY(named_target(context, flags, doors));
  if (flags.options.rollback)
    complain(context, "back to " + actuate::rollback_name(doors).value_or("?"));
  if (flags.dry_run) {
    const auto change = TRY(actuate::preview(doors, wanted, flags.options));
    const Exit shown = TRY(show(context, flags, node, change));
    if (change.blockers.empty()) return shown;
    complain(context,
             "while others hold what must go, nothing is changed: without --dry-run this "
             "ends with the same status, 3");
    return Exit::environment;
  }
  Result<Exit> exit = carry_out(context, flags, node, wanted);
  const auto unfinished = load_unfinished(context, node.state_dir);
  const bool said = !exit && exit.error().message.starts_with("interrupted");
  if (!exit && unfinished && !said)
    complain(context,
             "run the same command again to go on, or `partita apply --rollback` to go back");
  return exit;
}

struct DrainFlags {
  std::vector<std::string> devices;
  DeviceFlags device;
  std::string state_dir, why, hooks;
  double timeout = 60;
};

// UUIDs of MIG devices, and of GPUs where MIG is off, from UUIDs or GPU indices.
Result<std::vector<std::string>> devices_of(const std::vector<std::string>& words,
                                            const device::NodeState& state) {
  std::vector<std::string> devices;
  for (const std::string& word : words) {
    bool known = false;
    for (const device::GpuState& gpu : state.gpus) {
      const bool whole = word == gpu.uuid || word == std::to_string(gpu.index);
      known = known || whole;
      if (whole && !gpu.mig_enabled) devices.push_back(gpu.uuid);  // it may be one of a group
      for (const device::Instance& one : gpu.instances) {
        if (!whole && one.uuid() != word) continue;
        devices.push_back(one.uuid());
        known = true;
      }
    }
    if (!known)
      return bad_input("DEVICE", fmt::format("no GPU and no MIG device is called '{}'", word));
  }
  return devices;
}

Result<Exit> run_drain(Context& context, const DrainFlags& flags) {
  OpenNode node = TRY(open_node(context, flags.device, flags.state_dir));
  const FileLock lock = TRY(lock_node(context, node.open, node.state));
  const auto devices = TRY(devices_of(flags.devices, node.state));
  const HookSettings hooks = TRY(read_hooks(context, flags.hooks));
  StopRequest stop;
  actuate::Doors doors = node.doors(context);
  doors.interrupted = [&stop] { return stop.within(0); };
  Chronicle chronicle(context, node.state_dir, "partita drain", flags.why);
  const auto drained = within_hooks(context, node, chronicle, hooks, [&] {
    return actuate::drain(doors, devices, {flags.timeout},
                          [&](const auto& event) { tell(context, event); });
  });
  chronicle.keep_drain(devices, drained);
  if (!drained) return failed(drained.error());
  complain(context, "nothing runs there");
  return Exit::done;
}

}  // namespace

std::string calling_user() {
  passwd entry{};
  passwd* found = nullptr;
  char room[4096];
  const uid_t id = ::geteuid();
  std::string name = fmt::format("uid {}", id);
  if (::getpwuid_r(id, &entry, room, sizeof room, &found) == 0 && found != nullptr)
    name = found->pw_name;
  const std::string before = environment_variable("SUDO_USER");
  return before.empty() ? name : fmt::format("{} (sudo {})", name, before);
}

Chronicle::Chronicle(Context& context, std::string state_dir, const std::string& command,
                     const std::string& why)
    : context_(context),
      state_dir_(std::move(state_dir)),
      cause_(why.empty() ? "by hand: " + command : why + " (" + command + ")"),
      user_(calling_user()) {}

void Chronicle::attach(const std::string& name, const std::string& text) {
  attached_.push_back({name, text});
}

history::Event Chronicle::event(EventKind kind) const {
  return {
      .time_ms = wall_clock_ms(), .kind = kind, .change = change_, .user = user_, .cause = cause_};
}

long Chronicle::number() {
  if (change_ > 0 || store() == nullptr) return change_;
  if (const auto mended = control::mend_last_change(context_.files, state_dir_); mended && *mended)
    complain(context_, (*mended)->sentence);
  const auto known = store_->last_change();
  const auto last = known ? control::last_change(context_.files, state_dir_, *known) : known;
  const Result<void> kept = last ? control::keep_last_change(context_.files, state_dir_, *last + 1)
                                 : Result<void>(failed(last.error()));
  if (!kept) complain_once(kept.error());
  if (kept) change_ = *last + 1;
  return change_;
}

void Chronicle::begin(const std::string& detail) {
  if (begun_ || number() == 0) return;
  begun_ = true;
  history::Event begin = event(EventKind::applying);
  begin.detail = detail;
  begin.documents = attached_;
  append({begin});
}

void Chronicle::hear(const actuate::ApplyEvent& heard) {
  using Kind = actuate::ApplyEvent::Kind;
  if (heard.kind == Kind::step && !begun_) {
    attach("change", actuate::change_json(*heard.change));
    begin(fmt::format("{} steps, {:.1f} s predicted", heard.change->steps.size(),
                      heard.change->predicted.value));
  }
  if (!begun_) return;
  if (heard.kind == Kind::done_step || heard.kind == Kind::retry) {
    history::Event step = event(EventKind::step);
    step.cause.clear();
    const bool done = heard.kind == Kind::done_step;
    step.outcome = done ? Outcome::succeeded : Outcome::failed;
    step.detail = done ? actuate::step_text(heard.change->steps[heard.step]) : heard.detail;
    steps_.push_back(step);
  }
}

void Chronicle::end(const Result<void>& outcome, const std::string& detail,
                    std::vector<history::Event::Attachment> documents) {
  if (!begun_ && outcome) return;  // nothing was to be done
  history::Event end = event(EventKind::applied);
  end.outcome = begun_ ? outcome_of(outcome) : Outcome::refused;
  end.detail = outcome ? detail : to_string(outcome.error());
  end.documents = std::move(documents);
  steps_.push_back(std::move(end));
  append(std::exchange(steps_, {}));
  for (int n = 0; n < kTidyTimes && store_; ++n)
    if (auto tidied = store_->tidy(wall_clock_ms()); !tidied) return complain_once(tidied.error());
}

void Chronicle::keep_drain(const std::vector<std::string>& devices, const Result<void>& drained) {
  keep({.kind = EventKind::applied,
        .subject = devices.size() == 1 ? devices.front() : "",
        .outcome = outcome_of(drained),
        .detail = drained ? fmt::format("drained {}", joined(devices, ", "))
                          : to_string(drained.error())});
}

void Chronicle::keep(history::Event given) {
  given.time_ms = wall_clock_ms();
  if (given.user.empty()) given.user = user_;
  if (given.cause.empty()) given.cause = cause_;
  append({given});
}

history::Store* Chronicle::store() {
  if (store_ || broken_) return store_ ? &*store_ : nullptr;
  auto made = context_.files.make_directories(state_dir_);
  auto opened =
      made ? history::Store::open(history::history_path(state_dir_), history::Access::write)
           : Result<history::Store>(failed(made.error()));
  if (opened) {
    store_ = *std::move(opened);
    return &*store_;
  }
  complain_once(opened.error());
  return nullptr;
}

void Chronicle::append(const std::vector<history::Event>& events) {
  if (store() == nullptr) return;
  if (auto kept = store_->append_all(events); !kept) complain_once(kept.error());
}

void Chronicle::complain_once(const Error& error) {
  if (!broken_) complain(context_, "not kept in the history: " + to_string(error));
  broken_ = true;
}

Result<HookSettings> read_hooks(Context& context, const std::string& file) {
  if (file.empty()) return HookSettings{};
  auto settings = TRY(read_input(context.files, "--hooks", file, control::parse_agent_file));
  return HookSettings{std::move(settings.hooks), std::move(settings.policy.hooks_before),
                      std::move(settings.policy.hooks_after)};
}

Result<void> NodeHooks::run(const std::vector<actuate::Hook>& hooks, const std::string& name,
                            const std::string& phase, long change) {
  const auto found = std::ranges::find(hooks, name, &actuate::Hook::name);
  if (found == hooks.end()) return bad_input("hooks", fmt::format("no hook is called '{}'", name));
  TRY(context_.files.make_directories(state_dir_));
  const actuate::HookDoors doors{processes_, context_.clock, state_dir_ + "/hooks.log"};
  complain(context_, fmt::format("running hook '{}' {} {}", name, phase,
                                 change > 0 ? fmt::format("change {}", change) : "the change"));
  const Result<void> ran = actuate::run_hook(
      doors, *found, {{"PARTITA_CHANGE", std::to_string(change)}, {"PARTITA_PHASE", phase}});
  history::Event event;
  event.kind = history::EventKind::hook;
  event.change = change;
  event.cause = phase + " the change";
  event.subject = name;
  event.outcome = ran ? history::Outcome::succeeded : history::Outcome::failed;
  event.detail = ran ? fmt::format("hook '{}' ended well", name) : to_string(ran.error());
  keep_(std::move(event));
  if (ran || found->on_failure == actuate::HookFailure::stop) return ran;
  complain(context_, to_string(ran.error()) + "; going on, as its on_failure says");
  return {};
}

Command add_apply(CLI::App& app) {
  auto [command, flags] = adding<ApplyFlags>(
      app, "apply",
      "Change this node to match a plan, touching only what differs; safe to kill and restart");
  command->add_option("PLAN", flags->plan, "A plan, or a saved state of this node")
      ->type_name("PLAN");
  takes(*command, "--rollback", flags->options.rollback, "--again", flags->again, "--services",
        flags->services, "--profiles", flags->profiles);
  add_device_flags(*command, flags->device);
  takes(*command, "--state-dir", flags->state_dir, "--why", flags->why, "--dry-run", flags->dry_run,
        "--explain", flags->explain, "--hooks", flags->hooks, "--no-reset", flags->no_reset,
        "--keep-foreign", flags->options.keep_foreign, "--min-available",
        limited(flags->options.min_available, 0, 1), "--drain-timeout",
        limited(flags->options.drain_timeout.value, 0, kMaxWait), "--ready-timeout",
        limited(flags->options.ready_timeout.value, 0, kMaxWait));
  return runs(command, flags, run_apply, {"text", "json", "svg"},
              "partita apply plan.json --dry-run\n"
              "partita apply plan.json --dry-run --format svg -o change.svg\n"
              "partita apply plan.json --min-available 0.8 --format json\n"
              "partita apply plan.json --driver sim --machine machine.yaml\n"
              "partita apply plan.json --hooks /etc/partita/agent.yaml\n"
              "partita apply --again");
}

Command add_drain(CLI::App& app) {
  auto [command, flags] = adding<DrainFlags>(
      app, "drain", "Take the segments off MIG devices and wait until no process holds them");
  command->add_option("DEVICE", flags->devices, "UUIDs of MIG devices or GPUs, or indices of GPUs")
      ->required();
  add_device_flags(*command, flags->device);
  takes(*command, "--state-dir", flags->state_dir, "--why", flags->why, "--hooks", flags->hooks,
        "--wait", limited(flags->timeout, 0, kMaxWait));
  return runs(command, flags, run_drain,
              "partita drain 0 --wait 120\n"
              "partita drain 0 --hooks /etc/partita/agent.yaml");
}

}  // namespace partita::cli
