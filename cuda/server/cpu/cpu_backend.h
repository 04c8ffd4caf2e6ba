// CpuBackend: the device is this machine's processor. Kernels are PTX that ptx::Machine executes,
// work-groups run on the units (threads) of the part, each stream is a lane of all of them. What a
// lane may begin is pushed at once; what waits for a function of the client, or for something that
// does, stays here until then. Limits: kMaxPushed pieces of work of a stream in its lane, lanes and
// events as drivers/cpu_mask has them.
// Lanes: CpuOptions::lanes of a session; streams share what there is of them.
// On shared units (CpuOptions::shared) a stream is on one lane after another, as its kernels are
// placed: it waits by an event where its last work is unfinished.
// Thread rule: one thread; units run what was pushed meanwhile.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "drivers/cpu_mask/cpu_mask_driver.h"
#include "ptx/machine.h"
#include "server/backend.h"
#include "server/cpu/kernel_places.h"
#include "server/kernel_times.h"

namespace partita::remote::cpu {

inline constexpr std::int64_t kMaxPushed = 8192;
// Globals of modules lie below what clients hand out themselves.
inline constexpr std::uint64_t kGlobalsBytes = std::uint64_t{1} << 30;

struct CpuOptions {
  int units = 1;                                  // without `shared`
  std::uint64_t memory = std::uint64_t{4} << 30;  // that a session may allocate
  std::uint32_t flags = 0;                        // HelloFlags
  std::shared_ptr<SharedUnits> shared = {};       // with other sessions
  std::shared_ptr<Tenant> tenant = {};            // says where kernels run; null: on all units
  server::LaunchTimes::Told measured = {};        // where given, kernels are timed
  std::uint32_t devices = 1;                      // all of them these units and this memory
  std::size_t lanes = drivers::cpu_mask::kMaxLanes;  // of the units; at least 1
};

class CpuBackend final : public server::DeviceBackend {
 public:
  static Result<std::unique_ptr<CpuBackend>> open(const CpuOptions& options);
  // Ends what runs.
  ~CpuBackend() override;

  const server::DeviceSnapshot& device() const override { return device_; }
  int descriptor() const override;
  Polled poll() override;
  server::Answered<void> allocate(std::uint64_t address, std::uint64_t bytes) override;
  void release(std::uint64_t address) override;
  server::Answered<void> limit_heap(std::uint64_t bytes) override;
  std::span<std::byte> mapped(std::uint64_t address, std::uint64_t bytes, bool write) override;
  server::Answered<void> put_into(std::uint64_t address, int file, bool keep) override;
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
  void request_ended(bool said) override { places_.request_ended(said); }

 private:
  struct Shared;    // with the threads of the units
  struct Recorded;  // a record of an event, or a place in a stream
  using Stamps = server::LaunchTimes::Stamps;
  struct Task {  // runs on the units
    std::function<bool(std::int64_t)> run = {};  // false: the group is to come again
    std::int64_t groups = 1;
    std::function<void()> then = {};    // says so, once the stream knows that it is finished
    std::shared_ptr<Place> place = {};  // of a kernel of a tenant
  };
  struct Wait {
    std::shared_ptr<Recorded> on;
  };
  struct Record {
    std::shared_ptr<Recorded> here;
  };
  struct Hold {
    std::uint64_t tag = 0;
  };
  struct Branch {  // looks at its word once all before it has ended
    server::BranchWork work = {};
    std::shared_ptr<std::atomic<bool>> reached = {};
  };
  using Item = std::variant<Task, Wait, Record, Hold, Branch>;
  struct Counters {
    std::atomic<std::int64_t> unfinished = 0;  // all items
    std::atomic<std::int64_t> pushed = 0;      // those in the lane
  };
  struct Stream {
    server::Id id = server::kDefaultStream;
    StreamLanes lanes = {};
    bool blocking = true;
    int priority = 0;
    std::shared_ptr<Counters> counters = std::make_shared<Counters>();
    std::int64_t enqueued = 0;
    std::deque<Item> pending = {};  // not pushed yet
    std::uint64_t held = 0;         // hold that it waits for
    std::int64_t seen_default = 0;  // items of the default stream that it waits for already
    std::map<server::Id, std::int64_t> seen = {};  // of the default stream: of the others
  };
  struct Event {
    std::shared_ptr<Recorded> last = {};
  };
  CpuBackend(CpuOptions options, std::shared_ptr<SharedUnits> units);
  void push(server::Id id, Item item);
  void pump();
  bool pump(Stream& stream);
  void launch(Stream& stream, Task task);
  bool decide(Stream& stream, Branch branch);
  bool push_record(Stream& stream, const std::shared_ptr<Recorded>& here);
  server::Answered<Item> item_of(server::Id stream, server::StreamWork work);
  server::Answered<Item> item_of(server::Id stream, server::LaunchWork work);
  server::Answered<Item> item_of(server::Id stream, const Gemm& gemm);
  server::Answered<void> add_items(server::Id stream, const server::GraphSpec& graph,
                                   std::vector<Item>& items);

  const CpuOptions options_;
  server::DeviceSnapshot device_;
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<ptx::Machine> machine_;
  const std::shared_ptr<SharedUnits> units_;
  drivers::cpu_mask::CpuMaskDriver* const driver_;
  server::LaunchTimes times_;
  KernelPlaces places_;
  SessionLanes lanes_;
  std::map<server::Id, Stream> streams_;
  std::map<server::Id, Event> events_;
  std::map<server::Id, server::GraphSpec> graphs_;
  std::map<server::Id, ptx::ModuleId> modules_;
  struct Kernel {
    ptx::KernelId id = {};
    std::string name = {};
  };
  std::deque<Kernel> kernels_;
  std::map<std::pair<server::Id, std::string>, server::KernelFacts> found_;
  std::deque<std::shared_ptr<Recorded>> recorded_;  // with events of the driver
  server::Id next_ = 1;
  std::uint64_t next_hold_ = 1;
};

}  // namespace partita::remote::cpu
