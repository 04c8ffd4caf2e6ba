#include "control/memory.h"

#include <algorithm>

#include "base/form_rules.h"
#include "forms/serving_forms.h"

namespace partita::control {
namespace {

constexpr Range kMemoryTimes{.high = 4e15};
constexpr Range kMemoryNumbers{.high = 1e15};
constexpr Range kMemoryIds{.high = 1e9};
constexpr std::size_t kShapeSlots = std::size_t{kShapes} * kDaySlots;

void describe_planned_for(Form& f, PlannedFor& one) {
  f.note("service", one.service, "its name");
  f.number("rate_rps", one.rate_rps, kNotNegative, "that the plan was judged against");
  f.optional(one.needed_rps > 0)
      .number("needed_rps", one.needed_rps, kNotNegative, "that it should have been made for");
}

void describe_named(Form& f, GpuNamed& one) {
  f.integer("index", one.index, kMemoryIds, "in the plan");
  f.note("uuid", one.uuid, "of that GPU of the node");
}

void describe_target(Form& f, Target& target) {
  f.lines("    ");
  f.whole("change", target.change, kMemoryNumbers, "its number");
  f.note("cause", target.cause, "why");
  f.whole("planned_ms", target.planned_ms, kMemoryTimes, "since 1970");
  f.note("services", target.services, "digest of the services file that it is for");
  f.list("rates", target.rates, describe_planned_for, {.indent = "      "}, "by service");
  f.integer("survive", target.survive, {.high = plan::kMostLost}, "GPUs that may be lost");
  f.list("gpus", target.gpus, describe_named, {.indent = "      "}, "which GPU is which");
  f.boolean("done", target.done, "the node has been as this wants it");
  f.optional(target.gain).boolean("gain", target.gain, "it only saves something");
  f.optional(target.unasked)
      .boolean("unasked", target.unasked, "decided by the agent itself, and never there yet");
  f.optional(!target.reduced.empty())
      .note("reduced", target.reduced, "what was left out because there is not enough");
  f.optional(!target.beside.empty())
      .notes("beside", target.beside, {}, "places that were lent then");
  f.object("plan", target.plan, forms::describe_plan, "a document ServingPlan");
}

void describe_out(Form& f, OutGpu& gpu) {
  f.note("uuid", gpu.uuid, "of the GPU");
  f.note("why", gpu.why, "a sentence");
  f.boolean("by_person", gpu.by_person, "until it is given back");
  f.boolean("errors", gpu.errors, "until it is reset or given back");
  f.optional(gpu.read).boolean("read", gpu.read, "errors that can be read at any time");
  f.optional(gpu.lost).boolean("lost", gpu.lost, "it was off the bus since");
  f.whole("since_ms", gpu.since_ms, kMemoryTimes, "since 1970");
  f.whole("well_ms", gpu.well_ms, kMemoryTimes, "since when it seems well; 0: it does not");
}

void describe_verdict_kept(Form& f, VerdictKept& one) {
  f.note("service", one.service, "its name");
  standing_field(f, "verdict", one.verdict, "whether it is served");
  f.whole("since_ms", one.since_ms, kMemoryTimes, "since 1970");
}

void describe_length(Form& f, LengthKept& one) {
  f.note("service", one.service, "its name");
  f.number("told_in", one.told_in, kPositive, "tokens of a prompt, by the services file");
  f.number("told_out", one.told_out, kPositive, "tokens of an answer");
  f.number("in", one.in, kPositive, "times that: as measured");
  f.number("out", one.out, kPositive, "times that: as measured");
}

void describe_fan_out(Form& f, FanOutKept& one) {
  f.note("pipeline", one.pipeline, "its name");
  f.integer("step", one.step, {.high = plan::kMostSteps - 1}, "which of its steps, from 0");
  f.number("told", one.told, kPositive, "requests of it for one of the pipeline's, by the file");
  f.number("times", one.times, kPositive, "that: as measured");
}

void describe_speed(Form& f, SpeedKept& one) {
  f.note("model", one.model, "a language model");
  f.number("slower", one.slower, kPositive, "times as long a token takes as was measured");
}

void describe_touched(Form& f, Touched& one) {
  f.note("subject", one.subject, "a service, or a GPU's UUID");
  f.whole("at_ms", one.at_ms, kMemoryTimes, "when it was changed last");
}

void describe_moves_at(Form& f, MovesAt& one) {
  f.whole("at_ms", one.at_ms, kMemoryTimes, "when");
  f.integer("moves", one.moves, kMemoryIds, "instances made");
}

void describe_made_at(Form& f, MadeAt& one) {
  f.note("gpu_uuid", one.gpu_uuid, "of the GPU");
  f.note("profile", one.profile, "catalogue name");
  f.integer("start", one.start, {.high = 1023}, "first memory slice");
  f.note("service", one.service, "that it was made for");
  f.whole("at_ms", one.at_ms, kMemoryTimes, "when");
}

struct ShapeRate {
  double rate = 0;
};

void describe_shape(Form& f, ServiceForecast& one) {
  f.note("service", one.service, "its name");
  f.whole("last_ms", one.last_ms, kMemoryTimes, "of the newest rate");
  f.number("level", one.level, kNotNegative, "of what was measured");
  f.number("expected", one.expected, kNotNegative, "of what the shape said");
  f.optional(one.worth < 1)
      .number("worth", one.worth, {.high = 1}, "of both, against one without a gap");
  f.number("slot_sum", one.slot_sum, kNotNegative, "rates of the quarter under way");
  f.integer("slot_count", one.slot_count, kMemoryIds, "how many");
  f.number("above", one.above, {.high = kWidestInterval}, "upper end, share of the forecast");
  f.number("below", one.below, {.high = kWidestInterval}, "lower end, share of the forecast");
  f.integers("days", one.days, {.high = 1000}, {.most = kShapeSlots, .least = kShapeSlots},
             "from how many days each quarter was learned");
  std::vector<ShapeRate> rates;
  for (const double rate : one.shape) rates.push_back({rate});
  f.list(
      "shape", rates,
      [](Form& form, ShapeRate& rate) { form.number("rps", rate.rate, kNotNegative, "mean"); },
      {.most = kShapeSlots, .least = kShapeSlots},
      "rates by quarter of an hour: working days, weekends");
  if (!f.reading()) return;
  one.shape.clear();
  for (const ShapeRate& rate : rates) one.shape.push_back(rate.rate);
}

void describe_memory(Form& f, AgentMemory& m) {
  f.lines("  ");
  f.document("AgentMemory");
  f.whole("changes", m.changes, kMemoryNumbers, "numbers used so far");
  f.note("services", m.services, "text of the services file that is wanted");
  f.note("services_file", m.services_file, "text of the file when it was read last");
  f.note("services_by", m.services_by, "who wanted it");
  f.word("mode", m.mode, kModes, "how changes come about");
  f.boolean("mode_set", m.mode_set, "by somebody; else the settings' holds");
  f.object("target", m.target, describe_target, "the plan in force");
  f.object("before", m.before, describe_target, "what a rollback goes back to");
  f.object("proposal", m.proposal, describe_target, "waits for a person");
  f.optional(m.quiet_until_ms > 0)
      .whole("quiet_until_ms", m.quiet_until_ms, kMemoryTimes, "a person said no until then");
  f.optional(!m.no_to.empty())
      .note("no_to", m.no_to, "services and GPUs that a person said no to");
  f.list("out", m.out, describe_out, {.indent = "    "}, "GPUs that are not used");
  f.optional().note("boot", m.boot, "the boot of the node that they were seen in");
  f.list("services_touched", m.services_touched, describe_touched, {.indent = "    "},
         "when each was changed last");
  f.list("gpus_touched", m.gpus_touched, describe_touched, {.indent = "    "},
         "when each was changed last");
  f.list("moves", m.moves, describe_moves_at, {.indent = "    "}, "of the last hour");
  f.list("made", m.made, describe_made_at, {.indent = "    "},
         "instances made within the cooldown");
  f.list("forecasts", m.forecasts, describe_shape, {.indent = "    "}, "by service");
  f.optional(!m.verdicts.empty())
      .list("verdicts", m.verdicts, describe_verdict_kept, {.indent = "    "},
            "on services, and since when");
  f.optional(!m.lengths.empty())
      .list("lengths", m.lengths, describe_length, {.indent = "    "},
            "of requests of language models");
  f.optional(!m.fan_outs.empty())
      .list("fan_outs", m.fan_outs, describe_fan_out, {.indent = "    "}, "of pipelines");
  f.optional(!m.speeds.empty())
      .list("speeds", m.speeds, describe_speed, {.indent = "    "}, "of engines");
  f.whole("drifts", m.drifts, kMemoryNumbers, "so far");
  f.whole("failed_changes", m.failed_changes, kMemoryNumbers, "so far");
  f.optional(m.batches > 0).whole("batches", m.batches, kMemoryNumbers, "numbers used so far");
  f.optional(m.batches > 0).whole("tasks_done", m.tasks_done, kMemoryNumbers, "of batches over");
  f.optional(m.batches > 0)
      .whole("tasks_failed", m.tasks_failed, kMemoryNumbers, "of batches over, or skipped");
  f.optional(m.tasks_cancelled > 0)
      .whole("tasks_cancelled", m.tasks_cancelled, kMemoryNumbers, "of batches over");
  f.optional(!m.batch.empty())
      .list("batch", m.batch, describe_batch_kept, {.indent = "    "}, "that are not over");
  f.optional(!m.past_tasks.empty())
      .list("past_tasks", m.past_tasks, describe_batch_task, {.indent = "    "},
            "of batches that are over, newest last");
  f.optional(m.power_held)
      .boolean("power_held", m.power_held, "limits or clocks of boards are the agent's");
  f.optional(!m.past_batches.empty())
      .list("past_batches", m.past_batches, describe_batch_past, {.indent = "    "}, "newest last");
}

}  // namespace

const GpuNamed* Target::named(int index) const {
  const auto found = std::ranges::find(gpus, index, &GpuNamed::index);
  return found == gpus.end() ? nullptr : &*found;
}

const plan::PlannedGpu* Target::on(const std::string& uuid) const {
  const auto named = std::ranges::find(gpus, uuid, &GpuNamed::uuid);
  if (named == gpus.end()) return nullptr;
  const auto found = std::ranges::find(plan.gpus, named->index, &plan::PlannedGpu::index);
  return found == plan.gpus.end() ? nullptr : &*found;
}

bool Target::uses(const std::string& uuid) const {
  const plan::PlannedGpu* gpu = on(uuid);
  return gpu != nullptr && !gpu->instances.empty();
}

const PlannedFor* Target::rate_of(const std::string& service) const {
  const auto found = std::ranges::find(rates, service, &PlannedFor::service);
  return found == rates.end() ? nullptr : &*found;
}

std::string memory_json(const AgentMemory& memory) { return write_form(memory, describe_memory); }

Result<AgentMemory> parse_memory(const std::string& file, std::string_view text) {
  auto memory = TRY(read_form<AgentMemory>(file, text, describe_memory));
  const auto services = forms::parse_services_file("services", memory.services);
  if (!services) return memory;
  for (std::optional<Target>* one : {&memory.target, &memory.before, &memory.proposal})
    if (*one) (*one)->plan = plan::with_terms(std::move((*one)->plan), services->services);
  return memory;
}

DocumentKind memory_kind() {
  return document_kind<AgentMemory, describe_memory, "AgentMemory",
                       "what an agent must not forget when it ends">();
}

}  // namespace partita::control
