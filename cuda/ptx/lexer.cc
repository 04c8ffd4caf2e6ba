#include "ptx/lexer.h"

#include <array>

namespace partita::ptx {
namespace {

constexpr std::uint8_t kDigit = 1, kLetter = 2, kNamed = 4;  // kNamed: may begin a name

constexpr std::array<std::uint8_t, 256> make_classes() {
  std::array<std::uint8_t, 256> classes{};
  for (std::size_t c = '0'; c <= '9'; ++c) classes[c] = kDigit;
  for (std::size_t c = 'a'; c <= 'z'; ++c) classes[c] = kLetter | kNamed;
  for (std::size_t c = 'A'; c <= 'Z'; ++c) classes[c] = kLetter | kNamed;
  for (const unsigned char c : {'_', '$'}) classes[c] = kLetter | kNamed;
  classes['%'] = kNamed;
  return classes;
}
constexpr auto kClasses = make_classes();

std::uint8_t class_of(char c) { return kClasses[static_cast<unsigned char>(c)]; }
bool in_word(char c) { return (class_of(c) & (kDigit | kLetter)) != 0; }

}  // namespace

Lexer::Lexer(std::string_view text) : text_(text.substr(0, text.find('\0'))) { next_ = read(); }

Token Lexer::take() {
  const Token token = next_;
  next_ = read();
  return token;
}

void Lexer::stop() {
  at_ = text_.size();
  next_ = {Token::Kind::end, {}, next_.line};
}

Token Lexer::cut(Token::Kind kind, std::size_t begin, std::size_t end) {
  at_ = end;
  return {kind, text_.substr(begin, end - begin), line_};
}

// False at a comment that nothing ends.
bool Lexer::skip_blanks() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_;
      ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++at_;
    } else if (c == '/' && text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '/' && text_.substr(at_, 2) == "/*") {
      const std::size_t end = text_.find("*/", at_ + 2);
      if (end == std::string_view::npos) return false;
      for (; at_ < end + 2; ++at_) line_ += text_[at_] == '\n';
    } else {
      break;
    }
  }
  return true;
}

Token Lexer::read() {
  if (!skip_blanks()) return cut(Token::Kind::unknown, at_, text_.size());
  if (at_ == text_.size()) return {Token::Kind::end, {}, line_};
  const std::size_t begin = at_;
  const char c = text_[at_];
  if (class_of(c) & kNamed) {
    std::size_t end = begin + 1;
    while (end < text_.size() && in_word(text_[end])) ++end;
    if (c == '%' && end == begin + 1) return cut(Token::Kind::sign, begin, end);  // remainder
    return cut(Token::Kind::name, begin, end);
  }
  if (class_of(c) & kDigit) return read_number();
  if (c == '.' && begin + 1 < text_.size() && in_word(text_[begin + 1])) {
    std::size_t end = begin + 1;
    while (end < text_.size()) {
      if (in_word(text_[end])) {
        ++end;
      } else if (text_.substr(end, 2) == "::") {
        end += 2;
      } else {
        break;
      }
    }
    return cut(Token::Kind::dot, begin + 1, end);
  }
  return c == '"' ? read_text() : read_sign();
}

// Digits, letters, and what makes a decimal fraction: what it is worth is asked later.
Token Lexer::read_number() {
  const std::size_t begin = at_;
  std::size_t end = at_;
  const auto word = [&] {
    while (end < text_.size() && in_word(text_[end])) ++end;
  };
  word();
  const std::string_view head = text_.substr(begin, end - begin);
  const bool prefixed =
      head.size() > 1 && head[0] == '0' && (class_of(head[1]) & kLetter) != 0 && head[1] != 'e';
  if (prefixed) return cut(Token::Kind::number, begin, end);
  if (end + 1 < text_.size() && text_[end] == '.' && (class_of(text_[end + 1]) & kDigit)) {
    ++end;
    word();
  } else if (end < text_.size() && text_[end] == '.') {  // "1."
    ++end;
  }
  const char last = text_[end - 1];
  const bool signed_power = end + 1 < text_.size() && (last == 'e' || last == 'E') &&
                            (text_[end] == '+' || text_[end] == '-') &&
                            (class_of(text_[end + 1]) & kDigit);
  if (signed_power) {
    ++end;
    word();
  }
  return cut(Token::Kind::number, begin, end);
}

Token Lexer::read_text() {
  const std::size_t begin = at_ + 1;
  std::size_t end = begin;
  while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') {
    end += text_[end] == '\\' ? 2 : 1;
  }
  if (end >= text_.size() || text_[end] != '"') {
    return cut(Token::Kind::unknown, begin - 1, text_.size());
  }
  Token token = cut(Token::Kind::text, begin, end);
  ++at_;
  return token;
}

Token Lexer::read_sign() {
  static constexpr std::string_view kPairs[] = {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"};
  static constexpr std::string_view kSigns = ",;:{}()[]<>=+-*/&|^~!?@.";
  const std::string_view two = text_.substr(at_, 2);
  for (const std::string_view pair : kPairs) {
    if (two == pair) return cut(Token::Kind::sign, at_, at_ + 2);
  }
  const bool known = kSigns.find(text_[at_]) != std::string_view::npos;
  return cut(known ? Token::Kind::sign : Token::Kind::unknown, at_, at_ + 1);
}

bool Lexer::skip_braces() {
  int depth = 1;
  while (depth > 0) {
    const Token& token = peek();
    if (token.kind == Token::Kind::end || token.kind == Token::Kind::unknown) return false;
    if (token.is('{')) ++depth;
    if (token.is('}')) --depth;
    take();
  }
  return true;
}

std::string shown(const Token& token) {
  static constexpr std::size_t kShown = 40;
  if (token.kind == Token::Kind::end) return "the end";
  std::string text(token.text.substr(0, kShown));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) > '~') c = '?';
  }
  if (token.text.size() > kShown) text += "...";
  return (token.kind == Token::Kind::dot ? "'." : "'") + text + "'";
}

}  // namespace partita::ptx
