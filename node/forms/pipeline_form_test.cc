#include "forms/pipeline_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "forms/serving_forms.h"
#include "forms/terms_form.h"

namespace partita::forms {
namespace {

using testing::HasSubstr;

std::string steps(const std::string& second) {
  return "services:\n"
         "  - name: p\n    rate_rps: 10\n    slo_ms: 100\n    percentile: 98\n"
         "    pipeline:\n      steps:\n"
         "        - {model_name: a, input_map: {x: in}, output_map: {y: mid}}\n"
         "        - " +
         second + "\n";
}
const std::string kReader =
    "{model_name: b, fan_out: 3, input_map: {x: mid}, output_map: {y: out}}";

TEST(PipelineForm, MakesMembersOfModels) {
  const auto read = parse_services("f", steps(kReader));
  ASSERT_TRUE(read) << to_string(read.error());
  ASSERT_EQ(read->size(), 3u);
  const Service &p = (*read)[0], &a = (*read)[1], &b = (*read)[2];
  EXPECT_FALSE(p.member);
  ASSERT_TRUE(p.pipeline);
  EXPECT_EQ(p.pipeline->steps[1].fan_out, 3);
  EXPECT_TRUE(a.member && b.member);
  EXPECT_EQ(a.model, "a");
  EXPECT_EQ(a.rate, Rps{10});
  EXPECT_EQ(b.rate, Rps{30});
  EXPECT_EQ(b.slo, Millis{100});
  EXPECT_EQ(b.percentile, 98);
}

TEST(PipelineForm, UsesAServiceThatIsThere) {
  const auto read =
      parse_services("f", steps(kReader) + "  - {name: b, model: m, rate_rps: 5, slo_ms: 40}\n");
  ASSERT_TRUE(read) << to_string(read.error());
  ASSERT_EQ(read->size(), 3u);
  const Service& b = (*read)[1];
  EXPECT_FALSE(b.member);
  EXPECT_EQ(b.model, "m");
  EXPECT_EQ(b.rate, Rps{35});  // its own clients', and the pipeline's
  EXPECT_EQ(b.slo, Millis{40});
  EXPECT_EQ(b.percentile, 99);
  const auto own = own_demands(*read);
  ASSERT_EQ(own.size(), 2u);  // a is asked for by nobody else
  EXPECT_EQ(own[0].name, "p");
  EXPECT_EQ(own[1].rate, Rps{5});
}

TEST(PipelineForm, RefusesWithItsLine) {
  const auto why = [](const std::string& text) {
    const auto read = parse_services("f", text);
    return read ? "" : to_string(read.error());
  };
  EXPECT_THAT(why(steps("{model_name: b, input_map: {x: mid}, output_map: {y: in}}")),
              HasSubstr("a cycle"));
  EXPECT_THAT(why(steps("{model_name: p, input_map: {x: mid}, output_map: {y: out}}")),
              HasSubstr("f:2: pipeline 'p': its step 'p' is a pipeline itself"));
  EXPECT_THAT(why(steps("{model_name: b, share_ms: 3, input_map: {x: mid}, output_map: {y: o}}")),
              HasSubstr("shares of the SLO"));
  EXPECT_THAT(why(steps("{model_name: b, fan_out: 0, input_map: {x: mid}, output_map: {y: o}}")),
              HasSubstr("fan_out"));
  EXPECT_THAT(why(steps("{model_name: b, input: {x: mid}, output_map: {y: o}}")),
              HasSubstr("input"));
}

TEST(PipelineForm, TermsReadBackAsTheyWere) {
  auto read = parse_services("f", steps(kReader));
  ASSERT_TRUE(read);
  for (plan::Terms& terms : *read) {
    if (terms.pipeline) terms.pipeline->steps[0].share = Millis{12.5};
    const auto describe = [](Form& f, plan::Terms& t) { describe_terms(f, t, TermsKept::known); };
    const auto again =
        read_form<plan::Terms>("f", write_form<plan::Terms>(terms, describe), describe);
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_EQ(*again, terms);
  }
}

}  // namespace
}  // namespace partita::forms
