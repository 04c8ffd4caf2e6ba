// Inbound: bulk on its way in, of copies into the device and of images, piece by piece as it comes.
#pragma once

#include "server/memory.h"

namespace partita::remote::server {

class Inbound {
 public:
  Inbound(FrameReader& reader, DeviceWork& work, const Allocations& allocations, Streams& streams,
          Images& images, Outbox& out, const SessionLimits& limits)
      : reader_(reader),
        work_(work),
        allocations_(allocations),
        streams_(streams),
        images_(images),
        out_(out),
        limits_(limits) {}

  // So many bytes follow the frame at hand, of which the first may have been read ahead: they are
  // dropped, unless one of the operations below takes them.
  void begin(std::uint64_t bytes, std::vector<std::byte> ahead = {}) {
    bulk_ = {.kind = Kind::drop, .left = bytes, .ahead = std::move(ahead)};
  }
  Done on(const CopyIn& op);
  Done on(const ModulePut& op);
  bool under_way() const { return bulk_.kind != Kind::none; }
  // Whether it got on.
  bool go_on();

 private:
  enum class Kind : std::uint8_t { none, drop, chunks, image };
  struct Arriving {
    Kind kind = Kind::none;
    std::uint64_t left = 0, to = 0;
    std::vector<std::byte> ahead = {};
    std::size_t used = 0;  // of those
    StreamHandle stream = {};
    std::span<std::byte> target = {};
    std::vector<std::byte> chunk = {};
    std::size_t filled = 0;
    ModulePut put = {};
  };
  bool go_on_with_chunks();
  bool find_target();
  bool go_on_with_image();
  bool room_for(std::uint64_t bytes);
  bool give_up(const Refused& why);
  bool fill(std::span<std::byte> into);
  bool stopped(const Error& error);

  FrameReader& reader_;
  DeviceWork& work_;
  const Allocations& allocations_;
  Streams& streams_;
  Images& images_;
  Outbox& out_;
  const SessionLimits& limits_;
  Arriving bulk_ = {};
  std::deque<Staging> staged_ = {};
  std::uint64_t staged_bytes_ = 0;
  bool asked_for_room_ = false;
};

}  // namespace partita::remote::server
