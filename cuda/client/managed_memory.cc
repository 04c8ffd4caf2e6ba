#include "client/managed_memory.h"

#include <cstdio>

#include "client/session.h"

namespace partita::remote::client {

Got<std::uint64_t> ManagedMemory::allocate(std::uint64_t bytes) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  if (const Status status = core_.link->failure(); status != kOk) return refused(status);
  const auto address = all_.memory.allocate(lock, bytes, kHostPage);
  if (!address) return address;
  Status status = share(lock, {*address, bytes});
  // Zero on both sides: pages that the program leaves, or makes, zero are not sent.
  const Set zero{.stream = {stream_}, .to = {*address}, .element = 1, .count = bytes};
  if (status == kOk) status = core_.link->post(lock, zero);
  if (status == kOk)
    status = core_.link->call_held(lock, StreamSync{.stream = {stream_}}, Cause::managed).status;
  if (status == kOk) return address;
  managed_.unmap(*address);
  if (const Status freed = all_.memory.release(lock, *address); freed != kOk) return refused(freed);
  return refused(status);
}

Got<void*> ManagedMemory::share_variable(Module& module, const std::string& name) {
  const auto block = all_.kernels.symbol(module, name);
  if (!block) return refused(block.error());
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  if (!managed_.find(block->address)) {
    if (const Status status = share(lock, *block); status != kOk) return refused(status);
    device_turn_ = true;  // its first value is the module's
    if (const Status status = end_work(lock); status != kOk) return refused(status);
  }
  return reinterpret_cast<void*>(block->address);
}

Status ManagedMemory::share(Lock& lock, const Block& block) {
  if (!managed_.map(block)) {
    std::fputs(
        "partita remote: managed memory: the program has something else at the addresses that the"
        " device has for it\n",
        stderr);
    return kNotSupported;
  }
  program_turn_ = true;
  const auto stream = side_stream(lock);
  return stream ? kOk : stream.error();
}

Status ManagedMemory::adopt(Lock& lock, const Block& range, std::byte* host) {
  managed_.adopt(range, host);
  program_turn_ = adopted_more_ = true;
  const auto stream = side_stream(lock);
  return stream ? kOk : stream.error();
}

Got<StreamHandle> ManagedMemory::side_stream(const Lock& lock) {
  if (stream_ != 0) return StreamHandle{stream_};
  stream_ = core_.new_handle();
  const StreamCreate create{.stream = {stream_}, .flags = kNonBlocking};
  if (const Status status = core_.link->post(lock, create); status != kOk) return refused(status);
  return StreamHandle{stream_};
}

// A turn is over when nothing of the device's runs that could still write.
Status ManagedMemory::release(std::uint64_t address) {
  if (const Status status = all_.streams.synchronise(); status != kOk) return status;
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  return managed_.unmap(address) ? all_.memory.release(lock, address) : kInvalidValue;
}

std::optional<Block> ManagedMemory::block_at(std::uint64_t address) {
  if (!core_.is_ready.load(std::memory_order_acquire)) return std::nullopt;
  const Lock lock(core_.mutex);
  if (all_.host.is_pinned(lock, reinterpret_cast<const void*>(address), 1)) return std::nullopt;
  return managed_.find(address);
}

void ManagedMemory::attach() {
  const Lock lock(core_.mutex);
  attached_ = program_turn_ = true;
}

Status ManagedMemory::settle(std::uint64_t stream) {
  return device_turn_.load(std::memory_order_relaxed) ? all_.streams.synchronise(stream) : kOk;
}

Status ManagedMemory::begin_work(Lock& lock, std::uint64_t stream, std::optional<std::uint64_t> to,
                                 bool reads) {
  if (managed_.empty() || all_.captures.at(stream) != nullptr) return kOk;
  const bool writes = !to || managed_.find(*to);
  if (!reads && !writes) return kOk;
  const bool works = device_turn_.load(std::memory_order_relaxed);
  if (writes) device_turn_ = true;
  if (program_turn_) return show_device(lock);
  return works ? show_pinned(lock, stream) : kOk;
}

// Pinned memory is the program's to write while the device works, for work that it has not begun:
// this stream goes on once it is there, and so do those in which something begins afterwards.
Status ManagedMemory::show_pinned(Lock& lock, std::uint64_t stream) {
  const auto sent = send_changes(lock, true, true);
  if (!sent) return sent.error();
  Status status = kOk;
  if (*sent) {
    if (event_ == 0) {
      event_ = core_.new_handle();
      status = core_.link->post(lock, EventCreate{.event = {event_}, .flags = kNoTiming});
    }
    if (status == kOk)
      status = core_.link->post(lock, EventRecord{.event = {event_}, .stream = {stream_}});
    on_its_way_ = true;
  }
  if (!on_its_way_ || status != kOk) return status;
  return core_.link->post(lock, StreamWaitEvent{.stream = {stream}, .event = {event_}});
}

// It could touch managed memory while work runs, and nobody would know.
Status ManagedMemory::check_callback() {
  if (managed_.empty()) return kOk;
  core_.refuse("a host function beside managed memory");
  return kNotSupported;
}

// Waited for: what comes next may run in any stream.
Status ManagedMemory::show_device(Lock& lock) {
  const auto sent = send_changes(lock, attached_, false);
  if (!sent) return sent.error();
  program_turn_ = attached_ || !device_turn_;
  if (!*sent) return kOk;
  on_its_way_ = false;
  return core_.link->call_held(lock, StreamSync{.stream = {stream_}}, Cause::managed).status;
}

Got<bool> ManagedMemory::send_changes(Lock& lock, bool exactly, bool adopted) {
  bool sent = false;
  do {
    adopted_more_ = false;  // what is sent may name pinned memory, which is to be sent then, too
    for (const Block& change : managed_.take_changes(exactly, adopted)) {
      const Block words = managed_.words(change);
      Status status = all_.host.map_named(lock, words.address, managed_.bytes(words));
      const CopyIn copy{.stream = {stream_}, .to = {change.address}};
      if (status == kOk) status = core_.link->post(lock, copy, managed_.bytes(change));
      if (status != kOk) return refused(status);
      sent = true;
    }
  } while (adopted_more_);
  return sent;
}

Status ManagedMemory::begin_wait(Lock& lock) {
  if (!device_turn_) return kOk;
  const auto sent = send_changes(lock, true, true);
  return sent ? kOk : sent.error();
}

Status ManagedMemory::end_work(Lock& lock) {
  if (!device_turn_) return kOk;
  std::vector<std::byte> device;
  for (const Block& range : managed_.ranges()) {
    device.resize(range.bytes);
    const CopyOut copy{.stream = {stream_}, .from = {range.address}, .bytes = range.bytes};
    const Answer answer = core_.link->call_held(lock, copy, Cause::managed, device);
    if (answer.status != kOk) return answer.status;
    if (answer.bulk_bytes != range.bytes) return kUnknown;
    if (!managed_.give(range.address, device))
      core_.refuse("managed memory that program and device change at the same time");
  }
  program_turn_ = true;
  on_its_way_ = false;
  device_turn_ = !all_.streams.idle();
  return kOk;
}

void ManagedMemory::clear(bool child) {
  if (child) managed_.forget();
  managed_.clear();
  stream_ = event_ = 0;
  program_turn_ = on_its_way_ = attached_ = device_turn_ = false;
}

}  // namespace partita::remote::client
