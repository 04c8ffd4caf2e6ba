// Core: what the parts of a session share, under one lock: the connection, what the server said of
// itself, numbers for handles, what the server says unasked, what was refused.
// Thread rule: `mutex` is held wherever a Lock is asked for and where data is touched that is not
// atomic.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "client/arena.h"
#include "client/callbacks.h"
#include "client/device.h"
#include "client/link.h"
#include "client/settings.h"

namespace partita::remote::client {

using ShareKey = std::array<std::byte, 16>;
// As an answer brought it.
Got<ShareKey> key_in(Bytes bytes);

class Core final : public NoticeReader {
 public:
  // Connects when that has not been tried.
  Status connected(Lock& lock);
  // The error that stays, or kOk; local, without the lock: once ready, the link stays until the
  // process ends.
  Status failure();
  std::uint64_t new_handle() { return new_handles(1); }
  // So many one behind the other: the first.
  std::uint64_t new_handles(std::uint64_t count) {
    return std::exchange(next_handle_, next_handle_ + count) + 1;
  }
  // A callback that the server asks for; where the bytes of a copy go that nobody waits for.
  std::uint64_t add_callback(const Callback& callback) {
    return put_callback(++next_token_, callback);
  }
  // In place of the one that had this token. Returns the token.
  std::uint64_t put_callback(std::uint64_t token, const Callback& callback);
  std::uint64_t expect_copy(std::byte* to, std::uint64_t bytes);
  // Says once that a function is not there, and again at the end.
  void refuse(const char* function);
  std::string refused_code();  // what the server said of the last device code that it refused
  // A launch that failed, and that the program asked which error there is: until it does, the
  // failure went by unnoticed.
  void note_failed_launch(Status status);
  void note_asked();
  // What came of a session, once it has ended or begins anew with `status`.
  void judge_end(Status status);
  // Says at the end what was refused or failed. A program may have looked at none of it.
  void say_outcome(Status status);
  void write_counts(const Traffic& traffic);
  // Forgets what the server knew. In the child of a fork nothing of the parent's may be touched.
  void clear(bool child);

  std::mutex mutex;
  Settings settings;
  std::unique_ptr<Link> link;
  std::atomic<bool> is_ready = false, left = false;
  Device device;  // constant once ready
  ArenaShape arena;
  Stats stats;
  bool shares = false;  // other processes may see what comes to the device
  std::uint64_t generation = 0;             // of what the server knows
  void (*at_first)() = [] {};               // before the process first asks for a connection
  Callbacks::Step before_call, after_call;  // around functions of the program, without the lock

 private:
  struct Deferred {  // a copy into pinned memory on its way
    std::byte* to = nullptr;
    std::uint64_t bytes = 0;
  };
  void said(std::uint32_t where, Bytes text) override;
  void waiting(std::uint32_t place) override;
  void call(Token token) override;
  void failed() override;
  std::span<std::byte> place_of(Token token, std::uint64_t bytes) override;
  Status connect(Lock& lock);
  Status greet(Lock& lock);
  void mark_fault();
  void mark_unnoticed(bool is);
  std::string counts_file() const;

  Status connect_failed_ = kOk;
  std::uint64_t next_handle_ = 0x1000, next_token_ = 0;
  std::atomic<Status> failed_launch_ = kOk;  // the last
  std::atomic<bool> asked_ = false, unnoticed_ = false;
  std::mutex refusal_mutex_;  // of what follows, and of the mark
  bool marked_ = false, is_child_ = false;
  std::set<std::string> refused_;
  std::string refused_code_;

  std::mutex notice_mutex_;  // inside `mutex` where both are held
  std::map<std::uint64_t, Deferred> deferred_;
  std::unique_ptr<Callbacks> callbacks_;
};

}  // namespace partita::remote::client
