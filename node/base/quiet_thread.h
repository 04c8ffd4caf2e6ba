// A thread that no signal is delivered to: those that end a program go to who waits for them.
#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace partita {

template <class F>
std::thread quiet_thread(F&& function) {
  sigset_t all{}, before{};
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  std::thread thread(std::forward<F>(function));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace partita
