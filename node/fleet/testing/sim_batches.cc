#include "fleet/testing/sim_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "hw/catalogue.h"
#include "hw/layout.h"
#include "queue/host/testing/test_world.h"
#include "queue/store.h"

namespace partita::fleet {
namespace {

using queue::Nanos;
using queue::Place;

constexpr Nanos kNanosPerMilli = 1'000'000;
constexpr double kJobEveryMs = 1'500'000;
constexpr double kMostJobS = 1500, kLeastJobS = 60;
constexpr std::int64_t kLookMs = 10'000;    // at what others have, as an agent's queue does
constexpr std::int64_t kBeginsMs = 60'000;  // where there is room: a look, and calls of the driver
constexpr int kMostCalls = 16;              // of the driver, in a turn

const hw::GpuModel& model_of(const std::string& name) {
  return **hw::builtin_catalogue().get(name);
}

const std::string& whole(const hw::GpuModel& model) {
  return std::ranges::max_element(model.profiles, {}, &hw::MigProfile::gpcs)->name;
}

// What is not the queue's: instances of services, and those of its GPUs that are lost.
std::vector<Place> others_of(const NodeRecord& node, const queue::Config& queue) {
  std::vector<Place> all;
  const auto add = [&](int gpu, const hw::Placement& at) {
    Place place;
    static_cast<hw::Placement&>(place) = at;
    place.gpu = gpu;
    all.push_back(std::move(place));
  };
  for (const int gpu : queue.indices) {
    const auto is = std::ranges::find(node.gpus, gpu, &NodeGpu::index);
    if (is == node.gpus.end() || !is->unusable.empty()) add(gpu, {whole(queue.models.front()), 0});
  }
  for (const plan::PlannedGpu& gpu : node.runs)
    for (const plan::PlannedInstance& one : gpu.instances) add(gpu.index, one);
  return all;
}

std::vector<hw::PlacedProfile> on_gpu(const hw::GpuModel& model, const std::vector<Place>& places,
                                      int gpu) {
  std::vector<hw::PlacedProfile> all;
  for (const Place& one : places)
    if (one.gpu == gpu) all.push_back({model.profile_index(one.profile), one.start});
  return all;
}

// Whether an instance of the profile fits beside these, by trying every start.
bool fits(const NodeRecord& node, const std::vector<Place>& there, const std::string& profile) {
  for (const NodeGpu& gpu : node.gpus) {
    const hw::GpuModel& model = model_of(gpu.model);
    const int k = model.profile_index(profile);
    auto placed = on_gpu(model, there, gpu.index);
    placed.push_back({k, 0});
    for (const int start : model.profiles[static_cast<std::size_t>(k)].starts) {
      placed.back().start = start;
      if (hw::conflicts(model, placed).empty()) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::string> faults_of_owners(const NodeRecord& node,
                                          const std::vector<plan::PlannedGpu>& services) {
  std::vector<std::string> faults;
  for (const NodeGpu& gpu : node.gpus) {
    const hw::GpuModel& model = model_of(gpu.model);
    std::vector<hw::PlacedProfile> all;
    for (const hw::Placement& one : gpu.lent)
      all.push_back({model.profile_index(one.profile), one.start});
    if (!all.empty() && !gpu.unusable.empty())
      faults.push_back(fmt::format("GPU {} of {} is lost, and lent", gpu.index, node.node));
    for (const plan::PlannedGpu& planned : services)
      if (planned.index == gpu.index)
        for (const plan::PlannedInstance& one : planned.instances)
          all.push_back({model.profile_index(one.profile), one.start});
    if (!hw::conflicts(model, all).empty())
      faults.push_back(fmt::format("GPU {} of {} has a slice of two owners", gpu.index, node.node));
  }
  return faults;
}

struct SimBatches::Of {
  queue::test::World world;
  queue::MemoryStore store;
  queue::Config config;
  std::unique_ptr<queue::Host> host;
  Rng rng;
  std::vector<std::string> faults;
  std::int64_t next_job_ms = 0, looked_ms = -kLookMs, could_begin_ms = 0;
  Nanos wake = 0;
  long submitted = 0;

  Of(const NodeRecord& node, std::uint64_t seed)
      : world(model_of(node.gpus.front().model)),
        config(queue::test::config_on(world.model, static_cast<int>(node.gpus.size()))),
        rng(seed) {
    config.planning.appends = 500;
    config.planning.scenarios = config.planning.draws = config.planning.arrivals = 0;
    world.factor = [this](const queue::Task&) { return 0.7 + 0.6 * rng.uniform(); };
    next_job_ms = later(0);
  }

  std::int64_t later(std::int64_t now_ms) {
    return now_ms + static_cast<std::int64_t>(rng.exponential() * kJobEveryMs);
  }
  void at(std::int64_t now_ms) {
    world.now = std::max(world.now, queue::test::kEpoch + now_ms * kNanosPerMilli);
  }
  void open(const NodeRecord& node) {
    world.others = others_of(node, config);
    auto opened = queue::Host::open(config, {store, world, world}, world.now);
    CHECK(opened.has_value());
    host = *std::move(opened);
    wake = 0;
  }

  void come(std::int64_t now_ms) {
    next_job_ms = later(now_ms);
    static const std::vector<std::string> kProfiles{"1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"};
    const std::size_t kind = rng.below(kProfiles.size());
    queue::Spec spec{.name = fmt::format("job{}", kind),
                     .command = "job",
                     .user = fmt::format("u{}", rng.below(3))};
    spec.count = 1 + static_cast<int>(rng.below(3));
    spec.priority = static_cast<int>(rng.below(3)) - 1;
    spec.retries = 20;  // GPUs and nodes are lost
    spec.profiles = {kProfiles[kind]};
    spec.times = {{0, kLeastJobS + (kMostJobS - kLeastJobS) * rng.uniform()}};
    const auto tasks = host->submit(spec, world.now);
    CHECK(tasks.has_value());
    submitted += static_cast<long>(tasks->size());
    wake = 0;
  }

  bool some_ended() const {
    return std::ranges::any_of(world.processes,
                               [&](const auto& one) { return one.second.ends <= world.now; });
  }

  // As far as the driver goes; what it refuses is asked for again.
  void call_driver() {
    for (int calls = 0; calls < kMostCalls; ++calls) {
      const auto call = host->next_call();
      if (!call) return;
      Result<std::string> answer = std::string();
      if (call->create) {
        answer = world.create(call->place);
        if (!answer) looked_ms = -kLookMs;  // something is there that it does not know of
      } else if (const auto done = world.destroy(call->place); !done) {
        answer = failed(done.error());
      }
      host->call_done(*call, answer, world.now);
      wake = host->turn(world.now).value_or(INT64_MAX);
    }
  }

  void look_at_waiting(const NodeRecord& node, std::int64_t now_ms, bool in_change) {
    std::vector<Place> taken = world.others;
    for (const auto& [key, one] : world.instances)
      taken.push_back({{one.first, key.second}, key.first, ""});
    bool room = false;
    struct Fits {
      bool alone = false, beside = false;
    };
    std::map<std::string, Fits> known;  // by profile
    for (const auto& [id, task] : host->queue().tasks()) {
      if (task.state != queue::State::waiting) continue;
      const std::string& profile = task.spec.profiles.front();
      const auto [its, fresh] = known.try_emplace(profile);
      if (fresh) its->second = {fits(node, world.others, profile), fits(node, taken, profile)};
      const bool could = its->second.alone;
      if (why_waiting(host->queue(), task, world.now).empty() != could)
        faults.push_back(fmt::format(
            "job {} of {} {}", id, node.node,
            could ? "is said to have no room, and has" : "has no room, and nobody says so"));
      room = room || its->second.beside;
    }
    const bool begins = !room || in_change || !world.processes.empty();
    if (begins || could_begin_ms == 0) could_begin_ms = begins ? 0 : now_ms;
    if (could_begin_ms == 0 || now_ms - could_begin_ms < kBeginsMs) return;
    faults.push_back(fmt::format("jobs of {} do not begin, and have room", node.node));
    could_begin_ms = 0;
  }

  // Whether the record is another.
  bool tell(NodeRecord& node) const {
    bool others = false;
    for (NodeGpu& gpu : node.gpus) {
      std::vector<hw::Placement> lent;
      for (const auto& [key, one] : world.instances)
        if (key.first == gpu.index) lent.push_back({one.first, key.second});
      others = others || lent != gpu.lent;
      gpu.lent = std::move(lent);
    }
    return others;
  }
};

SimBatches::SimBatches(const NodeRecord& node, std::uint64_t seed)
    : of_(std::make_unique<Of>(node, seed)) {}
SimBatches::~SimBatches() = default;

void SimBatches::agent_starts(std::int64_t now_ms, const NodeRecord& node) {
  of_->at(now_ms);
  of_->open(node);
}
void SimBatches::agent_ends() {
  of_->host.reset();
  of_->world.orphan();
}
void SimBatches::node_dies(std::int64_t now_ms, NodeRecord& node) {
  of_->at(now_ms);
  agent_ends();
  of_->world.reboot();
  of_->could_begin_ms = 0;  // it begins nothing while it is away
  of_->tell(node);
}
void SimBatches::loses_gpu(std::int64_t now_ms, NodeRecord& node, int gpu) {
  of_->at(now_ms);
  of_->world.lose(gpu);
  of_->tell(node);
}

bool SimBatches::turn(std::int64_t now_ms, NodeRecord& node, bool in_change) {
  of_->at(now_ms);
  if (now_ms >= of_->next_job_ms) of_->come(now_ms);
  if (of_->host->queue().tasks().empty() && of_->world.instances.empty()) return false;
  of_->world.others = others_of(node, of_->config);
  if (now_ms - of_->looked_ms >= kLookMs || of_->host->wants_look()) {
    of_->looked_ms = now_ms;
    of_->host->saw(of_->world.look());
    of_->wake = of_->host->turn(of_->world.now).value_or(INT64_MAX);
    of_->look_at_waiting(node, now_ms, in_change);
  } else if (of_->world.now >= of_->wake || of_->some_ended()) {
    of_->wake = of_->host->turn(of_->world.now).value_or(INT64_MAX);
  }
  if (!in_change) of_->call_driver();
  return of_->tell(node);
}

std::vector<std::string> SimBatches::take_faults() {
  std::vector<std::string> all = std::exchange(of_->faults, {});
  for (std::string& one : std::exchange(of_->world.faults, {})) all.push_back(std::move(one));
  return all;
}

long SimBatches::submitted() const { return of_->submitted; }
long SimBatches::done() const {
  long all = 0;
  for (const auto& [task, times] : of_->world.completed) all += times;
  return all;
}
long SimBatches::attempts() const { return std::ssize(of_->world.starts); }

}  // namespace partita::fleet
