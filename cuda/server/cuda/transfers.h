// Copies of a session on the GPU: to and from the client through pinned buffers, so that no call of
// the library waits for a stream; and within the device.
#pragma once

#include <vector>

#include "server/backend.h"
#include "server/cuda/context.h"
#include "server/cuda/cuda_streams.h"
#include "server/cuda/device_memory.h"

namespace partita::remote::cuda {

class Transfers {
 public:
  Transfers(Context& context, PinnedBuffers& pinned, Streams& streams)
      : context_(context), pinned_(pinned), streams_(streams) {}

  // `kept`: where the buffers go that a captured copy needs for as long as its graph lives.
  server::Answered<void> in(Stream& stream, const server::CopyInWork& work,
                            std::vector<Pinned>* kept);
  server::Answered<void> out(Stream& stream, const server::CopyOutWork& work);
  server::Answered<void> within(abi::Stream stream, const server::CopyWork& work);
  server::Answered<void> set(abi::Stream stream, const server::SetWork& work);

 private:
  Context& context_;
  PinnedBuffers& pinned_;
  Streams& streams_;
};

}  // namespace partita::remote::cuda
