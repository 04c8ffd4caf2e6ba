#include "device/observe/view.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/split.h"
#include "base/unicode.h"
#include "device/observe/sample_text.h"

namespace partita::observe {
namespace {

telemetry::Sample sample_of(double watts, double busy) {
  telemetry::GpuSample gpu{.index = 0, .uuid = "GPU-1", .model = "H100-80GB-SXM5"};
  gpu.compute_slices = 7;
  gpu.power = Watts{watts};
  gpu.power_limit = Watts{700};
  gpu.energy = Joules{1234567};
  gpu.temperature = Celsius{61};
  gpu.sm_clock = Mhz{1980};
  gpu.throttle = {"sw_power_cap"};
  telemetry::InstanceSample one{.gi_id = 2, .uuid = "MIG-7", .profile = "3g.40gb"};
  one.compute_slices = 3;
  one.activity = {.graphics_engine = busy, .sm = busy, .dram = 0.25};
  gpu.instances = {one};
  gpu.processes = {{.pid = 4711, .gi_id = 2, .memory = Mib{5}}};
  return {.at = Seconds{1}, .gpus = {gpu}};
}

TEST(View, NoLineIsWiderThanTheTerminal) {
  for (const int width : {40, 79, 80, 100, 200}) {
    View view;
    for (int i = 0; i < 300; ++i) view.add(sample_of(100 + i, 0.5));
    for (const std::string& line : split(view.frame({.colour = false, .width = width}), '\n'))
      EXPECT_LE(columns(line), width) << line;
  }
}

TEST(View, SaysWhatRunsAndWhatItTakes) {
  View view;
  view.know({{"MIG-7", {"chat b8×2", Watts{123.4}}}, {"MIG-8", {"other", {}}}});
  view.add(sample_of(300, 0.5));
  for (const int width : {60, 100, 140})
    for (const std::string& line : split(view.frame({.width = width}), '\n'))
      EXPECT_LE(columns(line), width) << line;
  const std::string frame = view.frame({.width = 140});
  EXPECT_NE(frame.find("3g.40gb 2  chat b8×2"), std::string::npos) << frame;
  EXPECT_NE(frame.find("~123 W   50 %"), std::string::npos) << frame;
  EXPECT_EQ(frame.find("other"), std::string::npos);
}

TEST(View, FewLinesWhereThereIsNoRoom) {
  View view;
  view.add(sample_of(300, 0.5));
  const std::string frame = view.frame({.width = 100, .height = 3});
  EXPECT_LE(std::ranges::count(frame, '\n'), 3);
  EXPECT_NE(frame.find("more lines"), std::string::npos);
}

TEST(View, WithoutColourThereAreNoCodes) {
  View view;
  view.add(sample_of(300, 0.5));
  EXPECT_EQ(view.frame({.colour = false}).find('\x1b'), std::string::npos);
  EXPECT_NE(view.frame({.colour = true}).find('\x1b'), std::string::npos);
}

TEST(View, BarsShowShares) {
  View view;
  view.add(sample_of(350, 1.0));
  const std::string frame = view.frame({.colour = false, .width = 100});
  const auto lines = split(frame, '\n');
  const auto hashes = std::ranges::count(lines[1], '#'), dots = std::ranges::count(lines[1], '.');
  EXPECT_EQ(hashes, dots) << "350 of 700 W";
  EXPECT_EQ(std::ranges::count(lines[2], '.') - 1, 0)
      << "3g.40gb is busy all the time: " << lines[2];
  EXPECT_NE(frame.find("sw_power_cap"), std::string::npos);
}

TEST(View, SparklineEndsNow) {
  EXPECT_EQ(sparkline({0, 0.5, 1}, 3), "▁▅█");
  EXPECT_EQ(sparkline({0, 0.5, 1}, 2), "▅█");
  EXPECT_EQ(sparkline({1}, 3), "  █");
  EXPECT_EQ(sparkline({1}, 0), "");
}

TEST(SampleText, TablesSayWhatIsKnown) {
  const std::string text = sample_text(sample_of(345.67, 0.5), {Watts{300}});
  EXPECT_NE(text.find("345.7"), std::string::npos) << text;
  EXPECT_NE(text.find("300.0"), std::string::npos) << text;
  EXPECT_NE(text.find("MIG-7"), std::string::npos) << text;
  EXPECT_EQ(sample_text({}), "no GPU\n");
}

TEST(SampleText, PrometheusHasTheLabelsOfDcgm) {
  const std::string text = prometheus_text(sample_of(345.5, 0.5));
  EXPECT_NE(text.find("partita_gpu_power_watts{gpu=\"0\",UUID=\"GPU-1\","
                      "modelName=\"H100-80GB-SXM5\"} 345.5\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("GPU_I_ID=\"2\",GPU_I_PROFILE=\"3g.40gb\"} 0.25\n"), std::string::npos);
  EXPECT_NE(text.find("# TYPE partita_gpu_energy_joules_total counter\n"), std::string::npos);
  EXPECT_NE(text.find("partita_gpu_throttled{gpu=\"0\",UUID=\"GPU-1\","
                      "modelName=\"H100-80GB-SXM5\"} 1\n"),
            std::string::npos);
  telemetry::Sample odd = sample_of(1, 0);
  odd.gpus[0].model = "a\"b\\c\nd";
  EXPECT_NE(prometheus_text(odd).find("a\\\"b\\\\c"), std::string::npos);
}

}  // namespace
}  // namespace partita::observe
