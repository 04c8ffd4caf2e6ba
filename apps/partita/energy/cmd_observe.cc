#include <cmath>
#include <limits>
#include <map>

#include "act/gateway_state.h"
#include "base/named_list.h"
#include "base/unicode.h"
#include "commands.h"
#include "control/host_meter.h"
#include "decide/energy.h"
#include "decide/energy_picture.h"
#include "device/observe/host_energy.h"
#include "device/observe/sample_text.h"
#include "device/observe/sampler.h"
#include "device/observe/view.h"
#include "elsewhere.h"
#include "energy/top_picture.h"
#include "hw/telemetry/joules.h"
#include "hw/telemetry/log.h"
#include "model/energy/attribution.h"
#include "node/devices.h"
#include "node/local_verdicts.h"
#include "screen.h"

namespace partita::cli {
namespace {

using telemetry::Log;
using telemetry::Sample;

struct ObserveFlags {
  DeviceFlags device;
  bool watch = false;
  std::string record, replay, interval = "1s", format = "text";
  int count = 0;
};

// What is shown of samples, one after another.
class Shown {
 public:
  Shown(Context& context, const ObserveFlags& flags) : context_(context), flags_(flags) {
    if (flags.watch && flags.format == "text" && is_terminal(context)) screen_.emplace(context.out);
  }

  // Means of the next sample are since this one.
  void remember(const Sample& sample) { recent_.push_back(sample); }

  void show(const Sample& sample) {
    remember(sample);
    if (recent_.size() > kRecent) recent_.erase(recent_.begin());
    if (flags_.format == "json") return say(context_, telemetry::write_line(sample));
    if (flags_.format == "prometheus") return say(context_, observe::prometheus_text(sample));
    if (!screen_) return say(context_, text(sample));
    view_.add(sample);
    screen_->draw(view_.frame(
        {.colour = context_.colour, .width = context_.width, .height = screen_->height()}));
  }

 private:
  static constexpr std::size_t kRecent = 600;

  std::string text(const Sample& sample) const {
    observe::MeanPowers means(sample.gpus.size());
    for (const telemetry::Board& board : telemetry::measure(recent_))
      for (std::size_t g = 0; g < sample.gpus.size() && !board.intervals.empty(); ++g) {
        const telemetry::Interval& last = board.intervals.back();
        if (sample.gpus[g].index == board.index && last.source != telemetry::MeterSource::nothing)
          means[g] = Watts{last.joules / last.length.value};
      }
    return observe::sample_text(sample, means) + (flags_.watch ? "\n" : "");
  }

  Context& context_;
  const ObserveFlags& flags_;
  std::optional<Screen> screen_;
  observe::View view_;
  Log recent_;
};

// Joules of a recording, for people.
std::string summary_of(const Log& log) {
  std::string text;
  for (const telemetry::Board& board : telemetry::measure(log)) {
    const Seconds told = board.counted + board.integrated;
    if (told.value <= 0) continue;
    text += fmt::format("GPU {}: {:.1f} J in {:.1f} s, {:.1f} W on average (by {})\n", board.index,
                        board.joules(), told.value, board.joules() / told.value,
                        board.counted > board.integrated ? "counter" : "power");
  }
  return text;
}

Result<Exit> replay(Context& context, const ObserveFlags& flags) {
  const auto text = TRY(context.files.read(flags.replay));
  const auto log = TRY(telemetry::read_log(text, flags.replay));
  if (const auto note = telemetry::torn_note(text, flags.replay); !note.empty())
    complain(context, note);
  StopRequest stop;
  Shown shown(context, flags);
  if (flags.format == "text" && !flags.watch) {
    say(context, observe::sample_text(log.back()) + "\n" + summary_of(log));
    return Exit::done;
  }
  for (std::size_t i = 0; i < log.size(); ++i) {
    const double pause = i == 0 ? 0 : (log[i].at - log[i - 1].at).value;
    const auto ns = static_cast<std::int64_t>(std::min(pause, 60.0) * 1e9);
    if (flags.watch && stop.within(ns)) break;
    shown.show(log[i]);
  }
  return Exit::done;
}

Result<Exit> live(Context& context, const ObserveFlags& flags, Seconds interval) {
  const OpenDriver opened = TRY(open_driver(context, flags.device));
  if (!flags.record.empty() && context.files.exists(flags.record))
    return bad_input("--record", flags.record + " exists already");
  const bool endless = flags.watch || !flags.record.empty();
  const int count = flags.count > 0 ? flags.count : endless ? 0 : 1;
  const auto interval_ns = static_cast<std::int64_t>(interval.value * 1e9);
  StopRequest stop;
  WallTime time(context.clock);
  Shown shown(context, flags);
  // Activities are since the reading before: the first is for that alone.
  const auto first = TRY(observe::take_sample(*opened.driver, time.now()));
  shown.remember(first);
  std::int64_t due = context.clock.now_ns();
  for (int taken = 0; count == 0 || taken < count; ++taken) {
    due += interval_ns;
    if (stop.within(std::max<std::int64_t>(0, due - context.clock.now_ns()))) break;
    due = std::max(due, context.clock.now_ns() - interval_ns);  // slow readings are not made up for
    const auto sample = TRY(observe::take_sample(*opened.driver, time.now()));
    if (!flags.record.empty())
      TRY(context.files.append(flags.record, telemetry::write_line(sample)));
    if (flags.record.empty() || flags.watch) shown.show(sample);
  }
  return Exit::done;
}

Result<Exit> run_observe(Context& context, const ObserveFlags& flags) {
  const auto interval = TRY(parse_duration("--interval", flags.interval));
  if (interval < Seconds{0.01}) return bad_input("--interval", "must be 10ms or more");
  if (!flags.replay.empty() && !flags.record.empty())
    return bad_input("--replay", "what was recorded is not recorded again");
  const auto exit = flags.replay.empty() ? live(context, flags, interval) : replay(context, flags);
  if (exit && flags.record.empty() && std::ferror(context.out) != 0)
    return environment_error("standard output", "cannot write all of it");
  return exit;
}

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
    Table table = headed("SERVICE|RATE /s|PLANNED /s|CAN CARRY /s|P99 ms|READY|LEAVING|SILENT");
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
    if (stop.within(interval)) break;
    TRY(top.look(time.now()));
    if (screen)
      screen->draw(top.frame(screen->height()));
    else
      say(context, (taken > 0 ? "\n" : "") + top.frame(0));
  }
  return Exit::done;
}

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
    log.push_back(TRY(observe::take_sample(*opened.driver, at)));
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
  if (!flags.longest_gap.empty())
    question.longest_gap = TRY(parse_duration("--longest-gap", flags.longest_gap));
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
  return finish(context, flags.output,
                flags.output.json()                   ? energy::report_json(report)
                : flags.output.format == "prometheus" ? report_prometheus(report)
                : flags.output.svg()                  ? decide::energy_svg(report)
                                                      : report_text(report));
}

void add_inputs(CLI::App& command, AttributionFlags& flags) {
  takes(command, "--telemetry", needed(flags.question.telemetry), "--duration",
        preset(flags.duration), "--interval", preset(flags.interval), "--plan", flags.question.plan,
        "--state", flags.question.state, "--model", flags.question.model);
  flag(command, "--request-counts", flags.question.requests)->expected(1, 2);
  takes(command, "--batch-start", flags.batch_start, "--tenant", flags.tenants);
}

Command add_energy_attribute(CLI::App& energy) {
  auto [command, flags] = adding<AttributionFlags>(
      energy, "attribute", "Attribute energy to tenants, services, tasks and requests");
  add_inputs(*command, *flags);
  add_device_flags(*command, flags->device);
  takes(*command, "--rule",
        one_of(flags->rule, {"auto", "model", "activity", "slice", "kepler", "equal"}), "--idle",
        one_of(flags->idle, {"slice", "equal", "unassigned"}), "--idle-w",
        limited(flags->idle_w, 0, energy::kMaxBoardWatts), "--longest-gap", flags->longest_gap,
        "--compare", flags->question.compare, "--carbon", limited(flags->carbon, 0, 1e5), "--price",
        limited(flags->price, 0, 1e9));
  return runs(
      command, flags, run_energy_attribute, {"text", "json", "prometheus", "svg"},
      "partita energy attribute --telemetry log.jsonl --plan plan.json --carbon 380 --price 0.30\n"
      "partita energy attribute --telemetry log.jsonl --compare --format svg -o joules.svg\n"
      "partita energy attribute --telemetry live --duration 5m --plan state/assignment.json");
}

}  // namespace

Command add_observe(CLI::App& app) {
  auto [command, flags] = adding<ObserveFlags>(
      app, "observe",
      "Watch power, heat, clocks and activity of this node's GPUs and their instances");
  add_device_flags(*command, flags->device);
  takes(*command, "--watch", flags->watch, "--record", flags->record, "--replay", flags->replay,
        "--interval", preset(flags->interval), "--count", limited(flags->count, 1, 1e9));
  one_of(command->add_option("--format", flags->format,
                             "Form of the result: tables or a picture, a line of JSON per sample, "
                             "or metrics for Prometheus"),
         {"text", "json", "prometheus"})
      ->default_str(flags->format);
  return runs(command, flags, run_observe,
              "partita observe\n"
              "partita observe --watch --driver sim --machine machine.yaml\n"
              "partita observe --record day.jsonl --interval 1s\n"
              "partita observe --replay day.jsonl");
}

std::string tokens_table(const std::vector<TokenRow>& rows) {
  if (rows.empty()) return {};
  Table table = headed(
      "LANGUAGE MODEL|TOKENS IN /s|OUT /s|IN, mean|OUT, mean|TTFT p50 ms|p99|TPOT p50 ms|p99|KV "
      "CACHE");
  const auto shown = [](std::optional<double> value) {
    return value ? number_text(*value) : std::string("-");
  };
  for (const auto& [service, t] : rows)
    table.rows.push_back(
        {service, number_text(t.in_per_s), number_text(t.out_per_s), number_text(t.mean_in),
         number_text(t.mean_out), shown(t.ttft_p50_ms), shown(t.ttft_p99_ms), shown(t.tpot_p50_ms),
         shown(t.tpot_p99_ms),
         t.kv_cache_usage ? fmt::format("{:.0f} %", 100 * *t.kv_cache_usage) : std::string("-")});
  return "\n" + to_string(table);
}

std::string host_line(const control::HostNow& host) {
  std::string line;
  const auto add = [&](const char* what, const std::optional<double>& watts) {
    if (watts)
      line += fmt::format("{}{} {} W", line.empty() ? "" : ", ", what, number_text(*watts));
  };
  add("CPUs", host.cpu_w);
  add("memory", host.dram_w);
  add("with GPUs", host.node_w);
  add("platform", host.psys_w);
  return line.empty() ? line : line + "\n";
}

void TopPicture::know_node(const device::NodeState& state, const std::string& more) {
  long instances = 0, busy = 0;
  for (const device::GpuState& gpu : state.gpus) {
    instances += std::ssize(gpu.instances);
    busy += std::ranges::count_if(gpu.instances, &device::Instance::busy);
  }
  head_ = fmt::format("{}, {}, {} held by processes{}", count_text(std::ssize(state.gpus), "GPU"),
                      count_text(instances, "instance"), busy, more);
}

void TopPicture::add(const telemetry::Sample& sample, const device::Occupants& occupants) {
  view_.know(notes_of(sample, occupants));
  view_.add(sample);
}

std::string TopPicture::frame(int height) const {
  const std::string above = fit(head_, std::min(columns(head_), context_.width)) + "\n" + host_ +
                            faults_ + "\n" + services_ + (services_.empty() ? "" : "\n");
  const int lines = static_cast<int>(std::ranges::count(above, '\n'));
  return above + view_.frame({.colour = context_.colour,
                              .width = context_.width,
                              .height = height > 0 ? std::max(3, height - lines) : 0});
}

// Who runs where, and what it takes: the board's power above the least that was seen of it, split
// by compute slices times activity; the least itself by compute slices.
std::map<std::string, observe::InstanceNote> TopPicture::notes_of(
    const telemetry::Sample& sample, const device::Occupants& occupants) {
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

std::vector<double> TopPicture::split(const telemetry::GpuSample& gpu) {
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

Command add_top(CLI::App& app) {
  auto [command, flags] = adding<TopFlags>(
      app, "top",
      "Watch this node: what runs on each instance, how busy it is, watts, the gateway");
  add_device_flags(*command, flags->device);
  takes(*command, "--state-dir", flags->state_directory, "--interval", preset(flags->interval),
        "--count", limited(flags->count, 1, 1e9), "--powercap", preset(flags->powercap));
  return runs(command, flags, run_top,
              "partita top\n"
              "partita top --driver sim --machine machine.yaml --count 3");
}

Command add_energy(CLI::App& app) {
  CLI::App* energy = app.add_subcommand(
      "energy", "Account for energy: what accesses cost, and what each tenant of a GPU used");
  energy->footer("partita energy attribute --telemetry log.jsonl --plan plan.json --compare");
  std::vector<Command> commands = add_elsewhere(*energy, "energy");
  commands.push_back(add_energy_attribute(*energy));
  return group_of(energy, std::move(commands));
}

}  // namespace partita::cli
