// The state of decoding one kernel; its handlers are spread over the decode_*.cc by kind of
// instruction. An error is kept (the first one) and ends the decoding of the kernel.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ptx/control.h"
#include "ptx/decode.h"
#include "ptx/levels.h"
#include "ptx/module.h"

namespace partita::ptx {

// Marks a slot of the constant registers until finish() knows where they begin.
inline constexpr std::uint32_t kConstantSlot = 0x8000'0000u;

bool is_float(Type type);
bool is_signed(Type type);
bool is_half(Type type);                     // f16, bf16 and their pairs
std::uint32_t register_bytes_of(Type type);  // of one lane; 8-bit values lie in 16 bits
Type type_named(std::string_view name);      // none where it is no type

// The modifiers of an instruction; what no handler takes is refused.
class Modifiers {
 public:
  explicit Modifiers(const std::vector<std::string>& words);
  bool take(std::string_view word);  // whether it is there
  // The first of the words that is there; empty where none is.
  std::string take_any(std::initializer_list<std::string_view> words);
  // The first that begins with this letter and goes on with a digit.
  std::string take_starting(char letter);
  const std::vector<Type>& types() const { return types_; }
  Type type(std::size_t i) const { return i < types_.size() ? types_[i] : Type::none; }
  std::string left() const;  // the first that nobody took

 private:
  std::vector<std::string> words_;
  std::vector<Type> types_;
};

class Decoder {
 public:
  Decoder(const Module& module, const Function& kernel, const Addresses& addresses,
          std::string_view name);
  Result<Program> run();

 private:
  using Handler = void (Decoder::*)();
  struct Symbol {
    enum class What { global, shared, local, kernel_parameter, function } what = What::global;
    std::uint64_t value = 0;
    std::uint32_t bytes = 0;
  };
  struct Frame {  // of one function
    const Function* function = nullptr;
    std::vector<std::uint32_t> slots = {};
    std::map<std::string, Symbol> symbols = {};
    std::map<std::string, std::size_t> labels = {};  // name: index in its code
    std::uint32_t carry_slot = 0;
    std::vector<std::size_t> label_ops = {};  // by index in its code: op after the head
    Callee callee = {};
  };
  struct Fixup {
    std::size_t op = 0;
    std::size_t code = 0;  // index of an instruction of the function
  };

  void refuse(const std::string& what);
  bool failed() const { return error_.has_value(); }

  // Layout (decode.cc)
  void find_functions();
  void visit(const Function& function, std::vector<std::string>& path);
  void lay_out_shared();
  void lay_out(Frame& frame);
  Place place_of(Frame& frame, const Variable& variable);
  void decode_function(Frame& frame);
  void decode_instruction(std::size_t index);
  void finish_guard(std::size_t begin);
  void resolve_targets(Frame& frame);
  void emit_head();
  Program finish();
  std::uint32_t new_slot(std::uint32_t bytes);  // bytes of one lane; 0: a predicate
  std::uint32_t local(std::uint32_t bytes, std::uint32_t alignment);

  // Operands (decode_operands.cc)
  std::uint32_t constant(std::uint64_t bits, std::uint32_t bytes);  // bytes 0: a mask
  std::uint32_t fill(Fill what);
  std::uint32_t temporary(std::uint32_t bytes);
  std::uint32_t source(const Operand& operand, Type type);
  std::uint32_t source(std::size_t i, Type type);
  // A register may be wider than the type (ld, st, cvt): its lower part.
  std::uint32_t loose_source(const Operand& operand, Type type);
  std::uint32_t predicate(const Operand& operand);  // handles !%p by an op
  std::uint32_t special(const Operand& operand, Type type);
  std::uint64_t literal(const Operand& operand, Type type);
  std::uint32_t destination(const Operand& operand, Type type);
  std::uint32_t destination(std::size_t i, Type type);
  std::uint32_t destination_predicate(const Operand& operand);
  std::optional<Symbol> symbol(const std::string& name);
  std::uint32_t register_bytes(const Operand& operand);  // 0 where it is no register
  const Operand& operand(std::size_t i);
  bool count_is(std::size_t count);
  // {destination register of a narrower or wider type}: what to write, and what to do then.
  struct Target {
    std::uint32_t slot = 0;
    std::uint32_t final_slot = 0;
    std::uint32_t from = 0, to = 0;  // bytes
    bool is_signed = false;
  };
  Target loose_destination(const Operand& operand, Type type);
  void settle(const Target& target);
  std::uint32_t resized(std::uint32_t slot, std::uint32_t from, std::uint32_t to, bool is_signed);

  Op& emit(OpFn fn);
  Op& emit(const std::string& name);  // by its name; refused where there is none
  void emit_resize(std::uint32_t to_slot, std::uint32_t from_slot, std::uint32_t to,
                   std::uint32_t from, bool is_signed);
  void round(const std::string& mode);  // for the op emitted next

  // Instructions
  static const std::map<std::string_view, Handler>& handlers();
  void on_arithmetic();  // add sub mul min max div rem: integers and floats
  void on_float1();
  void on_integer1();
  void on_logic();
  void on_fma();
  void on_mad();
  void on_mul24();
  void on_shift();
  void on_funnel();
  void on_count();
  void on_field();
  void on_dot();
  void on_three();  // lop3 prmt fns sad bmsk
  void on_copysign();
  void on_testp();
  void on_carry();
  void on_setp();
  void on_set();
  void on_selp();
  void on_slct();
  void on_cvt();
  void on_mov();
  void on_cvta();
  void on_isspacep();
  void on_ld();
  void on_st();
  void on_atom();
  void on_prefetch();
  void on_cp_async();
  void on_mbarrier();
  void on_nothing();
  void on_bra();
  void on_brx();
  void on_call();
  void on_ret();
  void on_trap();
  void on_bar();
  void on_shfl();
  void on_vote();
  void on_activemask();
  void on_match();
  void on_redux();
  void on_elect();
  void on_mma();
  void on_wmma();
  void on_ldmatrix();

  // Pieces of them
  void half_arithmetic(const std::string& base, std::size_t sources, Type type);
  void float_arithmetic(const std::string& base, std::size_t sources, Type type);
  std::string comparison();
  void compare_into(std::uint32_t p, std::uint32_t q, const std::string& how, Type type);
  struct Step {  // of a conversion
    std::string name = {};
    std::uint32_t bytes = 0;
    std::string rounding = {};
  };
  void cvt_pair(Type to);
  void cvt_chain(std::uint32_t from, const Target& to, const std::vector<Step>& steps);
  std::vector<Step> cvt_steps(Type to, Type from);
  void mov_vector();
  struct Address {
    Space space = Space::none;  // global stands for generic too
    bool is_generic = false;
    std::uint32_t slot = 0;
    std::int64_t offset = 0;
    bool is_wide = true;
    bool is_static = false;
    bool is_parameter = false;  // a kernel's, at `offset`
  };
  Address address(const Operand& operand, Space space);
  Address symbol_address(const Operand& operand, Space space);
  void access(bool is_load);
  Space take_space(bool& generic);
  void take_memory_words();
  void finish_access(Op& op, const Address& where, std::uint32_t size, bool strong);
  // `old`: where the value before goes.
  void emit_atomic(OpFn fn, const Address& where, std::uint32_t b, std::uint32_t c,
                   std::optional<std::uint32_t> old, std::uint32_t size);
  // Barriers in memory (decode_mbarrier.cc)
  Address barrier_address(std::size_t i);
  void emit_barrier(control::Atomic what, const Address& where, std::uint32_t value,
                    std::optional<std::uint32_t> old);
  std::uint32_t count_source(std::size_t i);
  void barrier_arrive(bool drops);
  void barrier_test();
  std::uint32_t generic_address(const Address& where);
  void emit_copy(std::uint32_t piece, std::uint32_t have, std::uint32_t want);
  void bulk_copy();
  void arrive_of_copies();
  // Matrices (decode_matrix.cc)
  Fragment fragment(std::size_t i, Role role, Element element, std::uint32_t rows,
                    std::uint32_t columns, bool native, bool written);
  void meet_all_lanes();
  void emit_matrix(OpFn fn, MatrixOp what, std::uint32_t address, std::uint32_t flags);
  void multiply(bool native);
  void load_parameter(const Address& where, const Operand& to, Type type);
  Place call_place(const Operand& operand);
  void barrier_reduction(const std::string& what, std::uint32_t aligned);

  const Module& module_;
  const Function& kernel_;
  const Addresses& addresses_;
  std::string name_;
  const OpNames& ops_;
  std::optional<Error> error_ = {};
  Program program_ = {};
  std::vector<Frame> frames_ = {};
  std::map<std::string, std::size_t> frame_named_ = {};
  std::vector<std::size_t> order_ = {};  // of frames: callees before callers
  std::map<std::string, Symbol> shared_ = {};
  bool has_indirect_ = false;
  Frame* frame_ = nullptr;
  const Instruction* now_ = nullptr;
  std::optional<Modifiers> words_ = {};
  std::vector<Fixup> fixups_ = {};
  std::vector<std::vector<std::size_t>> table_labels_ = {};
  std::uint32_t ordinal_ = 0;
  std::uint32_t next_slot_ = 64, next_predicate_ = 64;  // slot 0 stands for none
  std::uint32_t next_local_ = 0;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> constants_ = {};
  std::map<Fill, std::uint32_t> fills_ = {};
  std::uint32_t constant_predicates_ = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> parameter_slots_ = {};
  std::vector<std::uint32_t> temporaries_[4] = {};
  std::size_t used_temporaries_[4] = {};
};

}  // namespace partita::ptx
