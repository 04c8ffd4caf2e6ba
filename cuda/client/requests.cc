// Where the program's requests end: it calls partita_request() or, where it is instrumented with
// NVTX 3, at the end of each outermost range of a thread. NVTX's headers load this library because
// NVTX_INJECTION64_PATH names it, and call InitializeInjectionNvtx2; its tables are restated here
// (nvtx3/nvtxDetail/nvtxTypes.h).
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "client/session.h"

namespace {

thread_local int depth = 0;

int begin_range() { return depth++; }
int end_range() {
  if (depth > 0 && --depth == 0) partita::remote::client::session().request_ended();
  return depth;
}
int push(const void*) { return begin_range(); }
int pop() { return end_range(); }
int push_domain(void*, const void*) { return begin_range(); }
int pop_domain(void*) { return end_range(); }

using Function = void (*)();
struct Callbacks {
  std::size_t bytes;
  int (*table)(int module, Function*** places, unsigned* count);
};
struct Entry {
  unsigned number;
  Function function;
};

// Puts our functions into a table of NVTX's.
bool set(const Callbacks& callbacks, int module, std::span<const Entry> entries) {
  Function** places = nullptr;
  unsigned count = 0;
  if (callbacks.table(module, &places, &count) == 0) return false;
  for (const Entry& entry : entries)
    if (entry.number < count && places[entry.number] != nullptr)
      *places[entry.number] = entry.function;
  return true;
}

template <class F>
Function plain(F* function) {
  return reinterpret_cast<Function>(function);
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] void partita_request() {
  partita::remote::client::session().request_ended();
}

[[gnu::visibility("default")]] int InitializeInjectionNvtx2(
    const void* (*export_table)(std::uint32_t)) {
  constexpr std::uint32_t kCallbacks = 1;
  constexpr int kCore = 1, kCore2 = 5;
  const auto* callbacks = static_cast<const Callbacks*>(export_table(kCallbacks));
  if (callbacks == nullptr || callbacks->bytes < sizeof(Callbacks)) return 0;
  const std::array core = {Entry{8, plain(push)}, Entry{9, plain(push)}, Entry{10, plain(push)},
                           Entry{11, plain(pop)}};
  const std::array domains = {Entry{4, plain(push_domain)}, Entry{5, plain(pop_domain)}};
  return set(*callbacks, kCore, core) && set(*callbacks, kCore2, domains) ? 1 : 0;
}

}  // extern "C"
