// What a launch may ask for, by the kernel: against sessions that run PTX.
#include "tests/remote/ptx_server.h"
#include "tests/remote/shim_harness.h"

namespace partita::remote::test {
namespace {

// What a kernel was compiled for and has of its own is known before it is launched: CUDA refuses
// such a launch, and nothing stays of it.
TEST(LaunchLimits, WhatAKernelCannotHaveIsRefusedAtItsLaunch) {
  SKIP_WHERE_CHILDREN_HAVE_NO_THREADS();
  static constexpr const char* kKernels = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry bound() .maxntid 64, 1, 1 { ret; }
.visible .entry own(.param .u64 to)
{
  .shared .align 4 .b8 mine[40000];
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [to];
  st.global.u32 [%rd1], 5;
  ret;
}
)";
  PtxServer server(private_address());
  EXPECT_EQ(
      in_child(server.address(),
               [] {
                 const Library cuda("libcudart.so.13");
                 void *library = nullptr, *bound = nullptr, *own = nullptr;
                 void* const none = nullptr;
                 SAME(cuda.call("cudaLibraryLoadData", &library, static_cast<const void*>(kKernels),
                                none, none, 0U, none, none, 0U),
                      0);
                 SAME(cuda.call("cudaLibraryGetKernel", &bound, library, "bound"), 0);
                 SAME(cuda.call("cudaLibraryGetKernel", &own, library, "own"), 0);
                 void* memory = nullptr;
                 SAME(cuda.call("cudaMalloc", &memory, std::size_t{64}), 0);
                 void* parameters[] = {&memory};
                 const auto launch = [&](void* kernel, unsigned threads, int shared) {
                   return cuda.call("cudaLaunchKernel", static_cast<const void*>(kernel), Dim3{1},
                                    Dim3{threads}, static_cast<void**>(parameters),
                                    static_cast<std::size_t>(shared), none);
                 };
                 const auto allow = [&](int shared) {
                   return cuda.call("cudaFuncSetAttribute", static_cast<const void*>(own), 8,
                                    shared);
                 };
                 SAME(launch(bound, 65, 0), 701);
                 SAME(launch(bound, 64, 0), 0);
                 SAME(launch(own, 32, 48 * 1024 - 40'000 + 1), 1);
                 SAME(launch(own, 32, 48 * 1024 - 40'000), 0);
                 int most = 0;
                 SAME(cuda.call("cudaDeviceGetAttribute", &most, 97, 0), 0);
                 SAME(allow(most - 39'999), 1);
                 SAME(allow(most - 40'000), 0);
                 SAME(launch(own, 32, most - 40'000), 0);
                 SAME(allow(100), 0);
                 SAME(launch(own, 32, 101), 1);
                 SAME(launch(own, 32, 100), 0);
                 unsigned stored = 0;
                 SAME(cuda.call("cudaMemcpy", static_cast<void*>(&stored),
                                static_cast<const void*>(memory), std::size_t{4}, 2),
                      0);
                 SAME(stored, 5U);
               }),
      0);
}

}  // namespace
}  // namespace partita::remote::test
