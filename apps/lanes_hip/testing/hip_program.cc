// A program of HIP for tests, which knows nothing of lanes: a random program (random_program.h) on
// HIP's functions, linked against a libamdhip64 that may be simulated. Prints what it did, a line
// each: "launch STREAM BLOCK KERNEL WORD WORD" with the mask that the simulated library saw,
// "captured" likewise, "waits"; at the end "right" or "wrong", and what was called against HIP's
// rules.
//
// usage: hip_program SEED STEPS
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <string>
#include <thread>

#include "drivers/hip_mask/hip_abi.h"
#include "drivers/hip_mask/testing/fake_hip.h"
#include "server/testing/random_program.h"

namespace abi = partita::drivers::hip_mask::abi;
namespace fake = partita::drivers::hip_mask::fake;
using abi::Status;

struct Dim3 {
  unsigned x, y, z;
};

extern "C" {
Status hipSetDevice(int);
Status hipHostMalloc(void**, std::size_t, unsigned);
Status hipStreamCreateWithFlags(abi::Stream*, unsigned);
Status hipStreamDestroy(abi::Stream);
Status hipStreamSynchronize(abi::Stream);
Status hipStreamWaitEvent(abi::Stream, abi::Event, unsigned);
Status hipDeviceSynchronize();
Status hipEventCreateWithFlags(abi::Event*, unsigned);
Status hipEventRecord(abi::Event, abi::Stream);
Status hipMemcpyAsync(void*, const void*, std::size_t, int, abi::Stream);
Status hipMemsetD32Async(void*, int, std::size_t, abi::Stream);
Status hipLaunchHostFunc(abi::Stream, void (*)(void*), void*);
Status hipStreamBeginCapture(abi::Stream, int);
Status hipStreamEndCapture(abi::Stream, void**);
Status hipGraphLaunch(void*, abi::Stream);
Status hipModuleLoadData(abi::Module*, const void*);
Status hipModuleGetFunction(abi::Function*, abi::Module, const char*);
void __hipRegisterFunction(void**, const void*, char*, const char*, unsigned, void*, void*, void*,
                           void*, int*);
Status __hipPushCallConfiguration(Dim3, Dim3, std::size_t, abi::Stream);
Status __hipPopCallConfiguration(Dim3*, Dim3*, std::size_t*, abi::Stream*);
Status hipLaunchKernel(const void*, Dim3, Dim3, void**, std::size_t, abi::Stream);
Status hipExtLaunchKernel(const void*, Dim3, Dim3, void**, std::size_t, abi::Stream, abi::Event,
                          abi::Event, int);
Status hipLaunchCooperativeKernel(const void*, Dim3, Dim3, void**, unsigned, abi::Stream);
Status hipModuleLaunchKernel(abi::Function, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, unsigned, abi::Stream, void**, void**);
Status hipExtModuleLaunchKernel(abi::Function, unsigned, unsigned, unsigned, unsigned, unsigned,
                                unsigned, std::size_t, abi::Stream, void**, void**, abi::Event,
                                abi::Event, unsigned);
Status hipConfigureCall(Dim3, Dim3, std::size_t, abi::Stream);
Status hipSetupArgument(const void*, std::size_t, std::size_t);
Status hipLaunchByPtr(const void*);
}

namespace {

namespace server = partita::remote::server;
using server::Answered, server::Completed, server::CopyWork, server::DeviceBackend,
    server::EventSpec, server::GraphSpec, server::GraphWork, server::HoldWork, server::Id,
    server::kDefaultStream, server::KernelFacts, server::LaunchWork, server::ObjectKind,
    server::ObjectSpec, server::RecordWork, server::SetWork, server::StreamSpec, server::StreamWork,
    server::WaitWork;

constexpr char kImage[] = "FAKEHIP\0void first(void second(";
const char kHosts[2] = {};  // what compilers make of a kernel: a function of the host
constexpr const char* kNames[] = {"first", "second"};

void must(Status status) {
  if (status == Status::success) return;
  std::printf("HIP code %d\n", static_cast<int>(status));
  std::exit(1);
}

// What a RandomProgram asks for, on HIP.
class HipDevice {
 public:
  struct Info {
    std::uint64_t arena = 0;
  };

  HipDevice() {
    must(hipSetDevice(0));
    for (int i : {0, 1})
      __hipRegisterFunction(nullptr, &kHosts[i], nullptr, kNames[i], 0, nullptr, nullptr, nullptr,
                            nullptr, nullptr);
    void* memory = nullptr;
    must(hipHostMalloc(&memory, kBytes, abi::kHostCoherent));
    info_.arena = reinterpret_cast<std::uint64_t>(memory);
    must(hipModuleLoadData(&module_, kImage));
    for (int i : {0, 1}) must(hipModuleGetFunction(&functions_[i], module_, kNames[i]));
  }
  const Info& device() const { return info_; }
  Answered<void> allocate(std::uint64_t, std::uint64_t) { return {}; }
  std::span<std::byte> mapped(std::uint64_t at, std::uint64_t bytes, bool) const {
    return {reinterpret_cast<std::byte*>(at), bytes};
  }
  Answered<KernelFacts> find_kernel(Id, const std::string& name) {
    KernelFacts facts;
    facts.id = name == kNames[0] ? 0 : 1;
    return facts;
  }
  Answered<Id> create(const ObjectSpec& spec) {
    if (const auto* stream = std::get_if<StreamSpec>(&spec)) {
      must(hipStreamCreateWithFlags(&streams_[++last_], stream->blocking ? 0 : 1));
    } else if (std::holds_alternative<EventSpec>(spec)) {
      must(hipEventCreateWithFlags(&events_[++last_], abi::kEventDisableTiming));
    } else if (const auto* graph = std::get_if<GraphSpec>(&spec)) {
      graphs_[++last_] = captured(*graph);
    }
    return last_;
  }
  Answered<void> enqueue(Id id, StreamWork work) {
    const abi::Stream stream = streams_[id];
    if (const auto* one = std::get_if<LaunchWork>(&work)) launch(*one, id, stream);
    if (const auto* one = std::get_if<SetWork>(&work))
      must(hipMemsetD32Async(at(one->to), static_cast<int>(one->value), one->count, stream));
    if (const auto* one = std::get_if<CopyWork>(&work))
      must(hipMemcpyAsync(at(one->to), at(one->from), one->width, 3, stream));
    if (const auto* one = std::get_if<RecordWork>(&work))
      must(hipEventRecord(events_[one->event], stream));
    if (const auto* one = std::get_if<WaitWork>(&work))
      must(hipStreamWaitEvent(stream, events_[one->event], 0));
    if (const auto* one = std::get_if<GraphWork>(&work))
      must(hipGraphLaunch(graphs_[one->graph], stream));
    if (std::holds_alternative<HoldWork>(work)) {
      holds_.emplace_back();
      must(hipLaunchHostFunc(stream, &HipDevice::hold, &holds_.back()));
    }
    return {};
  }
  // Waits for the stream, and for functions of the host, which others may wait for.
  void watch(ObjectKind, Id id, std::uint64_t) {
    for (; held() > 0; std::this_thread::yield())
      for (auto& hold : holds_)
        if (hold == kHeld) hold = kGone;
    must(hipStreamSynchronize(streams_[id]));
    said_.push_back("waits");
  }
  DeviceBackend::Polled poll() {
    DeviceBackend::Polled polled;
    for (std::size_t i = 0; i < holds_.size(); ++i)
      if (holds_[i] == kHeld)
        polled.completed.push_back({.kind = Completed::Kind::held, .hold = i});
    polled.queued = held();
    return polled;
  }
  void resume(std::uint64_t hold) { holds_[hold] = kGone; }
  void finish() {
    must(hipDeviceSynchronize());
    for (const auto& [id, stream] : streams_)
      if (stream != nullptr) must(hipStreamDestroy(stream));
  }
  // With the masks of launches, which come in the same order.
  void print() const {
    int launch = 0;
    for (const std::string& line : said_) {
      std::printf("%s", line.c_str());
      if (line.starts_with("launch") || line.starts_with("captured")) {
        std::uint32_t words[2];
        const char* const name = fake::fake_hip_launch(launch++, words, 2);
        std::printf(" %s %x %x", name, words[0], words[1]);
      }
      std::puts("");
    }
  }

 private:
  static constexpr std::size_t kBytes = 4096;
  static constexpr int kWaiting = 0, kHeld = 1, kGone = 2;

  static void hold(void* word) {
    auto& state = *static_cast<std::atomic<int>*>(word);
    state = kHeld;
    while (state == kHeld) std::this_thread::yield();
  }
  std::size_t held() const {
    std::size_t count = 0;
    for (const auto& hold : holds_) count += hold != kGone;
    return count;
  }
  static void* at(std::uint64_t address) { return reinterpret_cast<void*>(address); }

  void launch(const LaunchWork& work, Id id, abi::Stream stream) {
    const int way = ways_++ % 6;
    said_.push_back((capturing_ ? "captured " : "launch ") + std::to_string(id) +
                    (way == 4 ? " 2" : " 1"));
    std::uint64_t values[3] = {};
    std::memcpy(&values[0], work.parameters.data(), 8);
    std::memcpy(&values[1], work.parameters.data() + 8, 4);
    std::memcpy(&values[2], work.parameters.data() + 12, 4);
    void* arguments[] = {&values[0], &values[1], &values[2]};
    const Dim3 grid{work.grid.x, 1, 1}, block{1, 1, 1};
    const void* const host = &kHosts[work.kernel];
    const abi::Function function = functions_[work.kernel];
    switch (way) {
      case 0: {  // as <<< >>> is compiled
        must(__hipPushCallConfiguration(grid, block, 0, stream));
        Dim3 popped[2];
        std::size_t shared = 1;
        abi::Stream there = nullptr;
        must(__hipPopCallConfiguration(&popped[0], &popped[1], &shared, &there));
        return must(hipLaunchKernel(host, popped[0], popped[1], arguments, shared, there));
      }
      case 1:
        return must(
            hipExtLaunchKernel(host, grid, block, arguments, 0, stream, nullptr, nullptr, 0));
      case 2:
        return must(hipLaunchCooperativeKernel(host, grid, block, arguments, 0, stream));
      case 3:
        return must(
            hipModuleLaunchKernel(function, grid.x, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
      case 4:
        return must(hipExtModuleLaunchKernel(function, 2 * grid.x, 1, 1, 2, 1, 1, 0, stream,
                                             arguments, nullptr, nullptr, nullptr, 0));
      default:
        must(hipConfigureCall(grid, block, 0, stream));
        for (std::size_t i = 0; i < 3; ++i) must(hipSetupArgument(&values[i], 8, 8 * i));
        return must(hipLaunchByPtr(host));
    }
  }
  void* captured(const GraphSpec& spec) {
    abi::Stream stream = nullptr;
    must(hipStreamCreateWithFlags(&stream, 1));
    must(hipStreamBeginCapture(stream, 0));
    capturing_ = true;
    for (const auto& node : spec.nodes) launch(std::get<LaunchWork>(node.work), 0, stream);
    capturing_ = false;
    void* graph = nullptr;
    must(hipStreamEndCapture(stream, &graph));
    must(hipStreamDestroy(stream));
    return graph;
  }

  Info info_;
  abi::Module module_ = nullptr;
  abi::Function functions_[2] = {};
  Id last_ = 0;
  int ways_ = 0;
  bool capturing_ = false;
  std::map<Id, abi::Stream> streams_ = {{kDefaultStream, nullptr}};
  std::map<Id, abi::Event> events_;
  std::map<Id, void*> graphs_;
  std::deque<std::atomic<int>> holds_;
  std::vector<std::string> said_;
};

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  partita::Rng rng(std::strtoull(words[1], nullptr, 10));
  server::RandomProgram<HipDevice> program(rng, std::make_unique<HipDevice>(), kImage);
  for (long step = std::strtol(words[2], nullptr, 10); step > 0; --step) program.step();
  while (!program.finished()) std::this_thread::yield();
  program.backend().finish();
  program.backend().print();
  std::puts(program.right() ? "right" : "wrong");
  std::printf("violations: %s\n", fake::fake_hip_violation());
  return program.right() ? 0 : 1;
}
