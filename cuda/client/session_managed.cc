// Managed memory of the session: whose turn it is to see the other's writes.
#include <cstdio>

#include "client/session.h"

namespace partita::remote::client {

Got<std::uint64_t> Session::allocate_managed(std::uint64_t bytes) {
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return refused(status);
  if (const Status status = link_->failure(); status != kOk) return refused(status);
  const auto address = allocate_locked(lock, bytes, kHostPage);
  if (!address) return address;
  const Status status = share(lock, {*address, bytes});
  if (status == kOk) return address;
  if (const Status freed = release_locked(lock, *address); freed != kOk) return refused(freed);
  return refused(status);
}

Got<void*> Session::share_variable(Module& module, const std::string& name) {
  const auto block = symbol(module, name);
  if (!block) return refused(block.error());
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return refused(status);
  if (!managed_.find(block->address)) {
    if (const Status status = share(lock, *block); status != kOk) return refused(status);
    device_turn_ = true;  // its first value is the module's
    if (const Status status = show_program(lock); status != kOk) return refused(status);
  }
  return reinterpret_cast<void*>(block->address);
}

Status Session::share(Lock& lock, const Block& block) {
  if (!managed_.map(block)) {
    std::fputs(
        "partita remote: managed memory: the program has something else at the addresses that the"
        " device has for it\n",
        stderr);
    return kNotSupported;
  }
  program_turn_ = true;
  if (managed_stream_ != 0) return kOk;
  managed_stream_ = ++next_handle_;
  return link_->post(lock, StreamCreate{.stream = {managed_stream_}, .flags = kNonBlocking});
}

// A turn is over when nothing of the device's runs that could still write.
Status Session::release_managed(std::uint64_t address) {
  if (const Status status = synchronise(); status != kOk) return status;
  Lock lock(mutex_);
  if (const Status status = connected(lock); status != kOk) return status;
  return managed_.unmap(address) ? release_locked(lock, address) : kInvalidValue;
}

std::optional<Block> Session::managed_at(std::uint64_t address) {
  if (!is_ready_.load(std::memory_order_acquire)) return std::nullopt;
  const Lock lock(mutex_);
  return managed_.find(address);
}

void Session::attach_managed() {
  const Lock lock(mutex_);
  attached_ = program_turn_ = true;
}

Status Session::settle(std::uint64_t stream) {
  return device_turn_.load(std::memory_order_relaxed) ? synchronise_stream(stream) : kOk;
}

Status Session::begin_work(Lock& lock, std::uint64_t stream, std::optional<std::uint64_t> to) {
  if (managed_.empty() || capture_at(stream) != nullptr) return kOk;
  if (!to || managed_.find(*to)) device_turn_ = true;
  return show_device(lock);
}

// It could touch managed memory while work runs, and nobody would know.
Status Session::check_callback() {
  if (managed_.empty()) return kOk;
  refuse("a host function beside managed memory");
  return kNotSupported;
}

// Waited for: what comes next may run in any stream.
Status Session::show_device(Lock& lock) {
  if (!program_turn_) return kOk;
  program_turn_ = attached_;
  const std::vector<Block> changes = managed_.take_changes(attached_);
  for (const Block& change : changes) {
    const CopyIn copy{.stream = {managed_stream_}, .to = {change.address}};
    const Status status = link_->post(lock, copy, managed_.bytes(change));
    if (status != kOk) return status;
  }
  if (changes.empty()) return kOk;
  return link_->call_held(lock, StreamSync{.stream = {managed_stream_}}, Cause::managed).status;
}

Status Session::show_program(Lock& lock) {
  if (!device_turn_) return kOk;
  std::vector<std::byte> device;
  for (const Block& range : managed_.ranges()) {
    device.resize(range.bytes);
    const CopyOut copy{.stream = {managed_stream_}, .from = {range.address}, .bytes = range.bytes};
    const Answer answer = link_->call_held(lock, copy, Cause::managed, device);
    if (answer.status != kOk) return answer.status;
    if (answer.bulk_bytes != range.bytes) return kUnknown;
    managed_.give(range.address, device);
  }
  program_turn_ = true;
  device_turn_ = !idle();
  return kOk;
}

}  // namespace partita::remote::client
