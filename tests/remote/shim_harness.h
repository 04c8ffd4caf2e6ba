// The client libraries as a program sees them, loaded by their files, and a server in this process.
// Each scenario runs in a forked child: there the libraries have no session yet, as in a program
// that starts. A child says what failed on standard error and with its exit status.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "image/testing/fatbin_writer.h"
#include "tests/remote/host_backend.h"

namespace partita::remote::test {

inline void* const kNoStream = nullptr;
inline const char* const kRuntime = "libcudart.so.13";

// Kernels of the tests, as PTX would name them; what they do is in C++, but for the last one.
inline constexpr std::string_view kPtx = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 to, .param .u32 value, .param .u32 n) { ret; }
.visible .entry vadd(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) { ret; }
.visible .entry walk(.param .u64 first, .param .u64 sum) { ret; }
.visible .entry crash() { ret; }
.visible .global .align 4 .u32 counter = 5;
.visible .entry count(.param .u64 to)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [to];
  ld.global.u32 %r1, [counter];
  add.u32 %r2, %r1, 1;
  st.global.u32 [counter], %r2;
  st.global.u32 [%rd1], %r2;
  ret;
}
)";

inline Kernels test_kernels() {
  Kernels kernels;
  kernels["fill"] = [](const KernelCall& call) {
    const auto n = call.parameter<std::uint32_t>(12);
    for (auto& one : call.array<std::uint32_t>(call.parameter<std::uint64_t>(0), n))
      one = call.parameter<std::uint32_t>(8);
  };
  // Through a list of (number, address of the next), wherever that lies: their sum, and each one
  // more.
  kernels["walk"] = [](const KernelCall& call) {
    std::uint64_t sum = 0;
    for (auto at = call.parameter<std::uint64_t>(0); at != 0;) {
      const auto item = call.array<std::uint64_t>(at, 2);
      if (item.data() == nullptr) break;  // no memory of the device's
      sum += item[0]++;
      at = item[1];
    }
    call.array<std::uint64_t>(call.parameter<std::uint64_t>(8), 1)[0] = sum;
  };
  kernels["vadd"] = [](const KernelCall& call) {
    const auto n = call.parameter<std::uint32_t>(24);
    const auto a = call.array<float>(call.parameter<std::uint64_t>(0), n);
    const auto b = call.array<float>(call.parameter<std::uint64_t>(8), n);
    const auto c = call.array<float>(call.parameter<std::uint64_t>(16), n);
    for (std::size_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
  };
  return kernels;
}

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

// A library of the client's, and calls of its functions by name.
class Library {
 public:
  explicit Library(const std::string& name) {
    library_ = ::dlopen((std::string(PARTITA_REMOTE_LIBRARIES) + "/" + name).c_str(),
                        RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) std::fprintf(stderr, "%s\n", ::dlerror());
  }
  void* find(const char* name) const { return ::dlsym(library_, name); }
  template <class Answer = int, class... Arguments>
  Answer call(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<Answer (*)(Arguments...)>(find(name));
    if (function == nullptr) {
      std::fprintf(stderr, "%s is not there\n", name);
      std::abort();
    }
    return function(arguments...);
  }

 private:
  void* library_ = nullptr;
};

// A program's device code, registered as the compiler's start-up code does it.
class Program {
 public:
  explicit Program(const Library& cuda, image::Compression compression = image::Compression::zstd)
      : cuda_(cuda),
        container_(image::container_with({{image::MemberKind::ptx, compression, 80, kPtx}})) {
    wrapper_.data = container_.data();
    handle_ = cuda.call<void**>("__cudaRegisterFatBinary", static_cast<void*>(&wrapper_));
    add("fill", &fill);
    add("vadd", &vadd);
    add("walk", &walk);
    add("crash", &crash);
    add("count", &count);
    cuda.call<void>("__cudaRegisterVar", handle_, &counter, &counter,
                    static_cast<const char*>("counter"), 0, std::size_t{4}, 0, 0);
    cuda.call<void>("__cudaRegisterFatBinaryEnd", handle_);
  }
  // fun<<<grid, block, shared, stream>>>(parameters...)
  template <class... Parameters>
  int launch(const char& function, Dim3 grid, Dim3 block, void* stream, Parameters... parameters) {
    void* arguments[] = {static_cast<void*>(&parameters)..., nullptr};
    void*& kernel = kernels_[&function];  // asked for once, as nvcc's code does
    void* on = nullptr;
    std::size_t shared = 0;
    cuda_.call("__cudaPushCallConfiguration", grid, block, std::size_t{0}, stream);
    if (kernel == nullptr)
      if (const int status =
              cuda_.call("__cudaGetKernel", &kernel, static_cast<const void*>(&function)))
        return status;
    cuda_.call("__cudaPopCallConfiguration", &grid, &block, &shared, static_cast<void*>(&on));
    return cuda_.call("__cudaLaunchKernel", kernel, grid, block, static_cast<void**>(arguments),
                      shared, on);
  }
  void** handle() const { return handle_; }

  char fill = 0, vadd = 0, walk = 0, crash = 0,
       count = 0;    // the host's functions: only their addresses count
  char counter = 0;  // a variable's shadow

 private:
  void add(const char* name, const char* host) {
    cuda_.call<void>("__cudaRegisterFunction", handle_, host, const_cast<char*>(name), name, -1,
                     static_cast<void*>(nullptr), static_cast<void*>(nullptr),
                     static_cast<void*>(nullptr), static_cast<void*>(nullptr),
                     static_cast<int*>(nullptr));
  }
  struct Wrapper {
    std::uint32_t magic = image::kWrapperMagic, version = 1;
    const void* data = nullptr;
    const void* file = nullptr;
  };
  const Library& cuda_;
  std::vector<std::byte> container_;
  Wrapper wrapper_;
  void** handle_ = nullptr;
  std::map<const char*, void*> kernels_;
};

// Inside a scenario: says what is wrong and ends the child.
#define NEED(condition)                                                            \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      ::_exit(1);                                                                  \
    }                                                                              \
  } while (false)
#define SAME(left, right)                                                            \
  do {                                                                               \
    auto l = (left);                                                                 \
    const auto r = static_cast<decltype(l)>(right);                                  \
    if (l != r) {                                                                    \
      std::fprintf(stderr, "%s:%d: %s is %lld, not %s\n", __FILE__, __LINE__, #left, \
                   static_cast<long long>(l), #right);                               \
      ::_exit(1);                                                                    \
    }                                                                                \
  } while (false)

template <class T>
struct There {  // numbers of ours on the device
  There(const Library& library, std::vector<T> values) : cuda(library), here(std::move(values)) {
    SAME(cuda.call("cudaMalloc", &at, here.size() * sizeof(T)), 0);
    SAME(cuda.call("cudaMemcpy", static_cast<void*>(at), static_cast<const void*>(here.data()),
                   here.size() * sizeof(T), 1),
         0);
  }
  std::vector<T> now() const {
    std::vector<T> values(here.size());
    SAME(cuda.call("cudaMemcpy", static_cast<void*>(values.data()), static_cast<const void*>(at),
                   values.size() * sizeof(T), 2),
         0);
    return values;
  }
  void* begin() const { return static_cast<void*>(at); }
  const Library& cuda;
  std::vector<T> here;
  T* at = nullptr;
};

inline std::string private_address() {
  static int count = 0;
  return "unix:/tmp/partita-shim-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

// The thread sanitizer allows no threads in the child of a process that has some.
// Nor under the address sanitizer: another thread may hold its allocator when we fork.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SKIP_WHERE_CHILDREN_HAVE_NO_THREADS() GTEST_SKIP() << "no threads after fork here"
#else
#define SKIP_WHERE_CHILDREN_HAVE_NO_THREADS() static_cast<void>(0)
#endif

// Runs the scenario in a child; its exit status, or 1000 when it did not end in time.
template <class Scenario>
int in_child(const std::string& address, Scenario scenario) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setenv("PARTITA_REMOTE", address.c_str(), 1);
    ::setenv("PARTITA_REMOTE_TIMEOUT_MS", "20000", 0);
    // A program's end: its exit handlers run, but not the leak check behind them, which cannot see
    // the stacks of the parent's threads.
    std::atexit([] {
      std::fflush(nullptr);
      ::_exit(0);
    });
    scenario();
    std::exit(0);
  }
  for (int waited = 0; waited < 60'000; ++waited) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid)
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    ::usleep(1000);
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  return 1000;
}

}  // namespace partita::remote::test
