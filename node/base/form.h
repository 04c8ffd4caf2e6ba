// Form: a type is described once, as a straight list of fields, and that list writes it as JSON,
// reads it back with FILE:LINE (fields.h) and makes its JSON Schema (draft 2020-12). Example:
//   void describe(Form& f, Point& p) {
//     f.number("x_mm", p.x, kNotNegative, "from the left");
//     f.optional().text("label", p.label, "for people");
//   }
//   write_form(point, describe), read_form<Point>(file, text, describe), schema_form<Point>(...)
// A Form lives as long as one walk; it changes the value only when it reads. Limits: those of
// Document and Fields; whole numbers are read as doubles, exactly up to 2^53.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/fields.h"

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
  // line, two blanks a level.
  enum class Style { by_hand, indented };

  // ---- what the next field is like
  // It may be missing and keeps its value then. `write`: whether it is written.
  Form& optional(bool write = true);
  // A number that is null where it is infinite, or an object where there is none.
  Form& or_null();
  // Written on a new line behind `indent`.
  Form& line(std::string_view indent);

  // ---- what the object is like
  // Every field from here on, and the closing brace, on a line of its own.
  void lines(std::string_view indent);
  // Keys without a field are refused.
  void closed();
  // It is a document of this kind: api_version and kind.
  void document(std::string_view kind);

  // ---- fields, in the order in which they are written
  void constant(std::string_view key, std::string_view value);
  void number(std::string_view key, double& value, Range range, std::string_view about);
  void number(std::string_view key, std::optional<double>& value, Range range,
              std::string_view about);
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
  template <class T>
  void object(std::string_view key, T& value, void (*describe)(Form&, std::type_identity_t<T>&),
              std::string_view about) {
    Item<T> item{&value, nullptr, describe};
    nested(key, about, {&item, &Item<T>::walk});
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
    each(key, values.size(), how, about, {&item, &Item<T>::walk});
  }

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

  template <class T>
  struct Item {
    T* value;
    std::vector<T>* values;
    void (*describe)(Form&, T&);
    static void walk(void* item, Form& form, std::size_t index) {
      const Item& self = *static_cast<Item*>(item);
      if (self.values && index == self.values->size()) self.values->emplace_back();
      self.describe(form, self.values ? (*self.values)[index] : *self.value);
    }
  };

 private:
  enum class Mode { write, keys, read, schema };
  Form(Mode mode, JsonWriter* out, Fields* in, Style style, int depth);

  bool open(std::string_view key, std::string_view about);  // whether there is a value to treat
  void close();
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
  template <class Write>
  void write_list(std::size_t count, const ListForm& how, Write put);
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
  bool first_ = true, closed_ = false, lines_ = false;
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

// The value as JSON, with a line break at its end.
template <class T>
std::string write_form(const T& value, void (*describe)(Form&, std::type_identity_t<T>&),
                       Form::Style style = Form::Style::by_hand) {
  Form::Item<T> item{const_cast<T*>(&value), nullptr, describe};  // writing leaves it as it is
  return Form::write({&item, &Form::Item<T>::walk}, style);
}

// Refused with FILE:LINE.
template <class T>
Result<T> read_form(const Document& document, void (*describe)(Form&, T&)) {
  Fields fields(document);
  T value;
  Form::Item<T> item{&value, nullptr, describe};
  Form::read(fields, {&item, &Form::Item<T>::walk});
  if (fields.error()) return failed(*fields.error());
  return value;
}

// A document, JSON or YAML.
template <class T>
Result<T> read_form(const std::string& file, std::string_view text, void (*describe)(Form&, T&)) {
  const auto document = parse_document(file, text);
  if (!document) return failed(document.error());
  return read_form<T>(*document, describe);
}

// The JSON Schema of what write_form writes and read_form reads.
template <class T>
std::string schema_form(std::string_view title, std::string_view about,
                        void (*describe)(Form&, T&)) {
  T value;
  Form::Item<T> item{&value, nullptr, describe};
  return Form::schema(title, about, {&item, &Form::Item<T>::walk});
}

}  // namespace partita
