// Branches, calls, ends and fences.
#include "ptx/families.h"

namespace partita::ptx::flow {
namespace {

const std::size_t* label_at(Site& at, const std::string& name) {
  const auto label = at.frame->labels.find(name);
  if (label != at.frame->labels.end()) return &label->second;
  at.refuse("goes to a label that is not there");
  return nullptr;
}

// With a guard the branch itself is conditional.
void bra(Site& at) {
  at.words.take("uni");
  if (!at.count_is(1)) return;
  const Operand& to = at.operand(0);
  const std::size_t* const code =
      label_at(at, to.kind == Operand::Kind::symbol ? to.text : std::string());
  if (code == nullptr) return;
  if (at.now->guard)
    at.emit(control::branch_if, {.a = at.guard_slot()},
            at.now->guard->negated ? control::kNegated : 0);
  else
    at.emit(control::branch);
  at.frame->jumps.push_back({at.program.code.size() - 1, *code});
}

void brx(Site& at) {
  at.words.take("uni");
  at.words.take("idx");
  if (!at.count_is(2)) return;
  for (const Targets& targets : at.frame->function->targets) {
    if (targets.name != at.operand(1).text) continue;
    std::vector<std::size_t> codes;
    for (const std::string& name : targets.labels) {
      const std::size_t* const code = label_at(at, name);
      if (code == nullptr) return;
      codes.push_back(*code);
    }
    at.emit(control::branch_table, {.a = at.source(0, Type::u32)}).imm =
        static_cast<std::int64_t>(at.program.tables.size() + at.frame->tables.size());
    at.frame->tables.push_back(codes);
    return;
  }
  at.refuse("has no list of targets");
}

Builtin builtin_named(std::string_view name) {
  if (name == "vprintf") return Builtin::vprintf;
  if (name == "__assertfail") return Builtin::assert_fail;
  if (name == "cudaGraphSetConditional") return Builtin::set_conditional;
  if (name == "malloc") return Builtin::malloc;
  if (name == "free") return Builtin::free;
  if (name == "__cudaCDP2GetParameterBufferV2") return Builtin::begin_launch;
  if (name == "__cudaCDP2LaunchDeviceV2") return Builtin::launch;
  return Builtin::none;
}

// Without a result.
bool takes_only(Builtin builtin) {
  return builtin == Builtin::free || builtin == Builtin::set_conditional;
}

Place place_of_value(Site& at, const Operand& operand) {
  using Kind = Operand::Kind;
  if (operand.kind == Kind::symbol)
    if (const auto found = at.frames.symbol(*at.frame, operand.text);
        found && found->what == Symbol::What::local)
      return {false, static_cast<std::uint32_t>(found->value), found->bytes};
  if (operand.kind == Kind::reg) {
    const std::uint32_t bytes = at.register_bytes(operand);
    return {true, at.register_slot(operand), bytes};
  }
  if (operand.kind == Kind::integer) return {true, at.registers.constant(operand.bits, 4), 4};
  if (operand.kind == Kind::sink) return {true, at.registers.temporary(8), 8};
  at.refuse("passes what is neither a parameter nor a register");
  return {};
}

// Whom a call site calls; refused where it passes what that one does not take.
void find_callee(Site& at, const Operand& callee, CallSite& site) {
  if (callee.kind == Operand::Kind::reg) {
    site.target = at.source(callee, Type::u64);
    return;
  }
  bool fits = false;
  if (const FunctionFrame* const frame = at.frames.named(callee.text)) {
    site.callee = static_cast<std::int32_t>(frame->number);
    const Callee& to = frame->callee;
    fits =
        to.parameters.size() == site.arguments.size() && to.results.size() >= site.results.size();
  } else {
    static constexpr std::size_t kArguments[] = {0, 2, 5, 2, 1, 1, 4, 2};
    site.builtin = builtin_named(callee.text);
    if (site.builtin == Builtin::none || (takes_only(site.builtin) && !site.results.empty()))
      return at.refuse("calls '" + callee.text + "', which is defined nowhere");
    fits = site.arguments.size() == kArguments[static_cast<std::size_t>(site.builtin)];
  }
  if (!fits) at.refuse("passes another number of values than '" + callee.text + "' takes");
}

void call(Site& at) {
  at.words.take("uni");
  CallSite site;
  std::size_t next = 0;
  if (at.operand(0).kind == Operand::Kind::list)
    for (const Operand& element : at.operand(next++).elements)
      site.results.push_back(place_of_value(at, element));
  const Operand& callee = at.operand(next++);
  if (next < at.now->operands.size() && at.operand(next).kind == Operand::Kind::list)
    for (const Operand& element : at.operand(next).elements)
      site.arguments.push_back(place_of_value(at, element));
  if (!at.failed()) find_callee(at, callee, site);
  if (at.failed()) return;
  const auto index = static_cast<std::int64_t>(at.program.calls.size());
  at.emit(control::call).imm = index;
  if (site.builtin == Builtin::none) at.emit(control::after_call).imm = index;
  at.program.calls.push_back(std::move(site));
}

void ret(Site& at) {
  at.words.take("uni");
  at.emit(control::ret).imm = at.frame->number;
}
void exit_lanes(Site& at) {
  at.words.take("uni");
  at.emit(control::exit_lanes);
}
void trap(Site& at) { at.emit(control::trap); }

void fence(Site& at) {
  at.words.take_any({"acquire", "release", "relaxed", "acq_rel", "sc"});
  at.words.take_any({"cta", "gpu", "sys", "cluster", "gl"});
  at.words.take("proxy");
  at.words.take_any({"alias", "async", "async.global", "async.shared::cta"});
  at.emit(control::fence);
}

}  // namespace

Opcodes opcodes() {
  static constexpr Opcode kOpcodes[] = {{"bra", bra},     {"brx", brx},         {"call", call},
                                        {"ret", ret},     {"exit", exit_lanes}, {"trap", trap},
                                        {"brkpt", fence}, {"membar", fence},    {"fence", fence}};
  return kOpcodes;
}

}  // namespace partita::ptx::flow
