#include "ptx/link.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ptx/parse.h"

namespace partita::ptx {
namespace {

// The device's side of CUDA's runtime, as far as it is more than a launch (exec_calls.cc). Streams
// are kept in order by running everything in order; a copy is a launch.
constexpr std::string_view kDeviceRuntime = R"(.version 8.0
.target sm_50
.address_size 64
.extern .func (.param .b64 r) malloc (.param .b64 a);
.extern .func free (.param .b64 a);
.extern .func (.param .b64 r) __cudaCDP2GetParameterBufferV2 (.param .b64 a,
    .param .align 4 .b8 b[12], .param .align 4 .b8 c[12], .param .b32 d);
.extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2 (.param .b64 a, .param .b64 b);
.global .align 1 .b8 partita_no_error[9] = {110, 111, 32, 101, 114, 114, 111, 114, 0};
.visible .func (.param .b32 r) __cudaCDP2GetLastError () { st.param.b32 [r], 0; ret; }
.visible .func (.param .b32 r) __cudaCDP2PeekAtLastError () { st.param.b32 [r], 0; ret; }
.visible .func (.param .b64 r) __cudaCDP2GetErrorString (.param .b32 a) {
  .reg .b64 %d;
  mov.u64 %d, partita_no_error; cvta.global.u64 %d, %d; st.param.b64 [r], %d; ret;
}
.visible .func (.param .b32 r) __cudaCDP2StreamCreateWithFlags (.param .b64 a, .param .b32 b) {
  .reg .b64 %d;
  ld.param.b64 %d, [a]; st.u64 [%d], 16; st.param.b32 [r], 0; ret;
}
.visible .func (.param .b32 r) __cudaCDP2StreamDestroy (.param .b64 a) { st.param.b32 [r], 0; ret; }
.visible .func (.param .b32 r) __cudaCDP2Malloc (.param .b64 a, .param .b64 b) {
  .reg .b64 %d<3>; .reg .b32 %n; .reg .pred %p;
  ld.param.b64 %d0, [a]; ld.param.b64 %d1, [b];
  { .param .b64 p0; st.param.b64 [p0], %d1; .param .b64 v; call.uni (v), malloc, (p0);
    ld.param.b64 %d2, [v]; }
  st.u64 [%d0], %d2;
  setp.eq.u64 %p, %d2, 0;
  selp.u32 %n, 2, 0, %p;
  st.param.b32 [r], %n; ret;
}
.visible .func (.param .b32 r) __cudaCDP2Free (.param .b64 a) {
  .reg .b64 %d;
  ld.param.b64 %d, [a];
  { .param .b64 p0; st.param.b64 [p0], %d; call.uni free, (p0); }
  st.param.b32 [r], 0; ret;
}
.entry partita_device_copy (.param .u64 to, .param .u64 from, .param .u64 bytes) {
  .reg .b64 %d<5>; .reg .b32 %n<3>; .reg .b16 %h; .reg .pred %p;
  ld.param.u64 %d0, [to]; ld.param.u64 %d1, [from]; ld.param.u64 %d2, [bytes];
  mov.u32 %n0, %ctaid.x; mov.u32 %n1, %tid.x; mov.u32 %n2, %ntid.x;
  mul.wide.u32 %d3, %n0, %n2; cvt.u64.u32 %d4, %n1; add.u64 %d3, %d3, %d4;
  setp.ge.u64 %p, %d3, %d2;
  @%p ret;
  add.u64 %d0, %d0, %d3; add.u64 %d1, %d1, %d3;
  ld.u8 %h, [%d1]; st.u8 [%d0], %h; ret;
}
.visible .func (.param .b32 r) __cudaCDP2MemcpyAsync (.param .b64 a, .param .b64 b,
    .param .b64 c, .param .b32 k, .param .b64 s) {
  .reg .b64 %d<7>; .reg .b32 %n; .reg .pred %p;
  ld.param.b64 %d0, [a]; ld.param.b64 %d1, [b]; ld.param.b64 %d2, [c]; ld.param.b64 %d3, [s];
  st.param.b32 [r], 0;
  setp.eq.u64 %p, %d2, 0;
  @%p ret;
  add.u64 %d4, %d2, 255; shr.u64 %d4, %d4, 8; cvt.u32.u64 %n, %d4;
  mov.u64 %d5, partita_device_copy;
  { .param .b64 p0; st.param.b64 [p0], %d5;
    .param .align 4 .b8 p1[12]; st.param.b32 [p1], %n; st.param.b32 [p1+4], 1;
    st.param.b32 [p1+8], 1;
    .param .align 4 .b8 p2[12]; st.param.b32 [p2], 256; st.param.b32 [p2+4], 1;
    st.param.b32 [p2+8], 1;
    .param .b32 p3; st.param.b32 [p3], 0;
    .param .b64 v; call.uni (v), __cudaCDP2GetParameterBufferV2, (p0, p1, p2, p3);
    ld.param.b64 %d6, [v]; }
  st.u64 [%d6], %d0; st.u64 [%d6+8], %d1; st.u64 [%d6+16], %d2;
  { .param .b64 p0; st.param.b64 [p0], %d6; .param .b64 p1; st.param.b64 [p1], %d3;
    .param .b32 v; call.uni (v), __cudaCDP2LaunchDeviceV2, (p0, p1); }
  ret;
}
)";

// Where a module begins: .version as the first word of a line.
std::vector<std::size_t> beginnings(std::string_view text) {
  std::vector<std::size_t> found;
  for (std::size_t at = 0; (at = text.find(".version", at)) != text.npos; ++at)
    if (at == 0 || text[at - 1] == '\n') found.push_back(at);
  return found;
}

class Linker {
 public:
  explicit Linker(Module first) : all_(std::move(first)) {}

  Result<void> add(Module unit) {
    rename_own(unit);
    for (Variable& variable : unit.variables) TRY(add(std::move(variable)));
    for (Function& function : unit.functions) add(std::move(function));
    return {};
  }
  Module take() { return std::move(all_); }

 private:
  void rename_own(Module& unit);
  Result<void> add(Variable variable);
  void add(Function function);

  Module all_;
  int units_ = 1;
};

// What only the unit sees and another has, too.
void Linker::rename_own(Module& unit) {
  std::set<std::string> theirs;
  for (const Variable& variable : all_.variables) theirs.insert(variable.name);
  for (const Function& function : all_.functions) theirs.insert(function.name);
  std::map<std::string, std::string> renamed;
  const auto look_at = [&](const std::string& name, bool is_own) {
    if (is_own && theirs.contains(name)) renamed[name] = name + "$u" + std::to_string(units_);
  };
  ++units_;
  for (const Variable& variable : unit.variables)
    look_at(variable.name, !variable.is_visible && !variable.is_extern);
  for (const Function& function : unit.functions)
    look_at(function.name, !function.is_visible && !function.is_declared_only);
  if (!renamed.empty()) rename_symbols(unit, renamed);
}

Result<void> Linker::add(Variable variable) {
  const auto there = std::ranges::find(all_.variables, variable.name, &Variable::name);
  if (there == all_.variables.end()) {
    all_.variables.push_back(std::move(variable));
  } else if (there->is_extern && !variable.is_extern) {
    *there = std::move(variable);
  } else if (!variable.is_extern && there->count != variable.count) {
    return failed({ErrorCode::bad_input, "'" + variable.name + "' is defined with two sizes", {}});
  }
  return {};
}

void Linker::add(Function function) {
  const auto there = std::ranges::find(all_.functions, function.name, &Function::name);
  if (there == all_.functions.end())
    all_.functions.push_back(std::move(function));
  else if (there->is_declared_only && !function.is_declared_only)
    *there = std::move(function);
}

}  // namespace

Result<Module> parse_linked(std::string_view text, std::string_view name) {
  const std::vector<std::size_t> starts = beginnings(text);
  const bool launches = text.find("__cudaCDP2") != text.npos;
  if (starts.size() < 2 && !launches) return parse(text, name);
  auto first = TRY(parse(text.substr(0, starts.size() < 2 ? text.npos : starts[1]), name));
  Linker linker(std::move(first));
  const auto add = [&](std::string_view unit, std::string_view of) -> Result<void> {
    auto parsed = TRY(parse(unit, of));
    return linker.add(std::move(parsed));
  };
  for (std::size_t i = 1; i < starts.size(); ++i) {
    const std::string_view before = text.substr(0, starts[i]);
    std::string unit(static_cast<std::size_t>(std::ranges::count(before, '\n')), '\n');
    unit +=
        text.substr(starts[i], (i + 1 < starts.size() ? starts[i + 1] : text.size()) - starts[i]);
    if (auto added = add(unit, name); !added) return failed(added.error());
  }
  if (launches) TRY(add(kDeviceRuntime, "device runtime"));
  return linker.take();
}

}  // namespace partita::ptx
