// The commands of the command line: one cmd_NAME.cc each. Every function adds its subcommand to the
// tree and returns what to run when it was chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "context.h"

namespace partita::cli {

Command add_init(CLI::App& app);
Command add_gpus(CLI::App& app);
Command add_layouts(CLI::App& app);
Command add_planners(CLI::App& app);
Command add_plan(CLI::App& app);
Command add_verify(CLI::App& app);
Command add_simulate(CLI::App& app);
Command add_compare(CLI::App& app);
Command add_profile(CLI::App& app);
Command add_batch(CLI::App& app);
Command add_mask(CLI::App& app);
Command add_kernels(CLI::App& app);
Command add_graph(CLI::App& app);
Command add_energy(CLI::App& app);
Command add_probe(CLI::App& app);
Command add_status(CLI::App& app);
Command add_observe(CLI::App& app);
Command add_top(CLI::App& app);
Command add_apply(CLI::App& app);
Command add_rollback(CLI::App& app);
Command add_drain(CLI::App& app);
Command add_lease(CLI::App& app);
Command add_return(CLI::App& app);
Command add_leases(CLI::App& app);
Command add_history(CLI::App& app);
Command add_explain(CLI::App& app);
Command add_diff(CLI::App& app);
Command add_capture(CLI::App& app);
Command add_replay(CLI::App& app);
Command add_agent(CLI::App& app);
Command add_workers(CLI::App& app);
Command add_worker(CLI::App& app);
Command add_gateway(CLI::App& app);
Command add_remote(CLI::App& app);
Command add_ptx(CLI::App& app);
Command add_thermal(CLI::App& app);
Command add_power(CLI::App& app);
Command add_export(CLI::App& app);
Command add_import(CLI::App& app);
Command add_load(CLI::App& app);
Command add_floorplan(CLI::App& app);
Command add_demo(CLI::App& app);
Command add_slurm(CLI::App& app);

// Commands about the program itself; but for the first they read the tree that they are part of.
Command add_schema(CLI::App& app);
Command add_help(CLI::App& app);
Command add_completion(CLI::App& app);
Command add_man(CLI::App& app);

// All of the above, in the order in which help lists them.
std::vector<Command> add_commands(CLI::App& app);

}  // namespace partita::cli
