#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "act/gateway_state.h"
#include "base/table.h"
#include "base/terminal.h"
#include "commands.h"
#include "energy/top_picture.h"
#include "flags.h"
#include "node/devices.h"
#include "node/local_verdicts.h"
#include "node/state_dir.h"
#include "control/host_meter.h"
#include "device/observe/host_energy.h"
#include "device/observe/sampler.h"
#include "screen.h"
#include "stop_request.h"

namespace partita::cli {
namespace {

struct TopFlags {
  DeviceFlags device;
  std::string state_directory, interval = "1s", powercap = observe::HostPaths{}.powercap;
  int count = 0;
};

// The parts of a picture, taken anew each time.
class Top {
 public:
  Top(Context& context, const TopFlags& flags, const OpenDriver& opened)
      : context_(context), flags_(flags), opened_(opened), picture_(context),
        host_(context.files, {.powercap = flags.powercap}) {}

  // The first is for the means of the second alone.
  Result<void> look(Seconds now) {
    const auto sample = TRY(observe::take_sample(*opened_.driver, now));
    const device::NodeState state = TRY(device::read_node(*opened_.driver));
    const std::string directory = state_directory(flags_.state_directory, state);
    std::string more;
    if (const auto unfinished = load_unfinished(context_, directory))
      more = fmt::format("; change {} is not done", unfinished->transaction);
    picture_.know_node(state, more);
    picture_.know_faults(lost_text(state));
    meter_.see(host_.read(now, {}), {});
    control::HostNow host = meter_.whole().value_or(control::HostNow{});
    host.node_w = together(host, sample);
    picture_.know_host(host_line(host));
    verdicts_ = local_verdicts(context_, directory);
    picture_.add(sample, load_occupants(context_, directory));
    return look_at_gateway(directory);
  }

  std::string frame(int height) const { return picture_.frame(height); }

 private:
  Result<void> look_at_gateway(const std::string& directory) {
    const std::string verdicts = verdicts_text(verdicts_, context_.width);
    picture_.know_services(verdicts);
    auto gateway = TRY(
        actuate::read_gateway({processes_, context_.files, directory}, context_.clock.now_ns()));
    if (gateway) picture_.know_services(services_of(*gateway) + verdicts);
    before_ = std::move(gateway);
    return {};
  }

  // Requests a second between two words of one gateway; "-" before the second.
  std::string rate_of(const actuate::GatewayState& now, const actuate::GatewayService& service) {
    if (!before_ || before_->identity != now.identity || !service.requests) return "-";
    const auto was =
        std::ranges::find(before_->services, service.name, &actuate::GatewayService::name);
    if (was == before_->services.end() || !was->requests) return "-";
    const double passed = now.written_s - before_->written_s;
    const long came = service.requests->arrived - was->requests->arrived;
    if (passed > 0 && came >= 0)
      rates_[service.name] = number_text(static_cast<double>(came) / passed);
    const auto known = rates_.find(service.name);  // it has said nothing since
    return known == rates_.end() ? "-" : known->second;
  }

  std::string services_of(const actuate::GatewayState& now) {
    Table table{{"SERVICE", "RATE /s", "PLANNED /s", "CAN CARRY /s", "P99 ms", "READY", "LEAVING",
                 "SILENT"},
                {}};
    for (const actuate::GatewayService& service : now.services) {
      const auto workers = [&](actuate::WorkerReadiness state) {
        const auto its = [&](const auto& one) {
          return one.service == service.name && one.state == state;
        };
        return fmt::format("{}", std::ranges::count_if(now.workers, its) +
                                     std::ranges::count(service.engines, state,
                                                        &actuate::GatewayEngine::state));
      };
      const bool answered = service.requests && service.requests->p99_ms;
      table.rows.push_back({service.name, rate_of(now, service), number_text(service.rate_rps),
                            service.engines.empty() ? number_text(service.capacity_rps) : "-",
                            answered ? number_text(*service.requests->p99_ms) : std::string("-"),
                            workers(actuate::WorkerReadiness::ready),
                            workers(actuate::WorkerReadiness::leaving),
                            workers(actuate::WorkerReadiness::silent)});
    }
    std::vector<TokenRow> models;
    for (const actuate::GatewayService& service : now.services)
      if (service.tokens) models.push_back({service.name, *service.tokens});
    return to_string(table) + tokens_table(models);
  }

  Context& context_;
  const TopFlags& flags_;
  const OpenDriver& opened_;
  RealProcesses processes_;
  TopPicture picture_;
  observe::HostEnergyReader host_;
  control::HostMeter meter_;
  std::optional<actuate::GatewayState> before_;
  std::vector<control::ServiceVerdict> verdicts_;
  std::map<std::string, std::string> rates_;  // as measured last
};

Result<Exit> run_top(Context& context, const TopFlags& flags) {
  const auto interval = TRY(parse_duration("--interval", flags.interval));
  if (interval < Seconds{0.01}) return bad_input("--interval", "must be 10ms or more");
  const OpenDriver opened = TRY(open_driver(context, flags.device));
  Top top(context, flags, opened);
  WallTime time(context.clock);
  TRY(top.look(time.now()));
  StopRequest stop;
  std::optional<Screen> screen;
  if (is_terminal(context)) screen.emplace(context.out);
  const int count = flags.count > 0 || screen ? flags.count : 1;
  for (int taken = 0; count == 0 || taken < count; ++taken) {
    if (stop.within(static_cast<std::int64_t>(interval.value * 1e9))) break;
    TRY(top.look(time.now()));
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
  auto [command, flags] = adding<TopFlags>(
      app, "top",
      "Watch this node: what runs on each instance, how busy it is, watts, the gateway");
  add_device_flags(*command, flags->device);
  add_state_dir(*command, flags->state_directory);
  flag(*command, "--interval", flags->interval)->default_str(flags->interval);
  within(flag(*command, "--count", flags->count), 1, 1e9);
  flag(*command, "--powercap", flags->powercap)->capture_default_str();
  command->footer(
      "partita top\n"
      "partita top --driver sim --machine machine.yaml --count 3");
  return {command, [flags](Context& context) { return run_top(context, *flags); }};
}

}  // namespace partita::cli
