// All ops of one level as its four parts; included by the level_*.cc, which name the level.
#pragma once

#include "ptx/ops_convert.h"
#include "ptx/ops_float.h"
#include "ptx/ops_integer.h"
#include "ptx/ops_memory.h"

namespace partita::ptx::PARTITA_PTX_LEVEL {

struct Parts {
  const NamedOp* ops[4];
  std::size_t count[4];
};
Parts parts();
Parts parts() {
  return {{kIntegerOps, kFloatOps, kConvertOps, kMemoryOps},
          {sizeof(kIntegerOps) / sizeof(NamedOp), sizeof(kFloatOps) / sizeof(NamedOp),
           sizeof(kConvertOps) / sizeof(NamedOp), sizeof(kMemoryOps) / sizeof(NamedOp)}};
}

}  // namespace partita::ptx::PARTITA_PTX_LEVEL
