// partita compare A B: what differs between two plans, states or services, from files, from the
// history or from the node itself.
#include <fmt/format.h>

#include <memory>

#include "base/parse_number.h"
#include "commands.h"
#include "decide/difference.h"
#include "decide/input.h"
#include "node/state_dir.h"
#include "past/past.h"

namespace partita::cli {
namespace {

struct DiffFlags {
  std::string a, b;
  PastFlags past;
  Output output;
};

// The node as it is.
Result<decide::Compared> side_now(Context& context, const DiffFlags& flags) {
  const Result<OpenDriver> opened = open_driver(context, flags.past.device);
  if (!opened) return failed(opened.error());
  const Result<device::NodeState> state = device::read_node(*opened->driver);
  if (!state) return failed(state.error());
  const std::string directory = state_directory(flags.past.state_dir, *state);
  return decide::read_side("now", device::state_json(*state, load_occupants(context, directory)),
                           *opened->catalogue);
}

// What a change led to: its plan, else the state of the node after it.
Result<decide::Compared> side_of_change(Context& context, const DiffFlags& flags, long number,
                                        const hw::Catalogue& catalogue) {
  const auto store = open_past(context, flags.past);
  if (!store) return failed(store.error());
  const auto events = store->events({.change = number, .most = history::kMaxRows});
  if (!events) return failed(events.error());
  const std::string name = fmt::format("change {}", number);
  for (const char* wanted : {"plan", "state"})
    for (const history::Event& event : *events)
      for (const history::Event::Attachment& one : event.documents)
        if (one.name == wanted) return decide::read_side(name, one.text, catalogue);
  return bad_input(name, events->empty() ? "nothing is kept of it; `partita history` lists what is"
                                         : "no plan and no state is kept of it");
}

Result<decide::Compared> side_of(Context& context, const DiffFlags& flags, const std::string& word,
                                 const char* flag) {
  if (word == "now") return side_now(context, flags);
  const auto catalogue = decide::load_catalogue(context.files, flags.past.device.catalogue);
  if (!catalogue) return failed(catalogue.error());
  const auto number = parse_number<long>(word);
  if (number && *number > 0 && !context.files.exists(word))
    return side_of_change(context, flags, *number, *catalogue);
  const auto text = read_input(context.files, flag, word);
  if (!text) return failed(text.error());
  return decide::read_side(word, *text, *catalogue);
}

Result<Exit> run_diff(Context& context, const DiffFlags& flags) {
  const auto a = side_of(context, flags, flags.a, "A");
  if (!a) return failed(a.error());
  const auto b = side_of(context, flags, flags.b, "B");
  if (!b) return failed(b.error());
  const auto found = decide::difference(*a, *b);
  if (!found) return failed(found.error());
  const std::string content = flags.output.format == "json" ? decide::difference_json(*found)
                                                            : decide::difference_text(*found);
  return finish(context, flags.output, content, found->empty() ? Exit::done : Exit::no);
}

}  // namespace

Command add_diff(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "diff", "Compare two plans, states of a node or services; exit status 1 when they differ");
  auto flags = std::make_shared<DiffFlags>();
  const std::string what = "The number of a change, a file (plan, node state, services), or `now`";
  command->add_option("A", flags->a, what)->required();
  command->add_option("B", flags->b, what)->required();
  add_past(*command, flags->past);
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita compare 11 12\n"
      "partita compare plan.json now");
  return {command, [flags](Context& context) { return run_diff(context, *flags); }};
}

}  // namespace partita::cli
