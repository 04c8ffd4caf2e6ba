// Functions of the program, and steps of our own, that run in the order of a stream: the server
// says when, a thread here calls them, one at a time. Steps have another thread: a function may
// wait for what is behind them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace partita::remote::client {

struct Callback {
  void (*function)(void*) = nullptr;                 // cudaHostFn_t
  void (*with_stream)(void*, int, void*) = nullptr;  // cudaStreamCallback_t
  void* stream = nullptr;
  void* data = nullptr;
  bool again = false;  // of a graph: may come more than once
};

class Callbacks {
 public:
  // `before` and `done` are called with the token before and after the function; by both threads at
  // the same time.
  using Step = std::function<void(std::uint64_t)>;
  Callbacks(Step before, Step done) : before_(std::move(before)), done_(std::move(done)) {}
  void add(std::uint64_t token, const Callback& callback);
  void run(std::uint64_t token);

 private:
  struct Queue {
    std::deque<std::uint64_t> tokens = {};
    std::condition_variable due = {};
    bool started = false;
  };
  static bool is_step(const Callback& callback) {
    return callback.function == nullptr && callback.with_stream == nullptr;
  }
  void start(Queue& queue);
  void loop(Queue& queue);

  const Step before_, done_;
  std::mutex mutex_;
  std::map<std::uint64_t, Callback> known_;
  Queue functions_, steps_;
};

}  // namespace partita::remote::client
