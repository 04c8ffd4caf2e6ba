#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "act/node_picture.h"
#include "base/input.h"
#include "base/parse_number.h"
#include "base/table.h"
#include "base/terminal.h"
#include "control/snapshot.h"
#include "device/node_forms.h"
#include "energy/top_picture.h"
#include "forms/serving_forms.h"
#include "node/local_verdicts.h"
#include "past/past.h"
#include "screen.h"
#include "server/remote.h"
#include "stop_request.h"

namespace partita::cli {

namespace {

device::Occupants occupants_of(const control::Snapshot& state) {
  device::Occupants occupants;
  for (const actuate::AssignedSegment& one : state.assignment.segments)
    occupants[one.device] = {one.service, one.batch, one.processes};
  return occupants;
}

// A line that says that what follows is not as it is now; empty where it is.
std::string age_text(const control::Snapshot& state) {
  if (state.node_fault.empty()) return {};
  return fmt::format("what follows of the node is of {}: {}\n",
                     state.node_read_ms > 0 ? control::utc_text(state.node_read_ms) : "never",
                     state.node_fault);
}

std::vector<control::ServiceVerdict> verdicts_of(const control::Snapshot& state) {
  std::vector<control::ServiceVerdict> verdicts;
  for (const control::ServiceNow& one : state.services) verdicts.push_back(one.is);
  return verdicts;
}

// What runs where on a large node: its state has it apart, and it is asked for when it is another.
class NodeParts {
 public:
  explicit NodeParts(const Remote& remote) : remote_(remote) {}
  Result<control::Snapshot> completed(Result<control::Snapshot> state) {
    if (!state || state->left_out.empty()) return state;
    if (!node_ || version_ != state->node_version) {
      const auto answer = TRY(remote_.client.call("node"));
      node_ = TRY(device::parse_state("the server's answer", answer));
      version_ = state->node_version;
    }
    control::complete(*state, node_->state, node_->occupants);
    return state;
  }

 private:
  const Remote& remote_;
  std::optional<device::StateDocument> node_;
  long version_ = 0;
};

// Of the agent's snapshot.
std::string status_of(const Remote& remote, const control::Snapshot& now) {
  const Output output = remote.said.output();
  const device::NodeState& state = now.state;
  const device::Occupants occupants = occupants_of(now);
  if (output.json())
    return device::state_json(state, occupants, {}, [&](Form& f) {
      auto verdicts = verdicts_of(now);
      control::tell_age(f, now.node_read_ms, now.node_fault);
      control::describe_verdicts(f, verdicts);
    });
  if (output.svg()) return actuate::node_svg(state, occupants, hw::builtin_catalogue());
  return age_text(now) +
         device::state_text(state, occupants, hw::builtin_catalogue(),
                            {.colour = remote.context.colour && output.file.empty(),
                             .width = remote.context.width}) +
         verdicts_text(verdicts_of(now), remote.context.width);
}

std::string number_or_dash(const std::optional<double>& value) {
  return value ? number_text(*value) : std::string("-");
}

std::string services_table(const control::Snapshot& state) {
  if (state.services.empty()) return {};
  Table table{{"SERVICE", "RATE /s", "FORECAST", "PLANNED /s", "CAN CARRY /s", "SLO ms", "P99 ms",
               "IN SLO", "READY", "VERDICT", ""},
              {}};
  for (const control::ServiceNow& one : state.services)
    table.rows.push_back(
        {one.name, number_or_dash(one.rate_rps), number_or_dash(one.forecast_rps),
         number_text(one.planned_rps), number_text(one.is.can_carry_rps),
         number_text(one.slo.value), number_or_dash(one.p99_ms),
         one.attainment ? fmt::format("{:.2f} %", 100 * *one.attainment) : std::string("-"),
         fmt::format("{}", one.ready_workers), control::to_string(one.is.verdict), one.is.why});
  std::string colds;
  for (const control::ServiceNow& one : state.services)
    if (one.is.cold) colds += one.name + ": " + actuate::to_string(*one.is.cold) + "\n";
  std::vector<TokenRow> models;
  for (const control::ServiceNow& one : state.services)
    if (one.token_traffic) models.push_back({one.name, *one.token_traffic});
  return to_string(table) + colds + tokens_table(models);
}

}  // namespace

Result<Exit> Remote::watch(const Picture& picture, long most) const {
  StopRequest stop;
  const Output output = said.output();
  std::optional<Screen> screen;
  if (output.file.empty() && output.format == "text" && is_terminal(context))
    screen.emplace(context.out);
  long drawn = 0;
  std::optional<Error> fault;
  NodeParts parts(*this);
  const auto take = [&](const api::StreamEvent& event) {
    if (event.name != "state") return true;
    const auto state = parts.completed(control::parse_snapshot("the server's answer", event.data));
    const auto frame =
        state ? picture(*state, screen ? screen->height() : 0) : failed(state.error());
    if (!frame) {
      fault = frame.error();
    } else if (screen) {
      screen->draw(*frame);
    } else if (auto written = deliver(context, output, *frame); !written) {
      fault = written.error();
    }
    return !fault && ++drawn != most;
  };
  const auto done =
      client.follow({.take = take,
                     .stopped = [&](std::int64_t ns) { return stop.within(ns); },
                     .lost =
                         [&](const Error& why, std::int64_t wait_ns) {
                           if (!screen)
                             complain(context, fmt::format("{}; again in {:.0f} s", to_string(why),
                                                           static_cast<double>(wait_ns) * 1e-9));
                         }});
  if (fault) return failed(*fault);
  if (!done) return failed(done.error());
  return Exit::done;
}

Result<Exit> remote_status(const Remote& remote) {
  if (remote.said.given("--watch"))
    return remote.watch(
        [&](const control::Snapshot& state, int height) -> Result<std::string> {
          return first_lines(status_of(remote, state), height);
        },
        parse_number<long>(remote.said.text("--count")).value_or(0));
  const bool whole = remote.said.output().format == "json";
  const auto answer = TRY(remote.client.call(whole ? "node" : "state"));
  std::string shown = answer;
  if (!whole) {
    const auto state =
        TRY(NodeParts(remote).completed(control::parse_snapshot("the server's answer", answer)));
    shown = status_of(remote, state);
  }
  return finish(remote.context, remote.said.output(), shown);
}

// The agent's own picture of its node; on no terminal one of them, as at the node.
Result<Exit> remote_top(const Remote& remote) {
  TopPicture picture(remote.context);
  const long most =
      parse_number<long>(remote.said.text("--count")).value_or(is_terminal(remote.context) ? 0 : 1);
  return remote.watch(
      [&](const control::Snapshot& state, int height) -> Result<std::string> {
        telemetry::Sample sample{Seconds{static_cast<double>(state.time_ms) * 1e-3}, {}};
        for (const control::GpuNow& gpu : state.gpus)
          if (gpu.sample) sample.gpus.push_back(*gpu.sample);
        picture.know_node(state.state,
                          fmt::format("; {}: {}", control::to_string(state.mode), state.doing));
        picture.know_host(state.host ? host_line(*state.host) : "");
        std::string faults = age_text(state);
        for (const control::GpuNow& gpu : state.gpus)
          if (gpu.out) faults += fmt::format("gpu {} is out: {}\n", gpu.index, gpu.why);
        picture.know_faults(faults);
        picture.add(sample, occupants_of(state));
        picture.know_services(services_table(state));
        return picture.frame(height);
      },
      most);
}

// The plan in force, or what would be planned for other services.
Result<Exit> remote_plan(const Remote& remote) {
  if (const std::string file = remote.said.text("--services"); !file.empty()) {
    const auto services = TRY(read_input(remote.context.files, "--services", file));
    return remote_preview(remote, services);
  }
  const auto answer = TRY(remote.client.call("plan"));
  const auto plan = TRY(forms::parse_plan("the server's answer", answer));
  return remote.show(answer, forms::plan_text(plan, hw::builtin_catalogue(),
                                              {.colour = remote.context.colour,
                                               .explain = remote.said.given("--explain"),
                                               .width = remote.context.width}));
}

Result<Exit> remote_agent(const Remote& remote) {
  for (const char* flag :
       {"--approve", "--reject", "--replan-now", "--set-mode", "--give-back", "--why"})
    if (remote.said.given(flag)) return remote_told(remote);
  const auto answer = TRY(remote.client.call("state"));
  const auto state = TRY(control::parse_snapshot("the server's answer", answer));
  std::string text = fmt::format("{} ({}), {}: {}\n", state.node, local_time(state.time_ms),
                                 control::to_string(state.mode), state.doing);
  text += age_text(state);
  if (state.current)
    text += fmt::format("change {} is {}: {}\n", state.current->number,
                        control::to_string(state.current->state), state.current->cause);
  text += services_table(state) + batch_text(state.batch);
  for (const std::string& notice : state.notices) text += notice + "\n";
  return remote.show(answer, text);
}

}  // namespace partita::cli
