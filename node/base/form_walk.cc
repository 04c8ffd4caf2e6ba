#include "base/form_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace partita {

bool FormWalk::when(bool holds) {
  if (writes() || reads()) return holds;
  demanded_ = false;
  return true;
}

// ---- what every field has

void FormWalk::break_line(int depth) {
  out_->raw("\n").raw(std::string(static_cast<std::size_t>(2 * depth), ' '));
}

void FormWalk::separate() {
  if (!first_) out_->raw(",");
  if (style_ == Style::compact) {
  } else if (style_ == Style::indented) {
    break_line(depth_ + 1);
  } else if (field_.line || lines_) {
    out_->raw("\n").raw(field_.line ? field_.indent : *lines_);
  } else if (!first_) {
    out_->raw(" ");
  }
  first_ = false;
}

bool FormWalk::open(std::string_view key, std::string_view about) {
  field_ = std::exchange(next, Next{});
  switch (mode_) {
    case Mode::keys:
      keys_.push_back(key);
      return false;
    case Mode::read:
      return !in_->error() && (!field_.optional || in_->has(key));
    case Mode::write:
      if (!field_.write) return false;
      separate();
      out_->string(key).raw(style_ == Style::compact ? ":" : ": ");
      return true;
    case Mode::schema:
      break;
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

void FormWalk::close() {
  if (makes_schema()) out_->raw("}");
}

bool FormWalk::open_told(std::string_view key, std::string_view about) {
  if (!reads()) return open(key, about);
  next = {};
  return false;
}

void FormWalk::type(std::string_view word, const Range* range) {
  out_->raw("\"type\": ");
  if (field_.or_null) out_->raw("[").string(word).raw(", \"null\"]");
  if (!field_.or_null) out_->string(word);
  if (!range) return;
  out_->raw(range->above ? ", \"exclusiveMinimum\": " : ", \"minimum\": ").number(range->low);
  out_->raw(range->below ? ", \"exclusiveMaximum\": " : ", \"maximum\": ").number(range->high);
}

void FormWalk::number(double value) {
  out_->number(value);
  constexpr double kWritten = 1e16;  // larger ones have an exponent
  const bool whole = std::abs(value) < kWritten && value == std::floor(value);
  if (style_ == Style::indented && whole) out_->raw(".0");
}

bool FormWalk::null(std::string_view key, bool given) {
  if (!next.or_null) return false;
  if (reads() && in_->has(key) && !in_->known(key)) {
    next = {};
    return true;
  }
  if (!writes() || given) return false;
  if (open(key, {})) out_->raw("null");
  return true;
}

// ---- lists and objects

void FormWalk::list(std::size_t count, const ListForm& how,
                    const std::function<void(std::size_t)>& item) {
  if (makes_schema()) return type("array");
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
    item(i);
  }
  if (style_ == Style::indented && count > 0) break_line(depth_ + 1);
  if (style_ == Style::by_hand && count > 0) out_->raw(how.close);
  out_->raw("]");
}

void FormWalk::list_schema(const ListForm& how) {
  type("array");
  if (how.least > 0) out_->raw(fmt::format(", \"minItems\": {}", how.least));
  out_->raw(fmt::format(", \"maxItems\": {}, \"items\": ", how.most));
}

void FormWalk::end_written() {
  if (style_ == Style::indented && !first_) break_line(depth_);
  if (style_ == Style::by_hand && lines_)
    out_->raw("\n").raw(lines_->substr(std::min<std::size_t>(2, lines_->size())));
}

void FormWalk::end_schema() {
  break_line(depth_);
  out_->raw("}");
  if (!required_.empty()) {
    out_->raw(", \"required\": [");
    for (std::size_t i = 0; i < required_.size(); ++i)
      out_->raw(i == 0 ? "" : ", ").string(required_[i]);
    out_->raw("]");
  }
  if (closed_) out_->raw(", \"additionalProperties\": false");
}

void FormWalk::check_keys(Fields& fields) const {
  if (closed_) fields.only(keys_);
}

// ---- single values

void put(FormWalk& walk, double value) { walk.writes() ? walk.number(value) : walk.type("number"); }

void put(FormWalk& walk, long value) {
  walk.writes() ? void(walk.out().number(value)) : walk.type("integer");
}

void put(FormWalk& walk, std::uint64_t value) {
  walk.writes() ? void(walk.out().raw(fmt::to_string(value))) : walk.type("integer");
}

void put(FormWalk& walk, bool value) {
  walk.writes() ? void(walk.out().boolean(value)) : walk.type("boolean");
}

void put(FormWalk& walk, std::string_view value) {
  walk.writes() ? void(walk.out().string(value)) : walk.type("string");
}

void number_field(FormWalk& walk, std::string_view key, double& value, Range range,
                  std::string_view about) {
  if (!walk.open(key, about)) return;
  if (walk.writes()) walk.number(value);
  if (walk.makes_schema()) walk.type("number", &range);
  if (walk.reads()) {
    const bool null = walk.field().or_null && !walk.in().known(key);
    const bool infinite = null && walk.in().has(key);
    value = infinite ? std::numeric_limits<double>::infinity() : walk.in().number(key, range);
  }
  walk.close();
}

void number_field(FormWalk& walk, std::string_view key, int& value, Range range,
                  std::string_view about) {
  if (!walk.open(key, about)) return;
  if (walk.writes()) walk.out().number(long{value});
  if (walk.makes_schema()) walk.type("integer", &range);
  if (walk.reads()) value = walk.in().integer(key, range);
  walk.close();
}

void number_field(FormWalk& walk, std::string_view key, long& value, Range range,
                  std::string_view about) {
  if (!walk.open(key, about)) return;
  if (walk.writes()) walk.out().number(value);
  if (walk.makes_schema()) walk.type("integer", &range);
  if (walk.reads()) value = walk.in().whole(key, range);
  walk.close();
}

}  // namespace partita
