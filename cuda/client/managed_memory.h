// Managed memory of a session: memory that the program may touch too, when it has waited for the
// device; page by page (managed.h). Here: whose turn it is to see the other's writes.
// Functions without a Lock take the session's; the others are for the session's other parts.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "client/core.h"
#include "client/managed.h"
#include "client/modules.h"

namespace partita::remote::client {

class Session;

class ManagedMemory {
 public:
  ManagedMemory(Session& all, Core& core) : all_(all), core_(core) {}

  Got<std::uint64_t> allocate(std::uint64_t bytes);
  Status release(std::uint64_t address);
  Got<void*> share_variable(Module& module, const std::string& name);  // a __managed__ one
  std::optional<Block> block_at(std::uint64_t address);
  void attach();  // from now on the program may touch some of it beside running work
  // Before the program takes a copy for finished: what work in this stream wrote is there, too.
  Status settle(std::uint64_t stream);

  // Before an operation of the device's that writes to `to`, or anywhere, and may read managed
  // memory or not.
  Status begin_work(Lock& lock, std::uint64_t stream, std::optional<std::uint64_t> to = {},
                    bool reads = true);
  // Before the program waits for what may wait for the program: flags that it has set in its own
  // memory, which kernels see while they run.
  Status begin_wait(Lock& lock);
  // Nothing of a stream runs any more: what the device may have changed is the program's to see.
  Status end_work(Lock& lock);
  // The same where nothing was asked: the error that stays.
  Status ended(Lock& lock) { return device_turn_ ? end_work(lock) : core_.link->failure(); }
  Status check_callback();
  bool holds(const Lock&, std::uint64_t address) const {
    return managed_.find(address).has_value();
  }
  // The program's memory `host` is what the device has at `range`.
  Status adopt(Lock& lock, const Block& range, std::byte* host);
  // A stream beside all that the program has.
  Got<StreamHandle> side_stream(const Lock& lock);
  void unmap(const Lock&, std::uint64_t address) { managed_.unmap(address); }
  void clear(bool child);

 private:
  Status share(Lock& lock, const Block& block);
  Status show_device(Lock& lock);  // what the program changed
  Status show_pinned(Lock& lock, std::uint64_t stream);
  // As Managed::take_changes. Whether there was anything.
  Got<bool> send_changes(Lock& lock, bool exactly, bool adopted);

  Session& all_;
  Core& core_;
  Managed managed_;
  std::uint64_t stream_ = 0, event_ = 0;          // event_: when what was sent last is there
  bool on_its_way_ = false;                       // and nobody has waited for it
  bool program_turn_ = false, attached_ = false;  // the program may have changed managed memory
  bool adopted_more_ = false;
  std::atomic<bool> device_turn_ = false;         // the device may have
};

}  // namespace partita::remote::client
