// Documents of what was simulated: report_json of serving.h and batch.h writes them; here they are
// read, and described.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "sim/batch.h"
#include "sim/serving.h"

namespace partita::sim {

// What a document of kind ServingReport says.
struct StatedServingReport {
  std::vector<ServiceReport> services;
  double internal_slack = 0, external_fragmentation = 0;
  long events = 0;
  double events_per_second = 0;
  std::uint64_t seed = 0;
  std::string log_hash;
  double load = 1;
  bool operator==(const StatedServingReport&) const = default;
};
std::string report_json(const StatedServingReport& report);
Result<StatedServingReport> parse_serving_report(const std::string& file, std::string_view text);
StatedServingReport stated(const ServingReport& report, std::uint64_t seed,
                           double events_per_second);

// What a document of kind DayReport says: of a plan for a day (plan/day.h), each period by itself.
struct StatedDayReport {
  struct Period {
    std::string from, to;  // times of day, "08:00"
    int gpus = 0;          // of its plan
    StatedServingReport report;
    bool operator==(const Period&) const = default;
  };
  std::vector<Period> periods;
  bool operator==(const StatedDayReport&) const = default;
};
std::string report_json(const StatedDayReport& report);
Result<StatedDayReport> parse_day_report(const std::string& file, std::string_view text);

// What a document of kind BatchReport says, times in seconds.
struct StatedBatchReport {
  struct Makespan {
    double planned = 0, mean = 0, p50 = 0, p95 = 0, worst = 0;
    bool operator==(const Makespan&) const = default;
  };
  struct Task {
    std::string task;
    double planned_end_s = 0, mean_end_s = 0;
    std::optional<double> deadline_s, missed;
    bool operator==(const Task&) const = default;
  };
  std::string scheduler;
  int runs = 0;
  double spread = 0, reconfiguration_spread = 0;
  Makespan makespan;
  std::vector<Task> tasks;
  long events = 0;
  double events_per_second = 0;
  std::uint64_t seed = 0;
  std::string log_hash;
  bool operator==(const StatedBatchReport&) const = default;
};
std::string report_json(const StatedBatchReport& report);
Result<StatedBatchReport> parse_batch_report(const std::string& file, std::string_view text);

// The kinds of these documents.
std::vector<DocumentKind> document_kinds();

}  // namespace partita::sim
