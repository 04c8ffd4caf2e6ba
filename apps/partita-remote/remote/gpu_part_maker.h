// MIG instances for sessions of `remote serve --gpu`: made on loan (act/loans), of the first of
// these GPUs that has room.
#pragma once

#include <memory>
#include <vector>

#include "context.h"
#include "node/devices.h"
#include "server/part_maker.h"

namespace partita::cli {

// Destroys what a server that was killed left. not_supported for a GPU without MIG, or with MIG
// off; in_use while somebody else changes the node.
Result<std::unique_ptr<remote::server::PartMaker>> gpu_part_maker(Context& context,
                                                                  const DeviceFlags& device,
                                                                  const std::vector<int>& gpus);

}  // namespace partita::cli
