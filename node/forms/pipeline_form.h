// Pipelines as files have them, with the words of Triton's ensemble_scheduling: steps of
// model_name, input_map, output_map; and their members among the services of a file.
#pragma once

#include "base/form.h"
#include "plan/terms.h"

namespace partita::forms {

// Refuses what is no graph (plan::graph_of).
void describe_pipeline(Form& f, plan::PipelineTerms& pipeline);

// Steps name services of the list, or models of which a member is made; each of them is asked for
// by its own clients and by all pipelines. Empty, or why not, for the service at `line`.
struct MemberRefusal {
  int line = 0;
  std::string message;
};
std::optional<MemberRefusal> add_members(std::vector<plan::Terms>& services);

// What clients ask for: of services that pipelines use their own part alone, of its rates of the
// day, too; members at 0.
std::vector<plan::Terms> at_own_rates(std::vector<plan::Terms> services);
// The same without members.
std::vector<plan::Terms> own_demands(std::vector<plan::Terms> services);

}  // namespace partita::forms
