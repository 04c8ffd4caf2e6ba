// Memory: allocations, copies, and bulk on its way into the device.
#include <fmt/format.h>

#include <algorithm>

#include "server/session_core.h"

namespace partita::remote::server {
namespace {

constexpr std::uint64_t kChunk = std::uint64_t{4} << 20;

tl::unexpected<Refused> not_there(const char* what, DevicePointer at, std::uint64_t bytes) {
  return refuse(kInvalidValue, fmt::format("{} {} bytes at {:#x}: no allocation holds them", what,
                                           bytes, at.value));
}

}  // namespace

// ---- allocations ----

Done Session::Core::on(const Alloc& op) {
  const DeviceSnapshot& device = backend_->device();
  const std::uint64_t at = op.address.value;
  if (op.bytes == 0 || at % device.granule != 0 || op.bytes % device.granule != 0)
    return refuse(kInvalidValue, fmt::format("{} bytes at {:#x}: not multiples of {}", op.bytes, at,
                                             device.granule));
  if (at < device.arena || op.bytes > device.arena_bytes ||
      at - device.arena > device.arena_bytes - op.bytes)
    return refuse(kInvalidValue,
                  fmt::format("{} bytes at {:#x} lie outside the arena", op.bytes, at));
  switch (allocations_.meets(at, op.bytes)) {
    case Allocations::Meets::live:
      return refuse(kInvalidValue,
                    fmt::format("{} bytes at {:#x}: something is allocated there", op.bytes, at));
    case Allocations::Meets::going:
      stalled_ = true;  // until release_later() is through
      return {};
    case Allocations::Meets::nothing:
      break;
  }
  if (allocations_.ranges().size() >= limits_.allocations)
    return refuse(kOutOfMemory, fmt::format("{} allocations are the limit", limits_.allocations));
  if (op.bytes > limits_.memory || counts_.memory > limits_.memory - op.bytes)
    return refuse(kOutOfMemory,
                  fmt::format("{} bytes more than the {} in use; {} are the session's limit",
                              op.bytes, counts_.memory, limits_.memory));
  if (Done done = backend_->allocate(at, op.bytes); !done) return done;
  allocations_.add(at, op.bytes);
  counts_.memory += op.bytes;
  return {};
}

// The range cannot be used from now on and is gone once what was enqueued has finished.
void Session::Core::release_later(std::uint64_t address, std::uint64_t bytes) {
  fence([this, address, bytes] {
    backend_->release(address);
    allocations_.remove(address);
    counts_.memory -= bytes;
    stalled_ = false;
  });
}

Done Session::Core::on(const Free& op) {
  const std::optional<std::uint64_t> bytes = allocations_.leave(op.address.value);
  if (!bytes)
    return refuse(kInvalidValue, fmt::format("nothing is allocated at {:#x}", op.address.value));
  release_later(op.address.value, *bytes);
  return {};
}

// Later than it could be, when other streams have work; but nothing then uses what is gone.
Done Session::Core::on(const FreeOnStream& op) {
  if (find(op.stream) == nullptr)
    return refuse(kInvalidHandle, fmt::format("there is no stream {}", op.stream.value));
  return on(Free{op.address});
}

// ---- copies ----

Done Session::Core::on(const CopyIn& op) {
  const std::uint64_t bytes = bulk_.left;
  const Stream* const stream = find(op.stream);
  if (stream == nullptr)
    return refuse(kInvalidHandle, fmt::format("there is no stream {}", op.stream.value));
  if (dead_ != 0) return refuse(dead_, {});
  if (!allocations_.holds(op.to.value, bytes)) return not_there("copying in", op.to, bytes);
  if (bytes == 0) return {};
  bulk_.kind = Arriving::Kind::chunks;
  bulk_.to = op.to.value;
  bulk_.stream = op.stream;
  return {};
}

// Straight from the device's memory where that is ours to see: at once, or holding the stream while
// the answer is written.
void Session::Core::copy_out(std::uint32_t request, const CopyOut& op) {
  const auto mapped = backend_->mapped(op.from.value, op.bytes, false);
  settle<CopyOut>(request, dead_, {}, dead_ != 0 ? Bytes{} : Bytes(mapped));
}

Reply<CopyOut> Session::Core::on(const CopyOut& op) {
  Stream* const stream = find(op.stream);
  if (stream == nullptr)
    return refuse(kInvalidHandle, fmt::format("there is no stream {}", op.stream.value));
  if (const Status status = refuse_in_capture(*stream); status != 0)
    return refuse(status, "the stream is being captured");
  if (dead_ != 0) return refuse(dead_, {});
  if (!allocations_.holds(op.from.value, op.bytes))
    return not_there("copying out", op.from, op.bytes);
  if (op.bytes == 0) return NoReply{};
  const std::uint32_t request = owe<CopyOut>();
  const bool mapped = !backend_->mapped(op.from.value, op.bytes, false).empty();
  if (mapped && backend_->finished(ObjectKind::stream, stream->id)) {
    poll();
    copy_out(request, op);
    return std::nullopt;
  }
  StreamWork work;
  if (mapped) {
    work = HoldWork{wait_for([this, request, op](Completed& held) {
      copy_out(request, op);
      backend_->resume(held.hold);
    })};
  } else {
    work = CopyOutWork{op.from.value, op.bytes, wait_for([this, request](Completed& copied) {
                         settle<CopyOut>(request, dead_, {},
                                         dead_ != 0 ? Bytes{} : Bytes(copied.bytes));
                       })};
  }
  if (const Done done = backend_->enqueue(stream->id, std::move(work)); !done)
    settle<CopyOut>(request, done.error().status);
  return std::nullopt;
}

Done Session::Core::on(const CopyOutLater& op) {
  const Stream* const stream = find(op.stream);
  if (stream == nullptr)
    return refuse(kInvalidHandle, fmt::format("there is no stream {}", op.stream.value));
  if (dead_ != 0) return refuse(dead_, {});
  if (!allocations_.holds(op.from.value, op.bytes))
    return not_there("copying out", op.from, op.bytes);
  if (op.bytes > limits_.staging_at_most)
    return refuse(kOutOfMemory, fmt::format("{} bytes at once; {} are the limit", op.bytes,
                                            limits_.staging_at_most));
  if (op.bytes == 0) {
    watch(ObjectKind::stream, stream->id, [this, token = op.token] { put(CopiedOut{token}); });
    return {};
  }
  const bool captured = stream->capture != 0;
  const std::uint64_t tag = wait_for(
      [this, token = op.token](Completed& copied) {
        if (dead_ == 0) put(CopiedOut{token}, copied.bytes);
      },
      captured);
  if (captured) {
    if (const auto found = captures_.find(stream->capture); found != captures_.end())
      found->second.graph.tags->tags.push_back(tag);
  }
  return submit(op.stream, CopyOutWork{op.from.value, op.bytes, tag});
}

Answered<CopyWork> Session::Core::checked(const CopyDevice& op) const {
  if (!allocations_.holds_rows(op.to.value, op.width, op.to_pitch, op.rows))
    return not_there("copying to", op.to, op.width);
  if (!allocations_.holds_rows(op.from.value, op.width, op.from_pitch, op.rows))
    return not_there("copying from", op.from, op.width);
  return CopyWork{op.to.value,   op.from.value, op.to_pitch,
                  op.from_pitch, op.width,      op.width == 0 ? 0 : op.rows};
}

Answered<SetWork> Session::Core::checked(const Set& op) const {
  if (op.element != 1 && op.element != 2 && op.element != 4)
    return refuse(kInvalidValue, fmt::format("elements of {} bytes", op.element));
  std::uint64_t width = 0;
  if (__builtin_mul_overflow(op.count, std::uint64_t{op.element}, &width) ||
      !allocations_.holds_rows(op.to.value, width, op.pitch, op.rows))
    return not_there("setting", op.to, width);
  if (op.to.value % op.element != 0 || (op.rows > 1 && op.pitch % op.element != 0))
    return refuse(kInvalidValue,
                  fmt::format("{:#x} is no multiple of {}", op.to.value, op.element));
  return SetWork{op.to.value, op.value, op.element, op.count, op.count == 0 ? 0 : op.rows,
                 op.pitch};
}

Done Session::Core::on(const CopyDevice& op) {
  Answered<CopyWork> work = checked(op);
  if (!work) return tl::unexpected<Refused>(work.error());
  return submit(op.stream, *work);
}

Done Session::Core::on(const Set& op) {
  Answered<SetWork> work = checked(op);
  if (!work) return tl::unexpected<Refused>(work.error());
  return submit(op.stream, *work);
}

// ---- bulk ----

// Whether so many bytes more may wait for their turn. When not, something will wake us that makes
// room.
bool Session::Core::room_for(std::uint64_t bytes) {
  while (!staged_.empty() && staged_.front().use_count() == 1) {
    staged_bytes_ -= staged_.front()->size();
    staged_.pop_front();
  }
  return staged_bytes_ + bytes <= (calls_out_ > 0 ? limits_.staging_at_most : limits_.staging) ||
         staged_bytes_ == 0;
}

bool Session::Core::give_up_bulk(const Refused& why) {
  refused("copy_in", why);
  bulk_ = Arriving{.kind = Arriving::Kind::drop, .left = bulk_.left};
  return true;
}

// Whether it got on.
bool Session::Core::go_on_with_bulk() {
  switch (bulk_.kind) {
    case Arriving::Kind::drop:
      if (bulk_.left > 0) {
        if (const auto done = reader_.drop_bulk(Nanos(0)); !done) {
          if (done.error().code != ErrorCode::timeout) broken(done.error());
          return false;
        }
      }
      bulk_ = {};
      return true;
    case Arriving::Kind::image:
      return go_on_with_image();
    default:
      return go_on_with_chunks();
  }
}

// Fills what is at hand of the bulk: the rest, straight into the device, when the stream is idle;
// else a chunk that is enqueued.
bool Session::Core::go_on_with_chunks() {
  if (bulk_.target.empty()) {
    const Stream* const stream = find(bulk_.stream);
    if (stream == nullptr || dead_ != 0) return give_up_bulk({dead_, {}});
    if (stream->capture == 0 && backend_->finished(ObjectKind::stream, stream->id)) {
      bulk_.target = backend_->mapped(bulk_.to, bulk_.left, true);
    }
    if (bulk_.target.empty()) {
      const std::uint64_t bytes = std::min(bulk_.left, kChunk);
      if (!room_for(bytes)) {
        if (calls_out_ > 0)
          return give_up_bulk({kOutOfMemory, "too much waits for a function of the client"});
        if (!std::exchange(asked_for_room_, true))
          watch(ObjectKind::stream, stream->id, [this] { asked_for_room_ = false; });
        return false;
      }
      bulk_.chunk.resize(bytes);
      bulk_.target = bulk_.chunk;
    }
    bulk_.filled = 0;
  }
  const auto read = reader_.read_bulk(bulk_.target.subspan(bulk_.filled), Nanos(0));
  if (!read) {
    bulk_.filled += reader_.taken();
    if (read.error().code != ErrorCode::timeout) broken(read.error());
    return false;
  }
  const std::uint64_t bytes = bulk_.target.size();
  bulk_.target = {};
  if (!bulk_.chunk.empty()) {
    const Staging staging = std::make_shared<const std::vector<std::byte>>(std::move(bulk_.chunk));
    bulk_.chunk = {};
    staged_.push_back(staging);
    staged_bytes_ += staging->size();
    bulk_.left -= bytes;
    if (const Done done = submit(bulk_.stream, CopyInWork{bulk_.to, staging}); !done)
      return give_up_bulk(done.error());
    bulk_.left += bytes;
  }
  bulk_.left -= bytes;
  bulk_.to += bytes;
  if (bulk_.left == 0) bulk_ = {};
  return true;
}

}  // namespace partita::remote::server
