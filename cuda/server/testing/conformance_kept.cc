// Of the suite of back ends: textures and conditions.
#include "ptx/texture.h"
#include "server/testing/conformance_bench.h"

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

class TexturesPart {
 public:
  explicit TexturesPart(ConformanceBench& bench) : bench_(bench) {}
  // ---- textures: 16 x 8 texels of 4 bytes ----

  static constexpr std::uint32_t kWide = 16, kHigh = 8, kTexels = kWide * kHigh;

  LaunchWork over_texels(Id kernel, std::uint64_t texture, std::uint32_t more) const {
    LaunchWork work{.kernel = kernel, .grid = {kHigh, 1, 1}, .block = {kWide, 1, 1}};
    const std::uint64_t to = bench_.at_ + kTexels * 4;
    work.parameters.resize(20);
    std::memcpy(work.parameters.data(), &texture, 8);
    std::memcpy(work.parameters.data() + 8, &to, 8);
    std::memcpy(work.parameters.data() + 16, &more, 4);
    return work;
  }
  // What kernels see of it; the texels lie at bench_.at_, and behind them what they see.
  std::vector<std::uint32_t> seen(std::uint64_t texture) {
    bench_.enqueue(kDefaultStream, SetWork{bench_.at_ + kTexels * 4, 0, 4, kTexels, 1, 0});
    bench_.enqueue(kDefaultStream, over_texels(fetch_.id, texture, kWide));
    return bench_.words(kDefaultStream, bench_.at_ + kTexels * 4, kTexels);
  }
  static std::vector<std::uint32_t> painted(std::uint32_t more) {
    std::vector<std::uint32_t> all(kTexels);
    for (std::uint32_t i = 0; i < kTexels; ++i) all[i] = i + more;
    return all;
  }

  void run() {
    if (bench_.module_.textures.empty()) return;
    const Id module = bench_.must(bench_.backend_.create(ModuleSpec{bench_.module_.textures}),
                                  "the module of textures");
    fetch_ = bench_.must(bench_.backend_.find_kernel(module, "fetch"), "the kernel fetch");
    paint_ = bench_.must(bench_.backend_.find_kernel(module, "paint"), "the kernel paint");
    std::vector<std::uint32_t> texels(kTexels);
    for (std::uint32_t i = 0; i < kTexels; ++i)
      texels[i] = std::bit_cast<std::uint32_t>(static_cast<float>(i) * 0.5F);
    bench_.enqueue(kDefaultStream, CopyInWork{bench_.at_, bench_.staging(texels)});
    if (bench_.backend_.textures() != nullptr)
      kept_textures(*bench_.backend_.textures(), texels);
    else
      described_textures(texels);
    bench_.expect(bench_.settle(kDefaultStream), "work on textures did not end");
    bench_.backend_.destroy(ObjectKind::module, module);
  }

  void kept_textures(DeviceTextures& device, const std::vector<std::uint32_t>& texels) {
    constexpr std::uint32_t kForSurfaces = 2;
    const Id array = bench_.must(device.create_array({.width = kWide,
                                                      .height = kHigh,
                                                      .kind = kFloatTexel,
                                                      .channel_bytes = 4,
                                                      .flags = kForSurfaces}),
                                 "an array");
    const auto copy = [&](ArrayCopy what) {
      what.memory = {bench_.at_};
      const Answered<void> done = device.copy(kDefaultStream, array, what);
      bench_.expect(done.has_value(), "a copy of an array: " + (done ? "" : done.error().reason));
    };
    const ArrayCopy all{.pitch = kWide * 4, .slice_rows = kHigh, .width = kWide * 4, .rows = kHigh};
    ArrayCopy back = all;
    back.out = 1;
    TextureCreate what{.beyond_x = 1, .beyond_y = 1, .beyond_z = 1};
    const std::uint64_t texture = bench_.must(device.create(what, array), "a texture");
    what.flags = kSurface;
    const std::uint64_t surface = bench_.must(device.create(what, array), "a surface");
    copy(all);
    bench_.expect(seen(texture) == texels, "a texture of an array shows something else");
    bench_.enqueue(kDefaultStream, SetWork{bench_.at_, 0, 4, kTexels, 1, 0});
    // Two rows of four texels from (4, 1), to rows of eight.
    copy({.x = 16, .y = 1, .pitch = 32, .slice_rows = 2, .width = 16, .rows = 2, .out = 1});
    const auto part = bench_.words(kDefaultStream, bench_.at_, 12);
    for (std::uint32_t i = 0; i < 4 && part.size() == 12; ++i)
      bench_.expect(part[i] == texels[kWide + 4 + i] && part[4 + i] == 0 &&
                        part[8 + i] == texels[2 * kWide + 4 + i],
                    "a part of an array is wrong");
    bench_.enqueue(kDefaultStream, over_texels(paint_.id, surface, 7));
    copy(back);
    bench_.expect(bench_.words(kDefaultStream, bench_.at_, kTexels) == painted(7),
                  "a surface was written wrong");
    const std::uint64_t plain = bench_.must(device.create({.memory = {bench_.at_},
                                                           .width = kWide,
                                                           .rows = kHigh,
                                                           .pitch = kWide * 4,
                                                           .kind = kFloatTexel,
                                                           .channel_bytes = 4},
                                                          0),
                                            "a texture of memory");
    bench_.expect(seen(plain) == painted(7), "a texture of memory shows something else");
    for (const std::uint64_t one : {texture, surface, plain}) device.destroy(one);
    device.destroy_array(array);
  }

  // As the client describes them.
  void described_textures(const std::vector<std::uint32_t>& texels) {
    const std::uint64_t object = bench_.at_ + bench_.bytes_;
    bench_.expect(bench_.backend_.allocate(object, bench_.bytes_).has_value(),
                  "memory for a texture was refused");
    const ptx::Texture texture{.begin = bench_.at_,
                               .row_pitch = kWide * 4,
                               .width = kWide,
                               .height = kHigh,
                               .kind = ptx::TexelKind::floating,
                               .channel_bytes = 4};
    const auto bytes = std::as_bytes(std::span(&texture, 1));
    bench_.enqueue(kDefaultStream,
                   CopyInWork{object, std::make_shared<const std::vector<std::byte>>(bytes.begin(),
                                                                                     bytes.end())});
    bench_.expect(seen(object) == texels, "a texture shows something else");
    bench_.enqueue(kDefaultStream, over_texels(paint_.id, object, 7));
    bench_.expect(bench_.words(kDefaultStream, bench_.at_, kTexels) == painted(7),
                  "a surface was written wrong");
    bench_.backend_.release(object);
  }

 private:
  ConformanceBench& bench_;
  KernelFacts fetch_ = {}, paint_ = {};
};

class ConditionsPart {
 public:
  explicit ConditionsPart(ConformanceBench& bench) : bench_(bench) {}
  // ---- conditions: what a set of the device's is, or words behind those that are added to ----

  struct Decisions {
    Id set = 0;
    std::vector<std::uint64_t> all = {};
  };
  // The third and fourth are 1 whenever the graph begins.
  Decisions decisions() {
    Decisions made;
    DeviceConditions* const device = bench_.backend_.conditions();
    if (device != nullptr) made.set = bench_.must(device->create_set(), "a set of conditions");
    for (std::uint32_t i = 0; i < 4; ++i)
      made.all.push_back(device == nullptr
                             ? bench_.at_ + 512 + i * 4
                             : bench_.must(device->add(made.set, 1, i >= 2), "a condition"));
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
    work.by_word = bench_.backend_.conditions() == nullptr;
    for (const std::uint32_t more : adds) {
      auto body = std::make_shared<GraphSpec>();
      body->nodes.push_back({bench_.adding(bench_.at_, 1, more), false, {}});
      work.bodies.push_back(std::move(body));
    }
    return work;
  }

  void run() {
    if (bench_.module_.conditions.empty()) return;
    const Id module =
        bench_.must(bench_.backend_.create(ModuleSpec{bench_.module_.conditions}), "a module");
    const Id decide =
        bench_.must(bench_.backend_.find_kernel(module, "decide"), "the kernel decide").id;
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
      const Id graph = bench_.must(bench_.backend_.create(spec), "a graph with branches");
      if (!bench_.wrong_.empty()) return;
      for (int round = 0; round < 2; ++round) {
        bench_.zero();
        if (by.set == 0) bench_.enqueue(kDefaultStream, SetWork{bench_.at_ + 512, 1, 4, 4, 1, 0});
        bench_.enqueue(kDefaultStream, GraphWork{graph});
        const std::uint32_t want =
            (value != 0 ? 10 : 20) + (value < 3 ? 100 * (value + 1) : 0) + 1000 + 5000;
        const std::uint32_t sum = bench_.first(kDefaultStream);
        bench_.expect(sum == want, fmt::format("branches by {} left {}, not {}", value, sum, want));
      }
      if (by.set != 0) bench_.backend_.conditions()->destroy_set(by.set);
      bench_.backend_.destroy(ObjectKind::graph, graph);
    }
    bench_.backend_.destroy(ObjectKind::module, module);
  }

 private:
  ConformanceBench& bench_;
};

}  // namespace

void check_textures(ConformanceBench& bench) { TexturesPart(bench).run(); }
void check_conditions(ConformanceBench& bench) { ConditionsPart(bench).run(); }

}  // namespace partita::remote::server
