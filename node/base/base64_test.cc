#include "base/base64.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace partita {
namespace {

TEST(Base64, HasTheVectorsOfRfc4648) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(base64(bytes), text);
    EXPECT_EQ(parse_base64(text), bytes);
  }
}

TEST(Base64, RefusesWhatIsNone) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zg==Zg==", "Z===", "Zh==", "Zm9=", "Zm 9", "Zm9\n"})
    EXPECT_FALSE(parse_base64(text)) << text;
}

TEST(Base64, IsReadAsItWasWritten) {
  Rng rng(1);
  for (int length = 0; length < 100; ++length) {
    std::string bytes;
    for (int i = 0; i < length; ++i) bytes += static_cast<char>(rng.below(256));
    EXPECT_EQ(parse_base64(base64(bytes)), bytes);
  }
}

}  // namespace
}  // namespace partita
