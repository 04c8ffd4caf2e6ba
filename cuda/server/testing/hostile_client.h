// Sessions of a client that wishes us ill, made from the table of operations: frames whose fields
// are addresses of others, wrong sizes, huge lengths, handles that are not there or were used up;
// bodies that are cut or changed, frames that stop in the middle. For tests and soak runs. The same
// seed gives the same session.
#pragma once

#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "base/rng.h"
#include "server/images.h"
#include "wire/frame.h"

namespace partita::remote::server {

class HostileClient {
 public:
  HostileClient(std::uint64_t seed, std::uint64_t arena) : rng_(seed), arena_(arena) {}

  // All that it sends behind its hello.
  std::vector<std::byte> session() {
    std::vector<std::byte> stream = decent_beginning();
    const std::uint64_t frames = 1 + rng_.below(60);
    for (std::uint64_t i = 0; i < frames; ++i) {
      std::vector<std::byte> frame = any_operation();
      if (rng_.below(25) == 0) damage(frame);
      stream.insert(stream.end(), frame.begin(), frame.end());
    }
    if (rng_.below(4) == 0 && !stream.empty()) stream.resize(rng_.below(stream.size()));
    return stream;
  }

  template <class Op>
  std::vector<std::byte> frame_of(const Op& op, std::uint32_t request, std::uint64_t bulk) const {
    FrameHeader header;
    header.body_bytes = static_cast<std::uint32_t>(encoded_size(op));
    header.code = Op::kSpec.code;
    header.request = request;
    header.bulk_bytes = bulk;
    std::vector<std::byte> frame(sizeof(header) + header.body_bytes + bulk);
    std::memcpy(frame.data(), &header, sizeof(header));
    encode(op, frame.data() + sizeof(header));
    return frame;
  }

 private:
  // What makes some of the rest meaningful: memory, a module, a kernel, streams, events.
  std::vector<std::byte> decent_beginning() {
    std::vector<std::byte> stream;
    const auto add = [&](std::vector<std::byte> frame) {
      if (rng_.below(8) != 0) stream.insert(stream.end(), frame.begin(), frame.end());
    };
    const std::string_view image = "fake";
    std::vector<std::byte> put =
        frame_of(ModulePut{digest_of(std::as_bytes(std::span(image))), 0, 4}, 0, 4);
    std::memcpy(put.data() + put.size() - 4, image.data(), 4);
    add(put);
    add(frame_of(ModuleLoad{{1}, digest_of(std::as_bytes(std::span(image)))}, 0, 0));
    const std::uint32_t layout[] = {0, 8, 8, 4, 12, 4};
    add(frame_of(KernelOpen{{1}, {1}, "add", std::as_bytes(std::span(layout))}, 0, 0));
    add(frame_of(Alloc{{arena_}, 4096}, 0, 0));
    add(frame_of(StreamCreate{{1}, 0, 0}, 0, 0));
    add(frame_of(StreamCreate{{2}, kNonBlocking, 0}, 0, 0));
    add(frame_of(EventCreate{{1}, 0}, 0, 0));
    add(frame_of(GraphCreate{{1}}, 0, 0));
    return stream;
  }

  std::vector<std::byte> any_operation() {
    std::vector<std::byte> frame;
    std::size_t count = 0;
    for_each(ClientOperations{}, [&]<class Op>() { ++count; });
    std::size_t which = rng_.below(count);
    if (which <= 4 && rng_.below(8) != 0) which = 5 + rng_.below(count - 5);  // fewer byes
    for_each(ClientOperations{}, [&]<class Op>() {
      if (which-- != 0) return;
      Op op;
      Op::fields(op, [this](std::string_view, auto& field) { fill(field); });
      std::uint32_t request = Op::kSpec.completion == Completion::async ? 0 : ++request_;
      if (rng_.below(60) == 0) request ^= 1;
      std::uint64_t bulk = Op::kSpec.bulk == Bulk::in ? rng_.below(300) : 0;
      if (rng_.below(100) == 0) bulk = rng_.below(10'000);
      frame = frame_of(op, request, bulk);
    });
    return frame;
  }

  void damage(std::vector<std::byte>& frame) {
    switch (rng_.below(4)) {
      case 0:  // another byte somewhere
        frame[rng_.below(frame.size())] ^= static_cast<std::byte>(1 + rng_.below(255));
        return;
      case 1:  // a length that is a lie
        frame[rng_.below(4)] = static_cast<std::byte>(rng_.below(256));
        return;
      case 2:  // huge bulk
        frame[16 + rng_.below(8)] = static_cast<std::byte>(rng_.below(256));
        return;
      default:  // half a frame
        frame.resize(rng_.below(frame.size()));
    }
  }

  std::uint64_t interesting() {
    constexpr std::uint64_t kValues[] = {0,          1,         2,     4,
                                         7,          8,         16,    255,
                                         256,        512,       4096,  4097,
                                         1 << 16,    1u << 31,  ~0u,   1ull << 40,
                                         1ull << 63, ~0ull - 7, ~0ull, 0x6000'0000'0000};
    return rng_.below(3) == 0 ? rng_.next() >> rng_.below(64)
                              : kValues[rng_.below(std::size(kValues))];
  }
  template <class T>
  void fill(T& field) {
    if constexpr (std::is_same_v<T, DevicePointer>) {
      const std::uint64_t near[] = {0, 256, 4, 4092, 4096, ~std::uint64_t{0}, 8192, 1 << 20};
      field.value = rng_.below(4) == 0 ? interesting() : arena_ + near[rng_.below(std::size(near))];
    } else if constexpr (std::is_same_v<T, Token>) {
      field.value = rng_.below(3);
    } else if constexpr (std::is_same_v<T, Extent3>) {
      const std::uint32_t sizes[] = {1, 1, 1, 2, 32, 0, 1025, ~0u};
      field = {sizes[rng_.below(8)], sizes[rng_.below(8)], sizes[rng_.below(8)]};
    } else if constexpr (std::is_same_v<T, Digest>) {
      const std::string_view image = "fake";
      if (rng_.below(3) != 0) field = digest_of(std::as_bytes(std::span(image)));
    } else if constexpr (std::is_same_v<T, Text>) {
      constexpr std::string_view kNames[] = {"add",     "nothing", "crash", "print",
                                             "counter", "",        "x"};
      field = kNames[rng_.below(std::size(kNames))];
    } else if constexpr (std::is_same_v<T, Bytes>) {
      bytes_.push_back(some_bytes());
      field = bytes_.back();
    } else if constexpr (std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::uint64_t> ||
                         std::is_same_v<T, std::int32_t>) {
      field = static_cast<T>(rng_.below(2) == 0 ? rng_.below(4) : interesting());
    } else {
      field.value = rng_.below(16) == 0 ? interesting() : rng_.below(4);  // a handle
    }
  }
  // A parameter block, a layout, numbers of nodes, the frame of a node, or noise.
  std::vector<std::byte> some_bytes() {
    std::vector<std::byte> bytes(16);
    DevicePointer to;
    fill(to);
    switch (rng_.below(4)) {
      case 0: {
        const std::uint32_t count = static_cast<std::uint32_t>(rng_.below(5000));
        std::memcpy(bytes.data(), &to.value, 8);
        std::memcpy(bytes.data() + 8, &count, 4);
        return bytes;
      }
      case 1:
        return {};
      case 2: {
        std::uint64_t node = 1 + rng_.below(3);
        std::memcpy(bytes.data(), &node, 8);
        bytes.resize(8 * rng_.below(2));
        return bytes;
      }
      default:
        return frame_of(Set{{}, to, 1, 1u << rng_.below(4), rng_.below(600), 1, 0}, 0, 0);
    }
  }

  Rng rng_;
  const std::uint64_t arena_;
  std::uint32_t request_ = 100;
  std::deque<std::vector<std::byte>> bytes_;  // that fields point to
};

}  // namespace partita::remote::server
