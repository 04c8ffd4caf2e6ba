#include "base/document.h"

#include <gtest/gtest.h>

namespace partita {
namespace {

std::string refusal(const std::string& file, std::string_view text) {
  const auto document = parse_document(file, text);
  return document ? "accepted" : to_string(document.error());
}

TEST(Document, JsonValuesKnowTheirLines) {
  const auto document =
      parse_document("a.json", "{\n \"a\": 1,\n \"b\": [true,\n  2\n ],\n \"c\": \"x\"\n}");
  ASSERT_TRUE(document) << to_string(document.error());
  EXPECT_EQ(document->root.find("a")->line, 2);
  EXPECT_EQ(document->root.find("b")->items[0].line, 3);
  EXPECT_EQ(document->root.find("b")->items[1].line, 4);
  EXPECT_EQ(document->root.find("c")->line, 6);
  EXPECT_EQ(document->at(*document->root.find("c")), "a.json:6");
}

TEST(Document, YamlGivesTheSameTree) {
  const auto document = parse_document(
      "a.yaml", "services:\n  - name: bert\n    rate_rps: 19.5\n  - {name: '7', on: true}\n");
  ASSERT_TRUE(document) << to_string(document.error());
  const auto services = list_member(*document, document->root, "services");
  ASSERT_TRUE(services);
  EXPECT_EQ(*string_member(*document, (*services)->items[0], "name"), "bert");
  EXPECT_EQ(*number_member(*document, (*services)->items[0], "rate_rps"), 19.5);
  EXPECT_EQ((*services)->items[0].find("rate_rps")->line, 3);
  EXPECT_EQ(*string_member(*document, (*services)->items[1], "name"), "7");
  EXPECT_TRUE((*services)->items[1].find("on")->boolean);
  EXPECT_EQ(parse_document("a.yaml", "a: +5")->root.find("a")->number, 5);
  EXPECT_EQ(parse_document("a.yaml", "a: ++5")->root.find("a")->kind, Node::Kind::string);
}

TEST(Document, AnEmptyValueStandsWhereItsKeyDoes) {
  const auto document = parse_document("a.yaml", "a:\n  b:\n  c: ~\n\n  d:\n\n# end\ne: 1\n");
  ASSERT_TRUE(document) << to_string(document.error());
  const Node& a = *document->root.find("a");
  EXPECT_EQ(a.find("b")->kind, Node::Kind::null);
  EXPECT_EQ(a.find("b")->line, 2);
  EXPECT_EQ(a.find("c")->line, 3);
  EXPECT_EQ(a.find("d")->line, 5);
  EXPECT_EQ(document->root.find("e")->line, 8);
}

TEST(Document, RefusesWithFileAndLine) {
  EXPECT_EQ(refusal("a.yaml", ""), "a.yaml:1: the file is empty");
  for (const char* blank : {"", " ", "\n", "\t\r\n "})
    EXPECT_EQ(refusal("a.json", blank), "a.json:1: the file is empty");
  EXPECT_EQ(refusal("a.yaml", " \n\n"), "a.yaml:1: the file is empty");
  EXPECT_EQ(refusal("a.json", "{\n\"a\": 1,\n\"a\": 2}"), "a.json:3: duplicate key 'a'");
  EXPECT_EQ(refusal("a.yaml", "a: 1\nb: 2\na: 3\n"), "a.yaml:3: duplicate key 'a'");
  EXPECT_EQ(refusal("a.yaml", "a: &x 1\nb: *x\n"), "a.yaml:1: anchors are not supported");
  for (const char* value : {"[1]", "{b: 1}", "~", "text"})
    EXPECT_EQ(refusal("a.yaml", std::string("a:\n &x ") + value),
              "a.yaml:2: anchors are not supported");
  EXPECT_EQ(refusal("a.yaml", "a: 1\n---\nb: 2\n"), "a.yaml:1: more than one YAML document");
  EXPECT_EQ(refusal("a.bin", std::string_view("a\0b", 3)),
            "a.bin:1: not text: a control character");
  EXPECT_EQ(refusal("a.bin", "a\n\xff"), "a.bin:2: not text: invalid UTF-8");
  EXPECT_EQ(refusal("a.json", "{\n\"a\": 1e999}").substr(0, 9), "a.json:2:");
  EXPECT_EQ(refusal("a.json", "{\n\"a\": }").substr(0, 25), "a.json:2: not valid JSON:");
  EXPECT_EQ(refusal("a.json", "{} x").substr(0, 25), "a.json:1: not valid JSON:");
  EXPECT_EQ(refusal("a.yaml", "a: [1\nb: 2").substr(0, 7), "a.yaml:");
  EXPECT_EQ(refusal("a.json", std::string(100, '[')), "a.json:1: nested deeper than 64 levels");
  EXPECT_EQ(refusal("a.yaml", "k: " + std::string(100, '[') + std::string(100, ']')),
            "a.yaml:1: nested deeper than 64 levels");
}

TEST(Document, AByteOrderMarkIsNoText) {
  const std::string mark = "\xEF\xBB\xBF";
  EXPECT_EQ(parse_document("a.json", mark + R"({"a": 1})").value().root.find("a")->number, 1);
  EXPECT_EQ(parse_document("a.yaml", mark + "a: 2").value().root.find("a")->number, 2);
  EXPECT_FALSE(parse_document("a.yaml", mark));
}

TEST(Document, BrokenJsonIsRefusedWhereItBreaks) {
  const auto refusal = [](const char* text) {
    return to_string(parse_document("a.json", text).error());
  };
  EXPECT_EQ(refusal("{\"a\": 1,\n\n\"b\" 2}").find("a.json:3: not valid JSON: syntax error"), 0u)
      << refusal("{\"a\": 1,\n\n\"b\" 2}");
  EXPECT_EQ(refusal("{\"a\": 1e999\n}").find("a.json:1: "), 0u) << refusal("{\"a\": 1e999\n}");
}

// To the line, from the first to those of two digits.
TEST(Document, WhatIsBrokenIsNamedByItsLine) {
  for (const int lines : {0, 1, 8, 9, 11}) {
    const std::string before(static_cast<std::size_t>(lines), '\n');
    const std::string place = "a:" + std::to_string(lines + 1) + ": not valid ";
    EXPECT_EQ(refusal("a", before + "{\"a\" 1}").substr(0, place.size()), place);
    EXPECT_EQ(refusal("a", before + "a: 'x").substr(0, place.size()), place);
  }
}

TEST(Document, WholeNumbersEndWhereIntegersDo) {
  const auto document =
      parse_document("a.json", R"({"most": 2147483647, "least": -2147483647, "more": 2147483648,
                    "below": -2147483648})");
  ASSERT_TRUE(document);
  EXPECT_EQ(integer_member(*document, document->root, "most").value_or(0), 2147483647);
  EXPECT_EQ(integer_member(*document, document->root, "least").value_or(0), -2147483647);
  for (const char* key : {"more", "below"})
    EXPECT_FALSE(integer_member(*document, document->root, key)) << key;
}

TEST(Document, TypedMembersRefuseOtherKinds) {
  const auto document = parse_document("a.json", "{\"n\": 1.5, \"s\": \"x\",\n\"l\": []}");
  ASSERT_TRUE(document);
  const Node& root = document->root;
  EXPECT_EQ(to_string(number_member(*document, root, "s").error()),
            "a.json:1: 's' must be a finite number");
  EXPECT_EQ(to_string(integer_member(*document, root, "n").error()),
            "a.json:1: 'n' must be a whole number");
  EXPECT_EQ(to_string(string_member(*document, root, "n").error()), "a.json:1: 'n' must be a text");
  EXPECT_EQ(to_string(string_member(*document, root, "l").error()), "a.json:2: 'l' must be a text");
  EXPECT_EQ(to_string(list_member(*document, root, "z").error()), "a.json:1: 'z' is missing");
}

}  // namespace
}  // namespace partita
