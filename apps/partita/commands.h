// The commands of partita itself. Every function adds its subcommand to the tree and returns what
// to run when it was chosen.
#pragma once

#include "command.h"

namespace partita::cli {

using Adds = Command(CLI::App& app);
Adds add_init, add_gpus, add_layouts, add_planners, add_plan, add_verify, add_simulate,
    add_compare, add_show, add_profile, add_batch, add_energy, add_status, add_observe, add_top,
    add_apply, add_drain, add_lease, add_return, add_leases, add_queue, add_fleet, add_history,
    add_explain, add_diff, add_capture, add_replay, add_agent, add_workers, add_worker,
    add_gateway, add_engine, add_power, add_export, add_import, add_load, add_demo, add_slurm,
    add_dra;

}  // namespace partita::cli
