// Form: a type is described once, as a straight list of fields, and that list writes it as JSON,
// reads it back with FILE:LINE (fields.h) and makes its JSON Schema (draft 2020-12). Example:
//   void describe(Form& f, Point& p) {
//     f.number("x_mm", p.x, kNotNegative, "from the left");
//     f.optional().text("label", p.label, "for people");
//   }
//   write_form(point, describe), read_form<Point>(file, text, describe), schema_form<Point>(...)
// A Form lives as long as one walk; it changes the value only when it reads. A list that needs more
// than the value (a catalogue, the object around it) is a lambda that holds it. Limits: those of
// Document and Fields; whole numbers are read as doubles, exactly up to 2^53.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/fields.h"
#include "base/units.h"

namespace partita {

class JsonWriter;

// How a list is written, and how much of it is read.
struct ListForm {
  std::size_t most = kMaxItems;
  std::string_view indent = {};     // items one to a line behind so many blanks; none: in one line
  std::string_view between = ", ";  // in one line
  std::size_t least = 0;
};

class Form {
 public:
  // by_hand: in one line but for what line(), lines() and ListForm say. indented: a value to a
  // line, two blanks a level. compact: without blanks and line breaks.
  enum class Style { by_hand, indented, compact };

  // ---- what the next field is like
  // It may be missing and keeps its value then. `write`: whether it is written.
  Form& optional(bool write = true);
  // A number that is null where it is infinite, an object where there is none, a list of objects
  // where it is empty.
  Form& or_null();
  // Written on a new line behind `indent`.
  Form& line(std::string_view indent);

  // ---- what the object is like
  // Every field from here on, and the closing brace, on a line of its own.
  void lines(std::string_view indent);
  // Fields from here on follow each other in one line.
  void one_line();
  // Whether what follows is described: it is there where this holds. The schema demands none of it.
  bool when(bool holds);
  // The same of fields that are there together, or not at all: where `key` is, one of them.
  bool given(std::string_view key, bool write);
  // Keys without a field are refused.
  void closed();
  // It is a document of this kind: api_version and kind.
  void document(std::string_view kind);

  // ---- fields, in the order in which they are written
  void constant(std::string_view key, std::string_view value);
  void number(std::string_view key, double& value, Range range, std::string_view about);
  void number(std::string_view key, std::optional<double>& value, Range range,
              std::string_view about);
  template <class Unit>
  void number(std::string_view key, Quantity<Unit>& value, Range range, std::string_view about) {
    number(key, value.value, range, about);
  }
  template <class Unit>
  void number(std::string_view key, std::optional<Quantity<Unit>>& value, Range range,
              std::string_view about) {
    std::optional<double> number_of;
    if (value) number_of = value->value;
    number(key, number_of, range, about);
    if (reading() && number_of) value = Quantity<Unit>{*number_of};
  }
  // A number that is written with these digits.
  void digits(std::string_view key, double& value, const std::string& digits, Range range,
              std::string_view about);
  void integer(std::string_view key, int& value, Range range, std::string_view about);
  void integer(std::string_view key, std::optional<int>& value, Range range,
               std::string_view about);
  void whole(std::string_view key, long& value, Range range, std::string_view about);
  void whole(std::string_view key, std::uint64_t& value, std::string_view about);
  void boolean(std::string_view key, bool& value, std::string_view about);
  void name(std::string_view key, std::string& value, std::string_view about);  // see unicode.h
  void text(std::string_view key, std::string& value, std::string_view about);  // not empty
  void note(std::string_view key, std::string& value, std::string_view about);  // may be empty
  // What others said: null where it is empty, U+FFFD for what cannot be printed. May be missing.
  void quote(std::string_view key, std::string& value, std::string_view about);
  // One of `words`, which are those of the values of E in order.
  template <class E>
  void word(std::string_view key, E& value, std::initializer_list<const char*> words,
            std::string_view about) {
    const int chosen = one_of(key, static_cast<int>(value), {words.begin(), words.size()}, about);
    if (reading()) value = static_cast<E>(chosen);
  }
  void integers(std::string_view key, std::vector<int>& values, Range range, const ListForm& how,
                std::string_view about);
  void names(std::string_view key, std::vector<std::string>& values, const ListForm& how,
             std::string_view about);
  void notes(std::string_view key, std::vector<std::string>& values, const ListForm& how,
             std::string_view about);
  void texts(std::string_view key, std::map<std::string, std::string>& values,
             std::string_view about);  // an object of texts by name
  template <class T>
  void object(std::string_view key, T& value, void (*describe)(Form&, std::type_identity_t<T>&),
              std::string_view about) {
    Item<T> item{&value, nullptr, describe};
    nested(key, about, item.walker());
  }
  template <class T, std::invocable<Form&, T&> D>
  void object(std::string_view key, T& value, const D& describe, std::string_view about) {
    Item<T, D> item{&value, nullptr, describe};
    nested(key, about, item.walker());
  }
  template <class T>
  void object(std::string_view key, std::optional<T>& value,
              void (*describe)(Form&, std::type_identity_t<T>&), std::string_view about) {
    if (written_as_null(key, value.has_value())) return;
    if (!next_.or_null) optional(value.has_value());
    T given = value.value_or(T{});
    object(key, given, describe, about);
    if (reading() && reading()->has(key)) value = std::move(given);
  }
  template <class T>
  void list(std::string_view key, std::vector<T>& values,
            void (*describe)(Form&, std::type_identity_t<T>&), const ListForm& how,
            std::string_view about) {
    Item<T> item{nullptr, &values, describe};
    each(key, values.size(), how, about, item.walker());
  }
  template <class T, std::invocable<Form&, T&> D>
  void list(std::string_view key, std::vector<T>& values, const D& describe, const ListForm& how,
            std::string_view about) {
    Item<T, D> item{nullptr, &values, describe};
    each(key, values.size(), how, about, item.walker());
  }
  // One of several types in this object, told apart by its word.
  template <class... T>
  void variant(std::string_view key, std::variant<T...>& value,
               std::initializer_list<const char*> words, std::string_view about,
               void (*... describe)(Form&, T&)) {
    const int chosen =
        one_of(key, static_cast<int>(value.index()), {words.begin(), words.size()}, about);
    const bool demanded = demanded_;
    int index = 0;
    (alternative(value, index++ == chosen, describe), ...);
    demanded_ = demanded;
  }

  // ---- what is written and never read: what follows from the value, or is for people
  template <class T>
  void told(std::string_view key, const T& value, std::string_view about = {}) {
    if (!open_told(key, about)) return;
    put(value);
    close();
  }
  // Objects, each described as `describe(form, index)`.
  template <std::invocable<Form&, std::size_t> D>
  void rows(std::string_view key, std::size_t count, const D& describe, const ListForm& how,
            std::string_view about = {}) {
    Rows<D> rows{describe};
    if (mode_ == Mode::schema) return told(key, std::vector<int>(), about);  // there is no row
    if (!skipped()) each(key, count, how, about, {&rows, &Rows<D>::walk});
  }
  template <class T, std::invocable<Form&, const T&> D>
  void rows(std::string_view key, const std::vector<T>& all, const D& describe,
            const ListForm& how, std::string_view about = {}) {
    const auto one = [&](Form& f, std::size_t i) { describe(f, all[i]); };
    rows(key, all.size(), one, how, about);
  }
  template <std::invocable<Form&> D>
  void told_object(std::string_view key, const D& describe, std::string_view about = {}) {
    const auto only = [&](Form& f, std::size_t) { describe(f); };
    Rows<decltype(only)> rows{only};
    if (!skipped()) nested(key, about, {&rows, &Rows<decltype(only)>::walk});
  }
  template <class T>
  void told_list(std::string_view key, const std::vector<T>& values, const ListForm& how,
                 std::string_view about = {}) {
    if (!open_told(key, about)) return;
    write_list(values.size(), how, [&](std::size_t i) { put(values[i]); });
    close();
  }
  // An object that is JSON already; `schema` is a reference to its schema.
  void embedded(std::string_view key, std::string_view json, std::string_view schema = {});

  // The fields that are read, for what no field says alone: `if (Fields* in = f.reading()) ...`
  // refuses, or fills in what may be missing. Null while writing.
  Fields* reading() const { return mode_ == Mode::read ? in_ : nullptr; }

  // ---- one walk, for the functions below
  using Walk = void (*)(void* item, Form& form, std::size_t index);
  struct Walker {
    void* item;
    Walk walk;
  };
  static std::string write(Walker walker, Style style);
  static void read(Fields& fields, Walker walker, std::size_t index = 0);
  static std::string schema(std::string_view title, std::string_view about, Walker walker);

  template <class T, class D = void (*)(Form&, T&)>
  struct Item {
    T* value;
    std::vector<T>* values;
    const D& describe;
    Walker walker() { return {this, &Item::walk}; }
    static void walk(void* item, Form& form, std::size_t index) {
      const Item& self = *static_cast<Item*>(item);
      if (self.values && index == self.values->size()) self.values->emplace_back();
      self.describe(form, self.values ? (*self.values)[index] : *self.value);
    }
  };
  template <class D>
  struct Rows {
    const D& describe;
    static void walk(void* rows, Form& form, std::size_t index) {
      static_cast<Rows*>(rows)->describe(form, index);
    }
  };

 private:
  enum class Mode { write, keys, read, schema };
  Form(Mode mode, JsonWriter* out, Fields* in, Style style, int depth);

  bool open(std::string_view key, std::string_view about);  // whether there is a value to treat
  void close();
  bool skipped();  // what is told, while reading
  bool open_told(std::string_view key, std::string_view about);
  void put(double value);
  void put(long value);
  void put(bool value);
  void put(std::uint64_t value);
  void put(std::string_view value);
  void put(int value) { put(long{value}); }
  void put(const std::string& value) { put(std::string_view(value)); }
  void put(const char* value) { put(std::string_view(value)); }
  template <class Unit>
  void put(const Quantity<Unit>& value) {
    put(value.value);
  }
  template <class T>
  void put(const std::optional<T>& value) {
    field_.or_null = true;
    value ? put(*value) : put(std::numeric_limits<double>::infinity());  // null
  }
  template <class T>
  void put(const std::vector<T>& values) {
    write_list(values.size(), {}, [&](std::size_t i) { put(values[i]); });
  }
  template <class V, class T>
  void alternative(V& value, bool chosen, void (*describe)(Form&, T&)) {
    if (!when(chosen)) return;
    T one = chosen && !reading() ? std::get<T>(value) : T{};
    describe(*this, one);
    if (reading()) value = std::move(one);
  }
  bool written_as_null(std::string_view key, bool given);
  void separate();
  void break_line(int depth);
  void write_number(double value);
  void whole_of(std::string_view key, long& value, Range range, std::string_view about,
                std::string_view type);
  void type(std::string_view word, const Range* range = nullptr);
  void string_field(std::string_view key, std::string& value, std::string_view about,
                    std::string (Fields::*take)(std::string_view));
  int one_of(std::string_view key, int value, std::span<const char* const> words,
             std::string_view about);
  void nested(std::string_view key, std::string_view about, Walker walker);
  void each(std::string_view key, std::size_t count, const ListForm& how, std::string_view about,
            Walker walker);
  template <class T, class Write, class Read>
  void values(std::string_view key, std::vector<T>& all, const ListForm& how,
              std::string_view about, const Range* range, Write put, Read take);
  void write_list(std::size_t count, const ListForm& how,
                  const std::function<void(std::size_t)>& write);
  void list_schema(const ListForm& how);
  void write_object(Walker walker, std::size_t index);
  void object_schema(Walker walker, std::size_t index);

  struct Next {
    bool optional = false, write = true, or_null = false, line = false;
    std::string_view indent;
  };

  const Mode mode_;
  JsonWriter* const out_;  // writing and schema
  Fields* const in_;       // reading
  const Style style_;
  const int depth_;
  Next next_, field_;
  bool first_ = true, closed_ = false, lines_ = false, demanded_ = true;
  std::string_view lines_indent_;
  std::vector<std::string_view> keys_, required_;
};

// A kind of document, for lists of them.
struct DocumentKind {
  std::string_view name, about;
  std::string (*schema)();
};

// A number of either sign.
inline constexpr Range kAnyNumber{.low = -1.7976931348623157e308, .high = 1.7976931348623157e308};

// The value as JSON, with a line break at its end unless it is compact.
template <class T>
std::string write_form(const T& value, void (*describe)(Form&, std::type_identity_t<T>&),
                       Form::Style style = Form::Style::by_hand) {
  Form::Item<T> item{const_cast<T*>(&value), nullptr, describe};  // writing leaves it as it is
  return Form::write(item.walker(), style);
}
template <class T, std::invocable<Form&, T&> D>
std::string write_form(const T& value, const D& describe,
                       Form::Style style = Form::Style::by_hand) {
  Form::Item<T, D> item{const_cast<T*>(&value), nullptr, describe};
  return Form::write(item.walker(), style);
}
// The same of what is told alone.
template <std::invocable<Form&> D>
std::string write_form(const D& describe, Form::Style style = Form::Style::by_hand) {
  const auto only = [&](Form& f, std::size_t) { describe(f); };
  Form::Rows<decltype(only)> rows{only};
  return Form::write({&rows, &Form::Rows<decltype(only)>::walk}, style);
}
// The value as JSON in its line, for logs.
template <class T>
std::string line_form(const T& value, void (*describe)(Form&, std::type_identity_t<T>&)) {
  std::string text = write_form(value, describe);
  text.pop_back();
  return text;
}
template <std::invocable<Form&> D>
std::string line_form(const D& describe) {
  std::string text = write_form(describe);
  text.pop_back();
  return text;
}

// Refused with FILE:LINE.
template <class T, class D = void (*)(Form&, T&)>
Result<T> read_form(const Document& document, const D& describe) {
  Fields fields(document);
  T value;
  Form::Item<T, D> item{&value, nullptr, describe};
  Form::read(fields, item.walker());
  if (fields.error()) return failed(*fields.error());
  return value;
}

// A document, JSON or YAML.
template <class T, class D = void (*)(Form&, T&)>
Result<T> read_form(const std::string& file, std::string_view text, const D& describe) {
  const auto document = parse_document(file, text);
  if (!document) return failed(document.error());
  return read_form<T, D>(*document, describe);
}

// The JSON Schema of what write_form writes and read_form reads.
template <class T, class D>
std::string schema_form(std::string_view title, std::string_view about, const D& describe) {
  T value;
  Form::Item<T, D> item{&value, nullptr, describe};
  return Form::schema(title, about, item.walker());
}
template <class T>
std::string schema_form(std::string_view title, std::string_view about,
                        void (*describe)(Form&, T&)) {
  return schema_form<T, void (*)(Form&, T&)>(title, about, describe);
}

}  // namespace partita
