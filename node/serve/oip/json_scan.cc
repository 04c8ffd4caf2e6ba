#include "serve/oip/json_scan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <system_error>

namespace partita::serve {

namespace {

constexpr bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

// Length of the UTF-8 sequence at the head of `text`, 0 when it is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80 ? 1 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first >= 0x80 && (first < 0xC2 || first > 0xF4)) return 0;
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if (first == 0xE0 && byte(1) < 0xA0) return 0;  // longer than needed
  if (first == 0xED && byte(1) > 0x9F) return 0;  // a surrogate
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

}  // namespace

const char* end_of_json_number(const char* at, const char* end) {
  const auto digits = [&] {
    const char* const first = at;
    while (at < end && is_digit(*at)) ++at;
    return at > first;
  };
  if (at < end && *at == '-') ++at;
  if (at < end && *at == '0') {
    if (++at < end && is_digit(*at)) return nullptr;
  } else if (!digits()) {
    return nullptr;
  }
  if (at < end && *at == '.' && (++at, !digits())) return nullptr;
  if (at < end && (*at == 'e' || *at == 'E')) {
    if (++at < end && (*at == '+' || *at == '-')) ++at;
    if (!digits()) return nullptr;
  }
  return at;
}

void JsonScan::fail(std::string_view what) {
  if (!error_.empty()) return;
  error_ = "byte " + std::to_string(at_) + ": ";
  error_ += what;
}

void JsonScan::space() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
}

char JsonScan::peek() {
  space();
  return ok() && at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonScan::take(char expected) {
  if (!ok() || at_ >= text_.size() || text_[at_] != expected) return false;
  ++at_;
  return true;
}

// Steps to the next element of a list: over a comma, or out over `close`.
bool JsonScan::more(char close, bool& first) {
  space();
  if (!ok()) return false;
  if (first) {
    first = false;
    return !take(close);
  }
  if (take(close)) return false;
  if (!take(',')) fail(close == '}' ? "',' or '}' is wanted" : "',' or ']' is wanted");
  space();
  return ok();
}

std::uint32_t JsonScan::hex4() {
  std::uint32_t code = 0;
  const std::string_view digits = text_.substr(at_, 4);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (digits.size() != 4 || error != std::errc() || end != digits.data() + 4) {
    fail("four hexadecimal digits are wanted after \\u");
    return 0;
  }
  at_ += 4;
  return code;
}

void JsonScan::escape(std::string& out) {
  constexpr std::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
  const char c = at_ < text_.size() ? text_[at_] : '\0';
  if (c == 'u') {
    ++at_;
    std::uint32_t code = hex4();
    if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_, 2) == "\\u") {
      at_ += 2;
      const std::uint32_t low = hex4();
      if (low < 0xDC00 || low > 0xDFFF) fail("half a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low & 0x3FF);
    } else if (code >= 0xD800 && code <= 0xDFFF) {
      fail("half a surrogate pair");
    }
    if (ok()) append_utf8(out, code);
    return;
  }
  const std::size_t found = c == '\0' ? std::string_view::npos : kNames.find(c);
  if (found == std::string_view::npos) return fail("unknown escape");
  out.push_back(kValues[found]);
  ++at_;
}

std::string JsonScan::string() {
  std::string out;
  if (peek() != '"') fail("a string is wanted");
  if (!take('"')) return out;
  while (ok()) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
           static_cast<unsigned char>(text_[at_]) >= 0x20)
      ++at_;
    out.append(text_.substr(begin, at_ - begin));
    if (take('"')) return out;
    if (!take('\\'))
      fail(at_ < text_.size() ? "a control character in a string" : "a string without end");
    else
      escape(out);
  }
  return {};
}

std::string_view JsonScan::name(std::string& resolved) {
  const std::size_t begin = at_ + 1;
  std::size_t end = begin;
  while (end < text_.size() && text_[end] != '"' && text_[end] != '\\' &&
         static_cast<unsigned char>(text_[end]) >= 0x20)
    ++end;
  if (!ok() || end >= text_.size() || text_[end] != '"') return resolved = string();
  at_ = end + 1;
  return text_.substr(begin, end - begin);
}

double JsonScan::number() {
  peek();
  const char* const begin = text_.data() + at_;
  const char* const end = end_of_json_number(begin, text_.data() + text_.size());
  if (!end) {
    fail("a number is wanted");
    return 0;
  }
  double value = 0;
  if (std::from_chars(begin, end, value).ec != std::errc()) fail("a number out of range");
  at_ += static_cast<std::size_t>(end - begin);
  return ok() ? value : 0;
}

template <class Whole>
Whole JsonScan::whole(const char* wanted) {
  peek();
  const char* const begin = text_.data() + at_;
  const char* const end = end_of_json_number(begin, text_.data() + text_.size());
  Whole value = 0;
  const bool is = end && std::from_chars(begin, end, value) == std::from_chars_result{end, {}};
  if (!is) fail(wanted);
  if (!ok()) return 0;
  at_ += static_cast<std::size_t>(end - begin);
  return value;
}

std::int64_t JsonScan::integer() {
  return whole<std::int64_t>("a whole number of 64 bits is wanted");
}

std::uint64_t JsonScan::natural() {
  return whole<std::uint64_t>("a whole number from 0 on, of 64 bits, is wanted");
}

bool JsonScan::take_word(std::string_view word) {
  if (!ok() || text_.substr(at_, word.size()) != word) return false;
  at_ += word.size();
  return true;
}

bool JsonScan::boolean() {
  space();
  if (take_word("true")) return true;
  if (!take_word("false")) fail("true or false is wanted");
  return false;
}

void JsonScan::skip_string() {
  ++at_;  // the quote
  while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
  at_ = std::min(at_, text_.size());
  if (!take('"')) fail("a string without end");
}

// In an array: goes behind its next ']' when there is nothing but numbers and '[' before it.
bool JsonScan::skip_flat(int& depth) {
  const char* begin = text_.data() + at_;
  const auto find = [&](char c, std::size_t length) {
    return static_cast<const char*>(std::memchr(begin, c, length));
  };
  const char* close = find(']', text_.size() - at_);
  if (close == nullptr) return false;
  const auto length = static_cast<std::size_t>(close - begin);
  if (find('"', length) != nullptr || find('{', length) != nullptr || find('}', length) != nullptr)
    return false;
  for (const char* p = begin;; ++p) {
    p = static_cast<const char*>(std::memchr(p, '[', static_cast<std::size_t>(close - p)));
    if (p == nullptr) break;
    ++depth;
  }
  --depth;
  at_ += length + 1;
  return true;
}

// Skips an array or object that begins here.
void JsonScan::skip_nested() {
  std::array<char, kMaxJsonDepth + 1> closers;
  int depth = 0;
  const auto innermost = [&]() -> char& { return closers[static_cast<std::size_t>(depth)]; };
  while (ok() && at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '"') {
      skip_string();
      continue;
    }
    ++at_;
    if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) return fail("nested too deeply");
      innermost() = c == '[' ? ']' : '}';
      if (c != '[') continue;
      int inner = 0;  // arrays in this one
      while (inner >= 0 && inner + depth <= kMaxJsonDepth && skip_flat(inner)) {
      }
      if (inner + depth > kMaxJsonDepth) return fail("nested too deeply");
      for (int i = 0; i < inner; ++i) ++depth, innermost() = ']';
      if (inner < 0) --depth;
    } else if (c == ']' || c == '}') {
      if (innermost() != c) return fail("a bracket that closes nothing");
      --depth;
    }
    if (depth == 0) return;
  }
  fail("a bracket without end");
}

std::string_view JsonScan::skip() {
  const char c = peek();
  const std::size_t begin = at_;
  if (c == '"') {
    skip_string();
  } else if (c == '[' || c == '{') {
    skip_nested();
  } else if (c == 't' || c == 'f') {
    boolean();
  } else if (c == 'n') {
    if (!take_word("null")) fail("a value is wanted");
  } else {
    number();
  }
  return ok() ? text_.substr(begin, at_ - begin) : std::string_view();
}

void JsonScan::end() {
  space();
  if (ok() && at_ != text_.size()) fail("something follows the end");
}

void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out.push_back('"');
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text[0]);
    std::size_t length = 1;
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(text[0]);
    } else if (c < 0x20) {
      out += "\\u00";
      out.push_back(kHex[c >> 4]);
      out.push_back(kHex[c & 15]);
    } else if (length = utf8_length(text); length == 0) {
      length = 1;
      out += "\xEF\xBF\xBD";
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  out.push_back('"');
}

}  // namespace partita::serve
