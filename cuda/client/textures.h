// Arrays, textures and surfaces that the device keeps itself, as GPUs do.
#pragma once

#include <cstdint>

#include "client/core.h"

namespace partita::remote::client {

class Textures {
 public:
  explicit Textures(Core& core) : core_(core) {}

  // `what` without its handle, which is the answer.
  Got<std::uint64_t> create_array(ArrayCreate what);
  Status destroy_array(std::uint64_t array);
  // The number by which kernels know it.
  Got<std::uint64_t> create(const TextureCreate& what);
  Status destroy(std::uint64_t texture);

 private:
  Core& core_;
};

}  // namespace partita::remote::client
