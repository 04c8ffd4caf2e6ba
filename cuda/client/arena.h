// Hands out device addresses without asking: the session's arena is the client's to divide, up to
// its quota. Ranges are whole granules; where granules are large, small blocks share one. A freed
// address comes back as late as possible (the server waits when it is used again too early).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace partita::remote::client {

struct ArenaShape {
  std::uint64_t begin = 0, bytes = 0, granule = 1, quota = 0;
};

struct Block {
  std::uint64_t address = 0, bytes = 0;  // as asked for
  bool operator==(const Block&) const = default;
};

class Arena {
 public:
  explicit Arena(const ArenaShape& shape);
  static constexpr std::uint64_t kPage = 4096;

  struct Given {
    std::uint64_t address = 0;
    std::optional<Block> range;  // to be allocated at the server first
  };
  // Nothing: over the quota, or no gap is long enough.
  // `align`: the address is a multiple, and the range is this block's alone (0: as usual).
  std::optional<Given> allocate(std::uint64_t bytes, std::uint64_t align = 0);

  // Addresses only, until they are mapped; whole granules. Mapping counts for the quota.
  std::optional<std::uint64_t> reserve(std::uint64_t bytes, std::uint64_t align);
  bool reserve_at(const Block& range);  // false: no whole granules, outside, or taken
  bool map(const Block& part);      // false: not reserved, or over the quota, or mapped already
  bool unmap(const Block& mapped);  // false: no such part
  bool unreserve(std::uint64_t address, std::uint64_t bytes);  // false: something is mapped there

  struct Taken {
    bool known = false;
    std::optional<Block> range;  // to be freed at the server
    Block block;
  };
  // `late`: the addresses are not to be used again before recycle().
  Taken release(std::uint64_t address, bool late);
  // The first `count` blocks of those freed late may be used again.
  void recycle(std::size_t count);
  std::size_t late() const { return late_.size(); }

  // The block that holds this address.
  std::optional<Block> find(std::uint64_t address) const;
  // Of a block: whether nothing else lies in its range.
  bool has_own_range(std::uint64_t address) const {
    const auto found = blocks_.find(address);
    return found != blocks_.end() && found->second.pool == 0;
  }
  bool contains(std::uint64_t address) const { return address - shape_.begin < shape_.bytes; }
  const ArenaShape& shape() const { return shape_; }
  // What of the quota is not for blocks; false: it is not free.
  bool set_aside(std::uint64_t bytes);
  std::uint64_t quota() const { return shape_.quota; }
  std::uint64_t free_bytes() const { return shape_.quota - used_; }
  std::size_t blocks() const { return blocks_.size(); }

 private:
  struct Pool {  // a range that small blocks of one size share
    std::uint64_t range = 0, cell = 0;
    std::size_t used = 0;
    std::vector<std::uint32_t> free;
  };
  struct Entry {
    std::uint64_t bytes = 0;
    std::uint64_t pool = 0;  // begin of its pool's range; 0: a range of its own
    bool mapped = false;     // into reserved addresses
  };

  std::optional<std::uint64_t> find_range(std::uint64_t length, std::uint64_t align);
  std::optional<std::uint64_t> take_range(std::uint64_t bytes, std::uint64_t gap_behind,
                                          std::uint64_t align = 1);
  std::optional<std::uint64_t> gap(std::uint64_t bytes, std::uint64_t align, std::uint64_t from,
                                   std::uint64_t to) const;
  std::optional<Given> allocate_small(std::uint64_t bytes, std::uint64_t cell);
  void give_back(Pool& pool, std::uint32_t cell);
  void drop_range(std::uint64_t address, std::uint64_t bytes, bool late);

  ArenaShape shape_;
  std::uint64_t used_ = 0;    // of the quota
  std::uint64_t aside_ = 0;   // of `used_`
  std::uint64_t cursor_ = 0;  // next range is looked for from here
  std::map<std::uint64_t, Entry> blocks_;
  std::map<std::uint64_t, std::uint64_t> ranges_;             // taken or late: begin to length
  std::map<std::uint64_t, std::uint64_t> reserved_;           // of them
  std::map<std::uint64_t, Pool> pools_;                       // by begin of the range
  std::map<std::uint64_t, std::vector<std::uint64_t>> open_;  // by cell: pools with a free cell
  struct Late {
    std::uint64_t range = 0;
    std::optional<std::uint32_t> cell;  // of the pool there
  };
  std::vector<Late> late_;
};

}  // namespace partita::remote::client
