// The JSON form of performance laws: parse_laws and laws_json of law.h.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/fields.h"
#include "profile/law.h"

namespace partita::profile {
namespace {

constexpr std::string_view kApiVersion = "partita/v1";
constexpr std::string_view kKind = "PerformanceLaws";

PerformanceLaw read_law(Fields fields) {
  std::vector<std::string_view> keys = {"model"};
  for (const Coefficient& c : kCoefficients) keys.push_back(c.name);
  fields.only(keys);
  PerformanceLaw law;
  law.model = fields.text("model");
  for (const Coefficient& c : kCoefficients)
    law.*c.member = fields.number(c.name, {.low = c.min, .high = c.max});
  return law;
}

}  // namespace

Result<PerformanceLaws> parse_laws(const std::string& file, std::string_view text) {
  const Result<Document> document = parse_document(file, text);
  if (!document) return failed(document.error());
  Fields fields(*document);
  fields.exactly("api_version", kApiVersion);
  fields.exactly("kind", kKind);
  fields.only({"api_version", "kind", "gpu_model", "source", "laws"});
  PerformanceLaws laws;
  laws.gpu_model = fields.name("gpu_model");
  if (fields.has("source")) laws.source = fields.text("source");
  for (const Node& item : fields.list("laws")) {
    PerformanceLaw law = read_law({fields, item});
    if (!laws.laws.empty() && law.model <= laws.laws.back().model)
      fields.refuse(item, fmt::format("model '{}' repeated or not in ascending order", law.model));
    laws.laws.push_back(std::move(law));
    if (fields.error()) break;
  }
  if (laws.laws.empty()) fields.refuse("laws", "'laws' is empty");
  if (fields.error()) return failed(*fields.error());
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
