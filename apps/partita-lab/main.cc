// partita-lab: the research tools, which no node needs. `partita lab ...` and the names of its
// commands lead here.
#include "heat/dtm/dtm_forms.h"
#include "heat/floorplan/session_forms.h"
#include "lab_commands.h"
#include "program.h"

namespace partita::cli {
namespace {

std::vector<DocumentKind> lab_kinds() {
  std::vector<DocumentKind> kinds = floorplan::document_kinds();
  kinds.push_back(dtm::dtm_kind());
  return kinds;
}

Program lab_program() {
  return {.summary =
              "Research tools around split GPUs: masks, kernels, graphs, probes, heat, floorplans",
          .commands = {{"demo", add_demo_lab},
                       {"mask", add_mask},
                       {"kernels", add_kernels},
                       {"graph", add_graph},
                       {"probe", add_probe},
                       {"energy", add_energy_models},
                       {"thermal", add_thermal},
                       {"floorplan", add_floorplan}},
          .kinds = lab_kinds};
}

}  // namespace
}  // namespace partita::cli

int main(int argc, char** argv) {
  using partita::cli::lab_program, partita::cli::run_program;
  return run_program(argc, argv, lab_program());
}
