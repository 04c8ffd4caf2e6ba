#include "serve/oip/tensor_json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <system_error>
#include <type_traits>

#include "base/check.h"
#include "serve/oip/json_scan.h"
#include "serve/wire/texts.h"

namespace partita::serve {

namespace {

// What visit(T()) says for the type of a number, or of a truth value.
template <class Visit>
auto visit_number(DataType type, const Visit& visit) {
  switch (type) {
    case DataType::boolean:
      return visit(bool());
    case DataType::uint8:
      return visit(std::uint8_t());
    case DataType::uint16:
      return visit(std::uint16_t());
    case DataType::uint32:
      return visit(std::uint32_t());
    case DataType::uint64:
      return visit(std::uint64_t());
    case DataType::int8:
      return visit(std::int8_t());
    case DataType::int16:
      return visit(std::int16_t());
    case DataType::int32:
      return visit(std::int32_t());
    case DataType::int64:
      return visit(std::int64_t());
    case DataType::fp32:
      return visit(float());
    default:
      CHECK(type == DataType::fp64 && "bind_request() refuses FP16 and BF16 in JSON");
      return visit(double());
  }
}

constexpr int kMaxNesting = kMaxDimensions + 1;

struct Cursor {
  const char* at;
  const char* end;
  bool space() {
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')) ++at;
    return at < end;
  }
};

// Into value; false: no number of this type begins here.
bool parse_element(Cursor& cursor, bool& value) {
  const std::string_view rest(cursor.at, static_cast<std::size_t>(cursor.end - cursor.at));
  value = rest.starts_with("true");
  if (!value && !rest.starts_with("false")) return false;
  cursor.at += value ? 4 : 5;
  return true;
}

template <class T>
bool parse_element(Cursor& cursor, T& value) {
  const char* const end = end_of_json_number(cursor.at, cursor.end);
  if (!end) return false;
  const auto [read, error] = std::from_chars(cursor.at, end, value);
  if constexpr (std::is_floating_point_v<T>) {
    if (error == std::errc::result_out_of_range) {
      double wide = 0;  // what is too small for the type is 0 in it
      const auto again = std::from_chars(cursor.at, end, wide);
      const bool tiny = again.ec == std::errc() && std::abs(wide) < 1;
      if (!tiny) return false;
      value = static_cast<T>(wide);
    }
  } else if (error != std::errc() || read != end) {
    return false;
  }
  cursor.at = end;
  return std::isfinite(static_cast<double>(value));
}

// Writes values into rows, one after the other.
template <class T>
class RowFiller {
 public:
  explicit RowFiller(std::span<const std::span<char>> rows) : rows_(rows) { enter(); }
  bool full() const { return to_ == end_; }
  void put(T value) {
    std::memcpy(to_, &value, sizeof(T));
    to_ += sizeof(T);
    if (to_ == end_) enter();
  }

 private:
  void enter() {
    if (row_ == rows_.size()) return;
    to_ = rows_[row_].data();
    end_ = to_ + rows_[row_].size();
    ++row_;
  }
  std::span<const std::span<char>> rows_;
  std::size_t row_ = 0;
  char* to_ = nullptr;
  char* end_ = nullptr;
};

Result<void> misread(std::string_view text, const char* at, const std::string& what) {
  return bad_input("data, byte " + std::to_string(at - text.data()), what);
}

template <class T>
Result<void> decode(std::string_view text, const TensorSpec& tensor,
                    std::span<const std::span<char>> rows) {
  Cursor cursor{text.data(), text.data() + text.size()};
  RowFiller<T> filler(rows);
  int depth = 0;
  bool value_next = true, may_close = false;  // may_close: right after '['
  while (cursor.space()) {
    const char c = *cursor.at;
    if (value_next && c == '[') {
      if (++depth > kMaxNesting) return misread(text, cursor.at, "nested too deeply");
      ++cursor.at;
      may_close = true;
    } else if (c == ']' && depth > 0 && (!value_next || may_close)) {
      ++cursor.at;
      value_next = may_close = false;
      if (--depth == 0) break;
    } else if (!value_next) {
      if (c != ',') return misread(text, cursor.at, "',' or ']' is wanted");
      ++cursor.at;
      value_next = true;
    } else {
      T value{};
      const char* begin = cursor.at;
      if (depth == 0 || !parse_element(cursor, value))
        return misread(text, begin,
                       "a value of type " + std::string(name_of(tensor.type)) + " is wanted");
      if (filler.full()) return misread(text, begin, "more values than the shape has");
      filler.put(value);
      value_next = may_close = false;
    }
  }
  if (depth != 0) return misread(text, cursor.at, "an array without end");
  if (!filler.full()) return misread(text, cursor.at, "fewer values than the shape has");
  if (cursor.space()) return misread(text, cursor.at, "something follows the end");
  return {};
}

Result<void> decode_texts(std::string_view text, const TensorSpec& tensor,
                          std::span<const std::span<char>> rows) {
  JsonScan scan(text);
  TextRows into(tensor, rows);
  const std::function<void()> element = [&] {
    const char first = scan.peek();
    if (first == '[') {
      scan.array(element);
      return;
    }
    if (first != '"') return scan.fail("a value of type BYTES is wanted");
    const std::string value = scan.string();
    if (!scan.ok()) return;
    if (const std::string fault = into.put(value); !fault.empty()) scan.fail(fault);
  };
  scan.array(element);
  scan.end();
  if (scan.ok() && !into.full()) scan.fail("fewer values than the shape has");
  if (!scan.ok()) return bad_input("data", scan.error());
  return {};
}

template <class T>
void append(std::string& out, std::span<const char> row, bool first) {
  std::array<char, 40> digits;
  for (std::size_t i = 0; i + sizeof(T) <= row.size(); i += sizeof(T)) {
    if (!first) out.push_back(',');
    first = false;
    if constexpr (std::is_same_v<T, bool>) {
      out += row[i] != 0 ? "true" : "false";
    } else {
      T value;
      std::memcpy(&value, row.data() + i, sizeof(T));
      const bool said = std::isfinite(static_cast<double>(value));
      const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
      said ? out.append(digits.data(), end) : out.append("null");
    }
  }
}

void append_texts(std::string& out, std::span<const char> row, bool first) {
  each_text(row, [&](std::string_view text) {
    if (!first) out.push_back(',');
    first = false;
    append_json_string(out, text);
  });
}

}  // namespace

Result<void> decode_json_tensor(std::string_view text, const TensorSpec& tensor,
                                std::span<const std::span<char>> rows) {
  if (tensor.type == DataType::bytes) return decode_texts(text, tensor, rows);
  return visit_number(tensor.type, [&]<class T>(T) { return decode<T>(text, tensor, rows); });
}

void append_json_row(std::string& out, DataType type, std::span<const char> row, bool first) {
  if (type == DataType::bytes) return append_texts(out, row, first);
  visit_number(type, [&]<class T>(T) { append<T>(out, row, first); });
}

}  // namespace partita::serve
