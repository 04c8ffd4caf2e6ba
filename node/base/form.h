// Form: a type is described once, as a straight list of fields, and that list writes it as JSON,
// reads it back with FILE:LINE (fields.h) and makes its JSON Schema (draft 2020-12). Example:
//   void describe(Form& f, Point& p) {
//     f.number("x_mm", p.x, kNotNegative, "from the left");
//     f.optional().text("label", p.label, "for people");
//   }
//   write_form(point, describe), read_form<Point>(file, text, describe), schema_form<Point>(...)
// Rarer kinds of fields are functions in `form` below.
// A Form lives as long as one walk; it changes the value only when it reads. A list that needs more
// than the value (a catalogue, the object around it) is a lambda that holds it. Limits: those of
// Document and Fields; whole numbers are read as doubles, exactly up to 2^53.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
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
#include "base/form_walk.h"
#include "base/units.h"

namespace partita {

namespace form {

void object_field(FormWalk& walk, std::string_view key, std::string_view about, Walker walker);
void list_field(FormWalk& walk, std::string_view key, std::size_t count, const ListForm& how,
                std::string_view about, Walker walker);
int word_field(FormWalk& walk, std::string_view key, int value, std::span<const char* const> words,
               std::string_view about);

// An object that may be missing is described as what it holds.
template <class T>
struct Described {
  using Type = T;
};
template <class T>
struct Described<std::optional<T>> {
  using Type = T;
};

}  // namespace form

class Form {
 public:
  using Style = FormWalk::Style;
  explicit Form(FormWalk walk) : walk_(std::move(walk)) {}
  FormWalk& walk() { return walk_; }

  // ---- what the next field is like
  // It may be missing and keeps its value then. `write`: whether it is written.
  Form& optional(bool write = true);
  // A number that is null where it is infinite or not given, an object where there is none, a list
  // of objects where it is empty.
  Form& or_null();
  // Written on a new line behind `indent`.
  Form& line(std::string_view indent);

  // ---- what the object is like
  // Every field from here on, and the closing brace, on a line of its own; nothing: they follow
  // each other in one line.
  void lines(std::optional<std::string_view> indent) { walk_.lines(indent); }
  // Whether what follows is described, which is there together, or not at all: where `key` is, one
  // of them. The schema demands none of it.
  bool given(std::string_view key, bool write);
  // Keys without a field are refused.
  void closed() { walk_.closed(); }
  // It is a document of this kind: api_version and kind.
  void document(std::string_view kind);

  // ---- fields, in the order in which they are written
  // A double, a quantity, or one that is given or not.
  template <class T>
  void number(std::string_view key, T& value, Range range, std::string_view about) {
    number_field(walk_, key, value, range, about);
  }
  // An int, or one that is given or not.
  template <class T>
  void integer(std::string_view key, T& value, Range range, std::string_view about) {
    number_field(walk_, key, value, range, about);
  }
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
    const int chosen =
        form::word_field(walk_, key, static_cast<int>(value), {words.begin(), words.size()}, about);
    if (reading()) value = static_cast<E>(chosen);
  }
  void integers(std::string_view key, std::vector<int>& values, Range range, const ListForm& how,
                std::string_view about);
  void names(std::string_view key, std::vector<std::string>& values, const ListForm& how,
             std::string_view about);
  void notes(std::string_view key, std::vector<std::string>& values, const ListForm& how,
             std::string_view about);
  template <class T>
  void object(std::string_view key, T& value,
              Describer<typename form::Described<T>::Type&> describe, std::string_view about) {
    using Held = typename form::Described<T>::Type;
    if constexpr (std::is_same_v<T, Held>) {
      form::object_field(walk_, key, about, [&](Form& f, std::size_t) { describe(f, value); });
    } else {
      if (walk_.null(key, value.has_value())) return;
      if (!walk_.next.or_null) optional(value.has_value());
      Held held = value.value_or(Held{});
      object(key, held, describe, about);
      if (reading() && reading()->has(key)) value = std::move(held);
    }
  }
  template <class T>
  void list(std::string_view key, std::vector<T>& values,
            Describer<std::type_identity_t<T>&> describe, const ListForm& how,
            std::string_view about) {
    form::list_field(walk_, key, values.size(), how, about, [&](Form& f, std::size_t index) {
      if (index == values.size()) values.emplace_back();
      describe(f, values[index]);
    });
  }

  // ---- what is written and never read: what follows from the value, or is for people
  template <class T>
  void told(std::string_view key, const T& value, std::string_view about = {}) {
    if (!walk_.open_told(key, about)) return;
    put(walk_, value);
    walk_.close();
  }
  // Objects, each described as `describe(form, index)`.
  void rows(std::string_view key, std::size_t count, Walker describe, const ListForm& how,
            std::string_view about = {});
  template <class T>
  void rows(std::string_view key, const std::vector<T>& all,
            Describer<const std::type_identity_t<T>&> describe, const ListForm& how,
            std::string_view about = {}) {
    rows(
        key, all.size(), [&](Form& f, std::size_t i) { describe(f, all[i]); }, how, about);
  }
  void told_object(std::string_view key, Describer<> describe, std::string_view about = {});
  template <class T>
  void told_list(std::string_view key, const std::vector<T>& values, const ListForm& how,
                 std::string_view about = {}) {
    if (!walk_.open_told(key, about)) return;
    walk_.list(values.size(), how, [&](std::size_t i) { put(walk_, values[i]); });
    walk_.close();
  }

  // The fields that are read, for what no field says alone: `if (Fields* in = f.reading()) ...`
  // refuses, or fills in what may be missing. Null while writing.
  Fields* reading() { return walk_.reads() ? &walk_.in() : nullptr; }

 private:
  FormWalk walk_;
};

namespace form {

// ---- rarer kinds of fields

void constant(Form& f, std::string_view key, std::string_view value);
// A number that is written with these digits.
void digits(Form& f, std::string_view key, double& value, const std::string& digits, Range range,
            std::string_view about);
// An object of texts by name.
void texts(Form& f, std::string_view key, std::map<std::string, std::string>& values,
           std::string_view about);
// An object that is JSON already; `schema` is a reference to its schema. Told.
void embedded(Form& f, std::string_view key, std::string_view json, std::string_view schema = {});
// One of several types in this object, told apart by its word.
template <class... T>
void variant(Form& f, std::string_view key, std::variant<T...>& value,
             std::initializer_list<const char*> words, std::string_view about,
             void (*... describe)(Form&, T&)) {
  const int chosen = word_field(f.walk(), key, static_cast<int>(value.index()),
                                {words.begin(), words.size()}, about);
  const bool demanded = f.walk().demands();
  const auto alternative = [&]<class One>(bool is_it, void (*describe_it)(Form&, One&)) {
    if (!f.walk().when(is_it)) return;
    One one = is_it && !f.reading() ? std::get<One>(value) : One{};
    describe_it(f, one);
    if (f.reading()) value = std::move(one);
  };
  int index = 0;
  (alternative(index++ == chosen, describe), ...);
  f.walk().demand(demanded);
}

// ---- one walk, for the functions below

std::string write(Walker walker, Form::Style style);
void read(Fields& fields, Walker walker, std::size_t index = 0);
std::string schema(std::string_view title, std::string_view about, Walker walker);

}  // namespace form

// A kind of document, for lists of them.
struct DocumentKind {
  std::string_view name, about;
  std::string (*schema)();
};

// A number of either sign.
inline constexpr Range kAnyNumber{.low = -1.7976931348623157e308, .high = 1.7976931348623157e308};

// The value as JSON, with a line break at its end unless it is compact.
template <class T>
std::string write_form(const T& value, Describer<std::type_identity_t<T>&> describe,
                       Form::Style style = Form::Style::by_hand) {
  T& same = const_cast<T&>(value);  // writing leaves it as it is
  return form::write([&](Form& f, std::size_t) { describe(f, same); }, style);
}
// The same of what is told alone.
inline std::string write_form(Describer<> describe, Form::Style style = Form::Style::by_hand) {
  return form::write([&](Form& f, std::size_t) { describe(f); }, style);
}
// The value as JSON in its line, for logs.
template <class T>
std::string line_form(const T& value, Describer<std::type_identity_t<T>&> describe) {
  std::string text = write_form(value, describe);
  text.pop_back();
  return text;
}
inline std::string line_form(Describer<> describe) {
  std::string text = write_form(describe);
  text.pop_back();
  return text;
}

// Refused with FILE:LINE.
template <class T>
Result<T> read_form(const Document& document, Describer<std::type_identity_t<T>&> describe) {
  Fields fields(document);
  T value;
  form::read(fields, [&](Form& f, std::size_t) { describe(f, value); });
  if (fields.error()) return failed(*fields.error());
  return value;
}

// A document, JSON or YAML.
template <class T>
Result<T> read_form(const std::string& file, std::string_view text,
                    Describer<std::type_identity_t<T>&> describe) {
  const auto document = TRY(parse_document(file, text));
  return read_form<T>(document, describe);
}

// The JSON Schema of what write_form writes and read_form reads.
template <class T>
std::string schema_form(std::string_view title, std::string_view about,
                        Describer<std::type_identity_t<T>&> describe) {
  T value;
  return form::schema(title, about, [&](Form& f, std::size_t) { describe(f, value); });
}
template <class T>
std::string schema_form(std::string_view title, std::string_view about,
                        void (&describe)(Form&, T&)) {
  return schema_form<T>(title, about, Describer<T&>(describe));
}

}  // namespace partita
