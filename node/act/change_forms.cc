#include "act/change_forms.h"

#include <fmt/format.h>

#include "base/form_rules.h"

namespace partita::actuate {
namespace {

// Shares are sums of throughputs in some order.
constexpr double kWhole = 1 - 1e-9;

constexpr Range kChangeCounts{.high = 1e9};

// What a person reads; throughput is not shown.
void describe_segment(Form& f, Segment& segment) {
  if (!f.given("service", !segment.service.empty())) return;
  f.name("service", segment.service, "that runs there; missing: none");
  f.integer("batch", segment.batch, kChangeCounts, "largest batch");
  f.integer("processes", segment.processes, kChangeCounts, "that share it");
}

void describe_present(Form& f, Present& one) {
  describe_place(f, one.place);
  f.integer("gi_id", one.gi_id, {.low = -1, .high = kChangeCounts.high},
            "of the GPU instance; -1: whole GPUs");
  f.note("uuid", one.uuid, "of its MIG device");
  describe_segment(f, one.segment);
  f.told("busy", !one.holders.empty(), "processes hold it");
  f.boolean("ours", one.ours, "made by Partita");
}

void describe_creation(Form& f, Creation& one) {
  describe_place(f, one.place);
  describe_segment(f, one.segment);
  f.optional(!one.devices.empty()).note("devices", one.devices, "the whole GPUs of its group");
}

void describe_reassignment(Form& f, Reassignment& one) {
  describe_place(f, one.from.place);
  describe_segment(f, one.to);
}

void describe_move(Form& f, Move& one) {
  describe_creation(f, one.to);
  f.object("from", one.from, describe_present, "where it was");
}

void describe_step(Form& f, Step& step) {
  describe_step_kind(f, step.kind);
  describe_place(f, step.place);
  describe_segment(f, step.segment);
  f.optional(step.temporary).boolean("temporary", step.temporary, "of a stand-in");
  f.optional(!step.devices.empty()).note("devices", step.devices, "the whole GPUs of its group");
  f.number("predicted_s", step.predicted, kNotNegative, "of driver time");
}

void describe_blocker(Form& f, Blocker& one) {
  describe_place(f, one.instance.place);
  f.note("uuid", one.instance.uuid, "of its MIG device");
  f.whole("pid", one.holder.pid, kNotNegative, "of the process that holds it");
  f.note("name", one.holder.name, "of that process");
}

void describe_change(Form& f, Change& change) {
  const ListForm rows{.indent = "  "};
  f.document("Change");
  f.line(" ").list("keep", change.keep, describe_present, rows, "instances that stay");
  f.line(" ").list("destroy", change.destroy, describe_present, rows, "that go");
  f.line(" ").list("create", change.create, describe_creation, rows, "that come");
  f.line(" ").list("move", change.move, describe_move, rows, "pairs out of destroy and create");
  f.line(" ").list("reassign", change.reassign, describe_reassignment, rows,
                   "that stay and run something else");
  f.line(" ").list("temporary", change.temporary, describe_creation, rows, "stand-ins");
  f.line(" ").list("steps", change.steps, describe_step, rows, "in order");
  f.line(" ").list("affected_services", change.affected, describe_affected, rows,
                   "how far they go down");
  f.line(" ").list("blockers", change.blockers, describe_blocker, rows, "what is in the way");
  f.line(" ").notes("explanation", change.explanation, rows, "a sentence for each decision");
  f.line(" ").object("changes", change.changes, describe_counts, "counted as planners count");
  f.line(" ").integer("kept_gpcs", change.kept_gpcs, kChangeCounts, "slices left untouched");
  f.line(" ").number("predicted_s", change.predicted, kNotNegative, "of driver time");
}

std::string segment_text(const Segment& segment) {
  if (segment.service.empty()) return {};
  return fmt::format("  {} b{}x{}", segment.service, segment.batch, segment.processes);
}

// Whose an instance is that runs nothing of ours.
std::string owner_text(const Present& one) {
  for (const device::Holder& holder : one.holders)
    if (holder.is_lease()) return fmt::format("  (lent: {})", holder.name);
  return one.ours || !one.segment.service.empty() ? "" : "  (not made by Partita)";
}

}  // namespace

void describe_place(Form& f, Place& place) {
  f.integer("gpu", place.gpu, kChangeCounts, "the driver's index");
  f.note("gpu_uuid", place.gpu_uuid, "of the GPU");
  f.note("profile", place.profile, "catalogue name");
  f.integer("start", place.start, kChangeCounts, "first memory slice");
}

void describe_step_kind(Form& f, Step::Kind& kind) {
  f.word("op", kind, kStepKinds, "what is done");
}

void describe_affected(Form& f, Affected& one) {
  f.note("name", one.service, "of the service");
  f.number("unavailable_s", one.unavailable, kNotNegative, "with nothing running");
  f.number("below_s", one.below, kNotNegative, "below its minimum");
  f.number("least_available", one.least, {.high = 1 + 1e-6},
           "share of its capacity, at any moment");
  f.optional(!one.why_below.empty()).note("why", one.why_below, "why it goes below");
}

void describe_counts(Form& f, plan::Changes& counts) {
  f.integer("kept", counts.kept, kChangeCounts, "instances that stay as they are");
  f.integer("restarted", counts.restarted, kChangeCounts, "stay, with other processes");
  f.integer("moved", counts.moved, kChangeCounts, "are created elsewhere");
  f.integer("created", counts.created, kChangeCounts, "are new");
  f.integer("removed", counts.removed, kChangeCounts, "go");
}

std::string change_json(const Change& change) { return write_form(change, describe_change); }

DocumentKind change_kind() {
  return document_kind<Change, describe_change, "Change",
                       "what has to happen so that a node becomes as wanted">();
}

std::string step_text(const Step& step) {
  const char* mark = step.temporary ? " (stand-in)" : "";
  switch (step.kind) {
    case Step::Kind::enable_mig:
      return fmt::format("turn MIG on, on gpu {}", step.place.gpu);
    case Step::Kind::disable_mig:
      return fmt::format("turn MIG off, on gpu {}", step.place.gpu);
    case Step::Kind::create_instance:
      return fmt::format("create {}{}", to_string(step.place), mark);
    case Step::Kind::create_compute:
      return fmt::format("create its compute instance, {}", to_string(step.place));
    case Step::Kind::start:
      if (const std::vector<std::string> whole = whole_gpus(step.devices); !whole.empty())
        return fmt::format("start {} on {} whole GPUs together, gpu {} first", step.segment.service,
                           whole.size(), step.place.gpu);
      return fmt::format("start {} on {}{}", step.segment.service, to_string(step.place), mark);
    case Step::Kind::stop:
      return fmt::format("stop {} on {}{}", step.segment.service, to_string(step.place), mark);
    case Step::Kind::drain:
      return fmt::format("wait until nobody holds {}", to_string(step.place));
    case Step::Kind::destroy_compute:
      return fmt::format("destroy its compute instance, {}", to_string(step.place));
    case Step::Kind::destroy_instance:
      return fmt::format("destroy {}{}", to_string(step.place), mark);
  }
  return {};
}

std::string instances_text(const Change& change) {
  return fmt::format("{} instances kept, {} created, {} destroyed", change.keep.size(),
                     change.create.size(), change.destroy.size());
}

std::string change_summary(const Change& change) {
  std::string text = fmt::format("instances: {}\n", to_string(change.changes));
  for (const Present& one : change.destroy)
    text += fmt::format("  - {}{}{}\n", to_string(one.place), segment_text(one.segment),
                        owner_text(one));
  for (const Creation& one : change.create) {
    const std::string place =
        one.devices.empty() ? to_string(one.place) : fmt::format("gpu {} whole", one.place.gpu);
    text += fmt::format("  + {}{}\n", place, segment_text(one.segment));
  }
  for (const Reassignment& one : change.reassign)
    text += fmt::format("  ~ {}{}\n", to_string(one.from.place), segment_text(one.to));
  return text;
}

std::string affected_text(const std::vector<Affected>& affected) {
  if (affected.empty()) return {};
  std::string text = "affected services\n", unharmed;
  for (const Affected& one : affected) {
    if (one.least >= kWhole && one.below.value <= 0) {
      unharmed += (unharmed.empty() ? "" : ", ") + one.service;
      continue;
    }
    text += fmt::format(
        "  {}: down to {:.0f} %, {:.2f} s below its minimum, {:.2f} s with nothing running\n",
        one.service, 100 * one.least, one.below.value, one.unavailable.value);
    if (!one.why_below.empty()) text += fmt::format("    {}\n", one.why_below);
  }
  if (!unharmed.empty()) text += fmt::format("  at 100 % all the time: {}\n", unharmed);
  return text;
}

std::string change_text(const Change& change, bool explain) {
  std::string text = change_summary(change);
  if (!change.steps.empty()) text += "\nsteps\n";
  for (std::size_t i = 0; i < change.steps.size(); ++i) {
    const Step& step = change.steps[i];
    text += fmt::format("  {:>3}  {}", i + 1, step_text(step));
    if (step.predicted.value > 0) text += fmt::format("  {:.2f} s", step.predicted.value);
    text += "\n";
  }
  if (!change.affected.empty()) text += "\n" + affected_text(change.affected);
  for (const Blocker& one : change.blockers) {
    const std::string who = one.holder.is_lease()
                                ? one.holder.name
                                : fmt::format("pid {} {}", one.holder.pid, one.holder.name);
    text += fmt::format("blocked by: {} on {} ({})\n", who, to_string(one.instance.place),
                        one.instance.uuid);
  }
  if (explain && !change.explanation.empty()) text += "\nwhy\n";
  for (const std::string& sentence : change.explanation) {
    if (explain) text += "  " + sentence + "\n";
  }
  text +=
      fmt::format("\npredicted {:.2f} s of driver time; rollback point: the node as it is now\n",
                  change.predicted.value);
  return text;
}

}  // namespace partita::actuate
