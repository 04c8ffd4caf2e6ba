#include "sim/report_forms.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/testing/form_check.h"

namespace partita::sim {
namespace {

double any_amount() { return *rc::gen::element(0.0, 0.1, 1.0 / 3, 12345.0, 1e12); }
long any_count() { return *rc::gen::inRange(0L, 1'000'000'000'000L); }

template <class T, class Parse>
void round_trip(const T& value, Parse parse) {
  const std::string text = report_json(value);
  const auto again = parse("r.json", text);
  if (!again) RC_FAIL(to_string(again.error()));
  RC_ASSERT(*again == value);
  for (const MutatedDocument& one : mutated_documents(text)) {
    const auto read = parse("r.json", one.text);
    if (read) RC_FAIL("accepted: another type at " + one.path);
    RC_ASSERT(read.error().context == "r.json:" + std::to_string(one.line));
  }
}

RC_GTEST_PROP(ReportForms, ServingReportReadsBack, ()) {
  StatedServingReport report{{},           0.25, any_amount(), any_count(),
                             any_amount(), 9,    "00ff",       any_amount()};
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i)
    report.services.push_back({"a b", any_count(), any_count(), 0.5, Millis{any_amount()},
                               Millis{any_amount()}, Millis{any_amount()}, Rps{any_amount()}});
  round_trip(report, parse_serving_report);
  StatedDayReport day;
  for (int i = *rc::gen::inRange(0, 3); i > 0; --i)
    day.periods.push_back({"08:00", "20:00", i, report});
  round_trip(day, parse_day_report);
}

RC_GTEST_PROP(ReportForms, BatchReportReadsBack, ()) {
  StatedBatchReport report{.scheduler = "far",
                           .runs = 20,
                           .spread = 0.1,
                           .makespan = {any_amount(), any_amount(), 1, 2, 3},
                           .tasks = {},
                           .events = any_count(),
                           .events_per_second = any_amount(),
                           .seed = 1,
                           .log_hash = "0"};
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    report.tasks.push_back({"t", any_amount(), any_amount(), {}, {}});
    if (*rc::gen::arbitrary<bool>()) report.tasks.back().deadline_s = any_amount();
    if (report.tasks.back().deadline_s) report.tasks.back().missed = 0.5;
  }
  round_trip(report, parse_batch_report);
}

}  // namespace
}  // namespace partita::sim
