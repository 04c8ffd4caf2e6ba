#include "decide/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/fields.h"

namespace partita::decide {
namespace {

constexpr std::size_t kMaxFleetLines = 1000;
constexpr Range kCounts{.low = 1, .high = 1e6};
constexpr Range kNodeGpus{.low = 1, .high = 1024};
constexpr Range kPrices{.high = 1e9, .above = true};

void read_all(Fields& fields, FleetLine& line) {
  line.line = fields.node().line;
  line.profiles = fields.text("profiles");
  line.priced = fields.has("price");
  if (line.priced) line.price = fields.number("price", kPrices);
}

void read_nvlink(Fields& fields, FleetLine& line) {
  if (!fields.has("nvlink")) return;
  if (fields.node().find("nvlink")->kind == Node::Kind::list) {
    int next = 0;
    bool orderly = true;
    for (const Node& list : fields.list("nvlink", static_cast<std::size_t>(line.node_gpus))) {
      std::vector<int>& domain = line.domains.emplace_back();
      for (const Node& gpu : list.items) {
        orderly = orderly && gpu.kind == Node::Kind::number && gpu.number == next;
        domain.push_back(next++);
      }
      orderly = orderly && !domain.empty();
    }
    if (!orderly || next != line.node_gpus)
      fields.refuse("nvlink", fmt::format("'nvlink' must list all {} GPUs of a node in their order",
                                          line.node_gpus));
    return;
  }
  line.nvlink = fields.integer("nvlink", kNodeGpus);
  if (line.nvlink > 0 && line.node_gpus % line.nvlink != 0)
    fields.refuse(fields.node(), fmt::format("its {} GPUs are not in domains of {} (nvlink)",
                                             line.node_gpus, line.nvlink));
}

FleetLine read_gpus(Fields fields) {
  fields.only({"gpu", "profiles", "count", "price", "node_gpus", "nvlink"});
  FleetLine line;
  line.gpu = fields.text("gpu");
  read_all(fields, line);
  if (fields.has("count")) line.count = fields.integer("count", kCounts);
  if (fields.has("node_gpus")) line.node_gpus = fields.integer("node_gpus", kNodeGpus);
  read_nvlink(fields, line);
  return line;
}

// The same said by nodes.
FleetLine read_nodes(Fields fields) {
  fields.only({"model", "profiles", "count", "price", "gpus", "nvlink"});
  FleetLine line;
  line.gpu = fields.text("model");
  read_all(fields, line);
  line.node_gpus = fields.integer("gpus", kNodeGpus);
  read_nvlink(fields, line);
  if (!fields.has("count")) return line;
  const double most = std::floor(kCounts.high / std::max(1, line.node_gpus));
  line.count = fields.integer("count", {.low = 1, .high = most}) * line.node_gpus;
  return line;
}

}  // namespace

Result<std::vector<FleetLine>> parse_fleet(const std::string& file, std::string_view text) {
  const Document document = TRY(parse_document(file, text));
  Fields fields(document);
  fields.only({"api_version", "kind", "gpus", "nodes"});
  std::vector<FleetLine> lines;
  const auto add = [&](const Node& item, FleetLine line) {
    const auto same = std::ranges::find(lines, line.gpu, &FleetLine::gpu);
    if (same != lines.end())
      fields.refuse(item, fmt::format("gpu '{}' is already in line {}", same->gpu, same->line));
    lines.push_back(std::move(line));
  };
  const bool nodes = fields.has("nodes");
  if (!nodes || fields.has("gpus"))
    for (const Node& item : fields.list("gpus", kMaxFleetLines))
      add(item, read_gpus({fields, item}));
  if (nodes)
    for (const Node& item : fields.list("nodes", kMaxFleetLines))
      add(item, read_nodes({fields, item}));
  if (lines.empty()) fields.refuse("gpus", "'gpus' is empty");
  for (const FleetLine& line : lines)
    if (!line.domains.empty() && (lines.size() > 1 || !line.count))
      fields.refuse(document.root, "lists in 'nvlink' need a count, and GPUs of one model alone");
  if (fields.error()) return failed(*fields.error());
  return lines;
}

}  // namespace partita::decide
