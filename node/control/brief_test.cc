// The state of large nodes: how long it is, how it grows, that nothing is lost on the way.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "control/snapshot.h"

namespace partita::control {
namespace {

constexpr std::size_t kMost = 300'000;

std::string uuid_of(const char* kind, int n) {
  char text[64];
  std::snprintf(text, sizeof text, "%s-%08x-89a8-4773-808f-52ee256de%03x", kind, n, n & 0xfff);
  return text;
}

plan::PlannedInstance planned(const ServiceNow& service, int start) {
  return {{"1g.10gb", start}, service.name, 8, 2, Rps{service.is.can_carry_rps}, {}};
}

ChangeNow change_to(const Snapshot& s, long number) {
  ChangeNow change;
  change.number = number;
  change.cause = "the rate of service-0001 rose";
  change.plan = *s.plan;
  change.explanation.assign(20, std::string(200, 'x'));
  for (const actuate::AssignedSegment& one : s.assignment.segments) {
    const actuate::Place place{one, 0, one.gpu_uuid};
    const actuate::Segment segment{one.service, one.batch, one.processes, one.throughput_rps};
    change.change.keep.push_back({place, 1, one.device, segment, true, {{4711, "partita"}}});
    actuate::Step step;
    step.place = place;
    step.segment = segment;
    for (int i = 0; i < 3; ++i) change.change.steps.push_back(step);
  }
  return change;
}

constexpr std::int64_t kNow = 1'700'000'000'000;

ServiceNow service_of(int i, bool served) {
  char name[32];
  std::snprintf(name, sizeof name, "service-%04d", i);
  ServiceNow one;
  one.name = name;
  one.model = "resnet50";
  one.slo = Millis{200};
  one.rate = Rps{20.0 + i % 7};
  if (served) {
    const double rate = 21.0 + i / 7.0;
    one.rate_rps = rate;
    one.forecast_rps = one.planned_rps = rate * 1.1;
    one.forecast_low_rps = rate * 0.9;
    one.forecast_high_rps = rate * 1.3;
    one.is.can_carry_rps = rate * 1.7;
    one.is.asked_rps = rate;
    one.is.answered_rps = rate * 0.99;
    one.is.verdict = Standing::serves;
    one.segments = 1;
    one.ready_workers = 2;
    one.p99_ms = 100.0 / 7;
    one.attainment = 1 - 1.0 / (700 + i);
    one.watts = 100.0 / 3;
    one.energy_j = 1e6 / 7;
  } else {
    one.is.verdict = Standing::down;
    one.is.asked_rps = 20 + i / 7.0;
    one.is.why = "nothing is planned for " + one.name +
                 ": not enough GPUs: service-0448 0 of 20 req/s, service-0449 0 of 21 req/s, "
                 "service-0450 0 of 22 req/s and 549 more; " +
                 fmt::format("{:.4g}", one.is.asked_rps) + " req/s are asked for";
  }
  one.is.as_of_ms = kNow - (i % 100 == 0 ? 900 : 500);
  one.is.service = one.name;
  one.is.since_ms = kNow - 1000 * i;
  return one;
}

GpuNow gpu_of(const device::GpuState& gpu) {
  GpuNow now{.index = gpu.index, .uuid = gpu.uuid, .model = gpu.model};
  telemetry::GpuSample& sample = now.sample.emplace();
  sample.index = gpu.index;
  sample.uuid = gpu.uuid;
  sample.model = gpu.model;
  sample.compute_slices = 7;
  sample.power = sample.power_average = Watts{300.0 / 7};
  sample.energy = Joules{123456.7};
  sample.power_limit = Watts{400};
  sample.temperature = Celsius{41.5};
  sample.sm_clock = sample.memory_clock = Mhz{1410};
  sample.activity = {.graphics_engine = 1.0 / 3, .sm = 1.0 / 3, .dram = 1.0 / 3};
  return now;
}

// Slice `k` of the last GPU, and what runs there.
void add_slice(Snapshot& s, int k) {
  device::GpuState& gpu = s.state.gpus.back();
  telemetry::GpuSample& sample = *s.gpus.back().sample;
  const int n = 7 * gpu.index + k;
  const ServiceNow& service =
      s.services[static_cast<std::size_t>(n % static_cast<int>(s.services.size()))];
  device::Instance one;
  one.profile = "1g.10gb";
  one.start = k;
  one.size = one.gpcs = 1;
  one.profile_id = 19;
  one.gi_id = 7 + k;
  one.compute = {{0, 1, uuid_of("MIG", n)}};
  one.holders = {{40'000 + n, "partita worker"}};
  sample.instances.push_back({.gi_id = one.gi_id,
                              .uuid = one.uuid(),
                              .profile = one.profile,
                              .compute_slices = 1,
                              .memory_slices = 1,
                              .activity = sample.activity,
                              .memory_used = Mib{8123}});
  sample.processes.push_back({40'000 + n, one.gi_id, Mib{8000}});
  s.assignment.segments.push_back({one, {service.name, 8, 2}, one.uuid(), gpu.uuid});
  s.plan->gpus.back().instances.push_back(planned(service, k));
  gpu.instances.push_back(std::move(one));
}

// A node of A100s in seven slices each; the services beyond the slices are not served. Everything
// is measured, with all the digits of doubles.
Snapshot node_of(int gpus, int services) {
  Snapshot s;
  s.version = 12;
  s.node_version = 3;
  s.time_ms = kNow;
  s.node = "node-17";
  s.doing = "nothing to do";
  for (int i = 0; i < services; ++i) s.services.push_back(service_of(i, i < 7 * gpus));
  s.plan.emplace().gpu_model = "A100-80GB";
  for (int g = 0; g < gpus; ++g) {
    device::GpuState& gpu = s.state.gpus.emplace_back();
    gpu.index = g;
    gpu.uuid = uuid_of("GPU", g);
    gpu.model = "A100-80GB";
    s.gpus.push_back(gpu_of(gpu));
    s.plan->gpus.push_back(plan::PlannedGpu{g, gpu.model, {}});
    for (int k = 0; k < 7; ++k) add_slice(s, k);
  }
  std::ranges::sort(s.assignment.segments, {}, &actuate::AssignedSegment::device);
  s.current = change_to(s, 9);
  s.last = change_to(s, 8);
  BatchTask task;
  task.name = "tokenise-the-corpus";
  s.batch.tasks.assign(500, task);
  return s;
}

TEST(Brief, OneThousandServicesOn64GpusAreAtMost300KB) {
  const Snapshot node = node_of(64, 1000);
  ASSERT_TRUE(is_large(node));
  const std::string text = snapshot_json(brief_of(node));
  EXPECT_LE(text.size(), kMost);
  EXPECT_GT(snapshot_json(node).size(), 3 * kMost);  // what is apart
  RecordProperty("bytes", static_cast<int>(text.size()));
}

TEST(Brief, ItGrowsWithTheServicesAndNotWithTheirProduct) {
  const std::size_t one = snapshot_json(brief_of(node_of(64, 1000))).size();
  EXPECT_LE(snapshot_json(brief_of(node_of(64, 2000))).size(), 2.1 * static_cast<double>(one));
  EXPECT_LE(snapshot_json(brief_of(node_of(128, 2000))).size(), 2.1 * static_cast<double>(one));
}

TEST(Brief, WhatIsNotLargeIsWholeAndShortEnough) {
  Snapshot node = node_of(8, static_cast<int>(kWholeRows) - 56);
  EXPECT_FALSE(is_large(node));
  EXPECT_LE(snapshot_json(node).size(), kMost);
  node.services.emplace_back().name = "z";
  EXPECT_TRUE(is_large(node));
}

TEST(Brief, ItIsReadAsItWasWritten) {
  for (const Snapshot& node : {node_of(1, 9), node_of(64, 1000)}) {
    const Snapshot brief = brief_of(node);
    const auto again = parse_snapshot("s", snapshot_json(brief));
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_EQ(*again, brief);
    EXPECT_EQ(parse_snapshot("s", snapshot_json(node)).value(), node);
    EXPECT_EQ(brief.services.back().is.why, node.services.back().is.why);
  }
}

TEST(Brief, ReasonsThatSeveralHaveStandOnce) {
  const std::string text = snapshot_json(brief_of(node_of(64, 1000)));
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find("not enough GPUs", at)) != text.npos; ++at) ++found;
  EXPECT_EQ(found, 1u);
  Snapshot odd;  // names and reasons that look like each other
  odd.left_out = {"state"};
  for (const char* name : {"", "a", "ab", "{service}", "b"})
    for (const char* why : {"", "a waits", "for a: none; 3 come", "; ", "{asked} a", "0 {asked} 0 ",
                            "{service} waits", "ab", "{service}{service}", "x"}) {
      ServiceNow& one = odd.services.emplace_back();
      one.name = name;
      one.is.service = name;
      one.is.why = why;
    }
  EXPECT_EQ(parse_snapshot("s", snapshot_json(odd)).value(), odd);
}

TEST(Brief, AReasonThatIsNotThereIsRefused) {
  std::string text = snapshot_json(brief_of(node_of(64, 1000)));
  const std::size_t at = text.find("\"reason\":0");
  ASSERT_NE(at, text.npos);
  text.replace(at, 10, "\"reason\":9");
  EXPECT_FALSE(parse_snapshot("s", text));
}

TEST(Brief, WithTheNodeItShowsWhatRunsWhere) {
  const Snapshot node = node_of(64, 1000);
  Snapshot brief = brief_of(node);
  device::Occupants occupants;
  for (const actuate::AssignedSegment& one : node.assignment.segments)
    occupants[one.device] = {one.service, one.batch, one.processes};
  const auto read = device::parse_state("n", device::state_json(node.state, occupants));
  ASSERT_TRUE(read) << to_string(read.error());
  complete(brief, read->state, read->occupants);
  EXPECT_EQ(brief.state, node.state);
  EXPECT_EQ(brief.assignment, node.assignment);
  ASSERT_EQ(brief.gpus.size(), 64u);
  const telemetry::InstanceSample& one = brief.gpus[5].sample->instances[3];
  EXPECT_EQ(one.uuid, node.gpus[5].sample->instances[3].uuid);
  EXPECT_EQ(one.compute_slices, 1);
  EXPECT_DOUBLE_EQ(*one.activity.sm, 0.333);
}

TEST(Brief, WhatIsMeasuredKeepsItsDigits) {
  Snapshot node = node_of(64, 1000);
  node.services[0].is.asked_rps = 123456.789;
  node.services[1].is.asked_rps = 0.00012344;
  node.services[2].attainment = 0.9899999;  // below its 99 %, and so it stays
  node.services[3].rate = Rps{1.0 / 3};     // as the services file says
  const Snapshot brief = brief_of(node);
  EXPECT_EQ(brief.services[0].is.asked_rps, 123500.0);
  EXPECT_EQ(brief.services[1].is.asked_rps, 0.0001234);
  EXPECT_EQ(brief.services[2].attainment, 0.98999);
  EXPECT_EQ(brief.services[3].rate.value, 1.0 / 3);
}

}  // namespace
}  // namespace partita::control
