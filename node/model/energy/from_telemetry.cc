#include "model/energy/from_telemetry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/append.h"

namespace partita::energy {
namespace {

using telemetry::Activity;
using telemetry::GpuSample;
using telemetry::InstanceSample;
using telemetry::Log;

constexpr double kQuiet = 0.01;       // activity of an instance that does nothing
constexpr double kQuietError = 0.02;  // of idle power that was seen
constexpr double kLowestError = 0.2;  // of the lowest power, where nothing was quiet
constexpr double kLineError = 0.1;    // of idle power by a line, at least
constexpr std::size_t kLeastPoints = 10;
constexpr double kLeastSpread = 0.2;     // between the least and the most busy
constexpr double kMostIdleError = 0.15;  // of the mean power
constexpr double kLeastWatts = 1e-9;
constexpr double kMostUntold = 0.05;  // of an instance's busy time without a model's counters
constexpr const char* kIdle = "idle";

struct Component {
  const char* name;
  std::optional<double> Activity::*value;
  bool memory = false;  // a share of the memory's most, not of the SMs'
};
constexpr std::array<Component, 9> kComponents{{{"graphics_engine", &Activity::graphics_engine},
                                                {"sm", &Activity::sm},
                                                {"occupancy", &Activity::occupancy},
                                                {"tensor", &Activity::tensor},
                                                {"fp64", &Activity::fp64},
                                                {"fp32", &Activity::fp32},
                                                {"fp16", &Activity::fp16},
                                                {"integer", &Activity::integer},
                                                {"dram", &Activity::dram, true}}};

const Component* component_named(const std::string& name) {
  for (const Component& component : kComponents)
    if (name == component.name) return &component;
  return nullptr;
}

// How an instance, or a GPU without instances, did in an interval.
struct Doing {
  const Activity* activity = nullptr;
  double compute = 0, memory = 0;  // shares of the board
  int slices = 1;
};

// What is known of the boards, from the catalogue and from the log.
class Lens {
 public:
  Lens(const Log& log, const LedgerOptions& options) : options_(options) {
    for (const telemetry::Sample& sample : log)
      for (const GpuSample& gpu : sample.gpus) {
        if (gpu.sm_clock) fastest_[gpu.model] = std::max(fastest_[gpu.model], gpu.sm_clock->value);
        for (const InstanceSample& instance : gpu.instances) look(gpu, instance);
      }
  }

  // The SMs' clock as a share of the fastest that the log has: what is busy at half the clock does,
  // and draws, half as much. 1 where nothing tells it.
  double tempo(const GpuSample& gpu) const {
    const auto fastest = fastest_.find(gpu.model);
    if (!gpu.sm_clock || fastest == fastest_.end() || !(fastest->second > 0)) return 1;
    return gpu.sm_clock->value / fastest->second;
  }

  Doing doing(const GpuSample& gpu, const InstanceSample& instance) const {
    const BoardFacts facts = facts_of(gpu);
    Doing out{&instance.activity, 0, 0, std::max(1, instance.compute_slices)};
    int compute = 0, memory = 0;
    for (const InstanceSample& other : gpu.instances) {
      compute += other.compute_slices;
      memory += other.memory_slices;
    }
    // More than the board has would be a fault of the log: shares add up to at most 1.
    out.compute =
        static_cast<double>(instance.compute_slices) / std::max({1, facts.compute_slices, compute});
    out.memory =
        static_cast<double>(instance.memory_slices) / std::max({1, facts.memory_slices, memory});
    return out;
  }
  Doing doing(const GpuSample& gpu) const { return {&gpu.activity, 1, 1, 1}; }

  // GR_ENGINE_ACTIVE is, on Ampere, that of one GPC over the GPCs of the instance: a busy 2g says
  // 50 % and a busy 3g 33 %.
  double engine(const GpuSample& gpu, const Doing& doing) const {
    const double read = doing.activity->graphics_engine.value_or(0);
    return one_gpc(gpu) ? std::min(1.0, read * doing.slices) : read;
  }

  // How busy, of itself; nothing where the board does not say.
  std::optional<double> duty(const GpuSample& gpu, const Doing& doing) const {
    if (doing.activity->sm) return *doing.activity->sm;
    if (doing.activity->graphics_engine) return engine(gpu, doing);
    return std::nullopt;
  }

  // A component's activity as a share of the board's most.
  double feature(const GpuSample& gpu, const Doing& doing, const Component& component,
                 double busy) const {
    std::optional<double> value = (*doing.activity).*component.value;
    if (component.value == &Activity::graphics_engine) value = engine(gpu, doing);
    if (component.value == &Activity::sm && !value) value = busy;
    return value.value_or(0) * (component.memory ? doing.memory : doing.compute * tempo(gpu));
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> out;
    for (const std::string& model : corrected_)
      if (!beyond_.contains(model))
        out.push_back(
            fmt::format("{}: GR_ENGINE_ACTIVE counts one GPC of an instance there and was "
                        "multiplied by its compute slices",
                        model));
    return out;
  }

 private:
  BoardFacts facts_of(const GpuSample& gpu) const {
    const auto found = options_.facts.find(gpu.model);
    BoardFacts facts = found == options_.facts.end() ? BoardFacts{} : found->second;
    if (gpu.compute_slices > 0) facts.compute_slices = gpu.compute_slices;
    // One more memory slice than compute slices on boards with seven.
    if (facts.memory_slices == 0)
      facts.memory_slices = facts.compute_slices == 7 ? 8 : facts.compute_slices;
    return facts;
  }
  bool one_gpc(const GpuSample& gpu) const {
    return facts_of(gpu).ampere && !beyond_.contains(gpu.model);
  }
  // A reading that one GPC alone cannot give: that driver counts otherwise.
  void look(const GpuSample& gpu, const InstanceSample& instance) {
    if (!facts_of(gpu).ampere || instance.compute_slices < 2) return;
    if (!instance.activity.graphics_engine || instance.activity.sm) return;
    corrected_.insert(gpu.model);
    if (*instance.activity.graphics_engine > 1.1 / instance.compute_slices)
      beyond_.insert(gpu.model);
  }

  const LedgerOptions& options_;
  std::set<std::string> corrected_, beyond_;
  std::map<std::string, double> fastest_;  // MHz, by GPU model
};

class Builder {
 public:
  Builder(const Log& log, const Tenancy& tenancy, const LedgerOptions& options)
      : log_(log), options_(options), lens_(log, options), finder_(tenancy) {}

  void add(const Board& board);
  TelemetryLedger take();

 private:
  void add_uses(const Board& board, const Interval& interval, BoardInterval& out);
  InstanceUse use_of(const GpuSample& gpu, const Doing& doing, double duty) const;
  int account_of(const Board& board, const InstanceSample* instance, const std::string& service);
  void set_idle(BoardLedger& board);
  void set_errors(BoardLedger& board) const;
  // Looks for components of the model that a busy instance does not tell.
  void look_for_untold(const GpuSample& gpu, const Doing& doing, const InstanceUse& use,
                       Seconds length);
  std::string model_lacks() const;

  struct Untold {
    double seconds = 0, busy_seconds = 0;
    std::set<std::string> components = {};
  };
  const Log& log_;
  const LedgerOptions& options_;
  const Lens lens_;
  TenantFinder finder_;
  TelemetryLedger out_;
  std::map<std::tuple<int, int, std::string, std::string>, int> accounts_;
  std::map<std::string, int> services_;
  std::map<int, Untold> untold_;  // by account
  std::set<std::string> notes_;
};

int Builder::account_of(const Board& board, const InstanceSample* instance,
                        const std::string& service) {
  const int gi = instance ? instance->gi_id : -1;
  const std::string device = instance ? instance->uuid : "";
  const int index = static_cast<int>(out_.ledger.boards.size());
  const auto [found, fresh] = accounts_.emplace(std::tuple(index, gi, device, service),
                                                static_cast<int>(out_.accounts.size()));
  if (!fresh) return found->second;
  AccountFacts facts{service,
                     !service.empty(),
                     board.index,
                     gi,
                     board.uuid,
                     device,
                     instance ? instance->profile : ""};
  if (!facts.known)
    facts.service = instance ? fmt::format("gpu {}, gi {} ({})", board.index, gi, facts.profile)
                             : fmt::format("gpu {}", board.index);
  const auto [tenant, added] =
      services_.emplace(facts.service, static_cast<int>(out_.services.size()));
  if (added) out_.services.push_back(facts.service);
  out_.ledger.accounts.push_back({index, tenant->second});
  out_.accounts.push_back(std::move(facts));
  return found->second;
}

// What a model expects above idle; without one, slices x activity.
InstanceUse Builder::use_of(const GpuSample& gpu, const Doing& doing, double duty) const {
  InstanceUse use;
  use.share = doing.compute;
  use.duty = duty;
  use.engine = doing.activity->graphics_engine.value_or(duty);
  use.watts = doing.compute * duty;
  use.error = kActivityError;
  if (!options_.model) return use;
  double watts = 0, variance = 0;
  for (const ComponentCost& cost : options_.model->components) {
    const Component* component = component_named(cost.name);
    if (component == nullptr) continue;
    const double feature = lens_.feature(gpu, doing, *component, duty);
    watts += cost.joules * feature;
    variance += std::pow(cost.standard_error * feature, 2);
  }
  use.watts = watts;
  use.error = watts > kLeastWatts ? std::sqrt(variance) / watts : 0;
  return use;
}

void Builder::look_for_untold(const GpuSample& gpu, const Doing& doing, const InstanceUse& use,
                              Seconds length) {
  if (!options_.model || use.duty <= kQuiet) return;
  Untold& untold = untold_[use.account];
  untold.busy_seconds += length.value;
  bool all = true;
  for (const ComponentCost& cost : options_.model->components) {
    const Component* component = component_named(cost.name);
    if (component == nullptr || cost.joules <= 0) continue;
    if ((*doing.activity).*component->value) continue;
    if (component->value == &Activity::sm && lens_.duty(gpu, doing)) continue;
    untold.components.insert(cost.name);
    all = false;
  }
  if (!all) untold.seconds += length.value;
}

std::string Builder::model_lacks() const {
  for (const auto& [account, untold] : untold_) {
    if (untold.seconds <= kMostUntold * untold.busy_seconds) continue;
    return fmt::format(
        "{} does not tell {}", out_.accounts[static_cast<std::size_t>(account)].service,
        joined(std::vector<std::string>(untold.components.begin(), untold.components.end()), ", "));
  }
  return {};
}

void Builder::add_uses(const Board& board, const Interval& interval, BoardInterval& out) {
  const GpuSample& gpu = log_[interval.sample].gpus[interval.gpu];
  std::vector<Doing> doings;
  for (const InstanceSample& instance : gpu.instances) doings.push_back(lens_.doing(gpu, instance));
  if (gpu.instances.empty() && gpu.compute_slices == 0) doings.push_back(lens_.doing(gpu));
  double known = 0, busy = 0;
  for (const Doing& doing : doings)
    if (const auto duty = lens_.duty(gpu, doing)) {
      known += doing.compute;
      busy += doing.compute * *duty;
    }
  const double usual = known > 0 ? busy / known : 1;
  for (std::size_t i = 0; i < doings.size(); ++i) {
    const InstanceSample* instance = gpu.instances.empty() ? nullptr : &gpu.instances[i];
    const auto duty = lens_.duty(gpu, doings[i]);
    if (!duty)
      notes_.insert(fmt::format("GPU {}: an instance does not say how busy it is: taken to be {}",
                                board.index, known > 0 ? "as busy as the others" : "busy"));
    const InstanceUse use = use_of(gpu, doings[i], duty.value_or(usual));
    double rest = 1;
    const auto book = [&](const std::string& service, double part) {
      InstanceUse one = use;
      one.account = account_of(board, instance, service);
      look_for_untold(gpu, doings[i], one, interval.length);
      one.share *= part;
      one.watts *= part;
      one.engine *= part;
      out.uses.push_back(one);
      rest -= part;
    };
    const Seconds end = interval.from + interval.length;
    if (instance) {
      for (const Occupied& who : finder_.on(gpu, *instance, interval.from, end))
        book(who.service, who.part);
    } else {
      for (const Occupied& who : finder_.on(gpu)) book(who.service, who.percent / 100);
      if (out.uses.size() > 1)
        notes_.insert(
            fmt::format("GPU {} has no instances: nothing tells the work of its services "
                        "apart but their shares",
                        board.index));
    }
    if (rest > 1e-9) book("", rest);
  }
}

// Power over the busy share of the board as a straight line: where it meets no work, and how sure
// that is. Nothing where too little was seen, the board was always as busy, or power does not grow.
std::optional<std::pair<Watts, Watts>> idle_by_line(const BoardLedger& board) {
  std::vector<std::pair<double, double>> points;  // busy share, watts
  double busy = 0, watts = 0;
  for (const BoardInterval& interval : board.intervals) {
    if (!interval.watched || interval.joules <= 0) continue;
    double share = 0;
    for (const InstanceUse& use : interval.uses) share += use.share * use.duty * interval.tempo;
    points.emplace_back(share, interval.joules / interval.length.value);
    busy += share;
    watts += points.back().second;
  }
  if (points.size() < kLeastPoints) return std::nullopt;
  const double spread = std::ranges::max(points).first - std::ranges::min(points).first;
  const auto n = static_cast<double>(points.size());
  busy /= n;
  watts /= n;
  double xx = 0, xy = 0, rest = 0;
  for (const auto& [x, y] : points) {
    xx += (x - busy) * (x - busy);
    xy += (x - busy) * (y - watts);
  }
  if (spread < kLeastSpread || !(xy > 0)) return std::nullopt;
  const double slope = xy / xx, idle = watts - slope * busy;
  for (const auto& [x, y] : points) rest += std::pow(y - idle - slope * x, 2);
  const double error = std::sqrt(rest / (n - 2) * (1 / n + busy * busy / xx));
  if (!(idle > 0) || error > kMostIdleError * watts) return std::nullopt;
  return std::pair(Watts{idle}, Watts{error});
}

// Mean power while nothing worked; else where a line through power and work says it is; else the
// lowest there was.
void Builder::set_idle(BoardLedger& board) {
  IdleSource source = IdleSource::given;
  if (options_.idle) {
    board.idle = *options_.idle;
  } else if (options_.model) {
    for (const ComponentCost& cost : options_.model->components)
      if (cost.name == kIdle && cost.joules > 0) {
        board.idle = {cost.joules};
        board.idle_error = {cost.standard_error};
        source = IdleSource::model;
      }
  }
  if (source == IdleSource::given && !options_.idle) {
    double joules = 0, seconds = 0, lowest = 0;
    for (const BoardInterval& interval : board.intervals) {
      if (!interval.watched || interval.joules <= 0) continue;
      const double watts = interval.joules / interval.length.value;
      lowest = lowest > 0 ? std::min(lowest, watts) : watts;
      if (!std::ranges::all_of(interval.uses,
                               [](const InstanceUse& use) { return use.duty <= kQuiet; }))
        continue;
      joules += interval.joules;
      seconds += interval.length.value;
    }
    source = seconds > 0 ? IdleSource::quiet : IdleSource::lowest;
    board.idle = {seconds > 0 ? joules / seconds : lowest};
    board.idle_error = board.idle * (seconds > 0 ? kQuietError : kLowestError);
    const auto line = seconds > 0 ? std::nullopt : idle_by_line(board);
    if (line && line->first < board.idle) {
      source = IdleSource::line;
      board.idle = line->first;
      board.idle_error = std::max(line->second, line->first * kLineError);
    }
  }
  out_.idle_sources.push_back(source);
}

// A model misses by a share of what a whole board would draw doing the same.
void Builder::set_errors(BoardLedger& board) const {
  if (!options_.model) return;
  for (BoardInterval& interval : board.intervals)
    for (InstanceUse& use : interval.uses) {
      const double whole = use.share * use.duty > 0 ? use.watts / (use.share * use.duty) : 0;
      if (whole <= kLeastWatts) continue;
      const double missed = options_.model->residual_scale * (1 + board.idle.value / whole);
      use.error = std::hypot(use.error, missed);
    }
}

void Builder::add(const Board& board) {
  BoardLedger ledger;
  for (const Interval& interval : board.intervals) {
    if (interval.source == MeterSource::nothing) continue;
    BoardInterval out{interval.joules, interval.length, !interval.gap, {}};
    out.tempo = lens_.tempo(log_[interval.sample].gpus[interval.gpu]);
    if (out.watched) add_uses(board, interval, out);
    ledger.intervals.push_back(std::move(out));
  }
  set_idle(ledger);
  set_errors(ledger);
  if (out_.idle_sources.back() == IdleSource::lowest && !ledger.intervals.empty())
    notes_.insert(
        fmt::format("GPU {} was never quiet: its lowest power, {:.0f} W, stands for idle "
                    "power, which is at most that; --idle-w or a model knows better",
                    board.index, ledger.idle.value));
  if (out_.idle_sources.back() == IdleSource::line)
    notes_.insert(
        fmt::format("GPU {} was never quiet: its idle power, {:.0f} W, is where a line through "
                    "power and work ends; --idle-w or a model knows better",
                    board.index, ledger.idle.value));
  out_.ledger.boards.push_back(std::move(ledger));
}

TelemetryLedger Builder::take() {
  out_.ledger.tenants = static_cast<int>(out_.services.size());
  for (const std::string& note : lens_.notes()) notes_.insert(note);
  for (const std::string& guess : finder_.guesses()) notes_.insert(guess);
  out_.model_lacks = model_lacks();
  out_.notes.assign(notes_.begin(), notes_.end());
  return std::move(out_);
}

// Rows for fit(): joules, seconds and component-seconds since the last row.
struct Window {
  double joules = 0, seconds = 0;
  std::vector<double> features = std::vector<double>(kComponents.size());
};

void add_window(const GpuSample& gpu, const Lens& lens, const Interval& interval, Window& window,
                std::vector<bool>& told) {
  window.joules += interval.joules;
  window.seconds += interval.length.value;
  std::vector<Doing> doings;
  for (const InstanceSample& instance : gpu.instances) doings.push_back(lens.doing(gpu, instance));
  if (doings.empty() && gpu.compute_slices == 0) doings.push_back(lens.doing(gpu));
  for (const Doing& doing : doings)
    for (std::size_t c = 0; c < kComponents.size(); ++c) {
      if (!((*doing.activity).*kComponents[c].value)) continue;
      const double feature = lens.feature(gpu, doing, kComponents[c], 0);
      window.features[c] += feature * interval.length.value;
      if (feature > 0) told[c] = true;
    }
}

}  // namespace

std::vector<std::string> telemetry_components() {
  std::vector<std::string> names{kIdle};
  for (const Component& component : kComponents) names.emplace_back(component.name);
  return names;
}

Result<void> check_telemetry_model(const std::string& file, const EnergyModel& model) {
  if (!model.watts)
    return bad_input(file,
                     "is fitted to energy and accesses; telemetry needs a model of power and "
                     "activity, as `partita energy fit --telemetry` makes it");
  const std::vector<std::string> names = telemetry_components();
  bool works = false;
  for (const ComponentCost& cost : model.components) {
    if (std::ranges::find(names, cost.name) == names.end())
      return bad_input(file, fmt::format("telemetry shows no component '{}', only {}", cost.name,
                                         joined(names, ", ")));
    works |= cost.name != kIdle && cost.joules > 0;
  }
  if (!works) return bad_input(file, "no component but idle draws power");
  return {};
}

const char* to_string(IdleSource source) {
  switch (source) {
    case IdleSource::given:
      return "given";
    case IdleSource::model:
      return "model";
    case IdleSource::quiet:
      return "quiet";
    case IdleSource::line:
      return "line";
    case IdleSource::lowest:
      return "lowest";
  }
  return "";
}

TelemetryLedger ledger_of(const Log& log, const std::vector<Board>& boards, const Tenancy& tenancy,
                          const LedgerOptions& options) {
  Builder builder(log, tenancy, options);
  for (const Board& board : boards) builder.add(board);
  return builder.take();
}

Result<CounterTable> counters_of(const std::string& file, const Log& log,
                                 const std::vector<Board>& boards, const LedgerOptions& options,
                                 Seconds length) {
  const Lens lens(log, options);
  std::vector<bool> told(kComponents.size());
  std::vector<std::pair<std::string, Window>> windows;
  for (const Board& board : boards) {
    Window window;
    for (const Interval& interval : board.intervals) {
      if (interval.source == MeterSource::nothing || interval.gap) {
        window = {};  // rows do not reach across what nobody saw
        continue;
      }
      add_window(log[interval.sample].gpus[interval.gpu], lens, interval, window, told);
      if (window.seconds < length.value) continue;
      if (window.joules > 0)
        windows.emplace_back(
            fmt::format("gpu {}, {:.3f} s", board.index, (interval.from + interval.length).value),
            window);
      window = {};
    }
  }
  CounterTable table;
  table.file = file;
  table.watts = true;
  table.components.push_back({kIdle, {kIdle}});
  for (std::size_t c = 0; c < kComponents.size(); ++c)
    if (told[c]) table.components.push_back({kComponents[c].name, {kComponents[c].name}});
  if (windows.empty() || table.components.size() == 1)
    return bad_input(file, "no board tells both its power and what its instances do");
  for (const auto& [name, window] : windows) {
    CounterRow row{.name = name,
                   .line = 0,
                   .measured = window.joules / window.seconds,
                   .accesses = {1},
                   .time_s = window.seconds,
                   .instructions = {}};
    for (std::size_t c = 0; c < kComponents.size(); ++c)
      if (told[c]) row.accesses.push_back(window.features[c] / window.seconds);
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace partita::energy
