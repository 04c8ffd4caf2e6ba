// Branches of graphs, and captures into graphs that are there: on a FakeBackend, whose kernel "add"
// adds a number to each of so many words. Oracle: the values that plain control flow leaves.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "server/graphs.h"
#include "server/testing/session_fixture.h"

namespace partita::remote::server {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kSum = kFakeArena, kWord = kFakeArena + 256;

class Branches : public SessionTest {
 protected:
  void SetUp() override {
    start();
    load();
    client->send(Alloc{{kSum}, 256}), client->send(Alloc{{kWord}, 256});
    client->send(StreamCreate{{1}});
    client->send(GraphCreate{{1}});
  }
  static std::vector<std::byte> numbers(std::initializer_list<std::uint64_t> handles) {
    const std::vector<std::uint64_t> all(handles);
    const auto bytes = std::as_bytes(std::span(all));
    return {bytes.begin(), bytes.end()};
  }
  // A node that adds `more` to the word at `to`.
  void add(std::uint64_t graph, std::uint64_t node, std::uint64_t to, std::uint32_t more,
           const std::vector<std::byte>& after = {}) {
    const auto block = arguments(to, 1, more);
    client->send(
        GraphAdd{{graph}, {node}, after, frame_of(Launch{.kernel = {1}, .parameters = block})});
  }
  void branch(std::uint64_t graph, std::uint64_t node, std::uint32_t kind,
              std::initializer_list<std::uint64_t> bodies, std::uint64_t condition = kWord) {
    client->send(GraphBranch{{graph}, {node}, {}, kind, {condition}, numbers(bodies)});
  }
  void bodies(std::initializer_list<std::uint64_t> handles) {
    for (const std::uint64_t handle : handles) client->send(GraphCreate{{handle}});
  }
  std::uint32_t word(std::uint64_t at) {
    return words(client->ask(CopyOut{{1}, {at}, 4}).bulk).at(0);
  }
  // The sum that a launch leaves where it began with 0, and the word was `value`.
  std::uint32_t launched(std::uint64_t exec, std::uint32_t value) {
    client->send(Set{.stream = {1}, .to = {kSum}, .value = 0, .element = 4, .count = 1});
    client->send(Set{.stream = {1}, .to = {kWord}, .value = value, .element = 4, .count = 1});
    client->send(GraphLaunch{{exec}, {1}});
    return word(kSum);
  }
  void make(std::uint64_t exec) {
    const auto made = client->ask(GraphInstantiate{{1}, {exec}});
    EXPECT_EQ(made.outcome.status, 0) << client->said;
  }
  void refused(std::string_view why) {
    client->said.clear();
    EXPECT_NE(fence(), -1);
    EXPECT_THAT(client->said, HasSubstr(why));
  }
};

TEST_F(Branches, RunTheBodyThatTheWordSays) {
  bodies({2, 3, 4, 5, 6});
  branch(1, 11, kIf, {2, 3});
  branch(1, 12, kSwitch, {4, 5, 6});
  const std::uint32_t adds[] = {1, 2, 10, 20, 40};
  for (std::uint64_t body = 2; body <= 6; ++body) add(body, body, kSum, adds[body - 2]);
  make(1);
  EXPECT_EQ(launched(1, 0), 2u + 10u);
  EXPECT_EQ(launched(1, 1), 1u + 20u);
  EXPECT_EQ(launched(1, 2), 1u + 40u);
  EXPECT_EQ(launched(1, 3), 1u) << "no body has this number";
  client->send(GraphDestroy{{1}});
  EXPECT_EQ(launched(1, 1), 21u) << "what was made of it lives on";
  EXPECT_EQ(fence(), 0) << client->said;
}

// The loop takes 1 from its word each time; inside it is a branch of the same word.
TEST_F(Branches, LoopUntilTheWordIsZero) {
  bodies({2});
  branch(1, 11, kWhile, {2});
  add(1, 12, kSum, 1000, numbers({11}));
  add(2, 21, kSum, 1);
  add(2, 22, kWord, ~std::uint32_t{0}, numbers({21}));
  bodies({3});
  client->send(GraphBranch{{2}, {23}, numbers({22}), kIf, {kWord}, numbers({3})});
  add(3, 31, kSum, 100);
  make(1);
  for (const std::uint32_t rounds : {0u, 1u, 2u, 7u})
    EXPECT_EQ(launched(1, rounds), 1000 + rounds + (rounds == 0 ? 0 : 100 * (rounds - 1)));
  EXPECT_EQ(fence(), 0) << client->said;
}

TEST_F(Branches, AChildRunsOnceWhateverTheWordIs) {
  bodies({2});
  add(2, 21, kSum, 3);
  client->send(GraphClone{{2}, {3}});
  branch(1, 11, kOnce, {3}, 0);
  add(2, 22, kSum, 50);  // the copy is as it was
  make(1);
  EXPECT_EQ(launched(1, 9), 3u);
  EXPECT_EQ(client->ask(GraphUpdate{{1}, {1}}).outcome, Outcome{}) << client->said;
  add(3, 31, kSum, 4);
  EXPECT_EQ(client->ask(GraphUpdate{{1}, {1}}).outcome.status, kUpdateFailure);
}

TEST_F(Branches, RefuseWhatCannotBe) {
  bodies({2, 3, 4});
  branch(1, 11, 4, {2}), refused("graph_branch: a branch of kind 4 with 1 bodies");
  branch(1, 11, kIf, {}), refused("a branch of kind 1 with 0 bodies");
  branch(1, 11, kWhile, {2, 3}), refused("a branch of kind 2 with 2 bodies");
  branch(1, 11, kIf, {2, 2}), refused("graph 2 is in use elsewhere");
  branch(1, 11, kIf, {1}), refused("graph 1 is in use elsewhere");
  branch(1, 11, kIf, {9}), refused("there is no graph 9");
  branch(9, 11, kIf, {2}), refused("there is no graph 9");
  branch(1, 11, kIf, {2}, kWord + 2), refused("no allocation holds them");
  branch(1, 11, kIf, {2}, kFakeArena + 4096), refused("no allocation holds them");
  client->send(GraphBranch{{1}, {11}, {}, kIf, {kWord}, Bytes(numbers({2})).first(5)});
  refused("half a graph's number");
  branch(1, 11, kIf, {2});
  branch(3, 31, kIf, {2}), refused("graph 2 is in use elsewhere");
  branch(2, 21, kIf, {1}), refused("graph 1 is in use elsewhere");
  branch(3, 31, kIf, {1}), refused("graph 1 has branches already");
  client->send(GraphDestroy{{2}}), refused("graph 2 is a body");
  client->send(GraphClone{{1}, {8}}), refused("a copy of graph 1, which has branches");
  std::uint64_t inside = 2;
  for (std::uint64_t deep = 100; deep < 114; inside = deep++)
    bodies({deep}), branch(inside, deep, kIf, {deep});
  client->said.clear();
  fence();
  EXPECT_EQ(client->said, "");
  bodies({114, 115}), branch(113, 114, kIf, {114}), branch(114, 115, kIf, {115});
  refused("branches 16 deep");
  make(1);
  client->send(Free{{kWord}});
  client->send(GraphLaunch{{1}, {1}}), refused("graph_launch: a node uses 4 bytes at");
}

TEST_F(Branches, CapturesIntoGraphsThatAreThere) {
  add(1, 11, kSum, 1);
  const auto one = arguments(kSum, 1, 10);
  client->send(CaptureBegin{{1}, 0, {1}, numbers({11}), {50}});
  client->send(Launch{.stream = {1}, .kernel = {1}, .parameters = one});
  auto before = client->ask(CaptureNodes{{1}});
  EXPECT_EQ(before.outcome, Outcome{}) << client->said;
  EXPECT_EQ(std::vector<std::byte>(before.reply.after.begin(), before.reply.after.end()),
            numbers({50}));
  bodies({2}), add(2, 21, kSum, 100);
  client->send(GraphBranch{{1}, {12}, numbers({50}), kIf, {kWord}, numbers({2})});
  client->send(CaptureAfter{{1}, numbers({12}), 0});
  client->send(GraphDestroy{{1}}), refused("graph 1 is being captured");
  client->send(CaptureAfter{{1}, numbers({99}), 1}), refused("there is no node 99 to come after");
  client->send(Launch{.stream = {1}, .kernel = {1}, .parameters = one});
  const auto end = client->ask(CaptureEnd{{1}, {1}});
  EXPECT_EQ(end.outcome.status, 0) << client->said;
  EXPECT_EQ(end.reply.nodes, 2u) << "of the capture";
  const auto& spec = [this] {
    make(1);
    return seat().device->graphs().begin()->second;
  }();
  ASSERT_EQ(spec.nodes.size(), 4u);
  EXPECT_EQ(spec.nodes[1].after, std::vector<Id>{0});
  EXPECT_EQ(spec.nodes[2].after, std::vector<Id>{1});
  EXPECT_EQ(spec.nodes[3].after, std::vector<Id>{2});
  EXPECT_EQ(launched(1, 0), 21u);
  EXPECT_EQ(launched(1, 1), 121u);
}

TEST_F(Branches, CapturesThatFailLeaveNothingNew) {
  EXPECT_NE(client->ask(CaptureNodes{{1}}).outcome.status, 0) << "no capture";
  client->send(CaptureBegin{{1}, 0, {7}, numbers({1}), {50}});
  refused("there is no node 1 to come after");
  client->send(CaptureBegin{{1}, 0, {7}, {}, {50}});
  EXPECT_NE(client->ask(StreamSync{{1}}).outcome.status, 0);
  EXPECT_EQ(client->ask(CaptureEnd{{1}, {7}}).outcome.status, kCaptureInvalidated);
  EXPECT_EQ(client->ask(GraphInstantiate{{7}, {9}}).outcome.status, kInvalidHandle);
  client->send(CaptureBegin{{1}, 0, {1}, {}, {50}});
  EXPECT_EQ(client->ask(CaptureEnd{{1}, {7}}).outcome.status, kInvalidValue) << "into graph 1";
  make(9);
  // A number of a node that is taken.
  add(1, 11, kSum, 1);
  client->send(CaptureBegin{{1}, 0, {1}, {}, {11}});
  client->send(Launch{.stream = {1}, .kernel = {1}, .parameters = arguments(kSum, 1, 1)});
  EXPECT_EQ(client->ask(CaptureEnd{{1}, {1}}).outcome.status, kCaptureInvalidated);
}

}  // namespace
}  // namespace partita::remote::server
