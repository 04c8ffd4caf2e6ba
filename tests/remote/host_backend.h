// A server for tests of the client: real sessions on a back end whose kernels are C++ functions, so
// that what is tested is everything but the execution of PTX. Modules are PTX text; a kernel needs
// an entry there and a function of its name here. With `vendor` it is a GPU with the simulated
// libraries of NVIDIA's.
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "image/layout.h"
#include "server/cuda/vendor_libraries.h"
#include "server/session.h"
#include "server/testing/fake_backend.h"
#include "wire/net/channel.h"

namespace partita::remote::test {

using server::Answered;
using server::Id;

struct KernelCall {
  const server::LaunchWork& work;
  std::function<std::span<std::byte>(std::uint64_t, std::uint64_t)> memory;
  // The parameter that lies at `offset`.
  template <class T>
  T parameter(std::size_t offset) const {
    T value;
    std::memcpy(&value, work.parameters.data() + offset, sizeof value);
    return value;
  }
  template <class T>
  std::span<T> array(std::uint64_t address, std::size_t count) const {
    return {reinterpret_cast<T*>(memory(address, count * sizeof(T)).data()), count};
  }
};
using KernelFunction = std::function<void(const KernelCall&)>;
using Kernels = std::map<std::string, KernelFunction>;

class HostBackend final : public server::DeviceBackend {
 public:
  explicit HostBackend(const Kernels& kernels, bool vendor = false) : kernels_(kernels) {
    device_ = fake_.device();
    device_.name = "Test device";
    device_.backend = vendor ? "cuda" : "cpu";
    device_.attributes.assign(160, 0);
    const std::map<std::size_t, std::int32_t> attributes = {
        {1, 1024},   {2, 1024},  {3, 1024},        {4, 64},   {5, 0x7fffffff},
        {6, 65535},  {7, 65535}, {8, 48 * 1024},   {10, 32},  {12, 65536},
        {16, 4},     {39, 2048}, {75, 9},          {76, 0},   {81, 228 * 1024},
        {82, 65536}, {95, 1},    {97, 227 * 1024}, {106, 32}, {111, 1024}};
    for (const auto& [number, value] : attributes) device_.attributes[number] = value;
  }

  const server::DeviceSnapshot& device() const override { return device_; }
  int descriptor() const override { return fake_.descriptor(); }
  Polled poll() override { return fake_.poll(); }
  Answered<void> allocate(std::uint64_t address, std::uint64_t bytes) override {
    return fake_.allocate(address, bytes);
  }
  void release(std::uint64_t address) override { fake_.release(address); }
  std::span<std::byte> mapped(std::uint64_t address, std::uint64_t bytes, bool write) override {
    return fake_.mapped(address, bytes, write);
  }
  Answered<Id> create(const server::ObjectSpec& spec) override {
    if (const auto* graph = std::get_if<server::GraphSpec>(&spec)) {
      const Answered<Id> made = fake_.create(server::GraphSpec{});
      if (made) graphs_[*made] = *graph;
      return made;
    }
    const auto* module = std::get_if<server::ModuleSpec>(&spec);
    if (module == nullptr) return fake_.create(spec);
    const auto layouts = image::ptx_layouts(module->image);
    const Answered<Id> made = fake_.create(server::ModuleSpec{"fake"});
    if (made && layouts) layouts_[*made] = *layouts;
    return made;
  }
  void destroy(server::ObjectKind kind, Id id) override { fake_.destroy(kind, id); }
  Answered<server::KernelFacts> find_kernel(Id module, const std::string& name) override {
    const auto function = kernels_.find(name);
    const auto layout = layouts_[module].find(name);
    if (function == kernels_.end() || layout == layouts_[module].end())
      return fake_.find_kernel(module, name);
    server::KernelFacts facts{.id = static_cast<Id>(kFirst + functions_.size())};
    functions_.push_back(&function->second);
    for (const image::Place place : layout->second.parameters)
      facts.parameters.push_back({place.offset, place.size});
    facts.parameter_bytes = layout->second.bytes;
    facts.max_threads = 1024;
    facts.registers = 32;
    facts.ptx_version = facts.binary_version = 90;
    return facts;
  }
  Answered<server::GlobalPlace> find_global(Id module, const std::string& name) override {
    return fake_.find_global(module, name);
  }
  Answered<void> enqueue(Id stream, server::StreamWork work) override {
    if (const auto* graph = std::get_if<server::GraphWork>(&work)) {
      for (const auto& node :
           graphs_[graph->graph].nodes)  // in order, which is one that is allowed
        if (!node.empty)
          if (auto done = enqueue(stream, node.work); !done) return done;
      return {};
    }
    if (const auto* call = std::get_if<server::CallWork>(&work)) {
      const auto answer = ask(stream, *call);
      if (!answer) return tl::unexpected<server::Refused>(answer.error());
      if (answer->status != 0) return server::refuse(server::kUnknown, "the library refused");
      return {};
    }
    const auto* launch = std::get_if<server::LaunchWork>(&work);
    if (launch == nullptr || launch->kernel < kFirst) return fake_.enqueue(stream, std::move(work));
    (*functions_[launch->kernel - kFirst])({*launch, [this](std::uint64_t at, std::uint64_t bytes) {
                                              return mapped(at, bytes, true);
                                            }});
    return {};
  }
  // With addresses of this process, as the simulated libraries have no other memory.
  Answered<server::LibraryAnswer> ask(Id stream, const server::CallWork& work) override {
    server::CallWork here = work;
    const auto arguments = server::arguments_of(*here.function, here.arguments);
    const auto move_here = [this](const std::byte* place) {
      auto* const to = const_cast<std::byte*>(place);
      std::uint64_t address = 0;
      std::memcpy(&address, to, 8);
      if (address == 0) return;
      const std::byte* const real = mapped(address, 1, true).data();
      std::memcpy(to, &real, 8);
    };
    for (const server::LibraryArgument& argument : *arguments) {
      if (argument.kind == 'p') move_here(argument.bytes.data());
      if (argument.kind == 'r') move_here(argument.bytes.data() + server::kStatesAt);
      if (argument.kind != 'V') continue;
      const auto tensors = server::graph_tensors(argument.bytes);
      for (std::size_t i = 0; i < tensors.size(); ++i)
        if (!tensors[i].by_value) move_here(argument.bytes.data() + 4 + 20 * i + 12);
    }
    return libraries_.call(here, reinterpret_cast<cuda::abi::Stream>(std::uintptr_t{stream}));
  }
  void watch(server::ObjectKind kind, Id id, std::uint64_t tag) override {
    fake_.watch(kind, id, tag);
  }
  bool finished(server::ObjectKind kind, Id id) override { return fake_.finished(kind, id); }
  Answered<std::uint64_t> elapsed(Id from, Id to) override { return fake_.elapsed(from, to); }
  void resume(std::uint64_t hold) override { fake_.resume(hold); }

 private:
  static constexpr Id kFirst = 1'000'000;
  server::FakeBackend fake_{
      {.memory = std::uint64_t{64} << 20, .mapped = true, .manual = false, .null = false}};
  server::DeviceSnapshot device_;
  const Kernels& kernels_;
  std::map<Id, image::Layouts> layouts_;
  std::map<Id, server::GraphSpec> graphs_;
  std::vector<const KernelFunction*> functions_;
  cuda::VendorLibraries libraries_;
};

// Serves whoever connects, a thread for each, until it is destroyed.
class HostServer {
 public:
  HostServer(const std::string& address, Kernels kernels, bool vendor = false)
      : kernels_(std::move(kernels)), vendor_(vendor) {
    listener_ = std::move(*system_net().listen(address));
    acceptor_ = std::thread([this] { accept(); });
  }
  ~HostServer() {
    stop_ = true;
    acceptor_.join();
    for (std::thread& thread : sessions_) thread.join();
  }
  std::string address() const { return listener_->address(); }
  std::size_t sessions() const { return sessions_.size(); }
  // Ends the connections, as a server that dies does.
  void cut() { cut_ = true; }

 private:
  void accept() {
    while (!stop_) {
      auto accepted = listener_->accept(std::chrono::milliseconds(20));
      if (!accepted) continue;
      sessions_.emplace_back([this, channel = std::shared_ptr<Channel>(
                                        std::move(accepted->channel))] { serve(*channel); });
    }
  }
  void serve(Channel& channel) {
    server::Session session(channel, images_, "");
    while (!stop_ && !cut_) {
      const server::Session::Step step = session.step();
      if (session.wanted())
        session.grant(1, std::make_unique<HostBackend>(kernels_, vendor_), [this] {
          return Result<std::unique_ptr<server::DeviceBackend>>(
              std::make_unique<HostBackend>(kernels_, vendor_));
        });
      if (step.ended) break;
      if (!step.busy) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    channel.shut();
  }

  Kernels kernels_;
  const bool vendor_;
  server::MemoryImages images_;
  std::unique_ptr<Listener> listener_;
  std::atomic<bool> stop_ = false, cut_ = false;
  std::vector<std::thread> sessions_;
  std::thread acceptor_;
};

}  // namespace partita::remote::test
