// The text form of a Machine: what is written is read back, and nothing else is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "drivers/sim/machine.h"

namespace partita::drivers::sim {
namespace {

using testing::HasSubstr;

// Two GPUs with everything that a state can have.
Machine busy_machine() {
  const hw::Catalogue& catalogue = hw::builtin_catalogue();
  Machine machine(
      {{catalogue.find("A100-80GB"), 2, true}, {catalogue.find("H200-141GB"), 1, false}}, "text");
  const int gi = machine.create_instance(0, 4, 4)->value;  // 3g
  EXPECT_TRUE(machine.create_compute(0, gi, 2, 1) && machine.create_compute(0, gi, 1, 0));
  EXPECT_TRUE(machine.create_instance(0, 0, 0));
  EXPECT_TRUE(machine.attach(0, {17, "two \"words\" \\ \x01\xff", gi, 1}));
  EXPECT_TRUE(machine.attach(0, {9, "", -1, -1}));
  EXPECT_TRUE(machine.set_mig_mode(2, true));
  machine.report_xid(2, 31, 3, 0);
  machine.report_xid(2, 48);
  machine.lose(1);
  machine.count_call("create_instance");
  return machine;
}

Result<Machine> read(std::string_view text) {
  return Machine::from_text("state.json", text, hw::builtin_catalogue());
}

TEST(MachineTextTest, GivesTheMachineAgain) {
  const Machine machine = busy_machine();
  const auto again = read(machine.text());
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*again, machine);
  EXPECT_EQ(again->text(), machine.text());
}

TEST(MachineTextTest, GoesOnWhereItWas) {
  Machine machine = busy_machine();
  auto again = read(machine.text());
  for (Machine* one : {&machine, &*again}) {
    EXPECT_EQ(one->create_instance(0, 0, 1)->value, 12);
    EXPECT_EQ(one->create_compute(0, 12, 1, {})->value, 0);
    EXPECT_EQ(one->count_call("create_instance").of_method, 2);
  }
  EXPECT_EQ(*again, machine);
}

TEST(MachineTextTest, RefusesWhatNoMachineWrites) {
  const std::string sound = busy_machine().text();
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string text = sound;
    const auto at = text.find(from);
    EXPECT_NE(at, text.npos) << from << " in\n" << sound;
    const auto machine = read(text.replace(at, from.size(), to));
    return machine ? std::string("accepted") : to_string(machine.error());
  };
  EXPECT_THAT(refusal("\"gi_id\": 13", "\"gi_id\": 12"), HasSubstr("each id once"));
  EXPECT_THAT(refusal("\"gi_id\": 13", "\"gi_id\": 1"), HasSubstr("state.json:"));
  EXPECT_THAT(refusal("\"profile\": \"1g.10gb\", \"start\": 0",
                      "\"profile\": \"4g.40gb\", "
                      "\"start\": 1"),
              HasSubstr("cannot exist together: illegal_start"));
  EXPECT_THAT(refusal("\"profile\": \"1g.10gb\", \"start\": 0",
                      "\"profile\": \"1g.10gb\", "
                      "\"start\": 4"),
              HasSubstr("cannot exist together: memory_slices"));
  EXPECT_THAT(refusal("\"1g.10gb\"", "\"1g.11gb\""), HasSubstr("no such profile"));
  EXPECT_THAT(refusal("\"ci_id\": 1, \"gpcs\": 1", "\"ci_id\": 1, \"gpcs\": 3"),
              HasSubstr("state.json:"));
  EXPECT_THAT(refusal("\"gpcs\": 1, \"start\": 0", "\"gpcs\": 1, \"start\": 2"),
              HasSubstr("share slices"));
  EXPECT_THAT(refusal("\"pid\": 17, \"gi_id\": 1, \"ci_id\": 1",
                      "\"pid\": 17, \"gi_id\": 1, "
                      "\"ci_id\": 2"),
              HasSubstr("not there"));
  EXPECT_THAT(refusal("\"pid\": 17", "\"pid\": 8"), HasSubstr("must ascend"));
  EXPECT_THAT(refusal("\"lost\": false", "\"lost\": true"), HasSubstr("a lost GPU has neither"));
  EXPECT_THAT(refusal("\"mig\": true", "\"mig\": false"), HasSubstr("whose MIG is off"));
  EXPECT_THAT(refusal("A100-80GB", "A100-81GB"), HasSubstr("state.json:8: the catalogue"));
  EXPECT_THAT(refusal("\"seed\": \"", "\"seed\": \"g"), HasSubstr("16 hexadecimal digits"));
  EXPECT_THAT(refusal("SimulatedMachine", "Machine"), HasSubstr("state.json:3"));
}

// Cut off anywhere it is no machine; no byte changed makes a machine that cannot be.
TEST(MachineTextTest, SurvivesAnyDamage) {
  const std::string sound = busy_machine().text();
  const std::size_t last = sound.rfind('}');
  for (std::size_t cut = 0; cut <= last; cut += 7)
    EXPECT_FALSE(read(std::string_view(sound).substr(0, cut)));
  for (std::size_t at = 0; at < last; at += 3) {
    std::string text = sound;
    text[at] = text[at] == '1' ? '7' : '1';
    if (const auto machine = read(text)) {
      for (const SimGpu& gpu : machine->gpus())
        EXPECT_TRUE(hw::conflicts(*gpu.model, gpu.placed()).empty());
      EXPECT_EQ(read(machine->text()).value(), *machine);
    }
  }
}

}  // namespace
}  // namespace partita::drivers::sim
