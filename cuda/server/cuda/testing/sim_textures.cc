// Of the simulated libcuda: arrays, textures and surfaces.
#include <algorithm>

#include "server/cuda/testing/sim_world.h"

namespace cuda_sim {

namespace {

Return make_texture(abi::TextureNumber* texture, const abi::Resource* of, bool surface) {
  if (const Return code = closed(); code != kOk) return code;
  const auto* const array = reinterpret_cast<SimArray*>(of->of.array);
  const bool known =
      of->flags == 0 &&
      (of->type == abi::kResourceArray ? world().arrays.contains(const_cast<SimArray*>(array)) &&
                                             (!surface || (array->as.flags & 2) != 0)
       : surface                        ? false
       : of->type == abi::kResourceLine ? usable(of->of.line.at, of->of.line.bytes)
       : of->type == abi::kResourceRows
           ? of->of.rows.pitch % 32 == 0 && of->of.rows.at % 512 == 0 &&
                 usable(of->of.rows.at, of->of.rows.pitch * (of->of.rows.height - 1))
           : false);
  if (!known) return wrong(kInvalid, "a texture or surface of what it cannot be of");
  *texture = world().serial++ << 32;
  world().textures[*texture] = {*of, surface};
  return kOk;
}

Return end_texture(abi::TextureNumber texture, bool surface) {
  const auto found = world().textures.find(texture);
  if (found == world().textures.end() || found->second.surface != surface)
    return wrong(kBadHandle, "a texture destroyed twice, or as a surface");
  return world().textures.erase(found), kOk;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Return cuArray3DCreate_v2(abi::Array* array, const abi::ArrayDescription* as) {
  if (const Return code = closed(); code != kOk) return code;
  const int format = as->format;
  const std::size_t bytes = format == 0x20 || format == 3 || format == 10  ? 4
                            : format == 0x10 || format == 2 || format == 9 ? 2
                            : format == 1 || format == 8                   ? 1
                                                                           : 0;
  if (bytes == 0 || as->width == 0 || (as->channels != 1 && as->channels != 2 && as->channels != 4))
    return wrong(kInvalid, "an array that cannot be");
  auto* const made = new SimArray{.as = *as,
                                  .row = as->width * as->channels * bytes,
                                  .rows = std::max<std::size_t>(as->height, 1),
                                  .slices = std::max<std::size_t>(as->depth, 1)};
  made->bytes.resize(made->row * made->rows * made->slices);
  world().arrays.insert(made);
  return *array = reinterpret_cast<abi::Array>(made), kOk;
}
Return cuArrayDestroy(abi::Array array) {
  std::vector<SimStream*> all(world().streams.begin(), world().streams.end());
  all.push_back(&world().legacy);
  for (const SimStream* stream : all)
    for (const Item& item : stream->items)
      if (world().dead == 0 && item.array == array)
        return wrong(kInvalid, "an array destroyed that queued work uses");
  return forget(world().arrays, array, "an array destroyed twice");
}
Return cuMemcpy3DAsync_v2(const abi::Copy3D* copy, abi::Stream stream) {
  const bool out = copy->from.type == abi::kMemoryArray;
  const abi::Copy3D::End& inside = out ? copy->from : copy->to;
  const abi::Copy3D::End& memory = out ? copy->to : copy->from;
  auto* const array = reinterpret_cast<SimArray*>(inside.array);
  if (inside.type != abi::kMemoryArray || memory.type != abi::kMemoryDevice ||
      !world().arrays.contains(array) || inside.level != 0 || memory.level != 0)
    return wrong(kInvalid, "a copy that is not one between an array and memory");
  if (inside.x + copy->width > array->row || inside.y + copy->height > array->rows ||
      inside.z + copy->depth > array->slices || memory.pitch < copy->width ||
      memory.height < copy->height)
    return wrong(kInvalid, "a copy beyond an array, or of rows that overlap");
  Item item{.array = array};
  std::vector<std::pair<std::byte*, DevicePointer>> rows;
  for (std::size_t z = 0; z < copy->depth; ++z) {
    for (std::size_t y = 0; y < copy->height; ++y) {
      const std::size_t row = (inside.z + z) * array->rows + inside.y + y;
      const DevicePointer at =
          memory.device + memory.x + ((memory.z + z) * memory.height + memory.y + y) * memory.pitch;
      rows.emplace_back(array->bytes.data() + row * array->row + inside.x, at);
      item.uses.emplace_back(at, copy->width);
    }
  }
  item.run = [rows = std::move(rows), out, width = copy->width] {
    for (const auto& [texels, at] : rows)
      out ? std::memcpy(bytes_at(at), texels, width) : std::memcpy(texels, bytes_at(at), width);
    return kOk;
  };
  return push(stream, std::move(item));
}
Return cuTexObjectCreate(abi::TextureNumber* texture, const abi::Resource* of,
                         const abi::Sampling* how, const void* view) {
  if (how == nullptr || view != nullptr || how->filter < 0 || how->filter > 1)
    return wrong(kInvalid, "a texture without sampling, or with a view");
  return make_texture(texture, of, false);
}
Return cuSurfObjectCreate(abi::TextureNumber* surface, const abi::Resource* of) {
  return make_texture(surface, of, true);
}
Return cuTexObjectDestroy(abi::TextureNumber texture) { return end_texture(texture, false); }
Return cuSurfObjectDestroy(abi::TextureNumber surface) { return end_texture(surface, true); }

}  // extern "C"
#pragma GCC visibility pop

}  // namespace cuda_sim
