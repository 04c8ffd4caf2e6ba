#include "act/lease/lease_record.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::lease {
namespace {

using State = LeaseRecord::State;

LeaseRecord lease_of(long number, const std::string& owner, State state = State::intended,
                     const std::string& device = {}) {
  return {{"1g.10gb", 4}, number, state, owner, "GPU-a", 19, device, 7};
}

Result<StandingLeases> read_records(const std::vector<std::string>& texts) {
  std::string text = log_header(kLeaseLogKind);
  for (const std::string& one : texts) text += log_line(one);
  return parse_leases("l", text);
}

std::string refusal_of(const std::vector<std::string>& texts) {
  const auto all = read_records(texts);
  return all ? "" : to_string(all.error());
}

TEST(LeaseRecord, IsALineOfItsLog) {
  EXPECT_EQ(lease_record_text(lease_of(3, "a")),
            R"({"lease": 3, "state": "intended", "owner": "a", "gpu": "GPU-a", "profile": )"
            R"("1g.10gb", "profile_id": 19, "start": 4, "since_ms": 7})");
  LeaseRecord timed = lease_of(3, "a", State::made, "MIG-b");
  timed.terms.until_ms = 99;
  EXPECT_EQ(lease_record_text(timed),
            R"({"lease": 3, "state": "made", "owner": "a", "gpu": "GPU-a", "profile": "1g.10gb", )"
            R"("profile_id": 19, "start": 4, "device": "MIG-b", "since_ms": 7, "until_ms": 99})");
  LeaseRecord bound = lease_of(3, "a", State::returning);
  bound.terms = {.pid = 12, .identity = "12 99"};
  EXPECT_EQ(lease_record_text(bound),
            R"({"lease": 3, "state": "returning", "owner": "a", "gpu": "GPU-a", "profile": )"
            R"("1g.10gb", "profile_id": 19, "start": 4, "since_ms": 7, "pid": 12, "identity": )"
            R"("12 99"})");
  for (const LeaseRecord& one : {timed, bound})
    EXPECT_EQ(read_records({lease_record_text(one)})->leases.at(3), one);
}

TEST(LeaseRecord, TheLastOfALeaseCounts) {
  const auto all = read_records(
      {lease_record_text(lease_of(1, "a")), lease_record_text(lease_of(5, "b")),
       lease_record_text(lease_of(1, "c", State::made, "MIG-b")),
       lease_record_text(lease_of(5, "b", State::gone)), lease_record_text(lease_of(2, "a"))});
  ASSERT_TRUE(all);
  EXPECT_EQ(*all, (StandingLeases{
                      {{1, lease_of(1, "c", State::made, "MIG-b")}, {2, lease_of(2, "a")}}, 5}));
  EXPECT_EQ(all->of("c")->lease, 1);
  EXPECT_EQ(all->of("a")->lease, 2);
  EXPECT_EQ(all->of("b"), nullptr);
  EXPECT_EQ(*parse_leases("l", ""), StandingLeases{});
}

TEST(LeaseRecord, AnOwnerHasOne) {
  EXPECT_EQ(refusal_of({lease_record_text(lease_of(1, "a")), lease_record_text(lease_of(2, "a"))}),
            "l:3: 'a' has lease 1, too");
  EXPECT_EQ(refusal_of({lease_record_text(lease_of(1, "a")),
                        lease_record_text(lease_of(1, "a", State::returning)),
                        lease_record_text(lease_of(1, "a", State::gone)),
                        lease_record_text(lease_of(2, "a"))}),
            "");
}

TEST(LeaseRecord, WhatIsWrongIsRefusedWithItsLine) {
  const std::string good = lease_record_text(lease_of(1, "a"));
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    EXPECT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
    return refusal_of({good, text});
  };
  EXPECT_EQ(refusal("\"lease\": 1", "\"lease\": 1"), "");
  EXPECT_NE(refusal("\"since_ms\": 7", "\"since_ms\": 7, \"pid\": 1"), "");
  EXPECT_EQ(refusal("\"since_ms\": 7", "\"since_ms\": 0"), "");
  EXPECT_EQ(refusal("\"since_ms\": 7", "\"since_ms\": 9000000000000000"), "");
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"lease\": 1", "\"lease\": 0"},
           {"\"lease\": 1", "\"lease\": 9000000000000002"},
           {"intended", "meant"},
           {"\"intended\"", "\"made\""},
           {"\"owner\": \"a\", ", ""},
           {"\"owner\": \"a\"", "\"owner\": \"a b\""},
           {"\"gpu\": \"GPU-a\", ", ""},
           {"\"profile\": \"1g.10gb\", ", ""},
           {"\"profile_id\": 19, ", ""},
           {"\"profile_id\": 19", "\"profile_id\": -1"},
           {"\"start\": 4, ", ""},
           {"\"start\": 4", "\"start\": -1"},
           {"\"start\": 4", "\"start\": 4, \"device\": \"\""},
           {", \"since_ms\": 7", ""},
           {"\"since_ms\": 7", "\"since_ms\": -1"},
           {"\"since_ms\": 7", "\"since_ms\": 9000000000000002"},
           {"\"since_ms\": 7", "\"since_ms\": 7, \"until_ms\": 0"},
           {"\"since_ms\": 7", "\"since_ms\": 7, \"pid\": 0"},
           {"\"since_ms\": 7", "\"since_ms\": 7, \"pid\": 3"}})
    EXPECT_TRUE(refusal(from, to).starts_with("l:3: ")) << to << " -> " << refusal(from, to);
  EXPECT_THAT(refusal("\"intended\"", "\"made\""),
              testing::HasSubstr("an instance that was made has a device"));
  EXPECT_THAT(refusal("\"since_ms\": 7", "\"since_ms\": 7, \"pid\": 3"),
              testing::HasSubstr("which process is meant"));
  EXPECT_EQ(parse_leases("l", log_header("loans")).error().context, "l:1");
}

TEST(LeaseRecord, AsManyStandAsMay) {
  std::string text = log_header(kLeaseLogKind);
  for (long number = 1; number <= static_cast<long>(kMaxLeases); ++number)
    text += log_line(lease_record_text(lease_of(number, fmt::format("o{}", number))));
  text += log_line(lease_record_text(lease_of(5, "o5", State::made, "MIG-b")));
  EXPECT_EQ(parse_leases("l", text)->leases.size(), kMaxLeases);
  const std::string more = text + log_line(lease_record_text(lease_of(10'001, "x")));
  EXPECT_EQ(to_string(parse_leases("l", more).error()), "l:10003: more than 10000 leases stand");
}

TEST(Owner, HasANameOfLettersAndSigns) {
  for (const std::string good : {"a", "slurm:42", "slurm:42/2", "A.Z_09@+=,-", "_x", "a//b"})
    EXPECT_EQ(owner_fault(good), "") << good;
  EXPECT_EQ(owner_fault(std::string(200, 'a')), "");
  EXPECT_EQ(owner_fault(std::string(201, 'a')), "201 characters; 200 are the limit");
  EXPECT_EQ(owner_fault(""), "an owner has a name");
  for (const std::string bad :
       {"/a", "-a", "a/", "a b", "a\n", "\xc3\xa4", "a;", "a'", "[", "`", "{", "a\x1f", "!", "a\""})
    EXPECT_THAT(owner_fault(bad), testing::StartsWith("letters, digits and")) << bad;
}

TEST(Owner, HasParts) {
  EXPECT_TRUE(belongs("slurm:42", "slurm:42"));
  EXPECT_TRUE(belongs("slurm:42/2", "slurm:42"));
  EXPECT_FALSE(belongs("slurm:421", "slurm:42"));
  EXPECT_FALSE(belongs("slurm:42", "slurm:42/2"));
  EXPECT_FALSE(belongs("other", "slurm:42"));
}

}  // namespace
}  // namespace partita::lease
