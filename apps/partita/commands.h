// The commands of partita itself: one cmd_NAME.cc each. Every function adds its subcommand to the
// tree and returns what to run when it was chosen.
#pragma once

#include <CLI/CLI.hpp>

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
Command add_show(CLI::App& app);
Command add_profile(CLI::App& app);
Command add_batch(CLI::App& app);
Command add_energy(CLI::App& app);
Command add_status(CLI::App& app);
Command add_observe(CLI::App& app);
Command add_top(CLI::App& app);
Command add_apply(CLI::App& app);
Command add_drain(CLI::App& app);
Command add_lease(CLI::App& app);
Command add_return(CLI::App& app);
Command add_leases(CLI::App& app);
Command add_queue(CLI::App& app);
Command add_fleet(CLI::App& app);
Command add_history(CLI::App& app);
Command add_explain(CLI::App& app);
Command add_diff(CLI::App& app);
Command add_capture(CLI::App& app);
Command add_replay(CLI::App& app);
Command add_agent(CLI::App& app);
Command add_workers(CLI::App& app);
Command add_worker(CLI::App& app);
Command add_gateway(CLI::App& app);
Command add_engine(CLI::App& app);
Command add_power(CLI::App& app);
Command add_export(CLI::App& app);
Command add_import(CLI::App& app);
Command add_load(CLI::App& app);
Command add_demo(CLI::App& app);
Command add_slurm(CLI::App& app);
Command add_dra(CLI::App& app);

// Below `batch`.
Command add_batch_generate(CLI::App& batch);
Command add_batch_schedule(CLI::App& batch);
Command add_batch_stream(CLI::App& batch);
Command add_batch_verify(CLI::App& batch);
Command add_batch_compare(CLI::App& batch);
Command add_batch_simulate(CLI::App& batch);
Command add_batch_run(CLI::App& batch);

}  // namespace partita::cli
