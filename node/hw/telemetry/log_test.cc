#include "hw/telemetry/log.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

namespace partita::telemetry {
namespace {

Sample full() {
  Sample s{.at = Seconds{1732284000.1234567}};
  GpuSample g{.index = 2, .uuid = "GPU-1f", .model = "H100-80GB-SXM5", .compute_slices = 7};
  g.power = Watts{345.678};
  g.power_average = Watts{340};
  g.energy = Joules{123456789.125};
  g.power_limit = Watts{700};
  g.temperature = Celsius{61};
  g.memory_temperature = Celsius{-3.5};
  g.sm_clock = Mhz{1980};
  g.memory_clock = Mhz{2619};
  g.throttle = {"hw_thermal", "sw_power_cap"};
  g.activity.graphics_engine = 0.1 + 0.2;
  InstanceSample i{.gi_id = 1, .uuid = "MIG-7", .profile = "3g.40gb"};
  i.compute_slices = 3;
  i.memory_slices = 4;
  i.activity = {.graphics_engine = 1,
                .sm = 0.5,
                .occupancy = 1.0 / 3,
                .tensor = 0.25,
                .fp64 = 0,
                .fp32 = 5e-324,
                .fp16 = 0.1,
                .integer = 0.2,
                .dram = 0.7};
  i.memory_used = Mib{1234.5};
  g.instances = {i, {.gi_id = 9, .compute_slices = 1, .memory_slices = 1}};
  g.processes = {{.pid = 17, .gi_id = 1, .memory = Mib{99.5}}, {.pid = 18, .memory = Mib{1}}};
  s.gpus = {{.index = 0}, g};
  return s;
}

// What read_log says of one good line before and this text after it.
std::string refusal(const std::string& line) {
  const auto log = read_log(write_line({.at = Seconds{1}}) + line + "\n", "f.jsonl");
  return log ? "read" : to_string(log.error());
}

bool refused(const std::string& line, const std::string& why) {
  const std::string said = refusal(line);
  const bool ok = said.starts_with("f.jsonl:2: ") && said.find(why) != std::string::npos;
  if (!ok) ADD_FAILURE() << line << "\nsays: " << said;
  return ok;
}

TEST(TelemetryLog, LineReadsBackBitForBit) {
  const std::string line = write_line(full());
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto log = read_log(line, "f");
  ASSERT_TRUE(log) << to_string(log.error());
  ASSERT_EQ(log->size(), 1u);
  EXPECT_EQ(log->front(), full());
  EXPECT_EQ(write_line(log->front()), line);
}

TEST(TelemetryLog, WhatIsNotKnownIsNotWritten) {
  EXPECT_EQ(write_line({.at = Seconds{1.5}, .gpus = {{.index = 0}}}),
            "{\"at_s\": 1.5, \"gpus\": [{\"index\": 0}]}\n");
}

// Older versions wrote so of boards without work.
TEST(TelemetryLog, AGpuThatRestsIsNotSlowedDown) {
  const auto log = read_log(R"({"at_s": 1, "gpus": [{"index": 0, "throttle": ["gpu_idle"]}, )"
                            R"({"index": 1, "throttle": ["gpu_idle", "hw_thermal"]}]})",
                            "f");
  ASSERT_TRUE(log) << to_string(log.error());
  EXPECT_EQ(log->front().gpus[0].throttle, std::vector<std::string>{});
  EXPECT_EQ(log->front().gpus[1].throttle, std::vector<std::string>{"hw_thermal"});
}

RC_GTEST_PROP(TelemetryLog, AnyShareAndTimeReadsBack, (std::uint32_t a, std::uint32_t b)) {
  Sample s = full();
  s.at = Seconds{a * 7.3 + b / 4294967296.0};
  s.gpus[1].activity.sm = b / 4294967295.0;
  s.gpus[1].energy = Joules{a / 3.0};
  const auto log = read_log(write_line(s), "f");
  RC_ASSERT(log.has_value());
  RC_ASSERT(log->front() == s);
}

TEST(TelemetryLog, BlankLinesAndCarriageReturnsCountAsLines) {
  const auto log = read_log(
      "\r\n" + write_line({.at = Seconds{1}}) + "  \n{\"at_s\": 2, \"gpus\": []}\r\n", "f");
  ASSERT_TRUE(log) << to_string(log.error());
  EXPECT_EQ(log->size(), 2u);
  const auto bad = read_log("\n\n{\"at_s\": -1, \"gpus\": []}", "f");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().context, "f:3");
}

// Wherever the writing of the last line ended, the lines before it are read.
TEST(TelemetryLog, ATornEndIsLeftOut) {
  const std::string whole = write_line({.at = Seconds{1}}), last = write_line(full());
  for (std::size_t bytes = 0; bytes < last.size() - 1; ++bytes) {
    const std::string text = whole + last.substr(0, bytes);
    EXPECT_EQ(torn_end(text), last.substr(0, bytes));
    const auto log = read_log(text, "f");
    ASSERT_TRUE(log) << to_string(log.error());
    EXPECT_EQ(log->size(), 1u);
  }
  EXPECT_EQ(torn_end(whole + last.substr(0, last.size() - 1)), "");
  refused(last.substr(0, 30), "JSON");  // not at the end
  EXPECT_FALSE(read_log(last.substr(0, 30), "f"));
}

TEST(TelemetryLog, RefusesWhatIsNoSample) {
  refused("[]", "JSON object");
  refused("gpus: []", "JSON object");
  refused("{\"at_s\": 2, \"gpus\": [", "JSON");
  refused("{\"at_s\": 2}", "gpus");
  refused("{\"at_s\": 2, \"gpus\": [], \"gpu\": 1}", "gpu");
  refused("{\"at_s\": 2, \"gpus\": [{\"index\": 0.5}]}", "index");
  EXPECT_FALSE(read_log("", "f"));
  EXPECT_FALSE(read_log("\n\n", "f"));
}

TEST(TelemetryLog, RefusesWhatPhysicsDoesNotAllow) {
  const auto gpu = [](const std::string& fields) {
    return "{\"at_s\": 2, \"gpus\": [{\"index\": 0, " + fields + "}]}";
  };
  refused(gpu("\"power_w\": -1"), "power_w");
  refused(gpu("\"power_w\": 0"), "power_w");              // a missing reading
  refused(gpu("\"power_average_w\": 65000"), "power");    // milliwatts
  refused(gpu("\"temperature_c\": 330"), "temperature");  // kelvin
  refused(gpu("\"sm_clock_mhz\": 1980000"), "sm_clock");  // kHz
  refused(gpu("\"energy_j\": -5"), "energy");
  refused(gpu("\"activity\": {\"sm\": 35}"), "sm");  // per cent
  refused(gpu("\"activity\": {\"sm\": -0.1}"), "sm");
  refused(gpu("\"throttle\": [\"b\", \"a\"]"), "sorted");
  refused("{\"at_s\": 1732284000123, \"gpus\": []}", "at_s");  // milliseconds
  refused("{\"at_s\": 1, \"gpus\": []}", "not after");
  refused("{\"at_s\": 2, \"gpus\": [{\"index\": 1}, {\"index\": 1}]}", "sorted by index");
  const std::string slices = ", \"compute_slices\": 4, \"memory_slices\": 4}";
  refused(gpu("\"compute_slices\": 7, \"instances\": [{\"gi_id\": 1" + slices + ", {\"gi_id\": 2" +
              slices + "]"),
          "8 compute slices, the GPU 7");
  refused(gpu("\"instances\": [{\"gi_id\": 2" + slices + ", {\"gi_id\": 1" + slices + "]"),
          "sorted by gi_id");
  refused(gpu("\"processes\": [{\"pid\": 2, \"memory_mib\": 5e9}]"), "memory_mib");
  refused(gpu("\"processes\": [{\"pid\": 2, \"memory_mib\": 5}, {\"pid\": 2, \"memory_mib\": 5}]"),
          "sorted by pid");
}

// Two samples, `seconds` apart, with these counters: the refusal, or nothing.
std::string counters(double first, double second, double seconds) {
  const auto at = [](double time, double energy) {
    return write_line({.at = Seconds{time}, .gpus = {{.index = 0, .energy = Joules{energy}}}});
  };
  const auto log = read_log(at(1, first) + at(1 + seconds, second), "f");
  return log ? "" : to_string(log.error());
}

TEST(TelemetryLog, EnergyCounterGrowsOrStartsAnew) {
  EXPECT_EQ(counters(5e6, 5e6 + 700 * 60, 60), "");
  EXPECT_EQ(counters(5e6, 5e6, 60), "");
  EXPECT_EQ(counters(5e6, 300 * 60, 60), "") << "the driver was loaded again";
  EXPECT_NE(counters(5e6, 4e6, 60).find("f:2: GPU 0: energy counter fell"), std::string::npos);
  EXPECT_NE(counters(5e6, 5e6 + 350e3 * 60, 60).find("millijoules"), std::string::npos);
}

TEST(TelemetryLog, GapsInCountersAreBridged) {
  const Sample with{.at = Seconds{1}, .gpus = {{.index = 0, .energy = Joules{100}}}};
  const Sample without{.at = Seconds{2}, .gpus = {{.index = 0}}};
  const Sample far{.at = Seconds{3}, .gpus = {{.index = 0, .energy = Joules{1e9}}}};
  EXPECT_FALSE(read_log(write_line(with) + write_line(without) + write_line(far), "f"));
}

}  // namespace
}  // namespace partita::telemetry
