// Arrays and textures of the driver's interface, as the runtime's: of one or two dimensions.
#include <algorithm>

#include "driver.h"
#include "textures.h"

CUDA_EXPORT int cudaMallocArray(void** array, const partita::remote::shim::ChannelDesc* channels,
                                std::size_t width, std::size_t height, unsigned flags);
CUDA_EXPORT int cudaFreeArray(void* array);
CUDA_EXPORT int cudaGetChannelDesc(partita::remote::shim::ChannelDesc* channels, const void* array);
CUDA_EXPORT int cudaCreateTextureObject(std::uint64_t* object,
                                        const partita::remote::shim::Resource* resource,
                                        const partita::remote::shim::Sampling* how,
                                        const void* view);
CUDA_EXPORT int cudaDestroyTextureObject(std::uint64_t object);

namespace partita::remote::shim {
namespace {

struct ArrayDescription {  // CUDA_ARRAY_DESCRIPTOR
  std::size_t width, height;
  int format;
  unsigned channels;
};
struct DriverResource {  // CUDA_RESOURCE_DESC
  int kind;
  union {
    void* array;
    struct {
      DevicePtr at;
      int format;
      unsigned channels;
      std::size_t bytes;
    } linear;
    struct {
      DevicePtr at;
      int format;
      unsigned channels;
      std::size_t width, height, pitch;
    } pitched;
    int reserved[32];
  } of;
  unsigned flags;
};
static_assert(sizeof(DriverResource) == 144);
struct DriverSampling {  // CUDA_TEXTURE_DESC
  int beyond[3], filter;
  unsigned flags, anisotropy;
  int mipmap_filter;
  float bias, least, most, border[4];
  int reserved[12];
};
static_assert(sizeof(DriverSampling) == 104);
enum SamplingFlags : unsigned { kAsInteger = 1, kNormalized = 2, kSrgb = 16 };

// CUarray_format: unsigned of 1, 2, 4 bytes, signed, floats of 2 and 4.
bool describe(int format, unsigned channels, ChannelDesc& to) {
  enum { kSigned, kUnsigned, kFloating };
  const bool is_float = format == 0x10 || format == 0x20;
  const int order = is_float ? format >> 4 : format >= 8 ? format - 8 : format - 1;
  if (channels < 1 || channels > 4 || order < 0 || order > 2) return false;
  const int bits = 8 << order;
  int* const all[] = {&to.x, &to.y, &to.z, &to.w};
  for (unsigned i = 0; i < 4; ++i) *all[i] = i < channels ? bits : 0;
  to.kind = is_float ? kFloating : format >= 8 ? kSigned : kUnsigned;
  return true;
}

Status make_texture(std::uint64_t* object, const DriverResource& of, const DriverSampling& how) {
  Resource resource{.kind = of.kind, .of = {}, .flags = of.flags};
  bool described = true;
  if (of.kind == kArray)
    resource.of.array = of.of.array;
  else if (of.kind == kLinear)
    resource.of.linear = {reinterpret_cast<void*>(of.of.linear.at), {}, of.of.linear.bytes},
    described = describe(of.of.linear.format, of.of.linear.channels, resource.of.linear.channels);
  else if (of.kind == kPitched)
    resource.of.pitched = {reinterpret_cast<void*>(of.of.pitched.at),
                           {},
                           of.of.pitched.width,
                           of.of.pitched.height,
                           of.of.pitched.pitch},
    described =
        describe(of.of.pitched.format, of.of.pitched.channels, resource.of.pitched.channels);
  else
    return unsupported("cuTexObjectCreate (mipmaps)");
  if (!described) return kInvalidValue;
  ChannelDesc channels =
      of.kind == kLinear ? resource.of.linear.channels : resource.of.pitched.channels;
  if (of.kind == kArray)
    if (const Status status = cudaGetChannelDesc(&channels, of.of.array); status != kOk)
      return status;
  constexpr int kFloating = 2;
  Sampling sampling{};
  std::copy(how.beyond, how.beyond + 3, sampling.beyond);
  std::copy(how.border, how.border + 4, sampling.border);
  sampling.filter = how.filter;
  sampling.read_mode = channels.kind != kFloating && (how.flags & kAsInteger) == 0 ? 1 : 0;
  sampling.srgb = (how.flags & kSrgb) != 0 ? 1 : 0;
  sampling.normalized = (how.flags & kNormalized) != 0 ? 1 : 0;
  sampling.anisotropy = how.anisotropy, sampling.mipmap_filter = how.mipmap_filter;
  sampling.bias = how.bias, sampling.least = how.least, sampling.most = how.most;
  return cudaCreateTextureObject(object, &resource, &sampling, nullptr);
}

}  // namespace

CUDA_EXPORT Status cuArrayCreate_v2(void** array, const ArrayDescription* as) {
  return guarded([&] {
    ChannelDesc channels{};
    if (as == nullptr || !describe(as->format, as->channels, channels)) return kInvalidValue;
    return cudaMallocArray(array, &channels, as->width, as->height, 0);
  });
}
CUDA_EXPORT Status cuArrayDestroy(void* array) { return cudaFreeArray(array); }
CUDA_EXPORT Status cuTexObjectCreate(std::uint64_t* object, const DriverResource* of,
                                     const DriverSampling* how, const void* view) {
  return guarded([&] {
    if (view != nullptr) return unsupported("cuTexObjectCreate (a view)");
    return of == nullptr || how == nullptr ? kInvalidValue : make_texture(object, *of, *how);
  });
}
CUDA_EXPORT Status cuTexObjectDestroy(std::uint64_t object) {
  return cudaDestroyTextureObject(object);
}

}  // namespace partita::remote::shim
