// What gateway and worker say to each other over a unix SOCK_SEQPACKET connection, a message a
// frame. The gateway listens at STATE_DIR/gateway.sock and workers connect, so that either may
// start again. Tensors are never in a frame: they lie in slots of memory that REGION hands over.
//
//   worker  HELLO    who it is and what its model takes
//   gateway REGION   the slots, with the memfd beside it (SCM_RIGHTS); or REFUSED and the end
//   gateway JOINT    from now on a tensor of these slots lies in the memfd beside it, slot by slot:
//                    a worker of another model has it, too (a pipeline's steps); own: in REGION's
//   worker  READY    after warming up with the largest batch; it may get RUN from now on
//   gateway RUN      a batch: slots of its items, inputs in place
//   worker  DONE     outputs are in place (tensors), or the last part has been sent (openai)
//   worker  PART     a piece of the answer of one item (openai)
//   gateway CANCEL   these items of a batch are of no use any more
//   worker  LEAVING  please let me go (on SIGTERM); it still takes RUN until DRAIN
//   gateway DRAIN    no RUN follows
//   worker  DRAINED  and it ends
//   gateway FETCH    give me the state of this sequence, from this byte on; a worker that leaves
//                    still has it, and nothing runs on it there any more
//   worker  STATE    a part of it; the gateway passes it on to the worker that is to go on with it,
//                    which answers with FETCH of the next part: from behind the end it has all
//   gateway FORGET   nobody goes on with these sequences
//   worker  BEAT     at least every kBeatNs, also during a batch: it lives
//
// Little-endian, version in HELLO. Times are CLOCK_MONOTONIC, nanoseconds. Pure: bytes in, bytes
// out; every length is bounded and a frame that is too short, too long or out of range is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "serve/wire/tensor.h"

namespace partita::serve {

inline constexpr std::uint32_t kLinkVersion = 6;
inline constexpr std::size_t kMaxFrameBytes = 60'000;  // below a socket buffer's usual limit
inline constexpr int kMaxLinkBatch = 4096;             // items of a RUN
inline constexpr std::size_t kMaxPartBytes = 32'768;
inline constexpr std::int64_t kBeatNs = 500'000'000;

struct Hello {
  std::uint32_t version = kLinkVersion;
  std::string place;  // PARTITA_WORKER, "STATE_FILE:DEVICE:INDEX"; empty when started by hand
  std::string service;
  ModelSpec model;
  bool operator==(const Hello&) const = default;
};
struct Region {
  std::uint64_t slot_bytes = 0;
  std::uint32_t slots = 0;
  bool operator==(const Region&) const = default;
};
struct Joint {
  std::uint64_t offset = 0, bytes = 0;  // in a slot: whole pages
  bool writable = false;                // by this worker
  bool own = false;                     // in REGION's memory again; no descriptor comes
  std::vector<std::uint32_t> slots = {};
  bool operator==(const Joint&) const = default;
};
struct Refused {
  std::string reason;
  bool operator==(const Refused&) const = default;
};
struct CurvePoint {
  std::int32_t batch = 0;
  std::int64_t nanos = 0;
  bool operator==(const CurvePoint&) const = default;
};
struct Ready {
  // Execution time by batch size, ascending, measured; not empty.
  std::vector<CurvePoint> curve = {};
  bool operator==(const Ready&) const = default;
};
struct Run {
  std::uint64_t batch = 0;    // its id, never used twice on a connection
  std::int64_t deadline = 0;  // of the most urgent item; 0: none
  std::vector<std::uint32_t> slots = {};
  bool operator==(const Run&) const = default;
};
// What a batch of a set of models did to the models that are loaded.
struct SetTally {
  std::uint32_t loads = 0, evictions = 0, failures = 0;  // failures: of loads
  std::uint32_t held = 0;                                // now
  std::int64_t nanos = 0;                                // of loads, also of those that failed
  bool operator==(const SetTally&) const = default;
};
enum class ItemStatus : std::uint8_t { ok, failed, cancelled };
struct Done {
  std::uint64_t batch = 0;
  std::int64_t nanos = 0;               // execution alone
  std::vector<ItemStatus> status = {};  // of each item of the RUN, in order
  std::string message = {};             // why some failed
  // Values of inputs with open sizes that it ran, and those that were padding up to a bucket.
  std::uint64_t values = 0, padding = 0;
  SetTally set = {};
  bool operator==(const Done&) const = default;
};
struct Part {
  std::uint64_t batch = 0;
  std::uint32_t item = 0;      // index into the RUN
  std::uint32_t sequence = 0;  // from 0
  // Of the first part: the HTTP status and content type of the answer. Later ones: 0 and empty.
  std::uint32_t http_status = 0;
  std::string content_type = {};
  std::string bytes = {};
  bool operator==(const Part&) const = default;
};
struct Cancel {
  std::uint64_t batch = 0;
  std::vector<std::uint32_t> items = {};  // indices into the RUN
  bool operator==(const Cancel&) const = default;
};
struct Leaving {
  bool operator==(const Leaving&) const = default;
};
struct Drain {
  bool operator==(const Drain&) const = default;
};
struct Drained {
  bool operator==(const Drained&) const = default;
};
struct FetchState {
  std::uint64_t sequence = 0, offset = 0;
  bool operator==(const FetchState&) const = default;
};
struct StatePart {
  std::uint64_t sequence = 0, offset = 0;
  std::uint64_t total = 0;  // of all parts; 0: it has none of this sequence
  std::string bytes = {};
  bool operator==(const StatePart&) const = default;
};
struct ForgetStates {
  std::vector<std::uint64_t> sequences = {};
  bool operator==(const ForgetStates&) const = default;
};
struct Beat {
  bool operator==(const Beat&) const = default;
};

using Frame = std::variant<Hello, Region, Refused, Ready, Run, Done, Part, Cancel, Leaving, Drain,
                           Drained, Beat, FetchState, StatePart, ForgetStates, Joint>;

// The frame's bytes, at most kMaxFrameBytes (a CHECK: who makes a frame keeps the limits).
std::string encode(const Frame& frame);
// bad_input naming what is wrong; decode(encode(f)) == f.
Result<Frame> decode(std::span<const char> bytes);

// ---- RUN and DONE without a Frame in between, for the fast path ----
void encode_run(const Run& run, std::string& out);  // replaces out
void encode_done(const Done& done, std::string& out);

// Where the gateway of a state directory listens for workers.
std::string link_path(const std::string& state_dir);

}  // namespace partita::serve
