#include "server/testing/conformance.h"

#include "server/testing/conformance_bench.h"

namespace partita::remote::server {
namespace {

class Suite : private ConformanceBench {
 public:
  using ConformanceBench::ConformanceBench;

  std::vector<std::string> run() {
    if (!begin()) return wrong_;
    memory();
    products();
    kernels();
    calls_hold();
    default_stream();
    events();
    graphs();
    check_textures(*this);
    check_conditions(*this);
    objects();
    faults();
    return wrong_;
  }

 private:
  void memory() {
    std::vector<std::uint32_t> data(kWords);
    for (std::uint32_t i = 0; i < kWords; ++i) data[i] = i * 3;
    enqueue(kDefaultStream, CopyInWork{at_, staging(data)});
    expect(words(kDefaultStream, at_, kWords) == data, "what was copied in is not copied out");
    const auto seen = backend_.mapped(at_, kBytes, false);
    expect(seen.empty() || std::memcmp(seen.data(), data.data(), kBytes) == 0,
           "mapped memory differs");
    // A square of 4 x 4 words out of rows of 16, to rows of 8.
    enqueue(kDefaultStream, CopyWork{at_ + 512, at_, 32, 64, 16, 4});
    const auto square = words(kDefaultStream, at_ + 512, 32);
    for (std::uint32_t row = 0; row < 4 && square.size() == 32; ++row)
      for (std::uint32_t column = 0; column < 4; ++column)
        expect(square[row * 8 + column] == (row * 16 + column) * 3, "a copy of rows is wrong");
    enqueue(kDefaultStream, SetWork{at_, 0xabcd, 2, 8, 2, 64});
    const auto set = words(kDefaultStream, at_, 32);
    expect(set.size() == 32 && set[0] == 0xabcdabcd && set[3] == 0xabcdabcd && set[4] == 12 &&
               set[16] == 0xabcdabcd && set[20] == 60,
           "setting rows is wrong");
    expect(backend_.allocate(at_ + bytes_, bytes_).has_value(), "more memory was refused");
    backend_.release(at_ + bytes_);
    expect(backend_.allocate(at_ + bytes_, bytes_).has_value(), "memory cannot be had again");
    backend_.release(at_ + bytes_);
  }

  void kernels() {
    expect(add_.parameter_bytes == 16 &&
               add_.parameters == std::vector<KernelParameter>{{0, 8}, {8, 4}, {12, 4}},
           "the layout of add is wrong");
    expect(add_.max_threads >= kWords, "add takes too few threads");
    expect(!backend_.find_kernel(module_id_, "no such kernel").has_value(),
           "a kernel that is not there was found");
    expect(!backend_.create(ModuleSpec{"no module"}).has_value(), "what is no module was loaded");
    zero();
    for (int i = 0; i < 20; ++i) enqueue(kDefaultStream, adding(at_, kWords, 2));
    expect(words(kDefaultStream, at_, kWords) == std::vector<std::uint32_t>(kWords, 40),
           "20 launches did not add 2 each");
    if (module_.global.empty()) return;
    const GlobalPlace place = must(backend_.find_global(module_id_, module_.global), "the global");
    enqueue(kDefaultStream, SetWork{place.address, 7, 4, 1, 1, 0});
    expect(place.bytes == 4 && words(kDefaultStream, place.address, 1)[0] == 7, "the global");
  }

  // Where there is a library for them: 2 x 3 by 3 x 2, twice, in the order of the stream.
  void products() {
    const auto as_bits = [](std::initializer_list<float> numbers) {
      std::vector<std::uint32_t> bits;
      for (const float number : numbers) bits.push_back(std::bit_cast<std::uint32_t>(number));
      return bits;
    };
    enqueue(
        kDefaultStream,
        CopyInWork{at_, staging(as_bits({1, 2, 3, 4, 5, 6, 1, 0, 2, 0, 1, 1, 10, 20, 30, 40}))});
    const Gemm gemm{.m = 2,
                    .n = 2,
                    .k = 3,
                    .a = {at_},
                    .a_step = 2,
                    .b = {at_ + 24},
                    .b_step = 3,
                    .c = {at_ + 48},
                    .c_step = 2,
                    .alpha = std::bit_cast<std::uint64_t>(2.0),
                    .beta = std::bit_cast<std::uint64_t>(1.0)};
    if (const auto done = backend_.enqueue(kDefaultStream, GemmWork{gemm}); !done) {
      expect(done.error().status == kNotSupported, "products are refused for another reason");
      return;
    }
    enqueue(kDefaultStream, GemmWork{gemm});
    expect(words(kDefaultStream, at_ + 48, 4) == as_bits({54, 76, 62, 80}), "a product is wrong");
    Gemm by_pointers = gemm;
    by_pointers.form = kByPointers, by_pointers.batch = 2;
    by_pointers.a = {at_ + 128}, by_pointers.b = {at_ + 144}, by_pointers.c = {at_ + 160};
    const std::uint64_t lists[] = {at_, at_, at_ + 24, at_ + 24, at_ + 96, at_ + 48};
    std::vector<std::uint32_t> halves(12);
    std::memcpy(halves.data(), lists, sizeof(lists));
    enqueue(kDefaultStream, CopyInWork{at_ + 96, staging(as_bits({0, 0, 0, 0}))});
    enqueue(kDefaultStream, CopyInWork{at_ + 128, staging(halves)});
    enqueue(kDefaultStream, GemmWork{by_pointers});
    expect(words(kDefaultStream, at_ + 48, 4) == as_bits({76, 104, 78, 100}) &&
               words(kDefaultStream, at_ + 96, 4) == as_bits({22, 28, 16, 20}),
           "products by pointers are wrong");
  }

  // A held stream waits; others go on.
  void calls_hold() {
    zero();
    const Id held = must(backend_.create(StreamSpec{false, 0}), "a stream");
    const Id other = must(backend_.create(StreamSpec{false, 0}), "a stream");
    enqueue(held, HoldWork{77});
    enqueue(held, adding(at_, 1, 5));
    expect(until([this] { return !held_.empty(); }), "a stream did not say that it is held");
    if (held_.empty()) return;
    expect(held_.front().tag == 77, "a hold has another tag");
    expect(first(other) == 0, "a stream went on while it was held");
    expect(!backend_.finished(ObjectKind::stream, held), "a held stream is finished");
    expect(settle(other) && backend_.finished(ObjectKind::stream, other),
           "a stream waits for another");
    backend_.resume(held_.front().hold);
    held_.clear();
    expect(settle(held) && first(other) == 5, "a stream did not go on after its hold");
    backend_.destroy(ObjectKind::stream, held);
    backend_.destroy(ObjectKind::stream, other);
  }

  // The default stream waits for blocking streams, and they for it.
  void default_stream() {
    zero();
    const Id blocking = must(backend_.create(StreamSpec{true, 0}), "a stream");
    const Id free = must(backend_.create(StreamSpec{false, 0}), "a stream");
    enqueue(blocking, HoldWork{1});
    enqueue(blocking, adding(at_, 1, 1));
    enqueue(kDefaultStream, SetWork{at_ + 4, 9, 4, 1, 1, 0});
    enqueue(free, adding(at_ + 8, 1, 3));
    expect(until([this] { return !held_.empty(); }), "a blocking stream did not begin");
    expect(settle(free), "a non-blocking stream waits for the default stream");
    expect(words(free, at_ + 4, 2) == std::vector<std::uint32_t>{0, 3},
           "the default stream did not wait for a blocking one");
    expect(!backend_.finished(ObjectKind::stream, kDefaultStream),
           "the default stream is finished before a blocking one");
    if (held_.empty()) return;
    backend_.resume(held_.front().hold);
    held_.clear();
    expect(settle(kDefaultStream) && words(free, at_, 2) == std::vector<std::uint32_t>{1, 9},
           "the default stream did not go on");
    enqueue(kDefaultStream, HoldWork{2});
    enqueue(blocking, adding(at_, 1, 1));
    expect(until([this] { return !held_.empty(); }), "the default stream was not held");
    expect(first(free) == 1, "a blocking stream did not wait for the default stream");
    if (held_.empty()) return;
    backend_.resume(held_.front().hold);
    held_.clear();
    expect(settle(blocking) && first(free) == 2, "a blocking stream did not go on");
    backend_.destroy(ObjectKind::stream, blocking);
    backend_.destroy(ObjectKind::stream, free);
  }

  void events() {
    zero();
    const Id one = must(backend_.create(StreamSpec{false, 0}), "a stream");
    const Id two = must(backend_.create(StreamSpec{false, 0}), "a stream");
    const Id begun = must(backend_.create(EventSpec{true}), "an event");
    const Id ended = must(backend_.create(EventSpec{true}), "an event");
    expect(backend_.finished(ObjectKind::event, begun), "an event without a record is finished");
    expect(!backend_.elapsed(begun, ended).has_value(), "time between events without records");
    enqueue(two, WaitWork{begun});  // no record: no wait
    enqueue(one, HoldWork{3});
    enqueue(one, adding(at_, 1, 2));
    enqueue(one, RecordWork{begun});
    enqueue(two, WaitWork{begun});
    enqueue(two, adding(at_, 1, 5));
    enqueue(two, RecordWork{ended});
    expect(until([this] { return !held_.empty(); }), "a stream was not held");
    expect(!backend_.finished(ObjectKind::event, ended), "an event is finished too early");
    const std::uint64_t tag = ++tag_;
    backend_.watch(ObjectKind::event, ended, tag);
    // The wait was for the record before it, not for the next one.
    enqueue(one, HoldWork{4});
    enqueue(one, RecordWork{begun});
    if (held_.empty()) return;
    backend_.resume(held_.front().hold);
    held_.clear();
    expect(until([&] { return reached_.contains(tag); }), "an event's watch did not come");
    expect(first(two) == 7, "streams are not in the order of their events");
    expect(until([this] { return !held_.empty(); }), "a stream was not held again");
    if (held_.empty()) return;
    backend_.resume(held_.front().hold);
    held_.clear();
    expect(settle(one) && settle(two), "streams with events did not end");
    enqueue(two, RecordWork{ended});
    expect(settle(two), "a record did not end");
    const auto time = backend_.elapsed(begun, ended);
    expect(time && *time < 60'000'000'000u, "the time between events is wrong");
    for (const Id event : {begun, ended}) backend_.destroy(ObjectKind::event, event);
    for (const Id stream : {one, two}) backend_.destroy(ObjectKind::stream, stream);
  }

  void graphs() {
    zero();
    GraphSpec spec;
    spec.nodes.push_back({SetWork{at_, 1, 4, kWords, 1, 0}, false, {}});
    spec.nodes.push_back({adding(at_, kWords, 2), false, {0}});
    spec.nodes.push_back({{}, true, {0}});
    spec.nodes.push_back({CopyWork{at_ + 512, at_, 512, 512, 512, 1}, false, {1, 2}});
    spec.nodes.push_back({CopyOutWork{at_ + 512, 4, 999}, false, {3}});
    const Id graph = must(backend_.create(spec), "a graph");
    for (int round = 0; round < 3; ++round) {
      copied_.erase(999);
      enqueue(kDefaultStream, GraphWork{graph});
      expect(settle(kDefaultStream), "a graph did not end");
      const auto word = copied_[999];
      std::uint32_t value = 0;
      if (word.size() == 4) std::memcpy(&value, word.data(), 4);
      expect(value == 3, "a graph did something else");
    }
    backend_.destroy(ObjectKind::graph, graph);
    graph_on_the_device();
    for (const bool whole : {true, false}) events_of_graph(whole);
  }
  // Nothing in it comes back to the client: a back end may hand it over whole.
  void graph_on_the_device() {
    GraphSpec spec;
    spec.nodes.push_back({SetWork{at_, 4, 4, kWords, 1, 0}, false, {}});
    spec.nodes.push_back({adding(at_, kWords, 2), false, {0}});
    const Id one = must(backend_.create(spec), "a graph"), two = must(backend_.create(spec), "one");
    expect(one != two, "a graph's number came twice");
    for (const Id graph : {one, two}) {
      zero();
      enqueue(kDefaultStream, GraphWork{graph});
      expect(first(kDefaultStream) == 6, "a graph of the device did something else");
      backend_.destroy(ObjectKind::graph, graph);
    }
  }

  // Its nodes record and wait at each launch; `whole`: nothing in it comes back to the client.
  void events_of_graph(bool whole) {
    zero();
    const Id one = must(backend_.create(StreamSpec{false, 0}), "a stream");
    const Id two = must(backend_.create(StreamSpec{false, 0}), "a stream");
    const Id before = must(backend_.create(EventSpec{true}), "an event");
    const Id inside = must(backend_.create(EventSpec{true}), "an event");
    GraphSpec spec;
    spec.nodes.push_back({WaitWork{before}, false, {}});
    spec.nodes.push_back({adding(at_, 1, 2), false, {0}});
    spec.nodes.push_back({RecordWork{inside}, false, {1}});
    if (!whole) spec.nodes.push_back({HoldWork{9}, false, {2}});
    spec.nodes.push_back({adding(at_, 1, 10), false, {whole ? 2U : 3U}});
    const Id graph = must(backend_.create(spec), "a graph with events");
    const auto is_held = [this](std::uint64_t tag) {
      const bool held = until([&] { return !held_.empty() && held_.front().tag == tag; });
      expect(held, "a stream was not held");
      return held;
    };
    const auto resume = [this] {
      backend_.resume(held_.front().hold);
      held_.clear();
    };
    for (std::uint32_t round = 0; round < 2; ++round) {
      enqueue(two, HoldWork{8});
      enqueue(two, RecordWork{before});
      enqueue(one, GraphWork{graph});
      if (!is_held(8)) return;
      expect(!backend_.finished(ObjectKind::event, inside), "a graph's record came too early");
      expect(first(kDefaultStream) == round * 12, "a graph did not wait for an event");
      resume();
      if (!whole) {
        if (!is_held(9)) return;
        expect(backend_.finished(ObjectKind::event, inside), "a graph's record did not come");
        expect(!backend_.finished(ObjectKind::stream, one), "a held graph is finished");
        expect(first(kDefaultStream) == round * 12 + 2, "a graph is not where its record is");
        resume();
      }
      expect(settle(one) && first(kDefaultStream) == round * 12 + 12, "a graph with events");
      expect(backend_.finished(ObjectKind::event, inside), "a graph's record did not come");
    }
    expect(backend_.elapsed(before, inside).has_value(), "no time between records of graphs");
    backend_.destroy(ObjectKind::graph, graph);
    for (const Id event : {before, inside}) backend_.destroy(ObjectKind::event, event);
    for (const Id stream : {one, two}) backend_.destroy(ObjectKind::stream, stream);
  }

  void objects() {
    std::set<Id> seen;
    for (int i = 0; i < 40; ++i) {
      const Id id = must(backend_.create(StreamSpec{i % 2 == 0, 0}), "a stream");
      expect(seen.insert(id).second && id != kDefaultStream, "a stream's number came twice");
    }
    for (const Id id : seen) backend_.destroy(ObjectKind::stream, id);
  }

  // After a fault everything ends and nothing takes effect.
  void faults() {
    zero();
    enqueue(kDefaultStream, LaunchWork{.kernel = crash_.id});
    enqueue(kDefaultStream, adding(at_, 1, 1));
    enqueue(kDefaultStream, HoldWork{5});
    const std::uint64_t tag = ++tag_;
    backend_.watch(ObjectKind::stream, kDefaultStream, tag);
    const bool ended = until([&] {
      while (!held_.empty()) {
        backend_.resume(held_.back().hold);
        held_.pop_back();
      }
      return reached_.contains(tag);
    });
    expect(ended, "work behind a fault does not end");
    expect(until([this] { return !faults_.empty(); }), "a fault was not told");
    expect(faults_ == std::vector<Status>{module_.fault},
           fmt::format("{} faults, the first is {}", faults_.size(),
                       faults_.empty() ? 0 : faults_.front()));
    const auto seen = backend_.mapped(at_, 4, false);
    expect(seen.empty() || seen[0] == std::byte{0}, "work behind a fault took effect");
  }
};

}  // namespace

std::vector<std::string> check_backend(DeviceBackend& backend, const ConformanceModule& module) {
  return Suite(backend, module).run();
}

}  // namespace partita::remote::server
