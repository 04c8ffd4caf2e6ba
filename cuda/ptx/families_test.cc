// Each family apart: which ops an instruction becomes at a site, and what is refused there. What
// ops compute is tested by integer_ops_test.cc and the others.
#include "ptx/families.h"

#include <gtest/gtest.h>

#include "ptx/parse.h"

namespace partita::ptx {
namespace {

// One instruction in a kernel that has registers of every size.
class OneSite {
 public:
  explicit OneSite(const std::string& instruction)
      : module_(parsed(".version 8.0\n.target sm_90\n.address_size 64\n"
                       ".extern .func unknown();\n"
                       ".extern .func (.param .b64 to) malloc(.param .b64 bytes);\n"
                       ".visible .entry k(.param .u32 n) {\n"
                       ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>;\n"
                       ".reg .f32 %f<9>; .reg .f64 %g<9>; .shared .b64 s;\n" +
                       instruction + "\nhere: }")) {
    const Function& kernel = module_.functions.back();
    frames_.lay_out(kernel, program_, registers_);
    site_.begin(frames_.all().front(), kernel.code.front(), 0);
  }
  // The ops that the family makes of it; `left`: words that it took are none of them.
  const std::vector<Op>& decode(Opcodes family) {
    for (const Opcode& opcode : family)
      if (opcode.name == site_.now->opcode) opcode.decode(site_);
    return program_.code;
  }
  std::string refusal() const { return refusal_.error ? refusal_.error->message : ""; }
  std::string left() const { return site_.words.left(); }
  const FunctionFrame& frame() { return *site_.frame; }
  std::uint32_t slot(const std::string& name) {
    const auto& declared = module_.functions.back().registers;
    for (std::size_t i = 0; i < declared.size(); ++i)
      if (declared[i].name == name) return frame().slots[i];
    ADD_FAILURE() << name;
    return 0;
  }

 private:
  static Module parsed(const std::string& text) {
    Result<Module> module = parse(text);
    EXPECT_TRUE(module) << text << to_string(module.error());
    return module ? *std::move(module) : Module{.functions = {{.code = {{}}}}};
  }

  Module module_;
  Addresses addresses_ = {};
  FirstRefusal refusal_{.module = "test"};
  Program program_ = {};
  RegisterFile registers_{program_, refusal_};
  FunctionFrames frames_{module_, addresses_, refusal_};
  Site site_{program_, registers_, frames_, refusal_};
};

OpFn op(const char* name) {
  const OpFn found = op_names().find(name);
  EXPECT_NE(found, nullptr) << name;
  return found;
}

struct Case {
  const char* instruction;
  std::vector<OpFn> ops;
};

void expect_ops(Opcodes family, const std::vector<Case>& cases) {
  for (const Case& expected : cases) {
    OneSite site(expected.instruction);
    std::vector<OpFn> made;
    for (const Op& each : site.decode(family)) made.push_back(each.fn);
    EXPECT_EQ(made, expected.ops) << expected.instruction;
    EXPECT_EQ(site.refusal(), "") << expected.instruction;
    EXPECT_EQ(site.left(), "") << expected.instruction;
  }
}

void expect_refused(Opcodes family, const char* instruction, const std::string& why) {
  OneSite site(instruction);
  site.decode(family);
  EXPECT_NE(site.refusal().find(why), std::string::npos) << instruction << ": " << site.refusal();
}

TEST(Families, Integers) {
  expect_ops(integers::opcodes(),
             {{"add.s32 %r1, %r2, %r3;", {op("add.u32")}},
              {"add.sat.s32 %r1, %r2, 5;", {op("add.sat.s32")}},
              {"mul.wide.s32 %d1, %r2, %r3;", {op("mul.wide.s32")}},
              {"add.rz.f32 %f1, %f2, %f3;", {control::rounding, op("add.f32")}},
              {"add.cc.u32 %r1, %r2, %r3;", {op("add.cc.u32")}},
              {"addc.u32 %r1, %r2, %r3;", {op("addc.u32")}},
              {"not.pred %p1, %p2;", {control::pred_not}},
              {"xor.pred %p1, %p2, !%p3;", {control::pred_not, control::pred_xor}},
              {"mad.lo.s32 %r1, %r2, %r3, %r4;", {op("mad.lo.u32")}},
              {"shl.b64 %d1, %d2, %r3;", {op("shl.u64")}},
              {"lop3.b32 %r1, %r2, %r3, %r4, 0x96;", {op("lop3.u32")}},
              {"bfi.b32 %r1, %r2, %r3, 4, 8;", {op("bfi.u32")}}});
  expect_refused(integers::opcodes(), "add.s32 %r1, %r2;", "2 operands; 3 are expected");
  expect_refused(integers::opcodes(), "add.s32 %d1, %r2, %r3;", "does not have the size of s32");
  expect_refused(integers::opcodes(), "mul.wide.s64 %d1, %d2, %d3;", "a type it cannot have");
}

TEST(Families, OperandsBecomeSlots) {
  OneSite site("add.s32 %r1, %r2, %r3;");
  const Op& made = site.decode(integers::opcodes()).front();
  EXPECT_EQ(made.d, site.slot("%r1"));
  EXPECT_EQ(made.a, site.slot("%r2"));
  EXPECT_EQ(made.b, site.slot("%r3"));
  OneSite same("add.s32 %r1, 7, 7;");
  const Op& constants = same.decode(integers::opcodes()).front();
  EXPECT_EQ(constants.a, constants.b);  // kept once
}

TEST(Families, Floats) {
  expect_ops(floats::opcodes(),
             {{"fma.rn.f32 %f1, %f2, %f3, %f4;", {op("fma.f32")}},
              {"fma.rp.f64 %g1, %g2, %g3, %g4;", {control::rounding, op("fma.f64")}},
              {"fma.rn.ftz.f16 %h1, %h2, %h3, %h4;",
               {op("flush.f16"), op("flush.f16"), op("flush.f16"), op("fma.f16"), op("flush.f16")}},
              {"ex2.approx.ftz.f32 %f1, %f2;", {op("ex2.ftz.f32")}},
              {"testp.finite.f32 %p1, %f2;", {op("testp.finite.f32")}},
              {"copysign.f64 %g1, %g2, %g3;", {op("copysign.f64")}}});
  expect_refused(floats::opcodes(), "sqrt.u32 %r1, %r2;", "is not supported");
}

TEST(Families, Selects) {
  expect_ops(selects::opcodes(),
             {{"setp.lt.s32 %p1, %r2, %r3;", {op("setp.lt.s32")}},
              {"setp.lo.u32 %p1, %r2, %r3;", {op("setp.lt.u32")}},
              {"setp.eq.and.s32 %p1|%p2, %r2, %r3, !%p3;", {op("setp.eq.s32")}},
              {"set.gt.u32.s32 %r1, %r2, %r3;", {op("setp.gt.s32"), op("selp.u32")}},
              {"selp.b32 %r1, %r2, %r3, %p1;", {op("selp.u32")}},
              {"slct.s32.f32 %r1, %r2, %r3, %f1;", {op("slct.u32.f32")}}});
  OneSite both("setp.eq.and.s32 %p1|%p2, %r2, %r3, !%p3;");
  EXPECT_EQ(both.decode(selects::opcodes()).front().flags, kBoolAnd | kNegateC | kSecondResult);
  expect_refused(selects::opcodes(), "setp.s32 %p1, %r2, %r3;", "no comparison that is known");
}

TEST(Families, Moves) {
  expect_ops(moves::opcodes(),
             {{"mov.u32 %r1, %tid.x;", {op("mov.u32")}},
              {"mov.pred %p1, %p2;", {control::pred_move}},
              {"mov.b64 %d1, {%r1, %r2};", {op("pack.u64")}},
              {"mov.b64 {%r1, %r2}, %d1;", {op("mov.u64"), op("part.u64.0"), op("part.u64.32")}},
              {"cvt.u64.u32 %d1, %r1;", {op("cvt.u64.u32")}},
              {"cvt.rzi.s32.f32 %r1, %f1;", {op("cvt.s32.f32")}},
              {"cvt.rm.f32.f64 %f1, %g1;", {control::rounding, op("cvt.f32.f64")}},
              {"mov.u64 %d1, %clock64;", {control::clock64, op("mov.u64")}}});
  expect_refused(moves::opcodes(), "mov.b64 {%r1, %r2, %r3}, %d1;", "a vector it cannot have");
}

TEST(Families, Accesses) {
  expect_ops(accesses::opcodes(),
             {{"ld.global.u32 %r1, [%d1+8];", {op("ld.global.u32.32.1")}},
              {"ld.shared.s8 %r1, [s];", {op("ld.shared.s8.32.1")}},
              {"ld.param.u32 %r1, [n];", {op("mov.u32")}},
              {"st.global.v2.f32 [%d1], {%f1, 1.0};", {op("st.global.u32.32.2")}},
              {"cp.async.ca.shared.global [%r1], [%d1], 8;",
               {op("ld.global.u64.64.1"), op("st.shared.u64.64.1")}},
              {"cvta.to.global.u64 %d1, %d2;", {op("mov.u64")}},
              {"cvta.shared.u64 %d1, %d2;", {op("add.u64")}},
              {"isspacep.shared %p1, %d1;", {op("shr.u64"), op("setp.eq.u64")}}});
  OneSite at("ld.volatile.u32 %r1, [%d1+8];");
  const Op& load = at.decode(accesses::opcodes()).front();
  EXPECT_EQ(load.imm, 8);
  EXPECT_EQ(load.size, 4u);
  EXPECT_EQ(load.flags, kStrong | kGeneric);
  expect_refused(accesses::opcodes(), "st.param.u32 [n], %r1;", "into a parameter of the kernel");
  expect_refused(accesses::opcodes(), "ld.global.v2.u32 %r1, [%d1];", "a vector of another length");
}

TEST(Families, Atomics) {
  using control::Atomic;
  const OpFn expect = control::atomic_op(Atomic::barrier_expect, Type::u64);
  expect_ops(
      atomics::opcodes(),
      {{"atom.global.add.u32 %r1, [%d1], %r2;", {control::atomic_op(Atomic::add, Type::u32)}},
       {"atom.shared.cas.b32 %r1, [s], %r2, %r3;", {control::atomic_op(Atomic::cas, Type::b32)}},
       {"mbarrier.init.shared.b64 [s], 3;",
        {op("cvt.u64.u32"), op("mul.lo.u64"), op("add.u64"),
         control::atomic_op(Atomic::exch, Type::b64)}},
       {"mbarrier.test_wait.shared.b64 %p1, [s], %d1;",
        {expect, op("shr.u64"), op("shr.u64"), op("setp.ne.u64")}},
       {"mbarrier.inval.shared.b64 [s];", {control::nothing}}});
  OneSite red("red.global.add.u32 [%d1], %r2;");
  EXPECT_NE(red.decode(atomics::opcodes()).front().flags & control::kNoResult, 0u);
  expect_refused(atomics::opcodes(), "atom.local.add.u32 %r1, [%d1], %r2;", "is not supported");
  expect_refused(atomics::opcodes(), "mbarrier.init.global.b64 [%d1], 3;",
                 "no barrier in shared memory");
}

TEST(Families, Flow) {
  expect_ops(flow::opcodes(), {{"bra here;", {control::branch}},
                               {"@%p1 bra.uni here;", {control::branch_if}},
                               {"ret;", {control::ret}},
                               {"exit;", {control::exit_lanes}},
                               {"trap;", {control::trap}},
                               {"membar.gl;", {control::fence}}});
  OneSite jump("@!%p1 bra here;");
  const Op& made = jump.decode(flow::opcodes()).front();
  EXPECT_EQ(made.a, jump.slot("%p1"));
  EXPECT_EQ(made.flags, control::kNegated);
  ASSERT_EQ(jump.frame().jumps.size(), 1u);
  EXPECT_EQ(jump.frame().jumps[0].code, 1u);  // behind the last instruction
  expect_refused(flow::opcodes(), "call unknown;", "which is defined nowhere");
  expect_refused(flow::opcodes(), "call (%d1), malloc, (%d1, %d2);", "another number of values");
}

TEST(Families, Exchanges) {
  expect_ops(exchanges::opcodes(),
             {{"bar.sync 0;", {control::bar}},
              {"bar.warp.sync 0xffffffff;", {control::bar_warp}},
              {"barrier.cluster.arrive;", {control::nothing}},
              {"shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;", {control::shuffle}},
              {"vote.sync.ballot.b32 %r1, %p1, -1;", {control::vote}},
              {"match.any.sync.b32 %r1, %r2, -1;", {control::match}},
              {"redux.sync.add.s32 %r1, %r2, -1;", {control::redux}},
              {"elect.sync %r1|%p1, -1;", {control::elect}},
              {"activemask.b32 %r1;", {control::active_mask}}});
  OneSite shuffle("shfl.sync.idx.b32 %r1, %r2, 1, 31, -1;");
  const Op& made = shuffle.decode(exchanges::opcodes()).front();
  EXPECT_EQ(made.imm, -1);  // no predicate
  EXPECT_EQ(made.flags, 3u);
  expect_refused(exchanges::opcodes(), "elect.sync %r1, -1;", "no pair of results");
  expect_refused(exchanges::opcodes(), "redux.sync.add.f32 %f1, %f2, -1;", "is not supported");
}

TEST(Families, Matrices) {
  expect_ops(matrices::opcodes(),
             {{"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2}, "
               "{%r3}, {%f1,%f2,%f3,%f4};",
               {control::bar_warp, control::matrix_multiply}},
              {"ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1,%r2}, [%d1];",
               {op("add.u64"), control::bar_warp, control::matrix_rows}}});
  expect_refused(matrices::opcodes(),
                 "mma.sync.aligned.m16n8k64.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r3}, {%f1};",
                 "a product of matrices that is not supported");
  expect_refused(matrices::opcodes(), "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1}, [%d1];",
                 "a wrong number of registers");
}

TEST(Families, NoOpcodeIsInTwo) {
  std::size_t count = 0;
  for (const Opcodes family : {integers::opcodes(), floats::opcodes(), selects::opcodes(),
                               moves::opcodes(), accesses::opcodes(), atomics::opcodes(),
                               flow::opcodes(), exchanges::opcodes(), matrices::opcodes()})
    for (const Opcode& opcode : family) {
      EXPECT_EQ(find_opcode(opcode.name), &opcode) << opcode.name;
      ++count;
    }
  EXPECT_GE(count, 80u);
  EXPECT_EQ(find_opcode("no_such"), nullptr);
}

}  // namespace
}  // namespace partita::ptx
