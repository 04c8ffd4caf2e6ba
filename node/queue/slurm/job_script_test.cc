#include "queue/slurm/job_script.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/source_text.h"

namespace partita::slurm {
namespace {

JobScript script_of(const std::string& text) {
  const auto script = parse_job_script("job.sh", text, "/home/a/it's.sh");
  EXPECT_TRUE(script) << to_string(script.error());
  return script ? *script : JobScript();
}

bool said(const JobScript& script, std::string_view words) {
  return std::ranges::any_of(script.said, [&](const std::string& sentence) {
    return sentence.find(words) != std::string::npos;
  });
}

TEST(JobScript, WhatTheQueueHasAWordFor) {
  const JobScript script = script_of(source_text("fuzz/corpus/slurm_jobs/job.sh"));
  queue::Spec wanted{.name = "train", .command = {}, .user = {}};
  wanted.command =
      "SLURM_ARRAY_TASK_ID=$((PARTITA_ARRAY_INDEX * 2 + 1)); export SLURM_ARRAY_TASK_ID; "
      "exec /bin/bash -l '/home/a/it'\\''s.sh'";
  wanted.count = 5;
  wanted.time_limit_s = 2.5 * 86'400;
  wanted.profiles = {"3g.40gb"};
  wanted.cpus = 8;
  wanted.ram_gib = 32;
  EXPECT_EQ(script.spec, wanted);  // not --gres=gpu:8, which stands behind a command
  for (const char* words : {"at most 3 tasks", "'afterok:77'", "--output", "--account, --comment",
                            "SLURM_JOB_ID", "srun"})
    EXPECT_TRUE(said(script, words)) << words;
  EXPECT_FALSE(said(script, "SLURM_ARRAY"));
}

TEST(JobScript, GpusAndArrays) {
  const JobScript whole = script_of("#!/bin/sh\n#SBATCH --gpus=a100:2 -a 4 -H\n");
  EXPECT_EQ(whole.spec.gpus, 2);
  EXPECT_TRUE(whole.spec.profiles.empty());
  EXPECT_TRUE(whole.spec.held);
  EXPECT_TRUE(said(whole, "asks for a whole GPU"));
  EXPECT_TRUE(said(whole, "asks for 2 instances"));
  EXPECT_TRUE(said(whole, "no time limit"));
  EXPECT_EQ(
      whole.spec.command,
      "SLURM_ARRAY_TASK_ID=4; export SLURM_ARRAY_TASK_ID; exec /bin/sh '/home/a/it'\\''s.sh'");
  const JobScript list = script_of("#SBATCH --array=1,5,7\n#SBATCH --gres=gpu:1g.10gb,license:2\n");
  EXPECT_EQ(list.spec.count, 3);
  EXPECT_EQ(list.spec.profiles, std::vector<std::string>{"1g.10gb"});
  EXPECT_TRUE(list.spec.command.starts_with("set -- 1 5 7; shift $PARTITA_ARRAY_INDEX; "));
  EXPECT_TRUE(said(list, "gres=license:2"));
  EXPECT_TRUE(said(script_of("echo\n"), "asks for no GPU"));
}

TEST(JobScript, RefusesWhatCannotBeRead) {
  for (const char* line : {"--time=soon", "-n", "-n many", "--mem=lots", "--array=x", "train",
                           "--gres=gpu:0", "--gres=gpu:a:b:1", "-"}) {
    const auto script = parse_job_script("job.sh", std::string("#!/bin/sh\n#SBATCH ") + line, "x");
    ASSERT_FALSE(script) << line;
    EXPECT_EQ(script.error().context, "job.sh:2") << line;
  }
}

TEST(JobScript, TimeLimits) {
  EXPECT_EQ(parse_time_limit("30"), 1'800);
  EXPECT_EQ(parse_time_limit("30:15"), 1'815);
  EXPECT_EQ(parse_time_limit("1:30:00"), 5'400);
  EXPECT_EQ(parse_time_limit("2-0"), 172'800);
  EXPECT_EQ(parse_time_limit("2-12:30"), 217'800);
  EXPECT_EQ(parse_time_limit("2-12:30:10"), 217'810);
  EXPECT_TRUE(std::isinf(*parse_time_limit("UNLIMITED")));
  EXPECT_TRUE(std::isinf(*parse_time_limit("0")));
  for (const char* bad : {"", "x", "1:2:3:4", "-1", "1-", "1.5"})
    EXPECT_FALSE(parse_time_limit(bad)) << bad;
}

}  // namespace
}  // namespace partita::slurm
