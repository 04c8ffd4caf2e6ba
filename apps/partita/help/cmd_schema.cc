#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "act/gateway_state.h"
#include "act/lease/lease_forms.h"
#include "base/append.h"
#include "base/nearest.h"
#include "base/table.h"
#include "commands.h"
#include "control/memory.h"
#include "control/settings.h"
#include "control/sim/sim_weeks.h"
#include "control/snapshot.h"
#include "decide/difference.h"
#include "forms/document_kinds.h"
#include "history/event.h"
#include "model/energy/energy_forms.h"
#include "heat/floorplan/session_forms.h"
#include "control/notify/notice.h"
#include "serve/load/load_report.h"
#include "heat/dtm/dtm_forms.h"
#include "sim/report_forms.h"

namespace partita::cli {
namespace {

// Sorted by name.
std::vector<DocumentKind> all_kinds() {
  std::vector<DocumentKind> kinds = forms::document_kinds();
  for (const DocumentKind& kind : sim::document_kinds()) kinds.push_back(kind);
  for (const DocumentKind& kind : energy::document_kinds()) kinds.push_back(kind);
  for (const DocumentKind& kind : floorplan::document_kinds()) kinds.push_back(kind);
  for (const DocumentKind& kind : history::document_kinds()) kinds.push_back(kind);
  kinds.push_back(decide::difference_kind());
  kinds.push_back(notify::notice_kind());
  kinds.push_back(dtm::dtm_kind());
  kinds.push_back(actuate::gateway_kind());
  kinds.push_back(serve::load_report_kind());
  kinds.push_back(lease::lease_kind());
  kinds.push_back(lease::leases_kind());
  kinds.push_back(control::snapshot_kind());
  kinds.push_back(control::batches_kind());
  kinds.push_back(control::batch_kind());
  kinds.push_back(control::memory_kind());
  kinds.push_back(control::settings_kind());
  kinds.push_back(control::weeks_kind());
  std::ranges::sort(kinds, {}, &DocumentKind::name);
  return kinds;
}

Result<Exit> run_schema(Context& context, const std::string& name, const Output& output) {
  Table table{{"KIND", "WHAT IT SAYS"}, {}};
  std::vector<std::string> names;
  for (const DocumentKind& kind : all_kinds()) {
    if (kind.name == name) {
      if (auto written = deliver(context, output, kind.schema()); !written)
        return failed(written.error());
      return Exit::done;
    }
    names.emplace_back(kind.name);
    table.rows.push_back({names.back(), std::string(kind.about)});
  }
  if (!name.empty())
    return bad_input("KIND", fmt::format("unknown kind '{}'{} (there are {})", name,
                                         did_you_mean(name, names), joined(names, ", ")));
  if (auto written = deliver(context, output, to_string(table)); !written)
    return failed(written.error());
  return Exit::done;
}

}  // namespace

Command add_schema(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "schema", "Print the JSON Schema of a kind of document; without a kind list them");
  auto kind = std::make_shared<std::string>();
  auto output = std::make_shared<Output>();
  command->add_option("KIND", *kind, "The kind, as in the document's `kind`")->type_name("KIND");
  add_output_file(*command, output->file);
  command->footer("partita schema ServingPlan");
  return {command,
          [kind, output](Context& context) { return run_schema(context, *kind, *output); }};
}

}  // namespace partita::cli
