#include "interop/profile_name.h"

#include <gtest/gtest.h>

#include "hw/catalogue.h"

namespace partita::interop {
namespace {

TEST(ProfileName, Parts) {
  EXPECT_EQ(*parse_profile_name("3g.40gb"), (ProfileName{3, 3, 40, {}}));
  EXPECT_EQ(*parse_profile_name("1c.3g.40gb"), (ProfileName{1, 3, 40, {}}));
  EXPECT_EQ(*parse_profile_name("1g.10gb+me"), (ProfileName{1, 1, 10, {"me"}}));
  EXPECT_EQ(*parse_profile_name("1g.24gb+me.all,gfx"), (ProfileName{1, 1, 24, {"me.all", "gfx"}}));
  EXPECT_EQ(*parse_profile_name("1g.24gb-me"), (ProfileName{1, 1, 24, {}, "me"}));
  EXPECT_EQ(parse_profile_name("3c.3g.40gb")->text(), "3g.40gb");
}

TEST(ProfileName, WrongNames) {
  for (const char* text : {"",
                           "3g",
                           "g.gb",
                           "3g.40",
                           "3.40gb",
                           "0g.40gb",
                           "3g.0gb",
                           "03g.40gb",
                           "-3g.40gb",
                           "3g.40gb+",
                           "3g.40gb-",
                           "3g.40gb+me,",
                           "3g.40gb+me,me",
                           "3g.40gb+me-me",
                           "3g.40gb+1e",
                           "3g.40gb+m e",
                           " 3g.40gb",
                           "3g.40gb ",
                           "4c.3g.40gb",
                           "1c.1c.3g.40gb",
                           "x.3g.40gb",
                           "3g.40GB",
                           "3g.4e1gb",
                           "99999g.40gb",
                           "3g.40gb++me",
                           "3g.40gb-me,gfx"})
    EXPECT_FALSE(parse_profile_name(text)) << text;
}

// Every name and alias of the catalogue is one, and finds its profile.
TEST(ProfileName, OfTheCatalogue) {
  int names = 0;
  for (const hw::GpuModel& gpu : hw::builtin_catalogue().gpus) {
    for (std::size_t k = 0; k < gpu.profiles.size(); ++k) {
      std::vector<std::string> called = gpu.profiles[k].aliases;
      called.push_back(gpu.profiles[k].name);
      for (const std::string& text : called) {
        ++names;
        const Result<ProfileName> name = parse_profile_name(text);
        ASSERT_TRUE(name) << text;
        EXPECT_EQ(name->text(), text);
        EXPECT_EQ(find_profile(gpu, *name).value_or(-1), static_cast<int>(k)) << text;
      }
    }
  }
  EXPECT_GT(names, 90);
}

}  // namespace
}  // namespace partita::interop
