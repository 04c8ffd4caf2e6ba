// LaneRequests: on lanes, which kernels a session's requests are made of: on which lane the next
// kernel runs, and how long each took, where somebody wants to know. Told at the end.
// Thread rule: the context's.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/cuda/cuda_streams.h"

namespace partita::remote::cuda {

class LaneRequests {
 public:
  LaneRequests(Context& context, const std::optional<SharedUse>& use);
  // What runs has ended.
  ~LaneRequests();
  LaneRequests(const LaneRequests&) = delete;
  LaneRequests& operator=(const LaneRequests&) = delete;

  // None: where the stream is.
  std::optional<std::size_t> lane_of(server::Id stream, const std::string& kernel,
                                     const server::LaunchWork& work);
  // Around a launch; a launch that was refused is not timed.
  server::Answered<void> begin_kernel(abi::Stream stream, const std::string& kernel,
                                      const server::LaunchWork& work);
  void end_kernel(abi::Stream stream, bool launched);
  // On its lane, too.
  server::Answered<void> begin(Streams& streams, server::Id id, const std::string& kernel,
                               const server::LaunchWork& work);
  // What was launched until now was a request: the program says so, or it waits, which ends one
  // unless it says itself where one ends.
  void request_ended(bool said);
  void take_times();
  // Whether a phase has work still.
  bool poll(Streams& streams);

 private:
  // A launch that is timed.
  struct Timed {
    std::string kernel = {}, shape = {};  // no kernel: a request ended
    abi::Event begun = nullptr, ended = nullptr;
  };
  void end_request();
  std::size_t lane_of_phase(const Stream& stream);
  server::Answered<abi::Event> timing_event();

  Context& context_;
  std::optional<lanes::KernelCursor> cursor_ = {};
  lanes::PhaseUse phases_ = {};
  std::array<std::shared_ptr<void>, 2> of_phase_ = {};  // while the session has work of it
  std::array<bool, 2> told_ = {};                       // that there is some in this request
  std::function<void(const std::vector<server::TimedKernel>&)> measured_ = {};
  std::deque<Timed> timed_;
  abi::Event before_ = nullptr;  // the end of the kernel before the first of these; null: none
  std::vector<abi::Event> spare_;
  server::KernelTimes times_;
  bool marked_ = false;  // the program says where requests end
};

}  // namespace partita::remote::cuda
