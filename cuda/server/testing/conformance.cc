#include "server/testing/conformance.h"

#include <fmt/format.h>
#include <poll.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "ptx/texture.h"

namespace partita::remote::server {

const char* const kTexturesPtx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry fetch(.param .u64 texture, .param .u64 to, .param .u32 width)
{
  .reg .b32 %r<4>;
  .reg .f32 %f<7>;
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [texture];
  ld.param.u64 %d1, [to];
  ld.param.u32 %r0, [width];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  cvt.rn.f32.u32 %f0, %r1;
  cvt.rn.f32.u32 %f1, %r2;
  add.f32 %f0, %f0, 0f3F000000;
  add.f32 %f1, %f1, 0f3F000000;
  tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%d0, {%f0, %f1}];
  mad.lo.u32 %r3, %r2, %r0, %r1;
  mul.wide.u32 %d2, %r3, 4;
  add.u64 %d3, %d1, %d2;
  st.global.f32 [%d3], %f2;
  ret;
}
.visible .entry paint(.param .u64 surface, .param .u64 unused, .param .u32 more)
{
  .reg .b32 %r<5>;
  .reg .b64 %d0;
  ld.param.u64 %d0, [surface];
  ld.param.u32 %r0, [more];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mad.lo.u32 %r3, %r2, 16, %r1;
  add.u32 %r3, %r3, %r0;
  shl.b32 %r4, %r1, 2;
  sust.b.2d.b32.trap [%d0, {%r4, %r2}], {%r3};
  ret;
}
)";
const char* const kConditionsPtx = R"(.version 7.0
.target sm_70
.address_size 64
.extern .func cudaGraphSetConditional
(
  .param .b64 cudaGraphSetConditional_param_0,
  .param .b32 cudaGraphSetConditional_param_1
)
;
.visible .entry decide(.param .u64 condition, .param .u32 value)
{
  .reg .b32 %r0;
  .reg .b64 %d0;
  ld.param.u64 %d0, [condition];
  ld.param.u32 %r0, [value];
  {
  .param .b64 param0;
  st.param.b64 [param0+0], %d0;
  .param .b32 param1;
  st.param.b32 [param1+0], %r0;
  call.uni
  cudaGraphSetConditional,
  (
  param0,
  param1
  );
  }
  ret;
}
)";

namespace {

constexpr auto kPatience = std::chrono::seconds(20);
constexpr std::uint32_t kWords = 256;
constexpr std::uint64_t kBytes = kWords * 4;

class Suite {
 public:
  Suite(DeviceBackend& backend, const ConformanceModule& module)
      : backend_(backend), module_(module), at_(backend.device().arena) {}

  std::vector<std::string> run() {
    if (!begin()) return wrong_;
    memory();
    products();
    kernels();
    calls_hold();
    default_stream();
    events();
    graphs();
    textures();
    conditions();
    objects();
    faults();
    return wrong_;
  }

 private:
  void expect(bool good, std::string what) {
    if (!good) wrong_.push_back(std::move(what));
  }
  template <class T>
  T must(Answered<T> answer, const char* what) {
    if (answer) return *std::move(answer);
    wrong_.push_back(
        fmt::format("{}: {} ({})", what, answer.error().reason, answer.error().status));
    return T{};
  }
  void enqueue(Id stream, StreamWork work) {
    const Answered<void> done = backend_.enqueue(stream, std::move(work));
    expect(done.has_value(), "work was refused: " + (done ? "" : done.error().reason));
  }

  // Until `done` says so; false when that takes too long.
  bool until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < end) {
      DeviceBackend::Polled polled = backend_.poll();
      for (Completed& one : polled.completed) take(one);
      if (done()) return true;
      pollfd ready{backend_.descriptor(), POLLIN, 0};
      ::poll(&ready, 1, polled.again ? 1 : 50);
    }
    return false;
  }
  void take(Completed& one) {
    switch (one.kind) {
      case Completed::Kind::reached:
        expect(reached_.insert(one.tag).second, "a watch was told twice");
        break;
      case Completed::Kind::copied:
        copied_[one.tag] = std::move(one.bytes);
        break;
      case Completed::Kind::held:
        held_.push_back(one);
        break;
      case Completed::Kind::fault:
        faults_.push_back(one.status);
        break;
      default:
        break;
    }
  }
  bool settle(Id stream) {
    const std::uint64_t tag = ++tag_;
    backend_.watch(ObjectKind::stream, stream, tag);
    return until([&] { return reached_.contains(tag); });
  }
  std::vector<std::uint32_t> words(Id stream, std::uint64_t from, std::uint32_t count) {
    const std::uint64_t tag = ++tag_;
    enqueue(stream, CopyOutWork{from, count * std::uint64_t{4}, tag});
    if (!until([&] { return copied_.contains(tag); })) expect(false, "a copy out did not come");
    std::vector<std::uint32_t> out(copied_[tag].size() / 4);
    if (!out.empty()) std::memcpy(out.data(), copied_[tag].data(), out.size() * 4);
    return out;
  }
  static Staging staging(const std::vector<std::uint32_t>& words) {
    const auto bytes = std::as_bytes(std::span(words));
    return std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  }
  LaunchWork adding(std::uint64_t to, std::uint32_t count, std::uint32_t more) const {
    LaunchWork work{.kernel = add_.id, .block = {count, 1, 1}};
    work.parameters.resize(16);
    std::memcpy(work.parameters.data(), &to, 8);
    std::memcpy(work.parameters.data() + 8, &count, 4);
    std::memcpy(work.parameters.data() + 12, &more, 4);
    return work;
  }
  std::uint32_t first(Id stream) {
    const auto out = words(stream, at_, 1);
    return out.empty() ? ~0u : out[0];
  }
  void zero() {
    enqueue(kDefaultStream, SetWork{at_, 0, 4, kWords, 1, 0});
    expect(settle(kDefaultStream), "setting did not end");
  }

  bool begin() {
    const DeviceSnapshot& device = backend_.device();
    expect(device.granule > 0 && kBytes % 256 == 0, "a granule of 0");
    expect(device.arena % device.granule == 0, "the arena begins between granules");
    expect(device.uuid.size() == 16, "a uuid of 16 bytes");
    bytes_ = std::max(kBytes, device.granule);
    expect(backend_.allocate(at_, bytes_).has_value(), "memory was refused");
    const Id module = must(backend_.create(ModuleSpec{module_.image}), "the module");
    if (!wrong_.empty()) return false;
    add_ = must(backend_.find_kernel(module, module_.add), "the kernel add");
    crash_ = must(backend_.find_kernel(module, module_.crash), "the kernel crash");
    module_id_ = module;
    return wrong_.empty();
  }

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

  // ---- textures: 16 x 8 texels of 4 bytes ----

  static constexpr std::uint32_t kWide = 16, kHigh = 8, kTexels = kWide * kHigh;

  LaunchWork over_texels(Id kernel, std::uint64_t texture, std::uint32_t more) const {
    LaunchWork work{.kernel = kernel, .grid = {kHigh, 1, 1}, .block = {kWide, 1, 1}};
    const std::uint64_t to = at_ + kTexels * 4;
    work.parameters.resize(20);
    std::memcpy(work.parameters.data(), &texture, 8);
    std::memcpy(work.parameters.data() + 8, &to, 8);
    std::memcpy(work.parameters.data() + 16, &more, 4);
    return work;
  }
  // What kernels see of it; the texels lie at at_, and behind them what they see.
  std::vector<std::uint32_t> seen(std::uint64_t texture) {
    enqueue(kDefaultStream, SetWork{at_ + kTexels * 4, 0, 4, kTexels, 1, 0});
    enqueue(kDefaultStream, over_texels(fetch_.id, texture, kWide));
    return words(kDefaultStream, at_ + kTexels * 4, kTexels);
  }
  static std::vector<std::uint32_t> painted(std::uint32_t more) {
    std::vector<std::uint32_t> all(kTexels);
    for (std::uint32_t i = 0; i < kTexels; ++i) all[i] = i + more;
    return all;
  }

  void textures() {
    if (module_.textures.empty()) return;
    const Id module = must(backend_.create(ModuleSpec{module_.textures}), "the module of textures");
    fetch_ = must(backend_.find_kernel(module, "fetch"), "the kernel fetch");
    paint_ = must(backend_.find_kernel(module, "paint"), "the kernel paint");
    std::vector<std::uint32_t> texels(kTexels);
    for (std::uint32_t i = 0; i < kTexels; ++i) texels[i] = std::bit_cast<std::uint32_t>(static_cast<float>(i) * 0.5F);
    enqueue(kDefaultStream, CopyInWork{at_, staging(texels)});
    if (backend_.textures() != nullptr)
      kept_textures(*backend_.textures(), texels);
    else
      described_textures(texels);
    expect(settle(kDefaultStream), "work on textures did not end");
    backend_.destroy(ObjectKind::module, module);
  }

  void kept_textures(DeviceTextures& device, const std::vector<std::uint32_t>& texels) {
    constexpr std::uint32_t kForSurfaces = 2;
    const Id array = must(device.create_array({.width = kWide,
                                               .height = kHigh,
                                               .kind = kFloatTexel,
                                               .channel_bytes = 4,
                                               .flags = kForSurfaces}),
                          "an array");
    const auto copy = [&](ArrayCopy what) {
      what.memory = {at_};
      const Answered<void> done = device.copy(kDefaultStream, array, what);
      expect(done.has_value(), "a copy of an array: " + (done ? "" : done.error().reason));
    };
    const ArrayCopy all{.pitch = kWide * 4, .slice_rows = kHigh, .width = kWide * 4, .rows = kHigh};
    ArrayCopy back = all;
    back.out = 1;
    TextureCreate what{.beyond_x = 1, .beyond_y = 1, .beyond_z = 1};
    const std::uint64_t texture = must(device.create(what, array), "a texture");
    what.flags = kSurface;
    const std::uint64_t surface = must(device.create(what, array), "a surface");
    copy(all);
    expect(seen(texture) == texels, "a texture of an array shows something else");
    enqueue(kDefaultStream, SetWork{at_, 0, 4, kTexels, 1, 0});
    // Two rows of four texels from (4, 1), to rows of eight.
    copy({.x = 16, .y = 1, .pitch = 32, .slice_rows = 2, .width = 16, .rows = 2, .out = 1});
    const auto part = words(kDefaultStream, at_, 12);
    for (std::uint32_t i = 0; i < 4 && part.size() == 12; ++i)
      expect(part[i] == texels[kWide + 4 + i] && part[4 + i] == 0 &&
                 part[8 + i] == texels[2 * kWide + 4 + i],
             "a part of an array is wrong");
    enqueue(kDefaultStream, over_texels(paint_.id, surface, 7));
    copy(back);
    expect(words(kDefaultStream, at_, kTexels) == painted(7), "a surface was written wrong");
    const std::uint64_t plain =
        must(device.create({.memory = {at_},
                            .width = kWide,
                            .rows = kHigh,
                            .pitch = kWide * 4,
                            .kind = kFloatTexel,
                            .channel_bytes = 4},
                           0),
             "a texture of memory");
    expect(seen(plain) == painted(7), "a texture of memory shows something else");
    for (const std::uint64_t one : {texture, surface, plain}) device.destroy(one);
    device.destroy_array(array);
  }

  // As the client describes them.
  void described_textures(const std::vector<std::uint32_t>& texels) {
    const std::uint64_t object = at_ + bytes_;
    expect(backend_.allocate(object, bytes_).has_value(), "memory for a texture was refused");
    const ptx::Texture texture{.begin = at_,
                               .row_pitch = kWide * 4,
                               .width = kWide,
                               .height = kHigh,
                               .kind = ptx::TexelKind::floating,
                               .channel_bytes = 4};
    const auto bytes = std::as_bytes(std::span(&texture, 1));
    enqueue(kDefaultStream,
            CopyInWork{object, std::make_shared<const std::vector<std::byte>>(bytes.begin(),
                                                                              bytes.end())});
    expect(seen(object) == texels, "a texture shows something else");
    enqueue(kDefaultStream, over_texels(paint_.id, object, 7));
    expect(words(kDefaultStream, at_, kTexels) == painted(7), "a surface was written wrong");
    backend_.release(object);
  }

  // ---- conditions: what a set of the device's is, or words behind those that are added to ----

  struct Decisions {
    Id set = 0;
    std::vector<std::uint64_t> all = {};
  };
  // The third and fourth are 1 whenever the graph begins.
  Decisions decisions() {
    Decisions made;
    DeviceConditions* const device = backend_.conditions();
    if (device != nullptr) made.set = must(device->create_set(), "a set of conditions");
    for (std::uint32_t i = 0; i < 4; ++i)
      made.all.push_back(device == nullptr ? at_ + 512 + i * 4
                                           : must(device->add(made.set, 1, i >= 2), "a condition"));
    return made;
  }
  LaunchWork deciding(Id kernel, std::uint64_t condition, std::uint32_t value) const {
    LaunchWork work{.kernel = kernel};
    work.parameters.resize(12);
    std::memcpy(work.parameters.data(), &condition, 8);
    std::memcpy(work.parameters.data() + 8, &value, 4);
    return work;
  }
  BranchWork branch(BranchKind kind, std::uint64_t condition,
                    std::initializer_list<std::uint32_t> adds) {
    BranchWork work{.kind = kind, .condition = condition};
    work.by_word = backend_.conditions() == nullptr;
    for (const std::uint32_t more : adds) {
      auto body = std::make_shared<GraphSpec>();
      body->nodes.push_back({adding(at_, 1, more), false, {}});
      work.bodies.push_back(std::move(body));
    }
    return work;
  }

  void conditions() {
    if (module_.conditions.empty()) return;
    const Id module = must(backend_.create(ModuleSpec{module_.conditions}), "a module");
    const Id decide = must(backend_.find_kernel(module, "decide"), "the kernel decide").id;
    for (const std::uint32_t value : {0u, 1u, 2u, 5u}) {
      const Decisions by = decisions();
      // A loop of one round: it adds, ends itself, and has a branch inside.
      BranchWork loop = branch(kWhile, by.all[2], {1000});
      auto body = std::make_shared<GraphSpec>(*loop.bodies[0]);
      body->nodes.push_back({deciding(decide, by.all[2], 0), false, {0}});
      body->nodes.push_back({branch(kIf, by.all[3], {5000}), false, {1}});
      loop.bodies[0] = body;
      GraphSpec spec{.conditions = by.set};
      spec.nodes.push_back({deciding(decide, by.all[0], value), false, {}});
      spec.nodes.push_back({deciding(decide, by.all[1], value), false, {0}});
      spec.nodes.push_back({branch(kIf, by.all[0], {10, 20}), false, {1}});
      spec.nodes.push_back({branch(kSwitch, by.all[1], {100, 200, 300}), false, {2}});
      spec.nodes.push_back({std::move(loop), false, {3}});
      const Id graph = must(backend_.create(spec), "a graph with branches");
      if (!wrong_.empty()) return;
      for (int round = 0; round < 2; ++round) {
        zero();
        if (by.set == 0) enqueue(kDefaultStream, SetWork{at_ + 512, 1, 4, 4, 1, 0});
        enqueue(kDefaultStream, GraphWork{graph});
        const std::uint32_t want =
            (value != 0 ? 10 : 20) + (value < 3 ? 100 * (value + 1) : 0) + 1000 + 5000;
        const std::uint32_t sum = first(kDefaultStream);
        expect(sum == want, fmt::format("branches by {} left {}, not {}", value, sum, want));
      }
      if (by.set != 0) backend_.conditions()->destroy_set(by.set);
      backend_.destroy(ObjectKind::graph, graph);
    }
    backend_.destroy(ObjectKind::module, module);
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

  DeviceBackend& backend_;
  const ConformanceModule& module_;
  const std::uint64_t at_;
  std::uint64_t bytes_ = 0, tag_ = 1000;
  Id module_id_ = 0;
  KernelFacts add_ = {}, crash_ = {}, fetch_ = {}, paint_ = {};
  std::set<std::uint64_t> reached_;
  std::map<std::uint64_t, std::vector<std::byte>> copied_;
  std::vector<Completed> held_;
  std::vector<Status> faults_;
  std::vector<std::string> wrong_;
};

}  // namespace

std::vector<std::string> check_backend(DeviceBackend& backend, const ConformanceModule& module) {
  return Suite(backend, module).run();
}

}  // namespace partita::remote::server
