#include "ptx/decode.h"

#include <map>
#include <set>

#include "ptx/bases.h"
#include "ptx/families.h"

namespace partita::ptx {

std::uint64_t function_address(std::size_t index) {
  return kFunctionWindow + (index + 1) * kFunctionStride;
}

const Opcode* find_opcode(std::string_view name) {
  static const std::map<std::string_view, const Opcode*> kAll = [] {
    std::map<std::string_view, const Opcode*> all;
    for (const Opcodes family :
         {integers::opcodes(), floats::opcodes(), selects::opcodes(), moves::opcodes(),
          accesses::opcodes(), atomics::opcodes(), flow::opcodes(), exchanges::opcodes(),
          matrices::opcodes(), textures::opcodes()})
      for (const Opcode& opcode : family) all[opcode.name] = &opcode;
    return all;
  }();
  const auto found = kAll.find(name);
  return found == kAll.end() ? nullptr : found->second;
}

namespace {

class Decoder {
 public:
  Decoder(const Module& module, const Addresses& addresses, FirstRefusal refusal)
      : refusal_(std::move(refusal)), frames_(module, addresses, refusal_) {}
  Result<Program> run(const Function& kernel);

 private:
  void decode_function(FunctionFrame& frame);
  void decode_instruction();
  void finish_guard(std::size_t begin);
  void resolve_targets(FunctionFrame& frame);

  Program program_ = {};
  FirstRefusal refusal_;
  RegisterFile registers_{program_, refusal_};
  FunctionFrames frames_;
  Site site_{program_, registers_, frames_, refusal_};
};

// Puts the guard of an instruction around the ops from `begin` on: around one plain op by an op
// before it, around others by a branch over them.
void Decoder::finish_guard(std::size_t begin) {
  if (!site_.now->guard || site_.failed()) return;
  static const std::set<std::string_view> kMoves = {"bra",   "brx",     "call", "ret",  "exit",
                                                    "bar",   "barrier", "shfl", "vote", "match",
                                                    "redux", "elect",   "trap"};
  std::vector<Op>& code = program_.code;
  const bool negated = site_.now->guard->negated;
  const bool plain = code.size() == begin + 1 && !kMoves.contains(site_.now->opcode);
  Op op;
  op.ordinal = site_.ordinal;
  op.a = site_.guard_slot();
  if (plain) {
    op.fn = control::guard;
    op.flags = negated ? control::kNegated : 0;
  } else {
    op.fn = control::branch_if;
    op.flags = control::kSynthetic | (negated ? 0 : control::kNegated);
    op.imm = static_cast<std::int64_t>(code.size()) + 2;  // behind the head below
  }
  code.insert(code.begin() + static_cast<std::ptrdiff_t>(begin), op);
  if (plain) return;
  ++site_.ordinal;
  site_.emit(control::head);
}

void Decoder::decode_instruction() {
  const std::size_t begin = program_.code.size();
  const Opcode* const opcode = find_opcode(site_.now->opcode);
  if (opcode == nullptr) return site_.refuse("is not supported");
  opcode->decode(site_);
  if (opcode->name != "bra") finish_guard(begin);
  if (const std::string left = site_.words.left(); !left.empty())
    site_.refuse("has a modifier '." + left + "' that is not supported");
}

void Decoder::decode_function(FunctionFrame& frame) {
  const Function& function = *frame.function;
  frame.callee.entry = static_cast<std::uint32_t>(program_.code.size());
  frame.label_ops.assign(function.code.size() + 1, 0);
  frame.bases = shared_bases(frames_, frame);
  std::set<std::size_t> heads;
  for (const Label& label : function.labels) heads.insert(label.at);
  std::size_t location = 0;
  Origin origin;
  const auto next_ordinal = [&] {
    program_.origins.push_back(origin);
    return static_cast<std::uint32_t>(program_.origins.size() - 1);
  };
  for (std::size_t i = 0; i < function.code.size() && !site_.failed(); ++i) {
    for (; location < function.locations.size() && function.locations[location].at <= i;
         ++location) {
      origin.source_line = function.locations[location].line;
      origin.source_file = function.locations[location].file;
    }
    origin.line = function.code[i].line;
    site_.begin(frame, function.code[i], next_ordinal());
    if (heads.contains(i)) site_.emit(control::head);
    frame.label_ops[i] = program_.code.size();
    decode_instruction();
  }
  refusal_.now = nullptr;
  site_.ordinal = next_ordinal();
  site_.emit(control::head);
  frame.label_ops[function.code.size()] = program_.code.size();
  site_.emit(control::ret).imm = frame.number;
  resolve_targets(frame);
}

void Decoder::resolve_targets(FunctionFrame& frame) {
  if (site_.failed()) return;
  for (const FunctionFrame::Jump& jump : frame.jumps)
    program_.code[jump.op].imm = static_cast<std::int64_t>(frame.label_ops[jump.code]);
  for (const auto& labels : frame.tables) {
    program_.tables.emplace_back();
    for (const std::size_t code : labels)
      program_.tables.back().push_back(static_cast<std::uint32_t>(frame.label_ops[code]));
  }
}

Result<Program> Decoder::run(const Function& kernel) {
  program_.kernel = kernel.name;
  frames_.lay_out(kernel, program_, registers_);
  std::vector<FunctionFrame>& frames = frames_.all();
  // Callees before callers: the lowest op runs first, so lanes come back together.
  for (const std::size_t i : frames_.order())
    if (!site_.failed()) decode_function(frames[i]);
  if (site_.failed()) return failed(*refusal_.error);
  program_.entry = frames.front().callee.entry;
  registers_.finish();
  program_.arrays.resize(program_.spans);
  for (MatrixOp& matrix : program_.matrices)
    for (Fragment* fragment : {&matrix.a, &matrix.b, &matrix.c, &matrix.d})
      find_elements(*fragment);
  for (FunctionFrame& frame : frames) {
    program_.functions.push_back(
        {frame.function, frame.callee.entry, frame.number, std::move(frame.slots)});
    program_.register_count += static_cast<std::uint32_t>(frame.function->registers.size());
    if (frame.number < 0) continue;
    program_.callees.push_back(frame.callee);
    program_.by_address[function_address(frames_.index(frame))] =
        static_cast<std::uint32_t>(frame.number);
  }
  return std::move(program_);
}

}  // namespace

Result<Program> decode(const Module& module, const Function& kernel, const Addresses& addresses,
                       std::string_view name) {
  return Decoder(module, addresses, {.module = std::string(name), .line = kernel.line}).run(kernel);
}

}  // namespace partita::ptx
