// partita: the program of a node. Its commands, in the order in which help lists them.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

#include "act/gateway_choices.h"
#include "act/gateway_peers.h"
#include "act/gateway_state.h"
#include "act/lease/lease_forms.h"
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
  std::vector<DocumentKind> kinds = forms::document_kinds();
  for (const DocumentKind& kind : sim::document_kinds()) kinds.push_back(kind);
  for (const DocumentKind& kind : energy::document_kinds()) kinds.push_back(kind);
  for (const DocumentKind& kind : history::document_kinds()) kinds.push_back(kind);
  kinds.push_back(decide::difference_kind());
  kinds.push_back(notify::notice_kind());
  kinds.push_back(actuate::gateway_kind());
  kinds.push_back(actuate::peers_kind());
  kinds.push_back(actuate::choices_kind());
  kinds.push_back(serve::load_report_kind());
  kinds.push_back(llm::law_report_kind());
  kinds.push_back(lease::lease_kind());
  kinds.push_back(lease::leases_kind());
  kinds.push_back(slurm::site_kind());
  kinds.push_back(control::snapshot_kind());
  kinds.push_back(control::batches_kind());
  kinds.push_back(control::batch_kind());
  kinds.push_back(control::memory_kind());
  kinds.push_back(control::settings_kind());
  kinds.push_back(control::weeks_kind());
  kinds.push_back(queue::submission_kind());
  kinds.push_back(queue::task_kind());
  kinds.push_back(queue::tasks_kind());
  kinds.push_back(fleet::status_kind());
  kinds.push_back(fleet::decision_kind());
  for (DocumentKind& kind : fleet::document_kinds()) kinds.push_back(std::move(kind));
  std::ranges::sort(kinds, {}, &DocumentKind::name);
  return kinds;
}

// Those of this program, operations of an agent that are a command of their own, and names for
// those of other programs.
std::vector<Entry> node_commands() {
  std::vector<Entry> all = {
      {"demo", add_demo}, {"init", add_init}, {"gpus", add_gpus},
      {"layouts", add_layouts}, {"planners", add_planners}, {"plan", add_plan},
      {"verify", add_verify}, {"simulate", add_simulate}, {"compare", add_compare},
      {"show", add_show}, {"batch", add_batch},
      {"status", add_status}, {"top", add_top}, {"apply", add_apply},
      {"drain", add_drain}, {"history", add_history},
      {"explain", add_explain}, {"diff", add_diff}, {"lease", add_lease},
      {"return", add_return}, {"leases", add_leases}, {"capture", add_capture},
      {"replay", add_replay}, {"agent", add_agent}, {"workers", add_workers},
      {"worker", add_worker}, {"engine", add_engine}, {"gateway", add_gateway}, {"load", add_load},
      {"observe", add_observe}, {"energy", add_energy}, {"export", add_export},
      {"import", add_import}, {"profile", add_profile}, {"power", add_power},
      {"queue", add_queue}, {"slurm", add_slurm}, {"dra", add_dra},
      {"fleet", add_fleet}};
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
