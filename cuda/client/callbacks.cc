#include "client/callbacks.h"

#include <pthread.h>

#include <csignal>

namespace partita::remote::client {

void Callbacks::start(Step first, Step done) {
  before_ = std::move(first);
  done_ = std::move(done);
  sigset_t all, before;  // signals are the program's
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { loop(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  thread_.detach();
}

void Callbacks::add(std::uint64_t token, const Callback& callback) {
  const std::lock_guard lock(mutex_);
  known_[token] = callback;
}

void Callbacks::run(std::uint64_t token) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(token);
  due_.notify_one();
}

void Callbacks::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    due_.wait(lock, [this] { return !queue_.empty(); });
    const std::uint64_t token = queue_.front();
    queue_.pop_front();
    const auto found = known_.find(token);
    const Callback callback = found == known_.end() ? Callback{} : found->second;
    if (found != known_.end() && !callback.again) known_.erase(found);
    lock.unlock();
    before_(token);
    if (callback.function != nullptr) callback.function(callback.data);
    if (callback.with_stream != nullptr) callback.with_stream(callback.stream, 0, callback.data);
    done_(token);
    lock.lock();
  }
}

}  // namespace partita::remote::client
