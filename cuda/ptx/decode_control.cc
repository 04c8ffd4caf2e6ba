// Branches, barriers and what lanes exchange.
#include "ptx/decoder.h"

namespace partita::ptx {

void Decoder::on_bra() {
  words_->take("uni");
  if (!count_is(1)) return;
  const auto label = frame_->labels.find(operand(0).text);
  if (operand(0).kind != Operand::Kind::symbol || label == frame_->labels.end())
    return refuse("goes to a label that is not there");
  Op& op = emit(control::branch);
  if (now_->guard) {
    const auto& registers = frame_->function->registers;
    const int reg = now_->guard->reg;
    if (reg < 0 || static_cast<std::size_t>(reg) >= registers.size() ||
        registers[static_cast<std::size_t>(reg)].type != Type::pred)
      return refuse("has a guard that is no predicate");
    op.fn = control::branch_if;
    op.a = frame_->slots[static_cast<std::size_t>(reg)];
    op.flags = now_->guard->negated ? control::kNegated : 0;
  }
  fixups_.push_back({program_.code.size() - 1, label->second});
}

void Decoder::on_brx() {
  words_->take("uni");
  words_->take("idx");
  if (!count_is(2)) return;
  for (const Targets& targets : frame_->function->targets) {
    if (targets.name != operand(1).text) continue;
    std::vector<std::size_t> codes;
    for (const std::string& name : targets.labels) {
      const auto label = frame_->labels.find(name);
      if (label == frame_->labels.end()) return refuse("goes to a label that is not there");
      codes.push_back(label->second);
    }
    const std::uint32_t index = source(0, Type::u32);
    Op& op = emit(control::branch_table);
    op.a = index;
    op.imm = static_cast<std::int64_t>(program_.tables.size() + table_labels_.size());
    table_labels_.push_back(codes);
    return;
  }
  refuse("has no list of targets");
}

void Decoder::on_ret() {
  words_->take("uni");
  if (now_->opcode == "exit") {
    emit(control::exit_lanes);
    return;
  }
  emit(control::ret).imm = frame_->function->is_entry ? -1 : frame_ - frames_.data() - 1;
}

void Decoder::on_trap() { emit(control::trap); }

void Decoder::on_nothing() {
  words_->take_any({"acquire", "release", "relaxed", "acq_rel", "sc"});
  words_->take_any({"cta", "gpu", "sys", "cluster", "gl"});
  words_->take("proxy");
  words_->take_any({"alias", "async", "async.global", "async.shared::cta"});
  emit(control::nothing);
}

void Decoder::barrier_reduction(const std::string& what, std::uint32_t aligned) {
  const bool popc = what == "popc";
  const Operand& input = operand(now_->operands.size() - 1);
  const bool counted = now_->operands.size() == 4;
  const std::uint32_t d = popc ? destination(0, Type::u32) : destination(0, Type::pred);
  const std::uint32_t id = source(1, Type::u32);
  const std::uint32_t count = counted ? source(2, Type::u32) : 0;
  const std::uint32_t p = predicate(input);
  Op& op = emit(control::bar);
  op.d = d;
  op.a = id;
  op.b = count;
  op.c = p;
  op.flags = control::kReduce | (counted ? control::kCounted : 0) |
             (popc            ? control::kReducePopc
              : what == "and" ? control::kReduceAnd
                              : control::kReduceOr) |
             aligned;
  program_.barriers = 1;
}

void Decoder::on_bar() {
  words_->take("cta");
  const bool says_aligned = words_->take("aligned");
  const std::uint32_t aligned =
      says_aligned || now_->opcode == "bar" ? control::kAligned : std::uint32_t{0};
  if (words_->take("warp")) {
    words_->take("sync");
    if (!count_is(1)) return;
    const std::uint32_t members = source(0, Type::u32);
    emit(control::bar_warp).e = members;
    return;
  }
  if (words_->take_any({"cluster"}) == "cluster") {  // a cluster is one block here
    const bool arrives = words_->take("arrive");
    words_->take("wait");
    words_->take_any({"acquire", "release", "relaxed"});
    if (arrives) {
      emit(control::nothing);
      return;
    }
    const std::uint32_t id = constant(0, 4);
    Op& op = emit(control::bar);
    op.a = id;
    op.flags = control::kLenient;
    program_.barriers = 1;
    return;
  }
  program_.barriers = 1;
  if (words_->take("red"))
    return barrier_reduction(words_->take_any({"popc", "and", "or"}), aligned);
  const bool arrive = words_->take("arrive");
  words_->take("sync");
  const std::size_t count = now_->operands.size();
  if (count > 2 || (arrive && count != 2)) return refuse("has a wrong number of operands");
  const std::uint32_t id = count > 0 ? source(0, Type::u32) : constant(0, 4);
  const std::uint32_t threads = count > 1 ? source(1, Type::u32) : 0;
  Op& op = emit(control::bar);
  op.a = id;
  op.b = threads;
  op.flags = (count > 1 ? control::kCounted : 0) | (arrive ? control::kArrive : 0) | aligned;
}

void Decoder::on_shfl() {
  const bool sync = words_->take("sync");
  const std::string mode = words_->take_any({"up", "down", "bfly", "idx"});
  if (mode.empty() || !count_is(sync ? 5 : 4)) return refuse("has no mode that is known");
  const Operand& to = operand(0);
  const bool pair = to.kind == Operand::Kind::pair && to.elements.size() == 2;
  const std::uint32_t d = destination(pair ? to.elements[0] : to, Type::b32);
  const std::uint32_t p = pair ? destination(to.elements[1], Type::pred) : 0;
  const std::uint32_t a = source(1, Type::b32), b = source(2, Type::b32), c = source(3, Type::b32);
  const std::uint32_t members = sync ? source(4, Type::b32) : constant(kAllLanes, 4);
  Op& op = emit(control::shuffle);
  op.d = d;
  op.a = a;
  op.b = b;
  op.c = c;
  op.e = members;
  op.imm = pair ? static_cast<std::int64_t>(p) : -1;
  op.flags = mode == "up" ? 0 : mode == "down" ? 1 : mode == "bfly" ? 2 : 3;
}

void Decoder::on_vote() {
  const bool sync = words_->take("sync");
  const std::string mode = words_->take_any({"all", "any", "uni", "ballot"});
  if (mode.empty() || !count_is(sync ? 3 : 2)) return refuse("has no mode that is known");
  const std::uint32_t d = mode == "ballot" ? destination(0, Type::b32) : destination(0, Type::pred);
  const std::uint32_t p = predicate(operand(1));
  const std::uint32_t members = sync ? source(2, Type::b32) : constant(kAllLanes, 4);
  Op& op = emit(control::vote);
  op.d = d;
  op.a = p;
  op.e = members;
  op.flags = mode == "all" ? 0 : mode == "any" ? 1 : mode == "uni" ? 2 : 3;
}

void Decoder::on_activemask() {
  if (!count_is(1)) return;
  const std::uint32_t d = destination(0, Type::b32);
  emit(control::active_mask).d = d;
}

void Decoder::on_match() {
  const std::string mode = words_->take_any({"any", "all"});
  words_->take("sync");
  const Type type = words_->type(0);
  if (mode.empty() || !count_is(3)) return refuse("has no mode that is known");
  const Operand& to = operand(0);
  const bool pair = to.kind == Operand::Kind::pair && to.elements.size() == 2;
  const std::uint32_t d = destination(pair ? to.elements[0] : to, Type::b32);
  const std::uint32_t p = pair ? destination(to.elements[1], Type::pred) : temporary(0);
  const std::uint32_t a = source(1, type), members = source(2, Type::b32);
  Op& op = emit(control::match);
  op.d = d;
  op.a = a;
  op.b = p;
  op.e = members;
  op.flags =
      (size_of(type) == 8 ? control::kWide : 0) | (mode == "all" ? control::kHasPredicate : 0);
}

void Decoder::on_redux() {
  words_->take("sync");
  const std::string what = words_->take_any({"add", "min", "max", "and", "or", "xor"});
  const Type type = words_->type(0);
  if (what.empty() || size_of(type) != 4 || is_float(type) || !count_is(3))
    return refuse("is not supported");
  using control::Reduce;
  const bool sign = is_signed(type);
  const Reduce how = what == "add"   ? Reduce::add
                     : what == "min" ? (sign ? Reduce::min_s : Reduce::min_u)
                     : what == "max" ? (sign ? Reduce::max_s : Reduce::max_u)
                     : what == "and" ? Reduce::and_
                     : what == "or"  ? Reduce::or_
                                     : Reduce::xor_;
  const std::uint32_t d = destination(0, type), a = source(1, type);
  const std::uint32_t members = source(2, Type::b32);
  Op& op = emit(control::redux);
  op.d = d;
  op.a = a;
  op.e = members;
  op.flags = static_cast<std::uint32_t>(how);
}

void Decoder::on_elect() {
  words_->take("sync");
  if (!count_is(2)) return;
  const Operand& to = operand(0);
  if (to.kind != Operand::Kind::pair || to.elements.size() != 2)
    return refuse("has no pair of results");
  const std::uint32_t d = destination(to.elements[0], Type::b32);
  const std::uint32_t p = destination(to.elements[1], Type::pred);
  const std::uint32_t members = source(1, Type::b32);
  Op& op = emit(control::elect);
  op.d = d;
  op.b = p;
  op.e = members;
}

}  // namespace partita::ptx
