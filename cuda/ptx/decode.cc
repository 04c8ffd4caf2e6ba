#include "ptx/decode.h"

#include <algorithm>
#include <array>

#include "ptx/decoder.h"

namespace partita::ptx {
namespace {

constexpr std::uint32_t kMaxRegisterBytes = 16u << 20;  // of a warp
constexpr std::uint32_t kMaxLocalBytes = 512u << 10;    // of a thread

std::uint64_t round_up(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }
std::uint64_t bytes_of(const Variable& variable) {
  return std::max<std::uint64_t>(variable.count, 1) * size_of(variable.type);
}
std::uint32_t alignment_of(const Variable& variable) {
  return std::max<std::uint32_t>(
      {variable.alignment, static_cast<std::uint32_t>(size_of(variable.type)), 1});
}
Builtin builtin_named(std::string_view name) {
  if (name == "vprintf") return Builtin::vprintf;
  if (name == "__assertfail") return Builtin::assert_fail;
  if (name == "malloc") return Builtin::malloc;
  if (name == "free") return Builtin::free;
  return Builtin::none;
}

}  // namespace

bool is_half(Type type) {
  return type == Type::f16 || type == Type::bf16 || type == Type::f16x2 || type == Type::bf16x2;
}
bool is_float(Type type) { return type == Type::f32 || type == Type::f64 || is_half(type); }
bool is_signed(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}
std::uint32_t register_bytes_of(Type type) {
  if (type == Type::pred) return 0;
  return std::max<std::uint32_t>(2, static_cast<std::uint32_t>(size_of(type)));
}
Type type_named(std::string_view name) {
  static constexpr std::array kTypes = {
      Type::b8,    Type::b16,  Type::b32,    Type::b64,  Type::b128, Type::u8,  Type::u16,
      Type::u32,   Type::u64,  Type::s8,     Type::s16,  Type::s32,  Type::s64, Type::f16,
      Type::f16x2, Type::bf16, Type::bf16x2, Type::tf32, Type::f32,  Type::f64, Type::pred};
  for (const Type type : kTypes)
    if (to_string(type) == name) return type;
  return Type::none;
}
std::uint64_t function_address(std::size_t index) {
  return kFunctionWindow + (index + 1) * kFunctionStride;
}

Modifiers::Modifiers(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const Type type = type_named(word);
    if (type == Type::none)
      words_.push_back(word);
    else
      types_.push_back(type);
  }
}
bool Modifiers::take(std::string_view word) {
  const auto at = std::find(words_.begin(), words_.end(), word);
  if (at == words_.end()) return false;
  words_.erase(at);
  return true;
}
std::string Modifiers::take_any(std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words)
    if (take(word)) return std::string(word);
  return {};
}
std::string Modifiers::take_starting(char letter) {
  for (const std::string& word : words_) {
    if (word.size() < 2 || word[0] != letter || word[1] < '0' || word[1] > '9') continue;
    const std::string found = word;
    take(found);
    return found;
  }
  return {};
}
std::string Modifiers::left() const { return words_.empty() ? std::string() : words_.front(); }

Decoder::Decoder(const Module& module, const Function& kernel, const Addresses& addresses,
                 std::string_view name)
    : module_(module), kernel_(kernel), addresses_(addresses), name_(name), ops_(op_names()) {
  program_.kernel = kernel.name;
}

void Decoder::refuse(const std::string& what) {
  if (failed()) return;
  std::string text;
  if (now_ != nullptr) {
    text = now_->opcode;
    for (const std::string& word : now_->modifiers) text += "." + word;
    text = "'" + text + "' ";
  }
  const int line = now_ != nullptr ? now_->line : kernel_.line;
  error_ = Error{ErrorCode::not_supported, text + what, name_ + ":" + std::to_string(line)};
}

std::uint32_t Decoder::new_slot(std::uint32_t bytes) {
  if (bytes == 0) {  // masks lie sixteen to a line
    if (next_predicate_ % 64 == 0) {
      next_predicate_ = next_slot_;
      next_slot_ += 64;
    }
    const std::uint32_t slot = next_predicate_;
    next_predicate_ += 4;
    return slot;
  }
  const std::uint32_t slot = next_slot_;
  next_slot_ += bytes * kLanes;
  if (next_slot_ > kMaxRegisterBytes) {
    refuse("needs more registers than there are");
    next_slot_ = 0;
  }
  return slot;
}

std::uint32_t Decoder::local(std::uint32_t bytes, std::uint32_t alignment) {
  next_local_ = static_cast<std::uint32_t>(round_up(next_local_, std::max(alignment, 8u)));
  const std::uint32_t at = next_local_;
  next_local_ += bytes;
  if (bytes > kMaxLocalBytes || next_local_ > kMaxLocalBytes) {
    refuse("needs more than " + std::to_string(kMaxLocalBytes) + " bytes of local memory");
    next_local_ = 0;
  }
  return at;
}

// The functions the kernel may call, each before it is needed; calls in a circle are refused.
void Decoder::visit(const Function& function, std::vector<std::string>& path) {
  if (frame_named_.contains(function.name) || failed()) return;
  frame_named_[function.name] = frames_.size();
  frames_.push_back({});
  frames_.back().function = &function;
  path.push_back(function.name);
  for (const Instruction& instruction : function.code) {
    if (instruction.opcode != "call") continue;
    now_ = &instruction;
    const Operand* callee = nullptr;
    for (const Operand& operand : instruction.operands)
      if (operand.kind != Operand::Kind::list && callee == nullptr) callee = &operand;
    if (callee == nullptr) continue;
    if (callee->kind == Operand::Kind::reg) has_indirect_ = true;
    for (const Function& other : module_.functions) {
      if (callee->kind != Operand::Kind::symbol || other.name != callee->text) continue;
      if (std::find(path.begin(), path.end(), other.name) != path.end())
        refuse("calls '" + other.name + "' recursively, which is not supported");
      if (!other.is_declared_only) visit(other, path);
    }
  }
  path.pop_back();
  order_.push_back(frame_named_[function.name]);
}

void Decoder::find_functions() {
  std::vector<std::string> path;
  visit(kernel_, path);
  for (std::size_t i = 0; has_indirect_ && i < module_.functions.size(); ++i) {
    const Function& function = module_.functions[i];
    if (!function.is_entry && !function.is_declared_only) visit(function, path);
  }
  now_ = nullptr;
}

void Decoder::lay_out_shared() {
  std::set<std::string> named;
  const auto note = [&](const Operand& operand, const auto& self) -> void {
    if (!operand.text.empty()) named.insert(operand.text);
    for (const Operand& element : operand.elements) self(element, self);
  };
  for (const Frame& frame : frames_)
    for (const Instruction& instruction : frame.function->code)
      for (const Operand& operand : instruction.operands) note(operand, note);
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
  for (const Frame& frame : frames_)
    for (const Variable& variable : frame.function->variables) place(variable);
  const std::uint64_t dynamic = round_up(end, 16);
  for (const Variable& variable : module_.variables)
    if (variable.space == Space::shared && variable.count == 0) {
      if (named.contains(variable.name)) end = dynamic;
      shared_[variable.name] = {Symbol::What::shared, dynamic, 0};
    }
  if (end > (1u << 20)) refuse("needs more shared memory than there is");
  program_.shared_bytes = static_cast<std::uint32_t>(end);
}

Place Decoder::place_of(Frame& frame, const Variable& variable) {
  const auto& registers = frame.function->registers;
  if (variable.space == Space::reg)
    for (std::size_t i = 0; i < registers.size(); ++i)
      if (registers[i].name == variable.name)
        return {true, frame.slots[i], register_bytes_of(registers[i].type)};
  const auto bytes = static_cast<std::uint32_t>(bytes_of(variable));
  const std::uint32_t at = local(bytes, alignment_of(variable));
  frame.symbols[variable.name] = {Symbol::What::local, at, bytes};
  return {false, at, bytes};
}

void Decoder::lay_out(Frame& frame) {
  const Function& function = *frame.function;
  for (const Register& r : function.registers)
    frame.slots.push_back(new_slot(register_bytes_of(r.type)));
  frame.carry_slot = new_slot(0);
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
    frame.callee.return_slot = new_slot(4);
    frame.callee.active_slot = new_slot(0);
    for (const Variable& v : function.parameters)
      frame.callee.parameters.push_back(place_of(frame, v));
    for (const Variable& v : function.results) frame.callee.results.push_back(place_of(frame, v));
  }
  for (const Variable& variable : function.variables)
    if (variable.space == Space::local || variable.space == Space::param) place_of(frame, variable);
  for (const Label& label : function.labels) frame.labels[label.name] = label.at;
}

Op& Decoder::emit(OpFn fn) {
  Op op;
  op.fn = fn;
  op.ordinal = ordinal_;
  program_.code.push_back(op);
  return program_.code.back();
}

Op& Decoder::emit(const std::string& name) {
  const OpFn fn = ops_.find(name);
  if (fn == nullptr) refuse("is not supported");
  return emit(fn);
}

void Decoder::emit_head() { emit(control::head); }

// Puts the guard of an instruction around the ops from `begin` on: around one plain op by an op
// before it, around others by a branch over them.
void Decoder::finish_guard(std::size_t begin) {
  if (!now_->guard || failed()) return;
  const Guard guard = *now_->guard;
  const auto& registers = frame_->function->registers;
  if (guard.reg < 0 || static_cast<std::size_t>(guard.reg) >= registers.size() ||
      registers[static_cast<std::size_t>(guard.reg)].type != Type::pred)
    return refuse("has a guard that is no predicate");
  static const std::set<std::string_view> kMoves = {"bra",   "brx",     "call", "ret",  "exit",
                                                    "bar",   "barrier", "shfl", "vote", "match",
                                                    "redux", "elect",   "trap"};
  std::vector<Op>& code = program_.code;
  const bool plain = code.size() == begin + 1 && !kMoves.contains(now_->opcode);
  Op op;
  op.ordinal = ordinal_;
  op.a = frame_->slots[static_cast<std::size_t>(guard.reg)];
  if (plain) {
    op.fn = control::guard;
    op.flags = guard.negated ? control::kNegated : 0;
  } else {
    op.fn = control::branch_if;
    op.flags = control::kSynthetic | (guard.negated ? 0 : control::kNegated);
    op.imm = static_cast<std::int64_t>(code.size()) + 2;  // behind the head below
  }
  code.insert(code.begin() + static_cast<std::ptrdiff_t>(begin), op);
  if (plain) return;
  ++ordinal_;
  emit_head();
  --ordinal_;
}

void Decoder::decode_instruction(std::size_t index) {
  now_ = &frame_->function->code[index];
  words_.emplace(now_->modifiers);
  std::fill(std::begin(used_temporaries_), std::end(used_temporaries_), std::size_t{0});
  const std::size_t begin = program_.code.size();
  const auto handler = handlers().find(now_->opcode);
  if (handler == handlers().end()) return refuse("is not supported");
  if (now_->opcode == "bra" && now_->guard) {  // the branch itself is conditional
    on_bra();
  } else {
    (this->*handler->second)();
    finish_guard(begin);
  }
  if (!failed() && !words_->left().empty())
    refuse("has a modifier '." + words_->left() + "' that is not supported");
}

void Decoder::decode_function(Frame& frame) {
  frame_ = &frame;
  const Function& function = *frame.function;
  frame.callee.entry = static_cast<std::uint32_t>(program_.code.size());
  frame.label_ops.assign(function.code.size() + 1, 0);
  std::set<std::size_t> heads;
  for (const Label& label : function.labels) heads.insert(label.at);
  std::size_t location = 0;
  Origin origin;
  fixups_.clear();
  table_labels_.clear();
  for (std::size_t i = 0; i < function.code.size() && !failed(); ++i) {
    for (; location < function.locations.size() && function.locations[location].at <= i;
         ++location) {
      origin.source_line = function.locations[location].line;
      origin.source_file = function.locations[location].file;
    }
    ordinal_ = static_cast<std::uint32_t>(program_.origins.size());
    origin.line = function.code[i].line;
    program_.origins.push_back(origin);
    if (heads.contains(i)) emit_head();
    frame.label_ops[i] = program_.code.size();
    decode_instruction(i);
  }
  now_ = nullptr;
  ordinal_ = static_cast<std::uint32_t>(program_.origins.size());
  Origin last = origin;
  program_.origins.push_back(last);
  emit_head();
  frame.label_ops[function.code.size()] = program_.code.size();
  Op& end = emit(control::ret);
  end.imm = function.is_entry ? -1 : static_cast<std::int64_t>(&frame - frames_.data()) - 1;
  resolve_targets(frame);
}

void Decoder::resolve_targets(Frame& frame) {
  if (failed()) return;
  for (const Fixup& fixup : fixups_)
    program_.code[fixup.op].imm = static_cast<std::int64_t>(frame.label_ops[fixup.code]);
  for (const auto& labels : table_labels_) {
    program_.tables.emplace_back();
    for (const std::size_t code : labels)
      program_.tables.back().push_back(static_cast<std::uint32_t>(frame.label_ops[code]));
  }
}

// Constants move behind the other registers.
Program Decoder::finish() {
  const std::uint32_t base = (next_slot_ + 63) / 64 * 64;
  const auto moved = [&](std::uint32_t slot) {
    return (slot & kConstantSlot) != 0 ? base + (slot & ~kConstantSlot) : slot;
  };
  for (Op& op : program_.code)
    for (std::uint32_t* slot : {&op.d, &op.a, &op.b, &op.c, &op.e}) *slot = moved(*slot);
  for (FillSlot& fill : program_.fills) fill.slot = moved(fill.slot);
  for (ParameterSlot& parameter : program_.parameters) parameter.slot = moved(parameter.slot);
  for (CallSite& site : program_.calls) {
    site.target = moved(site.target);
    for (Place& place : site.arguments) place.offset = moved(place.offset);
  }
  for (MatrixOp& matrix : program_.matrices) {
    matrix.stride = moved(matrix.stride);
    for (Fragment* fragment : {&matrix.a, &matrix.b, &matrix.c, &matrix.d})
      for (std::uint32_t& slot : fragment->slots) slot = moved(slot);
  }
  program_.constant_begin = base;
  program_.register_bytes = base + static_cast<std::uint32_t>(program_.constants.size());
  program_.local_bytes = (next_local_ + 15) / 16 * 16;
  for (std::size_t i = 1; i < frames_.size(); ++i) {
    program_.callees.push_back(frames_[i].callee);
    for (std::size_t f = 0; f < module_.functions.size(); ++f)
      if (&module_.functions[f] == frames_[i].function)
        program_.by_address[function_address(f)] = static_cast<std::uint32_t>(i - 1);
  }
  for (const Frame& frame : frames_)
    program_.register_count += static_cast<std::uint32_t>(frame.function->registers.size());
  return std::move(program_);
}

Result<Program> Decoder::run() {
  find_functions();
  lay_out_shared();
  for (Frame& frame : frames_)
    if (!failed()) lay_out(frame);
  // Callees before callers: the lowest op runs first, so lanes come back together.
  for (const std::size_t i : order_)
    if (!failed()) decode_function(frames_[i]);
  program_.entry = frames_.front().callee.entry;
  if (failed()) return partita::failed(*error_);
  return finish();
}

Place Decoder::call_place(const Operand& operand) {
  if (operand.kind == Operand::Kind::symbol)
    if (const auto found = symbol(operand.text); found && found->what == Symbol::What::local)
      return {false, static_cast<std::uint32_t>(found->value), found->bytes};
  if (operand.kind == Operand::Kind::reg) {
    const std::uint32_t bytes = register_bytes(operand);
    return {true, failed() ? 0 : frame_->slots[static_cast<std::size_t>(operand.reg)], bytes};
  }
  if (operand.kind == Operand::Kind::integer) return {true, constant(operand.bits, 4), 4};
  if (operand.kind == Operand::Kind::sink) return {true, temporary(8), 8};
  refuse("passes what is neither a parameter nor a register");
  return {};
}

void Decoder::on_call() {
  words_->take("uni");
  CallSite site;
  std::size_t at = 0;
  if (operand(0).kind == Operand::Kind::list) {
    for (const Operand& element : operand(0).elements) site.results.push_back(call_place(element));
    ++at;
  }
  const Operand& callee = operand(at++);
  if (at < now_->operands.size() && operand(at).kind == Operand::Kind::list)
    for (const Operand& element : operand(at).elements)
      site.arguments.push_back(call_place(element));
  if (failed()) return;
  if (callee.kind == Operand::Kind::reg) {
    site.target = source(callee, Type::u64);
  } else if (frame_named_.contains(callee.text)) {
    site.callee = static_cast<std::int32_t>(frame_named_[callee.text]) - 1;
    const Callee& to = frames_[frame_named_[callee.text]].callee;
    if (to.parameters.size() != site.arguments.size() || to.results.size() < site.results.size())
      return refuse("passes another number of values than '" + callee.text + "' takes");
  } else {
    site.builtin = builtin_named(callee.text);
    static constexpr std::size_t kArguments[] = {0, 2, 5, 1, 1};
    if (site.builtin == Builtin::none || (site.builtin == Builtin::free && !site.results.empty()))
      return refuse("calls '" + callee.text + "', which is defined nowhere");
    if (site.arguments.size() != kArguments[static_cast<std::size_t>(site.builtin)])
      return refuse("passes another number of values than '" + callee.text + "' takes");
  }
  const auto index = static_cast<std::int64_t>(program_.calls.size());
  program_.calls.push_back(site);
  emit(control::call).imm = index;
  if (site.builtin == Builtin::none) emit(control::after_call).imm = index;
}

Result<Program> decode(const Module& module, const Function& kernel, const Addresses& addresses,
                       std::string_view name) {
  return Decoder(module, kernel, addresses, name).run();
}

}  // namespace partita::ptx
