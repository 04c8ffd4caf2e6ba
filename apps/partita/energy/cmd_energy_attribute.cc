#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/named_list.h"
#include "commands.h"
#include "decide/energy.h"
#include "decide/energy_picture.h"
#include "device/observe/sampler.h"
#include "elsewhere.h"
#include "flags.h"
#include "node/devices.h"
#include "stop_request.h"

namespace partita::cli {
namespace {

constexpr const char* kLive = "live";
constexpr double kUnset = std::numeric_limits<double>::quiet_NaN();

struct AttributionFlags {
  decide::EnergyQuestion question;
  std::string rule = "auto", idle = "slice", longest_gap;
  double idle_w = kUnset, batch_start = kUnset, carbon = kUnset, price = kUnset;
  std::vector<std::string> tenants;
  DeviceFlags device;  // of --telemetry live
  std::string duration = "60s", interval = "1s";
  Output output;
};

// Samples of this node every `interval` for `duration`, or until a signal asks to stop; times are
// seconds since the first. The first reading of all, whose activities are of before, is left out.
Result<telemetry::Log> take_log(Context& context, const DeviceFlags& device, Seconds duration,
                                Seconds interval) {
  const OpenDriver opened = TRY(open_driver(context, device));
  const auto interval_ns = static_cast<std::int64_t>(interval.value * 1e9);
  StopRequest stop;
  TRY(observe::take_sample(*opened.driver, Seconds{0}));
  telemetry::Log log;
  std::int64_t due = context.clock.now_ns() + interval_ns, start = 0;
  for (;;) {
    if (stop.within(std::max<std::int64_t>(0, due - context.clock.now_ns()))) break;
    const std::int64_t now = context.clock.now_ns();
    if (log.empty()) start = now;
    const Seconds at{static_cast<double>(now - start) * 1e-9};
    auto sample = TRY(observe::take_sample(*opened.driver, at));
    log.push_back(std::move(sample));
    if (at >= duration) break;
    due = std::max(due + interval_ns, now);  // slow readings are not made up for
  }
  return log;
}

std::optional<double> given(double value) {
  return std::isnan(value) ? std::nullopt : std::optional<double>{value};
}

// NAME=SERVICE,SERVICE
Result<void> add_owner(const std::string& text, std::map<std::string, std::string>& owners) {
  const auto tenant = TRY(parse_named_list("--tenant", text, "SERVICE"));
  for (const std::string& service : tenant.items)
    if (!owners.emplace(service, tenant.name).second)
      return bad_input("--tenant", fmt::format("service '{}' has two tenants", service));
  return {};
}

Result<decide::EnergyQuestion> question_of(const AttributionFlags& flags) {
  using energy::IdlePolicy;
  using energy::SplitRule;
  decide::EnergyQuestion question = flags.question;
  for (const SplitRule rule : {SplitRule::model, SplitRule::activity, SplitRule::slice,
                               SplitRule::kepler, SplitRule::equal})
    if (flags.rule == to_string(rule)) question.rule = rule;
  for (const IdlePolicy policy : {IdlePolicy::slice, IdlePolicy::equal, IdlePolicy::unassigned})
    if (flags.idle == to_string(policy)) question.idle = policy;
  question.idle_w = given(flags.idle_w);
  if (const auto start = given(flags.batch_start)) question.batch_start = Seconds{*start};
  question.co2_g_per_kwh = given(flags.carbon);
  question.price_per_kwh = given(flags.price);
  if (!flags.longest_gap.empty()) {
    question.longest_gap = TRY(parse_duration("--longest-gap", flags.longest_gap));
  }
  for (const std::string& tenant : flags.tenants) TRY(add_owner(tenant, question.owners));
  return question;
}

Result<energy::EnergyReport> attributed(Context& context, const AttributionFlags& flags,
                                        const decide::EnergyQuestion& question) {
  if (question.telemetry != kLive) return decide::attribute_energy(context.files, question);
  const auto duration = TRY(parse_duration("--duration", flags.duration));
  const auto interval = TRY(parse_duration("--interval", flags.interval));
  const auto log = TRY(take_log(context, flags.device, duration, interval));
  return decide::attribute_energy(context.files, log, question);
}

Result<Exit> run_energy_attribute(Context& context, const AttributionFlags& flags) {
  const auto question = TRY(question_of(flags));
  const auto report = TRY(attributed(context, flags, question));
  const std::string content = flags.output.json()                   ? energy::report_json(report)
                              : flags.output.format == "prometheus" ? report_prometheus(report)
                              : flags.output.svg()                  ? decide::energy_svg(report)
                                                                    : report_text(report);
  return finish(context, flags.output, content);
}

void add_inputs(CLI::App& command, AttributionFlags& flags) {
  flag(command, "--telemetry", flags.question.telemetry)->required();
  flag(command, "--duration", flags.duration)->default_str(flags.duration);
  flag(command, "--interval", flags.interval)->default_str(flags.interval);
  flag(command, "--plan", flags.question.plan);
  flag(command, "--state", flags.question.state);
  flag(command, "--model", flags.question.model);
  flag(command, "--request-counts", flags.question.requests)->expected(1, 2);
  flag(command, "--batch-start", flags.batch_start);
  flag(command, "--tenant", flags.tenants);
}

void add_rules(CLI::App& command, AttributionFlags& flags) {
  one_of(flag(command, "--rule", flags.rule),
         {"auto", "model", "activity", "slice", "kepler", "equal"})
      ->default_str(flags.rule);
  one_of(flag(command, "--idle", flags.idle), {"slice", "equal", "unassigned"})
      ->default_str(flags.idle);
  within(flag(command, "--idle-w", flags.idle_w), 0, energy::kMaxBoardWatts);
  flag(command, "--longest-gap", flags.longest_gap);
  flag(command, "--compare", flags.question.compare);
  within(flag(command, "--carbon", flags.carbon), 0, 1e5);
  within(flag(command, "--price", flags.price), 0, 1e9);
}

}  // namespace

Command add_energy_attribute(CLI::App& energy) {
  auto [command, flags] = adding<AttributionFlags>(
      energy, "attribute", "Tell how many joules each tenant, service, task and request took");
  add_inputs(*command, *flags);
  add_device_flags(*command, flags->device);
  add_rules(*command, *flags);
  add_output(*command, flags->output, {"text", "json", "prometheus", "svg"});
  command->footer(
      "partita energy attribute --telemetry log.jsonl --plan plan.json --carbon 380 --price 0.30\n"
      "partita energy attribute --telemetry log.jsonl --compare --format svg -o joules.svg\n"
      "partita energy attribute --telemetry live --duration 5m --plan state/assignment.json");
  return {command, [flags](Context& context) { return run_energy_attribute(context, *flags); }};
}

Command add_energy(CLI::App& app) {
  CLI::App* energy = app.add_subcommand(
      "energy", "Tell joules apart: what accesses cost, and what each tenant of a GPU took");
  energy->footer("partita energy attribute --telemetry log.jsonl --plan plan.json --compare");
  std::vector<Command> commands = add_elsewhere(*energy, "energy");
  commands.push_back(add_energy_attribute(*energy));
  return group_of(energy, std::move(commands));
}

}  // namespace partita::cli
