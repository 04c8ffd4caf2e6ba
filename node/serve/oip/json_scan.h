// JsonScan: reads JSON from left to right without building anything. Values are views into the text
// where that is possible; what is skipped is skipped at memchr's speed. Strict about what is read;
// of what is skipped only brackets and strings are looked at. The first mistake stays: everything
// after it answers empty, and the owner asks error() once at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace partita::serve {

inline constexpr int kMaxJsonDepth = 64;

// Behind the number that begins at `at` (RFC 8259, section 6: no "06", "1.", "+1", "inf"); nullptr:
// none does.
const char* end_of_json_number(const char* at, const char* end);

class JsonScan {
 public:
  explicit JsonScan(std::string_view text) : text_(text) {}

  // The first character of the next value; 0 at the end.
  char peek();
  // Calls member(key) on each value of an object; member consumes the value. A key that is taken as
  // a view lives for the call, and nothing is allocated for it where it has no escapes.
  template <class F>
  bool object(F&& member);
  // Calls element() on each value of an array; element consumes it.
  template <class F>
  bool array(F&& element);
  std::string string();    // escapes resolved, \u as UTF-8
  std::int64_t integer();  // also "3.0" is refused
  std::uint64_t natural();
  double number();
  bool boolean();
  std::string_view skip();  // any value, skipped: its text
  // Only white space may follow.
  void end();

  bool ok() const { return error_.empty(); }
  // The first mistake, "byte 17: ..."; empty: none.
  const std::string& error() const { return error_; }
  void fail(std::string_view what);

 private:
  template <class Whole>
  Whole whole(const char* wanted);
  void space();
  bool take(char expected);
  bool take_word(std::string_view word);
  void skip_string();
  void skip_nested();
  bool skip_flat(int& depth);
  void escape(std::string& out);
  std::uint32_t hex4();
  bool more(char close, bool& first);
  std::string_view name(std::string& resolved);  // of a member, in the text or in `resolved`

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::string error_;
};

template <class F>
bool JsonScan::object(F&& member) {
  if (peek() != '{') fail("an object is wanted");
  if (!ok() || !take('{')) return false;
  bool first = true;
  if (++depth_ > kMaxJsonDepth) fail("nested too deeply");
  while (more('}', first)) {
    if (peek() != '"') fail("a name in quotes is wanted");
    std::string resolved;
    const std::string_view key = name(resolved);
    space();
    if (!take(':')) fail("a ':' is wanted");
    if (!ok()) break;
    if constexpr (std::is_invocable_v<F, std::string_view>)
      member(key);
    else
      member(std::string(key));
  }
  --depth_;
  return ok();
}

template <class F>
bool JsonScan::array(F&& element) {
  if (peek() != '[') fail("an array is wanted");
  if (!ok() || !take('[')) return false;
  bool first = true;
  if (++depth_ > kMaxJsonDepth) fail("nested too deeply");
  while (more(']', first)) element();
  --depth_;
  return ok();
}

// `text` as a JSON string, with its quotes; bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace partita::serve
