#include "control/state_forms.h"

#include "act/change_forms.h"

namespace partita::control {
namespace {

constexpr Range kIds{.high = 1e9};
constexpr Range kPids{.high = 4294967295.0};
constexpr Range kSlices{.high = 1023};
constexpr Range kCounts{.high = 1e6};
constexpr std::size_t kMostInstances = 64;
constexpr std::size_t kMostGpus = 1'000'000;

void describe_holder(Form& f, device::Holder& holder) {
  long pid = static_cast<long>(holder.pid);
  f.whole("pid", pid, kPids, "of a process");
  if (f.reading()) holder.pid = pid;
  f.note("name", holder.name, "empty where the driver does not tell");
}

void describe_compute(Form& f, device::ComputeInstance& compute) {
  f.integer("ci_id", compute.ci_id, kIds, "of the compute instance");
  f.integer("gpcs", compute.gpcs, kSlices, "compute slices");
  f.note("uuid", compute.uuid, "of the MIG device");
}

void describe_instance(Form& f, device::Instance& one) {
  f.note("profile", one.profile, "catalogue name");
  f.integer("start", one.start, kSlices, "first memory slice");
  f.integer("size", one.size, kSlices, "memory slices");
  f.integer("gpcs", one.gpcs, kSlices, "compute slices");
  f.integer("profile_id", one.profile_id, kIds, "the driver's");
  f.integer("gi_id", one.gi_id, kIds, "of the GPU instance");
  f.list("compute", one.compute, describe_compute, {.most = kMostInstances}, "by ci_id");
  f.list("holders", one.holders, describe_holder, {}, "processes on it");
}

void describe_gpu_state(Form& f, device::GpuState& gpu) {
  f.integer("index", gpu.index, kIds, "the driver's");
  f.note("uuid", gpu.uuid, "of the GPU");
  f.note("name", gpu.name, "the driver's product name");
  f.note("model", gpu.model, "catalogue name; empty: unknown");
  f.note("pci_device_id", gpu.pci_device_id, "as the driver says");
  f.number("memory_mib", gpu.memory.value, kNotNegative, "in all");
  f.boolean("mig_capable", gpu.mig_capable, "can be cut");
  f.boolean("mig_enabled", gpu.mig_enabled, "is in MIG mode");
  f.boolean("mig_pending", gpu.mig_pending, "the mode after the next reset");
  f.boolean("lost", gpu.lost, "fell off the bus");
  f.list("holders", gpu.holders, describe_holder, {}, "processes outside any instance");
  f.list("instances", gpu.instances, describe_instance,
         {.most = kMostInstances, .indent = "        "}, "by start");
}

// ---- a change ----

void segment_fields(Form& f, actuate::Segment& segment) {
  const bool runs = segment != actuate::Segment{};
  f.optional(runs).note("service", segment.service, "that runs there; missing: none");
  f.optional(runs).integer("batch", segment.batch, kCounts, "largest batch");
  f.optional(runs).integer("processes", segment.processes, kCounts, "that share it");
  f.optional(segment.throughput_rps != 0)
      .number("throughput_rps", segment.throughput_rps, kNotNegative, "planned to carry at most");
}

void describe_present(Form& f, actuate::Present& one) {
  actuate::describe_place(f, one.place);
  f.integer("gi_id", one.gi_id, kIds, "of the GPU instance");
  f.note("uuid", one.uuid, "of its MIG device");
  segment_fields(f, one.segment);
  f.boolean("ours", one.ours, "made by Partita");
  f.list("holders", one.holders, describe_holder, {}, "processes on it");
}

void describe_creation(Form& f, actuate::Creation& one) {
  actuate::describe_place(f, one.place);
  segment_fields(f, one.segment);
}

void describe_reassignment(Form& f, actuate::Reassignment& one) {
  f.object("from", one.from, describe_present, "as it is");
  f.object(
      "to", one.to, [](Form& form, actuate::Segment& segment) { segment_fields(form, segment); },
      "what runs there then");
}

void describe_move(Form& f, actuate::Move& one) {
  actuate::describe_place(f, one.to.place);
  segment_fields(f, one.to.segment);
  f.object("from", one.from, describe_present, "where it was");
}

void describe_step(Form& f, actuate::Step& step) {
  actuate::describe_step_kind(f, step.kind);
  actuate::describe_place(f, step.place);
  segment_fields(f, step.segment);
  f.optional(step.temporary).boolean("temporary", step.temporary, "of a stand-in");
  f.number("predicted_s", step.predicted.value, kNotNegative, "of driver time");
}

void describe_blocker(Form& f, actuate::Blocker& one) {
  f.object("instance", one.instance, describe_present, "that must be destroyed");
  f.object("holder", one.holder, describe_holder, "process that Partita does not run");
}

constexpr ListForm kRows{.indent = "        "};

}  // namespace

void describe_node(Form& f, device::NodeState& state) {
  f.note("driver", state.driver, "\"sim\", \"nvml\"");
  f.note("driver_version", state.driver_version, "as the driver says");
  f.list("gpus", state.gpus, describe_gpu_state, {.most = kMostGpus, .indent = "      "},
         "by index");
}

void describe_change(Form& f, actuate::Change& change) {
  f.lines("      ");
  f.integers("gpu_of", change.gpu_of, kIds, {}, "per GPU of the plan the driver's index");
  f.list("keep", change.keep, describe_present, kRows, "instances that stay");
  f.list("destroy", change.destroy, describe_present, kRows, "that go");
  f.list("create", change.create, describe_creation, kRows, "that come");
  f.list("reassign", change.reassign, describe_reassignment, kRows,
         "that stay and run something else");
  f.list("move", change.move, describe_move, kRows, "pairs out of destroy and create");
  f.list("temporary", change.temporary, describe_creation, kRows, "stand-ins");
  f.list("steps", change.steps, describe_step, kRows, "in order");
  f.list("affected_services", change.affected, actuate::describe_affected, kRows,
         "how far they go down");
  f.list("blockers", change.blockers, describe_blocker, kRows, "what is in the way");
  f.object("changes", change.changes, actuate::describe_counts, "counted as planners count");
  f.integer("kept_gpcs", change.kept_gpcs, kIds, "compute slices that stay untouched");
  f.number("predicted_s", change.predicted.value, kNotNegative, "of driver time");
  f.notes("explanation", change.explanation, kRows, "a sentence for each decision");
}

}  // namespace partita::control
