#include "act/assignment.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

namespace partita::actuate {
namespace {

using testing::HasSubstr;

const AssignedSegment kFirst{{"3g.40gb", 4}, {"re\"snet", 16, 2, 1234.5}, "MIG-1", "GPU-a"};

std::string document(const std::string& segments) {
  return "{\"api_version\": \"partita/v1\", \"kind\": \"Assignment\", \"revision\": 3,\n"
         "\"segments\": [\n" +
         segments + "]}";
}

TEST(Assignment, reads_what_people_write_and_sorts_by_device) {
  const std::string text = document(
      R"({"device": "MIG-2", "gpu_uuid": "GPU-a", "profile": "1g.10gb", "start": 0,
          "service": "b", "batch": 1, "processes": 0},
         {"device": "MIG-1", "gpu_uuid": "GPU-a", "profile": "3g.40gb", "start": 4,
          "service": "re\"snet", "batch": 16, "processes": 2, "throughput_rps": 1234.5,
          "later": "keys"})");
  const Result<Assignment> assignment = parse_assignment("a.json", text);
  ASSERT_TRUE(assignment) << to_string(assignment.error());
  EXPECT_EQ(assignment->revision, 3);
  ASSERT_EQ(assignment->segments.size(), 2u);
  EXPECT_EQ(assignment->segments[0], kFirst);
  EXPECT_EQ(assignment->segments[1].device, "MIG-2");
}

TEST(Assignment, small_rates_are_kept_and_none_is_not_written) {
  AssignedSegment slow = kFirst;
  slow.throughput_rps = 0.5;
  const Assignment before{1, {slow}};
  EXPECT_EQ(parse_assignment("a.json", assignment_json(before)).value(), before);
  slow.throughput_rps = 0;
  EXPECT_EQ(assignment_json({1, {slow}}).find("throughput_rps"), std::string::npos);
}

// A bit that has changed is not taken for another assignment.
TEST(Assignment, a_group_of_eight_whole_gpus_is_one_device) {
  Assignment group;
  group.segments.push_back({{"7g.80gb", 0}, {"s", 96, 1}, "", "GPU-0"});
  for (int i = 0; i < 8; ++i)
    group.segments[0].device +=
        (i == 0 ? "GPU-" : ",GPU-") + std::string(35, 'a') + static_cast<char>('0' + i);
  const auto read = parse_assignment("a", assignment_json(group));
  ASSERT_TRUE(read.has_value()) << to_string(read.error());
  EXPECT_EQ(*read, group);
  EXPECT_EQ(whole_gpus(read->segments[0].device).size(), 8u);
  group.segments[0].device = "GPU-1,";
  EXPECT_FALSE(parse_assignment("a", assignment_json(group)).has_value());
  group.segments[0].device = "GPU-1,GPU-\x1b";
  EXPECT_FALSE(parse_assignment("a", assignment_json(group)).has_value());
}

// Each GPU of a group says which the others are; an instance is no group.
TEST(Assignment, says_of_each_gpu_of_a_group_who_is_there) {
  AssignedSegment pair = kFirst;
  pair.device = "GPU-a,GPU-b";
  const device::Occupants all = occupants_of({.revision = 1, .segments = {pair, kFirst}});
  const device::Occupant both{kFirst.service, 16, 2, {"GPU-a", "GPU-b"}};
  EXPECT_EQ(all, (device::Occupants{
                     {"GPU-a", both}, {"GPU-b", both}, {"MIG-1", {kFirst.service, 16, 2, {}}}}));
}

TEST(Assignment, damage_is_no_other_assignment) {
  const Assignment before{7, {kFirst}};
  const std::string text = assignment_json(before);
  for (std::size_t byte = 0; byte < text.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << bit));
      const auto read = parse_assignment("a.json", damaged);
      EXPECT_EQ(read.value_or(before), before) << byte << ", " << bit;
    }
  }
}

TEST(Assignment, refuses_with_the_line) {
  const std::string good =
      R"({"device": "D", "gpu_uuid": "G", "profile": "p", "start": 0, "service": "s", )"
      R"("batch": 1, "processes": 1})";
  const auto with = [&](std::string from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {good + ",\n" + good, "a.json:4: device 'D' is assigned twice"},
      {with("\"D\"", "\"\""), "'device'"},
      {with("\"s\"", "\"\""), "'service'"},
      {with("\"batch\": 1", "\"batch\": -1"), "'batch' is -1"},
      {with("\"start\": 0", "\"start\": -2"), "'start' is -2"},
      {with("\"processes\": 1", "\"processes\": 129"), "'processes' is 129"},
      {with("\"processes\": 1", "\"process\": 1"), "'processes' is missing"},
      {with("}", ", \"throughput_rps\": -1}"), "'throughput_rps' is -1"}};
  for (const auto& [segments, message] : cases) {
    const Result<Assignment> assignment = parse_assignment("a.json", document(segments));
    ASSERT_FALSE(assignment) << segments;
    EXPECT_THAT(to_string(assignment.error()), HasSubstr(message));
    EXPECT_THAT(to_string(assignment.error()), HasSubstr("a.json:"));
  }
  const auto with_services = [&](const std::string& list) {
    std::string text = document(good);
    text.pop_back();
    return text + ",\n\"services\": [" + list + "]}";
  };
  for (const auto& [list, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"name": "s"}, {"name": "s"})", "service 's' is listed twice"},
           {R"({"name": ""})", "'name'"},
           {R"({"name": "s", "slo_ms": -1})", "'slo_ms' is -1"},
           {R"({"name": "s", "percentile": 101})", "'percentile' is 101"},
           {R"({"name": "s", "rate_rps": -2})", "'rate_rps' is -2"},
           {R"("s")", "a.json:"}}) {
    const Result<Assignment> assignment = parse_assignment("a.json", with_services(list));
    ASSERT_FALSE(assignment) << list;
    EXPECT_THAT(to_string(assignment.error()), HasSubstr(message));
  }
  EXPECT_FALSE(parse_assignment("a.json", "{\"kind\": \"Plan\"}"));
  EXPECT_THAT(to_string(parse_assignment("a.json",
                                         "{\"api_version\": \"partita/v1\", \"kind\": "
                                         "\"Assignment\", \"revision\": 0.5, "
                                         "\"segments\": []}")
                            .error()),
              HasSubstr("'revision' must be a whole number"));
}

// Older versions wrote the percentile 99 where nobody had said it, and then no model.
TEST(Assignment, what_an_older_file_does_not_say_is_not_known) {
  const auto read = parse_assignment(
      "a.json", R"({"api_version": "partita/v1", "kind": "Assignment", "revision": 1,
      "segments": [], "services": [
        {"name": "a", "slo_ms": 5, "percentile": 99, "rate_rps": 3.5},
        {"name": "b", "model": "m", "slo_ms": 5, "percentile": 99, "rate_rps": 0},
        {"name": "c", "percentile": 99.9}, {"name": "d"}]})");
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->services, (std::vector<plan::Terms>{
                                {.name = "a", .rate = Rps{3.5}, .slo = Millis{5}, .percentile = 0},
                                {.name = "b", .model = "m", .slo = Millis{5}, .percentile = 99},
                                {.name = "c", .percentile = 99.9},
                                {.name = "d", .percentile = 0}}));
}

TEST(Assignment, services_amid_a_change_are_the_wanted_ones_and_those_that_still_run) {
  Assignment now;
  now.segments = {kFirst};
  now.segments[0].service = "old";
  now.services = {
      {.name = "both", .slo = Millis{5}}, {.name = "gone"}, {.name = "old", .slo = Millis{7}}};
  const std::vector<plan::Terms> wanted{{.name = "both", .slo = Millis{6}}, {.name = "new"}};
  EXPECT_EQ(
      services_amid(wanted, now),
      (std::vector<plan::Terms>{
          {.name = "both", .slo = Millis{6}}, {.name = "new"}, {.name = "old", .slo = Millis{7}}}));
  EXPECT_EQ(services_amid({{.name = "z"}, {.name = "a"}}, {}),
            (std::vector<plan::Terms>{{.name = "a"}, {.name = "z"}}))
      << "by name";
  now.segments.clear();
  EXPECT_EQ(services_amid(wanted, now), wanted);
}

RC_GTEST_PROP(Assignment, is_read_back_as_it_was_written, ()) {
  Assignment assignment;
  assignment.revision = *rc::gen::inRange<long>(0, 1'000'000'000);
  const int segments = *rc::gen::inRange(0, 8);
  for (int i = 0; i < segments; ++i) {
    AssignedSegment segment = kFirst;
    segment.device = "MIG-" + std::to_string(i);
    segment.start = *rc::gen::inRange(0, 8);
    segment.service = "s" + std::to_string(*rc::gen::inRange(0, 100));
    segment.batch = *rc::gen::inRange(0, 129);
    segment.processes = *rc::gen::inRange(0, kMaxProcessesPerSegment + 1);
    segment.throughput_rps = *rc::gen::inRange(0, 1'000'000) / 7.0;
    assignment.segments.push_back(segment);
  }
  const int services = *rc::gen::inRange(0, 4);
  for (int i = 0; i < services; ++i)
    assignment.services.push_back({.name = "s" + std::to_string(i),
                                   .model = i % 2 == 0 ? "" : "m",
                                   .rate = Rps{*rc::gen::inRange(0, 1'000'000) / 7.0},
                                   .slo = Millis{*rc::gen::inRange(0, 1000) / 7.0},
                                   .percentile = *rc::gen::inRange(0, 99) * 1.0});
  const Result<Assignment> again = parse_assignment("a.json", assignment_json(assignment));
  RC_ASSERT(again.has_value());
  RC_ASSERT(*again == assignment);
}

}  // namespace
}  // namespace partita::actuate
