#include "actuate/assignment.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

namespace partita::actuate {
namespace {

using testing::HasSubstr;

const AssignedSegment kFirst{.device = "MIG-1",
                             .gpu_uuid = "GPU-a",
                             .profile = "3g.40gb",
                             .start = 4,
                             .service = "re\"snet",
                             .batch = 16,
                             .processes = 2,
                             .throughput_rps = 1234.5};

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
  EXPECT_FALSE(parse_assignment("a.json", "{\"kind\": \"Plan\"}"));
  EXPECT_THAT(to_string(parse_assignment("a.json",
                                         "{\"api_version\": \"partita/v1\", \"kind\": "
                                         "\"Assignment\", \"revision\": 0.5, "
                                         "\"segments\": []}")
                            .error()),
              HasSubstr("'revision' must be a whole number"));
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
  const Result<Assignment> again = parse_assignment("a.json", assignment_json(assignment));
  RC_ASSERT(again.has_value());
  RC_ASSERT(*again == assignment);
}

}  // namespace
}  // namespace partita::actuate
