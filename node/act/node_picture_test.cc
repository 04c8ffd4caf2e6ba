// What is drawn of a node and of a change: its boxes, rows and numbers.
#include "act/node_picture.h"

#include <gmock/gmock.h>

namespace partita::actuate {
namespace {

using testing::HasSubstr;
using testing::Not;

device::NodeState pictured_node() {
  device::NodeState state{.driver = "sim", .driver_version = "1.2", .gpus = {}};
  for (int g = 0; g < 2; ++g) {
    device::GpuState& gpu = state.gpus.emplace_back();
    gpu.index = g;
    gpu.uuid = "GPU-" + std::to_string(g);
    gpu.name = "NVIDIA A30";
    gpu.model = "A30-24GB";
    gpu.mig_capable = gpu.mig_enabled = gpu.mig_pending = true;
  }
  device::Instance& one = state.gpus[0].instances.emplace_back();
  one.profile = "2g.12gb";
  one.gpcs = one.size = 2;
  one.compute.push_back({0, 2, "MIG-0"});
  one.holders = {{41, "python"}};
  return state;
}

std::size_t boxes(const std::string& svg, const std::string& text) {
  std::size_t count = 0;
  for (auto at = svg.find(text); at != svg.npos; at = svg.find(text, at + 1)) ++count;
  return count;
}

TEST(NodePicture, ShowsWhatIsThere) {
  device::NodeState state = pictured_node();
  const std::string svg = node_svg(
      state, {{"MIG-0", {.service = "chat", .batch = 8, .processes = 2}}}, hw::builtin_catalogue());
  for (const char* text :
       {"2 GPUs of this node", "driver sim 1.2 · 1 instance, 1 busy (•)", ">chat<",
        "2g.12gb · b8×2", "2g.12gb at slice 0\nMIG-0\nprocess 41 python", "GPU 0", "GPU 1",
        "A30-24GB GPU-1, MIG on"})
    EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_THAT(node_svg(state, {{"MIG-0", {.service = "chat", .batch = 1, .processes = 1}}},
                       hw::builtin_catalogue()),
              HasSubstr("2g.12gb · b1×1"));
  state.gpus[0].instances[0].holders.clear();
  state.gpus[1].lost = true;
  state.gpus[0].mig_enabled = false;
  state.gpus[0].model = "";
  const std::string other = node_svg(state, {}, hw::builtin_catalogue());
  for (const char* text :
       {"1 instance, 0 busy", ">2g.12gb<", "NVIDIA A30 GPU-0, MIG off", "A30-24GB GPU-1, lost"})
    EXPECT_THAT(other, HasSubstr(text));
}

// What the catalogue does not know is drawn as wide as what is on it says.
TEST(NodePicture, UnknownGpusAreAsWideAsTheirInstances) {
  device::NodeState state = pictured_node();
  device::Instance last = state.gpus[0].instances[0];
  last.start = 2;
  state.gpus[0].instances.push_back(last);
  const std::string known = node_svg(state, {}, hw::builtin_catalogue());
  state.gpus[0].model = "";
  std::string unknown = node_svg(state, {}, hw::builtin_catalogue());
  const auto name = unknown.find("NVIDIA A30 GPU-0");
  ASSERT_NE(name, unknown.npos);
  unknown.replace(name, 10, "A30-24GB");
  EXPECT_EQ(unknown, known);
}

// A GPU whose layout changes is drawn as it is and as it will be.
TEST(NodePicture, ShowsWhatAChangeDoes) {
  const device::NodeState state = pictured_node();
  Change change;
  Present kept, gone;
  gone.place = {{"2g.12gb", 0}, 0, "GPU-0"};
  gone.segment = {"old", 4, 1, 0};
  gone.holders = {{41, "python"}};
  change.destroy = {gone};
  kept.place = {{"1g.6gb", 3}, 1, "GPU-1"};
  kept.segment = {"stays", 4, 1, 0};
  change.keep = {kept};
  change.create = {{{{"1g.6gb", 2}, 0, "GPU-0"}, {"new", 4, 1, 0}}};
  change.steps.resize(3);
  change.predicted = Seconds{0.21};
  const std::string svg = change_svg(change, state, hw::builtin_catalogue());
  for (const char* text :
       {"What would be changed", "1 kept, 1 destroyed, 1 created; 3 steps, 210 ms predicted",
        "gpu 0 2g.12gb at 0\nis destroyed\nprocess 41 python", "gpu 0 1g.6gb at 2\nis created",
        "gpu 1 1g.6gb at 3\nstays"})
    EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_EQ(boxes(svg, "+ is created"), 1u) << "the legend";
  EXPECT_EQ(boxes(node_svg(state, {}, hw::builtin_catalogue()), "+ is created"), 0u);
  EXPECT_EQ(boxes(svg, "  then<"), 1u);
  for (const char* box : {">− old<", ">+ new<"}) EXPECT_EQ(boxes(svg, box), 1u);
  EXPECT_LT(svg.find(">− old<"), svg.find("  then<"));
  EXPECT_GT(svg.find(">+ new<"), svg.find("  then<"));
  EXPECT_GT(svg.rfind(">stays<"), svg.find("  then<")) << "by GPU";
  device::NodeState unknown = state;
  unknown.gpus[0].model = "";
  EXPECT_EQ(boxes(change_svg(change, unknown, hw::builtin_catalogue()), ">− old<"), 1u);
  EXPECT_THAT(change_svg({}, state, hw::builtin_catalogue()), HasSubstr("Nothing to do"));
  EXPECT_THAT(change_svg({}, state, hw::builtin_catalogue()), Not(HasSubstr("GPU 0")));
}

}  // namespace
}  // namespace partita::actuate
