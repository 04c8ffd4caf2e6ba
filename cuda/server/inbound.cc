#include "server/inbound.h"

namespace partita::remote::server {
namespace {

constexpr std::uint64_t kChunk = std::uint64_t{4} << 20;

}  // namespace

Done Inbound::on(const CopyIn& op) {
  const Captured* const stream = streams_.find(op.stream);
  if (stream == nullptr) return streams_.missing(op.stream);
  if (work_.dead() != 0) return refuse(work_.dead(), {});
  if (!allocations_.holds(op.to.value, bulk_.left))
    return not_held("copying in", op.to, bulk_.left);
  if (bulk_.left == 0) return {};
  bulk_.kind = Kind::chunks;
  bulk_.to = op.to.value;
  bulk_.stream = op.stream;
  return {};
}

Done Inbound::on(const ModulePut& op) {
  if (bulk_.left == 0 || bulk_.left > kMaxImageBytes || op.raw_bytes > kMaxImageBytes)
    return refuse(kInvalidImage, fmt::format("an image of {} bytes, {} unpacked; {} are the limit",
                                             bulk_.left, op.raw_bytes, kMaxImageBytes));
  bulk_.kind = Kind::image;
  bulk_.put = op;
  return {};
}

// Whether so many bytes more may wait for their turn. When not, something will wake us that makes
// room.
bool Inbound::room_for(std::uint64_t bytes) {
  while (!staged_.empty() && staged_.front().use_count() == 1) {
    staged_bytes_ -= staged_.front()->size();
    staged_.pop_front();
  }
  const std::uint64_t most = streams_.calls_out() ? limits_.staging_at_most : limits_.staging;
  return staged_bytes_ + bytes <= most || staged_bytes_ == 0;
}

bool Inbound::give_up(const Refused& why) {
  out_.refused("copy_in", why);
  begin(bulk_.left);
  return true;
}

bool Inbound::stopped(const Error& error) {
  if (error.code != ErrorCode::timeout) out_.broken(error);
  return false;
}

// The next bytes into `into`, of which `filled` are there already; false when more are to come.
bool Inbound::fill(std::span<std::byte> into) {
  into = into.subspan(bulk_.filled);
  const std::size_t known = std::min(into.size(), bulk_.ahead.size() - bulk_.used);
  std::copy_n(bulk_.ahead.begin() + static_cast<std::ptrdiff_t>(bulk_.used), known, into.begin());
  const auto read = reader_.read_bulk(into.subspan(known), kNoWait);
  bulk_.used += known;
  bulk_.filled += known + reader_.taken();
  return read || stopped(read.error());
}

bool Inbound::go_on() {
  if (bulk_.kind == Kind::image) return go_on_with_image();
  if (bulk_.kind == Kind::chunks) return go_on_with_chunks();
  if (bulk_.left > 0)
    if (const auto done = reader_.drop_bulk(kNoWait); !done) return stopped(done.error());
  bulk_ = {};
  return true;
}

// Where what is at hand of the bulk goes: the rest, straight into the device, when the stream is
// idle; else a chunk that is enqueued. False when there is no room now, or it was given up.
bool Inbound::find_target() {
  const Captured* const stream = streams_.find(bulk_.stream);
  if (stream == nullptr || work_.dead() != 0) return !give_up({work_.dead(), {}});
  DeviceBackend& backend = work_.backend();
  if (stream->capture == 0 && backend.finished(ObjectKind::stream, stream->id))
    bulk_.target = backend.mapped(bulk_.to, bulk_.left, true);
  bulk_.filled = 0;
  if (!bulk_.target.empty()) return true;
  const std::uint64_t bytes = std::min(bulk_.left, kChunk);
  if (!room_for(bytes)) {
    if (streams_.calls_out())
      return !give_up({kOutOfMemory, "too much waits for a function of the client"});
    if (!std::exchange(asked_for_room_, true))
      work_.watch(ObjectKind::stream, stream->id, [this] { asked_for_room_ = false; });
    return false;
  }
  bulk_.chunk.resize(bytes);
  bulk_.target = bulk_.chunk;
  return true;
}

bool Inbound::go_on_with_chunks() {
  if (bulk_.target.empty() && !find_target()) return bulk_.kind == Kind::drop;
  if (!fill(bulk_.target)) return false;
  const std::uint64_t bytes = bulk_.target.size(), to = bulk_.to;
  bulk_.target = {};
  bulk_.left -= bytes;
  bulk_.to += bytes;
  if (!bulk_.chunk.empty()) {
    const Staging staging =
        std::make_shared<const std::vector<std::byte>>(std::exchange(bulk_.chunk, {}));
    staged_.push_back(staging);
    staged_bytes_ += staging->size();
    if (const Done done = streams_.submit(bulk_.stream, CopyInWork{to, staging}); !done)
      return give_up(done.error());
  }
  if (bulk_.left == 0) bulk_ = {};
  return true;
}

bool Inbound::go_on_with_image() {
  // Grows as it comes: what is only promised takes no memory.
  constexpr std::uint64_t kStep = std::uint64_t{1} << 20;
  if (bulk_.filled == bulk_.chunk.size())
    bulk_.chunk.resize(bulk_.filled + std::min(kStep, bulk_.left));
  const std::size_t had = bulk_.filled;
  const bool all = fill(bulk_.chunk);
  bulk_.left -= bulk_.filled - had;
  if (!all) return false;
  if (bulk_.left > 0) return true;
  const Arriving arrived = std::exchange(bulk_, {});
  if (digest_of(arrived.chunk) == arrived.put.digest)
    images_.put(arrived.put.digest,
                std::make_shared<const PackedImage>(
                    PackedImage{arrived.chunk, arrived.put.compression, arrived.put.raw_bytes}));
  else
    out_.refused("module_put", {kInvalidImage, "the image has another digest"});
  return true;
}

}  // namespace partita::remote::server
