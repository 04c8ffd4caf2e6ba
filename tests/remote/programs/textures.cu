// Arrays, textures and surfaces: a picture that is filtered, memory that is fetched by number, a
// volume, a surface that is written. The kernels say the instructions themselves.
#include "program.h"

KERNEL(textures_filter, (unsigned long long texture, float* out, int width, int height)) {
  const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int y = static_cast<int>(blockIdx.y);
  if (x >= width || y >= height) return;
  const float u = static_cast<float>(x) + 0.75F, v = static_cast<float>(y) + 0.5F;
  float a = 0, b = 0, c = 0, d = 0;
  DEVICE_ASM("tex.2d.v4.f32.f32 {%0, %1, %2, %3}, [%4, {%5, %6}];"
             : "=f"(a), "=f"(b), "=f"(c), "=f"(d)
             : "l"(texture), "f"(u), "f"(v));
  out[y * width + x] = a + b + c * 0 + d * 0;
}

KERNEL(textures_fetch, (unsigned long long texture, int* out, int count)) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= count) return;
  int a = 0, b = 0, c = 0, d = 0;
  DEVICE_ASM("tex.1d.v4.s32.s32 {%0, %1, %2, %3}, [%4, {%5}];"
             : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
             : "l"(texture), "r"(count - 1 - at));
  out[at] = a + b * 0 + c * 0 + d * 0;
}

KERNEL(textures_volume, (unsigned long long texture, float* out)) {
  const float x = static_cast<float>(threadIdx.x), y = static_cast<float>(threadIdx.y);
  const float z = static_cast<float>(blockIdx.x);
  float a = 0, b = 0, c = 0, d = 0;
  DEVICE_ASM("tex.3d.v4.f32.f32 {%0, %1, %2, %3}, [%4, {%5, %6, %7, %7}];"
             : "=f"(a), "=f"(b), "=f"(c), "=f"(d)
             : "l"(texture), "f"(x), "f"(y), "f"(z));
  const unsigned row = blockIdx.x * blockDim.y + threadIdx.y;
  out[row * blockDim.x + threadIdx.x] = a + b * 0 + c * 0 + d * 0;
}

KERNEL(textures_write, (unsigned long long surface, int width)) {
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(blockIdx.x);
  if (x >= width) return;
  DEVICE_ASM_VOLATILE("sust.b.2d.b32.trap [%0, {%1, %2}], {%3};"
                      :
                      : "l"(surface), "r"(x * 4), "r"(y), "r"(x * 100 + y));
}

static int wrong = 0;

static void expect(bool right, const char* what) {
  if (right) return;
  std::printf("not so: %s\n", what);
  ++wrong;
}

static cudaTextureDesc sampling(cudaTextureFilterMode filter) {
  cudaTextureDesc how = {};
  for (auto& mode : how.addressMode) mode = cudaAddressModeClamp;
  how.filterMode = filter;
  return how;
}

static void picture() {
  const int width = 33, height = 7;
  std::vector<float> texels(width * height * 2);
  for (size_t at = 0; at < texels.size(); ++at) texels[at] = static_cast<float>(at * 37 % 64);
  const cudaChannelFormatDesc two = {32, 32, 0, 0, cudaChannelFormatKindFloat};
  cudaArray_t array;
  MUST(cudaMallocArray(&array, &two, width, height, 0));
  MUST(cudaMemcpy2DToArray(array, 0, 0, texels.data(), width * 8, width * 8, height,
                           cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  const cudaTextureDesc how = sampling(cudaFilterModeLinear);
  cudaTextureObject_t texture = 0;
  MUST(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
  float* out = empty_on_device<float>(width * height);
  LAUNCH(textures_filter, dim3(2, height), 32, 0, nullptr, texture, out, width, height);
  const std::vector<float> found = to_host(out, width * height);
  int off = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const auto sum = [&](int i) {
        const size_t at = static_cast<size_t>(y * width + (i < width ? i : width - 1)) * 2;
        return texels[at] + texels[at + 1];
      };
      const float want = 0.75F * sum(x) + 0.25F * sum(x + 1);
      if (std::fabs(found[static_cast<size_t>(y * width + x)] - want) > 1e-3F) ++off;
    }
  }
  expect(off == 0, "a filtered picture");
  MUST(cudaDestroyTextureObject(texture));
  MUST(cudaFreeArray(array));
}

static void line() {
  const int count = 1000;
  std::vector<int> numbers(count);
  for (int at = 0; at < count; ++at) numbers[static_cast<size_t>(at)] = at * at - 5;
  int* const there = to_device(numbers);
  int* const out = empty_on_device<int>(count);
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = there;
  resource.res.linear.desc = {32, 0, 0, 0, cudaChannelFormatKindSigned};
  resource.res.linear.sizeInBytes = count * sizeof(int);
  const cudaTextureDesc how = sampling(cudaFilterModePoint);
  cudaTextureObject_t texture = 0;
  MUST(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
  LAUNCH(textures_fetch, blocks_for(count, 64), 64, 0, nullptr, texture, out, count);
  const std::vector<int> found = to_host(out, count);
  int off = 0;
  for (int at = 0; at < count; ++at)
    if (found[static_cast<size_t>(at)] != numbers[static_cast<size_t>(count - 1 - at)]) ++off;
  expect(off == 0, "memory that is fetched by number");
  resource.res.linear.sizeInBytes = count * sizeof(int) + 4;  // more than there is
  cudaTextureObject_t longer = 0;
  MUST(cudaCreateTextureObject(&longer, &resource, &how, nullptr));
  MUST(cudaDestroyTextureObject(longer));
  cudaGetLastError();
}

static void volume() {
  const unsigned x = 8, y = 4, z = 3;
  std::vector<float> texels(x * y * z);
  for (size_t at = 0; at < texels.size(); ++at) texels[at] = static_cast<float>(at * 7 % 50);
  const cudaChannelFormatDesc one = {32, 0, 0, 0, cudaChannelFormatKindFloat};
  cudaArray_t array;
  MUST(cudaMalloc3DArray(&array, &one, cudaExtent{x, y, z}, 0));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = {texels.data(), x * sizeof(float), x, y};
  copy.dstArray = array;
  copy.extent = {x, y, z};
  copy.kind = cudaMemcpyHostToDevice;
  MUST(cudaMemcpy3D(&copy));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  const cudaTextureDesc how = sampling(cudaFilterModePoint);
  cudaTextureObject_t texture = 0;
  MUST(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
  float* const out = empty_on_device<float>(texels.size());
  LAUNCH(textures_volume, z, dim3(x, y), 0, nullptr, texture, out);
  expect(to_host(out, texels.size()) == texels, "a volume");
  MUST(cudaFreeArray(array));
}

static void surface() {
  const int width = 20, height = 6;
  const cudaChannelFormatDesc one = {32, 0, 0, 0, cudaChannelFormatKindSigned};
  cudaArray_t array;
  MUST(cudaMallocArray(&array, &one, width, height, cudaArraySurfaceLoadStore));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t object = 0;
  MUST(cudaCreateSurfaceObject(&object, &resource));
  LAUNCH(textures_write, height, 32, 0, nullptr, object, width);
  std::vector<int> found(width * height);
  MUST(cudaMemcpy2DFromArray(found.data(), width * 4, array, 0, 0, width * 4, height,
                             cudaMemcpyDeviceToHost));
  int off = 0;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      if (found[static_cast<size_t>(y * width + x)] != x * 100 + y) ++off;
  expect(off == 0, "a surface");
  MUST(cudaDestroySurfaceObject(object));
  MUST(cudaFreeArray(array));
}

int main() {
  picture();
  line();
  volume();
  surface();
  return finish("textures", wrong == 0, wrong);
}
