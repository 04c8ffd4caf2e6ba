#include "act/lease/lease_brain.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/append.h"
#include "base/index.h"

namespace partita::lease {
namespace {

using device::GpuState;
using device::Instance;
using State = LeaseRecord::State;

LeaseRecord with(LeaseRecord record, State state) {
  record.state = state;
  return record;
}

const Board* board_of(const Known& known, const std::string& uuid) {
  const auto found = std::ranges::find(known.boards, uuid,
                                       [](const Board& board) { return board.gpu.uuid; });
  return found == known.boards.end() ? nullptr : &*found;
}

hw::Room room_of(const Board& board) {
  hw::Room room{board.model.get(), {}, {}};
  for (const Instance& one : board.gpu.instances) {
    const int profile = board.model->profile_index(one.profile);
    if (profile >= 0)
      room.placed.push_back({profile, one.start});
    else
      room.others.push_back({one.start, one.size, one.gpcs});
  }
  return room;
}

std::string profile_name(const Board& board, int profile) {
  return board.model->profiles[at(profile)].name;
}

bool usable(const Known& known, const Board& board) {
  return board.gpu.mig_enabled && !board.gpu.lost && !known.closed.contains(board.gpu.uuid);
}

// Why nothing is lent of a GPU.
std::string why_not(const Known& known, const GpuState& gpu) {
  if (gpu.lost) return "fell off the bus";
  if (!gpu.mig_capable) return "cannot be cut into instances";
  if (!gpu.mig_enabled) return "has MIG off";
  const auto closed = known.closed.find(gpu.uuid);
  return closed == known.closed.end() ? "" : closed->second;
}

// ---- one lease, brought in order

class Tidying {
 public:
  Tidying(const Known& known, const Ask& ask) : known_(known), ask_(ask) {}

  // Nothing: the lease is in order, or cannot be brought in order now.
  std::optional<Step> next(const LeaseRecord& lease) const {
    if (known_.stuck.contains(lease.lease)) return std::nullopt;
    const Board* const board = board_of(known_, lease.gpu);
    if (board == nullptr) return Note{with(lease, State::gone)};  // and its instances with it
    if (board->gpu.lost) return std::nullopt;
    const Instance* const there = instance_of(board->gpu, lease);
    switch (lease.state) {
      case State::intended:
        return is_returned(lease) ? Note{with(lease, State::returning)}
                                  : make(lease, *board, there);
      case State::made:
        if (there == nullptr) return Note{with(lease, State::gone)};
        if (there->compute.empty()) return Note{with(lease, State::returning)};
        if (has_expired(lease) && !there->busy() && !is_renewed(lease, *board))
          return Note{with(lease, State::returning)};
        return std::nullopt;
      case State::returning:
        return unmake(lease, *board, there);
      case State::gone:
        break;
    }
    return std::nullopt;
  }

 private:
  bool is_returned(const LeaseRecord& lease) const {
    const auto* back = std::get_if<Return>(&ask_);
    return back != nullptr && belongs(lease.owner, back->owner);
  }
  bool has_expired(const LeaseRecord& lease) const {
    const Terms& terms = lease.terms;
    return (terms.until_ms > 0 && terms.until_ms <= known_.now_ms) ||
           known_.ended.contains(lease.lease);
  }
  // Whether whoever asks now is whom the lease was announced for.
  bool is_asked(const LeaseRecord& lease, const Board& board) const {
    const auto* take = std::get_if<Take>(&ask_);
    if (take == nullptr || take->owner != lease.owner) return false;
    const int profile = profile_of(board, take->profile);
    return profile >= 0 && profile_name(board, profile) == lease.profile &&
           (!take->gpu || *take->gpu == board.gpu.index) &&
           (!take->exact || take->start == lease.start);
  }

  bool is_renewed(const LeaseRecord& lease, const Board& board) const {
    const auto* take = std::get_if<Take>(&ask_);
    return is_asked(lease, board) && take->terms;
  }

  std::optional<Step> make(const LeaseRecord& lease, const Board& board,
                           const Instance* there) const {
    if (there == nullptr) {
      const bool refused = known_.taken.contains({lease.gpu, lease.start});
      const int profile = board.model->profile_index(lease.profile);
      if (refused || profile < 0 || !is_asked(lease, board)) return Note{with(lease, State::gone)};
      return Create{lease.lease, board.gpu.index,
                    {board.model->profiles[at(profile)].nvml_enum, lease.start}};
    }
    if (there->compute.empty()) return CreateCompute{lease.lease, board.gpu.index, there->gi_id};
    // Nobody was told of a device yet: one that is used is not ours.
    if (there->busy()) return Note{with(lease, State::gone)};
    LeaseRecord made = with(lease, State::made);
    made.device = there->uuid();
    return Note{std::move(made)};
  }

  std::optional<Step> unmake(const LeaseRecord& lease, const Board& board,
                             const Instance* there) const {
    if (there == nullptr) return Note{with(lease, State::gone)};
    if (there->busy())  // somebody was faster
      return Note{with(lease, lease.device.empty() ? State::gone : State::made)};
    if (!there->compute.empty())
      return DestroyCompute{lease.lease, board.gpu.index, there->gi_id,
                            there->compute.back().ci_id};
    return DestroyInstance{lease.lease, board.gpu.index, there->gi_id};
  }

  const Known& known_;
  const Ask& ask_;
};

// ---- what is asked

Refused refused(std::string constraint, std::string subject, std::string detail) {
  return {{std::move(constraint), std::move(subject), 0, 1, std::move(detail)}};
}

Refused too_many(const Known& known) {
  Refused no = refused("leases", "node", "as many leases stand as can");
  no.reason.have = static_cast<double>(known.standing.leases.size());
  no.reason.need = no.reason.have + 1;
  return no;
}

Refused other_shape(const LeaseRecord& lease, const std::string& wanted) {
  return refused("owner", lease.owner,
                 fmt::format("holds {} at {} already, and one lease at a time; for {} beside it "
                             "ask as '{}/2'",
                             lease.profile, lease.start, wanted, lease.owner));
}

class Taking {
 public:
  Taking(const Known& known, const Take& ask) : known_(known), ask_(ask) {
    for (const Board& board : known.boards)
      if (!ask.gpu || *ask.gpu == board.gpu.index) boards_.push_back(&board);
  }

  Step next() const {
    if (const LeaseRecord* lease = known_.standing.of(ask_.owner)) return again(*lease);
    if (known_.standing.leases.size() >= kMaxLeases) return too_many(known_);
    if (auto wrong = check()) return *std::move(wrong);
    for (const Spot& spot : spots()) {
      const Board& board = known_.boards[spot.board];
      if (known_.taken.contains({board.gpu.uuid, spot.start})) continue;
      return Note{announced(board, spot)};
    }
    return no_room();
  }

 private:
  Step again(const LeaseRecord& lease) const {
    const Board* const board = board_of(known_, lease.gpu);
    if (board == nullptr || board->gpu.lost || known_.stuck.contains(lease.lease))
      return Error{board != nullptr && board->gpu.lost ? ErrorCode::lost : ErrorCode::environment,
                   fmt::format("the instance of '{}' cannot be reached now", lease.owner), "owner"};
    const int profile = profile_of(*board, ask_.profile);
    if (profile < 0 || profile_name(*board, profile) != lease.profile)
      return other_shape(lease, ask_.profile);
    if ((ask_.gpu && *ask_.gpu != board->gpu.index) || (ask_.exact && ask_.start != lease.start))
      return other_shape(lease, fmt::format("{} elsewhere", ask_.profile));
    if (ask_.terms && *ask_.terms != lease.terms) {
      LeaseRecord renewed = lease;
      renewed.terms = *ask_.terms;
      return Note{std::move(renewed)};
    }
    return Granted{{lease.lease}};
  }

  // What no node of these GPUs will ever give.
  std::optional<Step> check() const {
    if (boards_.empty() && ask_.gpu)
      return Error{ErrorCode::bad_input, fmt::format("this node has no GPU {}", *ask_.gpu),
                   "gpu"};
    std::vector<std::string> offered;
    for (const Board* board : boards_) {
      if (!board->gpu.mig_enabled || board->gpu.lost) continue;
      const int profile = profile_of(*board, ask_.profile);
      if (profile >= 0) {
        const std::vector<int>& starts = board->model->profiles[at(profile)].starts;
        if (!ask_.exact || std::ranges::count(starts, ask_.start.value_or(-1)) > 0)
          return std::nullopt;
        return Error{ErrorCode::bad_input,
                     fmt::format("{} begins at one of {}", ask_.profile, joined(starts, ", ")),
                     "start"};
      }
      for (const device::ProfileInfo& one : board->profiles)
        if (const std::string name = profile_name(*board, profile_of(*board, one.name));
            std::ranges::count(offered, name) == 0)
          offered.push_back(name);
    }
    if (!offered.empty())
      return Error{ErrorCode::bad_input,
                   fmt::format("'{}' is none of the shapes that these GPUs offer: {}",
                               ask_.profile, joined(offered, ", ")),
                   "profile"};
    return std::nullopt;
  }

  // Of the GPUs that are asked for and may be used, the wanted start before others.
  std::vector<Spot> spots() const {
    std::vector<Spot> all = best_spots(known_.boards, ask_.profile);
    std::erase_if(all, [&](const Spot& spot) {
      const Board& board = known_.boards[spot.board];
      return !usable(known_, board) || std::ranges::count(boards_, &board) == 0 ||
             (ask_.exact && spot.start != ask_.start);
    });
    if (ask_.start)
      std::ranges::stable_partition(
          all, [&](const Spot& spot) { return spot.start == ask_.start; });
    return all;
  }

  LeaseRecord announced(const Board& board, const Spot& spot) const {
    const hw::MigProfile& profile = board.model->profiles[at(spot.profile)];
    return {{profile.name, spot.start},
            known_.standing.last + 1,
            State::intended,
            ask_.owner,
            board.gpu.uuid,
            profile.profile_id,
            {},
            static_cast<long>(known_.now_ms),
            ask_.terms.value_or(Terms{})};
  }

  Step no_room() const {
    Refused no = refused("room", ask_.gpu ? fmt::format("gpu {}", *ask_.gpu) : "node", "");
    std::string text, closed;
    for (const Board* board : boards_) {
      if (const std::string why = why_not(known_, board->gpu); !why.empty()) {
        closed += fmt::format("{}GPU {} {}", closed.empty() ? "" : ", ", board->gpu.index, why);
        continue;
      }
      for (FreeShape& shape : free_shapes(*board)) {
        std::erase_if(shape.starts, [&](int start) {
          return known_.taken.contains({board->gpu.uuid, start});
        });
        if (shape.starts.empty()) continue;
        text += fmt::format("{}{} on GPU {}", text.empty() ? "" : ", ", shape.profile, shape.gpu);
        no.free.push_back(std::move(shape));
      }
    }
    const std::string where =
        ask_.exact ? fmt::format(" at {}", ask_.start.value_or(0)) : std::string();
    no.reason.detail = fmt::format("no room for {}{}; free are: {}", ask_.profile, where,
                                   text.empty() ? "no shapes" : text);
    if (!closed.empty()) no.reason.detail += "; " + closed;
    return no;
  }

  const Known& known_;
  const Take& ask_;
  std::vector<const Board*> boards_;
};

Step hand_over(const Known& known, const HandOver& ask) {
  const LeaseRecord* const old = known.standing.of(ask.from);
  const LeaseRecord* const is = known.standing.of(ask.to);
  const auto fits = [&](const LeaseRecord& lease) {
    const Board* const board = board_of(known, lease.gpu);
    if (ask.profile.empty() || ask.profile == lease.profile) return true;
    const int profile = board == nullptr ? -1 : profile_of(*board, ask.profile);
    return profile >= 0 && profile_name(*board, profile) == lease.profile;
  };
  if (old != nullptr && is != nullptr && old != is)
    return refused("owner", ask.to,
                   fmt::format("holds {} already, and '{}' still holds {}", is->profile, ask.from,
                               old->profile));
  if (old == nullptr && is == nullptr)
    return refused("lease", ask.from, "holds nothing that could be handed over");
  const LeaseRecord& lease = old != nullptr ? *old : *is;
  if (!fits(lease)) return other_shape(lease, ask.profile);
  if (old == nullptr || old == is) return Granted{{lease.lease}};  // it was handed over before
  LeaseRecord handed = lease;
  handed.owner = ask.to;
  handed.terms = ask.terms;
  return Note{std::move(handed)};
}

Step give_back(const Known& known, const Return& ask) {
  for (const auto& [number, lease] : known.standing.leases) {
    if (!belongs(lease.owner, ask.owner)) continue;
    const Board* const board = board_of(known, lease.gpu);
    if (board == nullptr) return Note{with(lease, State::gone)};
    if (board->gpu.lost || known.stuck.contains(number))
      return Error{board->gpu.lost ? ErrorCode::lost : ErrorCode::in_use,
                   fmt::format("{} at {} of GPU {} cannot be destroyed now", lease.profile,
                               lease.start, board->gpu.index),
                   "owner"};
    const Instance* const there = instance_of(board->gpu, lease);
    if (there != nullptr && there->busy())
      return Error{ErrorCode::in_use,
                   fmt::format("{} at {} of GPU {} is used by {}", lease.profile, lease.start,
                               board->gpu.index, to_string(there->holders.front())),
                   "owner"};
    return Note{with(lease, State::returning)};
  }
  return Granted{};
}

}  // namespace

std::shared_ptr<const hw::GpuModel> model_of(const GpuState& gpu,
                                             const std::vector<device::ProfileInfo>& offered,
                                             const hw::Catalogue* catalogue) {
  if (const hw::GpuModel* known = catalogue == nullptr ? nullptr : catalogue->find(gpu.model))
    return {std::shared_ptr<void>(), known};
  hw::GpuModel model;
  model.name = gpu.name;
  for (const device::ProfileInfo& one : offered) {
    hw::MigProfile& profile = model.profiles.emplace_back();
    profile.name = one.name;
    profile.nvml_enum = one.nvml_enum;
    profile.profile_id = one.profile_id;
    profile.gpcs = one.gpcs;
    profile.size = one.size;
    profile.starts = one.starts;
    profile.max_instances = one.max_instances;
    model.compute_slices = std::max(model.compute_slices, one.gpcs);
    for (const int start : one.starts)
      model.memory_slices = std::max(model.memory_slices, start + one.size);
  }
  return std::make_shared<const hw::GpuModel>(std::move(model));
}

int profile_of(const Board& board, const std::string& name) {
  const auto offers = [&](int profile) {
    return board.profiles.empty() ||
           std::ranges::count(board.profiles, board.model->profiles[at(profile)].nvml_enum,
                              &device::ProfileInfo::nvml_enum) > 0;
  };
  if (const int known = board.model->profile_index(name); known >= 0)
    return offers(known) ? known : -1;
  const auto offered = std::ranges::find(board.profiles, name, &device::ProfileInfo::name);
  if (offered == board.profiles.end()) {
    for (int profile = 0; std::cmp_less(profile, board.model->profiles.size()); ++profile) {
      const hw::MigProfile& one = board.model->profiles[at(profile)];
      if (one.plain() && name == std::to_string(one.gpcs) + "g" && offers(profile)) return profile;
    }
    return -1;
  }
  const auto found = std::ranges::find(board.model->profiles, offered->nvml_enum,
                                       &hw::MigProfile::nvml_enum);
  return found == board.model->profiles.end()
             ? -1
             : static_cast<int>(found - board.model->profiles.begin());
}

std::vector<Spot> best_spots(const std::vector<Board>& boards, const std::string& profile) {
  std::vector<hw::Room> rooms;
  std::vector<int> profiles;
  std::vector<std::size_t> of;
  for (std::size_t b = 0; b < boards.size(); ++b) {
    if (!boards[b].gpu.mig_enabled || boards[b].gpu.lost) continue;
    rooms.push_back(room_of(boards[b]));
    profiles.push_back(profile_of(boards[b], profile));
    of.push_back(b);
  }
  std::vector<Spot> spots;
  for (const hw::Spot& spot : hw::best_spots(rooms, profiles))
    spots.push_back({{profiles[spot.room], spot.start}, of[spot.room]});
  return spots;
}

std::vector<FreeShape> free_shapes(const Board& board) {
  std::vector<FreeShape> free;
  for (const int profile : hw::plain_profiles(*board.model)) {
    FreeShape shape{board.gpu.index, profile_name(board, profile), {}};
    for (const hw::Spot& spot : hw::best_spots({room_of(board)}, {profile}))
      shape.starts.push_back(spot.start);
    std::ranges::sort(shape.starts);
    if (!shape.starts.empty()) free.insert(free.begin(), std::move(shape));
  }
  return free;
}

const Instance* instance_of(const GpuState& gpu, const LeaseRecord& lease) {
  const auto found = std::ranges::find_if(gpu.instances, [&](const Instance& one) {
    if (!lease.device.empty() &&
        std::ranges::count(one.compute, lease.device, &device::ComputeInstance::uuid) > 0)
      return true;
    return one.profile_id == lease.profile_id && one.start == lease.start &&
           (one.compute.empty() || lease.device.empty());
  });
  return found == gpu.instances.end() ? nullptr : &*found;
}

Step next_step(const Known& known, const Ask& ask) {
  const Tidying tidying(known, ask);
  for (const auto& [number, lease] : known.standing.leases)
    if (auto step = tidying.next(lease)) return *std::move(step);
  if (const auto* take = std::get_if<Take>(&ask)) return Taking(known, *take).next();
  if (const auto* over = std::get_if<HandOver>(&ask)) return hand_over(known, *over);
  if (const auto* back = std::get_if<Return>(&ask)) return give_back(known, *back);
  return Granted{};
}

}  // namespace partita::lease
