// TimedBackend: a device whose kernels are waits. A launch takes as many nanoseconds as its first
// parameter says, one after the other whatever the stream; copies take none; memory is there but
// not kept. While somebody waits for it, its descriptor is readable, so that the session looks
// again at once: a device that is watched by spinning, as CUDA does.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "base/descriptor.h"
#include "server/backend.h"

namespace partita::remote::shapes {

class TimedBackend final : public server::DeviceBackend {
 public:
  TimedBackend();
  const server::DeviceSnapshot& device() const override { return device_; }
  int descriptor() const override { return wake_.get(); }
  Polled poll() override;
  server::Answered<void> allocate(std::uint64_t, std::uint64_t) override { return {}; }
  void release(std::uint64_t) override {}
  std::span<std::byte> mapped(std::uint64_t, std::uint64_t, bool) override { return {}; }
  server::Answered<server::Id> create(const server::ObjectSpec&) override { return ++next_; }
  void destroy(server::ObjectKind, server::Id) override {}
  server::Answered<server::KernelFacts> find_kernel(server::Id, const std::string& name) override;
  server::Answered<server::GlobalPlace> find_global(server::Id, const std::string& name) override;
  server::Answered<void> enqueue(server::Id stream, server::StreamWork work) override;
  void watch(server::ObjectKind kind, server::Id id, std::uint64_t tag) override;
  bool finished(server::ObjectKind, server::Id) override;
  server::Answered<std::uint64_t> elapsed(server::Id, server::Id) override { return 0; }
  void resume(std::uint64_t) override {}

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Due {
    Time at;
    server::Completed completed;
  };
  void add(server::Completed completed);

  server::DeviceSnapshot device_;
  Descriptor wake_;
  Time end_ = {};  // of everything that was enqueued
  std::deque<Due> due_;
  server::Id next_ = 0;
};

}  // namespace partita::remote::shapes
