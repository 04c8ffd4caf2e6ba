// Libraries: a session's calls of functions of NVIDIA's libraries.
#pragma once

#include "server/library_calls.h"
#include "server/streams.h"

namespace partita::remote::server {

class Libraries {
 public:
  Libraries(DeviceWork& work, const Allocations& allocations, Streams& streams)
      : work_(work), allocations_(allocations), streams_(streams) {}

  Done on(const LibraryCall& op);
  Reply<LibraryAsk> on(const LibraryAsk& op);

 private:
  Answered<CallWork> checked(Text function, Bytes arguments) const;

  DeviceWork& work_;
  const Allocations& allocations_;
  Streams& streams_;
  std::vector<std::byte> results_ = {};  // that the answer at hand points into
};

}  // namespace partita::remote::server
