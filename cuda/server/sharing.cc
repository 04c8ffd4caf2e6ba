#include "server/sharing.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace partita::remote::server {

// ---- events ----

SharedEvent::Page* SharedEvent::map(const Descriptor& file) {
  void* const at =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  return at == MAP_FAILED ? nullptr : static_cast<Page*>(at);
}

std::shared_ptr<SharedEvent> SharedEvent::in(const Descriptor& file, std::uint64_t session) {
  Page* const page = map(file);
  return std::shared_ptr<SharedEvent>(page == nullptr ? nullptr : new SharedEvent(page, session));
}

SharedEvent::~SharedEvent() {
  end_records(*page_, session_);
  ::munmap(page_, kBytes);
}

std::uint64_t SharedEvent::begin() {
  const std::uint64_t record = ++page_->last;
  Slot& slot = page_->slots[record % kSlots];
  slot.session = session_;
  slot.begun = record;
  return record;
}

void SharedEvent::reach(std::uint64_t record) {
  std::atomic<std::uint64_t>& ended = page_->slots[record % kSlots].ended;
  std::uint64_t before = ended;
  while (before < record && !ended.compare_exchange_weak(before, record)) {
  }
}

bool SharedEvent::reached(std::uint64_t record) const {
  return record == 0 || page_->slots[record % kSlots].ended >= record;
}

void SharedEvent::end_records(Page& page, std::uint64_t session) {
  for (Slot& slot : page.slots)
    if (slot.session == session && slot.ended < slot.begun) slot.ended = slot.begun.load();
}

void SharedEvent::end_records(const Descriptor& file, std::uint64_t session) {
  Page* const page = map(file);
  if (page == nullptr) return;
  end_records(*page, session);
  ::munmap(page, kBytes);
}

// ---- what a session shares ----

Sharing::~Sharing() {
  for (const ShareKey& key : made_) shelf_->drop(key);
}

Answered<Shelf::Thing> Sharing::make(std::uint64_t bytes, bool event) {
  if (shelf_ == nullptr) return refuse(kNotSupported, "this server's sessions share nothing");
  Answered<Shelf::Thing> made = shelf_->make(bytes, event);
  if (made) made_.insert(made->key);
  return made;
}

Answered<Shelf::Thing> Sharing::open(Bytes bytes, bool event) {
  if (shelf_ == nullptr) return refuse(kNotSupported, "this server's sessions share nothing");
  ShareKey key;
  if (bytes.size() != key.size())
    return refuse(kInvalidValue, fmt::format("a key of {} bytes", bytes.size()));
  std::ranges::copy(bytes, key.begin());
  return shelf_->open(key, event);
}

Bytes Sharing::told(const ShareKey& key) {
  told_ = key;
  return told_;
}

Answered<ShareKey> Sharing::share(std::uint64_t address, std::uint64_t bytes) {
  if (const auto known = by_address_.find(address); known != by_address_.end())
    return known->second;
  if (address != 0) {
    const auto range = allocations_.ranges().find(address);
    if (range == allocations_.ranges().end() || range->second.owner != 0 || range->second.going)
      return refuse(kInvalidValue, fmt::format("nothing is allocated at {:#x}", address));
    bytes = range->second.bytes;
  }
  const Answered<Shelf::Thing> made = make(bytes, false);
  if (!made) return tl::unexpected<Refused>(made.error());
  if (address == 0) return made->key;
  if (Done done = work_.backend().put_into(address, made->file.get(), true); !done) {
    shelf_->drop(made->key);
    made_.erase(made->key);
    return tl::unexpected<Refused>(done.error());
  }
  by_address_.emplace(address, made->key);
  return made->key;
}

// Its pages are exchanged: nothing may run meanwhile, nor what came while it was waited for.
void Sharing::share_when_idle(std::uint32_t request, std::uint64_t address) {
  work_.fence([this, request, address] {
    if (!work_.finished()) return share_when_idle(request, address);
    if (work_.dead() != 0) return out_.settle<MemoryShare>(request, work_.dead());
    const Answered<ShareKey> key = share(address, 0);
    if (!key) {
      out_.say(kToError, "memory_share: " + key.error().reason);
      return out_.settle<MemoryShare>(request, key.error().status);
    }
    out_.settle<MemoryShare>(request, kSuccess, {told(*key)});
  });
}

Reply<MemoryShare> Sharing::on(const MemoryShare& op) {
  if (op.address.value != 0 && !work_.finished()) {
    share_when_idle(out_.owe<MemoryShare>(), op.address.value);
    return std::nullopt;
  }
  const Answered<ShareKey> key = share(op.address.value, op.bytes);
  if (!key) return tl::unexpected<Refused>(key.error());
  return MemoryShare::Reply{told(*key)};
}

Reply<MemoryOpen> Sharing::on(const MemoryOpen& op) {
  const Answered<Shelf::Thing> opened = open(op.key, false);
  if (!opened) return tl::unexpected<Refused>(opened.error());
  if (opened->bytes != op.bytes)
    return refuse(kInvalidValue,
                  fmt::format("opening {} bytes; {} are shared", op.bytes, opened->bytes));
  if (Done done = memory_.on(Alloc{op.address, op.bytes}); !done)
    return tl::unexpected<Refused>(done.error());
  if (memory_.stalled()) {
    memory_.give_up();
    return refuse(kNotReady, fmt::format("something at {:#x} is being freed", op.address.value));
  }
  if (Done done = work_.backend().put_into(op.address.value, opened->file.get(), false); !done) {
    static_cast<void>(memory_.on(Free{op.address}));
    return tl::unexpected<Refused>(done.error());
  }
  return NoReply{};
}

void Sharing::freed(std::uint64_t address) {
  const auto found = by_address_.find(address);
  if (found == by_address_.end()) return;
  shelf_->drop(found->second);
  made_.erase(found->second);
  by_address_.erase(found);
}

Reply<EventShare> Sharing::on(const EventShare& op) {
  Captured* const event = streams_.find(op.event);
  if (event == nullptr)
    return refuse(kInvalidHandle, fmt::format("there is no event {}", op.event.value));
  if (event->live.use_count() > 1)
    return refuse(kNotSupported, "sharing an event that nodes of graphs have");
  if (event->shared == nullptr) {
    const Answered<Shelf::Thing> made = make(SharedEvent::kBytes, true);
    if (!made) return tl::unexpected<Refused>(made.error());
    event->shared = SharedEvent::in(made->file, made->session);
    if (event->shared == nullptr) return refuse(kOutOfMemory, "no memory for an event's page");
    event->key = made->key;
    if (!work_.backend().finished(ObjectKind::event, event->id))
      work_.watch(ObjectKind::event, event->id,
                  [shared = event->shared, record = event->shared->begin()] {
                    shared->reach(record);
                  });
  }
  return EventShare::Reply{told(event->key)};
}

Reply<EventOpen> Sharing::on(const EventOpen& op) {
  const Answered<Shelf::Thing> opened = open(op.key, true);
  if (!opened) return tl::unexpected<Refused>(opened.error());
  if (Done made = streams_.on(EventCreate{.event = op.event, .flags = kNoTiming}); !made)
    return tl::unexpected<Refused>(made.error());
  Captured& event = *streams_.find(op.event);
  event.shared = SharedEvent::in(opened->file, opened->session);
  event.key = opened->key;
  if (event.shared == nullptr) return refuse(kOutOfMemory, "no memory for an event's page");
  return NoReply{};
}

}  // namespace partita::remote::server
