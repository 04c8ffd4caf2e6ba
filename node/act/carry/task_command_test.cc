#include "act/carry/task_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::carry {
namespace {

using testing::HasSubstr;

exec::Script script() {
  exec::Script script;
  script.gpus = {{.device = 3, .model = "A30-24GB"}};
  script.visits = {{.place = {"1g.6gb", 2}, .size = 1}};
  script.tasks = {{.name = "it's", .command = "run $HOME", .planned = {0, 1'500'000'000}}};
  return script;
}

std::string filled(const std::string& text) {
  exec::Script one = script();
  const auto given = give_commands(one, text);
  return given ? one.tasks[0].command : to_string(given.error());
}

TEST(TaskCommand, FillsPlaceholders) {
  EXPECT_EQ(filled(""), "run $HOME");
  EXPECT_EQ(filled("echo {task} {profile} {gpu} {start} {seconds}"),
            "echo 'it'\\''s' '1g.6gb' 3 2 1.500000000");
  EXPECT_EQ(filled("nice {command}; echo ${PWD} {{x}}"), "nice run $HOME; echo ${PWD} {x}");
  EXPECT_EQ(filled("{gpu}{start}x"), "32x");
  EXPECT_EQ(filled("a}b ${x"), "--command: '{' without '}'; write '{{' for a brace");
  EXPECT_EQ(filled("a}b $x}}"), "a}b $x}");
  exec::Script late = script();
  late.tasks[0].planned = {500'000'000, 1'500'000'000};
  ASSERT_TRUE(give_commands(late, "{seconds}"));
  EXPECT_EQ(late.tasks[0].command, "1.000000000");
}

TEST(TaskCommand, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(filled("{tasks}"), HasSubstr("--command: unknown placeholder '{tasks}'"));
  EXPECT_THAT(filled("{tasks}"), HasSubstr("did you mean 'task'?"));
  EXPECT_THAT(filled("{tasks}"), HasSubstr("; write '{{' for a brace"));
  EXPECT_THAT(filled("{task"), HasSubstr("without '}'"));
  exec::Script one = script();
  one.tasks[0].command.clear();
  EXPECT_THAT(to_string(give_commands(one, "").error()), HasSubstr("has no command in the batch"));
  EXPECT_FALSE(give_commands(one, "nice {command}"));
  EXPECT_TRUE(give_commands(one, "true"));
}

}  // namespace
}  // namespace partita::carry
