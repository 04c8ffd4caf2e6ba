// Arrays, textures and conditions that a device keeps, through a session on a FakeBackend. Oracle:
// plain loops, and refusals for all that lies outside.
#include "server/textures.h"

#include <gmock/gmock.h>

#include "server/testing/session_fixture.h"

namespace partita::remote::server {
namespace {

using ::testing::HasSubstr;

class KeptByTheDevice : public SessionTest {
 protected:
  void SetUp() override {
    start({}, {.memory = 1 << 20, .textures = 3});
    client->send(Alloc{{kFakeArena}, 4096});
  }
  Status made(ArrayCreate what) { return client->ask(what).outcome.status; }
  // An array of 8 x 4 x 2 words.
  static ArrayCreate cuboid(std::uint64_t handle) {
    return {.array = {handle},
            .width = 8,
            .height = 4,
            .depth = 2,
            .kind = kUnsignedTexel,
            .channel_bytes = 4};
  }
  static ArrayCopy whole(bool out) {
    return {.array = {1},
            .memory = {kFakeArena},
            .pitch = 32,
            .slice_rows = 4,
            .width = 32,
            .rows = 4,
            .slices = 2,
            .out = out ? 1u : 0u};
  }
  template <class Op>
  void refused(const Op& op, std::string_view why) {
    client->said.clear();
    client->send(op);
    EXPECT_NE(fence(), 0);
    EXPECT_THAT(client->said, HasSubstr(why));
  }
  std::vector<std::uint32_t> memory(std::uint64_t count) {
    return words(client->ask(CopyOut{{}, {kFakeArena}, count * 4}).bulk);
  }
};

TEST_F(KeptByTheDevice, ArraysTakeAndGiveWhatIsInside) {
  ASSERT_EQ(made(cuboid(1)), 0) << client->said;
  std::vector<std::uint32_t> texels(64);
  for (std::uint32_t i = 0; i < 64; ++i) texels[i] = i * 3 + 1;
  client->send(CopyIn{{}, {kFakeArena}}, std::as_bytes(std::span(texels)));
  client->send(whole(false));
  client->send(Set{.to = {kFakeArena}, .value = 0, .element = 4, .count = 64});
  // Two words of three rows from (3, 1, 0) and (3, 1, 1), to rows of four words, five to a slice.
  client->send(ArrayCopy{.array = {1},
                         .x = 12,
                         .y = 1,
                         .memory = {kFakeArena},
                         .pitch = 16,
                         .slice_rows = 5,
                         .width = 8,
                         .rows = 3,
                         .slices = 2,
                         .out = 1});
  const auto part = memory(40);
  for (std::uint32_t at = 0; at < 40; ++at) {
    const std::uint32_t column = at % 4, row = at / 4 % 5, slice = at / 20;
    const bool copied = column < 2 && row < 3;
    EXPECT_EQ(part.at(at), copied ? texels[slice * 32 + (row + 1) * 8 + 3 + column] : 0) << at;
  }
  EXPECT_EQ(fence(), 0) << client->said;
  client->send(ArrayDestroy{{1}});
  EXPECT_EQ(fence(), 0);
  EXPECT_EQ(seat().device->objects(), 1u) << "memory alone is left";
}

TEST_F(KeptByTheDevice, ArraysThatCannotBeAreRefused) {
  ASSERT_EQ(made(cuboid(1)), 0);
  EXPECT_EQ(made(cuboid(1)), kInvalidHandle);
  for (const auto& [width, height, kind, channels, bytes, flags] :
       std::vector<std::array<std::uint64_t, 6>>{{0, 1, 0, 1, 4, 0},
                                                 {1ull << 40, 1, 0, 1, 4, 0},
                                                 {8, 1, 3, 1, 4, 0},
                                                 {8, 1, 2, 1, 1, 0},
                                                 {8, 1, 0, 3, 4, 0},
                                                 {8, 1, 0, 1, 8, 0},
                                                 {8, 1, 0, 1, 4, 64}})
    EXPECT_EQ(made({.array = {2},
                    .width = width,
                    .height = height,
                    .kind = static_cast<std::uint32_t>(kind),
                    .channels = static_cast<std::uint32_t>(channels),
                    .channel_bytes = static_cast<std::uint32_t>(bytes),
                    .flags = static_cast<std::uint32_t>(flags)}),
              kInvalidValue);
  EXPECT_EQ(made({.array = {2}, .width = 1 << 20, .channel_bytes = 4}), kOutOfMemory);
  EXPECT_EQ(made({.array = {2}, .width = 1 << 30, .height = 1 << 30, .depth = 1 << 30}),
            kOutOfMemory);
}

TEST_F(KeptByTheDevice, CopiesBeyondAnEdgeAreRefused) {
  ASSERT_EQ(made(cuboid(1)), 0);
  const auto with = [](auto change) {
    ArrayCopy copy = whole(true);
    change(copy);
    return copy;
  };
  refused(with([](ArrayCopy& c) { c.x = 4; }), "of an array of 32, 4, 2");
  refused(with([](ArrayCopy& c) { c.y = ~0ull; }), "of an array of");
  refused(with([](ArrayCopy& c) { c.slices = 3; }), "of an array of");
  refused(with([](ArrayCopy& c) { c.pitch = 31; }), "no allocation holds them");
  refused(with([](ArrayCopy& c) { c.slice_rows = 3; }), "no allocation holds them");
  refused(with([](ArrayCopy& c) { c.slice_rows = ~0ull / 2; }), "no allocation holds them");
  refused(with([](ArrayCopy& c) { c.memory.value += 4096 - 255; }), "no allocation holds them");
  refused(with([](ArrayCopy& c) { c.array = {9}; }), "there is no array 9");
  refused(with([](ArrayCopy& c) { c.stream = {9}; }), "there is no stream 9");
  client->send(StreamCreate{{1}}), client->send(CaptureBegin{.stream = {1}});
  refused(with([](ArrayCopy& c) { c.stream = {1}; }), "captured in a graph");
}

TEST_F(KeptByTheDevice, TexturesAreOfArraysAndLiveMemory) {
  ASSERT_EQ(made(cuboid(1)), 0);
  const auto status = [this](TextureCreate what) { return client->ask(what).outcome.status; };
  const auto one = client->ask(TextureCreate{.array = {1}});
  EXPECT_EQ(one.outcome.status, 0);
  EXPECT_EQ(status({.array = {1}, .flags = kSurface}), 0);
  EXPECT_EQ(status({.memory = {kFakeArena}, .width = 1024, .channel_bytes = 4}), 0);
  EXPECT_EQ(status({.array = {1}}), kOutOfMemory) << "three are the limit";
  client->send(TextureDestroy{one.reply.texture});
  EXPECT_EQ(fence(), 0) << client->said;
  EXPECT_EQ(status({.memory = {kFakeArena}, .width = 1025, .channel_bytes = 4}), kInvalidValue);
  EXPECT_EQ(status({.memory = {kFakeArena}, .width = 8, .rows = 5, .pitch = 1024}), kInvalidValue);
  EXPECT_EQ(status({.memory = {kFakeArena}, .width = 8, .flags = kSurface}), kInvalidValue);
  EXPECT_EQ(status({.array = {2}}), kInvalidHandle);
  EXPECT_EQ(status({.array = {1}, .flags = 16}), kInvalidValue);
  EXPECT_EQ(status({.array = {1}, .beyond_z = 4}), kInvalidValue);
  client->send(TextureDestroy{one.reply.texture});
  EXPECT_EQ(fence(), kInvalidHandle) << "it is gone";
}

// A condition of the fake is what it began as for one look, then 0.
TEST_F(KeptByTheDevice, ConditionsBelongToOneGraph) {
  load();
  client->send(GraphCreate{{1}}), client->send(GraphCreate{{2}}), client->send(GraphCreate{{3}});
  const auto condition = client->ask(GraphCondition{{1}, 1, 1});
  ASSERT_EQ(condition.outcome.status, 0) << client->said;
  const std::uint64_t body[] = {3};
  const auto block = arguments(kFakeArena, 1, 5);
  const GraphBranch branch{.graph = {1},
                           .node = {11},
                           .kind = kWhile,
                           .condition = condition.reply.condition,
                           .bodies = std::as_bytes(std::span(body))};
  GraphBranch elsewhere = branch;
  elsewhere.graph = {2};
  refused(elsewhere, "graph_branch: a branch by 4 bytes");
  GraphBranch word = branch;
  word.condition = {kFakeArena};
  refused(word, "is none of graph 1's");
  refused(GraphClone{{1}, {4}}, "a copy of graph 1");
  client->said.clear();
  client->send(branch);
  client->send(GraphAdd{{3}, {31}, {}, frame_of(Launch{.kernel = {1}, .parameters = block})});
  client->send(Set{.to = {kFakeArena}, .value = 0, .element = 4, .count = 1});
  ASSERT_EQ(client->ask(GraphInstantiate{{1}, {1}}).outcome.status, 0) << client->said;
  client->send(GraphDestroy{{1}});
  client->send(GraphLaunch{{1}, {}});
  EXPECT_EQ(memory(1).at(0), 5u);
  client->send(GraphExecDestroy{{1}}), client->send(GraphDestroy{{2}});
  EXPECT_NE(fence(), -1);
  EXPECT_EQ(client->said, "");
  EXPECT_EQ(client->ask(GraphCondition{{1}, 1, 1}).outcome.status, kInvalidHandle);
}

}  // namespace
}  // namespace partita::remote::server
