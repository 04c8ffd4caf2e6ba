// partita compare A B: what differs between two plans, states or services, from files, from the
// history or from the node itself.
#include <fmt/format.h>


#include "base/parse_number.h"
#include "commands.h"
#include "decide/difference.h"
#include "decide/input.h"
#include "flags.h"
#include "node/state_dir.h"
#include "past/past.h"

namespace partita::cli {
namespace {

struct DiffFlags {
  std::string a, b;
  PastFlags past;
  Output output;
};

// What a change led to: its plan, else the state of the node after it.
Result<decide::Compared> side_of_change(const Past& past, long number,
                                        const hw::Catalogue& catalogue) {
  const auto events = TRY(past.events({.change = number, .most = history::kMaxRows}));
  const std::string name = fmt::format("change {}", number);
  for (const char* wanted : {"plan", "state"})
    for (const history::Event& event : events)
      for (const history::Event::Attachment& one : event.documents)
        if (one.name == wanted) return decide::read_side(name, one.text, catalogue);
  return bad_input(name, events.empty() ? "nothing is kept of it; `partita history` lists what is"
                                        : "no plan and no state is kept of it");
}

struct Side {
  const std::string& word;
  const char* flag;
};

Result<decide::Compared> side_of(Context& context, const Past& past, const Side& side,
                                 const hw::Catalogue& catalogue) {
  const auto number = parse_number<long>(side.word);
  if (number && *number > 0 && !context.files.exists(side.word))
    return side_of_change(past, *number, catalogue);
  const auto text =
      TRY(side.word == "now" ? past.node() : read_input(context.files, side.flag, side.word));
  return decide::read_side(side.word, text, catalogue);
}

Result<Exit> run_diff(Context& context, const DiffFlags& flags, const Past& past) {
  const auto catalogue = TRY(decide::load_catalogue(context.files, flags.past.device.catalogue));
  const auto a = TRY(side_of(context, past, {flags.a, "A"}, catalogue));
  const auto b = TRY(side_of(context, past, {flags.b, "B"}, catalogue));
  const auto found = TRY(decide::difference(a, b));
  return finish(
      context, flags.output,
      flags.output.json() ? decide::difference_json(found) : decide::difference_text(found),
      found.empty() ? Exit::done : Exit::no);
}

}  // namespace

Command add_diff(CLI::App& app) {
  auto [command, flags] = adding<DiffFlags>(
      app, "diff",
      "Compare two plans, states of a node or services; exit status 1 when they differ");
  const std::string what = "The number of a change, a file (plan, node state, services), or `now`";
  command->add_option("A", flags->a, what)->required();
  command->add_option("B", flags->b, what)->required();
  add_past(*command, flags->past);
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita compare 11 12\n"
      "partita compare plan.json now");
  return about_past(command, flags, run_diff);
}

}  // namespace partita::cli
