// Buckets: lengths that rows are padded up to, so that rows of different lengths run together. What
// padding costs is counted in lengths: compute grows with a row's length. Exact for a distribution
// that is known, learned for traffic that is not. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace partita::profile {

using Length = std::int64_t;
inline constexpr Length kMostLength = Length{1} << 24;
// By length: how many rows, or what share of them. Lengths and weights > 0.
using LengthWeights = std::map<Length, double>;

// At most `most` (>= 1) buckets, ascending, the last of them the greatest length, with which least
// is padded. Dynamic programming over the lengths, exact: what a bucket costs obeys the quadrangle
// inequality, so each layer is filled by divide and conquer in O(n log n) (Galil and Park 1992).
std::vector<Length> best_buckets(const LengthWeights& lengths, int most);

// Of the compute of all rows, padding; those beyond the last bucket are not padded. 0 to 1.
double padding_share(const LengthWeights& lengths, const std::vector<Length>& buckets);

// Buckets from the lengths that come. Bounded: of lengths it knows at most kMostKnown, the coarser
// the more of them there are; it forgets, half of all every kMemory rows; and no row is padded
// beyond the next power of two, so that whoever sends odd lengths costs others no more than that.
class LearnedBuckets {
 public:
  static constexpr std::size_t kMostKnown = 2'048;
  static constexpr long kMemory = 65'536;
  static constexpr double kWorthwhile = 0.002;  // of compute: new buckets are as much better

  explicit LearnedBuckets(int most) : most_(most) {}

  // A row has come. Buckets change now and then: after 256 rows, a quarter more, and so on.
  void saw(Length length);
  // What a row of that length is padded to.
  Length padded(Length length) const;
  const std::vector<Length>& buckets() const { return buckets_; }

 private:
  void coarsen();
  void learn();

  int most_;
  int bits_ = 10;  // of a length that count; the rest is rounded up
  LengthWeights known_;
  std::vector<Length> buckets_;
  long seen_ = 0, next_ = 256, remembered_ = 0;
};

// The length of a shape as `--input-shape` says it: the greatest of its sizes, or 0.
// "ids=1,128 mask=1,128" has 128.
Length length_of(std::string_view shape);

// A model, or a service, at one bucket: "bert~128". Without a bucket the name alone, and 0.
struct BucketName {
  std::string name;
  Length bucket = 0;
};
BucketName bucket_name(const std::string& name);
std::string with_bucket(const std::string& name, Length bucket);

}  // namespace partita::profile
