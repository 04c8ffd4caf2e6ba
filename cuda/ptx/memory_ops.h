// What the ops of a level call when their fast path does not do: any window, several allocations,
// faults, checks. Defined once (exec_memory.cc).
#pragma once

#include "ptx/program.h"

namespace partita::ptx {

struct LanePointers {
  bool failed = false;      // a fault that ends the launch was reported
  std::uint32_t local = 0;  // lanes whose memory is local: `at` is a copy of it
  std::byte* at[kLanes];
};
// The memory of the lanes of the mask for an access of op->size bytes at address[lane] in global
// memory or, with kGeneric, any window. Reports faults; marks what a write initialises.
LanePointers resolve(const Op* op, Warp& w, const std::uint64_t* address, bool write);
// After a write: what went to copies of local memory.
void write_back(const Op* op, Warp& w, const std::uint64_t* address, const LanePointers& found);
// An access to shared memory whose offsets are not all within bounds or aligned: always a fault.
void shared_fault(const Op* op, Warp& w, const std::uint64_t* offset, bool write);
void local_fault(const Op* op, Warp& w, const std::uint64_t* offset, bool write);
// Notes an access to shared memory in the shadow and reports races; false where it goes beyond its
// variable, which ends the launch.
bool note_shared(const Op* op, Warp& w, const std::uint32_t* offset, bool write);
// Reports lanes whose shared memory nobody wrote.
void note_unwritten(const Op* op, Warp& w, const std::uint32_t* offset);
void note_unwritten(const Op* op, Warp& w, unsigned lane, std::uint32_t offset);
// An access to global memory: races between threads of the launch.
void note_global(const Op* op, Warp& w, const std::uint64_t* address, bool write);
// A strong access to other memory: what threads then know of each other.
void note_order(const Op* op, Warp& w, const std::uint64_t* address, bool write);

}  // namespace partita::ptx
