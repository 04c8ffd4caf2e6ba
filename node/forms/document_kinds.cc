#include "forms/document_kinds.h"

#include "forms/batch_forms.h"
#include "forms/comparison_forms.h"
#include "forms/day_forms.h"
#include "forms/graph_forms.h"
#include "forms/kernel_forms.h"
#include "forms/power_forms.h"
#include "forms/reason_forms.h"
#include "forms/serving_forms.h"

namespace partita::forms {

std::vector<DocumentKind> document_kinds() {
  return {forms::plan_kind(), day_kind(),        forms::schedule_kind(), forms::graph_run_kind(),
          kernel_plan_kind(), comparison_kind(), power_plan_kind(),      batch_comparison_kind(),
          refusal_kind(),     verdict_kind()};
}

}  // namespace partita::forms
