#include "real.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace partita::lanes_hip {
namespace {

using abi::Status;

// A program may have loaded HIP where dlsym(RTLD_NEXT) does not look.
void* loaded_hip() {
  for (const char* file : {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6",
                           "libamdhip64.so.5", "/opt/rocm/lib/libamdhip64.so"})
    if (void* handle = dlopen(file, RTLD_NOW | RTLD_NOLOAD)) return handle;
  return nullptr;
}

[[noreturn]] void give_up(const Error& error) {
  std::fflush(nullptr);
  fmt::print(stderr, "partita lanes: {}\n", to_string(error));
  std::_Exit(3);
}

std::string hip_file() {
  Dl_info info{};
  void* function = real_function("hipStreamWaitEvent");
  return function && dladdr(function, &info) != 0 && info.dli_fname ? info.dli_fname : "";
}

std::atomic<Router*> made = nullptr;

void tell() {
  const std::string text =
      fmt::format("partita lanes: {}: {}\n", names_of_environment().worker, made.load()->told());
  const char* file = std::getenv("PARTITA_KERNEL_STATS");
  std::FILE* out = file && *file ? std::fopen(file, "a") : nullptr;
  std::fputs(text.c_str(), out ? out : stderr);
  if (out) std::fclose(out);
}

// Never destroyed: HIP may be gone before.
Router* make_router() {
  RealFiles files;
  const auto planned = read_planned_lanes(files, names_of_environment());
  if (!planned) give_up(planned.error());
  const StreamApi api{real<Status(abi::Stream, unsigned*)>("hipStreamGetFlags"),
                      real<Status(int*)>("hipGetDevice")};
  if (!api.get_flags || !api.get_device)
    give_up({ErrorCode::environment, "this HIP has no hipStreamGetFlags", "libamdhip64"});
  auto router = Router::open(*planned, hip_file(), api);
  if (!router) give_up(router.error());
  made = router->release();
  std::atexit(tell);
  return made;
}

struct Names {
  std::mutex mutex;
  std::unordered_map<const void*, std::string> all;
};
Names& names() {
  static auto& kept = *new Names;  // programs register kernels before main(), and end after it
  return kept;
}

}  // namespace

void* real_function(const char* name) {
  if (void* next = dlsym(RTLD_NEXT, name)) return next;
  static void* const hip = loaded_hip();
  return hip ? dlsym(hip, name) : nullptr;
}

void* our_function(const char* name) {
  Dl_info ours{}, found{};
  void* function = dlsym(RTLD_DEFAULT, name);
  if (!function || dladdr(function, &found) == 0) return nullptr;
  dladdr(reinterpret_cast<void*>(&our_function), &ours);
  return found.dli_fbase == ours.dli_fbase ? function : nullptr;
}

Router* router_if_any() { return made.load(std::memory_order_acquire); }

Router& router() {
  if (Router* there = router_if_any()) return *there;
  static Router* const one = make_router();
  return *one;
}

void name_kernel(const void* function, const char* name) {
  const std::lock_guard lock(names().mutex);
  names().all[function] = name;
}

std::string kernel_name(const void* function, bool of_module) {
  const std::lock_guard lock(names().mutex);
  std::string& name = names().all[function];
  if (!name.empty()) return name;
  const char* said = nullptr;
  if (auto* ask = of_module ? real<const char*(const void*)>("hipKernelNameRef") : nullptr)
    said = ask(function);
  if (auto* ask = of_module ? nullptr
                            : real<const char*(const void*, abi::Stream)>("hipKernelNameRefByPtr"))
    said = ask(function, nullptr);
  if (said) name = said;
  return name;
}

}  // namespace partita::lanes_hip
