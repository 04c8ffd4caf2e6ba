// Lines for Slurm: gres.conf, slurm.conf, and the options of a dynamic node. MIG profiles are types
// of the GRES `gpu`. Slurm knows no places, no services, and no MIG UUIDs (jobs get an index).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "interop/geometry.h"

namespace partita::interop {

// Minor numbers of /dev/nvidia-caps/nvidia-capN by capability, "gpu0/gi2/ci0/access" -> 22.
using MigMinors = std::map<std::string, int>;

// The text of /proc/driver/nvidia-caps/mig-minors: lines of a capability and a number. Refused with
// FILE:LINE.
Result<MigMinors> parse_mig_minors(const std::string& file, std::string_view text);

// Which lines: of gres.conf, of slurm.conf, the command of a dynamic node, or all with headings.
enum class SlurmPart { all, gres, node, dynamic };

struct SlurmOptions {
  std::string node_name = "gpu0";
  MigMinors minors = {};  // empty: Slurm finds the devices itself
  SlurmPart part = SlurmPart::all;
};

// The lines. With minors every instance becomes a line with its device files, else gres.conf says
// AutoDetect=nvml. Bad input without context: one profile name of two GPU models, names that Slurm
// cannot hold, and with minors instances that do not exist or have no device there.
Result<std::string> slurm_lines(const Geometry& geometry, const SlurmOptions& options);

}  // namespace partita::interop
