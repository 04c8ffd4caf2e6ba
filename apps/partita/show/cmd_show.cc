// partita show: any document, by its kind.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>

#include "act/node_picture.h"
#include "base/document.h"
#include "commands.h"
#include "base/input.h"
#include "decide/input.h"
#include "device/node_forms.h"
#include "flags.h"
#include "forms/batch_forms.h"
#include "forms/serving_forms.h"
#include "history/event.h"
#include "history/text.h"
#include "past/past.h"
#include "screen.h"
#include "show/rows.h"
#include "stop_request.h"

namespace partita::cli {
namespace {

struct ShowFlags {
  std::string file, rows, catalogue;
  std::string interval = "1s";
  bool watch = false;
  Output output;
};

// What is known of how a document is to look.
struct Look {
  const Context& context;
  const ShowFlags& flags;
  const hw::Catalogue& catalogue;
  const std::string& text;
  bool svg() const { return flags.output.format == "svg"; }
  bool colour() const { return context.colour && flags.output.file.empty(); }
};

Result<std::string> show_plan(const Look& look) {
  const auto plan = forms::parse_plan(look.flags.file, look.text);
  if (!plan) return failed(plan.error());
  if (look.svg()) return forms::plan_svg(*plan, look.catalogue);
  return forms::plan_text(*plan, look.catalogue,
                          {.colour = look.colour(), .width = look.context.width});
}

Result<std::string> show_schedule(const Look& look) {
  const auto schedule = forms::parse_schedule(look.flags.file, look.text);
  if (!schedule) return failed(schedule.error());
  if (look.svg()) return forms::schedules_svg({*schedule}, look.catalogue);
  return forms::schedule_text(*schedule, {}, look.catalogue,
                              {.colour = look.colour(), .width = look.context.width});
}

Result<std::string> show_node(const Look& look) {
  const auto node = device::parse_state(look.flags.file, look.text);
  if (!node) return failed(node.error());
  if (look.svg()) return actuate::node_svg(node->state, node->occupants, look.catalogue);
  return device::state_text(node->state, node->occupants, look.catalogue,
                            {.colour = look.colour(), .width = look.context.width});
}

Result<std::string> show_history(const Look& look) {
  const auto events = history::parse_history(look.flags.file, look.text);
  if (!events) return failed(events.error());
  return history::events_text(*events, local_time);
}

struct Kind {
  std::string_view name;
  Result<std::string> (*show)(const Look& look);
  bool picture;  // it can be an SVG
};
constexpr Kind kKinds[] = {{"ServingPlan", show_plan, true},
                           {"BatchSchedule", show_schedule, true},
                           {"NodeState", show_node, true},
                           {"History", show_history, false}};

Result<std::string> shown_document(Context& context, const ShowFlags& flags) {
  const auto text = read_input(context.files, "FILE", flags.file);
  if (!text) return failed(text.error());
  const auto document = parse_document(flags.file, *text);
  if (!document) return failed(document.error());
  if (flags.output.format == "json") return *text;
  if (flags.output.format == "csv") return document_csv(flags.file, *text, flags.rows);
  const Node* kind = document->root.find("kind");
  const auto* const found =
      std::ranges::find(kKinds, kind == nullptr ? std::string() : kind->text, &Kind::name);
  const bool svg = flags.output.format == "svg";
  if (svg && (found == std::end(kKinds) || !found->picture))
    return bad_input("--format", "there is no picture of this kind of document");
  if (found == std::end(kKinds)) return document_text(flags.file, *text);
  const auto catalogue = decide::load_catalogue(context.files, flags.catalogue);
  if (!catalogue) return failed(catalogue.error());
  return found->show({context, flags, *catalogue, *text});
}

// Again whenever it has changed.
Result<Exit> run_watch(Context& context, const ShowFlags& flags) {
  const auto interval = parse_duration("--interval", flags.interval);
  if (!interval) return failed(interval.error());
  StopRequest stop;
  std::optional<Screen> screen;
  if (is_terminal(context)) screen.emplace(context.out);
  std::string before;
  do {
    const auto text = shown_document(context, flags);
    if (!text) return failed(text.error());
    if (*text == before) continue;
    before = *text;
    if (screen)
      screen->draw(first_lines(*text, screen->height()));
    else
      say(context, *text);
  } while (!stop.within(static_cast<std::int64_t>(interval->value * 1e9)));
  return Exit::done;
}

Result<Exit> run_show(Context& context, const ShowFlags& flags) {
  if (flags.watch) return run_watch(context, flags);
  const auto text = shown_document(context, flags);
  return text ? finish(context, flags.output, *text) : failed(text.error());
}

}  // namespace

Command add_show(CLI::App& app) {
  CLI::App* command = app.add_subcommand("show", "Show a document of any kind");
  auto flags = std::make_shared<ShowFlags>();
  command->add_option("FILE", flags->file, "A document of any kind (JSON or YAML)")
      ->type_name("FILE")
      ->required();
  add_catalogue(*command, flags->catalogue);
  flag(*command, "--watch", flags->watch, "Here: whenever it has changed");
  flag(*command, "--interval", flags->interval)->default_str(flags->interval);
  flag(*command, "--rows", flags->rows);
  add_output(*command, flags->output, {"text", "json", "svg", "csv"});
  command->footer(
      "partita show plan.json\n"
      "partita show state/assignment.json --watch\n"
      "partita show report.json --format csv --rows services -o services.csv");
  return {command, [flags](Context& context) { return run_show(context, *flags); }};
}

}  // namespace partita::cli
