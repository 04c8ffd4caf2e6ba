// Sharing: what a session lets other sessions open, memory and events. Both are files in memory
// that the broker makes and keeps, and hands to sessions of the same client that bring the key: no
// file of a worker's reaches another one. What lies in a file is nevertheless the other's to write:
// an event's slots are compared, never believed to be an address or a length.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <set>

#include "base/descriptor.h"
#include "server/memory.h"
#include "server/shelf.h"

namespace partita::remote::server {

// What an event is to several sessions: a slot for each of its last records.
class SharedEvent {
 public:
  static constexpr std::uint64_t kBytes = 4096;
  // Maps the file; nullptr where that cannot be.
  static std::shared_ptr<SharedEvent> in(const Descriptor& file, std::uint64_t session);
  // Records of this session that are not over are over now.
  ~SharedEvent();
  SharedEvent(const SharedEvent&) = delete;
  SharedEvent& operator=(const SharedEvent&) = delete;

  // A record begins: its number.
  std::uint64_t begin();
  void reach(std::uint64_t record);
  std::uint64_t last() const { return page_->last.load(); }
  bool reached(std::uint64_t record) const;

  // For a session that has ended without doing so itself.
  static void end_records(const Descriptor& file, std::uint64_t session);

 private:
  static constexpr std::size_t kSlots = 128;
  struct Slot {
    std::atomic<std::uint64_t> begun = 0, ended = 0, session = 0;
  };
  struct Page {
    std::atomic<std::uint64_t> last = 0;
    std::array<Slot, kSlots> slots = {};
  };
  static_assert(sizeof(Page) <= kBytes && std::atomic<std::uint64_t>::is_always_lock_free);
  SharedEvent(Page* page, std::uint64_t session) : page_(page), session_(session) {}
  static Page* map(const Descriptor& file);
  static void end_records(Page& page, std::uint64_t session);

  Page* const page_;
  const std::uint64_t session_;
};

class Sharing {
 public:
  Sharing(Shelf* shelf, DeviceWork& work, Allocations& allocations, Memory& memory,
          Streams& streams, Outbox& out)
      : shelf_(shelf),
        work_(work),
        allocations_(allocations),
        memory_(memory),
        streams_(streams),
        out_(out) {}
  ~Sharing();
  Sharing(const Sharing&) = delete;
  Sharing& operator=(const Sharing&) = delete;

  Reply<MemoryShare> on(const MemoryShare& op);
  Reply<MemoryOpen> on(const MemoryOpen& op);
  Reply<EventShare> on(const EventShare& op);
  Reply<EventOpen> on(const EventOpen& op);
  // What was shared there cannot be opened any more.
  void freed(std::uint64_t address);

 private:
  Answered<Shelf::Thing> make(std::uint64_t bytes, bool event);
  Answered<Shelf::Thing> open(Bytes key, bool event);
  Answered<ShareKey> share(std::uint64_t address, std::uint64_t bytes);
  void share_when_idle(std::uint32_t request, std::uint64_t address);
  Bytes told(const ShareKey& key);

  Shelf* const shelf_;  // null: nothing is shared here
  DeviceWork& work_;
  Allocations& allocations_;
  Memory& memory_;
  Streams& streams_;
  Outbox& out_;
  std::map<std::uint64_t, ShareKey> by_address_;
  std::set<ShareKey> made_;
  ShareKey told_ = {};  // the last answer's
};

}  // namespace partita::remote::server
