// mma, wmma and ldmatrix: their shapes and types become MatrixOps.
#include <optional>

#include "ptx/decoder.h"

namespace partita::ptx {
namespace {

struct Shape {
  std::uint32_t m = 0, n = 0, k = 0;
};

// "m16n8k16"
std::optional<Shape> shape_of(const std::string& word) {
  Shape shape;
  std::uint32_t* const parts[] = {&shape.m, &shape.n, &shape.k};
  std::size_t at = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    if (at >= word.size() || word[at++] != "mnk"[i]) return std::nullopt;
    for (; at < word.size() && word[at] >= '0' && word[at] <= '9'; ++at)
      *parts[i] = 10 * *parts[i] + static_cast<std::uint32_t>(word[at] - '0');
  }
  return at == word.size() ? std::optional(shape) : std::nullopt;
}

std::optional<Element> element_of(Type type) {
  switch (type) {
    case Type::f16:
      return Element::f16;
    case Type::bf16:
      return Element::bf16;
    case Type::tf32:
      return Element::tf32;
    case Type::f32:
      return Element::f32;
    case Type::f64:
      return Element::f64;
    case Type::s8:
      return Element::s8;
    case Type::u8:
      return Element::u8;
    case Type::s32:
      return Element::s32;
    default:
      return std::nullopt;
  }
}

bool is_wmma(const Shape& s, Element of_a) {
  if (of_a == Element::f64) return s.m == 8 && s.n == 8 && s.k == 4;
  if (of_a == Element::tf32) return s.m == 16 && s.n == 16 && s.k == 8;
  return s.k == 16 && s.m * s.n == 256 && s.m >= 8 && s.n >= 8;
}
bool is_mma(const Shape& s, Element of_a) {
  switch (of_a) {
    case Element::f64:
      return s.m == 8 && s.n == 8 && s.k == 4;
    case Element::tf32:
      return s.m == 16 && s.n == 8 && (s.k == 4 || s.k == 8);
    case Element::f16:
    case Element::bf16:
      return s.m == 16 && s.n == 8 && (s.k == 8 || s.k == 16);
    default:
      return s.n == 8 && ((s.m == 16 && (s.k == 16 || s.k == 32)) || (s.m == 8 && s.k == 16));
  }
}
bool is_sum(Element of_a, Element of_c) {
  if (of_a == Element::f64) return of_c == Element::f64;
  if (is_integer(of_a)) return of_c == Element::s32;
  return of_c == Element::f32 || (of_a == Element::f16 && of_c == Element::f16);
}

}  // namespace

// A fragment of operand `i`: {registers}, or one of them.
Fragment Decoder::fragment(std::size_t i, Role role, Element element, std::uint32_t rows,
                           std::uint32_t columns, bool native, bool written) {
  Fragment made{role, element, rows, columns, native, {}};
  std::vector<Operand> registers = {operand(i)};
  if (operand(i).kind == Operand::Kind::vector) registers = operand(i).elements;
  if (registers.size() != register_count(role, element, rows, columns, native)) {
    refuse("has a matrix in a wrong number of registers");
    return made;
  }
  // Floats lie in registers of .f32, or of .b32.
  const Type type = element == Element::f64 ? Type::b64 : Type::b32;
  for (const Operand& one : registers)
    made.slots.push_back(written ? destination(one, type) : source(one, type));
  return made;
}

void Decoder::meet_all_lanes() { emit(control::bar_warp).e = constant(kAllLanes, 4); }

void Decoder::emit_matrix(OpFn fn, MatrixOp what, std::uint32_t address, std::uint32_t flags) {
  if (failed()) return;
  meet_all_lanes();
  Op& op = emit(fn);
  op.imm = static_cast<std::int64_t>(program_.matrices.size());
  op.a = address;
  op.flags = flags;
  op.span = program_.spans++;
  program_.matrices.push_back(std::move(what));
}

void Decoder::multiply(bool native) {
  words_->take("sync");
  words_->take("aligned");
  words_->take_any({"row", "col"});  // mma has row.col alone; wmma's fragments are as loaded
  const auto shape = shape_of(words_->take_starting('m'));
  words_->take_any({"row", "col"});
  words_->take_any({"row", "col"});
  words_->take("rn");
  const bool saturates = words_->take("satfinite");
  // d, a, b, c; of wmma with halves d, c.
  const std::size_t types = words_->types().size();
  const bool halves = !native && types == 2;
  const auto d = element_of(words_->type(0)), c = element_of(words_->type(halves ? 1 : 3));
  const auto a = halves ? Element::f16 : element_of(words_->type(1));
  const auto b = halves ? Element::f16 : element_of(words_->type(2));
  if (!shape || (!halves && types != 4) || !a || !b || !c || !d || !is_sum(*a, *c) ||
      !is_sum(*a, *d) || is_integer(*a) != is_integer(*b) || (!is_integer(*a) && *a != *b) ||
      !(native ? is_mma(*shape, *a) : is_wmma(*shape, *a)))
    return refuse("is a product of matrices that is not supported");
  if (!count_is(4)) return;
  const auto [m, n, k] = *shape;
  MatrixOp what;
  what.a = fragment(1, Role::a, *a, m, k, native, false);
  what.b = fragment(2, Role::b, *b, k, n, native, false);
  what.c = fragment(3, Role::c, *c, m, n, native, false);
  what.d = fragment(0, Role::c, *d, m, n, native, true);
  what.saturates = saturates;
  emit_matrix(control::matrix_multiply, std::move(what), 0, 0);
}

void Decoder::on_mma() { multiply(true); }

void Decoder::on_wmma() {
  if (words_->take("mma")) return multiply(false);
  const bool stores = words_->take("store");
  if (!stores && !words_->take("load")) return refuse("is not supported");
  const std::string name = words_->take_any({"a", "b", "c", "d"});
  words_->take("sync");
  words_->take("aligned");
  const std::string layout = words_->take_any({"row", "col"});
  const auto shape = shape_of(words_->take_starting('m'));
  bool generic = false;
  const Space space = take_space(generic);
  const auto element = element_of(words_->type(0));
  if (name.empty() || layout.empty() || !shape || !element)
    return refuse("is a matrix that is not supported");
  const std::size_t at = stores ? 0 : 1, values = stores ? 1 : 0;
  const std::size_t count = now_->operands.size();
  if (count != 2 && count != 3) return refuse("has a wrong number of operands");
  const Role role = name == "a" ? Role::a : name == "b" ? Role::b : Role::c;
  const std::uint32_t rows = role == Role::b ? shape->k : shape->m;
  const std::uint32_t columns = role == Role::a ? shape->k : shape->n;
  MatrixOp what;
  what.by_columns = layout == "col";
  what.stride = count == 3 ? source(2, Type::u32) : constant(what.by_columns ? rows : columns, 4);
  what.c = fragment(values, role, *element, rows, columns, false, !stores);
  Address where = address(operand(at), space);
  emit_matrix(control::matrix_access, std::move(what), generic_address(where),
              stores ? control::kMatrixStore : 0);
}

void Decoder::on_ldmatrix() {
  words_->take("sync");
  words_->take("aligned");
  const bool halves = words_->take("m8n8");
  const std::string count = words_->take_any({"x1", "x2", "x4"});
  MatrixOp what;
  what.by_columns = words_->take("trans");
  bool generic = false;
  const Space space = take_space(generic);
  if (!halves || count.empty() || words_->type(0) != Type::b16 || !count_is(2))
    return refuse("is a load of matrices that is not supported");
  std::vector<Operand> registers = {operand(0)};
  if (operand(0).kind == Operand::Kind::vector) registers = operand(0).elements;
  if (registers.size() != static_cast<std::size_t>(count[1] - '0'))
    return refuse("has a matrix in a wrong number of registers");
  for (const Operand& one : registers) what.c.slots.push_back(destination(one, Type::b32));
  emit_matrix(control::matrix_rows, std::move(what), generic_address(address(operand(1), space)),
              0);
}

}  // namespace partita::ptx
