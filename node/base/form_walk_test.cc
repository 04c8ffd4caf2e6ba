#include "base/form_walk.h"

#include <gtest/gtest.h>

#include "base/form.h"

namespace partita {
namespace {

using Mode = FormWalk::Mode;
using Style = FormWalk::Style;

// Two fields and a list of two, as every style separates them.
std::string walked(Style style, std::optional<std::string_view> lines) {
  JsonWriter out;
  FormWalk walk(Mode::write, &out, nullptr, style, 0);
  walk.lines(lines);
  for (const std::string_view key : {"a", "b"}) {
    if (!walk.open(key, "")) continue;
    key == "a" ? put(walk, 1.0) : put(walk, std::vector<int>{2, 3});
    walk.close();
  }
  walk.next.write = false;
  EXPECT_FALSE(walk.open("c", ""));
  walk.end_written();
  return out.take();
}

TEST(FormWalk, SeparatesFieldsByItsStyle) {
  EXPECT_EQ(walked(Style::compact, {}), R"("a":1,"b":[2,3])");
  EXPECT_EQ(walked(Style::by_hand, {}), R"("a": 1, "b": [2, 3])");
  EXPECT_EQ(walked(Style::by_hand, "  "), "\n  \"a\": 1,\n  \"b\": [2, 3]\n");
  EXPECT_EQ(walked(Style::indented, {}), "\n  \"a\": 1.0,\n  \"b\": [\n    2,\n    3\n  ]\n");
}

TEST(FormWalk, ASchemaDemandsWhatMayNotBeMissingAndNamesAKeyOnce) {
  JsonWriter out;
  FormWalk walk(Mode::schema, &out, nullptr, Style::indented, 0);
  double number = 0;
  std::optional<int> given;
  number_field(walk, "a", number, {.high = 1}, "first");
  number_field(walk, "b", given, {.low = 2, .high = 3}, "");
  number_field(walk, "a", number, {}, "again");
  EXPECT_TRUE(walk.when(false));
  number_field(walk, "c", number, {}, "of one kind");
  walk.closed();
  walk.end_schema();
  const std::string schema = "{" + out.take() + "}";
  EXPECT_NE(schema.find(R"("a": {"description": "first", "type": "number", "minimum": 0, )"
                        R"("maximum": 1})"),
            std::string::npos)
      << schema;
  EXPECT_NE(schema.find(R"("b": {"type": "integer", "minimum": 2, "maximum": 3})"),
            std::string::npos);
  EXPECT_EQ(schema.find("again"), std::string::npos);
  EXPECT_NE(schema.find(R"("required": ["a"], "additionalProperties": false)"), std::string::npos);
}

TEST(FormWalk, AValueThatMayBeMissingIsReadWhereItIs) {
  const auto document = parse_document("f.json", R"({"a": 3, "n": null})");
  ASSERT_TRUE(document);
  Fields fields(*document);
  FormWalk walk(Mode::read, nullptr, &fields, Style::by_hand, 0);
  std::optional<int> a, b = 7;
  number_field(walk, "a", a, {}, "");
  number_field(walk, "b", b, {}, "");
  EXPECT_EQ(a, 3);
  EXPECT_EQ(b, 7);
  walk.next.or_null = true;
  EXPECT_TRUE(walk.null("n", false));
  EXPECT_FALSE(walk.null("a", false)) << "what is like that was said of the field before";
  double infinite = 0;
  walk.next.or_null = true;
  number_field(walk, "n", infinite, {}, "");
  EXPECT_EQ(infinite, std::numeric_limits<double>::infinity());
  int missing = 0;
  number_field(walk, "c", missing, {}, "");
  EXPECT_TRUE(fields.error().has_value());
}

struct Sides {
  int left = 0, right = 0;
};
void describe(Form& f, Sides& sides) { f.integer("left", sides.left, {.high = 9}, ""); }
[[maybe_unused]] void describe(Form& f, std::string& text) { f.text("text", text, ""); }

TEST(Describer, IsAFunctionOfSeveralNamesakesOrALambdaThatHoldsMore) {
  EXPECT_EQ(write_form(Sides{1, 2}, describe, Style::compact), R"({"left":1})");
  const std::string key = "right";
  EXPECT_EQ(write_form(
                Sides{1, 2}, [&](Form& f, Sides& sides) { f.integer(key, sides.right, {}, ""); },
                Style::compact),
            R"({"right":2})");
}

}  // namespace
}  // namespace partita
