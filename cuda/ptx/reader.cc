#include "ptx/reader.h"

#include <array>
#include <bit>
#include <utility>

#include "base/parse_number.h"

namespace partita::ptx {
namespace {

constexpr int kWarpSize = 32;

struct Operator {
  std::string_view sign;
  int rank = 0;  // binds the tighter the higher
};
constexpr std::array<Operator, 18> kOperators = {{{"||", 1},
                                                  {"&&", 2},
                                                  {"|", 3},
                                                  {"^", 4},
                                                  {"&", 5},
                                                  {"==", 6},
                                                  {"!=", 6},
                                                  {"<", 7},
                                                  {">", 7},
                                                  {"<=", 7},
                                                  {">=", 7},
                                                  {"<<", 8},
                                                  {">>", 8},
                                                  {"+", 9},
                                                  {"-", 9},
                                                  {"*", 10},
                                                  {"/", 10},
                                                  {"%", 10}}};

int rank_of(const Token& token) {
  if (token.kind != Token::Kind::sign) return 0;
  for (const Operator& row : kOperators) {
    if (row.sign == token.text) return row.rank;
  }
  return 0;
}

Constant integer_of(std::uint64_t bits, bool is_unsigned) {
  return {.kind = Constant::Kind::integer, .is_unsigned = is_unsigned, .bits = bits};
}

std::uint64_t shifted_right(const Constant& a, std::uint64_t by) {
  if (a.is_unsigned) return by > 63 ? 0 : a.bits >> by;
  const auto value = static_cast<std::int64_t>(a.bits);
  return static_cast<std::uint64_t>(value >> (by > 63 ? 63 : by));
}

bool compare(std::string_view sign, const Constant& a, const Constant& b, bool is_unsigned) {
  const auto s = static_cast<std::int64_t>(a.bits), t = static_cast<std::int64_t>(b.bits);
  const bool less = is_unsigned ? a.bits < b.bits : s < t;
  const bool equal = a.bits == b.bits;
  if (sign == "<") return less;
  if (sign == "<=") return less || equal;
  if (sign == ">") return !less && !equal;
  if (sign == ">=") return !less;
  return sign == "==" ? equal : !equal;
}

// Nothing: a division by zero.
std::optional<std::uint64_t> divided(const Constant& a, const Constant& b, bool rest,
                                     bool is_unsigned) {
  if (b.bits == 0) return std::nullopt;
  if (is_unsigned) return rest ? a.bits % b.bits : a.bits / b.bits;
  const auto s = static_cast<std::int64_t>(a.bits), t = static_cast<std::int64_t>(b.bits);
  if (t == -1) return rest ? 0 : 0 - a.bits;
  return static_cast<std::uint64_t>(rest ? s % t : s / t);
}

std::optional<Constant> combined(std::string_view sign, const Constant& a, const Constant& b) {
  const bool is_unsigned = a.is_unsigned || b.is_unsigned;
  const auto both = [&](std::uint64_t bits) { return integer_of(bits, is_unsigned); };
  if (sign == "+") return both(a.bits + b.bits);
  if (sign == "-") return both(a.bits - b.bits);
  if (sign == "*") return both(a.bits * b.bits);
  if (sign == "&") return both(a.bits & b.bits);
  if (sign == "|") return both(a.bits | b.bits);
  if (sign == "^") return both(a.bits ^ b.bits);
  if (sign == "/" || sign == "%") {
    const auto bits = divided(a, b, sign == "%", is_unsigned);
    return bits ? std::optional(both(*bits)) : std::nullopt;
  }
  if (sign == "<<") return integer_of(b.bits > 63 ? 0 : a.bits << b.bits, a.is_unsigned);
  if (sign == ">>") return integer_of(shifted_right(a, b.bits), a.is_unsigned);
  if (sign == "&&") return integer_of(a.bits != 0 && b.bits != 0, false);
  if (sign == "||") return integer_of(a.bits != 0 || b.bits != 0, false);
  return integer_of(compare(sign, a, b, is_unsigned), false);
}

std::optional<Constant> pattern(std::string_view digits, std::size_t length, Constant::Kind kind) {
  if (digits.size() != length) return std::nullopt;
  const auto bits = parse_number<std::uint64_t>(digits, 16);
  if (!bits) return std::nullopt;
  return Constant{.kind = kind, .bits = *bits};
}

std::optional<Constant> whole(std::string_view text) {
  const bool marked = text.ends_with('U') || text.ends_with('u');
  if (marked) text.remove_suffix(1);
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const char mark = text[1];
    base = mark == 'x' || mark == 'X' ? 16 : mark == 'b' || mark == 'B' ? 2 : 8;
    text.remove_prefix(base == 8 ? 1 : 2);
  }
  const auto bits = parse_number<std::uint64_t>(text, base);
  if (!bits) return std::nullopt;
  return integer_of(*bits, marked || *bits > std::uint64_t{INT64_MAX});
}

Constant negated(const Constant& value) {
  if (value.kind == Constant::Kind::f32) {
    return {.kind = Constant::Kind::f32, .bits = value.bits ^ 0x8000'0000U};
  }
  if (value.kind == Constant::Kind::f64) {
    return {.kind = Constant::Kind::f64, .bits = value.bits ^ (std::uint64_t{1} << 63)};
  }
  return integer_of(0 - value.bits, value.is_unsigned);
}

}  // namespace

std::optional<Constant> parse_literal(std::string_view text) {
  if (text.size() > 2 && text[0] == '0') {
    const char mark = text[1];
    if (mark == 'f' || mark == 'F') return pattern(text.substr(2), 8, Constant::Kind::f32);
    if (mark == 'd' || mark == 'D') return pattern(text.substr(2), 16, Constant::Kind::f64);
  }
  const bool prefixed = text.size() > 1 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  if (!prefixed && text.find_first_of(".eE") != std::string_view::npos) {
    if (text.ends_with('.')) text.remove_suffix(1);
    const auto value = parse_number<double>(text);
    if (!value) return std::nullopt;
    return Constant{.kind = Constant::Kind::f64, .bits = std::bit_cast<std::uint64_t>(*value)};
  }
  return whole(text);
}

Reader::Reader(std::string_view text, std::string_view name) : lexer_(text), name_(name) {}

bool Reader::take_if(char sign) {
  if (!peek().is(sign)) return false;
  take();
  return true;
}

bool Reader::take_if_dot(std::string_view word) {
  if (!peek().is_dot(word)) return false;
  take();
  return true;
}

void Reader::fail(int line, std::string message, ErrorCode code) {
  if (!error_) error_ = Error{code, std::move(message), name_ + ":" + std::to_string(line)};
  lexer_.stop();
}

void Reader::expected(std::string_view what) {
  fail(line(), "expected " + std::string(what) + ", found " + shown(peek()));
}

void Reader::expect(char sign, std::string_view after) {
  if (take_if(sign)) return;
  expected("'" + std::string(1, sign) + "' " + std::string(after));
}

std::string_view Reader::take_name(std::string_view what) {
  if (peek().kind == Token::Kind::name) return take().text;
  expected(what);
  return {};
}

std::uint64_t Reader::take_count(std::string_view what, std::uint64_t most) {
  const auto value = peek().kind == Token::Kind::number ? parse_literal(peek().text) : std::nullopt;
  if (!value || value->kind != Constant::Kind::integer) {
    expected(what);
    return 0;
  }
  if (value->bits > most) {
    fail(line(), std::string(what) + " is more than " + std::to_string(most), ErrorCode::limit);
    return 0;
  }
  take();
  return value->bits;
}

Constant Reader::constant() {
  const Constant condition = expression(1);
  if (!peek().is('?') || !ok()) return condition;
  if (++depth_ > kMaxNesting) fail(line(), "a constant nested too deep", ErrorCode::limit);
  take();
  const Constant yes = constant();
  expect(':', "after the first value of '?'");
  const Constant no = constant();
  --depth_;
  return condition.bits != 0 ? yes : no;
}

std::int64_t Reader::integer() {
  const int at = line();
  const Constant value = constant();
  if (ok() && value.kind != Constant::Kind::integer) fail(at, "expected a whole number");
  return static_cast<std::int64_t>(value.bits);
}

Constant Reader::expression(int least_rank) {
  Constant left = unary();
  while (ok()) {
    const int rank = rank_of(peek());
    if (rank == 0 || rank < least_rank) break;
    const Token sign = take();
    const Constant right = expression(rank + 1);
    if (!ok()) break;
    if (left.kind != Constant::Kind::integer || right.kind != Constant::Kind::integer) {
      fail(sign.line, "constant expressions are of whole numbers");
      break;
    }
    const auto value = combined(sign.text, left, right);
    if (!value) {
      fail(sign.line, "a constant is divided by zero");
      break;
    }
    left = *value;
  }
  return left;
}

Constant Reader::unary() {
  if (!peek().is('-') && !peek().is('+') && !peek().is('~') && !peek().is('!')) return primary();
  const Token sign = take();
  if (++depth_ > kMaxNesting) fail(sign.line, "a constant nested too deep", ErrorCode::limit);
  const Constant value = unary();
  --depth_;
  if (!ok()) return {};
  if (sign.is('-')) return negated(value);
  if (sign.is('+')) return value;
  if (value.kind != Constant::Kind::integer) {
    fail(sign.line, "constant expressions are of whole numbers");
    return {};
  }
  return sign.is('~') ? integer_of(~value.bits, value.is_unsigned)
                      : integer_of(value.bits == 0, false);
}

Constant Reader::primary() {
  if (peek().is_name("WARP_SZ")) {
    take();
    return integer_of(kWarpSize, false);
  }
  if (take_if('(')) {
    if (++depth_ > kMaxNesting) fail(line(), "a constant nested too deep", ErrorCode::limit);
    std::optional<bool> cast;
    if (take_if_dot("s64")) cast = false;
    if (take_if_dot("u64")) cast = true;
    Constant value = cast ? Constant{} : constant();
    expect(')', "of a constant");
    if (cast && ok()) {
      value = unary();
      value.is_unsigned = *cast;
    }
    --depth_;
    return value;
  }
  const auto value = peek().kind == Token::Kind::number ? parse_literal(peek().text) : std::nullopt;
  if (!value) {
    expected("a constant");
    return {};
  }
  take();
  return *value;
}

}  // namespace partita::ptx
