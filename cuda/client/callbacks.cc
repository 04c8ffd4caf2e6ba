#include "client/callbacks.h"

#include <pthread.h>

#include <csignal>
#include <thread>

namespace partita::remote::client {

void Callbacks::start(Queue& queue) {
  if (std::exchange(queue.started, true)) return;
  sigset_t all, before;  // signals are the program's
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([this, &queue] { loop(queue); }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Callbacks::add(std::uint64_t token, const Callback& callback) {
  const std::lock_guard lock(mutex_);
  known_[token] = callback;
  start(is_step(callback) ? steps_ : functions_);
}

void Callbacks::run(std::uint64_t token) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(token);
  Queue& queue = found != known_.end() && is_step(found->second) ? steps_ : functions_;
  queue.tokens.push_back(token);
  queue.due.notify_one();
}

void Callbacks::loop(Queue& queue) {
  std::unique_lock lock(mutex_);
  for (;;) {
    queue.due.wait(lock, [&] { return !queue.tokens.empty(); });
    const std::uint64_t token = queue.tokens.front();
    queue.tokens.pop_front();
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
