// Textures: a session's arrays, textures and surfaces on a device that keeps them itself.
#pragma once

#include "server/streams.h"

namespace partita::remote::server {

class Textures {
 public:
  Textures(DeviceWork& work, const Allocations& allocations, Streams& streams, Outbox& out,
           const SessionLimits& limits)
      : work_(work),
        allocations_(allocations),
        streams_(streams),
        out_(out),
        limits_(limits),
        arrays_("array", limits.textures),
        textures_("texture", limits.textures) {}

  Reply<ArrayCreate> on(const ArrayCreate& op);
  Done on(const ArrayDestroy& op);
  Done on(const ArrayCopy& op);
  Reply<TextureCreate> on(const TextureCreate& op);
  Done on(const TextureDestroy& op);

 private:
  struct Array {
    Id id = 0;
    std::uint64_t row = 0, rows = 0, slices = 0;  // a row in bytes
    std::uint64_t bytes = 0;
  };
  // Refused where the device keeps none.
  Answered<DeviceTextures*> door() const;
  Done check_memory(const TextureCreate& op) const;

  DeviceWork& work_;
  const Allocations& allocations_;
  Streams& streams_;
  Outbox& out_;
  const SessionLimits& limits_;
  Handles<Array> arrays_;
  Handles<std::uint64_t> textures_;  // by their own number
};

}  // namespace partita::remote::server
