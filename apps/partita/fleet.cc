#include <fmt/format.h>

#include <algorithm>

#include "base/document.h"
#include "flags.h"
#include "inputs.h"

namespace partita::cli {
namespace {

constexpr std::size_t kMaxFleetLines = 1000;
constexpr int kMaxFleetGpus = 1'000'000;
constexpr double kMaxPrice = 1e9;

// Refuses members other than those in `known`.
Result<void> only_known(const Document& document, const Node& object,
                        const std::vector<std::string>& known) {
  for (const auto& [key, value] : object.members) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    return bad_input(document.at(value),
                     fmt::format("unknown key '{}'{}", key, did_you_mean(key, known)));
  }
  return {};
}

Result<FleetLine> parse_line(const Document& document, const Node& node) {
  if (node.kind != Node::Kind::object) {
    return bad_input(document.at(node), "an entry has keys: gpu, profiles, count, price");
  }
  FleetLine line;
  line.line = node.line;
  if (auto known = only_known(document, node, {"gpu", "profiles", "count", "price"}); !known) {
    return failed(known.error());
  }
  const Result<std::string> gpu = string_member(document, node, "gpu");
  if (!gpu) return failed(gpu.error());
  const Result<std::string> profiles = string_member(document, node, "profiles");
  if (!profiles) return failed(profiles.error());
  if (profiles->empty()) return bad_input(document.at(node), "profiles: a path is needed");
  line.gpu = *gpu;
  line.profiles = *profiles;
  if (const Node* count = node.find("count")) {
    const Result<int> value = integer_member(document, node, "count");
    if (!value) return failed(value.error());
    if (*value < 1 || *value > kMaxFleetGpus) {
      return bad_input(document.at(*count),
                       fmt::format("count: {} is not between 1 and {}", *value, kMaxFleetGpus));
    }
    line.count = *value;
  }
  if (const Node* price = node.find("price")) {
    const Result<double> value = number_member(document, node, "price");
    if (!value) return failed(value.error());
    if (!(*value > 0 && *value <= kMaxPrice)) {
      return bad_input(document.at(*price),
                       fmt::format("price: {} is not above 0 and at most {}", *value, kMaxPrice));
    }
    line.price = *value;
  }
  return line;
}

}  // namespace

Result<std::vector<FleetLine>> parse_fleet(const std::string& file, std::string_view text) {
  const Result<Document> document = parse_document(file, text);
  if (!document) return failed(document.error());
  const Node& root = document->root;
  if (auto known = only_known(*document, root, {"api_version", "kind", "gpus"}); !known) {
    return failed(known.error());
  }
  const Result<const Node*> list = list_member(*document, root, "gpus");
  if (!list) return failed(list.error());
  const std::vector<Node>& items = (*list)->items;
  if (items.empty() || items.size() > kMaxFleetLines) {
    return bad_input(document->at(**list),
                     fmt::format("gpus: between 1 and {} entries are needed", kMaxFleetLines));
  }
  std::vector<FleetLine> lines;
  for (const Node& item : items) {
    Result<FleetLine> line = parse_line(*document, item);
    if (!line) return failed(line.error());
    for (const FleetLine& other : lines) {
      if (other.gpu == line->gpu) {
        return bad_input(document->at(item),
                         fmt::format("gpu '{}' is already in line {}", other.gpu, other.line));
      }
    }
    lines.push_back(std::move(*line));
  }
  return lines;
}

}  // namespace partita::cli
