// The examples in docs/formats.md are read as a user would have them read.
#include <gtest/gtest.h>

#include "base/source_text.h"
#include "model/energy/energy_forms.h"

namespace partita::energy {
namespace {

std::string example(const std::string& language) {
  const std::string text = source_text("docs/formats.md");
  const std::string open = "```" + language + "\n";
  const auto begin = text.find(open, text.find("\n## Energy\n"));
  if (begin == text.npos) return "";
  return text.substr(begin + open.size(), text.find("```\n", begin + 1) - begin - open.size());
}

TEST(EnergyFormatsDoc, CountersExampleIsFitted) {
  const auto table = parse_counters("formats.md", example("csv"), {});
  ASSERT_TRUE(table) << to_string(table.error());
  ASSERT_EQ(table->rows.size(), 3u);
  EXPECT_EQ(table->rows[1].measured, 116);
  EXPECT_EQ(table->components.size(), 3u);
  FitOptions options;
  options.prior_for_all = 1e-9;
  EXPECT_TRUE(fit(*table, options));
}

TEST(EnergyFormatsDoc, ModelExampleIsReadAndNamesEveryKey) {
  const auto model = parse_model("formats.md", example("json"));
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->components[1].joules, 183);
}

// Every key of the report's form stands in its table.
TEST(EnergyFormatsDoc, ReportKeysAreDocumented) {
  const std::string text = source_text("docs/formats.md");
  const std::string section = text.substr(text.find("\n## Energy\n"));
  EnergyReport report;
  report.tenants.push_back({"a", 1, 1, 1, 1, true, {"s"}, 1.0, 1.0});
  report.services.push_back({"s", "a", 1, 1, 1, 1.0, 1.0});
  report.instances.push_back({});
  report.gpus.push_back({});
  report.compared.push_back({"equal", {{"a", 1}}, 0});
  report.notes.push_back("n");
  const std::string json = report_json(report);
  int keys = 0;
  for (std::size_t at = json.find('"'); at != json.npos; ++keys) {
    const std::size_t end = json.find('"', at + 1);
    const std::string key = json.substr(at + 1, end - at - 1);
    if (json[end + 1] == ':' && key != "api_version" && key != "kind") {
      EXPECT_NE(section.find(key), section.npos) << key;
    }
    at = json.find('"', end + 1);
  }
  EXPECT_GT(keys, 40);
}

}  // namespace
}  // namespace partita::energy
