// The functions of a kernel's program: which it may call, where their registers and variables lie,
// what their names stand for.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ptx/decode.h"
#include "ptx/register_file.h"

namespace partita::ptx {

struct Symbol {
  // framed: local memory of an activation, from the frame's beginning.
  enum class What { global, shared, local, framed, kernel_parameter, function } what = What::global;
  std::uint64_t value = 0;
  std::uint32_t bytes = 0;
};

// What decoding knows of one function.
struct FunctionFrame {
  const Function* function = nullptr;
  std::int64_t number = -1;  // in Program::callees; -1: the kernel
  std::vector<std::uint32_t> slots = {};
  std::map<std::string, Symbol> symbols = {};
  std::map<std::string, std::size_t> labels = {};  // name: index in its code
  std::uint32_t carry_slot = 0;
  std::vector<ArrayBounds> bases = {};  // of addresses in registers
  std::vector<std::size_t> label_ops = {};  // by index in its code: op after the head
  Callee callee = {};
  std::set<std::string> calls = {};  // by name
  struct Jump {
    std::size_t op = 0;
    std::size_t code = 0;  // index of an instruction of the function
  };
  std::vector<Jump> jumps = {};                       // targets of ops that are open
  std::vector<std::vector<std::size_t>> tables = {};  // the same of tables
};

class FunctionFrames {
 public:
  FunctionFrames(const Module& module, const Addresses& addresses, FirstRefusal& refusal)
      : module_(module), addresses_(addresses), refusal_(refusal) {}

  // Finds all functions and lays them out. The kernel is the first of all().
  void lay_out(const Function& kernel, Program& program, RegisterFile& registers);
  std::vector<FunctionFrame>& all() { return frames_; }
  // Of all(): callees before callers.
  const std::vector<std::size_t>& order() const { return order_; }
  bool has_shared() const { return !shared_.empty(); }
  const FunctionFrame* named(const std::string& function) const;
  std::optional<Symbol> symbol(const FunctionFrame& frame, const std::string& name) const;
  // Index in the module of a frame's function.
  std::size_t index(const FunctionFrame& frame) const;

 private:
  void visit(const Function& function);
  void visit_callee(std::size_t caller, const Operand& callee);
  bool reaches_itself(const FunctionFrame& frame) const;
  void lay_out_shared(Program& program);
  void lay_out_frame(FunctionFrame& frame, RegisterFile& registers) const;
  void lay_out_activation(FunctionFrame& frame, RegisterFile& registers) const;

  const Module& module_;
  const Addresses& addresses_;
  FirstRefusal& refusal_;
  std::vector<FunctionFrame> frames_ = {};
  std::map<std::string, std::size_t> named_ = {};
  std::vector<std::size_t> order_ = {};
  std::map<std::string, Symbol> shared_ = {};
  bool has_indirect_ = false;
};

}  // namespace partita::ptx
