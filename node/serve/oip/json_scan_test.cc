#include "serve/oip/json_scan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/rng.h"

namespace partita::serve {
namespace {

using nlohmann::json;

TEST(JsonScanTest, StringsReadAsOthersReadThem) {
  for (const std::string text :
       {R"("")", R"("plain")", R"("a\"b\\c\/d\b\f\n\r\t")", R"("\u0041\u00e9\u20ac\ud83d\ude00")",
        R"("é€")", R"("\u0000x")"}) {
    JsonScan scan(text);
    EXPECT_EQ(scan.string(), json::parse(text).get<std::string>()) << text;
    scan.end();
    EXPECT_EQ(scan.error(), "");
  }
  for (const std::string text : {"\"", "\"a", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\ud800\"",
                                 "\"\\ud800\\u0041\"", "\"\\udc00\"", "\"\n\"", "x", ""}) {
    JsonScan scan(text);
    scan.string();
    scan.end();
    EXPECT_FALSE(scan.ok()) << text;
    EXPECT_FALSE(json::accept(text)) << text;
  }
}

TEST(JsonScanTest, NumbersAreWholeWhereTheyAreToBe) {
  const auto integer = [](std::string_view text) -> std::optional<std::int64_t> {
    JsonScan scan(text);
    const std::int64_t value = scan.integer();
    scan.end();
    if (!scan.ok()) return std::nullopt;
    return value;
  };
  EXPECT_EQ(integer(" -12 "), -12);
  EXPECT_EQ(integer("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  for (const char* text : {"9223372036854775808", "1.0", "1e3", "", "x", "-", "1x", "06", "-00"})
    EXPECT_EQ(integer(text), std::nullopt) << text;
}

// A random document of arrays, objects, strings and numbers.
std::string document(Rng& rng, int depth) {
  const auto pick = rng.next() % (depth > 4 ? 2 : 4);
  if (pick == 0) return std::to_string(static_cast<int>(rng.next() % 2000) - 1000);
  if (pick == 1) {
    const char* strings[] = {R"("[")", R"("a\"]b")", R"("{}")", R"("")", R"("\\")", "null", "true"};
    return strings[rng.next() % 7];
  }
  std::string text = pick == 2 ? "[" : "{";
  const auto count = rng.next() % 4;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) text += rng.next() % 2 == 0 ? "," : " ,\n";
    if (pick == 3) text += "\"k" + std::to_string(i) + "\": ";
    text += document(rng, depth + 1);
  }
  return text + (pick == 2 ? "]" : "}");
}

TEST(JsonScanTest, WhatIsSkippedIsOneValueExactly) {
  Rng rng(3);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = document(rng, 0);
    const std::string all = "[" + text + ",7]";
    JsonScan scan(all);
    int index = 0;
    scan.array([&] {
      if (index++ == 0)
        EXPECT_EQ(scan.skip(), text);
      else
        EXPECT_EQ(scan.integer(), 7);
    });
    scan.end();
    EXPECT_EQ(scan.error(), "") << all;
    EXPECT_EQ(index, 2);
  }
}

TEST(JsonScanTest, BracketsThatDoNotMatchAreRefused) {
  for (const char* text :
       {"[", "{", "[}", "{]", "[[1]", "[{\"a\":1]", "[\"]", "[1}}", "[{\"a\":[1}]"}) {
    JsonScan scan(text);
    scan.skip();
    EXPECT_FALSE(scan.ok()) << text;
  }
  const std::string deep = std::string(66, '[') + std::string(66, ']');
  JsonScan over(deep);
  over.skip();
  EXPECT_FALSE(over.ok());
  const std::string fits = deep.substr(2, 128);
  JsonScan within(fits);
  EXPECT_EQ(within.skip(), fits);
}

TEST(JsonScanTest, StringsAreWrittenAsOthersReadThem) {
  for (const std::string text : {"", "a\"b\\c", "\n\t\x01", "é€😀"}) {
    std::string out;
    append_json_string(out, text);
    EXPECT_EQ(json::parse(out).get<std::string>(), text);
  }
  for (const std::string text : {"\xff", "a\xc3", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xc0\x80"}) {
    std::string out;
    append_json_string(out, text);
    EXPECT_TRUE(json::accept(out)) << out;
    EXPECT_NE(out.find("\xEF\xBF\xBD"), std::string::npos);
  }
}

}  // namespace
}  // namespace partita::serve
