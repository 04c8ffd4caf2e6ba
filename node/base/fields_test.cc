#include "base/fields.h"

#include <gtest/gtest.h>

#include <functional>

namespace partita {
namespace {

using Read = std::function<void(Fields&)>;

// What reading `text` with `read` is refused with.
std::string refusal(std::string_view text, const Read& read) {
  const auto document = parse_document("f.yaml", text);
  if (!document) return to_string(document.error());
  Fields fields(*document);
  read(fields);
  return fields.error() ? to_string(*fields.error()) : "accepted";
}

TEST(Fields, ReadsWhatIsThere) {
  const auto document = parse_document(
      "f.yaml",
      "n: 2.5\ni: 7\nw: 3000000001\nb: true\nt: bert\nl: [x, 7]\no: {i: 3}\nnothing: ~\n");
  ASSERT_TRUE(document) << to_string(document.error());
  Fields fields(*document);
  fields.only({"n", "i", "w", "b", "t", "l", "o", "nothing"});
  EXPECT_EQ(fields.number("n", kPositive), 2.5);
  EXPECT_EQ(fields.integer("i", {.low = 7, .high = 7}), 7);
  EXPECT_EQ(fields.whole("w", {}), 3'000'000'001);
  EXPECT_TRUE(fields.boolean("b"));
  EXPECT_EQ(fields.text("t"), "bert");
  EXPECT_EQ(fields.name("t"), "bert");
  EXPECT_EQ(fields.texts("l"), (std::vector<std::string>{"x", "7"}));
  EXPECT_EQ(fields.object("o").integer("i", kPositive), 3);
  EXPECT_TRUE(fields.has("nothing"));
  EXPECT_FALSE(fields.known("nothing"));
  EXPECT_FALSE(fields.has("absent"));
  EXPECT_FALSE(fields.error()) << to_string(*fields.error());
}

// A service named 7 needs no quotes in YAML; in JSON 7 is a number.
TEST(Fields, ANumberIsTextOnlyWhereItWasWrittenAsSuch) {
  const Read text = [](Fields& f) { f.text("t"); };
  EXPECT_EQ(refusal("t: 7", text), "accepted");
  EXPECT_NE(refusal("{\"t\": 7}", text), "accepted");
  EXPECT_NE(refusal("t: [7]", text), "accepted");
  EXPECT_NE(refusal("t: true", text), "accepted");
  const Read texts = [](Fields& f) { f.texts("t"); };
  EXPECT_EQ(refusal("t: [a, 7]", texts), "accepted");
  EXPECT_EQ(refusal("t:\n- a\n- [7]", texts).substr(0, 9), "f.yaml:3:");
}

TEST(Fields, RefusesWithThePlaceOfTheValue) {
  constexpr Range kOpen{.high = 1, .above = true, .below = true};
  const struct {
    const char* text;
    Read read;
    const char* message;
  } cases[] = {
      {"[1]", [](Fields&) {}, "f.yaml:1: must be an object with named values"},
      {"a: 1\nb: -1", [](Fields& f) { f.number("b", {}); },
       "f.yaml:2: 'b' is -1, must be at least 0"},
      {"b: 0", [](Fields& f) { f.number("b", kPositive); }, "f.yaml:1: 'b' is 0, must be above 0"},
      {"b: 1", [](Fields& f) { f.number("b", kOpen); }, "f.yaml:1: 'b' is 1, must be below 1"},
      {"b: 2e12", [](Fields& f) { f.number("b", {}); },
       "f.yaml:1: 'b' is 2000000000000, must be at most 1e+12"},
      {"b: 1.5", [](Fields& f) { f.integer("b", {}); }, "f.yaml:1: 'b' must be a whole number"},
      {"b: 3000000000.5", [](Fields& f) { f.whole("b", {}); },
       "f.yaml:1: 'b' must be a whole number"},
      {"b: 2e12", [](Fields& f) { f.whole("b", {}); },
       "f.yaml:1: 'b' is 2000000000000, must be at most 1e+12"},
      {"b: 1", [](Fields& f) { f.boolean("b"); }, "f.yaml:1: 'b' must be true or false"},
      {"b: 1", [](Fields& f) { f.boolean("c"); }, "f.yaml:1: 'c' is missing"},
      {"a: 1\nb: ''", [](Fields& f) { f.text("b"); }, "f.yaml:2: 'b' is empty"},
      {"b: \"x\\u202E\"", [](Fields& f) { f.name("b"); },
       "f.yaml:1: 'b' holds the control character U+202E"},
      {"b:\n- x\n- []", [](Fields& f) { f.texts("b"); }, "f.yaml:3: 'b' must list texts"},
      {"b: [1, 2]", [](Fields& f) { f.list("b", 1); },
       "f.yaml:1: 'b' has 2 items, at most 1 are allowed"},
      {"b: 1", [](Fields& f) { f.object("b"); }, "f.yaml:1: 'b' must be an object"},
      {"b: 1", [](Fields& f) { f.object("c"); }, "f.yaml:1: 'c' is missing"},
      {"a: 1\nrate: 1",
       [](Fields& f) {
         f.only({"a", "rates"});
       },
       "f.yaml:2: unknown key 'rate'; did you mean 'rates'?"},
      {"zzz: 1",
       [](Fields& f) {
         f.only({"a", "b"});
       },
       "f.yaml:1: unknown key 'zzz'; known keys: a, b"},
      {"\"\\e[31m\": 1", [](Fields& f) { f.only({"a"}); },
       "f.yaml:1: unknown key '\uFFFD[31m'; known keys: a"},
      {"a: 1\nkind: Plan", [](Fields& f) { f.exactly("kind", "Services"); },
       "f.yaml:2: 'kind' is 'Plan', must be 'Services'"},
  };
  for (const auto& c : cases) EXPECT_EQ(refusal(c.text, c.read), c.message) << c.text;
}

TEST(Fields, TheFirstRefusalSticksAndLaterReadsGiveNothing) {
  const auto read = [](Fields& fields) {
    fields.object("o").integer("i", kPositive);
    fields.text("absent");
    EXPECT_TRUE(fields.list("l").empty());
  };
  EXPECT_EQ(refusal("l: [1]\no:\n  i: 0", read), "f.yaml:3: 'i' is 0, must be above 0");
}

}  // namespace
}  // namespace partita
