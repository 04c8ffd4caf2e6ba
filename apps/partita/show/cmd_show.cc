#include <iterator>

#include "act/lease/lease_forms.h"
#include "act/node_picture.h"
#include "base/nearest.h"
#include "base/unicode.h"
#include "commands.h"
#include "control/sim/sim_weeks.h"
#include "decide/reasons.h"
#include "device/node_forms.h"
#include "fleet/brain/status.h"
#include "forms/batch_forms.h"
#include "forms/day_forms.h"
#include "forms/reason_forms.h"
#include "forms/serving_forms.h"
#include "history/event.h"
#include "history/text.h"
#include "llm/law_report.h"
#include "model/energy/energy_forms.h"
#include "model/energy/report.h"
#include "node/devices.h"
#include "past/past.h"
#include "profile/csv.h"
#include "queue/task_forms.h"
#include "screen.h"
#include "serve/load/load_report.h"
#include "settings.h"
#include "show/rows.h"

namespace partita::cli {
namespace {

struct Cell {
  std::string column, value;
};

bool is_rows(const Node& value) {
  return value.kind == Node::Kind::list && !value.items.empty() &&
         std::ranges::all_of(value.items,
                             [](const Node& one) { return one.kind == Node::Kind::object; });
}

// The values of an object; lists of objects in it are counted, other lists joined.
void cells_of(const Node& object, const std::string& prefix, std::vector<Cell>& cells) {
  for (const Node::Member& member : object.members) {
    const std::string name = prefix + member.key;
    if (member.value.kind == Node::Kind::object) {
      cells_of(member.value, name + ".", cells);
    } else if (is_rows(member.value)) {
      cells.push_back({name, fmt::format("{}", member.value.items.size())});
    } else if (member.value.kind == Node::Kind::list) {
      std::vector<std::string> words;
      for (const Node& one : member.value.items) words.push_back(scalar_text(one));
      cells.push_back({name, joined(words, " ")});
    } else {
      cells.push_back({name, scalar_text(member.value)});
    }
  }
}

Table table_of(const Node& list) {
  Table table;
  std::vector<std::vector<Cell>> rows;
  for (const Node& item : list.items) {
    cells_of(item, "", rows.emplace_back());
    for (const Cell& cell : rows.back())
      if (std::ranges::find(table.header, cell.column) == table.header.end())
        table.header.push_back(cell.column);
  }
  for (const std::vector<Cell>& row : rows) {
    std::vector<std::string>& line = table.rows.emplace_back(table.header.size());
    for (const Cell& cell : row) {
      const auto column = std::ranges::find(table.header, cell.column) - table.header.begin();
      line[static_cast<std::size_t>(column)] = cell.value;
    }
  }
  return table;
}

// The first words of long texts: a table is looked at, and CSV and JSON have all.
Table narrowed(Table table) {
  constexpr int kWidest = 48;
  for (std::vector<std::string>& row : table.rows)
    for (std::string& cell : row)
      if (columns(cell) > kWidest) cell = elided(cell, kWidest, [](char32_t) { return 1.0; });
  return table;
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) {
    if (&cell != cells.data()) line += ',';
    if (cell.find_first_of(",\"\r\n") == std::string::npos) {
      line += cell;
      continue;
    }
    line += '"';
    for (const char c : cell) line += c == '"' ? std::string("\"\"") : std::string(1, c);
    line += '"';
  }
  return line + "\n";
}

std::string table_csv(const Node& list) {
  const Table table = table_of(list);
  std::string text = csv_line(table.header);
  for (const std::vector<std::string>& row : table.rows) text += csv_line(row);
  return text;
}

// partita show: any document, by its kind.

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
  bool svg() const { return flags.output.svg(); }
  bool colour() const { return context.colour && flags.output.file.empty(); }
};

Result<std::string> show_plan(const Look& look) {
  const auto plan = TRY(forms::parse_plan(look.flags.file, look.text));
  if (look.svg()) return forms::plan_svg(plan, look.catalogue);
  return forms::plan_text(plan, look.catalogue,
                          {.colour = look.colour(), .width = look.context.width});
}

Result<std::string> show_schedule(const Look& look) {
  const auto schedule = TRY(forms::parse_schedule(look.flags.file, look.text));
  if (look.svg()) return forms::schedules_svg({schedule}, look.catalogue);
  return forms::schedule_text(schedule, {}, look.catalogue,
                              {.colour = look.colour(), .width = look.context.width});
}

Result<std::string> show_node(const Look& look) {
  const auto node = TRY(device::parse_state(look.flags.file, look.text));
  if (look.svg()) return actuate::node_svg(node.state, node.occupants, look.catalogue);
  return device::state_text(node.state, node.occupants, look.catalogue,
                            {.colour = look.colour(), .width = look.context.width});
}

Result<std::string> show_history(const Look& look) {
  const auto events = TRY(history::parse_history(look.flags.file, look.text));
  return history::events_text(events, local_time);
}

Result<std::string> show_day(const Look& look) {
  const auto day = TRY(forms::parse_day(look.flags.file, look.text));
  return look.svg() ? forms::day_svg(day) : forms::day_text(day, look.context.width);
}

Result<std::string> show_leases(const Look& look) {
  const auto leases = TRY(lease::parse_leases_document(look.flags.file, look.text));
  return lease::leases_text(leases, wall_clock_ms());
}

Result<std::string> show_reasons(const Look& look, std::string_view kind) {
  const auto reasons = TRY(kind == "Verdict" ? forms::parse_verdict(look.flags.file, look.text)
                                             : forms::parse_refusal(look.flags.file, look.text));
  if (reasons.empty()) return "ok: no violation\n";
  return decide::reasons_text(kind == "Verdict" ? "violations:" : "refused:", reasons) + "\n";
}
Result<std::string> show_verdict(const Look& look) { return show_reasons(look, "Verdict"); }
Result<std::string> show_refusal(const Look& look) { return show_reasons(look, "Refusal"); }

// What is shown by its own words alone.
template <auto parse, auto text>
Result<std::string> shown(const Look& look) {
  const auto document = TRY(parse(look.flags.file, look.text));
  return text(document);
}

struct Kind {
  std::string_view name;
  Result<std::string> (*show)(const Look& look);
  bool picture;  // it can be an SVG
};
constexpr Kind kKinds[] = {
    {"ServingPlan", show_plan, true},
    {"BatchSchedule", show_schedule, true},
    {"NodeState", show_node, true},
    {"DayPlan", show_day, true},
    {"History", show_history, false},
    {"Leases", show_leases, false},
    {"Verdict", show_verdict, false},
    {"Refusal", show_refusal, false},
    {"Lease", shown<lease::parse_lease, lease::lease_text>, false},
    {"QueueTasks", shown<queue::parse_tasks, queue::tasks_text>, false},
    {"FleetStatus", shown<fleet::parse_status, fleet::status_text>, false},
    {"AgentSimulation", shown<control::parse_weeks, control::weeks_text>, false},
    {"LoadReport", shown<serve::parse_load_report, serve::load_report_text>, false},
    {"LawReport", shown<llm::parse_law_report, llm::law_report_text>, false},
    {"EnergyReport", shown<energy::parse_report, energy::report_text>, false},
};

Result<std::string> shown_csv(const ShowFlags& flags, std::string text) {
  const profile::Csv csv = TRY(profile::parse_csv(flags.file, text));
  if (flags.output.format == "csv") return text;
  if (flags.output.format != "text") return bad_input("--format", "of a CSV: text or csv");
  Table table{csv.header.cells};
  for (const profile::CsvRow& row : csv.rows) table.rows.push_back(row.cells);
  return to_string(narrowed(std::move(table)));
}

Result<std::string> shown_document(Context& context, const ShowFlags& flags) {
  const auto text = TRY(read_input(context.files, "FILE", flags.file));
  if (flags.file.ends_with(".csv")) return shown_csv(flags, text);
  const auto document = TRY(parse_document(flags.file, text));
  const bool keys = document.root.kind == Node::Kind::object;
  if (!keys && !is_rows(document.root)) {
    if (text.substr(0, text.find('\n')).find(',') != std::string::npos)
      return shown_csv(flags, text);  // of standard input, say
    return bad_input(flags.file, "neither a document with keys or rows nor a table");
  }
  if (flags.output.json()) return text;
  if (flags.output.format == "csv") return document_csv(flags.file, text, flags.rows);
  const Node* kind = document.root.find("kind");
  const auto* const found =
      std::ranges::find(kKinds, kind == nullptr ? std::string() : kind->text, &Kind::name);
  const bool svg = flags.output.svg();
  if (svg && (found == std::end(kKinds) || !found->picture))
    return bad_input("--format", "there is no picture of this kind of document");
  if (found == std::end(kKinds)) return document_text(flags.file, text);
  const auto catalogue = TRY(decide::load_catalogue(context.files, flags.catalogue));
  return found->show({context, flags, catalogue, text});
}

// Again whenever it has changed.
Result<Exit> run_watch(Context& context, const ShowFlags& flags) {
  const auto interval = TRY(parse_duration("--interval", flags.interval));
  StopRequest stop;
  std::optional<Screen> screen;
  if (is_terminal(context)) screen.emplace(context.out);
  std::string before;
  do {
    const auto text = TRY(shown_document(context, flags));
    if (text == before) continue;
    before = text;
    if (screen)
      screen->draw(first_lines(text, screen->height()));
    else
      say(context, text);
  } while (!stop.within(interval));
  return Exit::done;
}

Result<Exit> run_show(Context& context, const ShowFlags& flags) {
  if (flags.watch) return run_watch(context, flags);
  const auto text = TRY(shown_document(context, flags));
  return finish(context, flags.output, text);
}

}  // namespace

Result<std::string> document_text(const std::string& file, std::string_view json) {
  const auto document = TRY(parse_document(file, json));
  if (is_rows(document.root)) return to_string(narrowed(table_of(document.root)));
  std::vector<Cell> cells;
  cells_of(document.root, "", cells);
  std::string text;
  for (const Cell& cell : cells) {
    const Node* list = document.root.find(cell.column);
    if (list == nullptr || !is_rows(*list))
      text += fmt::format("{}: {}\n", cell.column, cell.value);
  }
  for (const Node::Member& member : document.root.members)
    if (is_rows(member.value))
      text += fmt::format("\n{}\n{}", member.key, to_string(narrowed(table_of(member.value))));
  return text;
}

Result<std::string> document_csv(const std::string& file, std::string_view json,
                                 std::string_view key) {
  const auto document = TRY(parse_document(file, json));
  if (key.empty() && is_rows(document.root)) return table_csv(document.root);
  std::vector<std::string> lists;
  for (const Node::Member& member : document.root.members) {
    if (!is_rows(member.value)) continue;
    lists.push_back(member.key);
    if (key.empty() || member.key == key) return table_csv(member.value);
  }
  if (lists.empty()) return bad_input(file, "there is no list of rows in it");
  return bad_input("--rows",
                   fmt::format("there is no list '{}'{} (there are {})", key,
                               did_you_mean(std::string(key), lists), joined(lists, ", ")));
}

Result<std::string> document_as(const Output& output, std::string json) {
  return output.format == "csv" ? document_csv("the result", json) : Result<std::string>(json);
}

Command add_show(CLI::App& app) {
  auto [command, flags] = adding<ShowFlags>(app, "show", "Show a document of any kind");
  file_argument(*command, "FILE", flags->file, "A document of any kind (JSON, YAML or CSV)")
      ->required();
  takes(*command, "--catalogue", flags->catalogue, "--watch",
        also(flags->watch, "Each time the file has changed"), "--interval", preset(flags->interval),
        "--rows", flags->rows);
  return runs(command, flags, run_show, {"text", "json", "svg", "csv"},
              "partita show plan.json\n"
              "partita show state/assignment.json --watch\n"
              "partita show report.json --format csv --rows services -o services.csv");
}

}  // namespace partita::cli
