#include "base/form.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/append.h"
#include "base/form_lists.h"
#include "base/json_writer.h"
#include "base/unicode.h"

namespace partita {
namespace {

constexpr std::string_view kApiVersion = "partita/v1";
constexpr Range kAnyCount{.high = 1.8446744073709552e19};

void write_object(const FormWalk& walk, Walker walker, std::size_t index) {
  Form object(walk.inner());
  object.walk().out().raw("{");
  walker(object, index);
  object.walk().end_written();
  object.walk().out().raw("}");
}

void object_schema(const FormWalk& walk, Walker walker, std::size_t index) {
  Form object(walk.inner());
  object.walk().out().raw(", \"properties\": {");
  walker(object, index);
  object.walk().end_schema();
}

void string_field(FormWalk& walk, std::string_view key, std::string& value, std::string_view about,
                  std::string (Fields::*take)(std::string_view)) {
  if (!walk.open(key, about)) return;
  if (walk.writes()) walk.out().string(value);
  if (walk.makes_schema()) walk.type("string");
  if (walk.makes_schema() && take != &Fields::note) walk.out().raw(", \"minLength\": 1");
  if (walk.reads()) value = (walk.in().*take)(key);
  walk.close();
}

template <class T, class Write, class Read>
void values(FormWalk& walk, std::string_view key, std::vector<T>& all, const ListForm& how,
            std::string_view about, const Range* range, Write write, Read take) {
  if (!walk.open(key, about)) return;
  if (walk.writes()) walk.list(all.size(), how, [&](std::size_t i) { write(all[i]); });
  if (walk.makes_schema()) {
    walk.list_schema(how);
    walk.out().raw("{");
    walk.type(range ? "integer" : "string", range);
    walk.out().raw("}");
  }
  if (walk.reads()) {
    all.clear();
    const std::vector<Node>& items = walk.in().list(key, how.most);
    if (!walk.in().error() && items.size() < how.least)
      walk.in().refuse(key, fmt::format("'{}' is empty", key));
    for (const Node& item : items) {
      all.push_back(take(item));
      if (walk.in().error()) break;
    }
  }
  walk.close();
}

int integer_in(FormWalk& walk, std::string_view key, const Node& item, Range range) {
  const bool number = item.kind == Node::Kind::number && item.number == std::floor(item.number) &&
                      std::abs(item.number) <= std::numeric_limits<int>::max();
  const bool inside = number && item.number >= range.low && item.number <= range.high;
  if (!inside)
    walk.in().refuse(item, fmt::format("'{}' must list whole numbers from {:g} to {:g}", key,
                                       range.low, range.high));
  return inside ? static_cast<int>(item.number) : 0;
}

}  // namespace

Form& Form::optional(bool write) {
  walk_.next.optional = true;
  walk_.next.write = write;
  return *this;
}

Form& Form::or_null() {
  walk_.next.or_null = true;
  return *this;
}

Form& Form::line(std::string_view indent) {
  walk_.next.line = true;
  walk_.next.indent = indent;
  return *this;
}

bool Form::given(std::string_view key, bool write) {
  return walk_.when(walk_.reads() ? walk_.in().has(key) : write);
}

void Form::document(std::string_view kind) {
  const FormWalk::Next head = walk_.next;
  form::constant(*this, "api_version", kApiVersion);
  walk_.next.optional = head.optional;
  form::constant(*this, "kind", kind);
}

// ---- single values

void Form::whole(std::string_view key, long& value, Range range, std::string_view about) {
  number_field(walk_, key, value, range, about);
}

void Form::whole(std::string_view key, std::uint64_t& value, std::string_view about) {
  if (!walk_.open(key, about)) return;
  if (walk_.writes()) walk_.out().raw(fmt::format("{}", value));
  if (walk_.makes_schema()) walk_.type("integer", &kAnyCount);
  if (walk_.reads()) {
    const double given = walk_.in().number(key, {.high = kAnyCount.high, .below = true});
    if (!walk_.in().error() && given != std::floor(given))
      walk_.in().refuse(key, fmt::format("'{}' must be a whole number", key));
    if (!walk_.in().error()) value = static_cast<std::uint64_t>(given);
  }
  walk_.close();
}

void Form::boolean(std::string_view key, bool& value, std::string_view about) {
  if (!walk_.open(key, about)) return;
  if (walk_.writes()) walk_.out().boolean(value);
  if (walk_.makes_schema()) walk_.type("boolean");
  if (walk_.reads()) value = walk_.in().boolean(key);
  walk_.close();
}

void Form::name(std::string_view key, std::string& value, std::string_view about) {
  string_field(walk_, key, value, about, &Fields::name);
}

void Form::text(std::string_view key, std::string& value, std::string_view about) {
  string_field(walk_, key, value, about, &Fields::text);
}

void Form::note(std::string_view key, std::string& value, std::string_view about) {
  string_field(walk_, key, value, about, &Fields::note);
}

void Form::quote(std::string_view key, std::string& value, std::string_view about) {
  if (walk_.writes() && value.empty()) return told(key, std::optional<bool>(), about);
  or_null().optional();
  if (!walk_.open(key, about)) return;
  if (walk_.writes()) walk_.out().string(utf8(printable(value)));
  if (walk_.makes_schema()) walk_.type("string");
  if (walk_.reads() && walk_.in().known(key)) {
    value = walk_.in().text(key);
    if (utf8(printable(value)) != value)
      walk_.in().refuse(key, fmt::format("'{}' holds characters that cannot be printed", key));
  }
  walk_.close();
}

// ---- lists

void Form::integers(std::string_view key, std::vector<int>& all, Range range, const ListForm& how,
                    std::string_view about) {
  values(
      walk_, key, all, how, about, &range, [&](int value) { walk_.out().number(long{value}); },
      [&](const Node& item) { return integer_in(walk_, key, item, range); });
}

void Form::names(std::string_view key, std::vector<std::string>& all, const ListForm& how,
                 std::string_view about) {
  values(
      walk_, key, all, how, about, nullptr,
      [&](const std::string& value) { walk_.out().string(value); },
      [&](const Node& item) {
        return walk_.in().name_of(item, fmt::format("a name in '{}'", key));
      });
}

void Form::notes(std::string_view key, std::vector<std::string>& all, const ListForm& how,
                 std::string_view about) {
  values(
      walk_, key, all, how, about, nullptr,
      [&](const std::string& value) { walk_.out().string(value); },
      [&](const Node& item) {
        if (item.kind != Node::Kind::string)
          walk_.in().refuse(item, fmt::format("'{}' must list texts", key));
        return item.text;
      });
}

// ---- told

void Form::rows(std::string_view key, std::size_t count, Walker describe, const ListForm& how,
                std::string_view about) {
  if (walk_.makes_schema()) return told(key, std::vector<int>(), about);  // there is no row
  if (!walk_.reads()) return form::list_field(walk_, key, count, how, about, describe);
  walk_.next = {};
}

void Form::told_object(std::string_view key, Describer<> describe, std::string_view about) {
  if (walk_.reads()) {
    walk_.next = {};
    return;
  }
  form::object_field(walk_, key, about, [&](Form& f, std::size_t) { describe(f); });
}

namespace form {

void constant(Form& f, std::string_view key, std::string_view value) {
  FormWalk& walk = f.walk();
  if (!walk.open(key, {})) return;
  if (walk.writes()) walk.out().string(value);
  if (walk.reads()) walk.in().exactly(key, value);
  if (walk.makes_schema()) walk.out().raw("\"const\": ").string(value);
  walk.close();
}

void digits(Form& f, std::string_view key, double& value, const std::string& digits, Range range,
            std::string_view about) {
  FormWalk& walk = f.walk();
  if (!walk.writes()) return number_field(walk, key, value, range, about);
  if (walk.open(key, about)) walk.out().raw(digits);
}

void embedded(Form& f, std::string_view key, std::string_view json, std::string_view schema) {
  FormWalk& walk = f.walk();
  if (!walk.open_told(key, {})) return;
  if (walk.writes()) walk.out().raw(json.substr(0, json.find_last_not_of('\n') + 1));
  if (walk.makes_schema() && schema.empty()) walk.type("object");
  if (walk.makes_schema() && !schema.empty()) walk.out().raw("\"$ref\": ").string(schema);
  walk.close();
}

int word_field(FormWalk& walk, std::string_view key, int value, std::span<const char* const> words,
               std::string_view about) {
  if (!walk.open(key, about)) return value;
  if (walk.writes()) walk.out().string(words[static_cast<std::size_t>(value)]);
  if (walk.makes_schema()) {
    walk.out().raw("\"enum\": [");
    for (std::size_t i = 0; i < words.size(); ++i)
      walk.out().raw(i == 0 ? "" : ", ").string(words[i]);
    walk.out().raw("]");
  }
  if (walk.reads()) {
    const std::string given = walk.in().text(key);
    std::size_t chosen = 0;
    while (chosen < words.size() && given != words[chosen]) ++chosen;
    if (chosen < words.size()) {
      value = static_cast<int>(chosen);
    } else {
      walk.in().refuse(
          key, fmt::format("'{}' is '{}', must be '{}'", key, given, joined(words, "' or '")));
    }
  }
  walk.close();
  return value;
}

void number_or_lists(Form& f, std::string_view key, int& number,
                     std::vector<std::vector<int>>& lists, Range range, std::string_view about) {
  FormWalk& walk = f.walk();
  if (!walk.open(key, about)) return;
  if (walk.writes()) lists.empty() ? put(walk, number) : put(walk, lists);
  if (walk.makes_schema()) {
    walk.out().raw("\"oneOf\": [{");
    walk.type("integer", &range);
    walk.out().raw("}, {\"type\": \"array\", \"items\": {\"type\": \"array\", \"items\": {");
    walk.type("integer", &range);
    walk.out().raw("}}}]");
  }
  if (walk.reads()) {
    const Node& given = *walk.in().node().find(key);
    if (given.kind == Node::Kind::number) {
      number = walk.in().integer(key, range);
    } else {
      for (const Node& list : walk.in().list(key)) {
        std::vector<int>& one = lists.emplace_back();
        for (const Node& item : list.items) one.push_back(integer_in(walk, key, item, range));
        if (one.empty())
          walk.in().refuse(list, fmt::format("'{}' must be a number or lists of numbers", key));
      }
    }
  }
  walk.close();
}

void texts(Form& f, std::string_view key, std::map<std::string, std::string>& values,
           std::string_view about) {
  FormWalk& walk = f.walk();
  if (!walk.open(key, about)) return;
  if (walk.writes()) {
    const auto tell = [&](Form& object, std::size_t) {
      for (const auto& [name, text] : values) object.told(name, text);
    };
    write_object(walk, tell, 0);
  }
  if (walk.makes_schema()) {
    walk.type("object");
    walk.out().raw(", \"properties\": {}, \"additionalProperties\": {\"type\": \"string\"}");
  }
  if (walk.reads()) {
    values.clear();
    for (const auto& [name, text] : walk.in().object(key).node().members) {
      if (text.kind != Node::Kind::string) walk.in().refuse(text, "must be text");
      values[name] = text.text;
    }
  }
  walk.close();
}

void object_field(FormWalk& walk, std::string_view key, std::string_view about, Walker walker) {
  if (!walk.open(key, about)) return;
  if (walk.writes()) write_object(walk, walker, 0);
  if (walk.makes_schema()) walk.type("object");
  if (walk.makes_schema()) object_schema(walk, walker, 0);
  if (walk.reads()) {
    Fields inner = walk.in().object(key);
    if (!walk.in().error()) read(inner, walker);
  }
  walk.close();
}

void list_field(FormWalk& walk, std::string_view key, std::size_t count, const ListForm& how,
                std::string_view about, Walker walker) {
  if (!walk.open(key, about)) return;
  const bool none = walk.reads() ? !walk.in().known(key) : count == 0;
  if (walk.field().or_null && none) {
    if (walk.writes()) walk.out().raw("null");
    if (!walk.makes_schema()) return;
  }
  if (walk.writes())
    walk.list(count, how, [&](std::size_t i) {
      FormWalk item = walk.inner();
      write_object(item, walker, i);
    });
  if (walk.makes_schema()) {
    walk.list_schema(how);
    walk.out().raw("{").raw("\"type\": \"object\"");
    object_schema(walk, walker, 0);
    walk.out().raw("}");
  }
  if (walk.reads()) {
    const std::vector<Node>& items = walk.in().list(key, how.most);
    if (!walk.in().error() && items.size() < how.least)
      walk.in().refuse(key, fmt::format("'{}' is empty", key));
    for (std::size_t i = 0; i < items.size() && !walk.in().error(); ++i) {
      Fields item(walk.in(), items[i]);
      read(item, walker, i);
    }
  }
  walk.close();
}

// ---- walks

std::string write(Walker walker, Form::Style style) {
  JsonWriter out;
  const FormWalk root(FormWalk::Mode::write, &out, nullptr, style, -1);
  write_object(root, walker, 0);
  if (style != Form::Style::compact) out.raw("\n");
  return out.take();
}

void read(Fields& fields, Walker walker, std::size_t index) {
  Form keys(FormWalk(FormWalk::Mode::keys, nullptr, nullptr, Form::Style::by_hand, 0));
  walker(keys, index);
  keys.walk().check_keys(fields);
  if (fields.error()) return;
  Form form(FormWalk(FormWalk::Mode::read, nullptr, &fields, Form::Style::by_hand, 0));
  walker(form, index);
}

std::string schema(std::string_view title, std::string_view about, Walker walker) {
  JsonWriter out;
  const FormWalk root(FormWalk::Mode::schema, &out, nullptr, Form::Style::indented, -1);
  out.raw("{\n\"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n\"title\": ");
  out.string(title).raw(",\n\"description\": ").string(about).raw(",\n\"type\": \"object\"");
  object_schema(root, walker, 0);
  return out.raw("\n}\n").take();
}

}  // namespace form
}  // namespace partita
