// What a session's kernels are in a request and how long they take: requests end where the client
// waits, the one that comes most often counts, and of each of its kernels the median.
// Plain data; thread rule: one thread.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace partita::remote::cuda {

struct TimedKernel {
  std::string name = {};
  double us = 0;
};

class KernelTimes {
 public:
  static constexpr std::size_t kMost = 500'000;  // kernels that are remembered; later ones are not

  void add(const std::string& kernel, double us);
  void request_ended();
  // The request that came most often (of equally many, the longest); empty: there was none.
  std::vector<TimedKernel> request() const;

 private:
  using Names = std::vector<std::string>;
  std::vector<TimedKernel> now_;
  std::map<Names, std::vector<std::vector<double>>> requests_;  // by kernel, the times of each
  std::size_t kept_ = 0;
};

// Where the next kernel of a session runs: a cursor over the kernels of a request, each with its
// lane. A kernel that is not the next one is looked for further on; one that comes no more in this
// request runs on `otherwise`, and is counted.
class KernelCursor {
 public:
  struct Step {
    std::string kernel = {};
    std::size_t lane = 0;
  };
  KernelCursor(std::vector<Step> steps, std::size_t otherwise)
      : steps_(std::move(steps)), otherwise_(otherwise) {}

  std::size_t lane_of(const std::string& kernel);
  void request_ended() { next_ = 0; }
  std::size_t unknown() const { return unknown_; }

 private:
  std::vector<Step> steps_;
  std::size_t otherwise_;
  std::size_t next_ = 0, unknown_ = 0;
};

}  // namespace partita::remote::cuda
