// The registers of a kernel and the functions it calls: slots of the register file of a warp for
// registers, temporaries and what is constant in a launch, and the threads' local memory.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ptx/program.h"

namespace partita::ptx {

// Why a kernel cannot be decoded: the first reason is kept, with the instruction at hand.
struct FirstRefusal {
  std::string module = {};
  int line = 0;  // of the kernel
  const Instruction* now = nullptr;
  std::optional<Error> error = {};
  void refuse(const std::string& what);
};

class RegisterFile {
 public:
  RegisterFile(Program& program, FirstRefusal& refusal) : program_(program), refusal_(refusal) {}

  std::uint32_t add(std::uint32_t bytes);  // bytes of one lane; 0: a predicate
  std::uint32_t add_local(std::uint32_t bytes, std::uint32_t alignment);
  std::uint32_t local_bytes() const { return next_local_; }
  std::uint32_t constant(std::uint64_t bits, std::uint32_t bytes);  // bytes 0: a mask
  std::uint32_t fill(Fill what);
  // A kernel's parameter at a fixed place: a register that the launch fills.
  std::uint32_t parameter(std::uint32_t offset, Type type);
  std::uint32_t temporary(std::uint32_t bytes);  // until the next instruction
  void free_temporaries();
  void use_stack();  // of calls, behind the other local memory
  // Constants move behind the other registers, in all of the program.
  void finish();

 private:
  std::uint32_t add_constant(std::size_t bytes);  // zeros

  Program& program_;
  FirstRefusal& refusal_;
  std::uint32_t next_slot_ = 64, next_predicate_ = 64;  // slot 0 stands for none
  std::uint32_t next_local_ = 0;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> constants_ = {};
  std::map<Fill, std::uint32_t> fills_ = {};
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> parameters_ = {};
  std::vector<std::uint32_t> temporaries_[4] = {};
  std::size_t used_temporaries_[4] = {};
};

}  // namespace partita::ptx
