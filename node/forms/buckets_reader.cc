#include "forms/buckets_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "profile/buckets.h"
#include "profile/csv.h"

namespace partita::forms {
namespace {

using profile::Length;
using profile::LengthWeights;

constexpr double kMostShare = 1e12;
constexpr int kMostBuckets = 64;
constexpr std::size_t kMostLengths = 100'000;
constexpr Range kLengthRange{.low = 1, .high = static_cast<double>(profile::kMostLength)};
constexpr const char* kWantedLengths =
    "'lengths' must be a list of numbers, a list of {length: L, share: S}, a file of them, or "
    "{file: F, column: C}";

void read_item(Fields& fields, const Node& item, LengthWeights& lengths) {
  if (item.kind == Node::Kind::object) {
    Fields one(fields, item);
    one.only({"length", "share"});
    const Length length = one.whole("length", kLengthRange);
    const double share = one.number("share", {.high = kMostShare, .above = true});
    if (!fields.error()) lengths[length] += share;
    return;
  }
  const bool fits = item.kind == Node::Kind::number && item.number >= kLengthRange.low &&
                    item.number <= kLengthRange.high && item.number == std::floor(item.number);
  if (!fits) return fields.refuse(item, kWantedLengths);
  lengths[static_cast<Length>(item.number)] += 1;
}

Result<LengthWeights> of_csv(const std::string& file, std::string_view text,
                             const std::string& column) {
  const auto csv = TRY(profile::parse_csv(file, text));
  const int length = csv.column(column), count = csv.column("count");
  if (length < 0)
    return bad_input(csv.at(csv.header), fmt::format("there is no column '{}'", column));
  LengthWeights lengths;
  for (const profile::CsvRow& row : csv.rows) {
    const auto own = TRY(csv_integer(csv, row, length, {kLengthRange.low, kLengthRange.high}));
    const auto rows =
        TRY(count < 0 ? Result<double>(1) : csv_number(csv, row, count, {0, kMostShare}));
    if (rows > 0) lengths[own] += rows;
  }
  if (lengths.empty()) return bad_input(csv.at(csv.header), "every count is 0");
  return lengths;
}

LengthWeights read_file(Fields& fields, const Node& node, const FileText& files) {
  std::string file = node.text, column = "length";
  if (node.kind == Node::Kind::object) {
    Fields named = fields.object("lengths");
    named.only({"file", "column"});
    file = named.text("file");
    if (named.has("column")) column = named.text("column");
  }
  if (fields.error()) return {};
  if (!files) {
    fields.refuse(node, "'lengths' cannot name a file here: list them");
    return {};
  }
  const Result<std::string> text = files(file);
  auto lengths = text ? of_csv(file, *text, column) : failed(text.error());
  if (lengths) return *std::move(lengths);
  fields.refuse(node, fmt::format("'lengths': {}", to_string(lengths.error())));
  return {};
}

LengthWeights read_lengths(Fields& fields, const FileText& files) {
  const Node* const node = fields.node().find("lengths");
  if (!node) fields.refuse("buckets", "'buckets' need 'lengths': how long requests are");
  if (!node) return {};
  if (node->kind == Node::Kind::string || node->kind == Node::Kind::object)
    return read_file(fields, *node, files);
  if (node->kind != Node::Kind::list) fields.refuse(*node, kWantedLengths);
  if (fields.error()) return {};
  LengthWeights lengths;
  for (const Node& item : fields.list("lengths", kMostLengths)) read_item(fields, item, lengths);
  if (lengths.empty()) fields.refuse(*node, kWantedLengths);
  return lengths;
}

// Said, or so many as are said that pad least.
std::vector<Length> read_buckets(Fields& fields, const LengthWeights& lengths) {
  const Node* const node = fields.node().find("buckets");
  if (!node) {
    fields.refuse("lengths",
                  "'lengths' need 'buckets': how many, or the lengths that were measured");
    return {};
  }
  if (node->kind == Node::Kind::number) {
    const int most = fields.integer("buckets", {.low = 1, .high = kMostBuckets});
    return fields.error() ? std::vector<Length>() : profile::best_buckets(lengths, most);
  }
  LengthWeights buckets;
  for (const Node& item : fields.list("buckets", kMostBuckets)) read_item(fields, item, buckets);
  if (fields.error() || buckets.empty() || lengths.empty()) {
    if (!fields.error()) fields.refuse(*node, "'buckets' is empty");
    return {};
  }
  std::vector<Length> all;
  for (const auto& [bucket, weight] : buckets) all.push_back(bucket);
  if (lengths.rbegin()->first > all.back())
    fields.refuse(*node, fmt::format("'lengths' go up to {}, and the last bucket is {}",
                                     lengths.rbegin()->first, all.back()));
  return all;
}

// Arrivals more even than Poisson are not even any more when each goes its own way.
void thin(plan::Traffic& traffic) {
  const auto* gamma = std::get_if<plan::GammaArrivals>(&traffic.arrivals);
  if (std::holds_alternative<plan::EvenArrivals>(traffic.arrivals) || (gamma && gamma->cv < 1))
    traffic.arrivals = plan::PoissonArrivals{};
}

}  // namespace

std::vector<Service> in_buckets(Fields& fields, Service service, const FileText& files) {
  if (!fields.has("lengths") && !fields.has("buckets")) return {std::move(service)};
  if (const char* const key = fields.has("lengths") ? "lengths" : "buckets"; service.tokens)
    fields.refuse(key, fmt::format("'{}' is not for services of kind llm, whose 'tokens' say how "
                                   "long requests are",
                                   key));
  const LengthWeights lengths = read_lengths(fields, files);
  if (fields.error()) return {};
  const std::vector<Length> buckets = read_buckets(fields, lengths);
  if (!fields.error() && !(service.rate.value > 0))
    fields.refuse("buckets", "'buckets' need 'rate_rps': each has its part of it");
  if (fields.error()) return {};
  double all = 0;
  for (const auto& [length, weight] : lengths) all += weight;
  service.padding = profile::padding_share(lengths, buckets);
  std::vector<Service> services;
  auto from = lengths.begin();
  for (const Length bucket : buckets) {
    double share = 0;
    for (; from != lengths.end() && from->first <= bucket; ++from) share += from->second / all;
    if (!(share > 0)) continue;  // nothing is as long
    Service one = service;
    one.name = profile::with_bucket(service.name, bucket);
    one.model = profile::with_bucket(service.model, bucket);
    one.rate = service.rate * share;
    for (plan::RateAt& rate : one.traffic.rates) rate.rate = rate.rate * share;
    if (share < 1) thin(one.traffic);
    services.push_back(std::move(one));
  }
  return services;
}

}  // namespace partita::forms
