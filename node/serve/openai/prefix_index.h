// PrefixIndex: which beginnings of prompts a replica has computed lately, so that who sends the
// same beginning again goes where it is cached. Texts are compared in blocks of kPrefixBytes, each
// hashed with all blocks before it; the blocks used longest ago are forgotten first. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace partita::serve {

inline constexpr std::size_t kPrefixBytes = 128;
inline constexpr std::size_t kMostPrefixBlocks = 8192;  // of one prompt

// A hash per whole block of the text, each of all up to it. `seed`: what stands before the text.
using PrefixHashes = std::vector<std::uint64_t>;
PrefixHashes prefix_hashes(std::string_view text, std::uint64_t seed = 0);

class PrefixIndex {
 public:
  explicit PrefixIndex(std::size_t most_blocks) : most_(most_blocks) {}
  // How many of the first blocks are known.
  std::size_t known(const PrefixHashes& hashes) const;
  void add(const PrefixHashes& hashes);
  void clear();

 private:
  std::size_t most_;
  std::list<std::uint64_t> order_ = {};  // the one used last in front
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> blocks_ = {};
};

}  // namespace partita::serve
