#include "llm/engine/prefix_blocks.h"

#include "base/check.h"

namespace partita::llm {

void PrefixBlocks::add(int prefix, std::int64_t blocks) {
  CHECK(!cached(prefix) && blocks > 0);
  of(prefix) = {.blocks = blocks, .users = 1, .released = 0};
  used_ += blocks;
}

void PrefixBlocks::use(int prefix) {
  Prefix& one = of(prefix);
  CHECK(one.blocks > 0);
  if (one.users++ > 0) return;
  idle_order_.erase({one.released, prefix});
  idle_ -= one.blocks;
  used_ += one.blocks;
}

void PrefixBlocks::release(int prefix) {
  Prefix& one = of(prefix);
  CHECK(one.users > 0);
  if (--one.users > 0) return;
  one.released = ++releases_;
  idle_order_.emplace(one.released, prefix);
  used_ -= one.blocks;
  idle_ += one.blocks;
}

void PrefixBlocks::drop_oldest() {
  const int prefix = idle_order_.begin()->second;
  idle_order_.erase(idle_order_.begin());
  idle_ -= of(prefix).blocks;
  of(prefix) = {};
}

}  // namespace partita::llm
