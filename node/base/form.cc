#include "base/form.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/append.h"
#include "base/json_writer.h"
#include "base/unicode.h"

namespace partita {
namespace {

constexpr std::string_view kApiVersion = "partita/v1";
constexpr Range kAnyCount{.high = 1.8446744073709552e19};

std::string blanks(int depth) { return std::string(static_cast<std::size_t>(2 * depth), ' '); }

}  // namespace

Form::Form(Mode mode, JsonWriter* out, Fields* in, Style style, int depth)
    : mode_(mode), out_(out), in_(in), style_(style), depth_(depth) {}

Form& Form::optional(bool write) {
  next_.optional = true;
  next_.write = write;
  return *this;
}

Form& Form::or_null() {
  next_.or_null = true;
  return *this;
}

Form& Form::line(std::string_view indent) {
  next_.line = true;
  next_.indent = indent;
  return *this;
}

void Form::lines(std::string_view indent) {
  lines_ = true;
  lines_indent_ = indent;
}

void Form::one_line() { lines_ = false; }

bool Form::when(bool holds) {
  if (mode_ == Mode::write || mode_ == Mode::read) return holds;
  demanded_ = false;
  return true;
}

bool Form::given(std::string_view key, bool write) {
  return when(mode_ == Mode::read ? in_->has(key) : write);
}

void Form::closed() { closed_ = true; }

void Form::document(std::string_view kind) {
  const Next head = next_;
  constant("api_version", kApiVersion);
  next_.optional = head.optional;
  constant("kind", kind);
}

// ---- what every field has

void Form::break_line(int depth) { out_->raw("\n").raw(blanks(depth)); }

void Form::separate() {
  if (!first_) out_->raw(",");
  if (style_ == Style::compact) {
  } else if (style_ == Style::indented) {
    break_line(depth_ + 1);
  } else if (field_.line || lines_) {
    out_->raw("\n").raw(field_.line ? field_.indent : lines_indent_);
  } else if (!first_) {
    out_->raw(" ");
  }
  first_ = false;
}

bool Form::open(std::string_view key, std::string_view about) {
  field_ = std::exchange(next_, Next{});
  switch (mode_) {
    case Mode::keys: keys_.push_back(key); return false;
    case Mode::read: return !in_->error() && (!field_.optional || in_->has(key));
    case Mode::write:
      if (!field_.write) return false;
      separate();
      out_->string(key).raw(style_ == Style::compact ? ":" : ": ");
      return true;
    case Mode::schema: break;
  }
  const bool seen = std::ranges::find(keys_, key) != keys_.end();  // of another kind of object
  if (seen) return false;
  keys_.push_back(key);
  if (!field_.optional && demanded_) required_.push_back(key);
  separate();
  out_->string(key).raw(": {");
  if (!about.empty()) out_->raw("\"description\": ").string(about).raw(", ");
  return true;
}

void Form::close() {
  if (mode_ == Mode::schema) out_->raw("}");
}

bool Form::skipped() {
  if (mode_ == Mode::read) next_ = {};
  return mode_ == Mode::read;
}

bool Form::open_told(std::string_view key, std::string_view about) {
  return !skipped() && open(key, about);
}

void Form::type(std::string_view word, const Range* range) {
  out_->raw("\"type\": ");
  if (field_.or_null) out_->raw("[").string(word).raw(", \"null\"]");
  if (!field_.or_null) out_->string(word);
  if (!range) return;
  out_->raw(range->above ? ", \"exclusiveMinimum\": " : ", \"minimum\": ").number(range->low);
  out_->raw(range->below ? ", \"exclusiveMaximum\": " : ", \"maximum\": ").number(range->high);
}

// ---- single values

void Form::constant(std::string_view key, std::string_view value) {
  if (!open(key, {})) return;
  if (mode_ == Mode::write) out_->string(value);
  if (mode_ == Mode::read) in_->exactly(key, value);
  if (mode_ == Mode::schema) out_->raw("\"const\": ").string(value);
  close();
}

// The indented style tells numbers from whole numbers.
void Form::write_number(double value) {
  out_->number(value);
  constexpr double kWritten = 1e16;  // larger ones have an exponent
  const bool whole = std::abs(value) < kWritten && value == std::floor(value);
  if (style_ == Style::indented && whole) out_->raw(".0");
}

void Form::put(double value) {
  mode_ == Mode::write ? write_number(value) : type("number");
}

void Form::put(long value) {
  mode_ == Mode::write ? void(out_->number(value)) : type("integer");
}

void Form::put(std::uint64_t value) {
  mode_ == Mode::write ? void(out_->raw(fmt::to_string(value))) : type("integer");
}

void Form::put(bool value) {
  mode_ == Mode::write ? void(out_->boolean(value)) : type("boolean");
}

void Form::put(std::string_view value) {
  mode_ == Mode::write ? void(out_->string(value)) : type("string");
}

void Form::number(std::string_view key, double& value, Range range, std::string_view about) {
  if (!open(key, about)) return;
  if (mode_ == Mode::write) write_number(value);
  if (mode_ == Mode::schema) type("number", &range);
  if (mode_ == Mode::read) {
    const bool null = field_.or_null && !in_->known(key);
    const bool infinite = null && in_->has(key);
    value = infinite ? std::numeric_limits<double>::infinity() : in_->number(key, range);
  }
  close();
}

void Form::number(std::string_view key, std::optional<double>& value, Range range,
                  std::string_view about) {
  double given = value.value_or(0);
  optional(value.has_value()).number(key, given, range, about);
  if (reading() && in_->has(key)) value = given;
}

void Form::digits(std::string_view key, double& value, const std::string& digits, Range range,
                  std::string_view about) {
  if (!open(key, about)) return;
  if (mode_ == Mode::write) out_->raw(digits);
  if (mode_ == Mode::schema) type("number", &range);
  if (mode_ == Mode::read) value = in_->number(key, range);
  close();
}

void Form::integer(std::string_view key, int& value, Range range, std::string_view about) {
  if (!open(key, about)) return;
  if (mode_ == Mode::write) out_->number(long{value});
  if (mode_ == Mode::schema) type("integer", &range);
  if (mode_ == Mode::read) value = in_->integer(key, range);
  close();
}

void Form::integer(std::string_view key, std::optional<int>& value, Range range,
                   std::string_view about) {
  int given = value.value_or(0);
  optional(value.has_value()).integer(key, given, range, about);
  if (reading() && in_->has(key)) value = given;
}

void Form::whole(std::string_view key, long& value, Range range, std::string_view about) {
  if (!open(key, about)) return;
  if (mode_ == Mode::write) out_->number(value);
  if (mode_ == Mode::schema) type("integer", &range);
  if (mode_ == Mode::read) value = in_->whole(key, range);
  close();
}

void Form::whole(std::string_view key, std::uint64_t& value, std::string_view about) {
  if (!open(key, about)) return;
  if (mode_ == Mode::write) out_->raw(fmt::format("{}", value));
  if (mode_ == Mode::schema) type("integer", &kAnyCount);
  if (mode_ == Mode::read) {
    const double given = in_->number(key, {.high = kAnyCount.high, .below = true});
    if (!in_->error() && given != std::floor(given))
      in_->refuse(key, fmt::format("'{}' must be a whole number", key));
    if (!in_->error()) value = static_cast<std::uint64_t>(given);
  }
  close();
}

void Form::boolean(std::string_view key, bool& value, std::string_view about) {
  if (!open(key, about)) return;
  if (mode_ == Mode::write) out_->boolean(value);
  if (mode_ == Mode::schema) type("boolean");
  if (mode_ == Mode::read) value = in_->boolean(key);
  close();
}

void Form::string_field(std::string_view key, std::string& value, std::string_view about,
                        std::string (Fields::*take)(std::string_view)) {
  if (!open(key, about)) return;
  if (mode_ == Mode::write) out_->string(value);
  if (mode_ == Mode::schema) type("string");
  if (mode_ == Mode::schema && take != &Fields::note) out_->raw(", \"minLength\": 1");
  if (mode_ == Mode::read) value = (in_->*take)(key);
  close();
}

void Form::name(std::string_view key, std::string& value, std::string_view about) {
  string_field(key, value, about, &Fields::name);
}

void Form::text(std::string_view key, std::string& value, std::string_view about) {
  string_field(key, value, about, &Fields::text);
}

void Form::note(std::string_view key, std::string& value, std::string_view about) {
  string_field(key, value, about, &Fields::note);
}

void Form::quote(std::string_view key, std::string& value, std::string_view about) {
  if (mode_ == Mode::write && value.empty()) return told(key, std::optional<bool>(), about);
  or_null().next_.optional = true;
  if (!open(key, about)) return;
  if (mode_ == Mode::write) out_->string(utf8(printable(value)));
  if (mode_ == Mode::schema) type("string");
  if (mode_ == Mode::read && in_->known(key)) {
    value = in_->text(key);
    if (utf8(printable(value)) != value)
      in_->refuse(key, fmt::format("'{}' holds characters that cannot be printed", key));
  }
  close();
}

void Form::embedded(std::string_view key, std::string_view json, std::string_view schema) {
  if (!open_told(key, {})) return;
  if (mode_ == Mode::write) out_->raw(json.substr(0, json.find_last_not_of('\n') + 1));
  if (mode_ == Mode::schema && schema.empty()) type("object");
  if (mode_ == Mode::schema && !schema.empty()) out_->raw("\"$ref\": ").string(schema);
  close();
}

int Form::one_of(std::string_view key, int value, std::span<const char* const> words,
                 std::string_view about) {
  if (!open(key, about)) return value;
  if (mode_ == Mode::write) out_->string(words[static_cast<std::size_t>(value)]);
  if (mode_ == Mode::schema) {
    out_->raw("\"enum\": [");
    for (std::size_t i = 0; i < words.size(); ++i) out_->raw(i == 0 ? "" : ", ").string(words[i]);
    out_->raw("]");
  }
  if (mode_ == Mode::read) {
    const std::string given = in_->text(key);
    std::size_t chosen = 0;
    while (chosen < words.size() && given != words[chosen]) ++chosen;
    if (chosen < words.size()) {
      value = static_cast<int>(chosen);
    } else {
      in_->refuse(key, fmt::format("'{}' is '{}', must be '{}'", key, given,
                                   joined(words, "' or '")));
    }
  }
  close();
  return value;
}

// ---- lists

void Form::write_list(std::size_t count, const ListForm& how,
                      const std::function<void(std::size_t)>& write) {
  if (mode_ == Mode::schema) return type("array");
  out_->raw("[");
  for (std::size_t i = 0; i < count; ++i) {
    if (style_ == Style::indented) {
      out_->raw(i == 0 ? "" : ",");
      break_line(depth_ + 2);
    } else if (style_ == Style::by_hand && !how.indent.empty()) {
      out_->raw(i == 0 ? "\n" : ",\n").raw(how.indent);
    } else if (i > 0) {
      out_->raw(style_ == Style::compact ? "," : how.between);
    }
    write(i);
  }
  if (style_ == Style::indented && count > 0) break_line(depth_ + 1);
  out_->raw("]");
}

void Form::list_schema(const ListForm& how) {
  type("array");
  if (how.least > 0) out_->raw(fmt::format(", \"minItems\": {}", how.least));
  out_->raw(fmt::format(", \"maxItems\": {}, \"items\": ", how.most));
}

template <class T, class Write, class Read>
void Form::values(std::string_view key, std::vector<T>& all, const ListForm& how,
                  std::string_view about, const Range* range, Write put, Read take) {
  if (!open(key, about)) return;
  if (mode_ == Mode::write) write_list(all.size(), how, [&](std::size_t i) { put(all[i]); });
  if (mode_ == Mode::schema) {
    list_schema(how);
    out_->raw("{");
    type(range ? "integer" : "string", range);
    out_->raw("}");
  }
  if (mode_ == Mode::read) {
    all.clear();
    const std::vector<Node>& items = in_->list(key, how.most);
    if (!in_->error() && items.size() < how.least)
      in_->refuse(key, fmt::format("'{}' is empty", key));
    for (const Node& item : items) {
      all.push_back(take(item));
      if (in_->error()) break;
    }
  }
  close();
}

void Form::integers(std::string_view key, std::vector<int>& all, Range range, const ListForm& how,
                    std::string_view about) {
  values(
      key, all, how, about, &range, [&](int value) { out_->number(long{value}); },
      [&](const Node& item) {
        const bool number = item.kind == Node::Kind::number &&
                            item.number == std::floor(item.number) &&
                            std::abs(item.number) <= std::numeric_limits<int>::max();
        const bool inside = number && item.number >= range.low && item.number <= range.high;
        if (!inside)
          in_->refuse(item, fmt::format("'{}' must list whole numbers from {:g} to {:g}", key,
                                        range.low, range.high));
        return inside ? static_cast<int>(item.number) : 0;
      });
}

void Form::names(std::string_view key, std::vector<std::string>& all, const ListForm& how,
                 std::string_view about) {
  values(
      key, all, how, about, nullptr, [&](const std::string& value) { out_->string(value); },
      [&](const Node& item) { return in_->name_of(item, fmt::format("a name in '{}'", key)); });
}

void Form::notes(std::string_view key, std::vector<std::string>& all, const ListForm& how,
                 std::string_view about) {
  values(
      key, all, how, about, nullptr, [&](const std::string& value) { out_->string(value); },
      [&](const Node& item) {
        if (item.kind != Node::Kind::string)
          in_->refuse(item, fmt::format("'{}' must list texts", key));
        return item.text;
      });
}

void Form::texts(std::string_view key, std::map<std::string, std::string>& values,
                 std::string_view about) {
  if (!open(key, about)) return;
  if (mode_ == Mode::write) {
    const auto tell = [&](Form& object, std::size_t) {
      for (const auto& [name, text] : values) object.told(name, text);
    };
    Rows<decltype(tell)> rows{tell};
    write_object({&rows, &Rows<decltype(tell)>::walk}, 0);
  }
  if (mode_ == Mode::schema) {
    type("object");
    out_->raw(", \"properties\": {}, \"additionalProperties\": {\"type\": \"string\"}");
  }
  if (mode_ == Mode::read) {
    values.clear();
    for (const auto& [name, text] : in_->object(key).node().members) {
      if (text.kind != Node::Kind::string) in_->refuse(text, "must be text");
      values[name] = text.text;
    }
  }
  close();
}

// ---- objects

// Of an object that may be null: whether it is, and that is all there is to do.
bool Form::written_as_null(std::string_view key, bool given) {
  if (!next_.or_null) return false;
  if (mode_ == Mode::read && in_->has(key) && !in_->known(key)) {
    next_ = {};
    return true;
  }
  if (mode_ != Mode::write || given) return false;
  if (open(key, {})) out_->raw("null");
  return true;
}

void Form::nested(std::string_view key, std::string_view about, Walker walker) {
  if (!open(key, about)) return;
  if (mode_ == Mode::write) write_object(walker, 0);
  if (mode_ == Mode::schema) type("object");
  if (mode_ == Mode::schema) object_schema(walker, 0);
  if (mode_ == Mode::read) {
    Fields inner = in_->object(key);
    if (!in_->error()) read(inner, walker);
  }
  close();
}

void Form::each(std::string_view key, std::size_t count, const ListForm& how,
                std::string_view about, Walker walker) {
  if (!open(key, about)) return;
  const bool none = mode_ == Mode::read ? !in_->known(key) : count == 0;
  if (field_.or_null && none) {
    if (mode_ == Mode::write) out_->raw("null");
    if (mode_ != Mode::schema) return;
  }
  if (mode_ == Mode::write)
    write_list(count, how, [&](std::size_t i) {
      Form item(Mode::write, out_, nullptr, style_, depth_ + 1);
      item.write_object(walker, i);
    });
  if (mode_ == Mode::schema) {
    list_schema(how);
    out_->raw("{").raw("\"type\": \"object\"");
    object_schema(walker, 0);
    out_->raw("}");
  }
  if (mode_ == Mode::read) {
    const std::vector<Node>& items = in_->list(key, how.most);
    if (!in_->error() && items.size() < how.least)
      in_->refuse(key, fmt::format("'{}' is empty", key));
    for (std::size_t i = 0; i < items.size() && !in_->error(); ++i) {
      Fields item(*in_, items[i]);
      read(item, walker, i);
    }
  }
  close();
}

void Form::write_object(Walker walker, std::size_t index) {
  Form object(Mode::write, out_, nullptr, style_, depth_ + 1);
  out_->raw("{");
  walker.walk(walker.item, object, index);
  if (style_ == Style::indented && !object.first_) object.break_line(object.depth_);
  if (style_ == Style::by_hand && object.lines_)
    out_->raw("\n").raw(
        object.lines_indent_.substr(std::min<std::size_t>(2, object.lines_indent_.size())));
  out_->raw("}");
}

void Form::object_schema(Walker walker, std::size_t index) {
  Form object(Mode::schema, out_, nullptr, Style::indented, depth_ + 1);
  out_->raw(", \"properties\": {");
  walker.walk(walker.item, object, index);
  object.break_line(object.depth_);
  out_->raw("}");
  if (!object.required_.empty()) {
    out_->raw(", \"required\": [");
    for (std::size_t i = 0; i < object.required_.size(); ++i)
      out_->raw(i == 0 ? "" : ", ").string(object.required_[i]);
    out_->raw("]");
  }
  if (object.closed_) out_->raw(", \"additionalProperties\": false");
}

// ---- walks

std::string Form::write(Walker walker, Style style) {
  JsonWriter out;
  Form root(Mode::write, &out, nullptr, style, -1);
  root.write_object(walker, 0);
  if (style != Style::compact) out.raw("\n");
  return out.take();
}

void Form::read(Fields& fields, Walker walker, std::size_t index) {
  Form keys(Mode::keys, nullptr, nullptr, Style::by_hand, 0);
  walker.walk(walker.item, keys, index);
  if (keys.closed_) fields.only(keys.keys_);
  if (fields.error()) return;
  Form form(Mode::read, nullptr, &fields, Style::by_hand, 0);
  walker.walk(walker.item, form, index);
}

std::string Form::schema(std::string_view title, std::string_view about, Walker walker) {
  JsonWriter out;
  Form root(Mode::schema, &out, nullptr, Style::indented, -1);
  out.raw("{\n\"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n\"title\": ");
  out.string(title).raw(",\n\"description\": ").string(about).raw(",\n\"type\": \"object\"");
  root.object_schema(walker, 0);
  return out.raw("\n}\n").take();
}

}  // namespace partita
