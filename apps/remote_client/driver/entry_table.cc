// cuGetProcAddress: functions by name, version and flag. The version is the program's: an older one
// gets the function that had this name then.
#include <string_view>

#include "driver.h"

// Only their addresses are needed here.
#define ENTRY(name, since, function, per_thread) extern "C" void function();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
namespace partita::remote::shim::entries {
#include "entries.inc"
#undef ENTRY
#define ENTRY(name, since, function, per_thread) extern "C" void per_thread();
#include "entries.inc"
#undef ENTRY
}  // namespace partita::remote::shim::entries
#pragma GCC diagnostic pop

namespace partita::remote::shim {
namespace {

struct Entry {
  std::string_view name;
  int since;
  void (*function)();
  void (*per_thread)();
};

constexpr Entry kEntries[] = {
#define ENTRY(name, since, function, per_thread) \
  {#name, since, entries::function, entries::per_thread},
#include "entries.inc"
#undef ENTRY
};

enum Found { kFound, kNoSuchName, kTooOld };

// The newest function of the name that is not newer than `version`.
Found look_up(std::string_view name, void** function, int version, std::uint64_t flags) {
  constexpr std::uint64_t kPerThread = 2;
  const Entry* best = nullptr;
  bool known = false;
  for (const Entry& entry : kEntries) {
    if (entry.name != name) continue;
    known = true;
    if (entry.since > version) continue;
    if (best == nullptr || entry.since >= best->since) best = &entry;
  }
  if (best == nullptr) return known ? kTooOld : kNoSuchName;
  *function =
      reinterpret_cast<void*>((flags & kPerThread) != 0 ? best->per_thread : best->function);
  return kFound;
}

}  // namespace
}  // namespace partita::remote::shim

CUDA_EXPORT int cuGetProcAddress(const char* symbol, void** function, int version,
                                 std::uint64_t flags);

CUDA_EXPORT int cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                    std::uint64_t flags, int* result) {
  namespace client = partita::remote::client;
  namespace shim = partita::remote::shim;
  if (symbol == nullptr || function == nullptr) return client::kInvalidValue;
  *function = nullptr;
  if (std::string_view(symbol) == "cuGetProcAddress") {
    constexpr int kWithResult = 12000;
    *function = version >= kWithResult ? reinterpret_cast<void*>(&cuGetProcAddress_v2)
                                       : reinterpret_cast<void*>(&cuGetProcAddress);
    if (result != nullptr) *result = shim::kFound;
    return client::kOk;
  }
  const shim::Found found = shim::look_up(symbol, function, version, flags);
  if (result != nullptr) *result = found;
  return found == shim::kFound ? client::kOk : client::kNotFound;
}

CUDA_EXPORT int cuGetProcAddress(const char* symbol, void** function, int version,
                                 std::uint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}
