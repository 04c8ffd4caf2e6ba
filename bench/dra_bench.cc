// Claims for MIG instances on a node, as Kubernetes' scheduler places them: the first device of the
// profile whose counters are there. How long do claims wait where the devices are published in the
// order that keeps the largest shapes free, and where they come by GPU, profile and start, as
// NVIDIA's driver publishes them? Eight A100; arrivals are Poisson, lengths exponential with
// mean 1; who waits is tried in order of arrival and keeps nobody else waiting. Argument: claims of
// a cell (12,000).
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "base/rng.h"
#include "fleet/dra/pool.h"
#include "hw/catalogue.h"

namespace partita::dra {
namespace {

struct Kind {
  std::string profile;
  double share;
};

class Cluster {
 public:
  Cluster(const hw::GpuModel& model, int gpus, bool ours) : ours_(ours) {
    for (int i = 0; i < gpus; ++i) {
      PoolGpu gpu{{}, {std::shared_ptr<void>(), &model}};
      gpu.gpu.index = i;
      gpus_.push_back(gpu);
    }
    publish();
    by_start_ = pool_.devices;
    std::ranges::sort(by_start_, {}, [](const PoolDevice& device) {
      return std::tuple(device.gpu, device.place.profile, device.place.start);
    });
    left_ = pool_.counters;
  }
  // The device that the scheduler takes; -1: it waits.
  int take(int profile) {
    const std::vector<PoolDevice>& order = ours_ ? pool_.devices : by_start_;
    const auto found = std::ranges::find_if(order, [&](const PoolDevice& device) {
      return device.place.profile == profile && std::ranges::all_of(device.takes, [&](auto& use) {
               return left_[device.gpu][use.first] >= use.second;
             });
    });
    if (found == order.end()) return -1;
    taken_.push_back(*found);
    account(*found, -1);
    gpus_[found->gpu].claimed.push_back(found->place);
    publish();
    return static_cast<int>(taken_.size()) - 1;
  }
  void give_back(int number) {
    const PoolDevice device = taken_[static_cast<std::size_t>(number)];
    account(device, 1);
    std::vector<hw::PlacedProfile>& claimed = gpus_[device.gpu].claimed;
    claimed.erase(std::ranges::find(claimed, device.place));
    publish();
  }

 private:
  void account(const PoolDevice& device, int sign) {
    for (const auto& [name, count] : device.takes) left_[device.gpu][name] += sign * count;
  }
  void publish() {
    if (ours_ || pool_.devices.empty()) pool_ = pool_of(gpus_);
  }

  bool ours_;
  std::vector<PoolGpu> gpus_;
  Pool pool_;
  std::vector<PoolDevice> by_start_, taken_;
  std::vector<Counters> left_;
};

struct Waiting {
  double since = 0;
  int profile = 0;
  double length = 0;
};

// The mean wait, in lengths of a job.
double wait_of(const hw::GpuModel& model, const std::vector<Kind>& mix, double load, bool ours,
               int claims, std::uint64_t seed) {
  constexpr int kGpus = 8;
  double slices = 0;
  for (const Kind& kind : mix)
    slices += kind.share *
              model.profiles[static_cast<std::size_t>(model.profile_index(kind.profile))].gpcs;
  const double rate = load * kGpus * model.compute_slices / slices;
  Rng rng(seed);
  Cluster cluster(model, kGpus, ours);
  using End = std::pair<double, int>;  // when, which of the cluster's
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  std::vector<Waiting> waiting;  // in order of arrival; none keeps another one waiting
  double now = 0, arrival = rng.exponential() / rate, waited = 0;
  for (int come = 0; come < claims || !waiting.empty();) {
    const bool comes = come < claims && (ends.empty() || arrival <= ends.top().first);
    now = comes ? arrival : ends.top().first;
    if (comes) {
      double draw = rng.uniform();
      std::size_t kind = 0;
      while (kind + 1 < mix.size() && draw >= mix[kind].share) draw -= mix[kind++].share;
      waiting.push_back({now, model.profile_index(mix[kind].profile), rng.exponential()});
      arrival += rng.exponential() / rate;
      ++come;
    } else {
      cluster.give_back(ends.top().second);
      ends.pop();
    }
    std::erase_if(waiting, [&](const Waiting& claim) {
      const int taken = cluster.take(claim.profile);
      if (taken < 0) return false;
      waited += now - claim.since;
      ends.emplace(now + claim.length, taken);
      return true;
    });
  }
  return waited / claims;
}

}  // namespace
}  // namespace partita::dra

int main(int argc, char** argv) {
  const int claims = argc > 1 ? std::atoi(argv[1]) : 12'000;
  const partita::hw::GpuModel& model = *partita::hw::builtin_catalogue().find("A100-40GB");
  using Mix = std::vector<partita::dra::Kind>;
  const std::vector<std::pair<std::string, Mix>> mixes = {
      {"1g and 4g, half each", {{"1g.5gb", .5}, {"4g.20gb", .5}}},
      {"even", {{"1g.5gb", .25}, {"2g.10gb", .25}, {"3g.20gb", .25}, {"4g.20gb", .25}}},
      {"small", {{"1g.5gb", .5}, {"2g.10gb", .5}}}};
  for (const auto& [name, mix] : mixes) {
    for (const double load : {.5, .6, .7}) {
      double theirs = 0, ours = 0;
      for (const std::uint64_t seed : {1, 2, 3}) {
        theirs += partita::dra::wait_of(model, mix, load, false, claims, seed) / 3;
        ours += partita::dra::wait_of(model, mix, load, true, claims, seed) / 3;
      }
      std::fputs(fmt::format("{:22} load {:.1f}: by start {:.4f}, by room {:.4f}, ratio {:.2f}\n",
                             name, load, theirs, ours, ours / theirs)
                     .c_str(),
                 stdout);
      std::fflush(stdout);
    }
  }
  return 0;
}
