// For tests: the simulated libcuda of sim/, and what only tests ask it.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "server/cuda/cuda_options.h"

namespace partita::remote::cuda {

class SimLibrary : public ::testing::Test {
 protected:
  explicit SimLibrary(const char* file) : library(::dlopen(file, RTLD_NOW)) { call("sim_reset"); }
  ~SimLibrary() override { ::dlclose(library); }
  void call(const char* name) { reinterpret_cast<void (*)()>(::dlsym(library, name))(); }
  int objects() { return reinterpret_cast<int (*)()>(::dlsym(library, "sim_objects"))(); }
  std::string violations() {
    const char* last = "";
    const int count =
        reinterpret_cast<int (*)(const char**)>(::dlsym(library, "sim_violations"))(&last);
    return count == 0 ? "" : last;
  }
  // Of so many SMs, as far as this library knows.
  Lane lane(int units) {
    using Create = int (*)(abi::Stream*, unsigned, int);
    const auto create = reinterpret_cast<Create>(::dlsym(library, "cuStreamCreateWithPriority"));
    return {[create](int priority) -> Result<abi::Stream> {
              abi::Stream made = nullptr;
              if (create(&made, abi::kStreamNonBlocking, priority) != 0)
                return environment_error("", "");
              return made;
            },
            units};
  }
  void* library;
};

}  // namespace partita::remote::cuda
