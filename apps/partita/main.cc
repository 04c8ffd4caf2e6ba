// partita: the program of a node. Its commands, in the order in which help lists them.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

#include "act/gateway_choices.h"
#include "act/gateway_peers.h"
#include "act/gateway_state.h"
#include "act/lease/lease_forms.h"
#include "act/workers_state.h"
#include "commands.h"
#include "control/memory.h"
#include "control/settings.h"
#include "control/sim/sim_weeks.h"
#include "control/snapshot.h"
#include "decide/difference.h"
#include "elsewhere.h"
#include "fleet/brain/documents.h"
#include "fleet/brain/leader.h"
#include "fleet/brain/status.h"
#include "forms/document_kinds.h"
#include "history/event.h"
#include "model/energy/energy_forms.h"
#include "control/notify/notice.h"
#include "llm/law_report.h"
#include "program.h"
#include "queue/slurm/site.h"
#include "queue/task_forms.h"
#include "serve/load/load_report.h"
#include "server/server.h"
#include "sim/report_forms.h"

namespace partita::cli {
namespace {

// Sorted by name.
std::vector<DocumentKind> all_kinds() {
  std::vector<DocumentKind> kinds = {
      decide::difference_kind(), notify::notice_kind(), actuate::gateway_kind(),
      actuate::peers_kind(), actuate::choices_kind(), actuate::workers_kind(),
      serve::load_report_kind(), llm::law_report_kind(), lease::lease_kind(),
      lease::leases_kind(), slurm::site_kind(),
      control::snapshot_kind(), control::batches_kind(), control::batch_kind(),
      control::memory_kind(), control::settings_kind(), control::weeks_kind(),
      queue::submission_kind(), queue::task_kind(), queue::tasks_kind(), fleet::status_kind(),
      fleet::decision_kind()};
  for (const auto& more : {forms::document_kinds(), sim::document_kinds(),
                           energy::document_kinds(), history::document_kinds(),
                           fleet::document_kinds()})
    kinds.insert(kinds.end(), more.begin(), more.end());
  std::ranges::sort(kinds, {}, &DocumentKind::name);
  return kinds;
}

// Those of this program, operations of an agent that are a command of their own, and names for
// those of other programs.
std::vector<Entry> node_commands() {
  std::vector<Entry> all = {
      {"demo", add_demo}, {"init", add_init}, {"gpus", add_gpus}, {"layouts", add_layouts},
      {"planners", add_planners}, {"plan", add_plan}, {"verify", add_verify},
      {"simulate", add_simulate}, {"compare", add_compare}, {"show", add_show},
      {"batch", add_batch}, {"status", add_status}, {"top", add_top}, {"apply", add_apply},
      {"drain", add_drain}, {"history", add_history}, {"explain", add_explain},
      {"diff", add_diff}, {"lease", add_lease}, {"return", add_return},
      {"leases", add_leases}, {"capture", add_capture}, {"replay", add_replay},
      {"agent", add_agent}, {"workers", add_workers}, {"worker", add_worker},
      {"engine", add_engine}, {"gateway", add_gateway}, {"load", add_load},
      {"observe", add_observe}, {"energy", add_energy}, {"export", add_export},
      {"import", add_import}, {"profile", add_profile}, {"power", add_power},
      {"queue", add_queue}, {"slurm", add_slurm}, {"dra", add_dra}, {"fleet", add_fleet}};
  for (const api::Operation& one : api::operations())
    if (!one.command.words.empty() && one.command.words.find(' ') == std::string_view::npos)
      all.push_back(
          {one.command.words, [&one](CLI::App& app) { return add_operation(app, one); }});
  for (const Elsewhere& one : elsewhere())
    if (one.words.find(' ') == std::string_view::npos)
      all.push_back({one.words, [&one](CLI::App& app) { return add_elsewhere(app, one); }});
  return all;
}

Program node_program() {
  return {.summary = "Splits GPUs into parts and keeps the parts busy: plans, checks, simulates, "
          "applies",
          .commands = node_commands(),
          .kinds = all_kinds,
          .whole = true,
          .dress = with_server};
}

}  // namespace
}  // namespace partita::cli

int main(int argc, char** argv) {
  using partita::cli::node_program, partita::cli::run_program;
  return run_program(argc, argv, node_program());
}
