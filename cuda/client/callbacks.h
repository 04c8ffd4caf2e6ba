// Functions of the program that run in the order of a stream: the server says when, a thread here
// calls them, one at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

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
  // `before` and `done` are called with the token before and after the function.
  using Step = std::function<void(std::uint64_t)>;
  void start(Step before, Step done);
  bool started() const { return done_ != nullptr; }
  void add(std::uint64_t token, const Callback& callback);
  void run(std::uint64_t token);

 private:
  void loop();

  Step before_, done_;
  std::mutex mutex_;
  std::condition_variable due_;
  std::map<std::uint64_t, Callback> known_;
  std::deque<std::uint64_t> queue_;
  std::thread thread_;
};

}  // namespace partita::remote::client
