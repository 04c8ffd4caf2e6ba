// The connection to the server: operations go out in the order of the calls, answers come back to
// those who wait for them, notices to whom they concern.
//
// Lock: `mutex` of the owner guards what is sent. post() is called with it; call() is entered with
// it and lets it go before it waits. Waiting: one of the waiting threads reads the channel and
// hands answers to the others. Helper: a thread, started with the first operation, that sends what
// lies longer than kLinger, and reads when nobody waits and much is on its way (a server that
// cannot get rid of its notices would stop reading).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "client/stats.h"
#include "client/status.h"
#include "wire/net/frames.h"

namespace partita::remote::client {

using Lock = std::unique_lock<std::mutex>;

// Who gets what the server says unasked. Called by the thread that reads.
class NoticeReader {
 public:
  virtual ~NoticeReader() = default;
  virtual void said(std::uint32_t where, Bytes text) = 0;  // SaidTo
  virtual void waiting(std::uint32_t place) = 0;
  virtual void call(Token token) = 0;
  virtual void failed() = 0;  // the session has an error that stays
  // Where the bytes of a copy go; empty when nobody waits for them.
  virtual std::span<std::byte> place_of(Token token, std::uint64_t bytes) = 0;
};

struct Traffic {  // bytes
  std::uint64_t up = 0, down = 0;
};

// An answer. `reply` is the body behind the outcome.
struct Answer {
  Status status = kOk;
  std::uint64_t bulk_bytes = 0;
  std::vector<std::byte> reply;
};

// Who waits for an answer. Whoever waits first leads: he reads what comes, for all of them.
// Any thread.
class Waiters {
 public:
  struct Waiter {
    std::uint32_t request = 0;
    std::span<std::byte> into = {};
    bool done = false;
    Answer answer = {};
    std::condition_variable turn = {};
  };
  void enter(Waiter& waiter);
  Answer give_up(Waiter& waiter, Status status);
  // Until the answer is there, or all is lost: whether that came before `left` was over.
  // `read_one` is called while he leads.
  template <class Left, class Read>
  bool wait(Waiter& waiter, const Left& left, const Read& read_one) {
    std::unique_lock lock(mutex_);
    while (!waiter.done && (leading_ || left() > Nanos{})) {
      if (leading_) {  // who leads may be in the middle of the answer
        if (const Nanos most = left(); most == Nanos::max())
          waiter.turn.wait(lock);
        else
          waiter.turn.wait_for(lock, std::max<Nanos>(most, std::chrono::milliseconds(1)));
        continue;
      }
      leading_ = true;
      lock.unlock();
      read_one();
      lock.lock();
      leading_ = false;
    }
    pass_lead();
    if (!waiter.done) waiting_.erase(waiter.request);
    return waiter.done;
  }
  // For who waits for nothing: leads when nobody does.
  bool take_lead();
  void return_lead();
  bool is_led();

  Waiter* find(std::uint32_t request);
  // The answer of whoever waits for it still is whole.
  void finish(std::uint32_t request);
  void lose_all();

 private:
  // Somebody who still waits is to read from now on.
  void pass_lead();
  std::mutex mutex_;
  bool leading_ = false;
  std::map<std::uint32_t, Waiter*> waiting_;
};

class Link {
 public:
  // `stats`: where waits are counted; null: nowhere. Used with `mutex` held.
  Link(std::unique_ptr<Channel> channel, Nanos patience, NoticeReader& notices, std::mutex& mutex,
       Stats* stats);
  ~Link();

  // Sends soon. The status: lost, or the sticky error of the session.
  template <class Op>
  Status post(const Lock& lock, const Op& operation, Bytes bulk = {}) {
    if (const Status status = failure(); status != kOk) return status;
    if (bulk.size() >= kLargeBulk) watch();
    return sent(lock, writer_.put(operation, 0, bulk));
  }
  // Sends and waits. `into`: for the answer's bulk. `most`: kTimedOut once so long is over.
  template <class Op>
  Answer call(Lock& lock, const Op& operation, Cause cause, std::span<std::byte> into = {},
              Nanos most = Nanos::max()) {
    Waiter waiter{.request = ++requests_, .into = into};
    const Status status = ask(lock, operation, cause, waiter);
    lock.unlock();
    return status == kOk ? wait(waiter, most) : waiters_.give_up(waiter, status);
  }
  // The same with the lock held all the time: for the rare operation that nobody may overtake.
  template <class Op>
  Answer call_held(const Lock& lock, const Op& operation, Cause cause,
                   std::span<std::byte> into = {}) {
    Waiter waiter{.request = ++requests_, .into = into};
    const Status status = ask(lock, operation, cause, waiter);
    return status == kOk ? wait(waiter) : waiters_.give_up(waiter, status);
  }

  // Sends what was put, if it could be.
  Status flush(const Lock& lock, const Result<void>& put = {});
  // The error that stays, or kOk.
  Status failure() const {
    const Status lost = lost_.load(std::memory_order_relaxed);
    return lost != kOk ? lost : sticky_.load(std::memory_order_relaxed);
  }
  bool is_lost() const { return lost_ != kOk; }
  void forget_sticky() { sticky_ = kOk; }
  // The helper reads too until the next answer, or always: notices are expected.
  void watch(bool always = false);
  Traffic traffic() const { return {writer_.written(), reader_.received()}; }
  // Tells the server that the program leaves; what it closes from now on is not lost.
  void leave(const Lock& lock);
  // In the child after fork: drops the connection's descriptors, touches no thread and no lock.
  void abandon();
  // Sends what lies there and ends the helper.
  void close();

 private:
  using Waiter = Waiters::Waiter;
  static constexpr std::size_t kLargeBulk = 64 * 1024;

  template <class Op>
  Status ask(const Lock& lock, const Op& operation, Cause cause, Waiter& waiter) {
    if (const Status lost = lost_; lost != kOk) return lost;
    if (stats_ != nullptr)
      stats_->blocking[static_cast<std::size_t>(cause)].fetch_add(1, std::memory_order_relaxed);
    waiters_.enter(waiter);
    return flush(lock, writer_.put(operation, waiter.request));
  }
  Answer wait(Waiter& waiter, Nanos most = Nanos::max());
  Status sent(const Lock& lock, const Result<void>& put);
  void lose(const Error& error);

  // One frame, or silence; by the thread that leads.
  void read_one(Nanos patience);
  void take_frame(const Frame& frame);
  void take_answer(const Frame& frame);
  bool read_bulk(std::span<std::byte> into);
  void drop_bulk();
  void bear_silence(Nanos waited);

  void start_helper();
  void help();
  void rest();
  void pump();
  void wake_helper();

  std::unique_ptr<Channel> channel_;
  const Nanos patience_;
  NoticeReader& notices_;
  std::mutex& mutex_;
  FrameWriter writer_;
  std::uint32_t requests_ = 0;
  std::chrono::steady_clock::time_point last_put_ = {};
  Stats* const stats_;

  FrameReader reader_;  // of the thread that leads
  Nanos silence_ = {};
  Waiters waiters_;

  std::atomic<Status> lost_ = kOk, sticky_ = kOk;
  std::atomic<bool> unsent_ = false, awake_ = false, stopping_ = false, watching_ = false;
  std::atomic<bool> always_watching_ = false, left_ = false;
  Descriptor wake_;
  std::thread helper_;
  std::uint64_t posted_since_answer_ = 0;
};

}  // namespace partita::remote::client
