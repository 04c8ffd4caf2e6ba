#include "model/energy/energy_forms.h"

#include <set>

#include "base/form_rules.h"

namespace partita::energy {
namespace {

constexpr Range kShare{.high = 1e6};
constexpr Range kJoules{.high = 1e12};
constexpr ListForm kLines{.indent = "    "};

void describe(Form& f, ComponentCost& cost) {
  f.name("name", cost.name, "of the component");
  f.number("joules_per_access", cost.joules, kNotNegative,
           "what an access costs; of power and activity: watts at an activity of 1");
  f.optional().number("standard_error", cost.standard_error, {.high = 1e300},
                      "of it; 0: not known");
}

void describe(Form& f, ComponentColumns& columns) {
  f.name("name", columns.name, "of the component");
  f.names("columns", columns.columns, {}, "of counters that are added up for it");
}

void describe(Form& f, Outlier& outlier) {
  f.name("name", outlier.name, "of the row");
  f.number("residual", outlier.residual, kAnyNumber, "(measured - model) / measured");
}

void describe(Form& f, EnergyModel& model) {
  f.document("EnergyModel");
  f.line("  ").word("loss", model.loss, {"squares", "huber", "bisquare"}, "of the regression");
  f.boolean("watts", model.watts, "fitted to power and rates, not to energy and accesses");
  f.integer("rows", model.rows, {.high = kMaxCounterRows}, "it was fitted to");
  f.optional().number("idle_w", model.idle_w, {.high = kMaxBoardWatts},
                      "power that was taken off the measurements before");
  f.line("  ").number("residual_scale", model.residual_scale, kShare,
                      "relative, of rows that are no outliers");
  f.or_null().number("condition", model.condition, kNotNegative,
                     "of the scaled columns; null: some cannot be told apart");
  f.number("r2", model.r2, kAnyNumber, "share of the variance that is explained");
  f.number("mape", model.mape, kShare, "mean absolute relative error, of the rows themselves");
  f.line("  ").list("components", model.components, describe, kLines, "what each costs");
  f.line("  ").optional().list("columns", model.columns, describe, kLines,
                               "which columns of counters make up a component");
  f.line("  ").optional().list("outliers", model.outliers, describe, kLines,
                               "rows that the others do not explain");
  f.line("  ").optional().notes("notes", model.notes, kLines, "what else is to be known");
  if (Fields* in = f.reading()) {
    std::set<std::string> names;
    for (const ComponentCost& cost : model.components)
      if (!names.insert(cost.name).second)
        in->refuse("components", "component '" + cost.name + "' is there twice");
    if (model.components.empty()) in->refuse("components", "no component");
    if (model.columns.empty())
      for (const ComponentCost& cost : model.components)
        model.columns.push_back({cost.name, {cost.name}});
    if (model.columns.size() != model.components.size())
      in->refuse("columns", "must be as many as components");
    for (std::size_t c = 0; c < std::min(model.columns.size(), model.components.size()); ++c)
      if (model.columns[c].name != model.components[c].name)
        in->refuse("columns", "must name the components in their order");
  }
}

void describe(Form& f, Prediction::Row& row) {
  f.name("name", row.name, "of the row");
  f.number("predicted", row.predicted, kNotNegative, "joules, or watts");
  f.number("standard_error", row.error, kNotNegative, "of it, by those of the coefficients");
  f.number("measured", row.measured, kNotNegative, "where the row has it");
  f.number("epi_j", row.epi_j, kNotNegative, "joules per instruction, predicted (Eq. 5.3)");
  f.number("measured_epi_j", row.measured_epi_j, kNotNegative, "the same of the measurement");
}

void describe(Form& f, Prediction& prediction) {
  f.document("EnergyPrediction");
  f.boolean("watts", prediction.watts, "power, not energy");
  f.line("  ").list("rows", prediction.rows, describe, kLines, "in the order of the counters");
}

void describe(Form& f, Validation::Row& row) {
  f.name("name", row.name, "of the row");
  f.number("measured", row.measured, kNotNegative, "joules, or watts");
  f.number("predicted", row.predicted, kNotNegative, "by a model that has not seen it");
}

void describe(Form& f, Validation& validation) {
  f.document("EnergyValidation");
  f.line("  ").number("mape", validation.mape, kShare, "mean absolute relative error");
  f.number("worst", validation.worst, kShare, "largest relative error");
  f.note("worst_row", validation.worst_row, "where");
  f.number("bias", validation.bias, kAnyNumber, "mean relative error, with its sign");
  f.number("r2", validation.r2, kAnyNumber, "share of the variance that is explained");
  f.line("  ").list("rows", validation.rows, describe, kLines, "each left out in turn");
}

void describe(Form& f, EnergyReport::Tenant& tenant) {
  f.name("name", tenant.name, "who");
  f.number("energy_j", tenant.energy_j, kJoules, "charged in all");
  f.number("mean_w", tenant.mean_w, kNotNegative, "over the time of the report");
  f.number("uncertainty_j", tenant.uncertainty_j, kNotNegative,
           "standard deviation of energy_j; 0: the rule has none");
  f.optional().number("idle_share_j", tenant.idle_share_j, kNotNegative,
                      "of energy_j: by the idle policy");
  f.optional().boolean("known", tenant.known, "the plan names it");
  f.optional().names("services", tenant.services, {}, "of it");
  f.number("co2_g", tenant.co2_g, kNotNegative, "grams");
  f.number("cost", tenant.cost, kNotNegative, "in the money of the price");
}

void describe(Form& f, EnergyReport::Service& service) {
  f.name("name", service.name, "of the service or task");
  f.name("tenant", service.tenant, "whose it is");
  f.number("energy_j", service.energy_j, kJoules, "charged in all");
  f.number("mean_w", service.mean_w, kNotNegative, "over the time of the report");
  f.number("uncertainty_j", service.uncertainty_j, kNotNegative, "standard deviation");
  f.number("requests", service.requests, kJoules, "completed, where counts were given");
  f.number("joules_per_request", service.joules_per_request, kJoules, "energy_j / requests");
}

void describe(Form& f, EnergyReport::OnInstance& one) {
  f.integer("gpu", one.gpu, {.high = 1e6}, "index");
  f.note("gpu_uuid", one.gpu_uuid, "of the GPU");
  f.integer("gi_id", one.gi_id, {.low = -1, .high = 1e6}, "GPU instance; -1: the whole GPU");
  f.note("device", one.device, "UUID of the MIG device");
  f.note("profile", one.profile, "of the instance");
  f.name("service", one.service, "on it");
  f.name("tenant", one.tenant, "whose it is");
  f.number("energy_j", one.energy_j, kJoules, "charged in all");
  f.number("mean_w", one.mean_w, kNotNegative, "while it was there");
  f.number("present_s", one.present_s, kNotNegative, "how long it was there");
}

void describe(Form& f, EnergyReport::OfGpu& gpu) {
  f.integer("index", gpu.index, {.high = 1e6}, "of the GPU");
  f.note("uuid", gpu.uuid, "of the GPU");
  f.note("model", gpu.model, "catalogue name");
  f.number("measured_j", gpu.measured_j, kJoules, "by its counter, or by its power");
  f.number("idle_j", gpu.idle_j, kJoules, "of it: charged to nobody");
  f.number("idle_w", gpu.idle_w, kNotNegative, "taken for its power without work");
  f.note("idle_from", gpu.idle_from,
         "given, model, quiet (seen), line (through power and work) or lowest (an upper bound)");
  f.number("counter_s", gpu.counter_s, kNotNegative, "measured by the energy counter");
  f.number("power_s", gpu.power_s, kNotNegative, "measured by integrating power");
  f.number("unmeasured_s", gpu.unmeasured_s, kNotNegative, "in no figure");
  f.number("gap_s", gpu.gap_s, kNotNegative, "between samples that lie far apart");
  f.integer("resets", gpu.resets, {.high = 1e9}, "of the energy counter");
}

void describe(Form& f, EnergyReport::Compared::Part& part) {
  f.name("name", part.name, "of the tenant");
  f.number("energy_j", part.energy_j, kJoules, "by that rule");
}

void describe(Form& f, EnergyReport::Compared& compared) {
  f.name("rule", compared.rule, "model, activity, slice, kepler, equal");
  f.list("tenants", compared.tenants, describe, {}, "as above");
  f.number("idle_j", compared.idle_j, kJoules, "charged to nobody");
}

void describe(Form& f, EnergyReport& report) {
  f.document("EnergyReport");
  f.line("  ").number("from_s", report.from_s, kAnyNumber, "first sample");
  f.number("to_s", report.to_s, kAnyNumber, "last sample");
  f.line("  ").number("measured_j", report.measured_j, kJoules,
                      "by all GPUs: the tenants' energy_j and idle_j together");
  f.number("idle_j", report.idle_j, kJoules, "charged to nobody");
  f.line("  ").name("rule", report.rule, "by which power above idle is split");
  f.name("idle_policy", report.idle_policy, "by which idle power is");
  f.line("  ").list("tenants", report.tenants, describe, kLines, "by energy, falling");
  f.line("  ").list("services", report.services, describe, kLines, "by energy, falling");
  f.line("  ").list("instances", report.instances, describe, kLines, "who was where");
  f.line("  ").list("gpus", report.gpus, describe, kLines, "what was measured");
  f.line("  ")
      .optional(!report.compared.empty())
      .list("compared", report.compared, describe, kLines, "the same by other rules");
  f.line("  ").optional().notes("notes", report.notes, kLines, "what is to be known of it");
}

}  // namespace

std::string model_json(const EnergyModel& model) { return write_form(model, describe); }

Result<EnergyModel> parse_model(const std::string& file, std::string_view text) {
  return read_form<EnergyModel>(file, text, describe);
}

std::string prediction_json(const Prediction& prediction) {
  return write_form(prediction, describe);
}

std::string validation_json(const Validation& validation) {
  return write_form(validation, describe);
}

std::string report_json(const EnergyReport& report) { return write_form(report, describe); }

Result<EnergyReport> parse_report(const std::string& file, std::string_view text) {
  return read_form<EnergyReport>(file, text, describe);
}

std::vector<DocumentKind> document_kinds() {
  return {
      document_kind<EnergyModel, describe, "EnergyModel",
                    "what an access of each component costs, fitted to counters">(),
      document_kind<Prediction, describe, "EnergyPrediction",
                    "what a component model says of counters">(),
      document_kind<Validation, describe, "EnergyValidation",
                    "how well a component model predicts rows it has not seen">(),
      document_kind<EnergyReport, describe, "EnergyReport", "how many joules each tenant took">()};
}

}  // namespace partita::energy
