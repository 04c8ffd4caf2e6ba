// For tests: the fake libcuda as a fresh process sees it, with the GPU that a Config describes.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "drivers/green_ctx/cuda_kernels.h"
#include "drivers/green_ctx/green_ctx_driver.h"
#include "drivers/green_ctx/testing/fake_cuda.h"

#ifndef PARTITA_FAKE_CUDA  // its file, as CMake says it; headers are compiled alone, too
#define PARTITA_FAKE_CUDA ""
#endif

namespace partita::drivers::green_ctx {

using fake_cuda::Config;
using fake_cuda::Live;

class FakeWorld {
 public:
  explicit FakeWorld(const Config& config = {}) {
    // Loaded once and never let go, so that it remembers.
    static void* const library = dlopen(PARTITA_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
    find(reset_, library, "fake_cuda_reset");
    find(live_, library, "fake_cuda_live");
    find(fail_, library, "fake_cuda_fail");
    find(failed_, library, "fake_cuda_failed");
    find(calls_, library, "fake_cuda_calls");
    find(group_, library, "fake_cuda_group");
    find(launches_, library, "fake_cuda_launches");
    find(launch_, library, "fake_cuda_launch");
    reset_(&config);
  }

  std::unique_ptr<GreenCtxDriver> open(int atom = 0) const {
    auto driver = GreenCtxDriver::open(options(atom));
    EXPECT_TRUE(driver) << to_string(driver.error());
    return driver ? *std::move(driver) : nullptr;
  }
  static Options options(int atom = 0) {
    return {.gpu = "0", .atom = atom, .vendor_library = PARTITA_FAKE_CUDA};
  }
  static std::unique_ptr<CudaKernels> kernels(GreenCtxDriver& driver) {
    auto kernels = CudaKernels::open(driver);
    EXPECT_TRUE(kernels) << to_string(kernels.error());
    return kernels ? *std::move(kernels) : nullptr;
  }

  Live live() const { return live_(); }
  void fail(const char* name, int call, abi::Return code) const {
    fail_(name, call, static_cast<int>(code));
  }
  std::string failed() const { return failed_(); }
  int calls(const char* name) const { return calls_(name); }
  // Kernels that were launched, in order, and on how many SMs.
  std::vector<std::pair<std::string, std::size_t>> launched() const {
    std::vector<std::pair<std::string, std::size_t>> all;
    for (int i = 0; i < launches_(); ++i) {
      int sms = 0;
      const char* const name = launch_(i, &sms);
      all.emplace_back(name, static_cast<std::size_t>(sms));
    }
    return all;
  }
  std::vector<int> group(int index) const {
    std::vector<int> sms(512);
    sms.resize(static_cast<std::size_t>(group_(index, sms.data(), 512)));
    return sms;
  }

 private:
  template <class Function>
  static void find(Function& function, void* library, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    CHECK(function);
  }

  decltype(&fake_cuda::fake_cuda_reset) reset_ = nullptr;
  decltype(&fake_cuda::fake_cuda_live) live_ = nullptr;
  decltype(&fake_cuda::fake_cuda_fail) fail_ = nullptr;
  decltype(&fake_cuda::fake_cuda_failed) failed_ = nullptr;
  decltype(&fake_cuda::fake_cuda_calls) calls_ = nullptr;
  decltype(&fake_cuda::fake_cuda_group) group_ = nullptr;
  decltype(&fake_cuda::fake_cuda_launches) launches_ = nullptr;
  decltype(&fake_cuda::fake_cuda_launch) launch_ = nullptr;
};

}  // namespace partita::drivers::green_ctx
