#include "base/door/inlet.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace partita::serve {
namespace {

constexpr std::size_t kSpareBuffers = 256;

}  // namespace

std::unique_ptr<HeadBuffer> HeadBuffers::take() {
  if (spare_.empty()) return std::unique_ptr<HeadBuffer>(new HeadBuffer);  // bytes as they are
  auto buffer = std::move(spare_.back());
  spare_.pop_back();
  return buffer;
}

void HeadBuffers::give(std::unique_ptr<HeadBuffer> buffer) {
  if (buffer == nullptr || spare_.size() >= kSpareBuffers) return;
  buffer->begin = buffer->end = 0;
  spare_.push_back(std::move(buffer));
}

void forward(std::vector<iovec>& vectors, std::size_t& at, std::size_t bytes) {
  while (at < vectors.size() && bytes >= vectors[at].iov_len) bytes -= vectors[at++].iov_len;
  if (bytes == 0) return;
  vectors[at].iov_base = static_cast<char*>(vectors[at].iov_base) + bytes;
  vectors[at].iov_len -= bytes;
}

std::span<const iovec> some(const std::vector<iovec>& vectors, std::size_t at) {
  return std::span(vectors).subspan(at, std::min(kVectors, vectors.size() - at));
}

std::string_view Inlet::text() const {
  if (buffer_ == nullptr) return {};
  return {buffer_->bytes.data() + buffer_->begin, buffer_->end - buffer_->begin};
}

bool Inlet::move(std::span<const iovec> into, std::size_t& got) {
  if (!readable_) return false;
  const Transport::Moved moved = transport_.read(into);
  got = moved.bytes;
  wants_write_ = moved.blocked && moved.writable;
  if (moved.ended) {
    closed_ = true;
  } else if (moved.blocked) {
    readable_ = false;
  } else if (!transport_.encrypted()) {
    std::size_t room = 0;
    for (const iovec& each : into) room += each.iov_len;
    if (got < room) readable_ = false;  // there was no more; the next event says when there is
  }
  return got > 0;
}

bool Inlet::fill() {
  readable_ = readable();
  if (!readable_) return false;
  if (buffer_ == nullptr) buffer_ = buffers_.take();
  HeadBuffer& buffer = *buffer_;
  if (buffer.begin > 0) {
    std::memmove(buffer.bytes.data(), buffer.bytes.data() + buffer.begin, text().size());
    buffer.end -= std::exchange(buffer.begin, 0);
  }
  if (buffer.end == buffer.bytes.size()) {
    paused_ = true;
    readable_ = false;
    return false;
  }
  std::size_t got = 0;
  const iovec room{buffer.bytes.data() + buffer.end, buffer.bytes.size() - buffer.end};
  if (!move({&room, 1}, got)) return false;
  buffer.end += got;
  return true;
}

void Inlet::begin_body(std::uint64_t length, bool chunked) {
  chunks_.reset();
  if (chunked) chunks_.emplace();
  left_ = length;
  came_ = dropped_ = 0;
}

std::size_t Inlet::take(std::span<char> into) {
  const std::string_view have = text();
  if (have.empty()) return 0;
  if (chunks_) {
    const ChunkedBody::Taken taken = chunks_->take(have, into);
    skip(taken.wire);
    came_ += taken.body;
    if (chunks_->ended()) left_ = 0;
    return taken.body;
  }
  const std::size_t count = std::min(have.size(), into.size());
  if (count == 0) return 0;
  std::memcpy(into.data(), have.data(), count);
  skip(count);
  left_ -= count;
  came_ += count;
  return count;
}

bool Inlet::read(std::span<const iovec> into, std::size_t& got) {
  got = 0;
  if (chunks_) return fill();
  if (!move(into, got)) return false;
  left_ -= got;
  came_ += got;
  return true;
}

bool Inlet::drop(bool all) {
  const std::uint64_t wanted = all ? std::numeric_limits<std::uint64_t>::max() : left_;
  std::size_t got = static_cast<std::size_t>(std::min<std::uint64_t>(text().size(), wanted));
  if (got > 0) skip(got);
  left_ -= std::min<std::uint64_t>(left_, got);
  if (!all && left_ == 0) return true;
  std::array<char, 16'384> scrap;
  const iovec room{scrap.data(), static_cast<std::size_t>(
                                     std::min<std::uint64_t>(scrap.size(), all ? wanted : left_))};
  if (!move({&room, 1}, got)) return false;
  dropped_ += got;
  left_ -= std::min<std::uint64_t>(left_, got);
  return true;
}

void Inlet::end_body() {
  paused_ = false;
  dropped_ = 0;
}

}  // namespace partita::serve
