// Forms of the serving vocabulary: services file (YAML or JSON), plan JSON, text and SVG pictures.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "forms/vocabulary.h"
#include "hw/catalogue.h"
#include "plan/advice.h"
#include "plan/serving.h"

namespace partita::forms {

// The services file of interfaces: a list under `services`. Refused with FILE:LINE: missing or
// unknown keys, wrong types, rates and SLOs that are not positive and finite, duplicate names,
// percentiles outside (0, 100), unknown names in anti_affinity, traffic that cannot be, more than
// kMaxServices. Traces are named, not loaded: a service whose rate is that of its trace has rate 0.
inline constexpr int kMaxServices = 1'000'000;
struct ServicesFile {
  std::vector<Service> services;
  int survive = 0;  // GPUs that may be lost: `survive: gpu` at the top is 1
};
// Reads the text of a file that the services file names: of `lengths`. Null: none can be named.
using FileText = std::function<Result<std::string>(const std::string& file)>;
Result<ServicesFile> parse_services_file(const std::string& file, std::string_view text,
                                         const FileText& files = {});
// Its services alone.
Result<std::vector<Service>> parse_services(const std::string& file, std::string_view text,
                                            const FileText& files = {});

// Plan JSON, kind ServingPlan, api_version partita/v1. parse(print(plan)) == plan. Reading needs
// api_version, kind, gpu_model, gpus and services; a missing objective is counted, and planner,
// slo_rule (queueing), stats, explanation and a GPU's model may be missing too. Unknown keys are
// left alone. Types and bounds are checked; whether the plan is right is for the judge.
// `changes`: key `incremental`, of a plan that was made from what ran before; not read.
struct PlanChanges {
  struct Point {
    int gpus = 0;
    double cost = 0;
    int moves = 0, lower_bound_moves = 0;
    bool proven = false;
  };
  int kept = 0, restarted = 0, moved = 0, created = 0, removed = 0;
  std::vector<Point> curve;
};
// `advice`: key of that name; not read either.
std::string plan_json(const ServingPlan& plan, const std::optional<PlanChanges>& changes = {},
                      const std::vector<plan::SloAdvice>& advice = {});
DocumentKind plan_kind();
// The same as an object in another document.
void describe_plan(Form& f, ServingPlan& plan);
Result<ServingPlan> parse_plan(const std::string& file, std::string_view text);
Result<ServingPlan> read_plan(const Document& document);

struct PictureOptions {
  bool colour = false;  // ANSI colours (terminals only)
  int max_gpus = 64;    // text form stops there and says how many more there are
  bool explain = false;
  int width = 100;  // columns of the text form
};

// For people: a bar of slices for every GPU, a table of services, the objective with its bound.
std::string plan_text(const ServingPlan& plan, const hw::Catalogue& catalogue,
                      const PictureOptions& options);

// Sentences on services whose SLO is near the fastest batch, under a plan; empty without advice.
std::string advice_text(const std::vector<plan::SloAdvice>& advice, int width = 100);

// A picture of every GPU's slices: one row per GPU (in columns when there are many), one box per
// instance, coloured by service, all facts on hover, with a legend and the numbers of the slices. A
// page has kSvgPageGpus GPUs; the last of at most kMaxSvgPages says how many are left out, the
// legend how many services beyond kMaxSvgLegend. Self-contained, well-formed XML for any plan.
inline constexpr int kSvgPageGpus = 150, kMaxSvgPages = 100;
inline constexpr int kMaxSvgLegend = 120;
int plan_svg_pages(const ServingPlan& plan);  // at least 1
std::string plan_svg(const ServingPlan& plan, const hw::Catalogue& catalogue, int page = 0);

}  // namespace partita::forms
