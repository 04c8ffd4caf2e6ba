#include "queue/slurm/placing.h"

#include <algorithm>
#include <utility>

namespace partita::slurm {
namespace {

// A part of a GPU that is kept for a job that waits, from when on it needs it.
struct KeptSpot : hw::PlacedProfile {
  std::size_t node = 0;
  int gpu = 0;
  double from_s = 0;
};

class BestFit {
 public:
  explicit BestFit(std::vector<NodeRoom> nodes) : nodes_(std::move(nodes)) {}

  std::vector<JobPlacement> place(const std::vector<WaitingJob>& waiting) {
    std::vector<JobPlacement> placed;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (auto where = place_of(waiting[i])) {
        take(waiting[i], *where);
        where->job = i;
        placed.push_back(*std::move(where));
      } else if (waiting[i].keeps) {
        keep(waiting[i]);
      }
    }
    return placed;
  }

 private:
  bool has_room(const NodeRoom& node, const WaitingJob& job) const {
    return node.cpus >= job.cpus && node.memory_mib >= job.memory_mib &&
           (!job.exclusive || node.empty);
  }

  // The GPU as it may be used by a job that ends after so long.
  hw::Room room_of(std::size_t node, std::size_t gpu, double limit_s) const {
    const GpuRoom& one = nodes_[node].gpus[gpu];
    hw::Room room{one.model};
    for (const StandingInstance& instance : one.standing) {
      if (instance.profile >= 0)
        room.placed.push_back(instance);
      else
        room.others.push_back({0, one.model->memory_slices, one.model->compute_slices});
    }
    for (const KeptSpot& kept : kept_) {
      if (kept.node != node || kept.gpu != static_cast<int>(gpu) || limit_s < kept.from_s)
        continue;
      const hw::MigProfile& profile = profile_of(one, kept.profile);
      room.others.push_back({kept.start, profile.size, profile.gpcs});
    }
    return room;
  }
  static const hw::MigProfile& profile_of(const GpuRoom& gpu, int profile) {
    return gpu.model->profiles[static_cast<std::size_t>(profile)];
  }

  // Places of the rest of a job's shapes on one node, the first given.
  bool fill(std::vector<hw::Room>& rooms, const WaitingJob& job, std::vector<Seat>& seats) const {
    const std::size_t next = seats.size();
    if (next == job.shapes.size()) return true;
    std::vector<int> profiles;
    for (const hw::Room& room : rooms)
      profiles.push_back(room.gpu->profile_index(job.shapes[next]));
    const std::vector<hw::Spot> spots = hw::best_spots(rooms, profiles);
    for (const hw::Spot& spot : spots) {
      rooms[spot.room].placed.push_back({profiles[spot.room], spot.start});
      seats.push_back({static_cast<int>(spot.room), spot.start});
      if (fill(rooms, job, seats)) return true;
      seats.pop_back();
      rooms[spot.room].placed.pop_back();
      if (next > 0) return false;  // the best place of those that follow, or another first one
    }
    return false;
  }

  std::optional<JobPlacement> on_node(std::size_t node, const WaitingJob& job,
                                      std::optional<Seat> first) const {
    std::vector<hw::Room> rooms;
    for (std::size_t g = 0; g < nodes_[node].gpus.size(); ++g)
      rooms.push_back(room_of(node, g, job.limit_s));
    JobPlacement place{0, node, {}};
    if (first) {
      hw::Room& room = rooms[static_cast<std::size_t>(first->gpu)];
      room.placed.push_back({room.gpu->profile_index(job.shapes.front()), first->start});
      place.seats.push_back(*first);
    }
    if (!fill(rooms, job, place.seats)) return std::nullopt;
    return place;
  }

  std::optional<JobPlacement> place_of(const WaitingJob& job) const {
    std::vector<hw::Room> rooms;
    std::vector<int> profiles;
    std::vector<std::pair<std::size_t, int>> at;  // node and GPU of a room
    for (const std::size_t n : job.nodes) {
      if (!has_room(nodes_[n], job)) continue;
      for (std::size_t g = 0; g < nodes_[n].gpus.size(); ++g) {
        rooms.push_back(room_of(n, g, job.limit_s));
        profiles.push_back(rooms.back().gpu->profile_index(job.shapes.front()));
        at.emplace_back(n, static_cast<int>(g));
      }
    }
    for (const hw::Spot& spot : hw::best_spots(rooms, profiles)) {
      const auto& [node, gpu] = at[spot.room];
      if (auto where = on_node(node, job, Seat{gpu, spot.start})) return where;
    }
    return std::nullopt;
  }

  void take(const WaitingJob& job, const JobPlacement& where) {
    NodeRoom& node = nodes_[where.node];
    node.cpus -= job.exclusive ? node.cpus : job.cpus;
    node.memory_mib -= job.memory_mib;
    node.empty = false;
    for (std::size_t i = 0; i < where.seats.size(); ++i) {
      GpuRoom& gpu = node.gpus[static_cast<std::size_t>(where.seats[i].gpu)];
      gpu.standing.push_back(
          {{gpu.model->profile_index(job.shapes[i]), where.seats[i].start}, job.limit_s});
    }
  }

  // Keeps the places that are free the soonest, of ends that are not known the one with the least
  // on it.
  void keep(const WaitingJob& job) {
    std::optional<std::vector<KeptSpot>> best;
    std::pair<double, std::size_t> best_cost;
    for (const std::size_t n : job.nodes) {
      const BestFit later = emptied(n, job);
      const auto where = later.on_node(n, job, std::nullopt);
      if (!where) continue;
      const auto [cost, spots] = cost_of(*where, job);
      if (best && cost >= best_cost) continue;
      best = spots;
      best_cost = cost;
    }
    if (best) kept_.insert(kept_.end(), best->begin(), best->end());
  }

  // The same, with this node as it is at the soonest time when the job has room on it.
  BestFit emptied(std::size_t node, const WaitingJob& job) const {
    std::vector<double> ends{0};
    for (const GpuRoom& gpu : nodes_[node].gpus)
      for (const StandingInstance& one : gpu.standing) ends.push_back(one.ends_s);
    std::ranges::sort(ends);
    const auto without = [&](double time) {
      BestFit later = *this;
      for (GpuRoom& gpu : later.nodes_[node].gpus)
        std::erase_if(gpu.standing, [&](const auto& one) { return one.ends_s <= time; });
      return later;
    };
    for (const double time : ends)
      if (BestFit later = without(time); later.on_node(node, job, std::nullopt)) return later;
    return without(kNever);
  }

  std::pair<std::pair<double, std::size_t>, std::vector<KeptSpot>> cost_of(
      const JobPlacement& where, const WaitingJob& job) const {
    double from_s = 0;
    std::size_t in_the_way = 0;
    std::vector<KeptSpot> spots;
    for (std::size_t i = 0; i < where.seats.size(); ++i) {
      const Seat& seat = where.seats[i];
      const GpuRoom& gpu = nodes_[where.node].gpus[static_cast<std::size_t>(seat.gpu)];
      const int profile = gpu.model->profile_index(job.shapes[i]);
      const int end = seat.start + profile_of(gpu, profile).size;
      for (const StandingInstance& one : gpu.standing) {
        const int size =
            one.profile < 0 ? gpu.model->memory_slices : profile_of(gpu, one.profile).size;
        if (one.start >= end || seat.start >= one.start + size) continue;
        from_s = std::max(from_s, one.ends_s);
        ++in_the_way;
      }
      spots.push_back({{profile, seat.start}, where.node, seat.gpu, 0});
    }
    for (KeptSpot& spot : spots) spot.from_s = from_s;
    return {{from_s, in_the_way}, spots};
  }

  std::vector<NodeRoom> nodes_;
  std::vector<KeptSpot> kept_;
};

}  // namespace

std::vector<JobPlacement> BestFitPlacing::place(std::vector<NodeRoom> nodes,
                                                const std::vector<WaitingJob>& waiting) const {
  return BestFit(std::move(nodes)).place(waiting);
}

}  // namespace partita::slurm
