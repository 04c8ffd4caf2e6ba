#include "act/node_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "act/workers_on.h"

namespace partita::actuate {
namespace {

// Interruptions are looked for so often.
constexpr std::int64_t kLookNs = 20'000'000;

std::string holders_text(const std::vector<device::Holder>& holders) {
  std::string text;
  for (const device::Holder& holder : holders)
    text += (text.empty() ? "" : ", ") + to_string(holder);
  return text;
}

// Answers questions at the doors.
struct Performer {
  const Doors& doors;
  Journal& journal;

  Answer operator()(const Look&) const {
    Result<Assignment> assignment = read_assignment(doors.files, doors.state_dir);
    if (!assignment) return Result<Seen>(failed(assignment.error()));
    Result<device::NodeState> state = device::read_node(doors.driver);
    if (!state) return Result<Seen>(failed(state.error()));
    return Result<Seen>(Seen{std::move(*assignment), std::move(*state)});
  }
  Answer operator()(const Note& one) const { return journal.append(one.record); }
  Answer operator()(const Assign& one) const {
    return doors.files.write_atomic(assignment_path(doors.state_dir),
                                    assignment_json(one.assignment));
  }
  Answer operator()(const SetMig& one) const {
    return named(doors.driver.set_mig_mode(one.gpu, one.enabled), one.gpu);
  }
  Answer operator()(const ResetGpu& one) const {
    if (doors.reset_gpu) return named(doors.reset_gpu(one.gpu), one.gpu);
    return Result<void>(
        failed({ErrorCode::reset_required, "the driver did not reset it when its mode was set",
                fmt::format("gpu {}", one.gpu)}));
  }
  Answer operator()(const CreateInstance& one) const {
    return doors.driver.create_instance(one.gpu, one.placement);
  }
  Answer operator()(const CreateCompute& one) const {
    return doors.driver.create_compute(one.gpu, one.gi_id);
  }
  Answer operator()(const DestroyCompute& one) const {
    return named(doors.driver.destroy_compute(one.gpu, one.gi_id, one.ci_id), one.gpu, one.gi_id);
  }
  Answer operator()(const DestroyInstance& one) const {
    return named(doors.driver.destroy_instance(one.gpu, one.gi_id), one.gpu, one.gi_id);
  }
  Answer operator()(const AskUsers& one) const { return users(one); }
  Answer operator()(const AskGateway&) const {
    if (doors.processes == nullptr) return Result<GatewaySeen>(GatewaySeen{});
    const GatewayDoors gateway{*doors.processes, doors.files, doors.state_dir};
    auto read = read_gateway(gateway, doors.clock.now_ns());
    if (!read) return Result<GatewaySeen>(failed(read.error()));
    return Result<GatewaySeen>(GatewaySeen{*std::move(read)});
  }

  // A refusal because of somebody's use says whose: of the instance, else of all of the GPU.
  template <class T>
  Result<T> named(Result<T> result, int gpu, int gi_id = -1) const {
    if (result || result.error().code != ErrorCode::in_use) return result;
    const Result<device::GpuState> state = doors.driver.read(gpu);
    if (!state) return result;
    std::vector<device::Holder> holders;
    if (gi_id < 0) holders = state->holders;
    for (const device::Instance& one : state->instances)
      if (gi_id < 0 || one.gi_id == gi_id)
        holders.insert(holders.end(), one.holders.begin(), one.holders.end());
    Error error = result.error();
    if (!holders.empty()) error.message += ": " + holders_text(holders);
    return failed(std::move(error));
  }

  Result<Users> users(const AskUsers& one) const {
    const device::GpuState gpu = TRY(doors.driver.read(one.place.gpu));
    if (gpu.lost)
      return failed({ErrorCode::lost, "the GPU fell off the bus", to_string(one.place)});
    Users users;
    const auto found = std::ranges::find(gpu.instances, one.gi_id, &device::Instance::gi_id);
    if (found != gpu.instances.end()) users.holders = found->holders;
    if (one.gi_id == kWholeGpu) users.holders = gpu.holders;
    users.text = holders_text(users.holders);
    if (!users.holders.empty() || doors.processes == nullptr) return users;
    const WorkersDoors workers{*doors.processes, doors.files, workers_path(doors.state_dir)};
    for (const std::string& device : one.devices) {
      users.text = TRY(workers_on(workers, device, one.revision));
      if (!users.text.empty()) break;
    }
    return users;
  }
};

}  // namespace

Result<ApplyReport> run_real(NodeBrain& brain, const Doors& doors, Journal& journal,
                             const ApplyObserver& observe) {
  std::vector<NodeEvent> events;
  while (true) {
    NodeActions actions = brain.step(doors.clock.now_ns(), events);
    events.clear();
    for (const ApplyEvent& event : actions.tell) observe(event);
    if (brain.finished()) return brain.result();
    if (actions.ask)
      events.emplace_back(Answered{std::visit(Performer{doors, journal}, *actions.ask)});
    const std::int64_t now = doors.clock.now_ns();
    const std::int64_t until = brain.next_wake().value_or(now);
    if (!actions.ask) doors.clock.sleep_ns(std::min(until - now, kLookNs));
    if (doors.interrupted && doors.interrupted()) events.emplace_back(Interrupted{});
  }
}

}  // namespace partita::actuate
