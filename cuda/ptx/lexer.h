// Tokens of PTX text. The text outlives the lexer and its tokens; after the end every token is
// `end`. Comments and blanks are skipped, lines counted from 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace partita::ptx {

struct Token {
  enum class Kind : std::uint8_t {
    end,
    name,     // label_1, $L__BB0_1, %r3, _
    dot,      // .reg, .shared::cta, .v4: text without the dot
    number,   // 12, 0x1fU, 0f3F800000, 1.5e3
    text,     // "quoted": text without the quotes
    sign,     // one character, or << >> <= >= == != && ||
    unknown,  // a byte that no token begins with, an open comment or quote
  };
  Kind kind = Kind::end;
  std::string_view text = {};
  int line = 0;

  bool is(char sign) const { return kind == Kind::sign && text.size() == 1 && text[0] == sign; }
  bool is_dot(std::string_view word) const { return kind == Kind::dot && text == word; }
  bool is_name(std::string_view word) const { return kind == Kind::name && text == word; }
  bool operator==(const Token&) const = default;
};

class Lexer {
 public:
  // A NUL and what follows it is not read.
  explicit Lexer(std::string_view text);

  const Token& peek() const { return next_; }
  Token take();
  // Forgets what is left: from here on there is only `end`.
  void stop();
  // Behind an opening brace just taken: goes behind the one that closes it; false where none does.
  bool skip_braces();

 private:
  Token read();
  bool skip_blanks();
  Token read_number();
  Token read_text();
  Token read_sign();
  Token cut(Token::Kind kind, std::size_t begin, std::size_t end);

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  Token next_;
};

// What stands there, for messages: 'word' or "the end".
std::string shown(const Token& token);

}  // namespace partita::ptx
