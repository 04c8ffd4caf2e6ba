#include "base/form.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/testing/form_check.h"

namespace partita {
namespace {

enum class Colour { red, green };

struct Corner {
  int x = 0;
  bool round = false;
  bool operator==(const Corner&) const = default;
};

struct Shape {
  std::string name;
  Colour colour = Colour::red;
  double area = 0;
  std::optional<double> weight;
  double reach = 0;  // may be infinite
  long seen = 0;
  std::vector<Corner> corners;
  std::vector<int> marks;
  std::vector<std::string> notes;
  std::optional<Corner> centre;
  bool operator==(const Shape&) const = default;
};

void describe(Form& f, Corner& corner) {
  f.closed();
  f.integer("x", corner.x, {.low = -9, .high = 9}, "across");
  f.optional().boolean("round", corner.round, "not sharp");
}

void describe(Form& f, Shape& shape) {
  f.document("Shape");
  f.line("  ").name("name", shape.name, "for people");
  f.word("colour", shape.colour, {"red", "green"}, "as painted");
  f.number("area_mm2", shape.area, kPositive, "inside");
  f.number("weight_g", shape.weight, kNotNegative, "");
  f.or_null().number("reach_mm", shape.reach, kNotNegative, "null: everywhere");
  f.whole("seen", shape.seen, kNotNegative, "how often");
  f.line("  ").list("corners", shape.corners, describe, {.most = 3, .indent = "    "}, "clockwise");
  f.integers("marks", shape.marks, {.low = 1, .high = 5}, {.between = ","}, "");
  f.optional(!shape.notes.empty()).notes("notes", shape.notes, {}, "");
  f.object("centre", shape.centre, describe, "");
}

const Shape kShape{.name = "a \"b\"",
                   .colour = Colour::green,
                   .area = 0.5,
                   .weight = 2,
                   .reach = std::numeric_limits<double>::infinity(),
                   .seen = 3,
                   .corners = {{1, true}, {-2, false}},
                   .marks = {1, 5},
                   .notes = {},
                   .centre = Corner{3, false}};

TEST(Form, WritesTheFieldsInOrderAndInTheirLines) {
  EXPECT_EQ(write_form(kShape, describe), R"({"api_version": "partita/v1", "kind": "Shape",
  "name": "a \"b\"", "colour": "green", "area_mm2": 0.5, "weight_g": 2, "reach_mm": null, "seen": 3,
  "corners": [
    {"x": 1, "round": true},
    {"x": -2, "round": false}], "marks": [1,5], "centre": {"x": 3, "round": false}}
)");
}

// The other library's way of writing it, which is what the indented style copies.
TEST(Form, TheIndentedStyleIsThatOfTheJsonLibrary) {
  Shape shape = kShape;
  for (const double area : {0.5, 2.0, 1e12, 123456.0, 1e-7, 1e22}) {
    shape.area = area;
    const std::string text = write_form(shape, describe, Form::Style::indented);
    EXPECT_EQ(text, nlohmann::ordered_json::parse(text).dump(2) + "\n");
  }
  shape.area = 2;
  EXPECT_NE(write_form(shape, describe, Form::Style::indented).find("\"area_mm2\": 2.0,"),
            std::string::npos)
      << "a number is no whole number";
  EXPECT_NE(write_form(shape, describe).find("\"area_mm2\": 2,"), std::string::npos);
  shape.corners.clear();
  const std::string text = write_form(shape, describe, Form::Style::indented);
  EXPECT_EQ(text, nlohmann::ordered_json::parse(text).dump(2) + "\n");
}

// What is read takes the place of what was there, as a default for one.
struct Listed {
  std::vector<int> numbers{7};
  std::map<std::string, std::string> words{{"a", "b"}};
};
void describe_listed(Form& f, Listed& one) {
  f.document("Listed");
  f.optional().integers("numbers", one.numbers, {.high = 9}, {}, "");
  form::texts(f.optional(), "words", one.words, "");
}
TEST(Form, ReadsListsInPlaceOfTheirDefaults) {
  const std::string head = R"({"api_version": "partita/v1", "kind": "Listed")";
  const auto read = [&](const std::string& rest) {
    return read_form<Listed>("l.json", head + rest + "}", describe_listed).value();
  };
  EXPECT_EQ(read("").numbers, std::vector<int>{7});
  EXPECT_EQ(read(R"(, "numbers": [1, 9])").numbers, (std::vector<int>{1, 9}));
  EXPECT_EQ(read("").words.size(), 1u);
  EXPECT_EQ(read(R"(, "words": {"x": "y"})").words,
            (std::map<std::string, std::string>{{"x", "y"}}));
}

Shape any_shape() {
  Shape shape;
  shape.name = *rc::gen::element<std::string>("a", "ü \\", "{", "7");
  shape.colour = *rc::gen::element(Colour::red, Colour::green);
  shape.area = *rc::gen::element(1e-300, 0.1, 1.0 / 3, 1e12);
  if (*rc::gen::arbitrary<bool>()) shape.weight = *rc::gen::element(0.0, 0.1, 7.0);
  shape.reach = *rc::gen::element(0.0, std::numeric_limits<double>::infinity());
  shape.seen = *rc::gen::inRange(0L, 1'000'000'000'000L);
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i)
    shape.corners.push_back({*rc::gen::inRange(-9, 10), *rc::gen::arbitrary<bool>()});
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) shape.marks.push_back(*rc::gen::inRange(1, 6));
  for (int i = *rc::gen::inRange(0, 3); i > 0; --i) shape.notes.emplace_back("x");
  if (*rc::gen::arbitrary<bool>()) shape.centre = Corner{1, true};
  return shape;
}

RC_GTEST_PROP(Form, ReadsBackWhatItWrites, ()) {
  const Shape shape = any_shape();
  for (const auto style : {Form::Style::by_hand, Form::Style::indented}) {
    const auto again = read_form<Shape>("s.json", write_form(shape, describe, style), describe);
    if (!again) RC_FAIL(to_string(again.error()));
    RC_ASSERT(*again == shape);
  }
}

RC_GTEST_PROP(Form, RefusesEveryValueOfAnotherType, ()) {
  for (const MutatedDocument& one : mutated_documents(write_form(any_shape(), describe))) {
    const auto shape = read_form<Shape>("s.json", one.text, describe);
    RC_ASSERT(!shape);
    RC_ASSERT(shape.error().context == "s.json:" + std::to_string(one.line));
  }
}

// The refusal of the shape above with one piece replaced.
std::string form_fault(std::string_view piece, std::string_view replacement) {
  std::string text = write_form(kShape, describe);
  const auto at = text.find(piece);
  if (at == text.npos) return "no such piece";
  text.replace(at, piece.size(), replacement);
  const auto shape = read_form<Shape>("s.json", text, describe);
  return shape ? "accepted" : to_string(shape.error());
}

TEST(Form, RefusesWithTheLine) {
  EXPECT_EQ(form_fault("partita/v1", "v2"),
            "s.json:1: 'api_version' is 'v2', must be 'partita/v1'");
  EXPECT_EQ(form_fault("\"green\"", "\"blue\""),
            "s.json:2: 'colour' is 'blue', must be 'red' or 'green'");
  EXPECT_EQ(form_fault("0.5", "0"), "s.json:2: 'area_mm2' is 0, must be above 0");
  EXPECT_EQ(form_fault("\"area_mm2\": 0.5, ", ""), "s.json:1: 'area_mm2' is missing");
  EXPECT_EQ(form_fault("\"weight_g\": 2, ", ""), "accepted");
  EXPECT_EQ(form_fault("\"seen\": 3", "\"seen\": 3.5"), "s.json:2: 'seen' must be a whole number");
  EXPECT_EQ(form_fault("\"x\": 1", "\"x\": 10"), "s.json:4: 'x' is 10, must be at most 9");
  EXPECT_EQ(form_fault("\"round\"", "\"rond\""),
            "s.json:4: unknown key 'rond'; did you mean 'round'?");
  EXPECT_EQ(form_fault("{\"x\": 1", "{\"x\": 1}, {\"x\": 1}, {\"x\": 1"),
            "s.json:3: 'corners' has 4 items, at most 3 are allowed");
  EXPECT_EQ(form_fault("[1,5]", "[1,6]"), "s.json:5: 'marks' must list whole numbers from 1 to 5");
}

TEST(Form, TheSchemaSaysWhatTheReaderDemands) {
  const auto schema =
      nlohmann::json::parse(schema_form<Shape>("Shape", "what it is", describe));
  EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
  EXPECT_EQ(schema["title"], "Shape");
  EXPECT_EQ(schema["required"],
            nlohmann::json::parse(R"(["api_version", "kind", "name", "colour", "area_mm2",
                                      "reach_mm", "seen", "corners", "marks"])"));
  const auto& properties = schema["properties"];
  EXPECT_EQ(properties["kind"], nlohmann::json::parse(R"({"const": "Shape"})"));
  EXPECT_EQ(properties["colour"]["enum"], nlohmann::json::parse(R"(["red", "green"])"));
  EXPECT_EQ(properties["area_mm2"],
            nlohmann::json::parse(R"({"description": "inside", "type": "number",
                                      "exclusiveMinimum": 0, "maximum": 1e12})"));
  EXPECT_EQ(properties["reach_mm"]["type"], nlohmann::json::parse(R"(["number", "null"])"));
  EXPECT_EQ(properties["marks"]["items"],
            nlohmann::json::parse(R"({"type": "integer", "minimum": 1, "maximum": 5})"));
  EXPECT_EQ(properties["corners"]["maxItems"], 3);
  EXPECT_EQ(properties["corners"]["items"]["additionalProperties"], false);
  EXPECT_EQ(properties["corners"]["items"]["required"], nlohmann::json::parse(R"(["x"])"));
  EXPECT_FALSE(schema.contains("additionalProperties"));
}

// The kinds of fields that the shape has none of.
struct Part {
  double price = 0;
  std::uint64_t bytes = 0;
  std::optional<int> grade;
  std::optional<double> weight;
  std::optional<Corner> corner;  // written as null when there is none
  std::string label, remark;
  std::vector<std::string> owners;
  bool operator==(const Part&) const = default;
};

void describe(Form& f, Part& part) {
  f.lines("    ");
  form::digits(f, "price", part.price, fmt::format("{:.2f}", part.price), kNotNegative, "in euro");
  f.whole("bytes", part.bytes, "as stored");
  f.integer("grade", part.grade, {.low = 1, .high = 6}, "of six");
  f.number("weight_g", part.weight, kNotNegative, "");
  f.or_null().object("corner", part.corner, describe, "where it is");
  f.text("label", part.label, "on it");
  f.note("remark", part.remark, "may be empty");
  f.names("owners", part.owners, {.most = 2}, "of it");
}

const Part kPart{.price = 2.5, .bytes = 1ull << 40, .grade = 3, .weight = {}, .corner = {},
                 .label = "x", .remark = "", .owners = {"a"}};

TEST(Form, EveryKindOfFieldIsWrittenReadAndRefused) {
  const std::string text = write_form(kPart, describe);
  EXPECT_EQ(text, R"({
    "price": 2.50,
    "bytes": 1099511627776,
    "grade": 3,
    "corner": null,
    "label": "x",
    "remark": "",
    "owners": ["a"]
  }
)");
  Part more = kPart;
  more.grade.reset();
  more.weight = 0.5;
  more.corner = Corner{2, true};
  for (const Part& part : {kPart, more})
    EXPECT_EQ(read_form<Part>("p.json", write_form(part, describe), describe).value(), part);
  const auto fault = [&](std::string_view piece, std::string_view other) {
    std::string changed = text;
    changed.replace(changed.find(piece), piece.size(), other);
    const auto part = read_form<Part>("p.json", changed, describe);
    return part ? "accepted" : to_string(part.error());
  };
  EXPECT_EQ(fault("1099511627776", "1.5"), "p.json:3: 'bytes' must be a whole number");
  EXPECT_EQ(fault("1099511627776", "-1"), "p.json:3: 'bytes' is -1, must be at least 0");
  EXPECT_EQ(fault("2.50", "-1"), "p.json:2: 'price' is -1, must be at least 0");
  EXPECT_EQ(fault("3,", "7,"), "p.json:4: 'grade' is 7, must be at most 6");
  EXPECT_EQ(fault("null", "{}"), "p.json:5: 'x' is missing");
  EXPECT_EQ(fault("null", "7"), "p.json:5: 'corner' must be an object");
  EXPECT_NE(fault("\"x\"", "\"\""), "accepted");
  EXPECT_EQ(fault("\"\"", "\"y\""), "accepted");
  EXPECT_EQ(fault("1099511627776", "18446744073709549568"), "accepted") << "the largest there is";
  EXPECT_EQ(fault("1099511627776", "18446744073709551616"),
            "p.json:3: 'bytes' is 1.8446744073709552e+19, must be below 1.84467e+19");
  EXPECT_EQ(fault("[\"a\"]", "[7]"), "p.json:8: a name in 'owners' must be a text");
  EXPECT_EQ(fault("[\"a\"]", "[\"a\", \"b\"]"), "accepted");
  EXPECT_NE(fault("[\"a\"]", "[\"a\", \"b\", \"c\"]"), "accepted");
  EXPECT_NE(fault("[\"a\"]", "[\"\"]"), "accepted");
}

TEST(Form, TheSchemaKnowsEveryKindOfField) {
  const auto schema = nlohmann::json::parse(schema_form<Part>("Part", "of a machine", describe));
  const auto& properties = schema["properties"];
  EXPECT_EQ(properties["price"]["type"], "number");
  EXPECT_EQ(properties["price"]["minimum"], 0);
  EXPECT_EQ(properties["bytes"]["type"], "integer");
  EXPECT_EQ(properties["bytes"]["minimum"], 0);
  EXPECT_EQ(properties["grade"]["maximum"], 6);
  EXPECT_EQ(properties["label"]["minLength"], 1);
  EXPECT_FALSE(properties["remark"].contains("minLength"));
  EXPECT_EQ(properties["owners"]["maxItems"], 2);
  EXPECT_EQ(properties["corner"]["properties"]["x"]["maximum"], 9);
  EXPECT_EQ(properties["corner"]["required"], nlohmann::json::parse(R"(["x"])"));
}

// ---- kinds of one object, what is there together, what is told

struct Opened {
  std::string who;
  std::optional<Watts> limit;
  bool operator==(const Opened&) const = default;
};
struct Closed {
  int status = 0;
  bool operator==(const Closed&) const = default;
};

struct Event {
  std::variant<Opened, Closed> what;
  std::map<std::string, std::string> labels;
  std::string said;
  std::string service;
  int batch = 0;
  std::vector<Corner> path;
  bool operator==(const Event&) const = default;
};

void describe_opened(Form& f, Opened& one) {
  f.name("who", one.who, "opened it");
  f.number("limit_w", one.limit, kPositive, "of power");
}
void describe_closed(Form& f, Closed& one) { f.integer("status", one.status, {.high = 9}, "exit"); }

void describe(Form& f, Event& event) {
  f.closed();
  form::variant(f, "what", event.what, {"opened", "closed"}, "happened", describe_opened,
            describe_closed);
  form::texts(f, "labels", event.labels, "by name");
  f.quote("said", event.said, "by a driver");
  f.told("loud", event.said.size() > 3, "said much");
  const auto inside = [&](Form& item, Corner& corner) {
    describe(item, corner);
    if (item.reading() && event.path.size() > 2)
      item.reading()->refuse(item.reading()->node(), "too many");
  };
  f.or_null().list("path", event.path, inside, {}, "null: it did not move");
  if (!f.given("service", !event.service.empty())) return;
  f.name("service", event.service, "that ran");
  f.integer("batch", event.batch, kNotNegative, "its batch");
}

const Event kOpened{.what = Opened{"a", Watts{300}}, .labels = {{"k", "v"}}, .said = "x\ny",
                    .service = "s", .batch = 4, .path = {{1, true}}};

TEST(Form, KindsAndPartsAreWrittenAndReadBack) {
  EXPECT_EQ(line_form(kOpened, describe),
            R"({"what": "opened", "who": "a", "limit_w": 300, "labels": {"k": "v"}, )"
            "\"said\": \"x\uFFFDy\", \"loud\": false, "
            R"("path": [{"x": 1, "round": true}], "service": "s", "batch": 4})");
  EXPECT_EQ(line_form(Event{.what = Closed{3}, .labels = {}, .said = {}, .service = {}, .path = {}},
                      describe),
            R"({"what": "closed", "status": 3, "labels": {}, "said": null, "loud": false, )"
            R"("path": null})");
  const std::string text = write_form(kOpened, describe, Form::Style::indented);
  EXPECT_EQ(text, nlohmann::ordered_json::parse(text).dump(2) + "\n");
  Event again = kOpened;
  again.said = "x\uFFFDy";
  for (const Event& event : {again, Event{.what = Closed{3}, .labels = {}, .said = {},
                                          .service = {}, .path = {}}})
    EXPECT_EQ(read_form<Event>("e", write_form(event, describe), describe).value(), event);
}

// Lists that may not be empty, of each kind.
struct Full {
  std::vector<std::string> names{"a"};
  std::vector<Corner> corners{{1, true}};
};
void describe_full(Form& f, Full& full) {
  f.names("names", full.names, {.least = 1}, "");
  f.list("corners", full.corners, describe, {.least = 1}, "");
}
TEST(Form, ListsThatMayNotBeEmptySaySo) {
  const auto fault = [](std::string_view text) {
    const auto full = read_form<Full>("f", text, describe_full);
    return full ? "accepted" : to_string(full.error());
  };
  EXPECT_EQ(fault(write_form(Full(), describe_full)), "accepted");
  EXPECT_EQ(fault(R"({"names": [], "corners": [{"x": 1}]})"), "f:1: 'names' is empty");
  EXPECT_EQ(fault(R"({"names": ["a"], "corners": []})"), "f:1: 'corners' is empty");
  const auto schema = nlohmann::json::parse(schema_form<Full>("F", "", describe_full));
  for (const char* key : {"names", "corners"}) EXPECT_EQ(schema["properties"][key]["minItems"], 1);
}

TEST(Form, KindsAndPartsAreRefusedWhereTheyDoNotFit) {
  const auto fault = [](std::string_view piece, std::string_view other) {
    std::string text = line_form(kOpened, describe);
    text.replace(text.find(piece), piece.size(), other);
    const auto event = read_form<Event>("e", text, describe);
    return event ? "accepted" : event.error().message;
  };
  EXPECT_EQ(fault("opened", "broken"), "'what' is 'broken', must be 'opened' or 'closed'");
  EXPECT_EQ(fault("opened", "closed"), "'status' is missing");
  EXPECT_EQ(fault("\"v\"", "7"), "must be text");
  EXPECT_EQ(fault("\"service\"", "\"servic\""), "unknown key 'servic'; did you mean 'service'?");
  EXPECT_EQ(fault(", \"batch\": 4", ""), "'batch' is missing");
  EXPECT_EQ(fault("[{", "[{\"x\": 2}, {\"x\": 2}, {"), "too many");
  EXPECT_EQ(fault("x\uFFFDy", "x\\u001by"), "'said' holds characters that cannot be printed");
  EXPECT_EQ(fault("\"x\uFFFDy\"", "null"), "accepted");
  EXPECT_EQ(fault("\"x\uFFFDy\"", "\"\""), "'said' is empty");
  EXPECT_EQ(fault("\"loud\": false", "\"loud\": 7"), "accepted");  // told alone
}

TEST(Form, TheSchemaDemandsNothingThatOnlyOneKindHas) {
  const auto schema = nlohmann::json::parse(schema_form<Event>("Event", "one", describe));
  EXPECT_EQ(schema["required"], nlohmann::json::parse(R"(["what", "labels", "loud", "path"])"));
  for (const char* key : {"who", "limit_w", "status", "labels", "said", "loud", "path", "batch"})
    EXPECT_TRUE(schema["properties"].contains(key)) << key;
  EXPECT_EQ(schema["properties"]["path"]["type"], nlohmann::json::parse(R"(["array", "null"])"));
  EXPECT_EQ(schema["properties"]["loud"]["type"], "boolean");
}

// Files of before may not say what they are; what they say must be right.
TEST(Form, TheHeadOfADocumentMayBeLeftOut) {
  const auto head = [](Form& f, Corner& corner) {
    f.optional().document("Corner");
    f.integer("x", corner.x, {.high = 9}, "");
  };
  const auto read = [&](std::string_view text) {
    const auto corner = read_form<Corner>("c", text, head);
    return corner ? "accepted" : corner.error().message;
  };
  EXPECT_EQ(read(R"({"x": 1})"), "accepted");
  EXPECT_EQ(read(R"({"kind": "Shape", "x": 1})"), "'kind' is 'Shape', must be 'Corner'");
  EXPECT_EQ(read(R"({"api_version": "v2", "x": 1})"),
            "'api_version' is 'v2', must be 'partita/v1'");
}

TEST(Form, TheSchemaSaysWhatIsEmbedded) {
  const auto schema = nlohmann::json::parse(schema_form<Corner>("C", "", [](Form& f, Corner&) {
    form::embedded(f, "plan", "{}");
    form::embedded(f, "other", "{}", "Other.json");
  }));
  EXPECT_EQ(schema["properties"]["plan"], nlohmann::json::parse(R"({"type": "object"})"));
  EXPECT_EQ(schema["properties"]["other"], nlohmann::json::parse(R"({"$ref": "Other.json"})"));
}

TEST(Form, WhatIsToldAloneIsWrittenInEveryStyle) {
  const std::vector<double> sizes{1, 2.5};
  const auto tell = [&](Form& f) {
    f.told("seed", std::uint64_t{18446744073709551615u});
    f.told("none", std::optional<int>());
    f.line(" ").told("rows", std::vector<std::vector<double>>{sizes, {}});
    f.rows("items", sizes, [](Form& row, double size) { row.told("mm", size); }, {.indent = "  "});
    f.told_object("inner", [](Form& of) { of.told("yes", true); });
    form::embedded(f, "plan", "{\"a\": 1}\n");
  };
  EXPECT_EQ(write_form(tell), R"({"seed": 18446744073709551615, "none": null,
 "rows": [[1, 2.5], []], "items": [
  {"mm": 1},
  {"mm": 2.5}], "inner": {"yes": true}, "plan": {"a": 1}}
)");
  EXPECT_EQ(write_form(tell, Form::Style::compact),
            R"({"seed":18446744073709551615,"none":null,"rows":[[1,2.5],[]],)"
            R"("items":[{"mm":1},{"mm":2.5}],"inner":{"yes":true},"plan":{"a": 1}})");
}

}  // namespace
}  // namespace partita
