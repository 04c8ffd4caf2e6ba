// A PTX module as it was written: what the parser makes and what decoding reads. The parser knows
// the grammar, not the instructions: opcode, modifiers and operands are kept as they stand, and
// decode.h decides what they mean and refuses by name and line what it cannot execute. Values only;
// text is owned by the strings here. Source: PTX ISA 8.x.
// Limits: kMaxPtxBytes of text, kMaxStatements, kMaxRegisters per function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace partita::ptx {

inline constexpr std::size_t kMaxPtxBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxStatements = 4'000'000;  // of a module
inline constexpr std::size_t kMaxRegisters = 1'000'000;   // of a function
inline constexpr std::size_t kMaxNesting = 64;            // of { } scopes

enum class Type : std::uint8_t {
  none,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  tf32,
  f32,
  f64,
  pred,
};
// Bytes of a value in memory; pred and none: 0.
std::size_t size_of(Type type);
std::string to_string(Type type);

enum class Space : std::uint8_t { none, reg, constant, global, local, param, shared };

// A variable in memory: module scope (.global, .const, .shared, extern), or of a function (.param,
// .local, .shared). Arrays: count > 1 or 0 for an unsized one (extern .shared x[]).
struct Variable {
  std::string name = {};
  Space space = Space::none;
  Type type = Type::none;
  std::uint64_t count = 1;  // elements, vectors and dimensions multiplied out
  bool is_array = false;
  std::uint32_t alignment = 0;  // bytes, a power of two; at least the type's
  bool is_extern = false;
  bool is_visible = false;  // .visible or .weak
  // Initial bytes (as many as count x size or fewer, the rest is zero) and addresses inside them.
  std::vector<std::byte> initial = {};
  struct Address {
    std::uint64_t at = 0;  // byte in `initial`
    std::string symbol = {};
    std::int64_t offset = 0;
    bool generic = false;  // generic(symbol)
    bool operator==(const Address&) const = default;
  };
  std::vector<Address> addresses = {};
  int line = 0;
  bool operator==(const Variable&) const = default;
};

struct Operand {
  enum class Kind : std::uint8_t {
    reg,      // a register of the function: `reg`; `negated` for !%p
    special,  // %tid.x, %laneid, %envreg1, ...: name in `text` without the %, with its component
    integer,  // `bits`, two's complement
    f32,      // 0f3F800000: `bits` is the pattern
    f64,      // 0d..., or a decimal with a point: `bits` is the pattern of the double
    symbol,   // a variable, function or label by name: `text` (+ `offset`)
    address,  // [register + offset] (`reg` >= 0), [symbol + offset] (`text`), [number] (`bits`)
    vector,   // {a, b, c, d}: `elements`
    list,     // (a, b, c): arguments or results of a call: `elements`
    pair,     // a|b, two destinations (setp, shfl): `elements`
    sink,     // _
  };
  Kind kind = Kind::sink;
  bool negated = false;  // !%p, or -symbol where PTX has it
  int reg = -1;          // index in Function::registers
  std::uint64_t bits = 0;
  std::int64_t offset = 0;
  std::string text = {};
  std::vector<Operand> elements = {};
  bool operator==(const Operand&) const = default;
};

struct Guard {
  int reg = -1;  // a predicate register
  bool negated = false;
  bool operator==(const Guard&) const = default;
};

struct Instruction {
  std::string opcode = {};  // "ld"
  std::vector<std::string> modifiers =
      {};  // {"global", "nc", "v4", "f32"}: all after the opcode, types too
  std::vector<Operand> operands = {};
  std::optional<Guard> guard = {};
  int line = 0;   // in the text, from 1
  int scope = 0;  // braces around it, 0: the function's own (call sequences open scopes)
  bool operator==(const Instruction&) const = default;
};

struct Register {
  std::string name = {};  // "%r3"
  Type type = Type::none;
  bool operator==(const Register&) const = default;
};

struct Label {
  std::string name = {};
  std::size_t at = 0;  // index in `code` of what follows it; code.size() at the end
  bool operator==(const Label&) const = default;
};

// .branchtargets of brx.idx
struct Targets {
  std::string name = {};
  std::vector<std::string> labels = {};
  bool operator==(const Targets&) const = default;
};
// .callprototype of an indirect call: its parameters as declared.
struct Prototype {
  std::string name = {};
  std::vector<Variable> results = {};
  std::vector<Variable> parameters = {};
  bool operator==(const Prototype&) const = default;
};

// .file and .loc: which source line an instruction comes from.
struct Location {
  std::size_t at = 0;  // index in `code`
  int file = 0;
  int line = 0;
  bool operator==(const Location&) const = default;
};

struct Function {
  std::string name = {};
  bool is_entry = false;          // a kernel
  bool is_declared_only = false;  // no body (extern .func: vprintf, malloc, __assertfail, ...)
  bool is_visible = false;
  std::vector<Variable> results = {};
  std::vector<Variable> parameters = {};
  std::vector<Register> registers = {};  // every register of every scope has its own index
  std::vector<Variable> variables = {};  // .local, .shared, .param of the body, names made unique
  std::vector<Instruction> code = {};
  std::vector<Label> labels = {};
  std::vector<Targets> targets = {};
  std::vector<Prototype> prototypes = {};
  std::vector<Location> locations = {};
  std::uint32_t max_threads[3] = {0, 0, 0};       // .maxntid, 0: not said
  std::uint32_t required_threads[3] = {0, 0, 0};  // .reqntid
  int line = 0;
  bool operator==(const Function&) const = default;
};

struct Module {
  int version_major = 0, version_minor = 0;
  std::string target = {};  // "sm_90"
  int address_size = 64;
  std::vector<Variable> variables = {};
  std::vector<Function> functions = {};  // in order; a declaration that a body follows is dropped
  std::vector<std::string> files = {};   // by number of .file, empty where none
  bool operator==(const Module&) const = default;
};

}  // namespace partita::ptx
