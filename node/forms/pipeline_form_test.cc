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

// Of each step's own clients and of the pipeline, at the minutes at which either changes.
TEST(PipelineForm, StepsFollowTheRatesOfTheDay) {
  std::string text = steps(kReader);
  const std::string constant = "rate_rps: 10";
  text.replace(text.find(constant), constant.size(), "rates: [[06:00, 10], [22:00, 4]]");
  const auto read = parse_services(
      "f", text + "  - {name: b, model: m, rates: [[00:00, 5], [12:00, 9]], slo_ms: 40}\n" +
               "  - {name: c, model: m, rate_rps: 7, slo_ms: 40}\n");
  ASSERT_TRUE(read) << to_string(read.error());
  const Service &p = (*read)[0], &b = (*read)[1], &c = (*read)[2], &a = (*read)[3];
  const auto rates = [](const Service& service) {
    std::vector<std::pair<int, double>> all;
    for (const plan::RateAt& entry : service.traffic.rates)
      all.emplace_back(entry.minute, entry.rate.value);
    return all;
  };
  using Rates = std::vector<std::pair<int, double>>;
  EXPECT_EQ(p.rate, Rps{10});  // the highest
  EXPECT_EQ(rates(a), (Rates{{360, 10}, {1320, 4}}));
  EXPECT_EQ(rates(b), (Rates{{0, 5 + 12}, {360, 5 + 30}, {720, 9 + 30}, {1320, 9 + 12}}));
  EXPECT_EQ(b.rate, Rps{9 + 30});
  EXPECT_EQ(rates(c), Rates{});
  EXPECT_EQ(c.rate, Rps{7});
  const auto own = own_demands(*read);
  ASSERT_EQ(own.size(), 3u);
  EXPECT_EQ(rates(own[1]), (Rates{{0, 5}, {720, 9}}));
  EXPECT_EQ(rates(own[0]), (Rates{{360, 10}, {1320, 4}}));
}

// A service with the same rate all day, in a pipeline without: the same all day for its clients.
TEST(PipelineForm, RatesOfPipelinesAloneGoWithThem) {
  std::string text = steps(kReader);
  text.replace(text.find("rate_rps: 10"), 12, "rates: [[06:00, 10], [22:00, 4]]");
  const auto read =
      parse_services("f", text + "  - {name: b, model: m, rate_rps: 0.3, slo_ms: 40}\n");
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ((*read)[1].traffic.rates.size(), 2u);
  const auto own = own_demands(*read);
  EXPECT_EQ(own[1].traffic.rates.size(), 0u);
  EXPECT_NEAR(own[1].rate.value, 0.3, 1e-9);
}

TEST(PipelineForm, TakesWhatTheFileSaysForAll) {
  const auto with = [](const std::string& top, const std::string& own = "") {
    std::string text = steps(kReader);
    text.insert(text.find("    slo_ms"), own);
    return parse_services("f", top + text);
  };
  const auto headroom = with("headroom: 20%\n");
  ASSERT_TRUE(headroom) << to_string(headroom.error());
  EXPECT_EQ((*headroom)[0].traffic.headroom, 0.2);
  EXPECT_EQ((*headroom)[1].traffic.headroom, 0.2);  // its members carry it, too
  const auto rates = with("rates: [[06:00, 100%], [22:00, 30%]]\n");
  ASSERT_TRUE(rates) << to_string(rates.error());
  EXPECT_EQ((*rates)[1].traffic.rates[1], (plan::RateAt{1320, Rps{3}}));
  const auto refused = with("arrivals: {cv: 2}\n");
  ASSERT_FALSE(refused);
  EXPECT_THAT(to_string(refused.error()), HasSubstr("Poisson arrivals alone"));
  EXPECT_TRUE(with("arrivals: {cv: 2}\n", "    arrivals: poisson\n"));
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
