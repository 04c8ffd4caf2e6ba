#include "act/loans/loan_record.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::exec {
namespace {

using State = LoanRecord::State;

LoanRecord loan(long number, State state, const std::string& device = {}) {
  return {.loan = number,
          .state = state,
          .pid = 12,
          .owner = "12 99",
          .gpu = "GPU-a",
          .profile_id = 19,
          .start = 4,
          .device = device};
}

Result<StandingLoans> read(const std::vector<std::string>& texts) {
  std::string text = log_header(kLoanLogKind);
  for (const std::string& one : texts) text += log_line(one);
  return standing_loans("l", parse_log("l", kLoanLogKind, text).value());
}

TEST(LoanRecord, IsALineOfItsLog) {
  EXPECT_EQ(loan_record_text(loan(3, State::made, "MIG-b")),
            R"({"loan": 3, "state": "made", "pid": 12, "owner": "12 99", "gpu": "GPU-a", )"
            R"("profile_id": 19, "start": 4, "device": "MIG-b"})");
  EXPECT_EQ(loan_record_text(loan(1, State::intended)),
            R"({"loan": 1, "state": "intended", "pid": 12, "owner": "12 99", "gpu": "GPU-a", )"
            R"("profile_id": 19, "start": 4})");
}

TEST(LoanRecord, TheLastOfALoanCounts) {
  const auto standing =
      read({loan_record_text(loan(1, State::intended)), loan_record_text(loan(2, State::intended)),
            loan_record_text(loan(1, State::made, "MIG-b")), loan_record_text(loan(2, State::gone)),
            loan_record_text(loan(7, State::gone, "MIG-c"))});
  ASSERT_TRUE(standing);
  EXPECT_EQ(*standing, (StandingLoans{{1, loan(1, State::made, "MIG-b")}}));
}

TEST(LoanRecord, WhatIsWrongIsRefusedWithItsLine) {
  const std::string good = loan_record_text(loan(1, State::intended));
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    EXPECT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
    const auto read_it = read({good, text});
    return read_it ? "" : to_string(read_it.error());
  };
  EXPECT_EQ(refusal("\"loan\": 1", "\"loan\": 9000000000000000"), "");
  EXPECT_EQ(refusal("\"pid\": 12", "\"pid\": 1"), "");
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"loan\": 1", "\"loan\": 0"},
           {"\"loan\": 1", "\"loan\": 9000000000000002"},
           {"intended", "meant"},
           {"\"intended\"", "\"made\""},
           {"\"pid\": 12", "\"pid\": 0"},
           {"\"pid\": 12, ", ""},
           {"\"owner\": \"12 99\", ", ""},
           {"\"gpu\": \"GPU-a\", ", ""},
           {"\"profile_id\": 19", "\"profile_id\": -1"},
           {", \"profile_id\": 19", ""},
           {", \"start\": 4", ""},
           {"\"start\": 4", "\"start\": -1"},
           {"\"start\": 4", "\"start\": 4, \"device\": \"\""}})
    EXPECT_TRUE(refusal(from, to).starts_with("l:3: ")) << to << " -> " << refusal(from, to);
  EXPECT_THAT(refusal("\"intended\"", "\"made\""),
              testing::HasSubstr("an instance that was made has a device"));
}

TEST(LoanRecord, AsManyStandAsMay) {
  std::vector<std::string> texts;
  for (long number = 1; number <= static_cast<long>(kMaxLoans); ++number)
    texts.push_back(loan_record_text(loan(number, State::intended)));
  texts.push_back(loan_record_text(loan(5, State::made, "MIG-b")));
  EXPECT_EQ(read(texts)->size(), kMaxLoans);
  texts.push_back(loan_record_text(loan(10'001, State::gone)));
  EXPECT_TRUE(read(texts));
  texts.push_back(loan_record_text(loan(10'001, State::intended)));
  EXPECT_EQ(to_string(read(texts).error()), "l:10004: more than 10000 loans stand");
}

}  // namespace
}  // namespace partita::exec
