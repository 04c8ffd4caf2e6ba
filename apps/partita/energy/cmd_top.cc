#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "actuate/gateway_state.h"
#include "base/table.h"
#include "base/terminal.h"
#include "base/unicode.h"
#include "commands.h"
#include "flags.h"
#include "model/energy/attribution.h"
#include "node/devices.h"
#include "node/state_dir.h"
#include "observe/sampler.h"
#include "observe/view.h"
#include "screen.h"
#include "stop_request.h"

namespace partita::cli {
namespace {

struct TopFlags {
  DeviceFlags device;
  std::string state_directory, interval = "1s";
  int count = 0;
};

// The parts of a picture, taken anew each time.
class Top {
 public:
  Top(Context& context, const TopFlags& flags, const OpenDriver& opened)
      : context_(context), flags_(flags), opened_(opened) {}

  // The first is for the means of the second alone.
  Result<void> look(Seconds now) {
    const auto sample = observe::take_sample(*opened_.driver, now);
    if (!sample) return failed(sample.error());
    const Result<device::NodeState> state = device::read_node(*opened_.driver);
    if (!state) return failed(state.error());
    const std::string directory = state_directory(flags_.state_directory, *state);
    const device::Occupants occupants = load_occupants(context_, directory);
    head_ = head_of(*state);
    if (const auto unfinished = load_unfinished(context_, directory))
      head_ += fmt::format("; change {} is not done", unfinished->transaction);
    view_.know(notes_of(*sample, occupants));
    view_.add(*sample);
    return look_at_gateway(directory);
  }

  std::string frame(int height) const {
    const std::string above = fit(head_, std::min(columns(head_), context_.width)) + "\n\n" +
                              services_ + (services_.empty() ? "" : "\n");
    const int lines = static_cast<int>(std::ranges::count(above, '\n'));
    return above + view_.frame({.colour = context_.colour,
                                .width = context_.width,
                                .height = height > 0 ? std::max(3, height - lines) : 0});
  }

 private:
  static std::string head_of(const device::NodeState& state) {
    long instances = 0, busy = 0;
    for (const device::GpuState& gpu : state.gpus) {
      instances += std::ssize(gpu.instances);
      busy += std::ranges::count_if(gpu.instances, &device::Instance::busy);
    }
    return fmt::format("{}, {}, {} held by processes", count_text(std::ssize(state.gpus), "GPU"),
                       count_text(instances, "instance"), busy);
  }

  // Who runs where, and what it takes: the board's power above the least that was seen of it, split
  // by compute slices times activity; the least itself by compute slices.
  std::map<std::string, observe::InstanceNote> notes_of(const telemetry::Sample& sample,
                                                        const device::Occupants& occupants) {
    std::map<std::string, observe::InstanceNote> notes;
    for (const telemetry::GpuSample& gpu : sample.gpus) {
      const std::vector<double> watts = split(gpu);
      for (std::size_t i = 0; i < gpu.instances.size(); ++i) {
        const std::string& uuid = gpu.instances[i].uuid;
        observe::InstanceNote note;
        if (const auto found = occupants.find(uuid); found != occupants.end())
          note.runs = fmt::format("{} b{}×{}", found->second.service, found->second.batch,
                                  found->second.processes);
        if (!watts.empty()) note.watts = Watts{watts[i]};
        notes[uuid] = std::move(note);
      }
    }
    return notes;
  }

  std::vector<double> split(const telemetry::GpuSample& gpu) {
    const auto power = gpu.power ? gpu.power : gpu.power_average;
    if (!power || gpu.compute_slices < 1) return {};
    const auto least = least_.emplace(gpu.index, *power).first;
    least->second = std::min(least->second, *power);
    energy::BoardLedger board{{{power->value, Seconds{1}, true, {}}}, least->second, Watts{}};
    energy::Ledger ledger{{}, {}, static_cast<int>(gpu.instances.size())};
    for (const telemetry::InstanceSample& one : gpu.instances) {
      const int number = static_cast<int>(ledger.accounts.size());
      const double busy = one.activity.graphics_engine.value_or(0);
      ledger.accounts.push_back({0, number});
      board.intervals.front().uses.push_back(
          {number, static_cast<double>(one.compute_slices) / gpu.compute_slices, busy, busy, 0, 0});
    }
    ledger.boards = {std::move(board)};
    std::vector<double> watts;
    for (const energy::Share& share :
         energy::attribute(ledger, energy::SplitRule::activity, energy::IdlePolicy::slice).accounts)
      watts.push_back(static_cast<double>(share.energy) * 1e-6);
    return watts;
  }

  Result<void> look_at_gateway(const std::string& directory) {
    services_.clear();
    const auto gateway =
        actuate::read_gateway({processes_, context_.files, directory}, context_.clock.now_ns());
    if (!gateway) return failed(gateway.error());
    if (!*gateway) return {};
    Table table{{"SERVICE", "PLANNED /s", "CAN CARRY /s", "READY", "LEAVING", "SILENT"}, {}};
    for (const actuate::GatewayService& service : (*gateway)->services) {
      const auto workers = [&](actuate::WorkerReadiness state) {
        return fmt::format("{}", std::ranges::count_if((*gateway)->workers, [&](const auto& one) {
                             return one.service == service.name && one.state == state;
                           }));
      };
      table.rows.push_back(
          {service.name, number_text(service.rate_rps), number_text(service.capacity_rps),
           workers(actuate::WorkerReadiness::ready), workers(actuate::WorkerReadiness::leaving),
           workers(actuate::WorkerReadiness::silent)});
    }
    services_ = to_string(table);
    return {};
  }

  Context& context_;
  const TopFlags& flags_;
  const OpenDriver& opened_;
  RealProcesses processes_;
  observe::View view_;
  std::map<int, Watts> least_;  // by GPU
  std::string head_, services_;
};

Result<Exit> run_top(Context& context, const TopFlags& flags) {
  const auto interval = parse_duration("--interval", flags.interval);
  if (!interval) return failed(interval.error());
  if (*interval < Seconds{0.01}) return bad_input("--interval", "must be 10ms or more");
  const Result<OpenDriver> opened = open_driver(context, flags.device);
  if (!opened) return failed(opened.error());
  Top top(context, flags, *opened);
  WallTime time(context.clock);
  if (auto first = top.look(time.now()); !first) return failed(first.error());
  StopRequest stop;
  std::optional<Screen> screen;
  if (is_terminal(context)) screen.emplace(context.out);
  const int count = flags.count > 0 || screen ? flags.count : 1;
  for (int taken = 0; count == 0 || taken < count; ++taken) {
    if (stop.within(static_cast<std::int64_t>(interval->value * 1e9))) break;
    if (auto next = top.look(time.now()); !next) return failed(next.error());
    if (screen) {
      screen->draw(top.frame(screen->height()));
    } else {
      say(context, (taken > 0 ? "\n" : "") + top.frame(0));
    }
  }
  return Exit::done;
}

}  // namespace

Command add_top(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "top", "Watch this node: what runs on each instance, how busy it is, watts, the gateway");
  auto flags = std::make_shared<TopFlags>();
  add_device_flags(*command, flags->device);
  add_state_dir(*command, flags->state_directory);
  command->add_option("--interval", flags->interval, "Time between pictures, 10ms or more")
      ->type_name("TIME")
      ->default_str(flags->interval);
  within(command->add_option("--count", flags->count,
                             "End after so many pictures (1 where output is no terminal)"),
         1, 1e9)
      ->type_name("N");
  command->footer(
      "partita top\n"
      "partita top --driver sim --machine machine.yaml --count 3");
  return {command, [flags](Context& context) { return run_top(context, *flags); }};
}

}  // namespace partita::cli
