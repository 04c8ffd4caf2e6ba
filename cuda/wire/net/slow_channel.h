// A channel with the delay of a longer way: what "slow:MICROSECONDS:ADDRESS" is. For measurements.
#pragma once

#include <memory>

#include "wire/net/channel.h"

namespace partita::remote {

// Both ends of a wire get one each: bytes written to it come out of the other end `delay` later,
// to the microsecond (the last part of a wait is spent looking at the clock). `one_way` is half
// of the round trip that is to be emulated. A frame of its own (length and time) is put around
// every write, so both ends must be wrapped; both are of one host (one clock). A read may take
// `one_way` longer than its patience, and the descriptor is readable that much too early.
std::unique_ptr<Channel> slow_channel(std::unique_ptr<Channel> channel, Nanos one_way);

}  // namespace partita::remote
