#include "image/fatbin.h"

#include <gtest/gtest.h>

#include <string>

#include "image/testing/fatbin_writer.h"

namespace partita::remote::image {
namespace {

const std::string kText =
    ".version 8.0\n.target sm_75\n.visible .entry f()\n{ ret; }\n" + std::string(5000, ' ') + "//";

std::string text_of(const Member& member) {
  const auto raw = unpacked(member);
  EXPECT_TRUE(raw) << (raw ? "" : raw.error().message);
  return raw ? std::string(reinterpret_cast<const char*>(raw->data()), raw->size()) : "";
}

TEST(FatBinary, MembersOfEveryCompressionComeBack) {
  const auto bytes = container_with({{MemberKind::ptx, Compression::zstd, 75, kText},
                                     {MemberKind::ptx, Compression::lz4, 80, kText},
                                     {MemberKind::ptx, Compression::none, 90, kText},
                                     {MemberKind::elf, Compression::none, 90, "cubin's 16 bytes"}});
  const auto members = members_of(bytes);
  ASSERT_TRUE(members);
  ASSERT_EQ(members->size(), 4u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(text_of((*members)[i]), kText) << i;
  EXPECT_LT((*members)[0].stored.size(), kText.size() / 4);
  EXPECT_EQ((*members)[3].kind, MemberKind::elf);
  EXPECT_EQ(text_of((*members)[3]), "cubin's 16 bytes");
  EXPECT_EQ(targets_text(*members), "compute_75, compute_80, compute_90, sm_90");
}

TEST(FatBinary, ContainersLieOneBehindTheOther) {
  auto bytes = container_with({{MemberKind::ptx, Compression::none, 75, kText}});
  const auto second = container_with({{MemberKind::ptx, Compression::zstd, 80, kText}});
  bytes.resize(bytes.size() + 24);
  bytes.insert(bytes.end(), second.begin(), second.end());
  const auto members = members_of(bytes);
  ASSERT_TRUE(members);
  EXPECT_EQ(targets_text(*members), "compute_75, compute_80");
  EXPECT_EQ(container_bytes(second), second.size());
}

TEST(FatBinary, EveryCutIsRefusedAndNeverReadBehind) {
  const auto bytes = container_with({{MemberKind::ptx, Compression::zstd, 75, kText},
                                     {MemberKind::ptx, Compression::lz4, 75, kText}});
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<long>(size));
    EXPECT_FALSE(members_of(cut)) << size;
  }
}

TEST(FatBinary, LiesAboutLengthsAreRefused) {
  const auto good = container_with({{MemberKind::ptx, Compression::zstd, 75, kText}});
  auto bytes = good;
  put(bytes, kContainerHeader + 16, std::uint32_t{0x7fffffff});  // stored
  EXPECT_FALSE(members_of(bytes));
  bytes = good;
  put(bytes, kContainerHeader + 56, std::uint64_t{1} << 60);  // raw
  EXPECT_FALSE(members_of(bytes));
  bytes = good;
  put(bytes, kContainerHeader + 56, std::uint64_t{300} << 20);  // more than the bytes can be
  const auto large = members_of(bytes);
  ASSERT_TRUE(large);
  EXPECT_FALSE(unpacked(large->front()));
  bytes = good;
  put(bytes, kContainerHeader + 56, std::uint64_t{10});  // less than they are
  const auto small = members_of(bytes);
  ASSERT_TRUE(small);
  EXPECT_FALSE(unpacked(small->front()));
}

TEST(FatBinary, ChoosesWhatTheDeviceRuns) {
  const std::vector<Member> members = {{.kind = MemberKind::elf, .sm = 80},
                                       {.kind = MemberKind::elf, .sm = 86},
                                       {.kind = MemberKind::elf, .sm = 90},
                                       {.kind = MemberKind::ptx, .sm = 75},
                                       {.kind = MemberKind::ptx, .sm = 90}};
  EXPECT_EQ(choose(members, 80, false), &members[0]);
  EXPECT_EQ(choose(members, 89, false), &members[1]);  // 8.6 runs on 8.9
  EXPECT_EQ(choose(members, 90, false), &members[2]);
  EXPECT_EQ(choose(members, 75, false), &members[3]);
  EXPECT_EQ(choose(members, 100, false), &members[4]);  // no cubin of another major version
  EXPECT_EQ(choose(members, 75, true), &members[4]);
  EXPECT_EQ(choose(std::span(members).first(3), 70, false), nullptr);
  EXPECT_EQ(choose(std::span(members).first(3), 90, true), nullptr);
}

TEST(BareMember, PtxTextEndsAtItsNul) {
  const std::string text = ".version 8.0\n.target sm_80\n";
  const std::string longer = text + std::string(1, '\0') + "rubbish";
  const auto member = bare_member(std::as_bytes(std::span(longer)));
  ASSERT_TRUE(member);
  EXPECT_EQ(text_of(*member), text);
  EXPECT_FALSE(bare_member(std::as_bytes(std::span(std::string_view("hello")))));
  EXPECT_FALSE(
      bare_member(std::as_bytes(std::span(std::string_view("\x7f"
                                                           "ELF and then")))));
}

}  // namespace
}  // namespace partita::remote::image
