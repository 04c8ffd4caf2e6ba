// FormWalk: one object of a form on its way through one of four walks: it is written, its keys are
// listed, it is read, or its schema is made. What every kind of field shares: whether there is
// something to do for it, the text between fields, what is known of the object's keys.
// Describer: a reference to a list of fields, as a function or a lambda, which lives as long as the
// call that it is given to. base/form.h is what callers see.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/fields.h"
#include "base/json_writer.h"
#include "base/units.h"

namespace partita {

class Form;

template <class... A>
class Describer {
 public:
  using Function = void (*)(Form&, A...);
  Describer(Function function) : what_{.function = function}, call_(&call_function) {}
  template <class D>
  requires(!std::same_as<D, Describer> && std::invocable<const D&, Form&, A...>)
      Describer(const D& describe)
      : what_{.object = &describe}, call_(&call_object<D>) {}
  void operator()(Form& form, A... a) const { call_(what_, form, a...); }

 private:
  union What {
    Function function;
    const void* object;
  };
  static void call_function(What what, Form& form, A... a) { what.function(form, a...); }
  template <class D>
  static void call_object(What what, Form& form, A... a) {
    (*static_cast<const D*>(what.object))(form, a...);
  }

  What what_;
  void (*call_)(What, Form&, A...);
};

// The fields of an object, or of one of a list.
using Walker = Describer<std::size_t>;

// How a list is written, and how much of it is read.
struct ListForm {
  std::size_t most = kMaxItems;
  std::string_view indent = {};     // items one to a line behind so many blanks; none: in one line
  std::string_view between = ", ";  // in one line
  std::size_t least = 0;
  std::string_view close = {};  // before the bracket that ends items one to a line
};

class FormWalk {
 public:
  enum class Mode : std::uint8_t { write, keys, read, schema };
  // by_hand: in one line but for what line(), lines() and ListForm say. indented: a value to a
  // line, two blanks a level. compact: without blanks and line breaks.
  enum class Style : std::uint8_t { by_hand, indented, compact };
  struct Next {
    bool optional = false, write = true, or_null = false, line = false;
    std::string_view indent;
  };

  FormWalk(Mode mode, JsonWriter* out, Fields* in, Style style, int depth)
      : mode_(mode), out_(out), in_(in), style_(style), depth_(depth) {}
  FormWalk inner() const { return {mode_, out_, in_, style_, depth_ + 1}; }

  bool writes() const { return mode_ == Mode::write; }
  bool reads() const { return mode_ == Mode::read; }
  bool makes_schema() const { return mode_ == Mode::schema; }
  JsonWriter& out() { return *out_; }
  Fields& in() { return *in_; }

  // ---- a field
  Next next = {};                               // what the next one is like
  const Next& field() const { return field_; }  // and this one
  // Whether there is a value to treat; if so, close() ends it.
  bool open(std::string_view key, std::string_view about);
  void close();
  // The same of what is told and never read.
  bool open_told(std::string_view key, std::string_view about);
  void be_null() { field_.or_null = true; }
  void type(std::string_view word, const Range* range = nullptr);
  void number(double value);  // the indented style tells numbers from whole numbers
  void list(std::size_t count, const ListForm& how, const std::function<void(std::size_t)>& item);
  void list_schema(const ListForm& how);
  // Of an object that may be null: whether it is, and that is all there is to do.
  bool null(std::string_view key, bool given);

  // ---- the object
  void lines(std::optional<std::string_view> indent) { lines_ = indent; }
  void closed() { closed_ = true; }
  bool when(bool holds);
  bool demands() const { return demanded_; }
  void demand(bool all) { demanded_ = all; }
  void end_written();
  void end_schema();
  // Keys without a field are refused if it is closed().
  void check_keys(Fields& fields) const;

 private:
  void separate();
  void break_line(int depth);

  const Mode mode_;
  JsonWriter* const out_;  // writing and schema
  Fields* const in_;       // reading
  const Style style_;
  const int depth_;
  Next field_;
  bool first_ = true, closed_ = false, demanded_ = true;
  std::optional<std::string_view> lines_;
  std::vector<std::string_view> keys_, required_;
};

// ---- what is told and never read

void put(FormWalk& walk, double value);
void put(FormWalk& walk, long value);
void put(FormWalk& walk, bool value);
void put(FormWalk& walk, std::uint64_t value);
void put(FormWalk& walk, std::string_view value);
inline void put(FormWalk& walk, int value) { put(walk, long{value}); }
inline void put(FormWalk& walk, const std::string& value) { put(walk, std::string_view(value)); }
inline void put(FormWalk& walk, const char* value) { put(walk, std::string_view(value)); }
template <class Unit>
void put(FormWalk& walk, const Quantity<Unit>& value) {
  put(walk, value.value);
}
template <class T>
void put(FormWalk& walk, const std::optional<T>& value) {
  walk.be_null();
  value ? put(walk, *value) : put(walk, std::numeric_limits<double>::infinity());  // null
}
template <class T>
void put(FormWalk& walk, const std::vector<T>& values) {
  walk.list(values.size(), {}, [&](std::size_t i) { put(walk, values[i]); });
}

// ---- numbers

void number_field(FormWalk& walk, std::string_view key, double& value, Range range,
                  std::string_view about);
void number_field(FormWalk& walk, std::string_view key, int& value, Range range,
                  std::string_view about);
void number_field(FormWalk& walk, std::string_view key, long& value, Range range,
                  std::string_view about);
template <class Unit>
void number_field(FormWalk& walk, std::string_view key, Quantity<Unit>& value, Range range,
                  std::string_view about) {
  number_field(walk, key, value.value, range, about);
}
// One that is given or not.
template <class T>
void number_field(FormWalk& walk, std::string_view key, std::optional<T>& value, Range range,
                  std::string_view about) {
  if (walk.null(key, value.has_value())) return;
  T given = value.value_or(T{});
  walk.next.optional = true;
  walk.next.write = value.has_value();
  number_field(walk, key, given, range, about);
  if (walk.reads() && walk.in().has(key)) value = given;
}

}  // namespace partita
