#include "decide/fleet.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/fields.h"

namespace partita::decide {
namespace {

constexpr std::size_t kMaxFleetLines = 1000;
constexpr Range kCounts{.low = 1, .high = 1e6};
constexpr Range kNodeGpus{.low = 1, .high = 1024};
constexpr Range kPrices{.high = 1e9, .above = true};

FleetLine read_line(Fields fields) {
  fields.only({"gpu", "profiles", "count", "price", "node_gpus"});
  FleetLine line;
  line.line = fields.node().line;
  line.gpu = fields.text("gpu");
  line.profiles = fields.text("profiles");
  if (fields.has("count")) line.count = fields.integer("count", kCounts);
  line.priced = fields.has("price");
  if (fields.has("node_gpus")) line.node_gpus = fields.integer("node_gpus", kNodeGpus);
  if (line.priced) line.price = fields.number("price", kPrices);
  return line;
}

}  // namespace

Result<std::vector<FleetLine>> parse_fleet(const std::string& file, std::string_view text) {
  const Result<Document> document = parse_document(file, text);
  if (!document) return failed(document.error());
  Fields fields(*document);
  fields.only({"api_version", "kind", "gpus"});
  std::vector<FleetLine> lines;
  for (const Node& item : fields.list("gpus", kMaxFleetLines)) {
    FleetLine line = read_line({fields, item});
    const auto same = std::ranges::find(lines, line.gpu, &FleetLine::gpu);
    if (same != lines.end())
      fields.refuse(item, fmt::format("gpu '{}' is already in line {}", same->gpu, same->line));
    lines.push_back(std::move(line));
  }
  if (lines.empty()) fields.refuse("gpus", "'gpus' is empty");
  if (fields.error()) return failed(*fields.error());
  return lines;
}

}  // namespace partita::decide
