// The JSON form of performance laws: parse_laws and laws_json of law.h.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/document.h"
#include "profile/law.h"

namespace partita::profile {
namespace {

constexpr std::string_view kApiVersion = "partita/v1";
constexpr std::string_view kKind = "PerformanceLaws";

Result<void> check_keys(const Document& document, const Node& object,
                        const std::vector<std::string_view>& known) {
  for (const auto& [key, value] : object.members) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return bad_input(document.at(value), fmt::format("unknown key '{}'", key));
    }
  }
  return {};
}

Result<std::string> filled_text(const Document& document, const Node& object,
                                std::string_view key) {
  Result<std::string> text = string_member(document, object, key);
  if (text && text->empty())
    return bad_input(document.at(object), fmt::format("'{}' is empty", key));
  return text;
}

Result<void> expect_text(const Document& document, std::string_view key, std::string_view wanted) {
  const Result<std::string> text = string_member(document, document.root, key);
  if (!text) return failed(text.error());
  if (*text == wanted) return {};
  return bad_input(document.at(document.root),
                   fmt::format("'{}' is '{}', not '{}'", key, *text, wanted));
}

Result<PerformanceLaw> parse_law(const Document& document, const Node& node) {
  std::vector<std::string_view> known = {"model"};
  for (const Coefficient& c : kCoefficients) known.push_back(c.name);
  if (const Result<void> keys = check_keys(document, node, known); !keys)
    return failed(keys.error());
  const Result<std::string> model = filled_text(document, node, "model");
  if (!model) return failed(model.error());
  PerformanceLaw law;
  law.model = *model;
  for (const Coefficient& c : kCoefficients) {
    const Result<double> value = number_member(document, node, c.name);
    if (!value) return failed(value.error());
    if (*value < c.min || *value > c.max) {
      return bad_input(document.at(*node.find(c.name)),
                       fmt::format("'{}' is {}, not in {}..{}", c.name, *value, c.min, c.max));
    }
    law.*c.member = *value;
  }
  return law;
}

}  // namespace

Result<PerformanceLaws> parse_laws(const std::string& file, std::string_view text) {
  const Result<Document> document = parse_document(file, text);
  if (!document) return failed(document.error());
  const Node& root = document->root;
  for (const Result<void>& step :
       {expect_text(*document, "api_version", kApiVersion), expect_text(*document, "kind", kKind),
        check_keys(*document, root, {"api_version", "kind", "gpu_model", "source", "laws"})}) {
    if (!step) return failed(step.error());
  }
  PerformanceLaws laws;
  const Result<std::string> gpu = filled_text(*document, root, "gpu_model");
  if (!gpu) return failed(gpu.error());
  laws.gpu_model = *gpu;
  if (root.find("source") != nullptr) {
    const Result<std::string> source = string_member(*document, root, "source");
    if (!source) return failed(source.error());
    laws.source = *source;
  }
  const Result<const Node*> list = list_member(*document, root, "laws");
  if (!list) return failed(list.error());
  if ((*list)->items.empty()) return bad_input(document->at(**list), "'laws' is empty");
  for (const Node& node : (*list)->items) {
    Result<PerformanceLaw> law = parse_law(*document, node);
    if (!law) return failed(law.error());
    if (!laws.laws.empty() && law->model <= laws.laws.back().model) {
      return bad_input(document->at(node),
                       fmt::format("model '{}' repeated or not in ascending order", law->model));
    }
    laws.laws.push_back(std::move(*law));
  }
  return laws;
}

std::string laws_json(const PerformanceLaws& laws) {
  nlohmann::ordered_json root = {
      {"api_version", kApiVersion}, {"kind", kKind}, {"gpu_model", laws.gpu_model}};
  if (!laws.source.empty()) root["source"] = laws.source;
  for (const PerformanceLaw& law : laws.laws) {
    nlohmann::ordered_json& entry = root["laws"].emplace_back();
    entry["model"] = law.model;
    for (const Coefficient& c : kCoefficients) entry[c.name] = law.*c.member;
  }
  return root.dump(1) + "\n";
}

}  // namespace partita::profile
