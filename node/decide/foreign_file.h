// Files of other tools (node/interop) on the Files door: recognised by their keys, and as instances
// on GPUs or as a sharing configuration.
#pragma once

#include <string>
#include <variant>

#include "base/files.h"
#include "interop/checkpoint.h"
#include "interop/device_plugin.h"
#include "interop/mig_parted.h"

namespace partita::decide {

inline constexpr int kMaxForeignGpus = 4096;

struct ForeignFile {
  std::string file;
  std::string from;   // mig-parted, checkpoint, device-plugin; empty: recognised
  std::string label;  // which configuration of several (mig-parted)
  std::string gpu;    // model of the GPUs that it is for
  int gpus = 0;       // how many there are; 0: not said
  std::string node;   // path of the state of a node, instead of gpu and gpus
};

// The geometry says something about at least one GPU; its models belong to the catalogue.
using Foreign = std::variant<interop::Geometry, interop::PluginConfig>;
Result<Foreign> read_foreign(Files& files, const ForeignFile& source,
                             const hw::Catalogue& catalogue);

}  // namespace partita::decide
