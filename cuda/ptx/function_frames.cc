#include "ptx/function_frames.h"

#include <algorithm>
#include <set>

#include "ptx/modifiers.h"

namespace partita::ptx {
namespace {

constexpr std::uint64_t kMaxFrameBytes = 64u << 10;

std::uint64_t round_up(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }
std::uint64_t bytes_of(const Variable& variable) {
  return std::max<std::uint64_t>(variable.count, 1) * size_of(variable.type);
}
std::uint32_t alignment_of(const Variable& variable) {
  return std::max<std::uint32_t>(
      {variable.alignment, static_cast<std::uint32_t>(size_of(variable.type)), 1});
}

void note_names(const Operand& operand, std::set<std::string>& named) {
  if (!operand.text.empty()) named.insert(operand.text);
  for (const Operand& element : operand.elements) note_names(element, named);
}

Place place_of(FunctionFrame& frame, const Variable& variable, RegisterFile& registers) {
  const auto& declared = frame.function->registers;
  if (variable.space == Space::reg)
    for (std::size_t i = 0; i < declared.size(); ++i)
      if (declared[i].name == variable.name)
        return {true, frame.slots[i], register_bytes_of(declared[i].type)};
  const auto bytes = static_cast<std::uint32_t>(bytes_of(variable));
  const std::uint32_t at = registers.add_local(bytes, alignment_of(variable));
  frame.symbols[variable.name] = {Symbol::What::local, at, bytes};
  return {false, at, bytes};
}

}  // namespace

// Each function before it is needed, where calls do not go in a circle.
void FunctionFrames::visit(const Function& function) {
  if (named_.contains(function.name) || refusal_.error) return;
  const std::size_t own = frames_.size();
  named_[function.name] = own;
  frames_.push_back({.function = &function, .number = static_cast<std::int64_t>(own) - 1});
  for (const Instruction& instruction : function.code) {
    if (instruction.opcode != "call") continue;
    refusal_.now = &instruction;
    const auto callee = std::ranges::find_if(instruction.operands, [](const Operand& operand) {
      return operand.kind != Operand::Kind::list;
    });
    if (callee != instruction.operands.end()) visit_callee(own, *callee);
  }
  order_.push_back(own);
}

void FunctionFrames::visit_callee(std::size_t caller, const Operand& callee) {
  if (callee.kind == Operand::Kind::reg) has_indirect_ = true;
  if (callee.kind != Operand::Kind::symbol) return;
  for (const Function& other : module_.functions) {
    if (other.name != callee.text || other.is_declared_only) continue;
    frames_[caller].calls.insert(other.name);
    visit(other);
  }
}

bool FunctionFrames::reaches_itself(const FunctionFrame& frame) const {
  std::set<std::string> seen;
  std::vector<std::string> next(frame.calls.begin(), frame.calls.end());
  while (!next.empty() && !seen.contains(frame.function->name)) {
    const std::string name = std::move(next.back());
    next.pop_back();
    if (!seen.insert(name).second) continue;
    const FunctionFrame& called = frames_[named_.at(name)];
    next.insert(next.end(), called.calls.begin(), called.calls.end());
  }
  return seen.contains(frame.function->name);
}

void FunctionFrames::lay_out_shared(Program& program) {
  std::set<std::string> named;
  for (const FunctionFrame& frame : frames_)
    for (const Instruction& instruction : frame.function->code)
      for (const Operand& operand : instruction.operands) note_names(operand, named);
  std::uint64_t end = 0;
  const auto place = [&](const Variable& variable) {
    if (variable.space != Space::shared || variable.count == 0) return;
    end = round_up(end, alignment_of(variable));
    shared_[variable.name] = {Symbol::What::shared, end,
                              static_cast<std::uint32_t>(bytes_of(variable))};
    end += bytes_of(variable);
  };
  for (const Variable& variable : module_.variables)
    if (named.contains(variable.name)) place(variable);
  for (const FunctionFrame& frame : frames_)
    for (const Variable& variable : frame.function->variables) place(variable);
  const std::uint64_t dynamic = round_up(end, 16);
  for (const Variable& variable : module_.variables)
    if (variable.space == Space::shared && variable.count == 0) {
      if (named.contains(variable.name)) end = dynamic;
      shared_[variable.name] = {Symbol::What::shared, dynamic, 0};
    }
  if (end > (1u << 20)) refusal_.refuse("needs more shared memory than there is");
  program.shared_bytes = static_cast<std::uint32_t>(end);
}

void FunctionFrames::lay_out_frame(FunctionFrame& frame, RegisterFile& registers) const {
  const Function& function = *frame.function;
  for (const Register& r : function.registers)
    frame.slots.push_back(registers.add(register_bytes_of(r.type)));
  frame.carry_slot = registers.add(0);
  frame.callee.name = function.name;
  if (function.is_entry) {
    std::uint64_t offset = 0;
    for (const Variable& parameter : function.parameters) {
      offset = round_up(offset, alignment_of(parameter));
      frame.symbols[parameter.name] = {Symbol::What::kernel_parameter, offset,
                                       static_cast<std::uint32_t>(bytes_of(parameter))};
      offset += bytes_of(parameter);
    }
  } else {
    frame.callee.is_recursive = reaches_itself(frame);
    frame.callee.return_slot = registers.add(4);
    frame.callee.active_slot = registers.add(0);
    for (const Variable& v : function.parameters)
      frame.callee.parameters.push_back(place_of(frame, v, registers));
    for (const Variable& v : function.results)
      frame.callee.results.push_back(place_of(frame, v, registers));
  }
  for (const Variable& variable : function.variables)
    if (variable.space == Space::param ||
        (variable.space == Space::local && !frame.callee.is_recursive))
      place_of(frame, variable, registers);
  if (frame.callee.is_recursive) lay_out_activation(frame, registers);
  for (const Label& label : function.labels) frame.labels[label.name] = label.at;
}

// What one activation has for itself: its variables move with it, the rest is kept for it.
void FunctionFrames::lay_out_activation(FunctionFrame& frame, RegisterFile& registers) const {
  Callee& callee = frame.callee;
  registers.use_stack();
  callee.frame_slot = registers.add(8);
  callee.kept = {{true, callee.frame_slot, 8}, {true, callee.return_slot, 4}};
  for (std::size_t i = 0; i < frame.slots.size(); ++i)
    callee.kept.push_back(
        {true, frame.slots[i], register_bytes_of(frame.function->registers[i].type)});
  callee.kept.push_back({true, frame.carry_slot, 0});
  for (const auto& [name, symbol] : frame.symbols)
    callee.kept.push_back({false, static_cast<std::uint32_t>(symbol.value), symbol.bytes});
  std::uint64_t kept = 0, end = 0;
  for (const Place& place : callee.kept) kept += round_up(std::max(place.bytes, 1u), 4);
  for (const Variable& variable : frame.function->variables) {
    if (variable.space != Space::local) continue;
    end = round_up(end, std::max(alignment_of(variable), 8u));
    frame.symbols[variable.name] = {Symbol::What::framed, end,
                                    static_cast<std::uint32_t>(bytes_of(variable))};
    end += bytes_of(variable);
  }
  if (end > kMaxFrameBytes) refusal_.refuse("calls itself and has variables that are too large");
  callee.kept_bytes = static_cast<std::uint32_t>(round_up(kept, 16));
  callee.frame_bytes = static_cast<std::uint32_t>(round_up(std::min(end, kMaxFrameBytes), 16));
}

void FunctionFrames::lay_out(const Function& kernel, Program& program, RegisterFile& registers) {
  visit(kernel);
  for (std::size_t i = 0; has_indirect_ && i < module_.functions.size(); ++i) {
    const Function& function = module_.functions[i];
    if (!function.is_entry && !function.is_declared_only) visit(function);
  }
  refusal_.now = nullptr;
  lay_out_shared(program);
  for (FunctionFrame& frame : frames_)
    if (!refusal_.error) lay_out_frame(frame, registers);
}

const FunctionFrame* FunctionFrames::named(const std::string& function) const {
  const auto found = named_.find(function);
  return found == named_.end() ? nullptr : &frames_[found->second];
}

std::optional<Symbol> FunctionFrames::symbol(const FunctionFrame& frame,
                                             const std::string& name) const {
  if (const auto at = frame.symbols.find(name); at != frame.symbols.end()) return at->second;
  if (const auto at = shared_.find(name); at != shared_.end()) return at->second;
  if (const auto at = addresses_.find(name); at != addresses_.end())
    return Symbol{Symbol::What::global, at->second, 0};
  for (std::size_t i = 0; i < module_.functions.size(); ++i)
    if (module_.functions[i].name == name)
      return Symbol{Symbol::What::function, function_address(i), 0};
  return std::nullopt;
}

std::size_t FunctionFrames::index(const FunctionFrame& frame) const {
  return static_cast<std::size_t>(frame.function - module_.functions.data());
}

}  // namespace partita::ptx
