// What all parts of the parser share: tokens, the first error (after it there are no more tokens,
// so that loops end by themselves), and constants.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ptx/lexer.h"
#include "ptx/module.h"

namespace partita::ptx {

// A literal or a constant expression.
struct Constant {
  enum class Kind : std::uint8_t { integer, f32, f64 };
  Kind kind = Kind::integer;
  bool is_unsigned = false;
  std::uint64_t bits = 0;  // two's complement, or the pattern of the float or double
  bool operator==(const Constant&) const = default;
};

// 12, 017, 0x1fU, 0b101, 0f3F800000, 0d..., 1.5e3; nothing for any other spelling.
std::optional<Constant> parse_literal(std::string_view text);

class Reader {
 public:
  Reader(std::string_view text, std::string_view name);

  const Token& peek() const { return lexer_.peek(); }
  Token take() { return lexer_.take(); }
  int line() const { return peek().line; }
  bool ended() const { return peek().kind == Token::Kind::end; }
  bool take_if(char sign);
  bool take_if_dot(std::string_view word);
  bool skip_braces() { return lexer_.skip_braces(); }

  bool ok() const { return !error_.has_value(); }
  const std::optional<Error>& error() const { return error_; }
  void fail(int line, std::string message, ErrorCode code = ErrorCode::bad_input);
  // "expected WHAT, found ..."
  void expected(std::string_view what);

  void expect(char sign, std::string_view after);
  std::string_view take_name(std::string_view what);
  // A literal within [0, most].
  std::uint64_t take_count(std::string_view what, std::uint64_t most);
  // A constant expression; stops in front of what does not belong to it.
  Constant constant();
  // The same, which must be an integer.
  std::int64_t integer();

 private:
  Constant expression(int least_rank);
  Constant unary();
  Constant primary();

  Lexer lexer_;
  std::string name_;
  std::optional<Error> error_;
  std::size_t depth_ = 0;  // of constant expressions
};

}  // namespace partita::ptx
