#include "client/session.h"

#include <pthread.h>

#include <cstdlib>

namespace partita::remote::client {
namespace {

void prepare_fork() { session().before_fork(); }
void parent_forked() { session().after_fork(false); }
void child_forked() { session().after_fork(true); }
void at_exit() { session().leave(); }

constexpr Nanos kLongestEnd = std::chrono::seconds(10);  // of what was launched last

void register_once() {
  static bool registered = false;
  if (std::exchange(registered, true)) return;
  ::pthread_atfork(prepare_fork, parent_forked, child_forked);
  std::atexit(at_exit);
  std::at_quick_exit(at_exit);
}

}  // namespace

// Made at the first call, never destroyed: threads of the program may still call when it ends.
Session& session() {
  static Session* const made = new Session();
  return *made;
}

Session::Session() {
  core.at_first = register_once;
  core.before_call = [this](std::uint64_t token) { call_copies.before(token); };
  core.after_call = [this](std::uint64_t token) { call_copies.after(token); };
}

Status Session::ready() {
  if (core.is_ready.load(std::memory_order_acquire) && !core.left) return kOk;
  Lock lock(core.mutex);
  return core.connected(lock);
}

void Session::request_ended() {
  if (!core.is_ready.load(std::memory_order_acquire) || core.left) return;
  Lock lock(core.mutex);
  static_cast<void>(core.link->post(lock, RequestEnded{}));
}

// --- fork, reset, the end

void Session::clear(bool child) {
  core.clear(child);
  streams.clear();
  events.clear();
  captures.clear();
  graphs.clear();
  call_copies.clear();
  graph_memory.clear();
  memory.clear();
  managed.clear(child);
  host.clear();
}

void Session::before_fork() {
  core.mutex.lock();
  kernels.modules().lock();
}

void Session::after_fork(bool child) {
  kernels.modules().unlock();
  if (child) clear(true);
  core.mutex.unlock();
}

// What was launched last runs to its end, prints what it prints, and is judged. A kernel that never
// ends holds nobody up for ever, but where it is to be checked.
void Session::wait_for_last(Lock& lock) {
  if (core.link->is_lost() || captures.any() || streams.idle()) return;
  const bool is_checked = core.settings.flags != 0;
  const Answer answer = core.link->call(lock, Fence{}, Cause::device_sync, {},
                                        is_checked ? Nanos::max() : kLongestEnd);
  lock.lock();
  if (answer.status == kTimedOut)
    std::fputs(
        "partita remote: what was launched last had not ended when the program did: nobody "
        "knows whether it is right\n",
        stderr);
}

Status Session::reset() {
  Lock lock(core.mutex);
  if (core.link == nullptr || core.left) return kOk;  // nothing to free
  wait_for_last(lock);
  if (core.link == nullptr || core.left) return kOk;
  const Answer answer = core.link->call_held(lock, Reset{}, Cause::session);
  if (core.link->is_lost()) return kLost;
  core.judge_end(core.link->failure());
  core.link->forget_sticky();
  clear(false);
  return answer.status;
}

void Session::leave() {
  Lock lock(core.mutex);
  if (core.left) return;
  if (core.link == nullptr) {
    core.left = true;
    return core.say_outcome(kOk);
  }
  wait_for_last(lock);
  if (core.left || core.link == nullptr) return;
  core.left = true;  // what destructors of the program still call has nobody to go to
  const Status outcome = core.link->failure();
  if (!core.link->is_lost()) core.link->leave(lock);
  const Traffic traffic = core.link->traffic();
  lock.unlock();
  core.link->close();
  core.say_outcome(outcome);
  core.write_counts(traffic);
}

}  // namespace partita::remote::client
