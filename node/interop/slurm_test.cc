#include "interop/slurm.h"

#include <gtest/gtest.h>

#include <map>

#include "interop/testing/random_geometry.h"

namespace partita::interop {
namespace {

constexpr const char* kMinors =
    "config 1\nmonitor 2\ngpu0/gi2/access 21\ngpu0/gi2/ci0/access 22\ngpu0/gi5/access 48\n"
    "gpu0/gi5/ci0/access 49\n";

// Two instances on GPU 0, a whole GPU 1.
Geometry slurm_small() {
  const hw::GpuModel& a100 = model("A100-80GB");
  Geometry geometry{{{{.index = 0, .model = &a100},
                      true,
                      {slot(a100, "4g.40gb", 0), slot(a100, "1g.10gb+me", 4)}},
                     {{.index = 1, .model = &a100}, false, {}}}};
  for (const int i : {0, 1}) {
    geometry.gpus[0].slots[static_cast<std::size_t>(i)].gi_id = i == 0 ? 2 : 5;
    geometry.gpus[0].slots[static_cast<std::size_t>(i)].ci_id = 0;
  }
  return geometry;
}

std::string slurm_refusal(const Geometry& geometry, const SlurmOptions& options) {
  const Result<std::string> lines = slurm_lines(geometry, options);
  return lines ? std::string("accepted") : to_string(lines.error());
}

TEST(Slurm, WithoutMinors) {
  EXPECT_EQ(*slurm_lines(slurm_small(), {.node_name = "n1"}), R"(# gres.conf
NodeName=n1 AutoDetect=nvml
# slurm.conf: add CPUs, RealMemory and the like to the line
GresTypes=gpu
NodeName=n1 Gres=gpu:1g.10gb+me:1,gpu:4g.40gb:1,gpu:nvidia_a100-sxm4-80gb:1
# or instead of that line, a dynamic node
slurmd -Z -N n1 --conf "Gres=gpu:1g.10gb+me:1,gpu:4g.40gb:1,gpu:nvidia_a100-sxm4-80gb:1"
)");
  EXPECT_EQ(*slurm_lines(slurm_small(), {.part = SlurmPart::dynamic}),
            "slurmd -Z -N gpu0 --conf "
            "\"Gres=gpu:1g.10gb+me:1,gpu:4g.40gb:1,gpu:nvidia_a100-sxm4-80gb:1\"\n");
}

TEST(Slurm, WithMinorsEveryInstanceHasItsDevices) {
  const MigMinors minors = *parse_mig_minors("minors", kMinors);
  EXPECT_EQ(minors.at("monitor"), 2);
  EXPECT_EQ(*slurm_lines(slurm_small(), {.minors = minors, .part = SlurmPart::gres}),
            "NodeName=gpu0 Name=gpu Type=4g.40gb "
            "MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap22"
            "\nNodeName=gpu0 Name=gpu Type=1g.10gb+me "
            "MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap48,/dev/nvidia-caps/nvidia-cap49"
            "\nNodeName=gpu0 Name=gpu Type=nvidia_a100-sxm4-80gb File=/dev/nvidia1\n");
}

TEST(Slurm, WhatItCannotSay) {
  const MigMinors minors = *parse_mig_minors("minors", kMinors);
  Geometry geometry = slurm_small();
  geometry.gpus[0].slots[1].gi_id = 6;
  EXPECT_EQ(slurm_refusal(geometry, {.minors = minors}),
            "GPU 0: 1g.10gb+me at 4: the minor numbers have no gpu0/gi6/access");
  geometry.gpus[0].slots[1].gi_id.reset();
  EXPECT_EQ(slurm_refusal(geometry, {.minors = minors}),
            "GPU 0: 1g.10gb+me at 4 does not exist yet, so it has no device files");
  EXPECT_EQ(slurm_refusal(slurm_small(), {.node_name = "a b"}),
            "--node-name: 'a b' is not a node name");
  EXPECT_EQ(slurm_refusal({}, {}), "there is no instance for Slurm to offer");
  const hw::GpuModel& h100 = model("H100-80GB-SXM5");
  geometry.gpus[1] = {{.index = 1, .model = &h100}, true, {slot(h100, "4g.40gb", 0)}};
  EXPECT_EQ(slurm_refusal(geometry, {}),
            "4g.40gb is a profile of two GPU models of the node; one type of Slurm cannot be both");
}

TEST(Slurm, WrongMinorsAreRefusedWithTheirLine) {
  const std::map<std::string, std::string> wrong{{"", "1"},
                                                 {"config", "1"},
                                                 {"config 1\n 2\n", "2"},
                                                 {"config 1\nmonitor x\n", "2"},
                                                 {"config 1\nmonitor 2 3\n", "2"},
                                                 {"config 1\nmonitor -2\n", "2"},
                                                 {"config 1\nmonitor 99999999999\n", "2"},
                                                 {"config 1\n\nconfig 2\n", "3"}};
  for (const auto& [text, line] : wrong) {
    const Result<MigMinors> minors = parse_mig_minors("minors", text);
    ASSERT_FALSE(minors) << text;
    EXPECT_EQ(minors.error().context, "minors:" + line) << text;
  }
}

}  // namespace
}  // namespace partita::interop
