// FakeBackend: a DeviceBackend for tests and measurements: memory is a map, kernels are C++
// functions, work runs at once on the caller's thread (or, when told, only in run()). A module is
// the text "fake"; its kernels: add(u64 to, u32 count, u32 more) adds to u32s, nothing(), many(8
// words), crash(), print(), find(). A library's function writes 0x5a to each of its addresses and
// answers its arguments, with status 7. What the contract promises (live ids, live memory) is
// checked (CHECK).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "base/descriptor.h"
#include "server/backend.h"
#include "server/testing/fake_textures.h"

namespace partita::remote::server {

inline constexpr std::uint64_t kFakeArena = 0x7000'0000'0000;

class FakeBackend : public FakeKeeper {
 public:
  struct Options {
    std::uint64_t memory = std::uint64_t{64} << 20;
    bool mapped = true;   // whether memory is seen from outside
    bool manual = false;  // work waits for run()
    bool null = false;    // nothing is done at all
    std::function<void()> loading = {};  // while a module is loaded
  };
  explicit FakeBackend(Options options);
  FakeBackend() : FakeBackend(Options{}) {}

  const DeviceSnapshot& device() const override { return device_; }
  int descriptor() const override { return wake_.get(); }
  Polled poll() override;
  Answered<void> allocate(std::uint64_t address, std::uint64_t bytes) override;
  void release(std::uint64_t address) override;
  std::span<std::byte> mapped(std::uint64_t address, std::uint64_t bytes, bool write) override;
  Answered<Id> create(const ObjectSpec& spec) override;
  void destroy(ObjectKind kind, Id id) override;
  Answered<KernelFacts> find_kernel(Id module, const std::string& name) override;
  Answered<GlobalPlace> find_global(Id module, const std::string& name) override;
  Answered<void> enqueue(Id stream, StreamWork work) override;
  Answered<LibraryAnswer> ask(Id stream, const CallWork& work) override;
  void watch(ObjectKind kind, Id id, std::uint64_t tag) override;
  bool finished(ObjectKind kind, Id id) override;
  Answered<std::uint64_t> elapsed(Id from, Id to) override;
  void resume(std::uint64_t hold) override;

  // Does so many pieces of work, as far as order allows; how many it did.
  int run(int most = 1'000'000'000);
  // Everything that exists: allocations, modules, streams, events, graphs, arrays, textures, sets
  // of conditions.
  std::size_t objects() const;
  std::uint64_t memory_used() const { return used_; }
  const std::map<Id, GraphSpec>& graphs() const { return graphs_; }

 private:
  struct Watch {
    std::uint64_t tag = 0;
  };
  struct Item {
    std::variant<StreamWork, Watch> what = Watch{};
    std::uint64_t serial = 0;
    std::uint64_t record = 0;  // that a wait waits for
    bool held = false;
  };
  struct Stream {
    bool blocking = true;
    std::deque<Item> items = {};
  };
  struct Event {
    bool timing = true;
    std::uint64_t last = 0;  // serial of the last record
    std::uint64_t time = 0;  // when it was done
    std::vector<std::uint64_t> watched = {};
  };
  bool may_run(Id stream, const Item& item) const;
  bool run_one(Id stream);
  void carry_out(const StreamWork& work);
  void run_branch(Stream& stream, BranchWork branch);
  void launch(const LaunchWork& work);
  void notify(Completed completed);
  void push(Id stream, Item item);
  std::span<std::byte> bytes_at(std::uint64_t address, std::uint64_t bytes);

  const Options options_;
  DeviceSnapshot device_;
  Descriptor wake_;
  std::map<std::uint64_t, std::vector<std::byte>> memory_;
  std::uint64_t used_ = 0;
  std::map<Id, Stream> streams_;
  std::map<Id, Event> events_;
  std::map<Id, GraphSpec> graphs_;
  std::map<Id, std::uint64_t> modules_;  // where their global lies
  std::set<std::uint64_t> records_;      // serials of unfinished records
  std::map<std::uint64_t, Id> holds_;    // stream by hold
  std::vector<Completed> completed_;
  Id next_ = 1;
  std::uint64_t serial_ = 1, clock_ = 0;
  bool dead_ = false;
};

}  // namespace partita::remote::server
