#include "device/testing/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error_code.h"
#include "device/recognise.h"
#include "hw/layout.h"
#include "hw/telemetry/physics.h"

namespace partita::device {
namespace {

// Sentences about what is wrong.
class Violations {
 public:
  void expect(bool holds, std::string sentence) {
    if (!holds && found_.size() < kMaxViolations) found_.push_back(std::move(sentence));
  }
  std::vector<std::string> take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

// What a call answered: "ok", or the word of its error.
template <class T>
std::string outcome(const Result<T>& result) {
  return result ? "ok" : to_string(result.error().code);
}

std::string shown(const Placement& place) {
  return fmt::format("profile {} at {}", place.nvml_enum, place.start);
}

// What concerns any GPU, with MIG or without.
class Checks {
 public:
  Checks(NodeDriver& driver, int gpu) : driver_(driver), gpu_(gpu) {}

  std::vector<std::string> power_and_telemetry() {
    telemetry();
    power();
    return wrong_.take();
  }

 protected:
  // Settings take, are read back, are refused out of range, and are as before in the end.
  void power() {
    const auto before = driver_.power_settings(gpu_);
    if (!before && before.error().code == ErrorCode::not_supported) return;
    answers(before, "ok", "power_settings");
    if (!before) return;
    const PowerState& board = *before;
    const bool limits = board.least_limit && board.most_limit && board.default_limit;
    wrong_.expect(!limits || (board.now.limit && *board.least_limit <= *board.now.limit &&
                              *board.now.limit <= *board.most_limit),
                  "power_settings: the limit lies in what is possible");
    wrong_.expect(std::ranges::is_sorted(board.clocks, std::less_equal{}),
                  "power_settings: clocks ascend");
    PowerSettings wanted;
    if (limits) wanted.limit = *board.least_limit;
    if (board.clocks.size() > 1) wanted.clocks = {board.clocks[0], board.clocks[1]};
    const auto set = driver_.set_power_settings(gpu_, wanted);
    if (!set && set.error().code == ErrorCode::denied) return;
    answers(set, "ok", "set_power_settings in range");
    read_back(wanted, "what was set");
    if (limits)
      answers(driver_.set_power_settings(gpu_, {*board.most_limit * 2, {}}), "invalid_argument",
              "set_power_settings to twice the most");
    answers(driver_.set_power_settings(gpu_, {}), "ok", "set_power_settings to the defaults");
    read_back({board.default_limit, {}}, "the defaults");
    answers(driver_.set_power_settings(gpu_, board.now), "ok", "set_power_settings as before");
    read_back(board.now, "what was before");
  }

  void read_back(const PowerSettings& wanted, const std::string& what) {
    const auto now = driver_.power_settings(gpu_);
    wrong_.expect(now && now->now.limit == wanted.limit &&
                      (!now->clocks_told || now->now.clocks == wanted.clocks),
                  fmt::format("power_settings: tells otherwise than {}", what));
  }

  // Readings grow and agree with read().
  void telemetry() {
    const auto first = driver_.telemetry(gpu_), second = driver_.telemetry(gpu_);
    answers(first, "ok", "telemetry");
    if (!first || !second) return;
    wrong_.expect(!first->energy || (second->energy && *first->energy <= *second->energy),
                  "telemetry: the energy counter falls");
  }

  // `result` must be `want` ("ok" or a code); an error must name the call and the GPU.
  template <class T>
  bool answers(const Result<T>& result, std::string_view want, std::string_view call) {
    wrong_.expect(outcome(result) == want,
                  fmt::format("{}: answered {}, {} is due", call, outcome(result), want));
    if (!result) {
      // "create_instance(gpu 0, ...)", or the vendor's call: what was asked, and of which GPU.
      const std::string& context = result.error().context;
      const std::size_t arguments = context.find('(');
      wrong_.expect(
          arguments != context.npos && arguments > 0 &&
              context.find("gpu ", arguments) != context.npos,
          fmt::format("{}: its error names '{}', not the call and its arguments", call, context));
    }
    return outcome(result) == want;
  }

  NodeDriver& driver_;
  const int gpu_;
  Violations wrong_;
};

// The suite on a GPU that is lent to it.
class Suite : public Checks {
 public:
  explicit Suite(const ConformanceSubject& subject)
      : Checks(subject.driver, subject.gpu), subject_(subject) {}

  std::vector<std::string> run() {
    const auto before = state();
    const auto board = driver_.profiles(gpu_);
    wrong_.expect(board.has_value() && !board->empty(), "profiles: a GPU with MIG offers some");
    if (!before || !before->mig_enabled || !before->instances.empty() || !board) {
      wrong_.expect(false, "the GPU that is lent must have MIG on and no instances");
      return wrong_.take();
    }
    board_ = *board;
    unknown_gpus();
    every_placement_lives_and_dies();
    illegal_placements();
    every_pair_of_placements();
    unknown_instances();
    remaining_counts();
    if (subject_.hold) holders();
    telemetry();
    power();
    mig_mode();
    expect_empty("after the suite");
    if (subject_.lose) lost_gpu();
    return wrong_.take();
  }

 private:
  std::optional<GpuState> state() {
    auto read = driver_.read(gpu_);
    answers(read, "ok", "read");
    return read ? std::optional(*std::move(read)) : std::nullopt;
  }

  void expect_empty(std::string_view when) {
    if (const auto now = state())
      wrong_.expect(now->instances.empty() && now->holders.empty() && now->mig_enabled,
                    fmt::format("read {}: the GPU is not as it was", when));
  }

  const Instance* find(const GpuState& now, int gi_id) {
    const auto at = std::ranges::find(now.instances, gi_id, &Instance::gi_id);
    return at == now.instances.end() ? nullptr : &*at;
  }

  std::optional<int> create(const Placement& place) {
    const auto made = driver_.create_instance(gpu_, place);
    answers(made, "ok", fmt::format("create_instance {}", shown(place)));
    return made ? std::optional(*made) : std::nullopt;
  }

  void destroy(int gi_id) {
    answers(driver_.destroy_instance(gpu_, gi_id), "ok", "destroy_instance");
  }

  int index_of(int nvml_enum) const {
    const auto& all = subject_.model.profiles;
    const auto at = std::ranges::find(all, nvml_enum, &hw::MigProfile::nvml_enum);
    return at == all.end() ? -1 : static_cast<int>(at - all.begin());
  }

  std::vector<Placement> placements() const {
    std::vector<Placement> all;
    for (const ProfileInfo& profile : board_)
      for (const int start : profile.starts) all.push_back({profile.nvml_enum, start});
    return all;
  }

  bool legal(const std::vector<Placement>& places) const {
    std::vector<hw::PlacedProfile> layout;
    for (const Placement& place : places)
      layout.push_back({index_of(place.nvml_enum), place.start});
    return hw::conflicts(subject_.model, layout).empty();
  }

  // What has ended or never was a GPU is not_found, whatever is asked of it.
  void unknown_gpus() {
    const auto info = driver_.info();
    wrong_.expect(info.has_value() && info->gpus > gpu_ && !info->name.empty(),
                  "info: tells the driver's name and how many GPUs there are");
    for (const int gpu : {-1, info ? info->gpus : 1'000}) {
      answers(driver_.read(gpu), "not_found", "read: unknown GPU");
      answers(driver_.profiles(gpu), "not_found", "profiles: unknown GPU");
      answers(driver_.set_mig_mode(gpu, true), "not_found", "set_mig_mode: unknown GPU");
      answers(driver_.telemetry(gpu), "not_found", "telemetry: unknown GPU");
      answers(driver_.power_settings(gpu), "not_found", "power_settings: unknown GPU");
      answers(driver_.set_power_settings(gpu, {}), "not_found", "set_power_settings: unknown GPU");
      const Placement place{board_.front().nvml_enum, board_.front().starts.front()};
      answers(driver_.create_instance(gpu, place), "not_found", "create_instance: unknown GPU");
      answers(driver_.destroy_instance(gpu, 1), "not_found", "destroy_instance: unknown GPU");
      answers(driver_.create_compute(gpu, 1), "not_found", "create_compute: unknown GPU");
      answers(driver_.destroy_compute(gpu, 1, 0), "not_found", "destroy_compute: unknown GPU");
    }
  }

  // Each profile at each legal start: created, read back, used, destroyed.
  void every_placement_lives_and_dies() {
    for (const ProfileInfo& profile : board_) {
      for (const int start : profile.starts) {
        const auto gi_id = create({profile.nvml_enum, start});
        if (!gi_id) continue;
        read_back(profile, start, *gi_id, nullptr);
        one_compute_instance(profile, start, *gi_id);
        destroy(*gi_id);
        expect_empty("after a GPU instance was destroyed");
        answers(driver_.destroy_instance(gpu_, *gi_id), "not_found", "destroy_instance: twice");
      }
    }
  }

  // The lifetime of the compute instances of one GPU instance: two, one after the other.
  void one_compute_instance(const ProfileInfo& profile, int start, int gi_id) {
    for (int round = 0; round < 2; ++round) {
      const auto compute = driver_.create_compute(gpu_, gi_id);
      if (!answers(compute, "ok", "create_compute")) return;
      wrong_.expect(
          compute->gpcs == profile.gpcs,
          fmt::format("create_compute: has {} of {} slices", compute->gpcs, profile.gpcs));
      wrong_.expect(compute->uuid.starts_with("MIG-") && uuids_.insert(compute->uuid).second,
                    fmt::format("create_compute: {} is no new UUID", compute->uuid));
      read_back(profile, start, gi_id, &*compute);
      answers(driver_.create_compute(gpu_, gi_id), "no_room", "create_compute: a second one");
      answers(driver_.destroy_instance(gpu_, gi_id), "in_use",
              "destroy_instance: with a compute instance");
      answers(driver_.destroy_compute(gpu_, gi_id, compute->ci_id + 1), "not_found",
              "destroy_compute: unknown compute instance");
      answers(driver_.destroy_compute(gpu_, gi_id, compute->ci_id), "ok", "destroy_compute");
      read_back(profile, start, gi_id, nullptr);
      answers(driver_.destroy_compute(gpu_, gi_id, compute->ci_id), "not_found",
              "destroy_compute: twice");
    }
  }

  // read() must show the one instance that is there, with `compute` or without.
  void read_back(const ProfileInfo& profile, int start, int gi_id, const ComputeInstance* compute) {
    const auto now = state();
    if (!now) return;
    Instance want;
    want.profile = profile_name(subject_.model, profile.profile_id);
    want.profile_id = profile.profile_id;
    want.gpcs = profile.gpcs;
    want.start = start;
    want.size = profile.size;
    want.gi_id = gi_id;
    if (compute) want.compute = {*compute};
    wrong_.expect(now->instances == std::vector{want},
                  fmt::format("read: does not show exactly {} at {} with {} compute instances",
                              profile.name, start, want.compute.size()));
  }

  void illegal_placements() {
    std::set<int> enums;
    for (const ProfileInfo& profile : board_) {
      enums.insert(profile.nvml_enum);
      for (int start = -1; start <= subject_.model.memory_slices; ++start) {
        if (std::ranges::count(profile.starts, start) > 0) continue;
        const Placement place{profile.nvml_enum, start};
        answers(driver_.create_instance(gpu_, place), "invalid_argument",
                fmt::format("create_instance {}: no legal start", shown(place)));
      }
    }
    for (const int nvml_enum : {-1, 0, 1, 8, 17, 31, 1'000})
      if (!enums.contains(nvml_enum))
        answers(driver_.create_instance(gpu_, {nvml_enum, 0}), "invalid_argument",
                fmt::format("create_instance {}: no such profile", shown({nvml_enum, 0})));
    expect_empty("after refused creations");
  }

  // Beside each placement each other: no_room exactly where the model's rules say so.
  void every_pair_of_placements() {
    for (const Placement& first : placements()) {
      const auto gi_id = create(first);
      if (!gi_id) continue;
      for (const Placement& second : placements()) {
        const auto made = driver_.create_instance(gpu_, second);
        const bool fits = legal({first, second});
        if (!answers(made, fits ? "ok" : "no_room",
                     fmt::format("create_instance {} beside {}", shown(second), shown(first))) ||
            !made)
          continue;
        wrong_.expect(*made != *gi_id, "create_instance: two instances of one id");
        destroy(*made);
      }
      destroy(*gi_id);
    }
  }

  void unknown_instances() {
    const auto gi_id = create({board_.front().nvml_enum, board_.front().starts.front()});
    if (!gi_id) return;
    for (const int other : {-1, *gi_id + 1, 1'000}) {
      answers(driver_.destroy_instance(gpu_, other), "not_found", "destroy_instance: unknown id");
      answers(driver_.create_compute(gpu_, other), "not_found", "create_compute: unknown id");
      answers(driver_.destroy_compute(gpu_, other, 0), "not_found", "destroy_compute: unknown id");
    }
    answers(driver_.destroy_compute(gpu_, *gi_id, 0), "not_found", "destroy_compute: none there");
    destroy(*gi_id);
  }

  // The most instances of the profile that fit beside `there`, over all subsets of its starts.
  int most_beside(const std::vector<Placement>& there, const ProfileInfo& profile) const {
    std::size_t most = 0;
    for (unsigned subset = 0; subset < 1u << profile.starts.size(); ++subset) {
      std::vector<Placement> places = there;
      for (std::size_t i = 0; i < profile.starts.size(); ++i)
        if (subset >> i & 1) places.push_back({profile.nvml_enum, profile.starts[i]});
      if (places.size() - there.size() > most && legal(places)) most = places.size() - there.size();
    }
    return static_cast<int>(most);
  }

  // The GPU filled from several ends; after each creation the counts that profiles() tells, and
  // that read() lists the instances by start.
  void remaining_counts() {
    const std::vector<Placement> all = placements();
    for (std::size_t from = 0; from < all.size(); from += 3) {
      std::map<int, Placement> there;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const Placement& next = all[(from + 5 * i) % all.size()];
        std::vector<Placement> places{next};
        for (const auto& [gi_id, place] : there) places.push_back(place);
        if (!legal(places)) continue;
        if (const auto gi_id = create(next)) there[*gi_id] = next;
        compare_counts(there);
      }
      for (const auto& [gi_id, place] : there) destroy(gi_id);
    }
  }

  void compare_counts(const std::map<int, Placement>& there) {
    std::vector<Placement> places;
    for (const auto& [gi_id, place] : there) places.push_back(place);
    const auto now = driver_.profiles(gpu_);
    if (!answers(now, "ok", "profiles")) return;
    for (const ProfileInfo& profile : *now) {
      const int most = most_beside(places, profile);
      wrong_.expect(
          profile.remaining == most,
          fmt::format("profiles: {} more {} are said to fit beside {} instances, it is {}",
                      profile.remaining, profile.name, places.size(), most));
    }
    const auto shown_now = state();
    if (!shown_now) return;
    wrong_.expect(shown_now->instances.size() == there.size() &&
                      std::ranges::is_sorted(shown_now->instances, {}, &Instance::start),
                  "read: lists every instance, by start");
    for (const Instance& instance : shown_now->instances)
      wrong_.expect(
          there.contains(instance.gi_id) && there.at(instance.gi_id).start == instance.start,
          "read: an instance is not where it was created");
  }

  void holders() {
    const ProfileInfo& profile = board_.front();
    const auto gi_id = create({profile.nvml_enum, profile.starts.back()});
    if (!gi_id) return;
    const auto compute = driver_.create_compute(gpu_, *gi_id);
    if (!answers(compute, "ok", "create_compute")) return;
    const std::function<void()> release = subject_.hold(compute->uuid);
    const auto held = state();
    const Instance* instance = held ? find(*held, *gi_id) : nullptr;
    wrong_.expect(instance && instance->busy(), "read: shows who holds an instance");
    answers(driver_.destroy_compute(gpu_, *gi_id, compute->ci_id), "in_use",
            "destroy_compute: held by a process");
    answers(driver_.destroy_instance(gpu_, *gi_id), "in_use", "destroy_instance: held");
    answers(driver_.set_mig_mode(gpu_, false), "in_use", "set_mig_mode: held");
    release();
    const auto freed = state();
    instance = freed ? find(*freed, *gi_id) : nullptr;
    wrong_.expect(instance && !instance->busy(), "read: shows nobody once the process has ended");
    answers(driver_.destroy_compute(gpu_, *gi_id, compute->ci_id), "ok", "destroy_compute");
    destroy(*gi_id);
  }

  void mig_mode() {
    const auto same = driver_.set_mig_mode(gpu_, true);
    if (answers(same, "ok", "set_mig_mode: as it is"))
      wrong_.expect(*same == ModeChange::done, "set_mig_mode: as it is needs no reset");
    if (const auto gi_id = create({board_.front().nvml_enum, board_.front().starts.front()})) {
      answers(driver_.set_mig_mode(gpu_, false), "in_use", "set_mig_mode: with an instance");
      destroy(*gi_id);
    }
    const auto off = driver_.set_mig_mode(gpu_, false);
    if (!answers(off, "ok", "set_mig_mode: off")) return;
    const bool at_once = *off == ModeChange::done;
    if (const auto now = state())
      wrong_.expect(now->mig_enabled == !at_once && !now->mig_pending && now->mig_capable,
                    "read: shows neither the new mode nor that it is pending");
    if (at_once)
      answers(driver_.create_instance(gpu_, {board_.front().nvml_enum, board_.front().starts[0]}),
              "not_supported", "create_instance: MIG is off");
    const auto on = driver_.set_mig_mode(gpu_, true);
    answers(on, "ok", "set_mig_mode: on again");
    if (const auto now = state())
      wrong_.expect(now->mig_enabled && now->mig_pending, "read: MIG is not on again");
  }

  // A lost GPU still is an answer of read(); everything else answers lost.
  void lost_gpu() {
    subject_.lose();
    const auto now = state();
    wrong_.expect(now && now->lost && now->instances.empty(), "read: does not show the lost GPU");
    answers(driver_.profiles(gpu_), "lost", "profiles: lost GPU");
    answers(driver_.set_mig_mode(gpu_, true), "lost", "set_mig_mode: lost GPU");
    answers(driver_.telemetry(gpu_), "lost", "telemetry: lost GPU");
    answers(driver_.power_settings(gpu_), "lost", "power_settings: lost GPU");
    answers(driver_.set_power_settings(gpu_, {}), "lost", "set_power_settings: lost GPU");
    const Placement place{board_.front().nvml_enum, board_.front().starts.front()};
    answers(driver_.create_instance(gpu_, place), "lost", "create_instance: lost GPU");
    answers(driver_.destroy_instance(gpu_, 1), "lost", "destroy_instance: lost GPU");
    answers(driver_.create_compute(gpu_, 1), "lost", "create_compute: lost GPU");
    answers(driver_.destroy_compute(gpu_, 1, 0), "lost", "destroy_compute: lost GPU");
  }

  const ConformanceSubject& subject_;
  std::vector<ProfileInfo> board_;
  std::set<std::string> uuids_;
};

// The part that only reads.
class Reading {
 public:
  Reading(NodeDriver& driver, const hw::Catalogue& catalogue)
      : driver_(driver), catalogue_(catalogue) {}

  std::vector<std::string> run() {
    const auto info = driver_.info();
    expect(info.has_value() && !info->name.empty() && info->gpus >= 0, "info", "does not answer");
    if (!info) return wrong_.take();
    for (int gpu = 0; gpu < info->gpus; ++gpu) one_gpu(gpu);
    const auto beyond = driver_.read(info->gpus);
    expect(outcome(beyond) == "not_found", "read", "a GPU beyond the last is not_found");
    return wrong_.take();
  }

 private:
  void expect(bool holds, const std::string& where, std::string_view sentence) {
    wrong_.expect(holds, fmt::format("{}: {}", where, sentence));
  }

  void one_gpu(int gpu) {
    const std::string where = fmt::format("GPU {}", gpu);
    const auto state = driver_.read(gpu);
    expect(state.has_value(), where, "cannot be read");
    if (!state) return;
    expect(state->index == gpu, where, "has another index");
    if (state->lost) return;
    expect(state->uuid.starts_with("GPU-") && uuids_.insert(state->uuid).second, where,
           "has no unique UUID");
    expect(!state->name.empty(), where, "has no name");
    expect(state->mig_capable || !(state->mig_enabled || state->mig_pending), where,
           "has MIG on and cannot have it");
    expect(state->mig_enabled || state->instances.empty(), where, "has instances, and MIG off");
    const auto by_place = [](const Instance& i) { return std::pair(i.start, i.gi_id); };
    expect(std::ranges::is_sorted(state->instances, {}, by_place), where, "instances by start");
    by_pid(where, state->holders);
    const auto board = driver_.profiles(gpu);
    expect(board.has_value(), where, "does not tell its profiles");
    if (!board) return;
    profiles(where, *state, *board);
    instances(where, *state, *board);
    layout(where, *state);
    telemetry(where, *state);
  }

  void telemetry(const std::string& where, const GpuState& state) {
    const auto sample = driver_.telemetry(state.index);
    const bool gone = !sample && sample.error().code == ErrorCode::lost;
    expect(sample.has_value() || gone, where, "does not tell its telemetry");
    if (!sample) return;
    const std::string fault = telemetry::fault_of({Seconds{}, {*sample}});
    expect(fault.empty(), where, "says what cannot be: " + fault);
    expect(sample->index == state.index && sample->uuid == state.uuid, where,
           "has telemetry of another GPU");
    for (const telemetry::InstanceSample& instance : sample->instances) {
      const auto of = std::ranges::find(state.instances, instance.gi_id, &Instance::gi_id);
      expect(of == state.instances.end() || of->gpcs == instance.compute_slices, where,
             "has telemetry of an instance of another size");
    }
  }

  void by_pid(const std::string& where, const std::vector<Holder>& holders) {
    expect(std::ranges::is_sorted(holders, std::less_equal{}, &Holder::pid), where,
           "holders by pid, each once");
  }

  void profiles(const std::string& where, const GpuState& state,
                const std::vector<ProfileInfo>& board) {
    expect(state.mig_capable || board.empty(), where, "offers profiles without having MIG");
    expect(!state.mig_enabled || !board.empty(), where, "has MIG on and offers no profile");
    expect(std::ranges::is_sorted(board, std::less_equal{}, &ProfileInfo::nvml_enum), where,
           "profiles by nvml_enum, each once");
    for (const ProfileInfo& profile : board) {
      expect(!profile.name.empty() && profile.gpcs > 0 && profile.size > 0 &&
                 profile.max_instances > 0 && !profile.starts.empty(),
             where, "a profile lacks its name, slices or starts");
      expect(profile.remaining >= 0 && profile.remaining <= profile.max_instances, where,
             fmt::format("{} more {} than there may be", profile.remaining, profile.name));
      expect(std::ranges::is_sorted(profile.starts, std::less_equal{}), where, "starts ascend");
    }
  }

  void instances(const std::string& where, const GpuState& state,
                 const std::vector<ProfileInfo>& board) {
    std::set<int> ids;
    for (const Instance& instance : state.instances) {
      const std::string at = fmt::format("{} instance {}", where, instance.gi_id);
      expect(ids.insert(instance.gi_id).second, at, "is listed twice");
      const auto shape = std::ranges::find(board, instance.profile_id, &ProfileInfo::profile_id);
      expect(shape != board.end() && shape->gpcs == instance.gpcs && shape->size == instance.size &&
                 std::ranges::count(shape->starts, instance.start) > 0,
             at, "is of no profile of the board, or where it may not be");
      int slices = 0;
      for (const ComputeInstance& compute : instance.compute) {
        slices += compute.gpcs;
        expect(compute.uuid.starts_with("MIG-") && uuids_.insert(compute.uuid).second, at,
               "has a MIG device without a UUID of its own");
      }
      expect(slices <= instance.gpcs, at, "has more compute slices than it got");
      expect(std::ranges::is_sorted(instance.compute, std::less_equal{}, &ComputeInstance::ci_id),
             at, "compute instances by id");
      by_pid(at, instance.holders);
    }
  }

  void layout(const std::string& where, const GpuState& state) {
    const hw::GpuModel* model = recognise(catalogue_, state);
    expect(state.model == (model ? model->name : ""), where, "is called by another model's name");
    // A simulated board of a model whose memory nobody knows has none.
    expect(state.memory > Mib{} || (model && !model->total_memory), where, "has no memory");
    if (!model) return;
    std::vector<hw::PlacedProfile> placed;
    for (const Instance& instance : state.instances) {
      const auto at =
          std::ranges::find(model->profiles, instance.profile_id, &hw::MigProfile::profile_id);
      if (at == model->profiles.end()) return;  // a board that the catalogue does not know well
      placed.push_back({static_cast<int>(at - model->profiles.begin()), instance.start});
    }
    expect(hw::conflicts(*model, placed).empty(), where, "has instances that exclude each other");
  }

  NodeDriver& driver_;
  const hw::Catalogue& catalogue_;
  std::set<std::string> uuids_;
  Violations wrong_;
};

}  // namespace

std::vector<std::string> check_conformance(const ConformanceSubject& subject) {
  return Suite(subject).run();
}

std::vector<std::string> check_power(NodeDriver& driver, int gpu) {
  return Checks(driver, gpu).power_and_telemetry();
}

std::vector<std::string> check_reading(NodeDriver& driver, const hw::Catalogue& catalogue) {
  return Reading(driver, catalogue).run();
}

}  // namespace partita::device
