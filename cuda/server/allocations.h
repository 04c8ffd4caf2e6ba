// Allocations: what addresses of a session may be used: its allocations and the globals of its
// modules that it asked for. Every pointer from the wire goes through holds().
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace partita::remote::server {

class Allocations {
 public:
  // Whether one live range holds all of [address, address + bytes); nothing is anywhere.
  bool holds(std::uint64_t address, std::uint64_t bytes) const;
  // Whether rows of `width` bytes, `pitch` apart, lie in one range; false where numbers overflow.
  bool holds_rows(std::uint64_t address, std::uint64_t width, std::uint64_t pitch,
                  std::uint64_t rows) const;
  // What has bytes of [address, address + bytes): live ranges before going ones.
  enum class Meets { nothing, going, live };
  Meets meets(std::uint64_t address, std::uint64_t bytes) const;
  void add(std::uint64_t address, std::uint64_t bytes, std::uint64_t owner = 0);
  // The bytes of the allocation that begins there, which cannot be used from now on; nothing when
  // none does (globals do not count).
  std::optional<std::uint64_t> leave(std::uint64_t address);
  // Forgets a range.
  void remove(std::uint64_t address);
  // Forgets the ranges of an owner (a module).
  void remove_of(std::uint64_t owner);

  struct Range {
    std::uint64_t bytes = 0;
    std::uint64_t owner = 0;  // 0: an allocation; else a global of this module
    bool going = false;
  };
  const std::map<std::uint64_t, Range>& ranges() const { return ranges_; }

 private:
  std::map<std::uint64_t, Range> ranges_;
};

}  // namespace partita::remote::server
