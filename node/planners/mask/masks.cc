#include "planners/mask/masks.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/check.h"

namespace partita::planners::mask {
namespace {

struct Cluster {
  int index = 0, first = 0, size = 0;
  int running = 0;  // kernels, summed over its units
  int idle = 0;     // units
};

// All clusters, on the stack: a call allocates nothing.
struct Clusters {
  std::array<Cluster, hw::kMaxClusters> items;
  int count = 0;
  Cluster* begin() { return items.data(); }
  Cluster* end() { return items.data() + count; }
  Cluster& operator[](int i) { return items[static_cast<std::size_t>(i)]; }
};

// Insertion sort: a dozen clusters, mostly in order.
template <class Before>
void sort(Clusters& clusters, Before before) {
  for (int i = 1; i < clusters.count; ++i) {
    const Cluster one = clusters[i];
    int at = i;
    for (; at > 0 && before(one, clusters[at - 1]); --at) clusters[at] = clusters[at - 1];
    clusters[at] = one;
  }
}

int ceil_of(int a, int b) { return (a + b - 1) / b; }

class Allocation {
 public:
  Allocation(const hw::Topology& topology, const Busy& busy, const Request& request)
      : busy_(busy), request_(request) {
    CHECK(static_cast<int>(busy.size()) == topology.units() && request.units >= 1);
    int first = 0;
    for (const int size : topology.units_in) {
      if (size == 0) continue;  // smaller than an atom, see hw::in_atoms
      Cluster& one = clusters_[clusters_.count];
      one = {clusters_.count++, first, size, 0, 0};
      for (int unit = first; unit < first + size; ++unit) {
        one.running += at(unit);
        one.idle += at(unit) == 0;
      }
      first += size;
    }
    for (int from = 0; from < first; from += 64) {
      std::uint64_t bits = 0;
      for (int unit = from; unit < std::min(first, from + 64); ++unit)
        bits |= std::uint64_t{at(unit) == 0} << (unit - from);
      idle_[word_of(from)] = bits;
    }
  }

  Grant run(int dies) {
    wanted_ = std::max(request_.units, dies);
    dies > 1 ? share_over_dies() : by_policy();
    for (std::size_t word = granted_.size(); word-- > 0;)
      grant_.mask = (grant_.mask << 64) | hw::UnitMask(granted_[word]);
    return grant_;
  }

 private:
  // Units as bits of words: loops over idle ones take no branch per unit, which would be guessed
  // wrong half of the time.
  using Words = std::array<std::uint64_t, hw::kMaxUnits / 64>;
  static std::size_t word_of(int unit) { return static_cast<std::size_t>(unit) / 64; }
  static int bit_of(int unit) { return unit % 64; }

  int at(int unit) const { return busy_[static_cast<std::size_t>(unit)]; }

  void by_policy() {
    switch (request_.policy) {
      case Policy::packed:
        by_kernels();
        pack();
        break;
      case Policy::distributed:
        by_kernels();
        spread(clusters_.count);
        break;
      case Policy::conserved:
        by_kernels();
        spread(fewest_clusters());
        break;
      case Policy::balanced:
        by_idle();
        spread(balanced_clusters());
        break;
      case Policy::fair:
        by_idle();
        spread(fair_clusters(), false);
        fill();
        break;
      case Policy::krisp:
        by_kernels();
        as_printed();
        break;
    }
  }

  void by_kernels() {
    sort(clusters_, [](const Cluster& a, const Cluster& b) { return a.running < b.running; });
  }
  void by_idle() {
    sort(clusters_, [](const Cluster& a, const Cluster& b) {
      return a.idle != b.idle ? a.idle > b.idle : a.running < b.running;
    });
  }

  void give(int unit) {
    granted_[word_of(unit)] |= std::uint64_t{1} << bit_of(unit);
    ++grant_.granted;
    grant_.overlapped += at(unit) > 0;
  }

  bool free(int unit) const { return ((granted_[word_of(unit)] >> bit_of(unit)) & 1) == 0; }

  // The `count` lowest of the bits, which are as many at least.
  static std::uint64_t lowest(std::uint64_t bits, int count) {
    int more = std::popcount(bits) - count;
    if (more > count) {
      std::uint64_t kept = 0;
      for (; count > 0; --count, bits &= bits - 1) kept |= bits & (~bits + 1);
      return kept;
    }
    for (; more > 0; --more) bits ^= std::uint64_t{1} << (63 - std::countl_zero(bits));
    return bits;
  }

  // Up to `quota` idle units of a cluster, those with the least numbers; how many.
  int take_idle(const Cluster& cluster, int quota) {
    const int wanted = quota, end = cluster.first + cluster.size;
    for (int from = cluster.first; from < end && quota > 0;) {
      const int next = std::min(end, (from / 64 + 1) * 64);
      const std::uint64_t upper = ~std::uint64_t{0} << bit_of(from);
      const std::uint64_t lower = ~std::uint64_t{0} >> (63 - bit_of(next - 1));
      std::uint64_t bits = idle_[word_of(from)] & upper & lower;
      const int count = std::min(std::popcount(bits), quota);
      bits = lowest(bits, count);
      idle_[word_of(from)] ^= bits;
      granted_[word_of(from)] |= bits;
      quota -= count;
      from = next;
    }
    grant_.granted += wanted - quota;
    return wanted - quota;
  }

  // Up to `quota` busy units of a cluster, the least busy first, as far as the limit allows.
  void take_busy(const Cluster& cluster, int quota) {
    int level = 0;
    while (quota > 0 && grant_.overlapped < request_.overlap_limit) {
      level = next_level(cluster, level);
      if (level == 0) return;
      for (int unit = cluster.first; unit < cluster.first + cluster.size; ++unit) {
        if (quota == 0 || grant_.overlapped == request_.overlap_limit) return;
        if (at(unit) != level || !free(unit)) continue;
        give(unit);
        --quota;
      }
    }
  }

  void take(const Cluster& cluster, int quota) {
    const int idle = take_idle(cluster, quota);
    take_busy(cluster, quota - idle);
  }

  // The least number of kernels above `level` on a unit of the cluster; 0 when there is none.
  int next_level(const Cluster& cluster, int level) const {
    int next = 0;
    for (int unit = cluster.first; unit < cluster.first + cluster.size; ++unit) {
      if (at(unit) > level && (next == 0 || at(unit) < next)) next = at(unit);
    }
    return next;
  }

  void pack() {
    for (const Cluster& cluster : clusters_) {
      const int quota = std::min(wanted_, cluster.size);
      take(cluster, quota);
      wanted_ -= quota;
      if (wanted_ == 0) return;
    }
  }

  // Equal shares of the first k clusters, larger ones first; what a small cluster has not got, the
  // others get.
  void spread(int k, bool overlap = true) {
    std::array<int, hw::kMaxClusters> quota{};
    int left = wanted_, open = k;
    for (int round = 0; left > 0 && open > 0 && round < k; ++round) {
      const int share = left / open, more = left % open;
      int number = 0;
      open = 0;
      for (int i = 0; i < k; ++i) {
        int& mine = quota[static_cast<std::size_t>(i)];
        if (mine == clusters_[i].size) continue;
        const int add = std::min(share + (number++ < more ? 1 : 0), clusters_[i].size - mine);
        mine += add;
        left -= add;
        open += mine < clusters_[i].size;
      }
    }
    for (int i = 0; i < k; ++i) {
      const int mine = quota[static_cast<std::size_t>(i)];
      overlap ? take(clusters_[i], mine) : static_cast<void>(take_idle(clusters_[i], mine));
    }
  }

  // The most that every die can give, then one more on dies that can.
  void share_over_dies() {
    const bool idle_first = request_.policy == Policy::fair || request_.policy == Policy::balanced;
    idle_first ? by_idle() : by_kernels();
    const auto can_give = [&](int each) {
      int overlapped = 0;
      for (const Cluster& die : clusters_) {
        if (each > die.size) return false;
        overlapped += std::max(0, each - die.idle);
      }
      return overlapped <= request_.overlap_limit;
    };
    // Idle units of all dies suffice for this much; each one more takes a busy unit at least.
    const int all = wanted_ / clusters_.count;
    int share = all;
    for (const Cluster& die : clusters_) share = std::min(share, die.idle);
    for (int above = std::min(all, share + request_.overlap_limit) + 1; share + 1 < above;) {
      const int middle = (share + above) / 2;
      can_give(middle) ? share = middle : above = middle;
    }
    if (share == 0) return;
    for (const Cluster& die : clusters_) take(die, share);
    if (request_.policy == Policy::balanced) return;
    std::array<bool, hw::kMaxClusters> more{};
    for (const bool idle : {true, false})
      for (int i = 0; i < clusters_.count && grant_.granted < wanted_; ++i) {
        bool& has = more[static_cast<std::size_t>(i)];
        const int before = grant_.granted;
        if (has) continue;
        idle ? static_cast<void>(take_idle(clusters_[i], 1)) : take_busy(clusters_[i], 1);
        has = grant_.granted > before;
      }
  }

  // The fewest clusters, in their order, that have as many units as are wanted.
  int fewest_clusters() {
    int have = 0, k = 0;
    while (k < clusters_.count && have < wanted_) have += clusters_[k++].size;
    return k;
  }

  // Of the clusters by descending idle units, how many to use so that `effective(k, share)` is
  // greatest, where share is the idle units of the k-th; of equals the fewest.
  template <class Effective>
  int best_clusters(Effective effective) {
    int best = 1, most = -1;
    for (int k = 1; k <= clusters_.count; ++k) {
      const int units = effective(k, clusters_[k - 1].idle);
      if (units <= most) continue;
      most = units;
      best = k;
    }
    return best;
  }
  int fair_clusters() {
    return best_clusters([this](int k, int share) {
      return std::min(wanted_, k * std::min(share, ceil_of(wanted_, k)));
    });
  }
  int balanced_clusters() {
    return best_clusters([this](int k, int share) { return k * std::min(share, wanted_ / k); });
  }

  // Idle units that are left anywhere, then busy ones.
  void fill() {
    for (const Cluster& cluster : clusters_) take_idle(cluster, wanted_ - grant_.granted);
    for (const Cluster& cluster : clusters_) take_busy(cluster, wanted_ - grant_.granted);
  }

  void as_printed() {
    const int size = clusters_[0].size;
    const int count = std::min(ceil_of(wanted_, size), clusters_.count);
    const int per_cluster = ceil_of(wanted_, count);
    int allocated = 0;
    for (int i = 0; i < count; ++i) {
      const Cluster& cluster = clusters_[i];
      int left = std::min({per_cluster, cluster.size, wanted_ - allocated});
      allocated += left;  // also what is not given
      left -= take_idle(cluster, left);
      for (int level = next_level(cluster, 0); left > 0; level = next_level(cluster, level)) {
        for (int unit = cluster.first; unit < cluster.first + cluster.size && left > 0; ++unit) {
          if (at(unit) != level) continue;
          // The count would go on rising, so nothing is given any more, not even idle units.
          if (grant_.overlapped == request_.overlap_limit) return;
          give(unit);
          --left;
        }
      }
    }
  }

  const Busy& busy_;
  const Request request_;
  Clusters clusters_;
  int wanted_ = 0;
  Words idle_{}, granted_{};  // idle and not granted yet; granted
  Grant grant_;
};

}  // namespace

const char* to_string(Policy policy) {
  switch (policy) {
    case Policy::packed:
      return "packed";
    case Policy::distributed:
      return "distributed";
    case Policy::conserved:
      return "conserved";
    case Policy::fair:
      return "fair";
    case Policy::balanced:
      return "balanced";
    case Policy::krisp:
      return "krisp";
  }
  return "";
}

std::optional<Policy> policy_named(std::string_view word) {
  for (const Policy policy : kPolicies) {
    if (word == to_string(policy)) return policy;
  }
  return std::nullopt;
}

Grant allocate(const hw::Topology& topology, const Busy& busy, const Request& request) {
  return Allocation(topology, busy, request).run(topology.dies);
}

int effective_units(const hw::Topology& topology, const hw::UnitMask& mask) {
  int clusters = 0, least = hw::kMaxUnits;
  for (const int count : hw::units_per_cluster(topology, mask)) {
    if (count == 0) continue;
    ++clusters;
    least = std::min(least, count);
  }
  return clusters == 0 ? 0 : clusters * least;
}

}  // namespace partita::planners::mask
