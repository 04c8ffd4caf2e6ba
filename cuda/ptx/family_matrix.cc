// mma, wmma and ldmatrix: their shapes and types become MatrixOps.
#include <optional>

#include "ptx/families.h"

namespace partita::ptx::matrices {
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
  static constexpr std::pair<Type, Element> kElements[] = {
      {Type::f16, Element::f16}, {Type::bf16, Element::bf16}, {Type::tf32, Element::tf32},
      {Type::f32, Element::f32}, {Type::f64, Element::f64},   {Type::s8, Element::s8},
      {Type::u8, Element::u8},   {Type::s32, Element::s32}};
  for (const auto& [of, element] : kElements)
    if (of == type) return element;
  return std::nullopt;
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

// The registers of operand `i`: {registers}, or one.
std::span<const Operand> registers_of(Site& at, std::size_t i) {
  const Operand& operand = at.operand(i);
  if (operand.kind == Operand::Kind::vector) return operand.elements;
  return {&operand, 1};
}

Fragment fragment(Site& at, std::size_t i, Fragment made, bool written = false) {
  const std::span<const Operand> registers = registers_of(at, i);
  if (registers.size() !=
      register_count(made.role, made.element, made.rows, made.columns, made.native)) {
    at.refuse("has a matrix in a wrong number of registers");
    return made;
  }
  // Floats lie in registers of .f32, or of .b32.
  const Type type = made.element == Element::f64 ? Type::b64 : Type::b32;
  for (const Operand& each : registers)
    made.slots.push_back(written ? at.destination(each, type) : at.source(each, type));
  return made;
}

// All lanes meet before it.
void emit_matrix(Site& at, OpFn fn, MatrixOp what, std::uint32_t address = 0,
                 std::uint32_t flags = 0) {
  if (at.failed()) return;
  at.emit(control::bar_warp, {.e = at.registers.constant(kAllLanes, 4)});
  Op& op = at.emit(fn, {.a = address}, flags);
  op.imm = static_cast<std::int64_t>(at.program.matrices.size());
  op.span = at.program.spans++;
  at.program.matrices.push_back(std::move(what));
}

void multiply(Site& at, bool native) {
  at.words.take("sync");
  at.words.take("aligned");
  at.words.take_any({"row", "col"});  // mma has row.col alone; wmma's fragments are as loaded
  const auto shape = shape_of(at.words.take_starting('m'));
  at.words.take_any({"row", "col"});
  at.words.take_any({"row", "col"});
  at.words.take("rn");
  const bool saturates = at.words.take("satfinite");
  // d, a, b, c; of wmma with halves d, c.
  const std::size_t types = at.words.types().size();
  const bool halves = !native && types == 2;
  const auto d = element_of(at.words.type(0)), c = element_of(at.words.type(halves ? 1 : 3));
  const auto a = halves ? Element::f16 : element_of(at.words.type(1));
  const auto b = halves ? Element::f16 : element_of(at.words.type(2));
  if (!shape || (!halves && types != 4) || !a || !b || !c || !d || !is_sum(*a, *c) ||
      !is_sum(*a, *d) || is_integer(*a) != is_integer(*b) || (!is_integer(*a) && *a != *b) ||
      !(native ? is_mma(*shape, *a) : is_wmma(*shape, *a)))
    return at.refuse("is a product of matrices that is not supported");
  if (!at.count_is(4)) return;
  const auto [m, n, k] = *shape;
  MatrixOp what;
  what.a = fragment(at, 1, {Role::a, *a, m, k, native, {}});
  what.b = fragment(at, 2, {Role::b, *b, k, n, native, {}});
  what.c = fragment(at, 3, {Role::c, *c, m, n, native, {}});
  what.d = fragment(at, 0, {Role::c, *d, m, n, native, {}}, true);
  what.saturates = saturates;
  emit_matrix(at, control::matrix_multiply, std::move(what));
}

void mma(Site& at) { multiply(at, true); }

void wmma(Site& at) {
  if (at.words.take("mma")) return multiply(at, false);
  const bool stores = at.words.take("store");
  if (!stores && !at.words.take("load")) return at.refuse("is not supported");
  const std::string name = at.words.take_any({"a", "b", "c", "d"});
  at.words.take("sync");
  at.words.take("aligned");
  const std::string layout = at.words.take_any({"row", "col"});
  const auto shape = shape_of(at.words.take_starting('m'));
  const Space space = take_space(at).space;
  const auto element = element_of(at.words.type(0));
  if (name.empty() || layout.empty() || !shape || !element)
    return at.refuse("is a matrix that is not supported");
  const std::size_t count = at.now->operands.size();
  if (count != 2 && count != 3) return at.refuse("has a wrong number of operands");
  const Role role = name == "a" ? Role::a : name == "b" ? Role::b : Role::c;
  const std::uint32_t rows = role == Role::b ? shape->k : shape->m;
  const std::uint32_t columns = role == Role::a ? shape->k : shape->n;
  MatrixOp what;
  what.by_columns = layout == "col";
  what.stride = count == 3 ? at.source(2, Type::u32)
                           : at.registers.constant(what.by_columns ? rows : columns, 4);
  what.c = fragment(at, stores ? 1 : 0, {role, *element, rows, columns, false, {}}, !stores);
  const std::uint32_t where = generic_address(at, at.operand(stores ? 0 : 1), space);
  emit_matrix(at, control::matrix_access, std::move(what), where,
              stores ? control::kMatrixStore : 0);
}

void ldmatrix(Site& at) {
  at.words.take("sync");
  at.words.take("aligned");
  const bool halves = at.words.take("m8n8");
  const std::string count = at.words.take_any({"x1", "x2", "x4"});
  MatrixOp what;
  what.by_columns = at.words.take("trans");
  const Space space = take_space(at).space;
  if (!halves || count.empty() || at.words.type(0) != Type::b16 || !at.count_is(2))
    return at.refuse("is a load of matrices that is not supported");
  const std::span<const Operand> registers = registers_of(at, 0);
  if (registers.size() != static_cast<std::size_t>(count[1] - '0'))
    return at.refuse("has a matrix in a wrong number of registers");
  for (const Operand& one : registers) what.c.slots.push_back(at.destination(one, Type::b32));
  emit_matrix(at, control::matrix_rows, std::move(what), generic_address(at, at.operand(1), space));
}

}  // namespace

Opcodes opcodes() {
  static constexpr Opcode kOpcodes[] = {{"mma", mma}, {"wmma", wmma}, {"ldmatrix", ldmatrix}};
  return kOpcodes;
}

}  // namespace partita::ptx::matrices
