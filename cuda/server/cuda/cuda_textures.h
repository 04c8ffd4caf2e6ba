// Arrays, textures and surfaces of a session on the GPU: the driver's own. Each gives back what is
// left at its end, when no stream uses it any more. Thread rule: the context's.
#pragma once

#include <map>

#include "server/backend.h"
#include "server/cuda/context.h"
#include "server/cuda/cuda_streams.h"

namespace partita::remote::cuda {

class Textures final : public server::DeviceTextures {
 public:
  Textures(Context& context, Streams& streams) : context_(context), streams_(streams) {}
  ~Textures() override;
  Textures(const Textures&) = delete;
  Textures& operator=(const Textures&) = delete;

  server::Answered<server::Id> create_array(const ArrayCreate& what) override;
  void destroy_array(server::Id array) override;
  server::Answered<void> copy(server::Id stream, server::Id array, const ArrayCopy& what) override;
  server::Answered<std::uint64_t> create(const TextureCreate& what, server::Id array) override;
  void destroy(std::uint64_t texture) override;

 private:
  Context& context_;
  Streams& streams_;
  std::map<server::Id, abi::Array> arrays_;
  std::map<std::uint64_t, bool> textures_;  // whether it is a surface
};

}  // namespace partita::remote::cuda
