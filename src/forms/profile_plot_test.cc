#include "forms/profile_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "forms/xml_check.h"

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

}  // namespace
}  // namespace partita::forms
