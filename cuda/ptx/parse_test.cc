#include "ptx/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "ptx/testing/equal_modules.h"

namespace partita::ptx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kHead = ".version 7.5\n.target sm_70\n.address_size 64\n";

// The module of `text` behind a head of three lines.
Module parsed(const std::string& text) {
  auto module = parse(kHead + text, "t.ptx");
  EXPECT_TRUE(module.has_value()) << to_string(module.error()) << "\n" << text;
  if (!module) return {};
  const auto again = parse(to_text(*module), "again");
  EXPECT_TRUE(again.has_value()) << to_string(again.error()) << "\n" << to_text(*module);
  if (again) {
    EXPECT_EQ(without_lines(*again), without_lines(*module)) << to_text(*module);
  }
  return *std::move(module);
}

Function body(const std::string& text) {
  const Module module = parsed(".entry k()\n{\n" + text + "\n}\n");
  return module.functions.empty() ? Function{} : module.functions[0];
}

std::string refusal(const std::string& text) {
  const auto module = parse(kHead + text, "t.ptx");
  return module ? "parsed" : to_string(module.error());
}

std::vector<std::string> names_of(const std::vector<Variable>& variables) {
  std::vector<std::string> names;
  for (const Variable& variable : variables) names.push_back(variable.name);
  return names;
}

template <class T>
T value_at(const Variable& variable, std::size_t index) {
  std::array<std::byte, sizeof(T)> bytes{};
  for (std::size_t at = 0; at < sizeof(T); ++at) {
    bytes[at] = variable.initial.at(index * sizeof(T) + at);
  }
  return std::bit_cast<T>(bytes);
}

Operand reg(int index) { return {.kind = Operand::Kind::reg, .reg = index}; }
Operand integer(std::int64_t value) {
  return {.kind = Operand::Kind::integer, .bits = static_cast<std::uint64_t>(value)};
}

TEST(Parse, AWholeKernelOfClang) {
  const Module module = parsed(R"(
	// .globl	add
.visible .entry add(
	.param .u64 add_param_0,
	.param .u32 add_param_1
)
.maxntid 128, 1, 1
{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<4>;
	.reg .b64 	%rd<3>;
// %bb.0:
	ld.param.u64 	%rd1, [add_param_0];
	mov.u32 	%r1, %tid.x;
	setp.ge.s32 	%p1, %r1, 7;
	@%p1 bra 	$L__BB0_2;
	st.global.v2.u32 	[%rd1+-8], {%r1, %r2};
$L__BB0_2:
	ret;
}
)");
  EXPECT_EQ(module.version_major, 7);
  EXPECT_EQ(module.version_minor, 5);
  EXPECT_EQ(module.target, "sm_70");
  ASSERT_EQ(module.functions.size(), 1U);
  const Function& add = module.functions[0];
  EXPECT_TRUE(add.is_entry && add.is_visible && !add.is_declared_only);
  EXPECT_THAT(add.max_threads, ElementsAre(128U, 1U, 1U));
  EXPECT_THAT(names_of(add.parameters), ElementsAre("add_param_0", "add_param_1"));
  EXPECT_EQ(add.parameters[0].alignment, 8U);
  ASSERT_EQ(add.registers.size(), 9U);
  EXPECT_EQ(add.registers[2], (Register{"%r0", Type::b32}));
  ASSERT_EQ(add.code.size(), 6U);
  EXPECT_EQ(
      add.code[0],
      (Instruction{.opcode = "ld",
                   .modifiers = {"param", "u64"},
                   .operands = {reg(7), {.kind = Operand::Kind::address, .text = "add_param_0"}},
                   .line = 16}));
  EXPECT_EQ(add.code[1].operands[1], (Operand{.kind = Operand::Kind::special, .text = "tid.x"}));
  EXPECT_THAT(add.code[2].operands, ElementsAre(reg(1), reg(3), integer(7)));
  EXPECT_EQ(add.code[3].guard, (Guard{.reg = 1, .negated = false}));
  EXPECT_EQ(add.code[4].modifiers, (std::vector<std::string>{"global", "v2", "u32"}));
  EXPECT_EQ(add.code[4].operands[0],
            (Operand{.kind = Operand::Kind::address, .reg = 7, .offset = -8}));
  EXPECT_EQ(add.code[4].operands[1],
            (Operand{.kind = Operand::Kind::vector, .elements = {reg(3), reg(4)}}));
  EXPECT_THAT(add.labels, ElementsAre(Label{"$L__BB0_2", 5}));
  EXPECT_EQ(add.code[5].line, 22);
}

TEST(Parse, NumbersOfEverySpelling) {
  const Function k = body(R"(.reg .b64 %r<2>;
mov.b64 %r1, 255; mov.b64 %r1, 0xFFu; mov.b64 %r1, 0377; mov.b64 %r1, 0b11111111U;
mov.b64 %r1, -1; mov.b64 %r1, 0xFFFFFFFFFFFFFFFF; mov.b64 %r1, WARP_SZ; mov.b64 %r1, (3 + 4*2) << 1;
mov.b64 %r1, 7/2-1 ; mov.b64 %r1, 1 < 2 ? 10 : 20; mov.b64 %r1, ~0 & 0xF0; mov.b64 %r1, !5;
mov.b64 %r1, 0; mov.b64 %r1, -9223372036854775808; mov.b64 %r1, 18446744073709551615 >> 63;)");
  std::vector<std::int64_t> values;
  for (const Instruction& one : k.code) {
    EXPECT_EQ(one.operands.at(1).kind, Operand::Kind::integer);
    values.push_back(static_cast<std::int64_t>(one.operands.at(1).bits));
  }
  EXPECT_THAT(values,
              ElementsAre(255, 255, 255, 255, -1, -1, 32, 22, 2, 10, 0xF0, 0, 0, INT64_MIN, 1));
}

TEST(Parse, FloatsKeepTheirPattern) {
  const Function k = body(R"(.reg .f32 %f<2>; .reg .f64 %d<2>;
mov.f32 %f1, 0f3F800000; mov.f32 %f1, 0F7fc00001; mov.f64 %d1, 0d3FF0000000000000;
mov.f64 %d1, 1.5e3; mov.f32 %f1, -0.25; mov.f32 %f1, -0f3F800000; mov.f64 %d1, 2.;)");
  using Kind = Operand::Kind;
  const auto value = [&](std::size_t at) { return k.code.at(at).operands.at(1); };
  EXPECT_EQ(value(0), (Operand{.kind = Kind::f32, .bits = 0x3F800000}));
  EXPECT_EQ(value(1), (Operand{.kind = Kind::f32, .bits = 0x7fc00001}));
  EXPECT_EQ(value(2), (Operand{.kind = Kind::f64, .bits = 0x3FF0000000000000}));
  EXPECT_EQ(value(3), (Operand{.kind = Kind::f64, .bits = std::bit_cast<std::uint64_t>(1500.0)}));
  EXPECT_EQ(value(4), (Operand{.kind = Kind::f64, .bits = std::bit_cast<std::uint64_t>(-0.25)}));
  EXPECT_EQ(value(5), (Operand{.kind = Kind::f32, .bits = 0xBF800000}));
  EXPECT_EQ(value(6), (Operand{.kind = Kind::f64, .bits = std::bit_cast<std::uint64_t>(2.0)}));
}

TEST(Parse, OperandsOfEveryKind) {
  const Module module = parsed(R"(.global .u32 g;
.entry k()
{ .reg .pred p, q; .reg .b32 %r<3>;
setp.lt.and.s32 p|q, %r1, 0, !p;
setp.lt.s32 p|_, %r1, 0;
mov.u64 %r1, g+4;
ld.global.u32 %r1, [g-4];
ld.shared.u32 %r1, [16];
vadd.s32.u32.s32 %r0, %r1.b0, %r2.h1;
tex.2d.v4.f32.s32 {%r0, _, %r1, %r2}, [g, {%r1, %r2}];
ld.global.L1::no_allocate.L2::128B.u32 %r1, [%r2 + 8];
mov.u32 %r1, %envreg3; mov.u32 %r1, %lanemask_lt;
@!p ret;
})");
  ASSERT_EQ(module.functions.size(), 1U);
  using Kind = Operand::Kind;
  const auto& code = module.functions[0].code;
  EXPECT_EQ(code[0].operands[0], (Operand{.kind = Kind::pair, .elements = {reg(0), reg(1)}}));
  EXPECT_EQ(code[0].operands[3], (Operand{.kind = Kind::reg, .negated = true, .reg = 0}));
  EXPECT_EQ(code[1].operands[0],
            (Operand{.kind = Kind::pair, .elements = {reg(0), {.kind = Kind::sink}}}));
  EXPECT_EQ(code[2].operands[1], (Operand{.kind = Kind::symbol, .offset = 4, .text = "g"}));
  EXPECT_EQ(code[3].operands[1], (Operand{.kind = Kind::address, .offset = -4, .text = "g"}));
  EXPECT_EQ(code[4].operands[1], (Operand{.kind = Kind::address, .bits = 16}));
  EXPECT_EQ(code[5].operands[1].text, "b0");
  EXPECT_EQ(code[5].operands[2].text, "h1");
  EXPECT_EQ(code[6].operands[1].elements,
            (std::vector<Operand>{{.kind = Kind::vector, .elements = {reg(3), reg(4)}}}));
  EXPECT_EQ(code[7].modifiers,
            (std::vector<std::string>{"global", "L1::no_allocate", "L2::128B", "u32"}));
  EXPECT_EQ(code[8].operands[1].text, "envreg3");
  EXPECT_EQ(code[10].guard, (Guard{.reg = 0, .negated = true}));
}

TEST(Parse, VariablesAndWhatIsInThem) {
  const Module module = parsed(R"(
.visible .global .align 16 .b8 text[6] = {104, 105, 0x21};
.const .align 8 .f64 d = 0d4000000000000000;
.global .f32 m[2][3] = {{1.5, 2}, {0f40400000, -1}};
.global .u32 open[] = {1, 2, 3};
.extern .shared .align 4 .b8 dynamic[];
.shared .v4 .f32 v;
.extern .global .u32 later;
.global .u32 later = 9;
.global .s32 a, b = -2;
.global .u64 p[3] = {text+2, generic(m)+8, 5};
.global .align 8 .b8 packed[17] = {7, 0, 0, 0, 0, 0, 0, 0, 0xFF(text), 0xFF00(text), 0xFF0000(text),
  0xFF000000(text), 0xFF00000000(text), 0xFF0000000000(text), 0xFF000000000000(text),
  0xFF00000000000000(text), 1};
)");
  EXPECT_THAT(names_of(module.variables), ElementsAre("text", "d", "m", "open", "dynamic", "v",
                                                      "later", "a", "b", "p", "packed"));
  const auto& all = module.variables;
  EXPECT_TRUE(all[0].is_visible && all[0].is_array);
  EXPECT_EQ(all[0].alignment, 16U);
  EXPECT_EQ(all[0].count, 6U);
  EXPECT_THAT(all[0].initial, ElementsAre(std::byte{104}, std::byte{105}, std::byte{0x21}));
  EXPECT_EQ(all[1].space, Space::constant);
  EXPECT_EQ(value_at<double>(all[1], 0), 2.0);
  EXPECT_EQ(all[2].count, 6U);
  const std::vector<float> rows = {1.5F, 2, 0, 3, -1};
  for (std::size_t at = 0; at < rows.size(); ++at) EXPECT_EQ(value_at<float>(all[2], at), rows[at]);
  EXPECT_EQ(all[3].count, 3U);
  EXPECT_TRUE(all[4].is_extern && all[4].is_array);
  EXPECT_EQ(all[4].count, 0U);
  EXPECT_EQ(all[5].count, 4U);
  EXPECT_EQ(all[5].alignment, 16U);
  EXPECT_FALSE(all[5].is_array || all[6].is_extern);
  EXPECT_EQ(value_at<std::int32_t>(all[8], 0), -2);
  EXPECT_THAT(all[9].addresses, ElementsAre(Variable::Address{0, "text", 2, false},
                                            Variable::Address{8, "m", 8, true}));
  EXPECT_EQ(value_at<std::uint64_t>(all[9], 2), 5U);
  EXPECT_THAT(all[10].addresses, ElementsAre(Variable::Address{8, "text", 0, false}));
  EXPECT_EQ(all[10].initial.size(), 17U);
}

TEST(Parse, CallsAndPrototypes) {
  const Module module = parsed(R"(
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 a, .param .b64 b);
.func (.param .align 8 .b8 r[16]) later (.param .b32 x) .noreturn;
.weak .entry k()
{ .reg .b64 %rd<3>; .reg .b32 %r<2>;
{ // callseq 0, 0
	.param .b64 param0;
	st.param.b64 	[param0+0], %rd1;
	.param .b32 retval0;
	call.uni (retval0), 
	vprintf, 
	(
	param0, 
	%rd1
	);
	ld.param.b32 %r1, [retval0+0];
}
{
	.param .b64 param0;
	st.param.b64 [param0], %rd2;
	prototype_1 : .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 4 .b8 _[12]);
	call (param0), %rd2, (param0, param0), prototype_1;
}
	call.uni later;
}
.func (.param .align 8 .b8 r[16]) later (.param .b32 x) { ret; }
)");
  ASSERT_EQ(module.functions.size(), 3U);
  EXPECT_TRUE(module.functions[0].is_declared_only);
  EXPECT_FALSE(module.functions[2].is_declared_only);
  const Function& k = module.functions[1];
  EXPECT_THAT(names_of(k.variables), ElementsAre("param0", "retval0", "param0$1"));
  using Kind = Operand::Kind;
  const auto symbol = [](const char* name) { return Operand{.kind = Kind::symbol, .text = name}; };
  EXPECT_EQ(k.code[1].scope, 1);
  EXPECT_THAT(
      k.code[1].operands,
      ElementsAre(Operand{.kind = Kind::list, .elements = {symbol("retval0")}}, symbol("vprintf"),
                  Operand{.kind = Kind::list, .elements = {symbol("param0"), reg(1)}}));
  EXPECT_EQ(k.code[3].operands[0], (Operand{.kind = Kind::address, .text = "param0$1"}));
  EXPECT_EQ(k.code[4].operands[1], reg(2));
  EXPECT_EQ(k.code[4].operands[3], symbol("prototype_1"));
  ASSERT_EQ(k.prototypes.size(), 1U);
  EXPECT_EQ(k.prototypes[0].parameters[1].count, 12U);
  EXPECT_EQ(k.prototypes[0].results[0].type, Type::b32);
  EXPECT_EQ(k.code[5].scope, 0);
}

TEST(Parse, NamesOfNestedScopesBecomeUnique) {
  const Function k = body(R"(.reg .b32 t; .reg .b32 %r<3>; .reg .pred p;
bra DONE;
{ .reg .b32 t, u; LOOP: mov.b32 t, u; @p bra DONE; bra LOOP; DONE: }
{ .reg .b32 t, u; .reg .b32 %r<2>; LOOP: mov.b32 t, %r1; @p bra DONE; bra LOOP;
  DONE: mov.b32 u, %r2; }
DONE: mov.b32 t, %r1;)");
  std::vector<std::string> labels;
  for (const Label& label : k.labels) labels.push_back(label.name);
  EXPECT_THAT(labels, ElementsAre("LOOP", "DONE", "LOOP$1", "DONE$1", "DONE$2"));
  const auto target = [&](std::size_t at) { return k.code.at(at).operands.at(0).text; };
  EXPECT_EQ(target(0), "DONE$2");
  EXPECT_EQ(target(2), "DONE");
  EXPECT_EQ(target(3), "LOOP");
  EXPECT_EQ(target(5), "DONE$1");
  EXPECT_EQ(target(6), "LOOP$1");
  const auto name = [&](std::size_t at, std::size_t item) {
    return k.registers.at(static_cast<std::size_t>(k.code.at(at).operands.at(item).reg)).name;
  };
  EXPECT_EQ(name(1, 0), "t$1");
  EXPECT_EQ(name(1, 1), "u");
  EXPECT_EQ(name(4, 0), "t$2");
  EXPECT_EQ(name(4, 1), "%r1$1");
  EXPECT_EQ(name(7, 1), "%r2");  // the inner range ends in front of it
  EXPECT_EQ(name(8, 0), "t");
  EXPECT_EQ(name(8, 1), "%r1");
}

TEST(Parse, ALocalNameIsNoNameOfTheModule) {
  const Module module = parsed(R"(.global .u32 x;
.entry k() { .reg .b64 %r<2>; { .shared .u32 x; mov.u64 %r1, x; }
  mov.u64 %r1, x; bra later; later: ret; }
.entry later() { ret; })");
  const Function& k = module.functions.at(0);
  EXPECT_EQ(k.code[0].operands[1].text, "x$1");
  EXPECT_EQ(k.code[1].operands[1].text, "x");
  EXPECT_EQ(k.code[2].operands[0].text, "later$1");
  EXPECT_EQ(k.labels[0].name, "later$1");
}

TEST(Parse, ARangeMayFollowADigit) {
  const Function k = body(".reg .b32 %r1<3>; .reg .b32 %r<2>; mov.u32 %r12, %r1;");
  EXPECT_THAT(k.code[0].operands, ElementsAre(reg(2), reg(4)));
}

TEST(Parse, ParametersInRegisters) {
  const Module module = parsed(R"(.func (.reg .b32 r) twice (.reg .b32 a, .param .b64 b)
{ .reg .b32 %t<2>; add.s32 r, a, %t1; ret; })");
  const Function& twice = module.functions.at(0);
  EXPECT_EQ(twice.registers.at(1), (Register{"a", Type::b32}));
  EXPECT_THAT(twice.code[0].operands, ElementsAre(reg(0), reg(1), reg(3)));
  EXPECT_EQ(twice.parameters[1].space, Space::param);
}

TEST(Parse, PointersInParametersSayNothingOfTheParameter) {
  const Module module =
      parsed(".entry k(.param .u64 .ptr .global .align 64 a, .param .align 16 .b8 b[40]) { ret; }");
  const auto& parameters = module.functions.at(0).parameters;
  EXPECT_EQ(parameters[0].alignment, 8U);
  EXPECT_EQ(parameters[1].alignment, 16U);
  EXPECT_EQ(parameters[1].count, 40U);
}

TEST(Parse, BranchTargets) {
  const Function k = body(R"(.reg .b32 %r<2>;
{ $L: mov.u32 %r1, 1; ts: .branchtargets $L, $E; brx.idx %r1, ts; }
$L: ret; $E: ret;)");
  ASSERT_EQ(k.targets.size(), 1U);
  EXPECT_THAT(k.targets[0].labels, ElementsAre("$L", "$E"));
  EXPECT_EQ(k.labels.at(1).name, "$L$1");
}

TEST(Parse, LinesOfTheSource) {
  const Module module = parsed(R"(.file 1 "/tmp/a.cu"
.file 2 "b.cuh", 1700000000, 999
.entry k() { .reg .b32 %r<2>;
.loc 1 12 5
mov.u32 %r1, 1;
.loc 2 7 3, function_name $L__info_string0, inlined_at 1 14 9
mov.u32 %r1, 2; mov.u32 %r1, 3; }
.section .debug_str
{
$L__info_string0:
.b8 123,125 // }
}
.section .debug_info { .b32 1 { } }
.entry j() { ret; })");
  EXPECT_THAT(module.files, ElementsAre("", "/tmp/a.cu", "b.cuh"));
  EXPECT_THAT(module.functions.at(0).locations, ElementsAre(Location{0, 1, 12}, Location{1, 2, 7}));
  EXPECT_EQ(module.functions.size(), 2U);
}

TEST(Parse, DirectivesOfKernels) {
  const Module module = parsed(R"(.pragma "nounroll";
.visible .entry k() .maxntid 64 .reqntid 8, 4 .minnctapersm 2 .maxnreg 32 .reqnctapercluster 2, 1, 1
.explicitcluster .maxclusterrank 8 .pragma "x";
{ .pragma "nounroll"; ret; })");
  EXPECT_THAT(module.functions.at(0).max_threads, ElementsAre(64U, 1U, 1U));
  EXPECT_THAT(module.functions.at(0).required_threads, ElementsAre(8U, 4U, 1U));
}

TEST(Parse, AnAliasIsASecondFunction) {
  const Module module = parsed(R"(.func f(.param .b32 a) { ret; }
.visible .func g(.param .b32 a);
.alias g, f;)");
  ASSERT_EQ(module.functions.size(), 2U);
  EXPECT_EQ(module.functions[1].name, "g");
  EXPECT_FALSE(module.functions[1].is_declared_only);
  EXPECT_EQ(module.functions[1].code.size(), 1U);
}

TEST(Parse, TheNulOfAFatBinaryEndsTheText) {
  const std::string text = kHead + ".entry k() { ret; }" + std::string(5, '\0') + "{{{";
  EXPECT_EQ(parse(text)->functions.size(), 1U);
}

TEST(Parse, RefusalsSayWhereAndWhat) {
  const auto in = [](const std::string& text) { return refusal(".entry k() {\n" + text + "}\n"); };
  EXPECT_EQ(to_string(parse("mov", "a").error()),
            "a:1: expected '.version' at the start, found 'mov'");
  EXPECT_EQ(to_string(parse("", "a").error()),
            "a:1: expected '.version' at the start, found the end");
  EXPECT_EQ(refusal("\nmov;"), "t.ptx:5: expected a directive, found 'mov'");
  EXPECT_EQ(in("ret\n"), "t.ptx:6: expected an operand, found '}'");
  EXPECT_EQ(in("bar.sync 0\n"), "t.ptx:6: expected ';' after an instruction, found '}'");
  EXPECT_EQ(in("mov.u32 %r1, 2;"), "t.ptx:5: register '%r1' is not declared");
  EXPECT_EQ(in("\nbra L;"), "t.ptx:6: 'L' is declared nowhere");
  EXPECT_EQ(in("{ L: } bra L;"), "t.ptx:5: 'L' is declared nowhere");
  EXPECT_EQ(in("ld.u32 _, [x];"), "t.ptx:5: 'x' is declared nowhere");
  EXPECT_EQ(in("L:\nL: ret;"), "t.ptx:6: 'L' is declared twice");
  EXPECT_EQ(in(".reg .b32 %r<4>; .reg .b32 %r3;"), "t.ptx:5: '%r3' is declared twice");
  EXPECT_EQ(in(".reg .b32 %r3; .reg .b32 %r<4>;"), "t.ptx:5: '%r' is declared twice");
  EXPECT_EQ(in(".reg b32 r;"), "t.ptx:5: expected the type of a register, found 'b32'");
  EXPECT_EQ(in("@%p1 ret;"), "t.ptx:5: predicate '%p1' is not declared");
  EXPECT_EQ(in("mov.u32 _, 1/0;"), "t.ptx:5: a constant is divided by zero");
  EXPECT_EQ(in("mov.u32 _, 12abc;"), "t.ptx:5: expected a constant, found '12abc'");
  EXPECT_EQ(in("/* no end"), "t.ptx:5: expected a statement, found '/* no end}?'");
  EXPECT_EQ(refusal(".entry k() { ret;\n"),
            "t.ptx:5: expected '}' at the end of a function, found the end");
  EXPECT_EQ(refusal(".entry k() { ret; } .entry k() { ret; }"), "t.ptx:4: 'k' is declared twice");
  EXPECT_EQ(refusal(".global .u32 a; .global .u32 a;"), "t.ptx:4: 'a' is declared twice");
  EXPECT_EQ(refusal(".global .align 3 .u32 a;"), "t.ptx:4: alignment is no power of two");
  EXPECT_EQ(refusal(".global .u8 a = text;"),
            "t.ptx:4: an address needs 4 or 8 bytes, this is .u8");
  EXPECT_EQ(refusal(".global .u32 a[2] = {1, 2, 3};"),
            "t.ptx:4: more initial values than 'a' has elements");
  EXPECT_EQ(refusal(".global .u32 a[2][2] = {{1, 2, 3}, {4}};"),
            "t.ptx:4: more initial values than the row has elements");
  EXPECT_EQ(refusal(".global .b8 a[9] = {0xFF(k), 1};"), "t.ptx:4: half an address");
  EXPECT_EQ(refusal(".section .debug_info {\n{ }"),
            "t.ptx:4: nothing ends the section that begins here");
}

// A random body of nested scopes, and what each of its names means by a second resolution: a stack
// of maps for registers (index: place of the declaration), places of labels for branches.
struct RandomScopes {
  explicit RandomScopes(std::uint64_t seed) : rng(seed) { scope(0); }

  struct Use {
    std::size_t code = 0;
    int reg = -1;  // or, of a branch, -1
    std::size_t target = 0;
  };
  struct Open {
    std::size_t code = 0;
    std::string label = {};
  };

  Rng rng;
  std::string text = {};
  std::vector<Use> uses = {};
  std::size_t code = 0;
  int registers = 0;
  std::vector<std::map<std::string, int>> names = {};
  std::vector<std::vector<Open>> open = {};

  std::string pick() { return std::string(1, "abcd"[rng.below(4)]); }

  void scope(int depth) {
    std::map<std::string, std::size_t> labels;
    names.emplace_back();
    open.emplace_back();
    for (std::size_t left = 3 + rng.below(12); left > 0; --left) statement(depth, labels);
    names.pop_back();
    const std::vector<Open> branches = std::move(open.back());
    open.pop_back();
    for (const Open& branch : branches) {
      const auto found = labels.find(branch.label);
      if (found != labels.end()) {
        uses.push_back({branch.code, -1, found->second});
      } else if (!open.empty()) {
        open.back().push_back(branch);
      } else {  // the function itself ends with what nobody declared
        text += branch.label + ": ";
        labels[branch.label] = code;
        uses.push_back({branch.code, -1, code});
      }
    }
  }

  void statement(int depth, std::map<std::string, std::size_t>& labels) {
    const std::string name = pick();
    switch (rng.below(6)) {
      case 0:
        if (!names.back().emplace(name, registers).second) return;
        ++registers;
        text += ".reg .b32 " + name + ";\n";
        return;
      case 1:
        if (!labels.emplace("L" + name, code).second) return;
        text += "L" + name + ":\n";
        return;
      case 2:
        open.back().push_back({code++, "L" + name});
        text += "bra L" + name + ";\n";
        return;
      case 3:
        if (depth == 4) return;
        text += "{\n";
        scope(depth + 1);
        text += "}\n";
        return;
      default:
        use(name);
    }
  }

  void use(const std::string& name) {
    for (auto scope = names.rbegin(); scope != names.rend(); ++scope) {
      const auto found = scope->find(name);
      if (found == scope->end()) continue;
      uses.push_back({code++, found->second, 0});
      text += "mov.b32 " + name + ", 1;\n";
      return;
    }
  }
};

TEST(Parse, NamesMeanWhatASecondResolutionSays) {
  for (int round = 0; round < test_rounds(300); ++round) {
    const RandomScopes wanted(static_cast<std::uint64_t>(round));
    const Function k = body(wanted.text);
    ASSERT_EQ(k.code.size(), wanted.code) << wanted.text;
    for (const RandomScopes::Use& use : wanted.uses) {
      const Operand& operand = k.code[use.code].operands.at(0);
      EXPECT_EQ(operand.reg, use.reg) << wanted.text;
      if (use.reg >= 0) continue;
      const auto label = std::find_if(k.labels.begin(), k.labels.end(),
                                      [&](const Label& one) { return one.name == operand.text; });
      ASSERT_NE(label, k.labels.end()) << operand.text;
      EXPECT_EQ(label->at, use.target) << wanted.text;
    }
  }
}

TEST(Parse, WhatIsTooLargeIsRefused) {
  const auto code = [](const std::string& text) {
    const auto module = parse(kHead + text, "t.ptx");
    return module ? ErrorCode::lost : module.error().code;
  };
  EXPECT_EQ(parse(std::string(kMaxPtxBytes + 1, ' ')).error().code, ErrorCode::limit);
  EXPECT_EQ(code(".entry k() { .reg .b32 %r<1000001>; }"), ErrorCode::limit);
  EXPECT_EQ(code(".entry k() { .reg .b32 %r<600000>, %s<600000>; }"), ErrorCode::limit);
  EXPECT_EQ(code(".entry k() " + std::string(70, '{') + std::string(70, '}')), ErrorCode::limit);
  EXPECT_EQ(code(".global .b8 a[1099511627776][1099511627776];"), ErrorCode::limit);
  EXPECT_EQ(code(".global .b8 a[2][1000000000] = {{1}, {2}};"), ErrorCode::limit);
  EXPECT_EQ(code(".global .b8 a = " + std::string(100000, '-') + "1;"), ErrorCode::limit);
  EXPECT_EQ(code(".global .b8 a = " + std::string(100000, '(') + "1;"), ErrorCode::limit);
  EXPECT_EQ(code(".global .b8 a = " + std::string(100000, '{') + "1;"), ErrorCode::limit);
  EXPECT_EQ(code(".file 4000000000 \"a\""), ErrorCode::limit);
  EXPECT_EQ(code(".entry k() { mov.b32 {{{{1}}}}, 2; }"), ErrorCode::bad_input);
  std::string many;
  for (int at = 0; at < 5; ++at) {
    many += ".entry k" + std::to_string(at) + "() { .reg .b32 %r<900000>; }\n";
  }
  EXPECT_EQ(code(many), ErrorCode::limit);
}

}  // namespace
}  // namespace partita::ptx
