// Programs on a GPU behind a libcuda that refuses wrong use: arrays, textures, surfaces and graphs
// with conditional nodes, which the driver keeps. Oracle: what plain loops and control flow leave.
#include "apps/remote_client/runtime/textures.h"
#include "server/cuda/cuda_backend.h"
#include "server/cuda/testing/sim_library.h"
#include "tests/remote/ptx_server.h"
#include "tests/remote/shim_harness.h"

namespace partita::remote::test {
namespace {

// The simulated library knows what they do.
constexpr std::string_view kSimPtx = R"(.version 8.0
.target sm_80
.address_size 64
// sim cuda
.visible .entry add(.param .u64 to, .param .u32 count, .param .u32 more) { ret; }
.visible .entry fetch(.param .u64 texture, .param .u64 to, .param .u32 width) { ret; }
.visible .entry paint(.param .u64 surface, .param .u64 unused, .param .u32 more) { ret; }
.visible .entry decide(.param .u64 condition, .param .u32 value) { ret; }
)";

constexpr int kIn = 1, kOut = 2;
constexpr std::size_t kWide = 16, kHigh = 8, kRow = kWide * 4;
constexpr shim::ChannelDesc kWord{32, 0, 0, 0, 1};

std::vector<std::uint32_t> counted(std::size_t count, std::uint32_t first) {
  std::vector<std::uint32_t> all(count);
  for (std::uint32_t& one : all) one = first++;
  return all;
}

// A program with these kernels.
class Device {
 public:
  Device()
      : code_(image::container_with(
            {{image::MemberKind::ptx, image::Compression::none, 80, kSimPtx}})) {
    wrapper_.data = code_.data();
    void** const handle = call<void**>("__cudaRegisterFatBinary", static_cast<void*>(&wrapper_));
    for (const auto& [name, host] :
         {std::pair{"add", &add}, {"fetch", &fetch}, {"paint", &paint}, {"decide", &decide}})
      call<void>("__cudaRegisterFunction", handle, static_cast<const char*>(host),
                 const_cast<char*>(name), name, -1, static_cast<void*>(nullptr),
                 static_cast<void*>(nullptr), static_cast<void*>(nullptr),
                 static_cast<void*>(nullptr), static_cast<int*>(nullptr));
    call<void>("__cudaRegisterFatBinaryEnd", handle);
    SAME(call("cudaMalloc", &memory, std::size_t{4096}), 0);
  }
  template <class Answer = int, class... Arguments>
  Answer call(const char* name, Arguments... arguments) const {
    return cuda_.call<Answer>(name, arguments...);
  }
  std::vector<std::uint32_t> words(std::size_t count) const {
    std::vector<std::uint32_t> all(count);
    SAME(call("cudaMemcpy", static_cast<void*>(all.data()), static_cast<const void*>(memory),
              count * 4, kOut),
         0);
    return all;
  }
  void fill(const std::vector<std::uint32_t>& all) const {
    SAME(call("cudaMemcpy", memory, static_cast<const void*>(all.data()), all.size() * 4, kIn), 0);
  }
  // Over all texels.
  void launch(const char& kernel, std::uint64_t texture, std::uint32_t more) {
    std::uint64_t to = shim::number_of(memory);
    void* parameters[] = {&texture, &to, &more};
    SAME(call("cudaLaunchKernel", static_cast<const void*>(&kernel), Dim3{kHigh}, Dim3{kWide},
              static_cast<void**>(parameters), std::size_t{0}, static_cast<void*>(nullptr)),
         0);
  }
  std::uint64_t object_of(const shim::Resource& of, bool surface) const {
    shim::Sampling how{};
    for (int& edge : how.beyond) edge = 1;
    std::uint64_t object = 0;
    SAME(surface
             ? call("cudaCreateSurfaceObject", &object, &of)
             : call("cudaCreateTextureObject", &object, &of,
                    static_cast<const shim::Sampling*>(&how), static_cast<const void*>(nullptr)),
         0);
    return object;
  }

  void* memory = nullptr;  // of the device
  char add = 0, fetch = 0, paint = 0, decide = 0;

 private:
  struct Wrapper {
    std::uint32_t magic = image::kWrapperMagic, version = 1;
    const void* data = nullptr;
    const void* file = nullptr;
  };
  Library cuda_{"libcudart.so.13"};
  std::vector<std::byte> code_;
  Wrapper wrapper_;
};

void pictures() {
  Device device;
  void* array = nullptr;
  SAME(device.call("cudaMallocArray", &array, &kWord, kWide, kHigh, 2U), 0);
  const auto texels = counted(kWide * kHigh, 5);
  SAME(device.call("cudaMemcpy2DToArray", array, std::size_t{0}, std::size_t{0},
                   static_cast<const void*>(texels.data()), kRow, kRow, kHigh, kIn),
       0);
  // Three rows of two texels from (4, 1), into rows of five.
  std::vector<std::uint32_t> part(15, 7);
  SAME(device.call("cudaMemcpy2DFromArray", static_cast<void*>(part.data()), std::size_t{20},
                   static_cast<const void*>(array), std::size_t{16}, std::size_t{1}, std::size_t{8},
                   std::size_t{3}, kOut),
       0);
  for (std::size_t i = 0; i < part.size(); ++i)
    SAME(part[i], i % 5 < 2 ? texels[(i / 5 + 1) * kWide + 4 + i % 5] : 7);
  SAME(device.call("cudaMemcpy2DFromArray", static_cast<void*>(part.data()), std::size_t{20},
                   static_cast<const void*>(array), std::size_t{16}, kHigh - 2, std::size_t{8},
                   std::size_t{3}, kOut),
       1);
  const shim::Resource of{.kind = shim::kArray, .of = {.array = array}, .flags = 0};
  const std::uint64_t texture = device.object_of(of, false), surface = device.object_of(of, true);
  device.launch(device.fetch, texture, kWide);
  NEED(device.words(texels.size()) == texels);
  device.launch(device.paint, surface, 100);
  // From the array to memory of the device.
  SAME(device.call("cudaMemcpy2DFromArray", device.memory, kRow, static_cast<const void*>(array),
                   std::size_t{0}, std::size_t{0}, kRow, kHigh, 3),
       0);
  NEED(device.words(texels.size()) == counted(texels.size(), 100));
  SAME(device.call("cudaDestroySurfaceObject", surface), 0);
  SAME(device.call("cudaDestroyTextureObject", texture), 0);
  SAME(device.call("cudaFreeArray", array), 0);
  SAME(device.call("cudaDeviceSynchronize"), 0);
}

void memory_and_volumes() {
  Device device;
  device.fill(counted(kWide * kHigh, 30));
  shim::Resource of{.kind = shim::kPitched, .of = {}, .flags = 0};
  of.of.pitched = {device.memory, kWord, kWide, kHigh, kRow};
  const std::uint64_t texture = device.object_of(of, false);
  device.launch(device.fetch, texture, kWide);
  NEED(device.words(kWide * kHigh) == counted(kWide * kHigh, 30));
  SAME(device.call("cudaDestroyTextureObject", texture), 0);
  void* array = nullptr;
  SAME(device.call("cudaMalloc3DArray", &array, &kWord, shim::Place3{4, 3, 2}, 0U), 0);
  auto texels = counted(24, 1), back = counted(24, 0);
  shim::Copy3 in{}, out{};
  in.from = {texels.data(), 16, 4, 3};
  in.to_array = array, in.extent = {4, 3, 2}, in.kind = kIn;
  SAME(device.call("cudaMemcpy3D", static_cast<const shim::Copy3*>(&in)), 0);
  // All but the first row of the second slice.
  out.from_array = array, out.from_place = {0, 1, 1};
  out.to = {back.data(), 16, 4, 3}, out.extent = {4, 2, 1}, out.kind = kOut;
  SAME(device.call("cudaMemcpy3D", static_cast<const shim::Copy3*>(&out)), 0);
  for (std::size_t i = 0; i < 8; ++i) SAME(back[i], texels[16 + i]);
  SAME(back[8], 8U);
  SAME(device.call("cudaFreeArray", array), 0);
  SAME(device.call("cudaDeviceSynchronize"), 0);
}

// A kernel node behind these.
void* add_kernel(Device& device, void* graph, const char& kernel, void** parameters,
                 std::vector<void*> after) {
  shim::AnyNode what{};
  what.kernel.function = const_cast<char*>(&kernel);
  what.kernel.grid = what.kernel.block = {1, 1, 1};
  what.kernel.parameters = parameters;
  void* node = nullptr;
  SAME(device.call("cudaGraphAddNode_v2", &node, graph, static_cast<void* const*>(after.data()),
                   static_cast<const void*>(nullptr), after.size(), &what),
       0);
  return node;
}

int add_branch(Device& device, void* graph, shim::BranchNode& branch, void* after) {
  shim::AnyNode what{};
  what.type = 13;
  what.branch = branch;
  void* node = nullptr;
  const int status =
      device.call("cudaGraphAddNode_v2", &node, graph, static_cast<void* const*>(&after),
                  static_cast<const void*>(nullptr), std::size_t{1}, &what);
  branch.graphs = what.branch.graphs;
  return status;
}

void decisions() {
  Device device;
  std::uint64_t sum = shim::number_of(device.memory), condition = 0;
  for (std::uint32_t value : {0U, 3U}) {
    void *graph = nullptr, *exec = nullptr;
    SAME(device.call("cudaGraphCreate", &graph, 0U), 0);
    SAME(device.call("cudaGraphConditionalHandleCreate",
                     reinterpret_cast<unsigned long long*>(&condition), graph, 1U, 0U),
         0);
    void* decide[] = {&condition, &value};
    void* const decided = add_kernel(device, graph, device.decide, decide, {});
    shim::BranchNode branch{.condition = condition, .kind = 0, .bodies = 2, .graphs = nullptr};
    SAME(add_branch(device, graph, branch, decided), 0);
    shim::BranchNode second = branch;
    SAME(add_branch(device, graph, second, decided), 1);  // it decides one branch
    for (std::uint32_t i = 0; i < 2; ++i) {
      std::uint32_t count = 1, more = 10 + i;
      void* add[] = {&sum, &count, &more};
      add_kernel(device, branch.graphs[i], device.add, add, {});
    }
    SAME(device.call("cudaGraphInstantiate", &exec, graph, 0ULL), 0);
    device.fill({100});
    for (int i = 0; i < 2; ++i)
      SAME(device.call("cudaGraphLaunch", exec, static_cast<void*>(nullptr)), 0);
    SAME(device.words(1)[0], value != 0 ? 120 : 122);
    SAME(device.call("cudaGraphExecDestroy", exec), 0);
    SAME(device.call("cudaGraphDestroy", graph), 0);
  }
  SAME(device.call("cudaDeviceSynchronize"), 0);
}

class OnAGpu : public cuda::SimLibrary {
 protected:
  OnAGpu() : SimLibrary(PARTITA_CUDA_SIM) {}
  void run(void (*scenario)()) {
    {
      PtxServer server(private_address(), [](const server::Wanted&) -> PtxServer::Opened {
        auto backend = cuda::CudaBackend::open({.vendor_library = PARTITA_CUDA_SIM});
        if (!backend) return failed(backend.error());
        return std::unique_ptr<server::DeviceBackend>(*std::move(backend));
      });
      EXPECT_EQ(in_child(server.address(), scenario), 0);
    }
    EXPECT_EQ(violations(), "");
    EXPECT_EQ(objects(), 0);
  }
};

TEST_F(OnAGpu, ArraysTexturesAndSurfacesAreTheDrivers) {
  SKIP_WHERE_CHILDREN_HAVE_NO_THREADS();
  run(pictures);
}
TEST_F(OnAGpu, TexturesShowMemoryAndVolumesHaveSlices) {
  SKIP_WHERE_CHILDREN_HAVE_NO_THREADS();
  run(memory_and_volumes);
}
TEST_F(OnAGpu, GraphsRunTheBodyThatAKernelChose) {
  SKIP_WHERE_CHILDREN_HAVE_NO_THREADS();
  run(decisions);
}

}  // namespace
}  // namespace partita::remote::test
