#include "base/json_writer.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/document.h"

namespace partita {
namespace {

TEST(JsonWriter, AnyBytesBecomeTextThatReadersTake) {
  const auto read_back = [](std::string_view value) {
    const std::string json = JsonWriter().raw("[").string(value).raw("]").take();
    const auto document = parse_document("a.json", json);
    return document ? document->root.items.at(0).text : to_string(document.error());
  };
  std::string ascii;
  for (int c = 0; c < 128; ++c) ascii += static_cast<char>(c);
  EXPECT_EQ(read_back(ascii), ascii);
  EXPECT_EQ(read_back("é\u202E\uFFFD😀"), "é\u202E\uFFFD😀");
  // A name cut within a character, as kernels do; a lone continuation; a surrogate.
  EXPECT_EQ(read_back("caf\xC3"), "caf\uFFFD");
  EXPECT_EQ(read_back("\x80 \xFF"), "\uFFFD \uFFFD");
  EXPECT_EQ(read_back("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
}

TEST(JsonWriter, WritesWhatWasRead) {
  const std::string json = R"({"a":[1,-2.5,1e+300],"b":{"c":null,"d":true},"e":[],"f":"x\"y"})";
  EXPECT_EQ(JsonWriter().value(parse_document("a.json", json).value().root).take(), json);
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(JsonWriter().number(infinite).raw(",").number(-7L).take(), "null,-7");
}

}  // namespace
}  // namespace partita
