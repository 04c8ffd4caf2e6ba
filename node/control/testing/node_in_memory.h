// A node for tests of the loop: it is what the loop sees, and does what the loop says.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/loop.h"
#include "control/testing/brain_fixture.h"

namespace partita::control {

inline constexpr std::int64_t kHourMs = 3'600'000;

// A node in memory: changes are made at once or fail, a gateway counts what comes.
class NodeInMemory {
 public:
  explicit NodeInMemory(int gpus) : state(empty_gpus(gpus)) {}

  device::NodeState state;
  actuate::Assignment assignment;
  actuate::JournalState journal;
  std::map<std::string, double> rates;  // of what comes; empty: no gateway
  std::map<std::string, actuate::TokenTraffic> tokens;
  std::optional<Error> fault;  // of every apply
  bool nobody_works = false;   // workers are not there, their instances are
  bool nothing_new = false;    // what is not there does not come up: its apply fails
  std::vector<std::string> violations;
  std::vector<history::Event> events;
  std::vector<LoopNotice> notices;
  std::optional<AgentMemory> remembered;
  int applies = 0;
  std::string told;  // every deed in words

  void reboot() {
    for (device::GpuState& gpu : state.gpus) gpu.instances.clear();
  }
  int instances() const {
    int count = 0;
    for (const device::GpuState& gpu : state.gpus) count += static_cast<int>(gpu.instances.size());
    return count;
  }
  bool is_there(const actuate::AssignedSegment& one) const {
    const device::GpuState* gpu = state.find(one.gpu_uuid);
    return gpu != nullptr && !gpu->lost &&
           std::ranges::count(gpu->instances, one.device, &device::Instance::uuid) > 0;
  }
  // What the instances that are there are planned to carry.
  double capacity(const std::string& service) const {
    double sum = 0;
    for (const actuate::AssignedSegment& one : assignment.segments)
      if (one.service == service && is_there(one)) sum += one.throughput_rps;
    return nobody_works ? 0 : sum;
  }

  Deeds step(Loop& loop, std::int64_t now_ms, Seen seen = {}) {
    seen.state = state;
    seen.assignment = assignment;
    seen.journal = journal;
    seen.ended = std::exchange(ended_, {});
    seen.gateway = !rates.empty();
    for (const auto& [service, rate] : rates) {
      if (last_ms_ > 0) arrived_[service] += rate * static_cast<double>(now_ms - last_ms_) / 1000;
      const auto arrived = static_cast<std::uint64_t>(arrived_[service]);
      const double answered = std::min(rate, capacity(service));
      const actuate::RequestStretch recent{3, 3 * rate, 3 * rate, 3 * answered};
      seen.loads.push_back({.service = service,
                            .arrived = arrived,
                            .in_slo = arrived,
                            .recent = recent,
                            .lately = recent,
                            .minute = recent});
      if (const auto of = tokens.find(service); of != tokens.end())
        seen.loads.back().tokens = of->second;
      seen.loads.back().ready_workers = static_cast<int>(
          std::ranges::count(assignment.segments, service, &actuate::AssignedSegment::service));
    }
    if (seen.gateway)
      for (const actuate::AssignedSegment& one : assignment.segments)
        seen.ready[one.device] = is_there(one) && !nobody_works ? one.processes : 0;
    last_ms_ = now_ms;
    Deeds deeds = loop.step(now_ms, seen);
    if (deeds.remember) remembered = deeds.remember;
    for (const history::Event& event : deeds.record) {
      events.push_back(event);
      told += fmt::format("{} {} {} {} {}\n", now_ms, static_cast<int>(event.kind), event.change,
                          event.cause, event.detail);
    }
    for (const LoopNotice& notice : deeds.notify) notices.push_back(notice);
    if (deeds.apply) perform(*deeds.apply, now_ms);
    return deeds;
  }

  void run(Loop& loop, std::int64_t& now_ms, std::int64_t until_ms) {
    while (now_ms < until_ms) {
      now_ms = std::min(step(loop, now_ms).next_look_ms, until_ms);
    }
  }

  long count(history::EventKind kind) const {
    return std::ranges::count(events, kind, &history::Event::kind);
  }

  struct Life {
    std::string place;
    std::int64_t made_ms = 0, gone_ms = 0;
  };
  std::vector<Life> lives;

 private:
  void perform(const ApplyDeed& deed, std::int64_t now_ms) {
    ++applies;
    if (nothing_new && makes(deed)) {
      ended_.push_back({deed.change, failed({ErrorCode::timeout, "waited in vain", ""}), 1});
      return;
    }
    if (fault) {
      ended_.push_back({deed.change, failed(*fault), 1});
      return;
    }
    for (const actuate::WantedGpu& wanted : deed.wanted.gpus) make(wanted, now_ms);
    assignment.services = deed.wanted.services;
    std::erase_if(assignment.segments, [&](const actuate::AssignedSegment& one) {
      const device::GpuState* gpu = state.find(one.gpu_uuid);
      return gpu == nullptr ||
             std::ranges::count(gpu->instances, one.device, &device::Instance::uuid) == 0;
    });
    std::ranges::sort(assignment.segments, {}, &actuate::AssignedSegment::device);
    ++assignment.revision;
    ended_.push_back({deed.change, {}, 1});
  }

  bool makes(const ApplyDeed& deed) const {
    for (const actuate::WantedGpu& wanted : deed.wanted.gpus) {
      const device::GpuState* gpu = state.find(wanted.uuid);
      for (const actuate::WantedInstance& one : wanted.instances)
        if (gpu == nullptr ||
            std::ranges::none_of(gpu->instances, [&](const device::Instance& there) {
              return there.start == one.start && there.profile == one.profile;
            }))
          return true;
    }
    return false;
  }

  void make(const actuate::WantedGpu& wanted, std::int64_t now_ms) {
    if (wanted.uuid.empty()) violations.push_back("a GPU without UUID is wanted");
    const auto found = std::ranges::find(state.gpus, wanted.uuid, &device::GpuState::uuid);
    if (found == state.gpus.end() || found->lost) {
      violations.push_back("a GPU that is not there is wanted");
      return;
    }
    const hw::GpuModel& model = **hw::builtin_catalogue().get(wanted.model);
    std::vector<device::Instance> kept;
    for (device::Instance& there : found->instances) {
      const bool stays =
          std::ranges::any_of(wanted.instances, [&](const actuate::WantedInstance& one) {
            return one.profile == there.profile && one.start == there.start;
          });
      if (stays) kept.push_back(there);
      if (!stays) gone(place(wanted.uuid, there.profile, there.start), now_ms);
    }
    for (const actuate::WantedInstance& one : wanted.instances) {
      const auto same = std::ranges::find_if(
          kept, [&](const device::Instance& there) { return there.start == one.start; });
      std::string uuid = same == kept.end() ? std::string{} : same->uuid();
      if (uuid.empty()) {
        const auto& shape =
            model.profiles[static_cast<std::size_t>(model.profile_index(one.profile))];
        uuid = fmt::format("MIG-{:04}", ++next_);
        kept.push_back(
            {one, shape.profile_id, shape.gpcs, shape.size, next_, {{0, shape.gpcs, uuid}}, {}});
        journal.owned.push_back(uuid);
        lives.push_back({place(wanted.uuid, one.profile, one.start), now_ms, 0});
      }
      std::erase_if(assignment.segments,
                    [&](const actuate::AssignedSegment& old) { return old.device == uuid; });
      if (!one.segment.service.empty())
        assignment.segments.push_back({one, one.segment, uuid, wanted.uuid});
    }
    std::ranges::sort(kept, {}, &device::Instance::start);
    found->instances = kept;
  }

  static std::string place(const std::string& gpu, const std::string& profile, int start) {
    return fmt::format("{} {} {}", gpu, profile, start);
  }
  void gone(const std::string& place, std::int64_t now_ms) {
    for (Life& life : lives)
      if (life.place == place && life.gone_ms == 0) life.gone_ms = now_ms;
  }

  std::vector<ApplyEnd> ended_;
  std::map<std::string, double> arrived_;
  std::int64_t last_ms_ = 0;
  int next_ = 0;
};

inline Seen with_services(const std::string& text) {
  Seen seen;
  seen.services_file = text;
  return seen;
}
inline Seen with_request(Request request) {
  Seen seen;
  seen.asked.push_back({std::move(request), "ops"});
  return seen;
}

}  // namespace partita::control
