#include "forms/profile_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "forms/testing/xml_check.h"

namespace partita::forms {
namespace {

using testing::HasSubstr;

profile::WorkloadProfile plotted_profile() {
  return {"a<b",
          {{1, 1, 1, Rps{100}, Millis{10}, {}},
           {1, 2, 1, Rps{150}, Millis{13}, {}},
           {7, 1, 1, Rps{600}, Millis{2}, {}}}};
}

TEST(ProfilePlot, ShowsEverySizeThatRan) {
  const std::string text = plot_text(plotted_profile(), 1);
  EXPECT_THAT(text, HasSubstr("GPCs"));
  EXPECT_THAT(text, HasSubstr("\n   1 "));
  EXPECT_THAT(text, HasSubstr("\n   7 "));
  EXPECT_EQ(plot_text(plotted_profile(), 2), "");
  EXPECT_EQ(plot_svg(plotted_profile(), 2), "");
}

TEST(ProfilePlot, IsXmlWhateverTheName) {
  const std::string svg = plot_svg(plotted_profile(), 1);
  EXPECT_THAT(svg, HasSubstr("a&lt;b"));
  EXPECT_EQ(forms::XmlCheck(svg).run(), "");
}

TEST(ProfilePlot, MarksWhatWasPredicted) {
  EXPECT_EQ(plot_text(plotted_profile(), 1).find("predicted"), std::string::npos);
  EXPECT_EQ(plot_svg(plotted_profile(), 1).find("redicted"), std::string::npos);
  profile::WorkloadProfile half = plotted_profile();
  half.points[1].learned_on = "A<100";
  EXPECT_THAT(
      plot_text(half, 1),
      HasSubstr("\n~ 1 of 3 points are predicted, not measured, by a law learned on A<100\n"));
  const std::string svg = plot_svg(half, 1);
  EXPECT_EQ(forms::XmlCheck(svg).run(), "");
  EXPECT_THAT(svg, HasSubstr(">Hollow: 1 of 3 points are predicted, not measured, by a law learned "
                             "on A&lt;100<"));
  EXPECT_THAT(svg, HasSubstr("fill='white'><title>1 GPCs, batch 2: 150, predicted<"));
}

}  // namespace
}  // namespace partita::forms
