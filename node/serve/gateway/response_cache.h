// ResponseCache: answers of a service by what was asked, within a bound of bytes. W-TinyLFU
// (Einziger, Friedman, Manes: TinyLFU, ACM ToS 2017): what comes new goes through a small window of
// least recently used answers, and from there in place of others only where it was asked for more
// often of late than all of those together that would have to make room (Einziger, Eytan, Friedman,
// Manes: Lightweight Robust Size Aware Cache Management, ACM ToS 2022). So a scan, or a tenant that
// asks for ever new things, drives nothing out that is asked for again and again. Against LRU:
// docs/results/gateway.md, bench/response_cache_bench.cc. Pure: times are the caller's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

#include "plan/dispatcher.h"

namespace partita::serve {

using plan::Nanos;

// Of what was asked: a keyed hash (request_digest.h), so that nobody chooses where it falls.
using CacheKey = std::array<std::uint64_t, 2>;

// How often keys were asked for of late, up to 15: a count-min sketch of four rows that halves all
// numbers now and then.
class FrequencySketch {
 public:
  explicit FrequencySketch(std::size_t width);  // a power of two
  void add(const CacheKey& key);
  int of(const CacheKey& key) const;
  void halve();
  std::size_t width() const { return mask_ + 1; }

 private:
  static constexpr int kRows = 4;
  std::size_t place(const CacheKey& key, int row) const;
  std::size_t mask_;
  std::vector<std::uint8_t> counts_;
};

inline constexpr std::size_t kAnswerOverhead = 160;  // of an answer's bookkeeping, in bytes

class ResponseCache {
 public:
  // `bytes`: of all answers with their bookkeeping. An answer older than `ttl` is none; 0: it does
  // not age. The frequencies take up to 1/256 of the bytes besides, at least 1 KiB.
  ResponseCache(std::size_t bytes, Nanos ttl);

  // Null: it is not there. Counts that it was asked for. Valid until the next call.
  const std::string* find(const CacheKey& key, Nanos now);
  // Takes the answer, or not.
  void put(const CacheKey& key, std::string answer, Nanos now);
  void clear();

  std::size_t bytes() const { return bytes_[0] + bytes_[1] + bytes_[2]; }
  std::size_t most_bytes() const { return most_; }
  std::size_t size() const { return by_key_.size(); }
  long evictions() const { return evictions_; }

 private:
  enum Part : std::uint8_t { window, probation, kept };  // kept: was found since it came there
  struct Entry {
    CacheKey key;
    std::string answer;
    Nanos came = 0;
    Part part = window;
    std::size_t size() const { return answer.size() + kAnswerOverhead; }
  };
  using Entries = std::list<Entry>;  // the one used last in front
  struct HashOf {
    std::size_t operator()(const CacheKey& key) const { return key[0]; }
  };

  void move(Entries::iterator entry, Part to);
  void drop(Entries::iterator entry);
  void touch(Entries::iterator entry);
  void shrink_window();
  void let_into_main(Entries::iterator candidate);
  void note(const CacheKey& key);

  const std::size_t most_, window_most_, kept_most_;
  const Nanos ttl_;
  FrequencySketch frequency_;
  long asked_ = 0;  // since frequencies were halved
  long evictions_ = 0;
  std::array<Entries, 3> parts_;
  std::array<std::size_t, 3> bytes_ = {};
  std::unordered_map<CacheKey, Entries::iterator, HashOf> by_key_;  // looked up only
};

}  // namespace partita::serve
