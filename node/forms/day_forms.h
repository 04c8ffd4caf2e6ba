// Forms of plans for a day (plan/day.h): JSON, text and SVG pictures.
#pragma once

#include <string>
#include <string_view>

#include "base/form.h"
#include "forms/vocabulary.h"

namespace partita::forms {

// Day JSON, kind DayPlan. parse(print(day)) == day. Each period has its plan as a document of kind
// ServingPlan, which `partita apply` and the others take once it is in a file of its own.
std::string day_json(const plan::DayPlan& day);
Result<plan::DayPlan> parse_day(const std::string& file, std::string_view text);
DocumentKind day_kind();

// For people: the GPUs over the day, the periods, the changes, and what the day comes to, at most
// `width` columns wide.
std::string day_text(const plan::DayPlan& day, int width);

// A picture of the GPUs in use over the day, with changes and the plan for the peak.
// Self-contained, well-formed XML.
std::string day_svg(const plan::DayPlan& day);

}  // namespace partita::forms
