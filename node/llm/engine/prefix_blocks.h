// Blocks of prefixes that several sequences share: used by some now, or kept for the next one until
// somebody needs the room. Whole prefixes come and go.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace partita::llm {

class PrefixBlocks {
 public:
  explicit PrefixBlocks(int prefixes) : prefixes_(static_cast<std::size_t>(prefixes)) {}

  bool cached(int prefix) const { return of(prefix).blocks > 0; }
  bool unused(int prefix) const { return cached(prefix) && of(prefix).users == 0; }
  std::int64_t used() const { return used_; }  // blocks that cannot go
  std::int64_t idle() const { return idle_; }  // blocks that can

  // A sequence has computed it: its blocks are shared from now on, and it uses them.
  void add(int prefix, std::int64_t blocks);
  void use(int prefix);      // one more sequence
  void release(int prefix);  // one fewer
  // Idle prefixes go, those unused longest first, until at most so many idle blocks are left.
  void shrink_idle(std::int64_t blocks) {
    while (idle_ > blocks) drop_oldest();
  }

 private:
  void drop_oldest();

  struct Prefix {
    std::int64_t blocks = 0;
    int users = 0;
    std::uint64_t released = 0;
  };
  const Prefix& of(int prefix) const { return prefixes_[static_cast<std::size_t>(prefix)]; }
  Prefix& of(int prefix) { return prefixes_[static_cast<std::size_t>(prefix)]; }

  std::vector<Prefix> prefixes_;
  std::set<std::pair<std::uint64_t, int>> idle_order_;  // by release
  std::int64_t used_ = 0, idle_ = 0;
  std::uint64_t releases_ = 0;
};

}  // namespace partita::llm
