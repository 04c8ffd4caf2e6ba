// Programs that see two devices: what is each one's own, and what they share.
#include "tests/remote/ptx_server.h"
#include "tests/remote/shim_harness.h"

namespace partita::remote::test {
namespace {

// What a count on the current device makes of its counter, through memory anywhere.
unsigned count_into(const Library& cuda, Program& program, void* memory) {
  unsigned value = 0;
  SAME(program.launch(program.count, {}, {}, nullptr, memory), 0);
  SAME(cuda.call("cudaMemcpy", static_cast<void*>(&value), static_cast<const void*>(memory),
                 std::size_t{4}, 2),
       0);
  return value;
}

unsigned counter_of(const Library& cuda, const Program& program) {
  unsigned value = 0;
  SAME(cuda.call("cudaMemcpyFromSymbol", static_cast<void*>(&value),
                 static_cast<const void*>(&program.counter), std::size_t{4}, std::size_t{0}, 2),
       0);
  return value;
}

void two_devices() {
  const Library cuda("libcudart.so.13");
  Program program(cuda);
  constexpr int kInvalidDevice = 101, kAlreadyEnabled = 704, kNotEnabled = 705;
  int number = 0;
  SAME(cuda.call("cudaGetDeviceCount", &number), 0);
  SAME(number, 2);
  SAME(cuda.call("cudaSetDevice", 2), kInvalidDevice);
  void *first = nullptr, *second = nullptr;
  SAME(cuda.call("cudaMalloc", &first, std::size_t{4}), 0);
  SAME(count_into(cuda, program, first), 6U);
  SAME(cuda.call("cudaSetDevice", 1), 0);
  SAME(cuda.call("cudaGetDevice", &number), 0);
  SAME(number, 1);
  SAME(cuda.call("cudaMalloc", &second, std::size_t{4}), 0);
  SAME(counter_of(cuda, program), 5U);  // of this device, whose code is loaded now
  SAME(count_into(cuda, program, second), 6U);
  SAME(count_into(cuda, program, first), 7U);  // into the other's memory
  SAME(cuda.call("cudaMemcpyPeer", second, 1, static_cast<const void*>(first), 0, std::size_t{4}),
       0);
  void* stream = nullptr;
  SAME(cuda.call("cudaStreamCreate", &stream), 0);
  SAME(cuda.call("cudaSetDevice", 0), 0);
  SAME(counter_of(cuda, program), 6U);
  SAME(cuda.call("cudaStreamGetDevice", stream, &number), 0);
  SAME(number, 1);
  struct {
    int type, device;
    void* pointers[2];
    long more[8];
  } attributes = {};
  SAME(cuda.call("cudaPointerGetAttributes", static_cast<void*>(&attributes),
                 static_cast<const void*>(second)),
       0);
  SAME(attributes.device, 1);
  SAME(cuda.call("cudaDeviceCanAccessPeer", &number, 0, 1), 0);
  SAME(number, 1);
  SAME(cuda.call("cudaDeviceDisablePeerAccess", 1), kNotEnabled);
  SAME(cuda.call("cudaDeviceEnablePeerAccess", 1, 0U), 0);
  SAME(cuda.call("cudaDeviceEnablePeerAccess", 1, 0U), kAlreadyEnabled);
  SAME(cuda.call("cudaDeviceEnablePeerAccess", 0, 0U), kInvalidDevice);
}

TEST(Devices, HaveTheirOwnVariablesAndOneMemory) {
  SKIP_WHERE_CHILDREN_HAVE_NO_THREADS();
  PtxServer server(private_address(), 2);
  EXPECT_EQ(in_child(server.address(), two_devices), 0);
}

}  // namespace
}  // namespace partita::remote::test
