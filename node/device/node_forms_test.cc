#include "device/node_forms.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "base/unicode.h"

namespace partita::device {
namespace {

Instance instance(const std::string& profile, int start, int gi_id) {
  const hw::GpuModel& model = *hw::builtin_catalogue().find("A100-80GB");
  const hw::MigProfile& known =
      model.profiles[static_cast<std::size_t>(model.profile_index(profile))];
  return {{profile, start},
          known.profile_id,
          known.gpcs,
          known.size,
          gi_id,
          {{0, known.gpcs, fmt::format("MIG-{}", gi_id)}},
          {}};
}

GpuState gpu(int index) {
  return {.index = index,
          .uuid = fmt::format("GPU-{}", index),
          .name = "NVIDIA A100-SXM4-80GB",
          .model = "A100-80GB",
          .pci_device_id = "0x20B210DE",
          .memory = Mib{81920},
          .mig_capable = true,
          .mig_enabled = true,
          .mig_pending = true,
          .lost = false,
          .instances = {},
          .holders = {}};
}

// One of everything that can be told about a node.
NodeState node() {
  NodeState state{.driver = "sim", .driver_version = "550.1", .gpus = {}};
  for (int i = 0; i < 4; ++i) state.gpus.push_back(gpu(i));
  GpuState& mixed = state.gpus[0];
  mixed.instances = {instance("3g.40gb", 0, 2), instance("2g.20gb", 4, 5),
                     instance("1g.10gb", 6, 9)};
  mixed.instances[0].holders = {{1234, "python"}, {1240, ""}};
  mixed.instances[2].compute.clear();
  mixed.mig_pending = false;
  state.gpus[1].mig_enabled = state.gpus[1].mig_pending = false;
  state.gpus[1].holders = {{77, "train"}};
  state.gpus[2].lost = true;
  state.gpus[3].model.clear();
  state.gpus[3].name = "NVIDIA Z1";
  return state;
}

const Occupants kOccupants{{"MIG-2", {"bert", 8, 2}}};

// ---- text ----

TEST(StateText, DrawsANode) {
  EXPECT_EQ("\n" + state_text(node(), kOccupants, hw::builtin_catalogue(), {}),
            R"GOLD(
sim 550.1: 4 GPUs, 3 instances, 1 busy (*)

A100-80GB ┌0─────────┬1─────────┬2─────────┬3─────────┬4─────────┬5─────────┬6─────────┬7─────────┐
GPU 0     │*bert b8×2 3g.40gb                         │2g.20gb              │1g.10gb   │··········│
GPU 1     MIG is off
GPU 2     lost
GPU 3     no instance

GPU  UUID   MIG               board                  other processes
0    GPU-0  on, off at reset  NVIDIA A100-SXM4-80GB  -
1    GPU-1  off               NVIDIA A100-SXM4-80GB  train (77)
2    GPU-2  lost              NVIDIA A100-SXM4-80GB  -
3    GPU-3  on                NVIDIA Z1              -

GPU  instance   gi  MIG device  service    processes
0    3g.40gb@0  2   MIG-2       bert b8×2  python (1234), 1240
0    2g.20gb@4  5   MIG-5       -          -
0    1g.10gb@6  9   -           -          -

! GPU 0: MIG goes off at the next reset of the GPU
! GPU 0: 1g.10gb@6 (gi 9) has no compute instance: its creation was cut short
! GPU 2: it fell off the bus; only a reboot helps
! GPU 3: the catalogue does not know this board (NVIDIA Z1, PCI device 0x20B210DE, 81920 MiB)
)GOLD");
}

TEST(StateText, CutsListsOfProcessesAtTheWidth) {
  NodeState state = node();
  for (int i = 0; i < 100; ++i) state.gpus[0].instances[0].holders.push_back({2000 + i, "w"});
  const std::string text =
      state_text(state, kOccupants, hw::builtin_catalogue(), {.colour = false, .width = 120});
  const std::size_t at = text.find("0    3g.40gb@0");
  EXPECT_EQ(columns(text.substr(at, text.find('\n', at) - at)), 120);
}

TEST(StateText, NoLineIsWiderThanTheTerminal) {
  const std::string uuid = "MIG-12345678-9abc-5def-8123-456789abcdef";
  NodeState state = node();
  for (GpuState& gpu : state.gpus) gpu.uuid = "GPU" + uuid.substr(3);
  for (int i = 0; i < 100; ++i) state.gpus[0].holders.push_back({2000 + i, "w"});
  state.gpus[0].instances[0].compute[0].uuid = uuid;
  state.gpus[3].name = std::string(200, 'n');
  const Occupants occupants{{uuid, {std::string(100, 's'), 8, 2}}};
  for (const int width : {80, 100, 200}) {
    const std::string text =
        state_text(state, occupants, hw::builtin_catalogue(), {.colour = false, .width = width});
    int widest = 0;
    for (std::size_t at = 0, end; (end = text.find('\n', at)) != text.npos; at = end + 1)
      widest = std::max(widest, columns(text.substr(at, end - at)));
    EXPECT_LE(widest, width) << text;
    EXPECT_GT(widest, width - 10) << "there is room:\n" << text;
    for (const std::string& part :
         {uuid, "GPU" + uuid.substr(3), std::string("python (1234), 1240")})
      EXPECT_NE(text.find(part), text.npos) << part << " at " << width;
  }
}

TEST(StateText, StopsAtTheLimitAndColoursOnlyWhenAsked) {
  NodeState state = node();
  while (state.gpus.size() < kMaxTextGpus + 6)
    state.gpus.push_back(gpu(static_cast<int>(state.gpus.size())));
  const std::string plain = state_text(state, kOccupants, hw::builtin_catalogue(), {});
  std::string coloured =
      state_text(state, kOccupants, hw::builtin_catalogue(), {.colour = true, .width = 100});
  EXPECT_NE(plain.find("... and 6 more GPUs\n"), plain.npos);
  EXPECT_EQ(plain.find("GPU 64 "), plain.npos);
  EXPECT_NE(coloured, plain);
  for (std::size_t at; (at = coloured.find('\x1b')) != coloured.npos;)
    coloured.erase(at, coloured.find('m', at) - at + 1);
  EXPECT_EQ(coloured, plain);
}

// ---- JSON ----

std::string document(const std::string& gpus) {
  return R"({"api_version": "partita/v1", "kind": "NodeState", "gpus": [)" + gpus + "]}";
}

StateDocument parsed(const std::string& text) {
  const auto state = parse_state("state.json", text);
  EXPECT_TRUE(state) << to_string(state.error());
  return state.value_or(StateDocument{});
}

TEST(StateText, SaysWhichServiceHasAWholeGpu) {
  const Occupants occupants{{"GPU-1", {"chat", 96, 1}}};
  EXPECT_THAT(state_text(node(), occupants, hw::builtin_catalogue(), {}),
              testing::HasSubstr("GPU 1     all of it: chat b96×1\n"));
  EXPECT_EQ(parsed(state_json(node(), occupants)).occupants, occupants);
}

TEST(StateText, SaysWhichGpusAreAGroup) {
  NodeState state = node();
  state.gpus.push_back(state.gpus.back());
  state.gpus.back().index = 4;
  state.gpus.back().uuid = "GPU-4";
  const Occupant runs{"chat", 64, 1, {"GPU-1", "GPU-4"}};
  const Occupants occupants{{"GPU-1", runs}, {"GPU-4", runs}};
  const std::string text = state_text(state, occupants, hw::builtin_catalogue(), {});
  EXPECT_THAT(text, testing::HasSubstr("GPU 1     all of it: chat b64×1, with GPU 4\n"));
  EXPECT_THAT(text, testing::HasSubstr("GPU 4     all of it: chat b64×1, with GPU 1\n"));
  EXPECT_EQ(parsed(state_json(state, occupants)).occupants, occupants);
}

TEST(StateJson, ReadsItselfBack) {
  const StateDocument again = parsed(state_json(node(), kOccupants));
  EXPECT_EQ(again.state, node());
  EXPECT_EQ(again.occupants, kOccupants);
}

TEST(StateJson, HoldsTheKeysOfTheContract) {
  const std::string json = state_json(node(), kOccupants);
  for (const char* line :
       {R"("kind": "NodeState")", R"({"index": 0, "uuid": "GPU-0",)", R"("model": "A100-80GB")",
        R"("mig_enabled": true)",
        R"({"profile": "3g.40gb", "start": 0, "size": 4, "gpcs": 3, "profile_id": 9, "gi_id": 2, )"
        R"("uuid": "MIG-2", "busy": true, )",
        R"("service": "bert", "batch": 8, "processes": 2})", R"("uuid": null, "busy": false)"})
    EXPECT_NE(json.find(line), json.npos) << line << " is not in\n" << json;
}

TEST(StateJson, FillsInWhatIsMissing) {
  const StateDocument read = parsed(document(
      R"({"index": 3, "model": "A100-80GB", "instances": [
          {"profile": "2g.20gb", "start": 4, "service": "bert", "busy": true},
          {"profile": "7g.79gb", "start": 0, "uuid": "MIG-x"}]})"));
  ASSERT_EQ(read.state.gpus.size(), 1U);
  const GpuState& gpu = read.state.gpus[0];
  EXPECT_TRUE(gpu.mig_enabled && gpu.mig_pending && gpu.mig_capable && !gpu.lost);
  EXPECT_EQ(gpu.memory, Mib{81920});
  ASSERT_EQ(gpu.instances.size(), 2U);  // by start
  EXPECT_EQ(gpu.instances[0].uuid(), "MIG-x");
  EXPECT_EQ(gpu.instances[0].size, 8);  // by an alias
  const Instance& second = gpu.instances[1];
  EXPECT_TRUE(second.whole());
  EXPECT_EQ(second.gpcs, 2);
  EXPECT_EQ(second.size, 2);
  EXPECT_EQ(second.profile_id, 14);
  EXPECT_EQ(second.holders, std::vector<Holder>{{}});
  ASSERT_EQ(read.occupants.size(), 1U);
  EXPECT_EQ(read.occupants.begin()->first, second.uuid());
  EXPECT_EQ(read.occupants.begin()->second, (Occupant{"bert", 0, 0}));
}

TEST(StateJson, MakesNamesOfDriversPrintable) {
  NodeState state = node();
  state.gpus[0].instances[0].holders[0].name = "a\nb\xff\x1b[31m";
  const auto again = parse_state("state.json", state_json(state));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(again->state.gpus[0].instances[0].holders[0].name, "a\uFFFDb\uFFFD\uFFFD[31m");
}

// Whoever was given a number has it; who was given none gets one that is free.
TEST(StateJson, NumbersInstancesWithoutOne) {
  const auto read = parse_state("s.json", document(R"({"index": 0, "model": "A30-24GB", "instances":
      [{"profile": "1g.6gb", "start": 1}, {"profile": "1g.6gb", "start": 0, "gi_id": 1},
       {"profile": "1g.6gb", "start": 3}, {"profile": "1g.6gb", "start": 2}]})"));
  ASSERT_TRUE(read) << to_string(read.error());
  std::vector<std::pair<int, int>> numbers;
  for (const Instance& one : read->state.gpus[0].instances)
    numbers.emplace_back(one.start, one.gi_id);
  EXPECT_EQ(numbers, (std::vector<std::pair<int, int>>{{0, 1}, {1, 0}, {2, 2}, {3, 3}}));
}

TEST(StateJson, RefusesWithTheLine) {
  const std::string gpu = "\n{\"index\": 0, \"model\": \"A30-24GB\", \"instances\": [";
  const std::string one = "{\"profile\": \"1g.6gb\", \"start\": 0, \"uuid\": \"MIG-a\"";
  const auto refusal = [](const std::string& text) {
    const auto state = parse_state("s.json", text);
    return state ? "accepted" : to_string(state.error());
  };
  EXPECT_EQ(refusal(document(gpu + one + "}]}")), "accepted");
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"{}", "s.json:1: "},
           {R"({"api_version": "partita/v1", "kind": "ServingPlan", "gpus": []})", "s.json:1: "},
           {document("\n{\"model\": \"A30-24GB\", \"instances\": []}"), "s.json:2: "},
           {document("\n{\"index\": 0, \"instances\": []}"), "s.json:2: 'model' is missing"},
           {document("\n{\"index\": 0, \"model\": \"A30-24GB\"}"), "s.json:2: "},
           {document(gpu + "{\"profile\": \"1g.6gb\"}]}"), "s.json:2: "},
           {document(gpu + "{\"profile\": \"9g.9gb\", \"start\": 0}]}"),
            "s.json:2: 'size' is missing, and the catalogue does not know the profile '9g.9gb'"},
           {document(gpu + one + "},\n" + one + ", \"gi_id\": 1}]}"), "'MIG-a' is listed twice"},
           {document(gpu + one +
                     ", \"gi_id\": 3},\n{\"profile\": \"1g.6gb\", \"start\": 1, "
                     "\"gi_id\": 3}]}"),
            "s.json:3: two instances of this GPU have the gi_id 3"},
           {document(gpu + one + ", \"start\": -1}]}"), "s.json:2: "},
           {document(gpu + one + ", \"compute\": [], \"service\": \"a\"}]}"),
            "s.json:2: a service is on an instance that has no compute instance with a uuid"},
           {document(gpu + "]}," + gpu + "]}"), "s.json:3: two GPUs have the index 0"}})
    EXPECT_NE(refusal(text).find(part), std::string::npos) << refusal(text) << "\nnot: " << part;
}

// ---- property ----

Instance any_instance(int start, int gi_id) {
  Instance instance{{*rc::gen::element<std::string>("1g.10gb", "weird profile", "日本"), start},
                    *rc::gen::inRange(0, 99),
                    *rc::gen::inRange(0, 9),
                    *rc::gen::inRange(1, 9),
                    gi_id,
                    {},
                    {}};
  for (int i = *rc::gen::inRange(0, 3); i > 0; --i)
    instance.compute.insert(
        instance.compute.begin(),
        {i, *rc::gen::inRange(0, 9), fmt::format("MIG-{}-{}-{}", gi_id, start, i)});
  if (*rc::gen::arbitrary<bool>())
    instance.holders = {{1, "a \"quoted\" \\ name"}, {4294967295, ""}};
  return instance;
}

RC_GTEST_PROP(StateJson, AnyStateIsReadBackAndDrawn, ()) {
  NodeState state{
      .driver = *rc::gen::element<std::string>("sim", ""), .driver_version = "1", .gpus = {}};
  Occupants occupants;
  int gi_id = 0;
  for (int i = 0, gpus = *rc::gen::inRange(0, 4); i < gpus; ++i) {
    GpuState one = gpu(2 * i);
    one.memory = Mib{*rc::gen::inRange(0, 1000000) / 8.0};
    one.model = *rc::gen::element<std::string>("A100-80GB", "no such model", "");
    one.mig_enabled = *rc::gen::arbitrary<bool>();
    one.lost = *rc::gen::arbitrary<bool>();
    for (int start = *rc::gen::inRange(0, 9); start < 9; start += *rc::gen::inRange(0, 9)) {
      one.instances.push_back(any_instance(start, ++gi_id));
      const std::string uuid = one.instances.back().uuid();
      if (!uuid.empty() && *rc::gen::arbitrary<bool>())
        occupants[uuid] = {fmt::format("service {}", start), start, 1};
      if (one.instances.size() > 20) break;
    }
    state.gpus.push_back(one);
  }
  const auto again = parse_state("state.json", state_json(state, occupants));
  RC_ASSERT(again.has_value());
  RC_ASSERT(again->state == state);
  RC_ASSERT(again->occupants == occupants);
  RC_ASSERT(!state_text(state, occupants, hw::builtin_catalogue(), {}).empty());
}

}  // namespace
}  // namespace partita::device
