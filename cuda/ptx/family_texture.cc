// Textures and surfaces by their handles: tex, tld4, suld, sust become TextureOps. Mipmaps are not
// there: what asks for a level gets the first.
#include <optional>

#include "ptx/families.h"

namespace partita::ptx::textures {
namespace {

using Kind = TextureOp::Kind;

// "1d", "a2d", "cube", "acube"
bool take_geometry(Site& at, TextureOp& what) {
  const std::string name = at.words.take_any({"1d", "2d", "3d", "a1d", "a2d", "cube", "acube"});
  what.has_layer = name.starts_with('a');
  what.is_cube = name.ends_with("cube");
  if (what.is_cube) what.directions = 3;
  for (const char digit : {'1', '2', '3'})
    if (name.find(digit) != std::string::npos)
      what.directions = static_cast<std::uint8_t>(digit - '0');
  return !name.empty();
}

// [handle, {layer, x, y, z}]: what is behind the last coordinate is padding.
void take_place(Site& at, TextureOp& what, std::size_t operand, Type coordinate) {
  const Operand& place = at.operand(operand);
  if (place.kind != Operand::Kind::address || place.reg < 0 || place.elements.size() != 1)
    return at.refuse("names a texture that is no handle");
  Operand handle{.kind = Operand::Kind::reg, .reg = place.reg};
  what.handle = at.source(handle, Type::b64);
  const Operand& list = place.elements[0];
  const std::span<const Operand> all = list.kind == Operand::Kind::vector
                                           ? std::span<const Operand>(list.elements)
                                           : std::span<const Operand>(&list, 1);
  const std::size_t first = what.has_layer ? 1 : 0;
  if (all.size() < first + what.directions) return at.refuse("has too few coordinates");
  if (what.has_layer) what.layer = at.source(all[0], Type::b32);
  for (std::size_t i = 0; i < what.directions; ++i)
    what.coordinates.push_back(at.source(all[first + i], coordinate));
}

std::span<const Operand> values_of(const Operand& operand) {
  if (operand.kind == Operand::Kind::vector) return operand.elements;
  return {&operand, 1};
}

void emit_texture(Site& at, TextureOp what) {
  if (at.failed()) return;
  Op& op = at.emit(control::texture);
  op.imm = static_cast<std::int64_t>(at.program.textures.size());
  op.span = at.program.spans;
  at.program.spans += 2;  // of the description, of the texels
  at.program.textures.push_back(std::move(what));
}

void take_results(Site& at, TextureOp& what, Type type) {
  const std::span<const Operand> values = values_of(at.operand(0));
  for (const Operand& value : values)
    what.values.push_back(value.kind == Operand::Kind::sink
                              ? std::nullopt
                              : std::optional(at.destination(value, type)));
}

void sample(Site& at) {
  TextureOp what;
  const bool has_level = at.words.take("level");
  const bool has_gradient = at.words.take("grad");
  at.words.take("base");
  if (!take_geometry(at, what)) return at.refuse("has a geometry that is not supported");
  const bool four = at.words.take("v4");
  const Type value = at.words.type(0), coordinate = at.words.type(1);
  what.by_number = coordinate == Type::s32;
  const bool known = value == Type::f32 || value == Type::s32 || value == Type::u32;
  if (has_gradient || !four || !known || (!what.by_number && coordinate != Type::f32))
    return at.refuse("is not supported");
  if (!at.count_is(has_level ? 3 : 2)) return;
  take_place(at, what, 1, what.by_number ? Type::b32 : Type::f32);
  take_results(at, what, Type::b32);
  if (what.values.size() != 4) return at.refuse("has a wrong number of results");
  emit_texture(at, std::move(what));
}

void gather(Site& at) {
  TextureOp what{.kind = Kind::gather, .directions = 2};
  const std::string component = at.words.take_any({"r", "g", "b", "a"});
  what.component = static_cast<std::uint8_t>(std::string_view("rgba").find(component));
  const bool plain = at.words.take("2d") && at.words.take("v4");
  if (component.empty() || !plain || at.words.type(1) != Type::f32)
    return at.refuse("is not supported");
  if (!at.count_is(2)) return;
  take_place(at, what, 1, Type::f32);
  take_results(at, what, Type::b32);
  if (what.values.size() != 4) return at.refuse("has a wrong number of results");
  emit_texture(at, std::move(what));
}

void surface(Site& at) {
  TextureOp what{.kind = at.now->opcode == "suld" ? Kind::load : Kind::store, .by_number = true};
  if (!at.words.take("b") || !take_geometry(at, what) || what.is_cube)
    return at.refuse("is not supported");
  const std::string count = at.words.take_any({"v2", "v4"});
  const std::string outside = at.words.take_any({"trap", "clamp", "zero"});
  if (outside == "clamp") what.outside = TextureOp::Outside::clamp;
  if (outside == "zero") what.outside = TextureOp::Outside::zero;
  const Type type = at.words.type(0);
  what.bytes = static_cast<std::uint8_t>(size_of(type));
  const bool loads = what.kind == Kind::load;
  if (outside.empty() || !at.count_is(2)) return at.refuse("is not supported");
  take_place(at, what, loads ? 1 : 0, Type::b32);
  const Type in_register = what.bytes == 1 ? Type::b16 : type;
  const std::span<const Operand> values = values_of(at.operand(loads ? 0 : 1));
  const std::size_t wanted = count.empty() ? 1 : static_cast<std::size_t>(count[1] - '0');
  if (values.size() != wanted) return at.refuse("has a wrong number of values");
  for (const Operand& value : values)
    what.values.push_back(loads ? at.destination(value, in_register)
                                : at.source(value, in_register));
  emit_texture(at, std::move(what));
}

}  // namespace

Opcodes opcodes() {
  static constexpr Opcode kOpcodes[] = {
      {"tex", sample}, {"tld4", gather}, {"suld", surface}, {"sust", surface}};
  return kOpcodes;
}

}  // namespace partita::ptx::textures
