#include "actuate/executor.h"

#include <fmt/format.h>

#include <algorithm>

#include "actuate/workers_on.h"
#include "base/check.h"

namespace partita::actuate {
namespace {

constexpr std::int64_t kPollNs = 20'000'000;  // between two looks at who holds an instance

std::int64_t ns(Seconds time) { return static_cast<std::int64_t>(time.value * 1e9); }

std::string holders_text(const std::vector<device::Holder>& holders) {
  std::string text;
  for (const device::Holder& holder : holders) {
    text += fmt::format("{}pid {}{}", text.empty() ? "" : ", ", holder.pid,
                        holder.name.empty() ? "" : " (" + holder.name + ")");
  }
  return text;
}

}  // namespace

Result<void> write_assignment(const Doors& doors, Assignment& assignment) {
  ++assignment.revision;
  std::sort(assignment.segments.begin(), assignment.segments.end(),
            [](const AssignedSegment& a, const AssignedSegment& b) { return a.device < b.device; });
  return doors.files.write_atomic(assignment_path(doors.state_dir), assignment_json(assignment));
}

Result<void> Executor::run(const Change& change, const device::NodeState& state) {
  change_ = &change;
  there_.clear();
  stopped_.clear();
  waited_in_vain_ = false;
  for (const device::GpuState& gpu : state.gpus) {
    models_[gpu.index] = gpu.model;
    for (const device::Instance& one : gpu.instances) {
      there_[{gpu.index, one.start, one.profile}] = {one.gi_id, one.compute};
    }
  }
  for (step_ = 0; step_ < change.steps.size(); ++step_) {
    observe_({ApplyEvent::Kind::step, change_, step_, ""});
    if (auto done = carry_out(change.steps[step_]); !done) return done;
    observe_({ApplyEvent::Kind::done_step, change_, step_, ""});
  }
  return {};
}

Result<void> Executor::carry_out(const Step& step) {
  switch (step.kind) {
    case Step::Kind::enable_mig:
      return enable_mig(step);
    case Step::Kind::create_instance:
      return create_instance(step);
    case Step::Kind::create_compute:
      return create_compute(step);
    case Step::Kind::start:
      return start(step);
    case Step::Kind::stop:
      return stop(step);
    case Step::Kind::drain:
      return drain(step);
    case Step::Kind::destroy_compute:
      return destroy_compute(step);
    case Step::Kind::destroy_instance:
      return destroy_instance(step);
  }
  return {};
}

Result<void> Executor::enable_mig(const Step& step) {
  ++driver_calls_;
  const Result<device::ModeChange> mode = doors_.driver.set_mig_mode(step.place.gpu, true);
  if (!mode) return failed(mode.error());
  if (*mode == device::ModeChange::done) return {};
  return failed({ErrorCode::reset_required,
                 fmt::format("MIG mode is stored and takes effect after a reset: run nvidia-smi "
                             "--gpu-reset -i {}, then apply again",
                             step.place.gpu),
                 fmt::format("gpu {}", step.place.gpu)});
}

Result<void> Executor::intend(const Place& place) { return journal_.append(IntentRecord{place}); }

bool Executor::intended(const Place& place) const {
  const std::vector<Place>& all = journal_.state().intended;
  return std::find(all.begin(), all.end(), place) != all.end();
}

Result<void> Executor::create_instance(const Step& step) {
  const Place& place = step.place;
  const Result<int> number = nvml_enum(place);
  if (!number) return failed(number.error());
  if (auto noted = intend(place); !noted) return noted;
  ++driver_calls_;
  const Result<int> made = doors_.driver.create_instance(place.gpu, {*number, place.start});
  if (!made) return failed(made.error());
  there_[{place.gpu, place.start, place.profile}] = {*made, {}};
  return {};
}

// The board's number of the profile; the catalogue's entry of that name says it.
Result<int> Executor::nvml_enum(const Place& place) const {
  for (const hw::GpuModel& model : doors_.catalogue.gpus) {
    if (model.name != models_.at(place.gpu)) continue;
    const int profile = model.profile_index(place.profile);
    if (profile >= 0) return model.profiles[static_cast<std::size_t>(profile)].nvml_enum;
  }
  return bad_input(to_string(place), "the catalogue does not know this profile");
}

Result<void> Executor::create_compute(const Step& step) {
  const Place& place = step.place;
  There& there = there_.at({place.gpu, place.start, place.profile});
  if (!intended(place)) {  // what others left half made
    if (auto noted = intend(place); !noted) return noted;
  }
  ++driver_calls_;
  const Result<device::ComputeInstance> made = doors_.driver.create_compute(place.gpu, there.gi_id);
  if (!made) return failed(made.error());
  there.compute = {*made};
  return journal_.append(MadeRecord{place, made->uuid});
}

Result<void> Executor::start(const Step& step) {
  const Place& place = step.place;
  const There& there = there_.at({place.gpu, place.start, place.profile});
  const std::string& device = there.compute.front().uuid;
  const Segment& segment = step.segment;
  std::erase_if(assignment_.segments, [&](const auto& one) { return one.device == device; });
  assignment_.segments.push_back({device, place.gpu_uuid, place.profile, place.start,
                                  segment.service, segment.batch, segment.processes,
                                  segment.throughput_rps});
  if (auto written = write_assignment(doors_, assignment_); !written) return written;
  return wait_until_ready(step, device);
}

Result<void> Executor::wait_until_ready(const Step& step, const std::string& device) {
  if (options_.ready_timeout.value <= 0) return {};
  const std::int64_t until = doors_.clock.now_ns() + ns(options_.ready_timeout);
  const int gi_id = there_.at({step.place.gpu, step.place.start, step.place.profile}).gi_id;
  while (true) {
    const auto held = holders(step.place, gi_id);
    if (!held) return failed(held.error());
    if (!held->empty()) return {};
    if (doors_.clock.now_ns() >= until) break;
    doors_.clock.sleep_ns(kPollNs);
  }
  waited_in_vain_ = true;
  return failed(
      {ErrorCode::timeout,
       fmt::format("no process of {} came up on {} within {} s; is the supervisor running?",
                   step.segment.service, device, options_.ready_timeout.value),
       to_string(step.place)});
}

Result<void> Executor::stop(const Step& step) {
  const Place& place = step.place;
  const Key key{place.gpu, place.start, place.profile};
  const There& there = there_.at(key);
  for (const device::ComputeInstance& compute : there.compute) {
    const auto found =
        std::find_if(assignment_.segments.begin(), assignment_.segments.end(),
                     [&](const AssignedSegment& one) { return one.device == compute.uuid; });
    if (found == assignment_.segments.end()) continue;
    stopped_[key] = *found;
    assignment_.segments.erase(found);
  }
  return write_assignment(doors_, assignment_);
}

Result<std::vector<device::Holder>> Executor::holders(const Place& place, int gi_id) {
  const Result<device::GpuState> gpu = doors_.driver.read(place.gpu);
  if (!gpu) return failed(gpu.error());
  if (gpu->lost) return failed({ErrorCode::lost, "the GPU fell off the bus", to_string(place)});
  for (const device::Instance& one : gpu->instances) {
    if (one.gi_id == gi_id) return one.holders;
  }
  return std::vector<device::Holder>{};
}

// The driver knows who has opened the instance; a worker that has only just been started has not.
Result<std::string> Executor::users(const Place& place) {
  const There& there = there_.at({place.gpu, place.start, place.profile});
  const auto held = holders(place, there.gi_id);
  if (!held) return failed(held.error());
  if (!held->empty() || doors_.processes == nullptr) return holders_text(*held);
  const WorkersDoors doors{*doors_.processes, doors_.files, workers_path(doors_.state_dir)};
  for (const device::ComputeInstance& compute : there.compute) {
    Result<std::string> workers = workers_on(doors, compute.uuid, assignment_.revision);
    if (!workers || !workers->empty()) return workers;
  }
  return std::string{};
}

Result<void> Executor::drain(const Step& step) {
  const Key key{step.place.gpu, step.place.start, step.place.profile};
  const std::int64_t until = doors_.clock.now_ns() + ns(options_.drain_timeout);
  bool told = false;
  while (true) {
    const Result<std::string> left = users(step.place);
    if (!left) return failed(left.error());
    if (left->empty()) return {};
    if (!told) {
      observe_({ApplyEvent::Kind::waiting, change_, step_, *left});
      told = true;
    }
    if (doors_.clock.now_ns() < until) {
      doors_.clock.sleep_ns(kPollNs);
      continue;
    }
    waited_in_vain_ = true;
    // The service keeps what it has: its segment goes back where it was.
    if (const auto stopped = stopped_.find(key); stopped != stopped_.end()) {
      assignment_.segments.push_back(stopped->second);
      if (auto written = write_assignment(doors_, assignment_); !written) return written;
    }
    return failed({ErrorCode::in_use,
                   fmt::format("still held by {} after {} s", *left, options_.drain_timeout.value),
                   to_string(step.place)});
  }
}

template <class Call>
Result<void> Executor::once_free(Call call) {
  const std::int64_t until = doors_.clock.now_ns() + ns(options_.drain_timeout);
  while (true) {
    ++driver_calls_;
    const Result<void> done = call();
    const bool held = !done && done.error().code == ErrorCode::in_use;
    waited_in_vain_ = held && doors_.clock.now_ns() >= until;
    if (!held || waited_in_vain_) return done;
    doors_.clock.sleep_ns(kPollNs);
  }
}

Result<void> Executor::destroy_compute(const Step& step) {
  const Place& place = step.place;
  There& there = there_.at({place.gpu, place.start, place.profile});
  while (!there.compute.empty()) {
    const device::ComputeInstance one = there.compute.back();
    const std::vector<std::string>& owned = journal_.state().owned;
    const bool ours = std::find(owned.begin(), owned.end(), one.uuid) != owned.end();
    // Without it, its GPU instance is still ours but has no UUID to know it by.
    if (ours) {
      if (auto noted = intend(place); !noted) return noted;
    }
    const auto gone =
        once_free([&] { return doors_.driver.destroy_compute(place.gpu, there.gi_id, one.ci_id); });
    if (!gone) return gone;
    there.compute.pop_back();
    if (!ours) continue;
    if (auto noted = journal_.append(GoneRecord{one.uuid}); !noted) return noted;
  }
  return {};
}

Result<void> Executor::destroy_instance(const Step& step) {
  const Place& place = step.place;
  const Key key{place.gpu, place.start, place.profile};
  const auto gone =
      once_free([&] { return doors_.driver.destroy_instance(place.gpu, there_.at(key).gi_id); });
  if (!gone) return gone;
  there_.erase(key);
  if (!intended(place)) return {};
  return journal_.append(MadeRecord{place, ""});
}

}  // namespace partita::actuate
