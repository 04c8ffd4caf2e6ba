#include "act/change_forms.h"

#include <fmt/format.h>

#include "base/json_writer.h"

namespace partita::actuate {
namespace {

// Shares are sums of throughputs in some order.
constexpr double kWhole = 1 - 1e-9;

void write_place(JsonWriter& out, const Place& place) {
  out.raw(R"("gpu": )").number(long{place.gpu}).raw(R"(, "gpu_uuid": )").string(place.gpu_uuid);
  out.raw(R"(, "profile": )").string(place.profile);
  out.raw(R"(, "start": )").number(long{place.start});
}

void write_segment(JsonWriter& out, const Segment& segment) {
  if (segment.service.empty()) return;
  out.raw(R"(, "service": )").string(segment.service);
  out.raw(R"(, "batch": )").number(long{segment.batch});
  out.raw(R"(, "processes": )").number(long{segment.processes});
}

void write_present(JsonWriter& out, const Present& one) {
  out.raw("{");
  write_place(out, one.place);
  out.raw(R"(, "gi_id": )").number(long{one.gi_id}).raw(R"(, "uuid": )").string(one.uuid);
  write_segment(out, one.segment);
  out.raw(R"(, "busy": )").boolean(!one.holders.empty()).raw(R"(, "ours": )").boolean(one.ours);
  out.raw("}");
}

void write_creation(JsonWriter& out, const Creation& one) {
  out.raw("{");
  write_place(out, one.place);
  write_segment(out, one.segment);
  out.raw("}");
}

void write_move(JsonWriter& out, const Move& one) {
  out.raw("{");
  write_place(out, one.to.place);
  write_segment(out, one.to.segment);
  out.raw(R"(, "from": )");
  write_present(out, one.from);
  out.raw("}");
}

void write_step(JsonWriter& out, const Step& step) {
  out.raw(R"({"op": )").string(to_string(step.kind)).raw(", ");
  write_place(out, step.place);
  write_segment(out, step.segment);
  if (step.temporary) out.raw(R"(, "temporary": true)");
  out.raw(R"(, "predicted_s": )").number(step.predicted.value).raw("}");
}

void write_affected(JsonWriter& out, const Affected& one) {
  out.raw(R"({"name": )").string(one.service);
  out.raw(R"(, "unavailable_s": )").number(one.unavailable.value);
  out.raw(R"(, "below_s": )").number(one.below.value);
  out.raw(R"(, "least_available": )").number(one.least);
  if (!one.why_below.empty()) out.raw(R"(, "why": )").string(one.why_below);
  out.raw("}");
}

void write_blocker(JsonWriter& out, const Blocker& one) {
  out.raw("{");
  write_place(out, one.instance.place);
  out.raw(R"(, "uuid": )").string(one.instance.uuid);
  out.raw(R"(, "pid": )").number(static_cast<long>(one.holder.pid));
  out.raw(R"(, "name": )").string(one.holder.name).raw("}");
}

template <class Items, class Write>
void write_list(JsonWriter& out, const char* key, const Items& items, Write write) {
  out.raw(",\n \"").raw(key).raw("\": ");
  out.list(items, "  ", [&](const auto& one) { write(out, one); });
}

std::string segment_text(const Segment& segment) {
  if (segment.service.empty()) return {};
  return fmt::format("  {} b{}x{}", segment.service, segment.batch, segment.processes);
}

}  // namespace

std::string change_json(const Change& change) {
  JsonWriter out;
  out.raw(R"({"api_version": "partita/v1", "kind": "Change")");
  write_list(out, "keep", change.keep, write_present);
  write_list(out, "destroy", change.destroy, write_present);
  write_list(out, "create", change.create, write_creation);
  write_list(out, "move", change.move, write_move);
  write_list(out, "reassign", change.reassign, [](JsonWriter& to, const Reassignment& one) {
    write_creation(to, {one.from.place, one.to});
  });
  write_list(out, "temporary", change.temporary, write_creation);
  write_list(out, "steps", change.steps, write_step);
  write_list(out, "affected_services", change.affected, write_affected);
  write_list(out, "blockers", change.blockers, write_blocker);
  write_list(out, "explanation", change.explanation,
             [](JsonWriter& to, const std::string& sentence) { to.string(sentence); });
  const plan::Changes& counts = change.changes;
  out.raw(",\n \"changes\": {\"kept\": ").number(long{counts.kept});
  out.raw(", \"restarted\": ").number(long{counts.restarted});
  out.raw(", \"moved\": ").number(long{counts.moved});
  out.raw(", \"created\": ").number(long{counts.created});
  out.raw(", \"removed\": ").number(long{counts.removed}).raw("}");
  out.raw(",\n \"kept_gpcs\": ").number(long{change.kept_gpcs});
  out.raw(",\n \"predicted_s\": ").number(change.predicted.value).raw("}\n");
  return out.take();
}

std::string step_text(const Step& step) {
  const char* mark = step.temporary ? " (stand-in)" : "";
  switch (step.kind) {
    case Step::Kind::enable_mig:
      return fmt::format("turn MIG on, on gpu {}", step.place.gpu);
    case Step::Kind::create_instance:
      return fmt::format("create {}{}", to_string(step.place), mark);
    case Step::Kind::create_compute:
      return fmt::format("create its compute instance, {}", to_string(step.place));
    case Step::Kind::start:
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

std::string change_summary(const Change& change) {
  std::string text = fmt::format("instances: {}\n", to_string(change.changes));
  for (const Present& one : change.destroy) {
    text += fmt::format("  - {}{}{}\n", to_string(one.place), segment_text(one.segment),
                        one.ours || !one.segment.service.empty() ? "" : "  (not made by Partita)");
  }
  for (const Creation& one : change.create) {
    text += fmt::format("  + {}{}\n", to_string(one.place), segment_text(one.segment));
  }
  for (const Reassignment& one : change.reassign) {
    text += fmt::format("  ~ {}{}\n", to_string(one.from.place), segment_text(one.to));
  }
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
    text += fmt::format("blocked by: pid {} {} on {} ({})\n", one.holder.pid, one.holder.name,
                        to_string(one.instance.place), one.instance.uuid);
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
