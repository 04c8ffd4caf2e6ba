#include "server/cuda/transfers.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace partita::remote::cuda {

using server::Answered;
using server::Completed;

Answered<void> Transfers::in(Stream& stream, const server::CopyInWork& work,
                             std::vector<Pinned>* kept) {
  for (std::size_t at = 0; at < work.bytes->size(); at += kPinnedBytes) {
    const std::size_t bytes = std::min(kPinnedBytes, work.bytes->size() - at);
    const Answered<Pinned> buffer = pinned_.take();
    if (!buffer) return tl::unexpected(buffer.error());
    std::memcpy(*buffer, work.bytes->data() + at, bytes);
    if (kept != nullptr) kept->push_back(*buffer);
    if (Answered<void> ok = context_.done(
            "cuMemcpyHtoDAsync",
            context_.api().cuMemcpyHtoDAsync_v2(work.to + at, *buffer, bytes, stream.stream));
        !ok)
      return ok;
    if (kept != nullptr) continue;
    if (Answered<void> ok = streams_.mark(stream, {.buffer = *buffer}); !ok) return ok;
  }
  return {};
}

Answered<void> Transfers::out(Stream& stream, const server::CopyOutWork& work) {
  Completed tell{.kind = Completed::Kind::copied, .tag = work.tag};
  if (context_.dead() || work.bytes == 0) return streams_.mark(stream, {.tell = std::move(tell)});
  const auto into = std::make_shared<std::vector<std::byte>>(work.bytes);
  for (std::size_t at = 0; at < work.bytes; at += kPinnedBytes) {
    const std::size_t bytes = std::min<std::size_t>(kPinnedBytes, work.bytes - at);
    const Answered<Pinned> buffer = pinned_.take();
    if (!buffer) return tl::unexpected(buffer.error());
    if (Answered<void> ok = context_.done(
            "cuMemcpyDtoHAsync",
            context_.api().cuMemcpyDtoHAsync_v2(*buffer, work.from + at, bytes, stream.stream));
        !ok)
      return ok;
    Mark part{.buffer = *buffer, .into = into, .offset = at, .bytes = bytes};
    if (at + bytes == work.bytes) part.tell = std::move(tell);
    if (Answered<void> ok = streams_.mark(stream, std::move(part)); !ok) return ok;
  }
  return {};
}

Answered<void> Transfers::within(abi::Stream stream, const server::CopyWork& work) {
  const DriverApi& api = context_.api();
  if (work.rows == 0 || work.width == 0) return {};
  if (work.rows == 1)
    return context_.done("cuMemcpyDtoDAsync",
                         api.cuMemcpyDtoDAsync_v2(work.to, work.from, work.width, stream));
  abi::Copy2D copy{};
  copy.from_type = copy.to_type = abi::kMemoryDevice;
  copy.from_device = work.from;
  copy.from_pitch = work.from_pitch;
  copy.to_device = work.to;
  copy.to_pitch = work.to_pitch;
  copy.width = work.width;
  copy.height = work.rows;
  return context_.done("cuMemcpy2DAsync", api.cuMemcpy2DAsync_v2(&copy, stream));
}

Answered<void> Transfers::set(abi::Stream stream, const server::SetWork& work) {
  const DriverApi& api = context_.api();
  if (work.rows == 0 || work.count == 0) return {};
  const std::uint64_t pitch = work.rows == 1 ? work.count * work.element : work.pitch;
  if (work.element == 1)
    return context_.done(
        "cuMemsetD2D8Async",
        api.cuMemsetD2D8Async(work.to, pitch, static_cast<unsigned char>(work.value), work.count,
                              work.rows, stream));
  if (work.element == 2)
    return context_.done(
        "cuMemsetD2D16Async",
        api.cuMemsetD2D16Async(work.to, pitch, static_cast<unsigned short>(work.value), work.count,
                               work.rows, stream));
  return context_.done("cuMemsetD2D32Async", api.cuMemsetD2D32Async(work.to, pitch, work.value,
                                                                    work.count, work.rows, stream));
}

}  // namespace partita::remote::cuda
