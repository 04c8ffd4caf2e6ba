#include "device/recognise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace partita::device {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const hw::Catalogue& catalogue() { return hw::builtin_catalogue(); }

const hw::GpuModel& a30() { return *catalogue().find("A30-24GB"); }

// A board that is exactly as the catalogue says.
std::vector<ProfileInfo> board_of(const hw::GpuModel& model) {
  std::vector<ProfileInfo> board;
  for (const hw::MigProfile& p : model.profiles)
    board.push_back({.nvml_enum = p.nvml_enum,
                     .profile_id = p.profile_id,
                     .name = p.name,
                     .gpcs = p.gpcs,
                     .size = p.size,
                     .sms = p.sms.value_or(7),
                     .memory = p.memory.value_or(Mib{123}),
                     .max_instances = p.max_instances,
                     .remaining = p.max_instances,
                     .starts = p.starts});
  return board;
}

std::string recognised(const std::string& pci, const std::string& name, double mib) {
  GpuState gpu;
  gpu.pci_device_id = pci;
  gpu.name = name;
  gpu.memory = Mib{mib};
  const hw::GpuModel* model = recognise(catalogue(), gpu);
  return model ? model->name : "-";
}

TEST(Recognise, TrustsThePciDeviceMoreThanTheName) {
  EXPECT_EQ(recognised("0x20B710DE", "", 24576), "A30-24GB");
  EXPECT_EQ(recognised("0x20b710de", "NVIDIA H100 PCIe", 0), "A30-24GB");
  EXPECT_EQ(recognised("0xFFFF10DE", "NVIDIA H100 PCIe", 81559), "H100-80GB-PCIe");
  EXPECT_EQ(recognised("", "nvidia h200", 143771), "H200-141GB");
  EXPECT_EQ(recognised("0xFFFF10DE", "NVIDIA Z1", 24576), "-");
  EXPECT_EQ(recognised("", "", 0), "-");
}

TEST(Recognise, TakesTheNearestMemoryOfSeveralMatches) {
  hw::GpuModel small = a30(), large = a30(), unknown = a30();
  small.name = "small", large.name = "large", unknown.name = "unknown";
  large.total_memory = Mib{49152};
  unknown.total_memory.reset();
  const hw::Catalogue three{{large, small, unknown}};
  GpuState gpu;
  gpu.name = "NVIDIA A30";
  const auto nearest = [&](double mib) {
    gpu.memory = Mib{mib};
    return recognise(three, gpu)->name;
  };
  EXPECT_EQ(nearest(24000), "small");
  EXPECT_EQ(nearest(48000), "large");
  EXPECT_EQ(recognise({{unknown}}, gpu)->name, "unknown");
}

TEST(Recognise, FindsEveryEntryOfTheCatalogueByItsOwnIds) {
  for (const hw::GpuModel& model : catalogue().gpus)
    for (const std::string& id : model.pci_device_ids)
      EXPECT_EQ(recognised(id, "", model.total_memory.value_or(Mib{}).value), model.name) << id;
}

TEST(ProfileName, IsTheCataloguesForTheDriversId) {
  EXPECT_EQ(profile_name(a30(), 5), "2g.12gb");
  EXPECT_EQ(profile_name(a30(), 99), "");
}

TEST(Differences, OfABoardAsInTheCatalogueAreNone) {
  for (const hw::GpuModel& model : catalogue().gpus)
    EXPECT_THAT(differences(model, board_of(model)), IsEmpty()) << model.name;
}

TEST(Differences, AreOneSentencePerFigure) {
  std::vector<ProfileInfo> board = board_of(a30());
  ASSERT_EQ(board[2].name, "2g.12gb");
  board[2].name = "2g.11gb";
  board[2].profile_id = 6;
  board[2].gpcs = 1;
  board[2].size = 1;
  board[2].max_instances = 3;
  board[2].sms = 30;
  board[2].starts = {0, 1, 2};
  board[2].memory = Mib{11672};
  board[2].remaining = 0;  // is about what is there now
  EXPECT_THAT(differences(a30(), board),
              ElementsAre("2g.12gb: name 2g.11gb on the board, 2g.12gb in the catalogue",
                          "2g.12gb: profile id 6 on the board, 5 in the catalogue",
                          "2g.12gb: compute slices 1 on the board, 2 in the catalogue",
                          "2g.12gb: size 1 on the board, 2 in the catalogue",
                          "2g.12gb: most instances 3 on the board, 2 in the catalogue",
                          "2g.12gb: SMs 30 on the board, 28 in the catalogue",
                          "2g.12gb: starts 0,1,2 on the board, 0,2 in the catalogue",
                          "2g.12gb: memory 11672 MiB on the board, 11968 MiB in the catalogue"));
}

TEST(Differences, NameProfilesOfOneSideOnly) {
  std::vector<ProfileInfo> board = board_of(a30());
  board.erase(board.begin());
  board.push_back({.nvml_enum = 31, .name = "", .sms = 14, .memory = Mib{100}, .starts = {}});
  EXPECT_THAT(differences(a30(), board),
              ElementsAre("1g.6gb: not offered by the board",
                          "a profile: not in the catalogue (NVML enum 31, 14 SMs, 100 MiB)"));
}

TEST(Differences, LeaveAliasesAndRoundingAlone) {
  const hw::GpuModel& a100 = *catalogue().find("A100-80GB");
  std::vector<ProfileInfo> board = board_of(a100);
  ASSERT_EQ(board.back().name, "7g.80gb");
  board.back().name = "7g.79gb";
  board.back().memory += Mib{5};
  board.front().name = "";  // a driver that tells no names
  EXPECT_THAT(differences(a100, board), IsEmpty());
  board.back().memory += Mib{5};
  EXPECT_EQ(differences(a100, board).size(), 1U);
}

TEST(Differences, TakeNothingForGrantedThatTheCatalogueDoesNotKnow) {
  const auto unknown = std::ranges::find_if(catalogue().gpus, [](const hw::GpuModel& model) {
    return std::ranges::any_of(model.profiles, [](const auto& p) { return !p.sms; });
  });
  ASSERT_NE(unknown, catalogue().gpus.end());
  std::vector<ProfileInfo> board = board_of(*unknown);
  for (std::size_t i = 0; i < board.size(); ++i)
    if (!unknown->profiles[i].sms) board[i].sms = 1000;
  EXPECT_THAT(differences(*unknown, board), IsEmpty());
}

// Of every board the entry that it would get, once the times are in, can be read, and the board
// does not differ from it.
TEST(Drafted, IsACatalogueEntryOfTheBoard) {
  for (const hw::GpuModel& model : catalogue().gpus) {
    std::vector<ProfileInfo> board = board_of(model);
    std::ranges::reverse(board);
    GpuState gpu;
    gpu.name = "NVIDIA Z1";
    gpu.pci_device_id = "0x12340000";
    gpu.memory = model.total_memory.value_or(Mib{999999});
    hw::GpuModel draft = drafted(gpu, board);
    EXPECT_FALSE(hw::parse_gpu_model("z1.json", hw::gpu_model_json(draft)));
    draft.reconfiguration = model.reconfiguration;
    const auto entry = hw::parse_gpu_model("z1.json", hw::gpu_model_json(draft));
    ASSERT_TRUE(entry) << model.name << ": " << to_string(entry.error());
    EXPECT_EQ(recognise({{*entry}}, gpu)->name, "NVIDIA Z1");
    EXPECT_THAT(differences(*entry, board), IsEmpty()) << model.name;
    EXPECT_EQ(entry->memory_slices, model.memory_slices) << model.name;
    EXPECT_EQ(entry->compute_slices, model.compute_slices) << model.name;
  }
}

}  // namespace
}  // namespace partita::device
