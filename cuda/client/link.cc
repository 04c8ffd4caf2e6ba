#include "client/link.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <csignal>
#include <cstdio>
#include <ctime>
#include <system_error>
#include <utility>

namespace partita::remote::client {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr auto kLinger = microseconds(50);  // what lies longer is sent by the helper
constexpr auto kQuiet = microseconds(20);   // after such a pause an operation is sent at once
constexpr int kRounds = 4;                  // without work, before the helper sleeps
constexpr std::uint64_t kMuchOnItsWay = 256 * 1024;
constexpr int kSlices = 4;  // of the patience: how often a silent server is asked

void nap() {
  const timespec time{0, duration_cast<std::chrono::nanoseconds>(kLinger).count()};
  ::nanosleep(&time, nullptr);
}

}  // namespace

Link::Link(std::unique_ptr<Channel> channel, Nanos patience, NoticeReader& notices,
           std::mutex& mutex, Stats* stats)
    : channel_(std::move(channel)),
      patience_(patience),
      notices_(notices),
      mutex_(mutex),
      writer_(*channel_, patience),
      stats_(stats),
      reader_(*channel_),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Link::~Link() { close(); }

void Link::lose(const Error& error) {
  Status expected = kOk;
  if (!lost_.compare_exchange_strong(expected, kLost)) return;
  if (!left_) {  // who was told that the program leaves closes the connection: that is no loss
    std::fprintf(stderr, "partita remote: the server is lost: %s\n", error.message.c_str());
    notices_.failed();
  }
  waiters_.lose_all();
}

// --- sending -----------------------------------------------------------------------------------

Status Link::sent(const Lock& lock, const Result<void>& put) {
  if (!put) {
    if (put.error().code == ErrorCode::invalid_argument) return kInvalidValue;
    lose(put.error());
    return kLost;
  }
  if (!helper_.joinable()) start_helper();
  const auto now = Clock::now();
  const bool quiet = now - last_put_ > kQuiet;
  last_put_ = now;
  posted_since_answer_ += writer_.gathered();
  if (posted_since_answer_ > kMuchOnItsWay && !watching_.load(std::memory_order_relaxed)) watch();
  if (writer_.gathered() == 0) return kOk;
  if (quiet) return flush(lock);
  unsent_.store(true);
  if (!awake_.load()) wake_helper();
  return kOk;
}

Status Link::flush(const Lock&, const Result<void>& put) {
  if (!put && put.error().code == ErrorCode::invalid_argument) return kInvalidValue;
  const Result<void> done = put ? writer_.flush() : put;
  unsent_.store(false, std::memory_order_relaxed);
  if (done) return kOk;
  lose(done.error());
  return kLost;
}

// --- waiting -----------------------------------------------------------------------------------

Answer Link::wait(Waiter& waiter, Nanos most) {
  const auto begin = Clock::now();
  const auto left = [&] { return most == Nanos::max() ? most : begin + most - Clock::now(); };
  const bool done = waiters_.wait(
      waiter, left, [&] { read_one(std::clamp<Nanos>(left(), Nanos{1}, patience_ / kSlices)); });
  if (!always_watching_) watching_.store(false, std::memory_order_relaxed);
  if (!done) waiter.answer.status = kTimedOut;
  return std::move(waiter.answer);
}

void Waiters::enter(Waiter& waiter) {
  const std::lock_guard lock(mutex_);
  waiting_[waiter.request] = &waiter;
}

Answer Waiters::give_up(Waiter& waiter, Status status) {
  const std::lock_guard lock(mutex_);
  waiting_.erase(waiter.request);
  return {.status = status, .reply = {}};
}

void Waiters::pass_lead() {
  if (!leading_ && !waiting_.empty()) waiting_.begin()->second->turn.notify_one();
}

bool Waiters::take_lead() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(leading_, true);
}

void Waiters::return_lead() {
  const std::lock_guard lock(mutex_);
  leading_ = false;
  pass_lead();
}

bool Waiters::is_led() {
  const std::lock_guard lock(mutex_);
  return leading_;
}

Waiters::Waiter* Waiters::find(std::uint32_t request) {
  const std::lock_guard lock(mutex_);
  const auto found = waiting_.find(request);
  return found == waiting_.end() ? nullptr : found->second;
}

void Waiters::finish(std::uint32_t request) {
  const std::lock_guard lock(mutex_);
  const auto found = waiting_.find(request);
  if (found == waiting_.end()) return;  // lost meanwhile
  found->second->done = true;
  found->second->turn.notify_one();
  waiting_.erase(found);
}

void Waiters::lose_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& [request, waiter] : waiting_) {
    waiter->done = true;
    waiter->answer.status = kLost;
    waiter->turn.notify_one();
  }
  waiting_.clear();
}

// --- reading -----------------------------------------------------------------------------------

void Link::read_one(Nanos patience) {
  if (is_lost()) return;
  const Result<Frame> frame = reader_.next(patience);
  if (frame) {
    silence_ = {};
    take_frame(*frame);
  } else if (frame.error().code == ErrorCode::timeout) {
    bear_silence(patience);
  } else {
    lose(frame.error());
  }
}

// A long kernel is silent too, so the server is asked whether it is there; it answers at once.
void Link::bear_silence(Nanos waited) {
  silence_ += waited;
  if (waited == Nanos{}) return;
  if (silence_ >= patience_) {
    const auto ms = duration_cast<milliseconds>(silence_).count();
    lose({ErrorCode::timeout, "no answer for " + std::to_string(ms) + " ms", {}});
    return;
  }
  const Lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) flush(lock, writer_.put(Ping{}, ++requests_));
}

void Link::take_frame(const Frame& frame) {
  if ((frame.header.code & kAnswer) != 0) return take_answer(frame);
  if (frame.header.code == Said::kSpec.code) {
    if (const auto said = decode<Said>(frame.body)) notices_.said(said->to_error, said->text);
  } else if (frame.header.code == Call::kSpec.code) {
    if (const auto call = decode<Call>(frame.body)) notices_.call(call->token);
  } else if (frame.header.code == Waiting::kSpec.code) {
    if (const auto waiting = decode<Waiting>(frame.body)) notices_.waiting(waiting->place);
  } else if (frame.header.code == CopiedOut::kSpec.code) {
    if (const auto copied = decode<CopiedOut>(frame.body)) {
      const auto place = notices_.place_of(copied->token, frame.header.bulk_bytes);
      if (place.size() == frame.header.bulk_bytes) read_bulk(place);
    }
  }
  drop_bulk();
}

void Link::take_answer(const Frame& frame) {
  const std::size_t head = encoded_size(Outcome{});
  const auto outcome =
      frame.body.size() < head ? std::nullopt : decode<Outcome>(frame.body.first(head));
  if (!outcome) return lose({ErrorCode::bad_input, "an answer that nobody can read", {}});
  if (outcome->sticky != kOk) {
    Status none = kOk;
    if (sticky_.compare_exchange_strong(none, outcome->sticky)) notices_.failed();
  }
  Waiter* const waiter = waiters_.find(frame.header.request);
  if (waiter == nullptr) return drop_bulk();  // a ping's
  const Bytes reply = frame.body.subspan(head);
  waiter->answer.reply.assign(reply.begin(), reply.end());
  waiter->answer.bulk_bytes = frame.header.bulk_bytes;
  waiter->answer.status = outcome->status != kOk ? outcome->status : outcome->sticky;
  if (frame.header.bulk_bytes <= waiter->into.size())
    read_bulk(waiter->into.first(frame.header.bulk_bytes));
  drop_bulk();
  waiters_.finish(frame.header.request);
}

bool Link::read_bulk(std::span<std::byte> into) {
  while (!into.empty()) {
    const Result<void> got = reader_.read_bulk(into, patience_);
    if (got) return true;
    const std::size_t taken = reader_.taken();
    if (got.error().code != ErrorCode::timeout || taken == 0) {
      lose(got.error());
      return false;
    }
    into = into.subspan(taken);
  }
  return true;
}

void Link::drop_bulk() {
  if (is_lost() || reader_.bulk_left() == 0) return;
  if (const auto dropped = reader_.drop_bulk(patience_); !dropped) lose(dropped.error());
}

// --- the helper --------------------------------------------------------------------------------

void Link::watch(bool always) {
  if (always) always_watching_ = true;
  if (watching_.exchange(true)) return;
  posted_since_answer_ = 0;
  if (!awake_.load()) wake_helper();
}

void Link::wake_helper() {
  const std::uint64_t one = 1;
  awake_.store(true);
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void Link::start_helper() {
  sigset_t all, before;  // signals are the program's
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  awake_.store(true);
  try {
    helper_ = std::thread([this] { help(); });
  } catch (const std::system_error&) {
    lose({ErrorCode::environment, "the system refused a thread", {}});
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Link::help() {
  int idle = 0;
  while (!stopping_ && !is_lost()) {
    if (unsent_.load()) {
      nap();
      const Lock lock(mutex_, std::try_to_lock);
      if (lock.owns_lock() && !is_lost()) flush(lock);
      idle = 0;
    }
    if (watching_.load()) pump();
    if (unsent_.load() || stopping_) continue;
    if (++idle < kRounds) {
      nap();
    } else {
      rest();
      idle = 0;
    }
  }
}

// Sleeps until there is something to send, or to read when that is wanted.
void Link::rest() {
  awake_.store(false);
  if (unsent_.load() || stopping_) return awake_.store(true);
  pollfd waits[2] = {{wake_.get(), POLLIN, 0}, {channel_->descriptor(), POLLIN, 0}};
  const bool reads = watching_.load() && !waiters_.is_led() && waits[1].fd >= 0;
  constexpr int kWatchMs = 5;  // while somebody leads, look now and then whether he still does
  ::poll(waits, reads ? 2 : 1, watching_.load() ? kWatchMs : -1);
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(wake_.get(), &count, sizeof count);
  awake_.store(true);
}

// Reads what is there when nobody else reads.
void Link::pump() {
  if (!waiters_.take_lead()) return;
  for (int frames = 0; frames < 64 && !is_lost(); ++frames) {
    const std::uint64_t before = reader_.received();
    const bool buffered = reader_.has_buffered();
    read_one(Nanos{});
    if (!buffered && reader_.received() == before) break;
  }
  waiters_.return_lead();
}

// --- the end -----------------------------------------------------------------------------------

void Link::leave(const Lock& lock) {
  left_ = true;
  post(lock, Bye{});
  flush(lock);
}

void Link::abandon() {
  channel_.reset();
  wake_.close_now();
}

void Link::close() {
  stopping_ = true;
  if (!helper_.joinable()) return;
  wake_helper();
  helper_.join();
}

}  // namespace partita::remote::client
