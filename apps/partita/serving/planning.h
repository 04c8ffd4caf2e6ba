// --node-budget, which the commands that plan share.
#pragma once

namespace CLI {
class App;
}

namespace partita::cli {

void add_node_budget(CLI::App& command, long& node_budget);

}  // namespace partita::cli
