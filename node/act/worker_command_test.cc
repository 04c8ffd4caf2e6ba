#include "act/worker_command.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

namespace partita::actuate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const AssignedSegment kSegment{{"3g.40gb", 4}, {"res net", 16, 2}, "MIG-1", "GPU-a"};

std::vector<std::string> command(std::string_view text) {
  const Result<CommandTemplate> parsed = parse_command("--command", text);
  EXPECT_TRUE(parsed) << to_string(parsed.error());
  return command_of(parsed.value(), kSegment, 1, 8003);
}

TEST(WorkerCommand, fills_every_placeholder) {
  EXPECT_THAT(command("serve {service} {batch} {processes} {index} {device} {gpu} {profile} "
                      "--at={start}:{port} {{{index}}}"),
              ElementsAre("serve", "res net", "16", "2", "1", "MIG-1", "GPU-a", "3g.40gb",
                          "--at=4:8003", "{1}"));
  EXPECT_FALSE(parse_command("c", "a {{port}} {index}")->ports);
  EXPECT_TRUE(parse_command("c", "a --port={port}")->ports);
}

// Two thirds of an odd number of SMs; what says neither cannot start such an engine.
TEST(WorkerCommand, says_the_shares_of_prefill_and_decode) {
  AssignedSegment lanes = kSegment;
  lanes.prefill_units = 65;
  lanes.decode_units = 33;
  const auto said = [](const AssignedSegment& segment) {
    return command_of(parse_command("c",
                                    "e {prefill_units}/{decode_units} {prefill_percent} "
                                    "{decode_percent}")
                          .value(),
                      segment, 0, 0);
  };
  EXPECT_THAT(said(lanes), ElementsAre("e", "65/33", "66", "34"));
  EXPECT_THAT(said(kSegment), ElementsAre("e", "0/0", "0", "0"));
  EXPECT_FALSE(parse_command("c", "a {{decode_units}} {index} {port}")->lanes);
  for (const char* one : {"prefill_units", "decode_units", "prefill_percent", "decode_percent"})
    EXPECT_TRUE(parse_command("c", std::string("a {") + one + "}")->lanes) << one;
}

TEST(WorkerCommand, says_the_engine_that_the_plan_counts_on) {
  AssignedSegment one = kSegment;
  one.engine = {"m fp8 on a100, vllm 0.12, tp 2, pp 2", "vllm", "0.12", "fp8", 2, 2};
  const auto said = [](const AssignedSegment& segment) {
    return command_of(
        parse_command("c", "{engine_backend}-{engine_version} {precision} {tp} {pp} {attention_dp}")
            .value(),
        segment, 0, 0);
  };
  EXPECT_THAT(said(one), ElementsAre("vllm-0.12", "fp8", "2", "2", "0"));
  EXPECT_THAT(said(kSegment), ElementsAre("-", "", "0", "0", "0"));
}

TEST(WorkerCommand, splits_like_a_shell) {
  EXPECT_THAT(command("a  'b c'\td\"e 'f'\"\\ g '' \"\\\"\\\\\\n\" 'x\\y' $HOME;|"),
              ElementsAre("a", "b c", "de 'f' g", "", "\"\\\\n", "x\\y", "$HOME;|"));
}

// A backslash at the very end, and one before the last character.
TEST(WorkerCommand, splits_to_the_end) {
  EXPECT_THAT(command("a b\\"), ElementsAre("a", "b\\"));
  EXPECT_THAT(command("a \\'"), ElementsAre("a", "'"));
  EXPECT_THAT(command("a \"\\\"\""), ElementsAre("a", "\""));
}

TEST(WorkerCommand, refuses_what_it_cannot_mean) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "empty"},
      {" \n ", "empty"},
      {"'' a", "empty"},
      {"a 'b", "quote is not closed"},
      {"a \"b", "quote is not closed"},
      {"a {serivce}", "unknown placeholder '{serivce}'; did you mean 'service'?"},
      {"a {", "'{' without '}'"},
      {"a {index}}", "a single '}'"},
      {std::string("a \0b", 4), ""},
      {"a \xff", ""}};
  for (const auto& [text, message] : cases) {
    const Result<CommandTemplate> parsed = parse_command("--command", text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_THAT(parsed.error().message, HasSubstr(message));
    EXPECT_EQ(parsed.error().context, "--command");
  }
}

// Whatever words there are: quoted one way or the other, they come back.
RC_GTEST_PROP(WorkerCommand, quoting_keeps_words, ()) {
  const auto words = *rc::gen::container<std::vector<std::string>>(rc::gen::nonEmpty(
      rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab '\"\\{}$")))));
  RC_PRE(!words.empty());
  std::string text;
  for (const std::string& word : words) {
    const bool single = *rc::gen::arbitrary<bool>();
    text += single ? " '" : " \"";
    for (const char c : word) {
      if (c == '{' || c == '}') text += c;
      if (single && c == '\'') text += "'\\'";
      if (!single && (c == '"' || c == '\\')) text += '\\';
      text += c;
    }
    text += single ? '\'' : '"';
  }
  const Result<CommandTemplate> parsed = parse_command("c", text);
  RC_ASSERT(parsed.has_value());
  RC_ASSERT(command_of(*parsed, kSegment, 0, 0) == words);
}

}  // namespace
}  // namespace partita::actuate
