#include "sim/colocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "sim/engine.h"

namespace partita::sim {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

enum KernelEvent : std::uint32_t { kLaunch = 1, kKernelEnd = 2, kRequestEnd = 3, kWait = 4 };
enum class State { launching, waiting, running };

// A kernel among others, as its profile has it.
struct Company {
  double computing = 1, reading = 1;  // times as long beside such neighbours on all other units
  double presses = 0;                 // on the memory, as they see it
  double gap_us = 0;                  // before it, alone
  double gap_per_unit_us = 0;         // added for each unit that others keep busy
};

Company company_of(const profile::KernelProfile& kernel, int units) {
  using profile::Neighbour;
  Company company;
  company.gap_us = kernel.gap_us;
  double gaps = 0, grown = 0;
  for (const auto& [neighbour, slower] : {std::pair{Neighbour::computing, &company.computing},
                                          std::pair{Neighbour::reading, &company.reading}}) {
    double count = 0, times = 0, presses = 0;
    for (const profile::BesideTime& one : kernel.beside) {
      if (one.neighbour != neighbour) continue;
      ++count;
      times += one.time_us / kernel.on(one.units);
      presses += one.presses;
      if (!one.gap_us) continue;
      ++gaps;
      grown += (*one.gap_us - kernel.gap_us) / (units - one.units);
    }
    if (count == 0) continue;
    *slower = times / count;
    company.presses += presses / count;
  }
  if (gaps > 0) company.gap_per_unit_us = grown / gaps;
  return company;
}

struct Worker {
  const profile::ModelKernels* model = nullptr;
  Rng rng{0};
  std::vector<double> needs;     // units per kernel
  std::vector<Company> company;  // per kernel
  double busy = 0;               // units, of the kernel that runs, in others' company
  State state = State::launching;
  std::size_t kernel = 0;
  double ready = 0;  // launching: when it may start
  std::optional<hw::UnitMask> granted;
  double left = 1;                   // running: share of the kernel, varied by `spread`
  double rate = 0;                   // of `left`, per microsecond
  double effective = 0;              // units of the mask, as an equal split leaves them
  double usable = 0;                 // of them, what the kernel can use
  double demand = 0;                 // of each unit
  std::vector<std::size_t> units;    // of the mask
  std::deque<hw::UnitMask> streams;  // most recent first; the first is that of the last kernel
  double started = 0;                // the request
  std::vector<double> latencies_ms;  // of measured requests
  long switches = 0, done = 0;       // while measured
};

double needed(const profile::KernelProfile& kernel) {
  const double all = kernel.time_us.back();
  const auto enough =
      std::ranges::find_if(kernel.time_us, [&](double time) { return time <= all; });
  return static_cast<double>(enough - kernel.time_us.begin() + 1);
}

class World {
 public:
  World(const hw::Topology& topology, const std::vector<profile::ModelKernels>& models,
        const MaskPolicy& policy, const ColocationOptions& options)
      : topology_(topology),
        policy_(policy),
        options_(options),
        running_(static_cast<std::size_t>(topology.units())),
        demand_(running_.size()) {
    for (int c = 0; c < topology.clusters(); ++c)
      cluster_of_.insert(cluster_of_.end(),
                         static_cast<std::size_t>(topology.units_in[static_cast<std::size_t>(c)]),
                         static_cast<std::size_t>(c));
    share_of_.resize(static_cast<std::size_t>(topology.clusters()));
    for (std::size_t w = 0; w < models.size(); ++w) {
      Worker worker;
      worker.model = &models[w];
      worker.rng = component_rng(options.seed, fmt::format("worker {}", w));
      for (const auto& kernel : models[w].kernels) {
        worker.needs.push_back(needed(kernel));
        worker.company.push_back(company_of(kernel, topology.units()));
      }
      // Workers do not start in step.
      worker.started = worker.ready = worker.rng.uniform() * models[w].time_us(topology.units());
      workers_.push_back(std::move(worker));
    }
    begin_ = options.warmup_s * 1e6;
    end_ = begin_ + options.duration_s * 1e6;
  }

  Result<ColocationReport> run() {
    while (now_ < end_) {
      if (auto started = start_ready(); !started) return failed(started.error());
      set_rates();
      double next = end_;
      for (const Worker& worker : workers_) next = std::min(next, event_of(worker));
      if (++events_ > kMaxKernelEvents)
        return tl::unexpected<Error>(Error{ErrorCode::limit, "too many events", "simulation"});
      advance(next);
      for (std::size_t w = 0; w < workers_.size(); ++w)
        if (workers_[w].state == State::running && workers_[w].left <= 1e-12) end_kernel(w);
    }
    return report();
  }

 private:
  double event_of(const Worker& worker) const {
    if (worker.state == State::running) return now_ + worker.left / worker.rate;
    if (worker.state == State::launching && worker.ready > now_) return worker.ready;
    return kNever;
  }

  void log(KernelEvent kind, std::size_t w, std::int64_t count) {
    log_.record(std::llround(now_ * 1000), kind, static_cast<std::uint32_t>(w), count);
  }

  bool measured() const { return now_ > begin_; }

  // Those that waited come first, in the order in which they began to, then those that are ready.
  Result<void> start_ready() {
    for (std::size_t i = 0; i < waiting_.size();) {
      if (auto asked = ask(waiting_[i]); !asked) return failed(asked.error());
      if (workers_[waiting_[i]].state == State::waiting) {
        ++i;
      } else {
        waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      Worker& worker = workers_[w];
      if (worker.state != State::launching || worker.ready > now_) continue;
      if (worker.granted) {
        begin_kernel(w);
        continue;
      }
      if (auto asked = ask(w); !asked) return failed(asked.error());
      if (worker.state != State::waiting) continue;
      waiting_.push_back(w);
      ++waits_;
      log(kWait, w, static_cast<std::int64_t>(worker.kernel));
    }
    if (waiting_.size() == workers_.size())
      return bad_input("policy", "lets every worker wait while nothing runs");
    return {};
  }

  // Asks for the mask of the worker's next kernel. Its units count as running from here on, so that
  // nobody is promised them twice.
  Result<void> ask(std::size_t w) {
    Worker& worker = workers_[w];
    const auto mask = policy_(w, worker.kernel, running_);
    worker.state = mask ? State::launching : State::waiting;
    if (!mask) return {};
    worker.units.clear();
    for (std::size_t unit = 0; unit < running_.size(); ++unit)
      if ((*mask)[unit]) worker.units.push_back(unit);
    if (worker.units.empty() || worker.units.size() != mask->count())
      return bad_input("policy", "gives an empty mask or units that the GPU does not have");
    if (std::ranges::count(hw::units_per_die(topology_, *mask), 0) > 0)
      return bad_input("policy", "gives a mask without units of some die, which runs unmasked");
    for (const std::size_t unit : worker.units) ++running_[unit];
    worker.granted = *mask;
    worker.ready = now_ + options_.launch_us + cost_of(worker, *mask);
    if (worker.ready <= now_) begin_kernel(w);
    return {};
  }

  // What changing to that mask costs; the worker's streams are as after the change.
  double cost_of(Worker& worker, const hw::UnitMask& mask) {
    auto& streams = worker.streams;
    if (!streams.empty() && streams.front() == mask) return 0;
    double cost = streams.empty() ? 0 : options_.switch_us;
    if (!streams.empty() && measured()) ++worker.switches;
    if (const auto have = std::ranges::find(streams, mask); have != streams.end()) {
      streams.erase(have);
    } else {
      cost += options_.mask_us;
      if (std::ssize(streams) == options_.streams) streams.pop_back();
    }
    streams.push_front(mask);
    return cost;
  }

  void begin_kernel(std::size_t w) {
    Worker& worker = workers_[w];
    worker.state = State::running;
    worker.granted.reset();
    worker.left = 1 + options_.spread * (2 * worker.rng.uniform() - 1);
    worker.effective = effective(worker, [](std::size_t) { return 1.0; });
    worker.usable = std::min(worker.effective, worker.needs[worker.kernel]);
    worker.demand = worker.usable / static_cast<double>(worker.units.size());
    for (const std::size_t unit : worker.units) demand_[unit] += worker.demand;
    log(kLaunch, w, static_cast<std::int64_t>(worker.kernel));
  }

  void end_kernel(std::size_t w) {
    Worker& worker = workers_[w];
    for (const std::size_t unit : worker.units) {
      // Exactly nothing where nobody is left: sums of shares would leave rounding behind.
      demand_[unit] = --running_[unit] == 0 ? 0 : demand_[unit] - worker.demand;
    }
    log(kKernelEnd, w, static_cast<std::int64_t>(worker.kernel));
    worker.state = State::launching;
    const bool last = ++worker.kernel == worker.model->kernels.size();
    if (last) worker.kernel = 0;
    const Company& next = worker.company[worker.kernel];
    const double gap = next.gap_us + next.gap_per_unit_us * (busy_ - worker.busy);
    worker.ready = now_ + std::max(0.0, gap);
    if (!last) return;
    if (measured()) {
      worker.latencies_ms.push_back((now_ - worker.started) / 1000);
      ++worker.done;
    }
    worker.started = now_;
    log(kRequestEnd, w, worker.done);
  }

  void set_rates() {
    busy_ = pressed_ = 0;
    for (Worker& worker : workers_) {
      worker.busy = 0;
      if (worker.state != State::running) continue;
      for (const std::size_t unit : worker.units)
        worker.busy += worker.demand / std::max(1.0, demand_[unit]);
      busy_ += worker.busy;
      pressed_ += worker.busy * worker.company[worker.kernel].presses;
    }
    for (Worker& worker : workers_)
      if (worker.state == State::running) worker.rate = rate_of(worker);
  }

  // Clusters of the mask x the least of their sums of `share(unit)`.
  template <class Share>
  double effective(const Worker& worker, Share share) {
    std::ranges::fill(share_of_, 0.0);
    for (const std::size_t unit : worker.units) share_of_[cluster_of_[unit]] += share(unit);
    double clusters = 0, least = kNever;
    for (const double sum : share_of_) {
      if (sum == 0) continue;
      ++clusters;
      least = std::min(least, sum);
    }
    return clusters * least;
  }

  double rate_of(const Worker& worker) {
    const double served =
        effective(worker, [&](std::size_t unit) { return 1 / std::max(1.0, demand_[unit]); });
    double others = 0;
    for (const std::size_t unit : worker.units) others += demand_[unit] - worker.demand;
    const auto units = static_cast<double>(worker.units.size());
    const double contention = 1 + options_.gamma * std::max(0.0, others) / units;
    const auto& kernel = worker.model->kernels[worker.kernel];
    return 1 / (time_on(kernel, worker.usable * (served / worker.effective)) * contention *
                among_others(worker));
  }

  // Times as long for what others do on the units that the kernel does not use.
  double among_others(const Worker& worker) const {
    const Company& mine = worker.company[worker.kernel];
    const double left = static_cast<double>(running_.size()) - worker.busy;
    const double busy = busy_ - worker.busy;
    const double pressed = pressed_ - worker.busy * mine.presses;
    if (left < 1e-9 || busy < 1e-9) return 1;
    return 1 + (busy * (mine.computing - 1) + pressed * (mine.reading - mine.computing)) / left;
  }

  void advance(double to) {
    const double step = to - now_;
    const double counted = std::max(0.0, to - std::max(now_, begin_));
    busy_us_ += busy_ * counted;
    for (Worker& worker : workers_) {
      if (worker.state != State::running) continue;
      // The one whose end this is ends, whatever rounding says.
      const bool last = event_of(worker) <= to;
      worker.left = last ? 0 : worker.left - step * worker.rate;
    }
    now_ = to;
  }

  ColocationReport report() {
    ColocationReport out;
    long requests = 0;
    for (Worker& worker : workers_) {
      WorkerReport one;
      one.name = worker.model->model;
      one.requests = worker.done;
      one.rps = static_cast<double>(worker.done) / options_.duration_s;
      std::ranges::sort(worker.latencies_ms);
      const std::size_t n = worker.latencies_ms.size();
      for (const double latency : worker.latencies_ms)
        one.mean_ms += latency / static_cast<double>(n);
      if (n > 0) one.p95_ms = worker.latencies_ms[(95 * n + 99) / 100 - 1];
      if (n > 0) one.switches = static_cast<double>(worker.switches) / static_cast<double>(n);
      out.rps += one.rps;
      requests += one.requests;
      out.workers.push_back(std::move(one));
    }
    out.busy_units = busy_us_ / (end_ - begin_);
    out.energy_j = options_.static_w * options_.duration_s + options_.unit_w * busy_us_ / 1e6;
    if (requests > 0) out.joules_each = out.energy_j / static_cast<double>(requests);
    out.waits = waits_;
    out.events = events_;
    out.log_hash = log_.hash();
    return out;
  }

  const hw::Topology& topology_;
  const MaskPolicy& policy_;
  const ColocationOptions& options_;
  std::vector<Worker> workers_;
  std::vector<std::size_t> waiting_;     // workers, in the order in which they began to wait
  std::vector<int> running_;             // kernels per unit, those about to start too
  std::vector<double> demand_;           // per unit
  std::vector<std::size_t> cluster_of_;  // per unit
  std::vector<double> share_of_;         // per cluster, of the kernel looked at
  double now_ = 0, begin_ = 0, end_ = 0;
  double busy_ = 0, busy_us_ = 0;  // units, and their integral while measured
  double pressed_ = 0;             // busy units by how hard their kernels press on the memory
  long waits_ = 0, events_ = 0;
  EventLog log_;
};

}  // namespace

double time_on(const profile::KernelProfile& kernel, double units) {
  if (units <= 1) return kernel.time_us.front() / units;
  const auto below = static_cast<std::size_t>(units);
  if (below >= kernel.time_us.size()) return kernel.time_us.back();
  const double more = units - static_cast<double>(below);
  return 1 / ((1 - more) / kernel.time_us[below - 1] + more / kernel.time_us[below]);
}

Result<ColocationReport> simulate_colocation(const hw::Topology& topology,
                                             const std::vector<profile::ModelKernels>& workers,
                                             const MaskPolicy& policy,
                                             const ColocationOptions& options) {
  if (workers.empty()) return bad_input("workers", "none");
  for (const profile::ModelKernels& worker : workers) {
    if (worker.kernels.empty()) return bad_input(worker.model, "no kernels");
    if (worker.units != topology.units())
      return bad_input(worker.model, fmt::format("measured on {} units, {} has {}", worker.units,
                                                 topology.name, topology.units()));
  }
  return World(topology, workers, policy, options).run();
}

}  // namespace partita::sim
