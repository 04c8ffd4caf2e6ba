// The JSON form of performance laws: parse_laws and laws_json of law.h.
#include <fmt/format.h>

#include "base/append.h"
#include "base/fields.h"
#include "base/json_writer.h"
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

std::string quoted(std::string_view text) { return JsonWriter().string(text).take(); }

// Whole coefficients are written as the fractions that they are.
std::string fraction(double value) {
  const std::string text = fmt::to_string(value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string law_json(const PerformanceLaw& law) {
  std::string text = fmt::format("  {{\n   \"model\": {}", quoted(law.model));
  for (const Coefficient& c : kCoefficients)
    text += fmt::format(",\n   {}: {}", quoted(c.name), fraction(law.*c.member));
  return text + "\n  }";
}

}  // namespace

Result<PerformanceLaws> parse_laws(const std::string& file, std::string_view text) {
  const Document document = TRY(parse_document(file, text));
  Fields fields(document);
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
  std::vector<std::string> rows, entries;
  for (const PerformanceLaw& law : laws.laws) rows.push_back(law_json(law));
  entries.push_back(fmt::format(" \"api_version\": {}", quoted(kApiVersion)));
  entries.push_back(fmt::format(" \"kind\": {}", quoted(kKind)));
  entries.push_back(fmt::format(" \"gpu_model\": {}", quoted(laws.gpu_model)));
  if (!laws.source.empty()) entries.push_back(fmt::format(" \"source\": {}", quoted(laws.source)));
  if (!rows.empty()) entries.push_back(fmt::format(" \"laws\": [\n{}\n ]", joined(rows, ",\n")));
  return fmt::format("{{\n{}\n}}\n", joined(entries, ",\n"));
}

}  // namespace partita::profile
