// The machine's description: what is read from it, and what is refused where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/source_text.h"
#include "drivers/sim/shared_machine.h"

namespace partita::drivers::sim {
namespace {

using testing::HasSubstr;

Result<MachineDescription> parse(std::string_view text) {
  return parse_machine("machine.yaml", text, hw::builtin_catalogue());
}

constexpr std::string_view kWhole = R"(api_version: partita/v1
kind: Machine
gpus:
  - {model: A100-80GB, count: 2}
  - {model: H200-141GB, mig: false}
state: run/state.json
speed: 0.5
faults:
  - {method: create_instance, call: 3, error: no_room}
  - {call: 9, error: lost, hang_s: 1.5, after_effect: true}
  - {method: destroy_compute, call: 1, dies: true}
instances:
  - {gpu: 0, profile: 3g.40gb, start: 4}
  - {gpu: 1, profile: 7g.79gb, start: 0, whole: false}
processes:
  - {gpu: 0, start: 4, pid: 4711, name: train.py}
  - {gpu: 2, pid: 4712}
)";

TEST(DescriptionTest, ReadsEveryKey) {
  const auto read = parse(kWhole);
  ASSERT_TRUE(read) << to_string(read.error());
  const hw::Catalogue& catalogue = hw::builtin_catalogue();
  const hw::GpuModel *a100 = catalogue.find("A100-80GB"), *h200 = catalogue.find("H200-141GB");
  MachineDescription want;
  want.gpus = {{a100, 2, true}, {h200, 1, false}};
  want.state = "run/state.json";
  want.speed = 0.5;
  want.faults = {{"create_instance", 3, ErrorCode::no_room, 0, false, false},
                 {"", 9, ErrorCode::lost, 1'500'000'000, true, false},
                 {"destroy_compute", 1, ErrorCode::environment, 0, false, true}};
  want.instances = {{{a100->profile_index("3g.40gb"), 4}, 0, true},
                    {{a100->profile_index("7g.80gb"), 0}, 1, false}};
  want.processes = {{0, 4, 4711, "train.py"}, {2, -1, 4712, ""}};
  EXPECT_EQ(*read, want);
}

TEST(DescriptionTest, TheFirstStartHasWhatIsDescribed) {
  const Machine machine = make_machine(*parse(kWhole), "test");
  ASSERT_EQ(machine.gpus().size(), 3u);
  const SimInstance& half = machine.gpus()[0].instances.at(0);
  EXPECT_EQ(half.start, 4);
  EXPECT_EQ(half.compute.at(0).gpcs, 3);
  EXPECT_EQ(machine.gpus()[0].processes.at(0), (SimProcess{4711, "train.py", half.gi_id, 0}));
  EXPECT_TRUE(machine.gpus()[1].instances.at(0).compute.empty());
  EXPECT_FALSE(machine.gpus()[2].mig);
  EXPECT_EQ(machine.gpus()[2].processes.at(0), (SimProcess{4712, "", -1, -1}));
}

TEST(DescriptionTest, TheDocumentsExampleIsRead) {
  const std::string text = source_text("docs/formats.md");
  const std::string open = "```yaml\n";
  const auto begin = text.find(open, text.find("\n## Machine\n")) + open.size();
  const auto read = parse(text.substr(begin, text.find("```", begin) - begin));
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->gpus.at(0).count, 2);
  EXPECT_EQ(read->speed, 0.1);
  EXPECT_EQ(read->processes.at(0).name, "train.py");
  EXPECT_TRUE(read->faults.at(1).dies && read->faults.at(1).after_effect);
}

TEST(DescriptionTest, RefusesWithTheLine) {
  const auto refusal = [](std::string_view text) {
    const auto read = parse(text);
    return read ? std::string("accepted") : to_string(read.error());
  };
  const std::string gpus = "gpus: [{model: A100-80GB, count: 2}, {model: A30-24GB, mig: false}]\n";
  EXPECT_THAT(refusal("speed: 1\n"), HasSubstr("machine.yaml:1"));
  EXPECT_THAT(refusal("gpus: []\n"), HasSubstr("'gpus' is empty"));
  EXPECT_THAT(refusal("gpus:\n- {model: A101}\n"), HasSubstr("machine.yaml:2"));
  EXPECT_THAT(refusal("gpus:\n- {model: A30-24GB, count: 65}\n"), HasSubstr("at most 64"));
  EXPECT_THAT(refusal("gpus:\n- {model: A30-24GB, count: 64}\n- {model: A30-24GB}\n"),
              HasSubstr("machine.yaml:3: more than 64 GPUs"));
  EXPECT_THAT(refusal(gpus + "sped: 2\n"), HasSubstr("machine.yaml:2"));
  EXPECT_THAT(refusal(gpus + "speed: -1\n"), HasSubstr("'speed' is -1, must be at least 0"));
  EXPECT_THAT(refusal(gpus + "faults:\n- {call: 0}\n"), HasSubstr("machine.yaml:3: 'call'"));
  EXPECT_THAT(refusal(gpus + "faults:\n- {call: 1, method: read}\n"), HasSubstr("'method' must"));
  EXPECT_THAT(refusal(gpus + "faults:\n- {call: 1, error: busy}\n"), HasSubstr("in_use, reset"));
  const std::string instances = gpus + "instances:\n- {gpu: 0, profile: 4g.40gb, start: 0}\n";
  EXPECT_THAT(refusal(instances + "- {gpu: 0, profile: 2g.20gb, start: 2}\n"),
              HasSubstr("machine.yaml:4: cannot be there beside the instances above: memory_sl"));
  EXPECT_THAT(refusal(instances + "- {gpu: 0, profile: 2g.20gb, start: 5}\n"),
              HasSubstr("machine.yaml:4: 2g.20gb may start at 0, 2, 4"));
  EXPECT_THAT(refusal(instances + "- {gpu: 0, profile: 2g.10gb, start: 4}\n"),
              HasSubstr("A100-80GB has no profile"));
  EXPECT_THAT(refusal(instances + "- {gpu: 2, profile: 1g.6gb, start: 0}\n"),
              HasSubstr("machine.yaml:4: MIG of GPU 2 is off"));
  EXPECT_THAT(refusal(instances + "- {gpu: 3, profile: 1g.6gb, start: 0}\n"),
              HasSubstr("'gpu' is 3, must be at most 2"));
  EXPECT_THAT(refusal(instances + "processes:\n- {gpu: 0, start: 4, pid: 1}\n"),
              HasSubstr("machine.yaml:5: no whole instance"));
  EXPECT_THAT(refusal(instances + "processes:\n- {gpu: 0, pid: 0}\n"), HasSubstr("'pid' is 0"));
}

}  // namespace
}  // namespace partita::drivers::sim
