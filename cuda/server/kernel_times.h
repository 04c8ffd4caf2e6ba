// What a session's kernels are in a request, how long they take, and how long the host lets the
// units wait before them: requests end where the client waits, or where it says so; the one that
// comes most often counts, and of each of its kernels the medians. One with other shapes is another
// one.
// Plain data; thread rule: one thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/backend.h"

namespace partita::remote::server {

struct TimedKernel {
  std::string name = {};
  std::string shape = {};  // its grid and block, where they are known
  double us = 0;
  // From the end of the kernel before it, of the request before where it is the first, to its
  // begin; 0 where they overlap. None: there was none before it.
  std::optional<double> gap_us = {};
};

// "8x1x1 256x1x1".
std::string shape_of(const LaunchWork& work);

class KernelTimes {
 public:
  static constexpr std::size_t kMost = 500'000;  // kernels that are remembered; later ones are not

  void add(TimedKernel kernel);
  void request_ended();
  // The request that came most often (of equally many, the longest); empty: there was none.
  std::vector<TimedKernel> request() const;

 private:
  using Names = std::vector<std::pair<std::string, std::string>>;  // with shapes
  struct Times {
    std::vector<double> us = {}, gap_us = {};
  };
  std::vector<TimedKernel> now_;
  std::map<Names, std::vector<Times>> requests_;  // by kernel
  std::size_t kept_ = 0;
};

// The times of launches that others run: begun and ended in nanoseconds, by whoever runs them.
class LaunchTimes {
 public:
  using Told = std::function<void(const std::vector<TimedKernel>&)>;
  struct Stamps {
    std::atomic<std::int64_t> begun = 0, ended = 0;
  };
  // Nobody wants to know where it is empty.
  explicit LaunchTimes(Told told) : told_(std::move(told)) {}
  // Tells what the requests were made of; nothing runs any more.
  ~LaunchTimes();
  LaunchTimes(const LaunchTimes&) = delete;
  LaunchTimes& operator=(const LaunchTimes&) = delete;

  // Of the next launch; null where nobody wants to know.
  std::shared_ptr<Stamps> next(const std::string& kernel, const LaunchWork& work);
  void request_ended();
  // Counts those that have ended.
  void take();

 private:
  struct Launched {
    std::string kernel = {}, shape = {};
    std::shared_ptr<Stamps> stamps = {};  // null: a request ended
  };
  Told told_;
  std::deque<Launched> launched_ = {};
  std::optional<std::int64_t> before_ = {};  // the end of the kernel before the first of these
  KernelTimes times_ = {};
};

}  // namespace partita::remote::server
