// CudaBackend: the device is a GPU of NVIDIA's behind libcuda. Memory is mapped at the addresses
// that the client chose, inside one reserved range; copies go through pinned buffers of ours, so
// that no call of the library waits for a stream; a stream that is held waits for a word in pinned
// memory. Nothing calls us back: poll() asks events, often while something is young, more rarely
// later. A graph becomes one of CUDA's by capturing its nodes in their order (one after another);
// one with copies to the client or calls of its functions is enqueued node by node instead.
// On lanes (CudaOptions::shared) every stream is one of a lane's, which wait for no default stream:
// the order of CUDA's default stream is kept by events, and the end waits for what runs, since
// other sessions may use the same context. Limits: kMaxHolds calls of the client's functions at the
// same time. Thread rule: one thread, which the context is current on.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/backend.h"
#include "server/cuda/blas_library.h"
#include "server/cuda/driver_library.h"
#include "server/cuda/kernel_times.h"
#include "server/cuda/printed_text.h"

namespace partita::remote::cuda {

inline constexpr std::size_t kPinnedBytes = std::size_t{4} << 20;  // a buffer
inline constexpr std::size_t kMaxHolds = 1024;

// A part of the GPU's SMs that a session's streams run on.
struct Lane {
  std::function<Result<abi::Stream>(int priority)> create_stream = {};  // non-blocking ones
  int units = 0;                                                        // SMs
};

// The lanes of a session in a process that it shares with others.
struct SharedUse {
  std::vector<Lane> lanes = {};             // the first is where a stream begins
  std::optional<KernelCursor> cursor = {};  // which lane a kernel runs on; none: the first
  std::function<void()> lost = [] {};       // once the context is dead, for everybody who uses it
  // Where given, kernels are timed; told at the end.
  std::function<void(const std::vector<TimedKernel>&)> measured = {};
};

struct CudaOptions {
  std::string vendor_library = "libcuda.so.1";
  int device = 0;
  std::uint64_t memory = 0;      // that a session may allocate; 0: what the device has
  std::size_t pinned_ahead = 8;  // buffers made at the start
  std::optional<SharedUse> shared = {};
  // This process is the session's alone: its standard output is what kernels print.
  bool own_process = false;
};

class CudaBackend final : public server::DeviceBackend {
 public:
  static Result<std::unique_ptr<CudaBackend>> open(const CudaOptions& options);
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  const server::DeviceSnapshot& device() const override { return device_; }
  int descriptor() const override { return -1; }
  Polled poll() override;
  server::Answered<void> allocate(std::uint64_t address, std::uint64_t bytes) override;
  void release(std::uint64_t address) override;
  std::span<std::byte> mapped(std::uint64_t, std::uint64_t, bool) override { return {}; }
  server::Answered<server::Id> create(const server::ObjectSpec& spec) override;
  void destroy(server::ObjectKind kind, server::Id id) override;
  server::Answered<server::KernelFacts> find_kernel(server::Id module,
                                                    const std::string& name) override;
  server::Answered<server::GlobalPlace> find_global(server::Id module,
                                                    const std::string& name) override;
  server::Answered<void> enqueue(server::Id stream, server::StreamWork work) override;
  void watch(server::ObjectKind kind, server::Id id, std::uint64_t tag) override;
  bool finished(server::ObjectKind kind, server::Id id) override;
  server::Answered<std::uint64_t> elapsed(server::Id from, server::Id to) override;
  void resume(std::uint64_t hold) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Pinned {
    void* host = nullptr;
  };
  // What is to happen when a stream got there.
  struct Mark {
    abi::Event event = nullptr;
    std::optional<server::Completed> tell = {};
    Pinned buffer = {};  // to be given back
    // Of a copy out: where in `into` its bytes go; the last part tells.
    std::shared_ptr<std::vector<std::byte>> into = {};
    std::size_t offset = 0, bytes = 0;
  };
  struct Stream {
    abi::Stream stream = nullptr;  // where the next piece of work goes
    bool blocking = true;
    int priority = 0;
    std::vector<abi::Stream> on = {};  // by lane, those that were needed so far
    std::deque<Mark> marks = {};
    // On lanes: of a blocking stream, what it has waited for of the default stream; and whether it
    // has work that the default stream has not waited for.
    std::uint64_t joined = 0;
    bool fresh = false;
  };
  struct Event {
    abi::Event event = nullptr;
    bool recorded = false;
  };
  struct Graph {
    abi::GraphExec exec = nullptr;
    server::GraphSpec spec = {};  // when it is enqueued by hand, and to keep what it copies
    std::vector<Pinned> buffers = {};
  };
  struct Kernel {
    abi::Function function = nullptr;
    std::string name = {};
    std::vector<server::KernelParameter> parameters = {};
    std::uint32_t dynamic_shared = 0;  // that was asked for so far
  };
  struct Memory {
    std::uint64_t bytes = 0;
    abi::AllocationHandle handle = 0;
  };
  struct Watched {
    server::Id event = 0;
    std::uint64_t tag = 0;
  };
  CudaBackend(std::shared_ptr<const DriverLibrary> library, std::optional<SharedUse> shared);
  Result<void> start(const CudaOptions& options);
  Result<void> look_at_device(const CudaOptions& options);
  Result<void> reserve(const CudaOptions& options);
  abi::AllocationProperties properties() const;
  tl::unexpected<server::Refused> refused(const char* call, abi::Return code);
  server::Answered<void> done(const char* call, abi::Return code);
  void die(abi::Return code, const std::string& text);

  // A launch that is timed.
  struct Timed {
    std::string kernel = {};  // empty: a request ended
    abi::Event begun = nullptr, ended = nullptr;
  };
  Result<void> make_default_stream();
  server::Answered<abi::Stream> make_stream(bool blocking, int priority);
  void destroy_streams(Stream& stream);
  server::Answered<void> order(server::Id id, Stream& stream);
  server::Answered<void> wait_for(abi::Stream stream, abi::Stream earlier);
  server::Answered<void> go_to_lane(Stream& stream, std::size_t lane);
  server::Answered<void> begin_kernel(Stream& stream, const Kernel& kernel);
  server::Answered<abi::Event> timing_event();
  void end_kernel(const Stream& stream, bool launched);
  void end_request();
  void take_times();
  server::Answered<Pinned> take_pinned();
  server::Answered<void> mark(Stream& stream, Mark mark);
  void deliver(Mark& mark);
  void tell_printed(const Mark& passed);
  server::Answered<void> copy_in(Stream& stream, const server::CopyInWork& work);
  server::Answered<void> copy_out(Stream& stream, const server::CopyOutWork& work);
  server::Answered<void> copy(Stream& stream, const server::CopyWork& work);
  server::Answered<void> set(Stream& stream, const server::SetWork& work);
  server::Answered<void> multiply(Stream& stream, const Gemm& op);
  server::Answered<void> launch(Stream& stream, const server::LaunchWork& work);
  server::Answered<void> launch_on(abi::Stream stream, const Kernel& kernel,
                                   const server::LaunchWork& work);
  server::Answered<void> hold(Stream& stream, const server::HoldWork& work);
  server::Answered<void> record(Stream& stream, server::Id event);
  server::Answered<void> launch_graph(server::Id stream, Graph& graph);
  server::Answered<void> capture(Graph& graph);
  server::Answered<server::Id> load(std::string_view image);

  const std::shared_ptr<const DriverLibrary> library_;
  std::optional<SharedUse> shared_;
  std::deque<Timed> timed_;
  std::vector<abi::Event> spare_timing_;
  KernelTimes times_;
  abi::Event joint_ = nullptr;       // on a lane: between the default stream and others
  std::uint64_t default_epoch_ = 0;  // grows with the work of the default stream
  const DriverApi& api_;
  std::unique_ptr<BlasLibrary> blas_;  // null: not installed
  server::DeviceSnapshot device_;
  abi::Device number_ = 0;
  int ordinal_ = 0;
  abi::Context context_ = nullptr;
  std::map<server::Id, Stream> streams_;
  std::map<server::Id, Event> events_;
  std::map<server::Id, Graph> graphs_;
  std::map<server::Id, abi::Module> modules_;
  std::map<std::pair<server::Id, std::string>, server::KernelFacts> found_;
  std::vector<Kernel> kernels_;
  std::map<std::uint64_t, Memory> memory_;
  std::vector<Pinned> pinned_;     // free ones
  std::vector<void*> pinned_all_;  // to be freed at the end
  std::vector<abi::Event> spare_;  // events without use
  std::vector<Watched> watched_;
  std::uint32_t* holds_ = nullptr;  // a word per hold, seen by the device
  abi::DevicePointer holds_on_device_ = 0;
  std::vector<std::uint32_t> free_holds_;
  std::vector<server::Completed> told_;
  Clock::time_point busy_since_ = {};
  server::Id next_ = 1;
  bool dead_ = false;
  std::unique_ptr<PrintedText> printed_;  // from the first module on that has a kernel that prints
  bool own_process_ = false;
  Graph* capturing_ = nullptr;  // whose nodes are being captured: buffers stay with it
};

}  // namespace partita::remote::cuda
