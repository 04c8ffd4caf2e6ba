// Context: one device behind libcuda, whose primary context is retained and current on this thread.
// What the library answers becomes a refusal here, or the context's end: after that nothing works
// in it any more. Also what all parts of a session share: what it is to be told, numbers for
// objects, since when somebody waits. Thread rule: one thread, the one that opened it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/backend.h"
#include "server/cuda/cuda_options.h"
#include "server/cuda/driver_library.h"
#include "server/cuda/printed_text.h"

namespace partita::remote::cuda {

class Context {
 public:
  // Refused: no_driver, with the call. The options are read here alone.
  static Result<std::unique_ptr<Context>> open(const CudaOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const DriverApi& api() const { return api_; }
  abi::Context handle() const { return context_; }
  // What a client may know of the device, without addresses.
  Result<server::DeviceSnapshot> look(const CudaOptions& options) const;
  abi::AllocationProperties memory() const;  // on this device

  // no_driver, for what is needed to begin at all.
  Result<void> needed(const char* call, abi::Return code) const;
  tl::unexpected<server::Refused> refused(const char* call, abi::Return code);
  server::Answered<void> done(const char* call, abi::Return code);
  // What a query answered: anything but kNotReady has finished, an error with the context.
  bool finished(const char* what, abi::Return code);
  bool dead() const { return dead_; }

  void tell(server::Completed completed) { told_.push_back(std::move(completed)); }
  std::vector<server::Completed> told() { return std::exchange(told_, {}); }
  server::Id next_id() { return next_++; }
  void young() { busy_since_ = Clock::now(); }
  // When to ask again: an eighth of the time waited so far, so late by an eighth at most, and
  // seldom for long kernels.
  std::chrono::nanoseconds patience() const;

  // From now on what kernels print is caught, if this process may.
  void catch_prints();
  // The driver writes what kernels printed when it is asked to wait for what has ended already.
  void tell_printed(abi::Event passed);

 private:
  using Clock = std::chrono::steady_clock;
  explicit Context(std::shared_ptr<const DriverLibrary> library)
      : library_(std::move(library)), api_(library_->api()) {}
  void die(abi::Return code, const std::string& text);

  const std::shared_ptr<const DriverLibrary> library_;
  const DriverApi& api_;
  std::function<void()> lost_ = {};  // empty: nobody else uses the context
  bool own_process_ = false;
  abi::Device number_ = 0;
  int ordinal_ = 0;
  abi::Context context_ = nullptr;
  bool dead_ = false;
  std::vector<server::Completed> told_;
  server::Id next_ = 1;
  Clock::time_point busy_since_ = {};
  std::unique_ptr<PrintedText> printed_;
};

}  // namespace partita::remote::cuda
