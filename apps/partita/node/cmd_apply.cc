#include <fmt/format.h>

#include <memory>

#include "actuate/apply.h"
#include "actuate/change_forms.h"
#include "base/document.h"
#include "commands.h"
#include "node/devices.h"
#include "flags.h"
#include "serving/inputs.h"
#include "forms/serving_forms.h"
#include "node/state_dir.h"

namespace partita::cli {
namespace {

constexpr double kMaxWait = 86'400;  // seconds

struct ApplyFlags {
  std::string plan;  // empty: what rollback goes back to
  DeviceFlags device;
  std::string state_dir;
  bool dry_run = false, rollback = false, explain = false, keep_foreign = false;
  double min_available = 1, drain_timeout = 60, ready_timeout = 0;
  Output output;
};

// The node with its doors, as apply takes them.
struct OpenNode {
  OpenDriver open;
  std::string state_dir;
  RealProcesses processes = {};
  actuate::Doors doors(Context& context) {
    return {*open.driver, context.files, context.clock, *open.catalogue, state_dir, &processes};
  }
};

Result<OpenNode> open_node(Context& context, const DeviceFlags& flags,
                           const std::string& state_dir) {
  Result<OpenDriver> open = open_driver(context, flags);
  if (!open) return failed(open.error());
  const Result<device::NodeState> state = device::read_node(*open->driver);
  if (!state) return failed(state.error());
  return OpenNode{std::move(*open), state_directory(state_dir, *state)};
}

Result<actuate::Wanted> parse_wanted(const std::string& path, const std::string& text,
                                     const hw::Catalogue& catalogue) {
  const Result<Document> document = parse_document(path, text);
  if (!document) return failed(document.error());
  const partita::Node* kind = document->root.find("kind");
  if (kind != nullptr && kind->text == "NodeState") {
    const auto state = device::parse_state(path, text, catalogue);
    if (!state) return failed(state.error());
    return actuate::wanted_of(*state);
  }
  const Result<plan::ServingPlan> plan = forms::parse_plan(path, text);
  if (!plan) return failed(plan.error());
  return actuate::wanted_of(*plan);
}

// A serving plan, or the state of a node to be restored.
Result<actuate::Wanted> load_wanted(Context& context, const std::string& path,
                                    const hw::Catalogue& catalogue) {
  const Result<std::string> text = read_input(context, "PLAN", path);
  if (!text) return failed(text.error());
  Result<actuate::Wanted> wanted = parse_wanted(path, *text, catalogue);
  if (!wanted) return wanted;
  if (const auto legal = actuate::check_wanted(*wanted, catalogue); !legal) {
    return bad_input(path, to_string(legal.error()));
  }
  return wanted;
}

actuate::ApplyOptions options_of(const ApplyFlags& flags) {
  return {.min_available = flags.min_available,
          .keep_foreign = flags.keep_foreign,
          .drain_timeout = {flags.drain_timeout},
          .rollback = flags.rollback,
          .ready_timeout = {flags.ready_timeout}};
}

// Tells people on standard error what is being done.
void tell(Context& context, const actuate::ApplyEvent& event) {
  using Kind = actuate::ApplyEvent::Kind;
  switch (event.kind) {
    case Kind::begin:
      if (!event.detail.empty()) complain(context, "an earlier run was cut short; going on");
      return;
    case Kind::step:
      fmt::print(context.err, "{:>3}/{}  {}\n", event.step + 1, event.change->steps.size(),
                 actuate::step_text(event.change->steps[event.step]));
      return;
    case Kind::waiting:
      complain(context, "waiting for " + event.detail);
      return;
    case Kind::retry:
      complain(context, event.detail + "; reading the node again");
      return;
    case Kind::done_step:
    case Kind::end:
      return;
  }
}

Result<Exit> show(Context& context, const ApplyFlags& flags, const actuate::Change& change) {
  const std::string content = flags.output.format == "json" ? actuate::change_json(change)
                              : flags.dry_run ? actuate::change_text(change, flags.explain)
                                              : actuate::change_summary(change);
  if (auto written = deliver(context, flags.output, content); !written) {
    return failed(written.error());
  }
  return Exit::done;
}

Result<Exit> run_apply(Context& context, const ApplyFlags& flags) {
  if (flags.plan.empty() && !flags.rollback) return bad_input("PLAN", "a plan is needed");
  Result<OpenNode> node = open_node(context, flags.device, flags.state_dir);
  if (!node) return failed(node.error());
  const actuate::Doors doors = node->doors(context);
  const Result<actuate::Wanted> wanted =
      flags.rollback ? actuate::rollback_target(doors)
                     : load_wanted(context, flags.plan, *node->open.catalogue);
  if (!wanted) return failed(wanted.error());
  if (flags.dry_run) {
    const auto change = actuate::preview(doors, *wanted, options_of(flags));
    if (!change) return failed(change.error());
    return show(context, flags, *change);
  }
  bool begun = false;
  const auto report = actuate::apply(doors, *wanted, options_of(flags), [&](const auto& event) {
    begun = begun || event.kind == actuate::ApplyEvent::Kind::step;
    tell(context, event);
  });
  if (!report) {
    if (begun) {
      complain(context, "run the same command again to go on, or `partita rollback` to go back");
    }
    return failed(report.error());
  }
  complain(context, report->change.empty()
                        ? std::string("the node is as wanted; nothing to do")
                        : fmt::format("done in {:.2f} s ({:.2f} s predicted for the driver)",
                                      report->took.value, report->change.predicted.value));
  return show(context, flags, report->change);
}

void add_flags(CLI::App& command, ApplyFlags& flags) {
  add_device_flags(command, flags.device);
  add_state_dir(command, flags.state_dir);
  command.add_flag("--dry-run", flags.dry_run,
                   "Only say what would be done, to whom, for how long");
  command.add_flag("--explain", flags.explain, "Say why each instance stays, goes or moves (text)");
  command.add_flag("--keep-foreign", flags.keep_foreign,
                   "Leave instances that Partita did not make, unless they are in the way");
  within(command.add_option("--min-available", flags.min_available,
                            "Share of a service's capacity that stays up where there is room"),
         0, 1)
      ->type_name("SHARE");
  within(command.add_option("--drain-timeout", flags.drain_timeout,
                            "Seconds that processes may take to leave an instance"),
         0, kMaxWait)
      ->type_name("SECONDS");
  within(command.add_option("--ready-timeout", flags.ready_timeout,
                            "Seconds that a started segment may take until a process holds its "
                            "device, before anything is taken down for it; 0: do not wait"),
         0, kMaxWait)
      ->type_name("SECONDS");
  add_output(command, flags.output, {"text", "json"});
}

struct DrainFlags {
  std::vector<std::string> devices;
  DeviceFlags device;
  std::string state_dir;
  double timeout = 60;
};

// UUIDs of MIG devices, from UUIDs or GPU indices.
Result<std::vector<std::string>> devices_of(const std::vector<std::string>& words,
                                            const device::NodeState& state) {
  std::vector<std::string> devices;
  for (const std::string& word : words) {
    const std::size_t before = devices.size();
    for (const device::GpuState& gpu : state.gpus) {
      const bool whole = word == gpu.uuid || word == std::to_string(gpu.index);
      for (const device::Instance& one : gpu.instances) {
        if (whole || one.uuid() == word) devices.push_back(one.uuid());
      }
      if (whole && gpu.instances.empty()) return devices;
    }
    if (devices.size() == before) {
      return bad_input("DEVICE", fmt::format("no GPU and no MIG device is called '{}'", word));
    }
  }
  return devices;
}

Result<Exit> run_drain(Context& context, const DrainFlags& flags) {
  Result<OpenNode> node = open_node(context, flags.device, flags.state_dir);
  if (!node) return failed(node.error());
  const Result<device::NodeState> state = device::read_node(*node->open.driver);
  if (!state) return failed(state.error());
  const auto devices = devices_of(flags.devices, *state);
  if (!devices) return failed(devices.error());
  const auto drained = actuate::drain(node->doors(context), *devices, {flags.timeout},
                                      [&](const auto& event) { tell(context, event); });
  if (!drained) return failed(drained.error());
  complain(context, "nobody holds what was named");
  return Exit::done;
}

}  // namespace

Command add_apply(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "apply",
      "Make this node as a plan says, touching only what differs; may be killed and run "
      "again at any moment");
  auto flags = std::make_shared<ApplyFlags>();
  command->add_option("PLAN", flags->plan, "A plan, or a state of this node to go back to")
      ->type_name("PLAN");
  command->add_flag("--rollback", flags->rollback, "Go back to what was before the last apply");
  add_flags(*command, *flags);
  command->footer(
      "partita apply plan.json --dry-run\n"
      "partita apply plan.json --min-available 0.8 --format json\n"
      "partita apply plan.json --driver sim --machine machine.yaml");
  return {command, [flags](Context& context) { return run_apply(context, *flags); }};
}

Command add_rollback(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("rollback", "Make this node as it was before the last apply");
  auto flags = std::make_shared<ApplyFlags>();
  flags->rollback = true;
  add_flags(*command, *flags);
  command->footer("partita rollback --dry-run");
  return {command, [flags](Context& context) { return run_apply(context, *flags); }};
}

Command add_drain(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "drain", "Take the segments off MIG devices and wait until no process holds them");
  auto flags = std::make_shared<DrainFlags>();
  command->add_option("DEVICE", flags->devices, "UUIDs of MIG devices or GPUs, or indices of GPUs")
      ->required();
  add_device_flags(*command, flags->device);
  add_state_dir(*command, flags->state_dir);
  within(command->add_option("--timeout", flags->timeout, "Seconds to wait"), 0, kMaxWait)
      ->type_name("SECONDS");
  command->footer("partita drain 0 --timeout 120");
  return {command, [flags](Context& context) { return run_drain(context, *flags); }};
}

}  // namespace partita::cli
