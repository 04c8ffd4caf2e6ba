// Memory: a session's allocations, and copies out of them and between them. What comes in is
// Inbound's.
#pragma once

#include "server/streams.h"

namespace partita::remote::server {

// No allocation holds the bytes that somebody is `doing` something with.
tl::unexpected<Refused> not_held(std::string_view doing, DevicePointer at, std::uint64_t bytes);

class Memory {
 public:
  Memory(DeviceWork& work, Allocations& allocations, Captures& captures, Streams& streams,
         Outbox& out, const SessionLimits& limits)
      : work_(work),
        allocations_(allocations),
        captures_(captures),
        streams_(streams),
        out_(out),
        limits_(limits) {}

  Done on(const Alloc& op);
  Done on(const Free& op);
  Done on(const FreeOnStream& op);
  Reply<HeapLimit> on(const HeapLimit& op);
  Reply<CopyOut> on(const CopyOut& op);
  Done on(const CopyOutLater& op);
  Done on(const CopyDevice& op);
  Done on(const Set& op);
  Done on(const Gemm& op);

  Answered<CopyWork> checked(const CopyDevice& op) const;
  Answered<SetWork> checked(const Set& op) const;
  Answered<GemmWork> checked(const Gemm& op) const;
  // The allocation at hand waits for memory that is being freed: to be tried again once this is
  // over.
  bool stalled() const { return stalled_; }
  void give_up() { stalled_ = false; }

 private:
  void release_later(std::uint64_t address, std::uint64_t bytes);
  void copy_out(std::uint32_t request, const CopyOut& op);

  DeviceWork& work_;
  Allocations& allocations_;
  Captures& captures_;
  Streams& streams_;
  Outbox& out_;
  const SessionLimits& limits_;
  bool stalled_ = false;
  std::uint64_t heap_ = 0;  // of the session's memory
};

}  // namespace partita::remote::server
