// CudaBackend: the device is a GPU of NVIDIA's behind libcuda. Memory is mapped at the addresses
// that the client chose, inside one reserved range; copies go through pinned buffers of ours, so
// that no call of the library waits for a stream; a stream that is held waits for a word in pinned
// memory. Nothing calls us back: poll() asks events, often while something is young, more rarely
// later. A graph becomes one of CUDA's (cuda_graphs.h); one with copies to the client or calls of
// its functions is enqueued node by node instead.
// On lanes (CudaOptions::shared) the end waits for what runs, since other sessions may use the same
// context. Its parts, by resource: context.h, device_memory.h, cuda_modules.h, cuda_streams.h,
// cuda_textures.h, cuda_conditions.h, cuda_graphs.h, transfers.h, lane_requests.h. Thread rule: one
// thread, which the context is current on.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/backend.h"
#include "server/cuda/blas_library.h"
#include "server/cuda/context.h"
#include "server/cuda/cuda_conditions.h"
#include "server/cuda/cuda_graphs.h"
#include "server/cuda/cuda_modules.h"
#include "server/cuda/cuda_streams.h"
#include "server/cuda/cuda_textures.h"
#include "server/cuda/device_memory.h"
#include "server/cuda/lane_requests.h"
#include "server/cuda/transfers.h"
#include "server/cuda/vendor_libraries.h"

namespace partita::remote::cuda {

class CudaBackend final : public server::DeviceBackend {
 public:
  static Result<std::unique_ptr<CudaBackend>> open(const CudaOptions& options);
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  const server::DeviceSnapshot& device() const override { return device_; }
  int descriptor() const override { return -1; }
  Polled poll() override;
  server::Answered<void> allocate(std::uint64_t address, std::uint64_t bytes) override {
    return memory_.allocate(address, bytes);
  }
  void release(std::uint64_t address) override { memory_.release(address); }
  server::Answered<void> limit_heap(std::uint64_t bytes) override;
  std::span<std::byte> mapped(std::uint64_t, std::uint64_t, bool) override { return {}; }
  server::Answered<server::Id> create(const server::ObjectSpec& spec) override;
  void destroy(server::ObjectKind kind, server::Id id) override;
  server::Answered<server::KernelFacts> find_kernel(server::Id module,
                                                    const std::string& name) override {
    return modules_.find_kernel(module, name);
  }
  server::Answered<server::GlobalPlace> find_global(server::Id module,
                                                    const std::string& name) override {
    return modules_.find_global(module, name);
  }
  server::Answered<void> enqueue(server::Id stream, server::StreamWork work) override;
  void watch(server::ObjectKind kind, server::Id id, std::uint64_t tag) override;
  bool finished(server::ObjectKind kind, server::Id id) override;
  server::Answered<server::LibraryAnswer> ask(server::Id stream,
                                              const server::CallWork& work) override;
  server::Answered<std::uint64_t> elapsed(server::Id from, server::Id to) override {
    return events_.elapsed(from, to);
  }
  void resume(std::uint64_t hold) override { holds_.resume(hold); }
  void request_ended(bool said) override { requests_.request_ended(said); }
  server::DeviceTextures* textures() override { return &textures_; }
  server::DeviceConditions* conditions() override { return &conditions_; }

 private:
  struct Graph {
    abi::GraphExec exec = nullptr;
    server::GraphSpec spec = {};  // when it is enqueued by hand, and to keep what it copies
    std::vector<Pinned> buffers = {};
  };
  CudaBackend(std::unique_ptr<Context> context, const CudaOptions& options);
  Result<void> start(const CudaOptions& options);
  server::Answered<void> multiply(server::Id id, Stream& stream, const Gemm& op);
  server::Answered<void> launch(server::Id id, Stream& stream, const server::LaunchWork& work);
  server::Answered<void> hold(Stream& stream, const server::HoldWork& work);
  server::Answered<server::Id> create_graph(const server::GraphSpec& spec);
  server::Answered<void> enqueue_nodes(server::Id stream, const server::GraphSpec& spec);

  // What is later uses what is before, and ends first.
  const std::unique_ptr<Context> context_;
  const bool on_lanes_;
  server::DeviceSnapshot device_;
  PinnedBuffers pinned_;
  Holds holds_;
  DeviceMemory memory_;
  Modules modules_;
  Events events_;
  Streams streams_;
  Transfers transfers_;
  Textures textures_;
  Conditions conditions_;
  GraphMaker maker_;
  std::map<server::Id, Graph> graphs_;
  LaneRequests requests_;
  std::unique_ptr<BlasLibrary> blas_;  // null: not installed
  VendorLibraries libraries_;
  Graph* capturing_ = nullptr;         // whose nodes are being captured: buffers stay with it
};

}  // namespace partita::remote::cuda
