#include "server/cuda/cuda_textures.h"

#include <cstring>

#include "base/check.h"

namespace partita::remote::cuda {

using server::Answered;
using server::Id;

namespace {

// CUarray_format: unsigned integers of 1, 2, 4 bytes, signed ones, floats of 2 and 4.
int format_of(std::uint32_t kind, std::uint32_t channel_bytes) {
  constexpr int kUnsigned = 1, kSigned = 8, kHalf = 0x10, kFloat = 0x20;
  if (kind == kFloatTexel) return channel_bytes == 2 ? kHalf : kFloat;
  const int order = channel_bytes == 1 ? 0 : channel_bytes == 2 ? 1 : 2;
  return (kind == kSignedTexel ? kSigned : kUnsigned) + order;
}

abi::Copy3D::End array_end(abi::Array array, const ArrayCopy& what) {
  abi::Copy3D::End end{};
  end.x = what.x, end.y = what.y, end.z = what.z;
  end.type = abi::kMemoryArray;
  end.array = array;
  return end;
}

abi::Copy3D::End memory_end(const ArrayCopy& what) {
  abi::Copy3D::End end{};
  end.type = abi::kMemoryDevice;
  end.device = what.memory.value;
  end.pitch = what.pitch, end.height = what.slice_rows;
  return end;
}

abi::Resource memory_of(const TextureCreate& what) {
  abi::Resource resource{};
  const int format = format_of(what.kind, what.channel_bytes);
  if (what.rows == 0) {
    resource.type = abi::kResourceLine;
    resource.of.line = {what.memory.value, format, what.channels,
                        what.width * what.channels * what.channel_bytes};
  } else {
    resource.type = abi::kResourceRows;
    resource.of.rows = {what.memory.value, format,    what.channels,
                        what.width,        what.rows, what.pitch};
  }
  return resource;
}

abi::Sampling sampling_of(const TextureCreate& what) {
  abi::Sampling how{};
  how.beyond[0] = static_cast<int>(what.beyond_x);
  how.beyond[1] = static_cast<int>(what.beyond_y);
  how.beyond[2] = static_cast<int>(what.beyond_z);
  how.filter = (what.flags & kFiltered) != 0 ? 1 : 0;
  if ((what.flags & kTexelsAsTheyAre) != 0) how.flags |= abi::kReadAsInteger;
  if ((what.flags & kNormalized) != 0) how.flags |= abi::kNormalizedPlaces;
  if (!what.border.empty()) std::memcpy(how.border, what.border.data(), sizeof(how.border));
  return how;
}

}  // namespace

Textures::~Textures() {
  while (!textures_.empty()) destroy(textures_.begin()->first);
  for (const auto& [id, array] : arrays_) context_.api().cuArrayDestroy(array);
}

Answered<Id> Textures::create_array(const ArrayCreate& what) {
  const abi::ArrayDescription as{.width = what.width,
                                 .height = what.height,
                                 .depth = what.depth,
                                 .format = format_of(what.kind, what.channel_bytes),
                                 .channels = what.channels,
                                 .flags = what.flags};
  abi::Array made = nullptr;
  if (const abi::Return code = context_.api().cuArray3DCreate_v2(&made, &as); code != 0)
    return context_.refused("cuArray3DCreate", code);
  const Id id = context_.next_id();
  arrays_.emplace(id, made);
  return id;
}

void Textures::destroy_array(Id array) {
  const auto found = arrays_.find(array);
  CHECK(found != arrays_.end());
  context_.api().cuArrayDestroy(found->second);
  arrays_.erase(found);
}

Answered<void> Textures::copy(Id stream, Id array, const ArrayCopy& what) {
  if (context_.dead()) return {};
  if (Answered<void> ok = streams_.order(stream); !ok) return ok;
  const abi::Copy3D::End there = array_end(arrays_.at(array), what);
  const abi::Copy3D::End here = memory_end(what);
  const abi::Copy3D copy{.from = what.out != 0 ? there : here,
                         .to = what.out != 0 ? here : there,
                         .width = what.width,
                         .height = what.rows,
                         .depth = what.slices};
  return context_.done("cuMemcpy3DAsync",
                       context_.api().cuMemcpy3DAsync_v2(&copy, streams_.at(stream).stream));
}

Answered<std::uint64_t> Textures::create(const TextureCreate& what, Id array) {
  const DriverApi& api = context_.api();
  const bool surface = (what.flags & kSurface) != 0;
  abi::Resource resource{};
  if (array != 0)
    resource.of.array = arrays_.at(array);
  else
    resource = memory_of(what);
  abi::TextureNumber made = 0;
  if (surface) {
    if (const abi::Return code = api.cuSurfObjectCreate(&made, &resource); code != 0)
      return context_.refused("cuSurfObjectCreate", code);
  } else {
    const abi::Sampling how = sampling_of(what);
    if (const abi::Return code = api.cuTexObjectCreate(&made, &resource, &how, nullptr); code != 0)
      return context_.refused("cuTexObjectCreate", code);
  }
  textures_.emplace(made, surface);
  return made;
}

void Textures::destroy(std::uint64_t texture) {
  const auto found = textures_.find(texture);
  CHECK(found != textures_.end());
  if (found->second)
    context_.api().cuSurfObjectDestroy(texture);
  else
    context_.api().cuTexObjectDestroy(texture);
  textures_.erase(found);
}

}  // namespace partita::remote::cuda
