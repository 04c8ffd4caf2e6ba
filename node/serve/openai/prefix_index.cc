#include "serve/openai/prefix_index.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"

namespace partita::serve {

PrefixHashes prefix_hashes(std::string_view text, std::uint64_t seed) {
  PrefixHashes hashes;
  const std::size_t blocks = std::min(text.size() / kPrefixBytes, kMostPrefixBlocks);
  hashes.reserve(blocks);
  std::uint64_t hash = mix64(seed + kGolden64);
  for (std::size_t block = 0; block < blocks; ++block) {
    for (std::size_t at = 0; at < kPrefixBytes; at += sizeof hash) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + block * kPrefixBytes + at, sizeof word);
      hash = mix64(hash ^ word) + kGolden64;
    }
    hashes.push_back(hash);
  }
  return hashes;
}

std::size_t PrefixIndex::known(const PrefixHashes& hashes) const {
  const auto first_new =
      std::ranges::find_if(hashes, [&](std::uint64_t hash) { return !blocks_.contains(hash); });
  return static_cast<std::size_t>(first_new - hashes.begin());
}

void PrefixIndex::add(const PrefixHashes& hashes) {
  // From the back, so that of one prompt the beginning is forgotten last.
  for (std::size_t i = hashes.size(); i > 0; --i) {
    const auto [found, fresh] = blocks_.try_emplace(hashes[i - 1]);
    if (fresh)
      found->second = order_.insert(order_.begin(), hashes[i - 1]);
    else
      order_.splice(order_.begin(), order_, found->second);
  }
  while (order_.size() > most_) {
    blocks_.erase(order_.back());
    order_.pop_back();
  }
}

void PrefixIndex::clear() {
  order_.clear();
  blocks_.clear();
}

}  // namespace partita::serve
