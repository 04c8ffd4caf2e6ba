#include <fmt/format.h>

#include <cstring>
#include <set>

#include "base/append.h"
#include "ptx/parse.h"
#include "ptx/words.h"

namespace partita::ptx {
namespace {

std::string address_text(const Variable::Address& address) {
  const std::string symbol = address.generic ? "generic(" + address.symbol + ")" : address.symbol;
  return address.offset == 0 ? symbol : fmt::format("{}+{}", symbol, address.offset);
}

// One element of the initial values from byte `at`.
std::string element_text(const Variable& variable, std::size_t at,
                         const Variable::Address* address) {
  const std::size_t width = size_of(variable.type);
  if (address && width > 1) return address_text(*address);
  if (address) {
    const std::uint64_t mask = std::uint64_t{0xFF} << (8 * (at - address->at));
    return fmt::format("0x{:X}({})", mask, address_text(*address));
  }
  std::uint64_t bits = 0;
  std::memcpy(&bits, variable.initial.data() + at, std::min<std::size_t>(width, 8));
  if (variable.type == Type::f32) return fmt::format("0f{:08X}", bits);
  if (variable.type == Type::f64) return fmt::format("0d{:016X}", bits);
  return fmt::format("{}", bits);
}

void put_initial(std::string& out, const Variable& variable) {
  const std::size_t width = size_of(variable.type);
  const bool braces = variable.is_array || variable.count != 1;
  append(out, " = {}", braces ? "{" : "");
  auto address = variable.addresses.begin();
  for (std::size_t at = 0; at < variable.initial.size(); at += width) {
    const std::size_t span = width == 1 ? 8 : 1;  // bytes that name their address
    while (address != variable.addresses.end() && at >= address->at + span) ++address;
    const bool here = address != variable.addresses.end() && at >= address->at;
    append(out, "{}{}", at == 0 ? "" : ", ",
           element_text(variable, at, here ? &*address : nullptr));
  }
  append(out, "{}", braces ? "}" : "");
}

void put_variable(std::string& out, const Variable& variable) {
  append(out, "{}{}", variable.is_extern ? ".extern " : "", variable.is_visible ? ".visible " : "");
  append(out, ".{} .align {} ", space_word(variable.space), variable.alignment);
  if (!variable.is_array && variable.count > 1) append(out, ".v{} ", variable.count);
  append(out, ".{} {}", to_string(variable.type), variable.name);
  if (variable.is_array && variable.count == 0) append(out, "[]");
  if (variable.is_array && variable.count > 0) append(out, "[{}]", variable.count);
  if (!variable.initial.empty()) put_initial(out, variable);
}

void put_parameters(std::string& out, const std::vector<Variable>& parameters) {
  append(out, "(");
  for (const Variable& parameter : parameters) {
    if (&parameter != parameters.data()) append(out, ", ");
    put_variable(out, parameter);
  }
  append(out, ")");
}

void put_operand(std::string& out, const Function& function, const Operand& operand);

void put_operands(std::string& out, const Function& function, const std::vector<Operand>& operands,
                  std::string_view between) {
  for (const Operand& operand : operands) {
    if (&operand != operands.data()) append(out, "{}", between);
    put_operand(out, function, operand);
  }
}

void put_offset(std::string& out, std::int64_t offset) {
  if (offset != 0) append(out, "+{}", offset);
}

const std::string& register_name(const Function& function, int reg) {
  return function.registers[static_cast<std::size_t>(reg)].name;
}

void put_address(std::string& out, const Function& function, const Operand& operand) {
  append(out, "[");
  if (operand.reg >= 0) {
    append(out, "{}", register_name(function, operand.reg));
  } else if (!operand.text.empty()) {
    append(out, "{}", operand.text);
  } else {
    append(out, "{}", static_cast<std::int64_t>(operand.bits));
  }
  put_offset(out, operand.offset);
  if (!operand.elements.empty()) append(out, ", ");
  put_operands(out, function, operand.elements, ", ");
  append(out, "]");
}

void put_operand(std::string& out, const Function& function, const Operand& operand) {
  using Kind = Operand::Kind;
  if (operand.negated) append(out, "{}", operand.kind == Kind::reg ? "!" : "-");
  switch (operand.kind) {
    case Kind::reg:
      append(out, "{}{}{}", register_name(function, operand.reg), operand.text.empty() ? "" : ".",
             operand.text);
      break;
    case Kind::special:
      append(out, "%{}", operand.text);
      break;
    case Kind::integer:
      append(out, "{}", static_cast<std::int64_t>(operand.bits));
      break;
    case Kind::f32:
      append(out, "0f{:08X}", operand.bits);
      break;
    case Kind::f64:
      append(out, "0d{:016X}", operand.bits);
      break;
    case Kind::symbol:
      append(out, "{}", operand.text);
      put_offset(out, operand.offset);
      break;
    case Kind::address:
      put_address(out, function, operand);
      break;
    case Kind::vector:
      append(out, "{{");
      put_operands(out, function, operand.elements, ", ");
      append(out, "}}");
      break;
    case Kind::list:
      append(out, "(");
      put_operands(out, function, operand.elements, ", ");
      append(out, ")");
      break;
    case Kind::pair:
      put_operands(out, function, operand.elements, "|");
      break;
    case Kind::sink:
      append(out, "_");
      break;
  }
}

void put_instruction(std::string& out, const Function& function, const Instruction& instruction) {
  append(out, "\t");
  if (instruction.guard) {
    append(out, "@{}{} ", instruction.guard->negated ? "!" : "",
           register_name(function, instruction.guard->reg));
  }
  append(out, "{}", instruction.opcode);
  for (const std::string& modifier : instruction.modifiers) append(out, ".{}", modifier);
  if (!instruction.operands.empty()) append(out, " ");
  put_operands(out, function, instruction.operands, ", ");
  append(out, ";\n");
}

// Registers that stand in the list of parameters.
std::size_t parameter_registers(const Function& function) {
  std::size_t count = 0;
  for (const auto* list : {&function.results, &function.parameters}) {
    for (const Variable& parameter : *list) count += parameter.space == Space::reg;
  }
  return count;
}

// The number of registers from `first` on that are NAME0, NAME1, ... of one type.
std::size_t range_from(const Function& function, std::size_t first, std::string_view prefix) {
  std::size_t count = 0;
  while (first + count < function.registers.size() &&
         function.registers[first + count].type == function.registers[first].type &&
         function.registers[first + count].name == fmt::format("{}{}", prefix, count)) {
    ++count;
  }
  return count;
}

void put_registers(std::string& out, const Function& function) {
  std::size_t at = parameter_registers(function);
  while (at < function.registers.size()) {
    const Register& one = function.registers[at];
    append(out, "\t.reg .{} {}", to_string(one.type), one.name);
    std::size_t count = 1;
    if (one.name.ends_with('0')) {
      const std::string prefix = one.name.substr(0, one.name.size() - 1);
      count = prefix.empty() ? 1 : range_from(function, at, prefix);
      if (count > 1) {
        out.resize(out.size() - 1);
        append(out, "<{}>", count);
      }
    }
    append(out, ";\n");
    at += std::max<std::size_t>(count, 1);
  }
}

void put_tables(std::string& out, const Function& function) {
  for (const Targets& targets : function.targets) {
    append(out, "{}: .branchtargets {};\n", targets.name, joined(targets.labels, ", "));
  }
  for (const Prototype& prototype : function.prototypes) {
    append(out, "{}: .callprototype ", prototype.name);
    if (!prototype.results.empty()) put_parameters(out, prototype.results);
    append(out, " _ ");
    put_parameters(out, prototype.parameters);
    append(out, ";\n");
  }
}

void put_body(std::string& out, const Function& function) {
  append(out, "{{\n");
  put_registers(out, function);
  for (const Variable& variable : function.variables) {
    append(out, "\t");
    put_variable(out, variable);
    append(out, ";\n");
  }
  put_tables(out, function);
  auto label = function.labels.begin();
  auto location = function.locations.begin();
  int depth = 0;
  // Labels stand outside of all braces, so that every branch sees them.
  const auto before = [&](std::size_t at) {
    for (; label != function.labels.end() && label->at <= at; ++label) {
      for (; depth > 0; --depth) append(out, "}}\n");
      append(out, "{}:\n", label->name);
    }
    for (; location != function.locations.end() && location->at <= at; ++location) {
      append(out, "\t.loc {} {} 0\n", location->file, location->line);
    }
  };
  for (std::size_t at = 0; at < function.code.size(); ++at) {
    before(at);
    const int wanted = function.code[at].scope;
    for (; depth < wanted; ++depth) append(out, "{{\n");
    for (; depth > wanted; --depth) append(out, "}}\n");
    put_instruction(out, function, function.code[at]);
  }
  for (; depth > 0; --depth) append(out, "}}\n");
  before(function.code.size());
  append(out, "}}\n");
}

void put_extents(std::string& out, std::string_view word, const std::uint32_t (&extents)[3]) {
  if (extents[0] == 0 && extents[1] == 0 && extents[2] == 0) return;
  append(out, ".{} {}, {}, {}\n", word, extents[0], extents[1], extents[2]);
}

void put_head(std::string& out, const Function& function, bool linkage) {
  if (linkage && function.is_visible) append(out, ".visible ");
  append(out, "{} ", function.is_entry ? ".entry" : ".func");
  if (!function.results.empty()) put_parameters(out, function.results);
  append(out, " {}", function.name);
  put_parameters(out, function.parameters);
  append(out, "\n");
}

void note_symbols(const Operand& operand, std::set<std::string, std::less<>>& names) {
  if (operand.kind == Operand::Kind::symbol || operand.kind == Operand::Kind::address) {
    names.insert(operand.text);
  }
  for (const Operand& element : operand.elements) note_symbols(element, names);
}

// Functions that another one in front of them names: they are declared first.
std::set<std::string, std::less<>> used_early(const Module& module) {
  std::set<std::string, std::less<>> seen, early;
  for (const Function& function : module.functions) {
    if (seen.contains(function.name)) early.insert(function.name);
    for (const Instruction& instruction : function.code) {
      for (const Operand& operand : instruction.operands) note_symbols(operand, seen);
    }
    for (const Targets& targets : function.targets) {
      seen.insert(targets.labels.begin(), targets.labels.end());
    }
  }
  return early;
}

}  // namespace

std::string to_text(const Module& module) {
  std::string out;
  append(out, ".version {}.{}\n", module.version_major, module.version_minor);
  if (!module.target.empty()) append(out, ".target {}\n", module.target);
  append(out, ".address_size {}\n", module.address_size);
  for (std::size_t at = 0; at < module.files.size(); ++at) {
    const bool last = at + 1 == module.files.size();
    if (last || !module.files[at].empty()) append(out, ".file {} \"{}\"\n", at, module.files[at]);
  }
  for (const Variable& variable : module.variables) {
    put_variable(out, variable);
    append(out, ";\n");
  }
  const auto early = used_early(module);
  for (const Function& function : module.functions) {
    if (function.is_declared_only || !early.contains(function.name)) continue;
    put_head(out, function, false);
    append(out, ";\n");
  }
  for (const Function& function : module.functions) {
    put_head(out, function, true);
    put_extents(out, "maxntid", function.max_threads);
    put_extents(out, "reqntid", function.required_threads);
    if (function.is_declared_only) {
      append(out, ";\n");
    } else {
      put_body(out, function);
    }
  }
  return out;
}

}  // namespace partita::ptx
