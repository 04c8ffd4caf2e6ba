// Random kernels - any control flow, guards, divergence within warps - run by the machine and by a
// reference that knows nothing of warps: it interprets the parsed text one thread after another.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "ptx/parse.h"
#include "ptx/testing/machine_fixture.h"

namespace partita::ptx {
namespace {

constexpr std::uint32_t kRegisters = 8, kPredicates = 4, kWords = 4;

// Text of a random kernel. Each thread has kWords words of memory of its own; %r20 is the fuel that
// ends every loop.
class Author {
 public:
  explicit Author(Rng& rng) : rng_(rng) {}

  std::string kernel() {
    const std::uint64_t blocks = 2 + rng_.below(9);
    std::string text =
        ".visible .entry k(.param .u64 memory) {\n"
        ".reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %rd<10>;\n"
        "ld.param.u64 %rd1, [memory];\nmov.u32 %r30, %ctaid.x;\nmov.u32 %r31, %ntid.x;\n"
        "mov.u32 %r32, %tid.x;\nmad.lo.u32 %r33, %r30, %r31, %r32;\nmul.wide.u32 %rd2, %r33, 16;\n"
        "add.u64 %rd3, %rd1, %rd2;\nmov.u32 %r20, " +
        std::to_string(5 + rng_.below(300)) + ";\n";
    for (std::uint32_t i = 0; i < kRegisters; ++i)
      text += "mul.lo.u32 %r" + std::to_string(i) + ", %r33, " + std::to_string(rng_.below(1000)) +
              ";\n";
    for (std::uint32_t i = 0; i < kPredicates; ++i)
      text += "setp.lt.u32 %p" + std::to_string(i) + ", %r32, " + std::to_string(rng_.below(40)) +
              ";\n";
    for (std::uint64_t b = 0; b < blocks; ++b) {
      text += "B" + std::to_string(b) +
              ":\nsub.u32 %r20, %r20, 1;\nsetp.eq.u32 %p7, %r20, 0;\n@%p7 bra END;\n";
      for (std::uint64_t i = rng_.below(7); i > 0; --i) text += instruction();
      text += leave(blocks);
    }
    return text + "END:\nst.global.u32 [%rd3], %r0;\nst.global.u32 [%rd3+4], %r1;\nret;\n}\n";
  }

 private:
  std::string r() { return "%r" + std::to_string(rng_.below(kRegisters)); }
  std::string p() { return "%p" + std::to_string(rng_.below(kPredicates)); }
  std::string value() { return rng_.below(3) == 0 ? std::to_string(rng_.below(64)) : r(); }

  std::string instruction() {
    static const char* kOps[] = {"add.u32", "sub.u32", "mul.lo.u32", "xor.b32",
                                 "and.b32", "or.b32",  "shl.b32",    "shr.u32"};
    static const char* kCompares[] = {"eq", "ne", "lt", "gt"};
    const std::string guard =
        rng_.below(4) == 0 ? std::string("@") + (rng_.below(2) == 0 ? "!" : "") + p() + " " : "";
    switch (rng_.below(8)) {
      case 0:
        return guard + "setp." + kCompares[rng_.below(4)] + ".u32 " + p() + ", " + r() + ", " +
               value() + ";\n";
      case 1:
        return guard + "selp.u32 " + r() + ", " + r() + ", " + value() + ", " + p() + ";\n";
      case 2:
        return guard + "ld.global.u32 " + r() + ", [%rd3+" + word() + "];\n";
      case 3:
        return guard + "st.global.u32 [%rd3+" + word() + "], " + r() + ";\n";
      default:
        return guard + kOps[rng_.below(8)] + " " + r() + ", " + r() + ", " + value() + ";\n";
    }
  }
  std::string word() { return std::to_string(4 * rng_.below(kWords)); }
  std::string label(std::uint64_t blocks) { return "B" + std::to_string(rng_.below(blocks)); }
  std::string leave(std::uint64_t blocks) {
    const std::string to = label(blocks);
    switch (rng_.below(6)) {
      case 0:
        return "bra " + to + ";\n";
      case 1:
        return "@" + p() + " bra " + to + ";\nbra " + label(blocks) + ";\n";
      case 2:
        return rng_.below(4) == 0 ? "@" + p() + " exit;\n" : "";
      case 3:
        return "";
      default:
        return std::string("@") + (rng_.below(2) == 0 ? "!" : "") + p() + " bra " + to + ";\n";
    }
  }

  Rng& rng_;
};

// One thread, instruction by instruction, from the parsed text.
class Reference {
 public:
  Reference(const Function& kernel, std::vector<std::uint32_t>& memory, std::uint32_t block,
            std::uint32_t threads, std::uint32_t thread)
      : kernel_(kernel), memory_(memory), registers_(kernel.registers.size()) {
    special_ = {{"ctaid.x", block}, {"ntid.x", threads}, {"tid.x", thread}};
    for (const Label& label : kernel.labels) labels_[label.name] = label.at;
  }

  void run() {
    for (std::size_t pc = 0; pc < kernel_.code.size();) {
      const Instruction& now = kernel_.code[pc];
      const bool holds = !now.guard || (registers_[static_cast<std::size_t>(now.guard->reg)] !=
                                        0) != now.guard->negated;
      ++pc;
      if (!holds) continue;
      if (now.opcode == "ret" || now.opcode == "exit") return;
      if (now.opcode == "bra") {
        pc = labels_.at(now.operands[0].text);
        continue;
      }
      step(now);
    }
  }

 private:
  std::uint64_t value(const Operand& operand) const {
    if (operand.kind == Operand::Kind::reg)
      return registers_[static_cast<std::size_t>(operand.reg)];
    if (operand.kind == Operand::Kind::special) return special_.at(operand.text);
    return operand.bits;
  }
  std::size_t place(const Operand& address) const {
    return (registers_[static_cast<std::size_t>(address.reg)] +
            static_cast<std::uint64_t>(address.offset)) /
           4;
  }
  void step(const Instruction& now) {
    const std::string& op = now.opcode;
    if (op == "st") {
      memory_.at(place(now.operands[0])) = static_cast<std::uint32_t>(value(now.operands[1]));
      return;
    }
    std::uint64_t& d = registers_[static_cast<std::size_t>(now.operands[0].reg)];
    const auto a = now.operands.size() > 1 && op != "ld" ? value(now.operands[1]) : 0;
    const auto b = now.operands.size() > 2 ? value(now.operands[2]) : 0;
    const auto c = now.operands.size() > 3 ? value(now.operands[3]) : 0;
    const auto low = [](std::uint64_t bits) { return bits & 0xffffffffu; };
    const auto x = low(a), y = low(b);
    const bool wide = now.modifiers.back() == "u64";
    if (op == "ld") d = now.modifiers[0] == "param" ? 0 : memory_.at(place(now.operands[1]));
    if (op == "mov") d = a;
    if (op == "add") d = wide ? a + b : low(a + b);
    if (op == "sub") d = low(a - b);
    if (op == "mul") d = now.modifiers[0] == "wide" ? x * y : low(x * y);
    if (op == "mad") d = low(x * y + c);
    if (op == "xor") d = x ^ y;
    if (op == "and") d = x & y;
    if (op == "or") d = x | y;
    if (op == "shl") d = y > 31 ? 0 : low(x << y);
    if (op == "shr") d = y > 31 ? 0 : x >> y;
    if (op == "selp") d = c != 0 ? x : y;
    if (op == "setp") {
      const std::string& how = now.modifiers[0];
      d = how == "eq" ? x == y : how == "ne" ? x != y : how == "lt" ? x < y : x > y;
    }
  }

  const Function& kernel_;
  std::vector<std::uint32_t>& memory_;
  std::vector<std::uint64_t> registers_;
  std::map<std::string, std::uint32_t> special_;
  std::map<std::string, std::size_t> labels_;
};

TEST(Divergence, AnyControlFlowGivesWhatThreadsAloneGive) {
  Rng rng(11);
  for (int round = 0; round < test_rounds(80); ++round) {
    const std::string text = Author(rng).kernel();
    const std::uint32_t blocks = 1 + static_cast<std::uint32_t>(rng.below(2));
    const std::uint32_t threads = 1 + static_cast<std::uint32_t>(rng.below(96));
    std::vector<std::uint32_t> memory(blocks * threads * kWords);
    for (std::uint32_t& word : memory) word = static_cast<std::uint32_t>(rng.below(100));
    Device device(text, 1 << 20);
    const std::uint64_t at = device.upload(memory);
    const auto run = device.run("k", {blocks}, {threads}, Parameters().add(at));
    ASSERT_TRUE(run->faults().empty()) << to_text(run->faults()[0]) << text;
    const auto module = parse(".version 7.8\n.target sm_80\n.address_size 64\n" + text);
    ASSERT_TRUE(module);
    for (std::uint32_t block = 0; block < blocks; ++block)
      for (std::uint32_t thread = 0; thread < threads; ++thread)
        Reference(module->functions.at(0), memory, block, threads, thread).run();
    ASSERT_EQ(device.download<std::uint32_t>(at, memory.size()), memory)
        << blocks << " blocks of " << threads << "\n"
        << text;
  }
}

}  // namespace
}  // namespace partita::ptx
