#include "ptx/declarations.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "ptx/words.h"

namespace partita::ptx {
namespace {

void skip_parentheses(Reader& reader) {
  reader.expect('(', "of an attribute");
  while (reader.ok() && !reader.ended() && !reader.peek().is(')')) reader.take();
  reader.expect(')', "after an attribute");
}

std::uint32_t read_alignment(Reader& reader) {
  const int at = reader.line();
  const auto value =
      static_cast<std::uint32_t>(reader.take_count("an alignment", kMaxVariableAlignment));
  if (reader.ok() && !std::has_single_bit(value)) reader.fail(at, "alignment is no power of two");
  return value;
}

// What a pointer points to: of no interest here.
void skip_pointer(Reader& reader) {
  while (reader.ok() && reader.peek().kind == Token::Kind::dot) {
    const std::string_view word = reader.peek().text;
    if (word == "align") {
      reader.take();
      read_alignment(reader);
    } else if (space_of(word) != Space::none) {
      reader.take();
    } else {
      return;
    }
  }
}

// True where the word of the head was one that says nothing about bytes.
bool read_linkage(Reader& reader, DeclarationHead& head) {
  const std::string_view word = reader.peek().text;
  if (word == "extern") {
    head.is_extern = true;
  } else if (word == "visible" || word == "weak" || word == "common") {
    head.is_visible = true;
  } else if (word != "unified" && word != "managed" && word != "attribute" && word != "ptr") {
    return false;
  }
  reader.take();
  if (word == "attribute") skip_parentheses(reader);
  if (word == "ptr") skip_pointer(reader);
  return true;
}

class Initialiser {
 public:
  Initialiser(Reader& reader, Variable& variable, std::size_t vector, std::size_t budget)
      : reader_(reader), variable_(variable), vector_(vector), budget_(budget) {}

  // `dimensions`: elements below each brace, the outermost first.
  void read(const std::vector<std::uint64_t>& dimensions) {
    if (reader_.peek().is('{')) {
      braces(dimensions, 0);
    } else {
      element();
    }
    whole_addresses();
  }

 private:
  std::size_t width() const { return size_of(variable_.type); }

  void braces(const std::vector<std::uint64_t>& dimensions, std::size_t level) {
    reader_.expect('{', "before initial values");
    if (level > kMaxNesting) {
      reader_.fail(reader_.line(), "braces nested too deep", ErrorCode::limit);
    }
    const std::size_t begin = variable_.initial.size();
    std::uint64_t rows = 0;
    while (reader_.ok() && !reader_.peek().is('}')) {
      if (reader_.peek().is('{')) {
        // What this row holds is one step of the dimension below.
        const std::uint64_t row = level + 1 < dimensions.size() ? step(dimensions, level) : vector_;
        fill(begin + rows * row * width());
        braces(dimensions, level + 1);
        ++rows;
      } else {
        element();
      }
      if (!reader_.take_if(',')) break;
    }
    reader_.expect('}', "after initial values");
  }

  std::uint64_t step(const std::vector<std::uint64_t>& dimensions, std::size_t level) const {
    std::uint64_t elements = vector_;
    for (std::size_t at = level + 1; at < dimensions.size(); ++at) elements *= dimensions[at];
    return elements;
  }

  // Zeros up to `bytes`.
  void fill(std::uint64_t bytes) {
    if (bytes != variable_.initial.size() + width()) whole_addresses();
    if (bytes > budget_) {
      reader_.fail(reader_.line(),
                   "initial values of more than " + std::to_string(budget_) + " bytes",
                   ErrorCode::limit);
      return;
    }
    if (bytes < variable_.initial.size()) {
      reader_.fail(reader_.line(), "more initial values than the row has elements");
      return;
    }
    variable_.initial.resize(bytes);
  }

  // An address in bytes has all eight of them.
  void whole_addresses() {
    if (reader_.ok() && bytes_of_address_ != 0) reader_.fail(reader_.line(), "half an address");
    bytes_of_address_ = 0;
  }

  void append(std::uint64_t bits) {
    const std::size_t at = variable_.initial.size();
    fill(at + width());
    if (!reader_.ok()) return;
    std::memcpy(variable_.initial.data() + at, &bits, std::min<std::size_t>(width(), 8));
  }

  void element() {
    const Token token = reader_.peek();
    if (token.kind == Token::Kind::name && !token.is_name("WARP_SZ")) {
      whole_address();
      return;
    }
    const Constant value = reader_.constant();
    if (!reader_.ok()) return;
    if (reader_.peek().is('(')) {
      address_byte(value.bits);
    } else {
      whole_addresses();
      append(converted(value, token.line));
    }
  }

  std::uint64_t converted(const Constant& value, int line) {
    const Type type = variable_.type;
    if (value.kind == Constant::Kind::integer) {
      const double number = value.is_unsigned
                                ? static_cast<double>(value.bits)
                                : static_cast<double>(static_cast<std::int64_t>(value.bits));
      if (type == Type::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(number));
      if (type == Type::f64) return std::bit_cast<std::uint64_t>(number);
      return value.bits;
    }
    const double number = value.kind == Constant::Kind::f64
                              ? std::bit_cast<double>(value.bits)
                              : std::bit_cast<float>(static_cast<std::uint32_t>(value.bits));
    if (type == Type::f32 || type == Type::b32) {
      if (value.kind == Constant::Kind::f32) return value.bits;
      return std::bit_cast<std::uint32_t>(static_cast<float>(number));
    }
    if (type == Type::f64 || type == Type::b64) {
      if (value.kind == Constant::Kind::f64) return value.bits;
      return std::bit_cast<std::uint64_t>(number);
    }
    reader_.fail(line, "a float cannot initialise ." + to_string(type));
    return 0;
  }

  // SYMBOL + 4, generic(SYMBOL) + 4
  Variable::Address address() {
    Variable::Address address{.at = variable_.initial.size()};
    address.symbol = reader_.take_name("a symbol");
    if (address.symbol == "generic" && reader_.take_if('(')) {
      address.generic = true;
      address.symbol = reader_.take_name("a symbol");
      address.offset = offset();
      reader_.expect(')', "after a generic address");
    }
    address.offset = static_cast<std::int64_t>(static_cast<std::uint64_t>(address.offset) +
                                               static_cast<std::uint64_t>(offset()));
    return address;
  }

  std::int64_t offset() {
    if (reader_.take_if('+')) return reader_.integer();
    return reader_.peek().is('-') ? reader_.integer() : 0;
  }

  void whole_address() {
    const int line = reader_.line();
    Variable::Address value = address();
    if (reader_.ok() && width() < 4) {
      reader_.fail(line, "an address needs 4 or 8 bytes, this is ." + to_string(variable_.type));
    }
    append(0);
    if (reader_.ok()) variable_.addresses.push_back(std::move(value));
  }

  // 0xFF00(SYMBOL): one byte of an address; the eight of one address follow one another.
  void address_byte(std::uint64_t mask) {
    const int line = reader_.line();
    reader_.expect('(', "before an address");
    Variable::Address value = address();
    reader_.expect(')', "after an address");
    if (!reader_.ok()) return;
    const int shift = std::countr_zero(mask);
    if (width() != 1 || mask == 0 || shift % 8 != 0 || mask >> shift != 0xFF) {
      reader_.fail(line, "expected one byte of an address, as 0xFF(symbol) in bytes");
      return;
    }
    value.at -= static_cast<std::uint64_t>(shift / 8);
    if (shift == 0) {
      whole_addresses();
      variable_.addresses.push_back(value);
    }
    if (shift != 8 * bytes_of_address_ || variable_.addresses.back() != value) {
      reader_.fail(line, "the bytes of an address are out of order");
      return;
    }
    append(0);
    bytes_of_address_ = (bytes_of_address_ + 1) % 8;
  }

  Reader& reader_;
  Variable& variable_;
  std::size_t vector_;
  std::size_t budget_;
  int bytes_of_address_ = 0;  // of the last one in bytes: how many stand there, 0 for all
};

struct Declarator {
  Variable variable;
  std::vector<std::uint64_t> dimensions = {};  // 0: left open
};

Declarator read_dimensions(Reader& reader, const DeclarationHead& head) {
  Declarator result;
  Variable& variable = result.variable;
  variable.line = reader.line();
  variable.space = head.space;
  variable.type = head.type;
  variable.is_extern = head.is_extern;
  variable.is_visible = head.is_visible;
  const std::size_t natural = std::max<std::size_t>(1, size_of(head.type)) * head.vector;
  variable.alignment = std::max(head.alignment, static_cast<std::uint32_t>(natural));
  variable.name = reader.take_name("a name");
  variable.count = head.vector;
  while (reader.take_if('[')) {
    variable.is_array = true;
    const bool open = reader.peek().is(']');
    if (open && !result.dimensions.empty()) reader.expected("a number of elements");
    const int at = reader.line();
    const std::int64_t extent = open ? 0 : reader.integer();
    reader.expect(']', "after a number of elements");
    if (!reader.ok()) break;
    const auto size = static_cast<std::uint64_t>(extent);
    if (extent == 0 && !open && !result.dimensions.empty()) reader.fail(at, "a dimension of 0");
    if (extent < 0 || (size > 0 && variable.count > kMaxVariableBytes / size)) {
      reader.fail(at, "a variable of more than " + std::to_string(kMaxVariableBytes) + " elements",
                  ErrorCode::limit);
      break;
    }
    if (size > 0 || !open) variable.count *= size;
    result.dimensions.push_back(size);
    if (result.dimensions.size() > kMaxNesting) {
      reader.fail(at, "too many dimensions", ErrorCode::limit);
    }
  }
  return result;
}

// An open first dimension takes what the initial values need; without them it is unsized.
void close_dimensions(Declarator& declarator, std::size_t vector) {
  Variable& variable = declarator.variable;
  if (declarator.dimensions.empty() || declarator.dimensions[0] != 0) return;
  std::uint64_t row = vector;
  for (std::size_t at = 1; at < declarator.dimensions.size(); ++at) {
    row *= declarator.dimensions[at];
  }
  const std::uint64_t bytes = std::max<std::uint64_t>(1, row * size_of(variable.type));
  variable.count = (variable.initial.size() + bytes - 1) / bytes * row;
}

}  // namespace

DeclarationHead read_head(Reader& reader) {
  DeclarationHead head;
  while (reader.ok() && reader.peek().kind == Token::Kind::dot) {
    if (read_linkage(reader, head)) continue;
    const int at = reader.line();
    const std::string_view word = reader.take().text;
    if (word == "align") {
      head.alignment = read_alignment(reader);
    } else if (word == "v2" || word == "v4" || word == "v8") {
      head.vector = static_cast<std::uint32_t>(word[1] - '0');
    } else if (const Space space = space_of(word);
               space != Space::none && head.space == Space::none) {
      head.space = space;
      if (space == Space::constant && reader.take_if('[')) {  // a bank of old versions
        reader.take_count("a bank", 10);
        reader.expect(']', "after a bank");
      }
    } else if (const Type type = type_of(word); type != Type::none && head.type == Type::none) {
      head.type = type;
    } else {
      reader.fail(at, "expected a part of a declaration, found '." + std::string(word) + "'");
    }
  }
  if (reader.ok() && head.space == Space::none) reader.expected("a state space");
  if (reader.ok() && head.type == Type::none) reader.expected("a type");
  return head;
}

Variable read_declarator(Reader& reader, const DeclarationHead& head) {
  Declarator declarator = read_dimensions(reader, head);
  close_dimensions(declarator, head.vector);
  if (reader.ok() && head.type == Type::pred && head.space != Space::reg) {
    reader.fail(declarator.variable.line, "a predicate is no variable in memory");
  }
  return std::move(declarator.variable);
}

Variable read_initialised(Reader& reader, const DeclarationHead& head, std::size_t budget) {
  Declarator declarator = read_dimensions(reader, head);
  Variable& variable = declarator.variable;
  if (reader.ok() && head.type == Type::pred) {
    reader.fail(variable.line, "a predicate is no variable in memory");
  }
  if (reader.take_if('=')) {
    Initialiser(reader, variable, head.vector, budget).read(declarator.dimensions);
    const bool open = !declarator.dimensions.empty() && declarator.dimensions[0] == 0;
    const std::uint64_t bytes = variable.count * size_of(variable.type);
    if (reader.ok() && !open && variable.initial.size() > bytes) {
      reader.fail(variable.line, "more initial values than '" + variable.name + "' has elements");
    }
  }
  close_dimensions(declarator, head.vector);
  return std::move(declarator.variable);
}

}  // namespace partita::ptx
