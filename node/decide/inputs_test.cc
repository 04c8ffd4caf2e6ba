// The loaders: paths on a Files door to problems, and to the judge's verdict on plan files.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_writer.h"
#include "base/rng.h"
#include "decide/batch_inputs.h"
#include "decide/fleet.h"
#include "decide/input.h"
#include "decide/layout_file.h"
#include "decide/serving.h"
#include "decide/serving_inputs.h"
#include "decide/traces.h"
#include "device/node_forms.h"
#include "forms/batch_forms.h"
#include "forms/serving_forms.h"
#include "planners/batch/scheduler.h"

namespace partita::decide {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr char kCsv[] =
    "model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib\n"
    "lm,1,1,1,100,10,\n";
constexpr char kServices[] = "services:\n- {name: chat, model: lm, rate_rps: 60, slo_ms: 100}\n";

class Inputs : public testing::Test {
 protected:
  Inputs() {
    files.content["services.yaml"] = kServices;
    files.content["profiles.csv"] = kCsv;
    inputs.services = "services.yaml";
    inputs.profiles = "profiles.csv";
    inputs.gpu = "A100-80GB";
    inputs.rule = "execution:0.5";
  }
  plan::ServingPlan planned() {
    const auto problem = load_problem(files, inputs);
    return **make_plan(**find_planner("", "exact"), *problem, {})->plan;
  }
  // What is said of inputs that are refused.
  std::string refusal() {
    const auto problem = load_problem(files, inputs);
    return problem ? "" : to_string(problem.error());
  }
  MemoryFiles files;
  ProblemFiles inputs;
};

TEST_F(Inputs, ReadServicesAndProfiles) {
  const auto problem = load_problem(files, inputs);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->services.at(0).name, "chat");
  EXPECT_EQ(problem->fleet.at(0).gpu.name, "A100-80GB");
  EXPECT_EQ(problem->fleet[0].profiles.at("lm").points.size(), 1u);
  EXPECT_EQ(problem->rule, (plan::SloRule{plan::SloRule::Kind::execution, 0.5}));
  EXPECT_EQ(problem->max_processes, plan::kDefaultMaxProcesses);
}

TEST_F(Inputs, ReadADirectoryOfParvaGpuFiles) {
  files.content["dir/lm.csv"] =
      "Mig instance,Batch size,Workload Number,Throughput,Latency\n1,4,2,50,0.08\n";
  files.content["dir/notes.txt"] = "nothing";
  inputs.profiles = "dir";
  const auto problem = load_problem(files, inputs);
  ASSERT_TRUE(problem);
  const profile::ProfilePoint& point = problem->fleet[0].profiles.at("lm").points.at(0);
  EXPECT_EQ(point.throughput.value, 100);  // of both processes
  EXPECT_EQ(point.latency.value, 80);
}

TEST_F(Inputs, RefuseWithTheirFlag) {
  inputs.services = "gone.yaml";
  EXPECT_THAT(refusal(), HasSubstr("--services gone.yaml: "));
  inputs.services = "services.yaml";
  inputs.gpu = "A100-8GB";
  EXPECT_THAT(refusal(), HasSubstr("--gpu: unknown GPU model"));
  inputs.gpu.clear();
  EXPECT_THAT(refusal(), HasSubstr("--gpu is required: "));
  inputs.gpu = "A100-80GB";
  inputs.rule = "slow";
  EXPECT_THAT(refusal(), HasSubstr("--slo-rule: "));
  inputs.rule.clear();
  files.content["services.yaml"] = "services:\n- {name: a, model: ml, rate_rps: 1, slo_ms: 1}\n";
  EXPECT_THAT(refusal(), HasSubstr("services.yaml:2: service 'a': there is no profile of model "
                                   "'ml' (there are lm)"));
  files.content["profiles.csv"] = std::string(kCsv) + "bert,1,1,1,100,10,\nvgg16,1,1,1,100,10,\n";
  files.content["services.yaml"] = "services:\n- {name: a, model: bret, rate_rps: 1, slo_ms: 1}\n";
  EXPECT_THAT(refusal(), HasSubstr("'bret'; did you mean 'bert'? (there are bert, lm, vgg16)"));
  files.content["profiles.csv"] =
      "system,backend,version,model,precision,isl,osl,concurrency,tp,pp,attention_dp,moe_tp,moe_ep,"
      "ttft_ms,tpot_ms\nH100-80GB-SXM5,vllm,1,org/m,fp8,100,100,1,1,,,,,10,5\n";
  const std::string llm = ", rate_rps: 1, slo: {tpot_ms: 9}, tokens: {in: 10, out: 10}}\n";
  files.content["services.yaml"] = "services:\n- {name: a, kind: llm, model: org/n" + llm;
  EXPECT_THAT(refusal(), HasSubstr("of it; did you mean 'org/m'? (there are org/m) (docs"));
  files.content["services.yaml"] = "services:\n- {name: a, kind: llm, model: org/m" + llm;
  EXPECT_THAT(refusal(), HasSubstr("(points of one configuration are there on H100-80GB-SXM5: 1 "
                                   "at most)"));
  files.content["services.yaml"] = "services:\n- {name: a, model: lm, rate_rps: 1, slo_ms: 50}\n";
  EXPECT_THAT(refusal(), HasSubstr("'lm', nor of any other that is no language model"));
  files.content["profiles.csv"] = kCsv;
  files.content["services.yaml"] = "services:\n- {name: a, model: lm, rate_rps: 1, slo_ms: 0.05}\n";
  EXPECT_EQ(refusal(),
            "services.yaml:2: service 'a': slo_ms 0.05 is 1/200 of the fastest batch of lm, 10 ms; "
            "in seconds? Then write slo_ms: 50");
  inputs.profiles = "empty/";
  EXPECT_FALSE(refusal().empty());
}

TEST_F(Inputs, ReadAFleetBesideItsProfiles) {
  files.content["sub/fleet.yaml"] =
      "gpus:\n- {gpu: A30, profiles: p.csv, count: 3, price: 0.5}\n"
      "- {gpu: A100-80GB, profiles: p.csv}\n";
  files.content["sub/p.csv"] = kCsv;
  inputs.fleet = "sub/fleet.yaml";
  const auto problem = load_problem(files, inputs);
  ASSERT_TRUE(problem);
  ASSERT_EQ(problem->fleet.size(), 2u);
  EXPECT_EQ(problem->fleet[0].gpu.name, "A30-24GB");
  EXPECT_EQ(problem->fleet[0].count, 3);
  EXPECT_EQ(problem->fleet[0].price, 0.5);
  EXPECT_EQ(problem->fleet[1].count, std::nullopt);
  files.content["sub/fleet.yaml"] =
      "gpus:\n- {gpu: A30, profiles: p.csv}\n- {gpu: A30-24GB, profiles: p.csv}\n";
  EXPECT_EQ(refusal(), "sub/fleet.yaml:3: GPU model 'A30-24GB' is listed twice");
  EXPECT_EQ(to_string(parse_fleet("f", "gpus: []").error()), "f:1: 'gpus' is empty");
}

TEST_F(Inputs, AFleetMayBeSaidByNodes) {
  const auto gpus =
      parse_fleet("f",
                  "gpus:\n- {gpu: A, profiles: p, count: 24, node_gpus: 6, price: 2}\n"
                  "- {gpu: B, profiles: q, node_gpus: 4}\n");
  const auto nodes = parse_fleet("f",
                                 "nodes:\n- {model: A, profiles: p, count: 4, gpus: 6, price: 2}\n"
                                 "- {model: B, profiles: q, gpus: 4}\n");
  const auto both =
      parse_fleet("f",
                  "nodes:\n- {model: B, profiles: q, gpus: 4}\n"
                  "gpus:\n- {gpu: A, profiles: p, count: 24, node_gpus: 6, price: 2}\n");
  ASSERT_TRUE(gpus && nodes && both);
  EXPECT_EQ(*gpus, *nodes);
  EXPECT_EQ(both->size(), 2u);
  const auto refusal = [](const char* text) { return to_string(parse_fleet("f", text).error()); };
  EXPECT_EQ(refusal("gpus:\n- {gpu: A, profiles: p}\nnodes:\n- {model: A, profiles: p, gpus: 8}"),
            "f:4: gpu 'A' is already in line 2");
  const auto linked =
      parse_fleet("f", "nodes:\n- {model: A, profiles: p, count: 3, gpus: 8, nvlink: 4}\n");
  ASSERT_TRUE(linked);
  EXPECT_EQ(linked->front().count, 24);
  EXPECT_EQ(linked->front().node_gpus, 8);
  EXPECT_EQ(linked->front().nvlink, 4);
  EXPECT_EQ(refusal("nodes:\n- {model: A, profiles: p, gpus: 6, nvlink: 4}"),
            "f:2: its 6 GPUs are not in domains of 4 (nvlink)");
  const auto uneven = parse_fleet(
      "f", "nodes:\n- {model: A, profiles: p, count: 2, gpus: 5, nvlink: [[0, 1, 2], [3, 4]]}\n");
  ASSERT_TRUE(uneven);
  EXPECT_THAT(uneven->front().domains, ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4)));
  for (const char* lists : {"[[0, 1]]", "[[1, 0], [2]]", "[[0, 1, 2], []]", "[0, 1, 2]"})
    EXPECT_EQ(
        refusal(
            fmt::format("nodes:\n- {{model: A, profiles: p, count: 2, gpus: 3, nvlink: {}}}", lists)
                .c_str()),
        "f:2: 'nvlink' must list all 3 GPUs of a node in their order");
  EXPECT_EQ(refusal("nodes:\n- {model: A, profiles: p, gpus: 2, nvlink: [[0, 1]]}"),
            "f:1: lists in 'nvlink' need a count, and GPUs of one model alone");
  EXPECT_EQ(refusal("nodes:\n- {model: A, profiles: p}"), "f:2: 'gpus' is missing");
  EXPECT_EQ(refusal("nodes:\n- {model: A, profiles: p, gpus: 8, count: 200000}"),
            "f:2: 'count' is 200000, must be at most 125000");
}

// Laws, a plan made from them, and the same plan from a file that does not say so.
TEST_F(Inputs, SayWhatOfAPlanIsPredicted) {
  files.content["profiles.csv"] =
      R"({"api_version": "partita/v1", "kind": "PerformanceLaws", "gpu_model": "A30-24GB",
      "laws": [{"model": "lm", "launch_ms": 3, "contention_ms": 0, "host_ms": 0,
      "compute_sm_ms": 56, "serial_ms": 0, "traffic_mb": 0, "ramp_requests": 0, "sharpness": 2,
      "process_mib": 1000, "request_mib": 100}]})";
  plan::ServingPlan plan = planned();
  const plan::PlannedInstance& first = plan.gpus[0].instances[0];
  EXPECT_TRUE(first.predicted);
  EXPECT_EQ(first.learned_on, "A30-24GB");
  EXPECT_TRUE(plan.services[0].predicted);
  plan::ServingPlan silent = plan;
  silent.services[0].predicted = false;
  for (plan::PlannedGpu& gpu : silent.gpus)
    for (plan::PlannedInstance& one : gpu.instances) {
      one.predicted = false;
      one.learned_on.clear();
    }
  const auto judged = judge_plan(files, "plan.json", silent, inputs);
  ASSERT_TRUE(judged && judged->verdict);
  EXPECT_EQ(**judged->verdict, plan);
}

TEST_F(Inputs, LoadTracesBesideTheServices) {
  files.content["sub/services.yaml"] =
      "trace: day.csv\nservices:\n- {name: chat, model: lm, slo_ms: 100}\n"
      "- {name: mail, model: lm, slo_ms: 100, rate_rps: 9}\n"
      "- {name: news, model: lm, slo_ms: 100, trace: {file: day.csv, row: chat}}\n"
      "- {name: logs, model: lm, slo_ms: 100, rate_rps: 5, arrivals: {cv: 2}}\n";
  files.content["sub/day.csv"] = "name,1,2\nchat,60,120\nmail,1,1\n";
  inputs.services = "sub/services.yaml";
  const auto problem = load_problem(files, inputs);
  ASSERT_TRUE(problem) << to_string(problem.error());
  const auto& services = problem->services;
  const auto counts = [&](std::size_t s) {
    return std::get<plan::TraceArrivals>(services[s].traffic.arrivals).trace->per_minute;
  };
  EXPECT_THAT(counts(0), ElementsAre(60, 120));
  EXPECT_THAT(counts(1), ElementsAre(1, 1));
  EXPECT_EQ(counts(2), counts(0));
  EXPECT_EQ(services[0].rate, Rps{1.5});  // its trace's mean
  EXPECT_EQ(services[1].rate, Rps{9});
  EXPECT_EQ(services[2].rate, Rps{1.5});

  files.content["sub/day.csv"] = "name,1,2\nchat,60,120\nmail,x,1\n";
  EXPECT_EQ(refusal(), "sub/day.csv:3: minute 1: 'x' is no number of requests");
  files.content["sub/day.csv"] = "at_s\n1\n3\n4\n";  // one for all
  EXPECT_EQ(refusal(),
            "sub/day.csv:1: no row is named 'chat'; a trace is {file: FILE, row: NAME} "
            "when its row has another name than its service");
  files.content.erase("sub/day.csv");
  EXPECT_THAT(refusal(), HasSubstr("sub/services.yaml:1: trace sub/day.csv: "));
}

// Nodes of a fleet do not have the files. Of ten thousand requests as many as may be written have
// the same means, as good as, and what they have is read back as it is.
TEST_F(Inputs, TracesOfLengthsAreWrittenOut) {
  std::string trace = "at_s,prompt_tokens,output_tokens\n";
  Rng rng(1);
  double in = 0, out = 0;
  constexpr int kRequests = 10'000;
  for (int i = 0; i < kRequests; ++i) {
    const auto prompt = 1 + rng.below(3000), answer = 1 + rng.below(1 + prompt / 4);
    in += static_cast<double>(prompt) / kRequests;
    out += static_cast<double>(answer) / kRequests;
    trace += fmt::format("{},{},{}\n", i, prompt, answer);
  }
  files.content["sub/t.csv"] = trace;
  files.content["sub/few.csv"] = "at_s,prompt_tokens,output_tokens\n0,7,3\n1,5,2\n";
  const std::string text =
      "services:\n- {name: a, kind: llm, model: lm, rate_rps: 1, slo: {ttft_ms: 9},\n"
      "   tokens: {trace: t.csv}}\n"
      "- {name: b, kind: llm, model: lm, rate_rps: 1, slo: {ttft_ms: 9},\n"
      "   tokens: {trace: few.csv}}\n";
  auto document = parse_document("sub/services.yaml", text);
  ASSERT_TRUE(document);
  const auto written = write_lengths(files, *document);
  ASSERT_TRUE(written && *written);
  files.content.erase("sub/t.csv");
  const auto services = forms::parse_services("s", JsonWriter().value(document->root).take());
  ASSERT_TRUE(services) << to_string(services.error());
  const plan::MeanLength mean = plan::mean_of(*services->at(0).tokens);
  EXPECT_NEAR(mean.in, in, 0.001 * in);
  EXPECT_NEAR(mean.out, out, 0.005 * out);
  EXPECT_LT(JsonWriter().value(document->root).take().size(), 16'384U);
  const auto requests = [&](std::size_t s) {
    return *std::get<plan::TokenTrace>(services->at(s).tokens->lengths).requests;
  };
  EXPECT_EQ(requests(0).size(), kPartsWritten * kPartsWritten);
  EXPECT_THAT(requests(1), UnorderedElementsAre(plan::TracedRequest{.in = 7, .out = 3},
                                                plan::TracedRequest{.in = 5, .out = 2}));
  EXPECT_FALSE(*write_lengths(files, *document));  // none is left

  auto missing = parse_document("sub/services.yaml", text);
  EXPECT_THAT(to_string(write_lengths(files, *missing).error()),
              HasSubstr("sub/services.yaml:3: trace sub/t.csv: "));
}

// A trace's mean is what a step's own clients ask for; its pipeline's requests come on top.
TEST_F(Inputs, AStepMayHaveATrace) {
  inputs.rule.clear();
  files.content["day.csv"] = "function,1,2\nchat,60,120\n";
  files.content["services.yaml"] =
      "services:\n- {name: chat, model: lm, slo_ms: 100, trace: day.csv}\n"
      "- name: way\n  rates: [[06:00, 4], [20:00, 2]]\n  slo_ms: 200\n  pipeline:\n    steps:\n"
      "    - {model_name: chat, fan_out: 3, input_map: {x: a}, output_map: {y: b}}\n";
  const auto day = load_problem(files, inputs);
  ASSERT_TRUE(day) << to_string(day.error());
  EXPECT_EQ(day->services[0].rate, Rps{1.5 + 12});
  inputs.at = "21:00";
  const auto evening = load_problem(files, inputs);
  ASSERT_TRUE(evening) << to_string(evening.error());
  EXPECT_EQ(evening->services[0].rate, Rps{1.5 + 6});
  EXPECT_EQ(evening->services[1].rate, Rps{2});
}

TEST_F(Inputs, JudgeAPlanFile) {
  files.content["plan.json"] = forms::plan_json(planned());
  ProblemFiles given = inputs;
  given.gpu.clear();
  given.rule.clear();  // both are the plan's
  const auto judged = load_judged_plan(files, "plan.json", given);
  ASSERT_TRUE(judged);
  EXPECT_TRUE(judged->verdict.has_value());

  files.content["services.yaml"] =
      "services:\n- {name: chat, model: lm, rate_rps: 60, slo_ms: 100, percentile: 90}\n";
  const auto other = load_judged_plan(files, "plan.json", given);
  ASSERT_TRUE(other);
  ASSERT_FALSE(other->verdict);
  EXPECT_EQ(other->verdict.error().violations.front().constraint, "problem_digest");
}

// ---- layouts ----

TEST_F(Inputs, TakeLayoutsByTheirKind) {
  const hw::Catalogue& catalogue = hw::builtin_catalogue();
  const plan::ServingPlan plan = planned();
  files.content["plan.json"] = forms::plan_json(plan);
  EXPECT_EQ(running(*load_layout(files, "--current", "plan.json", catalogue)), plan);

  device::NodeState state;
  state.gpus.resize(2);
  for (int g = 0; g < 2; ++g) {
    device::GpuState& gpu = state.gpus[static_cast<std::size_t>(g)];
    gpu.index = g;
    gpu.uuid = "GPU-" + std::to_string(g);
    gpu.model = "A100-80GB";
    gpu.mig_enabled = true;
    gpu.lost = g == 1;
  }
  for (int i = 0; i < 2; ++i) {
    device::Instance& one = state.gpus[0].instances.emplace_back();
    one.profile = "1g.10gb";
    one.gpcs = one.size = 1;
    one.start = one.gi_id = i;
    one.compute = {{0, 1, "MIG-" + std::to_string(i + 1)}};
  }
  const plan::ServingPlan now = running(device::StateDocument{state, {{"MIG-2", {"chat", 1, 1}}}});
  ASSERT_EQ(now.gpus.size(), 2u);
  ASSERT_EQ(now.gpus[0].instances.size(), 1u);  // nobody knows what runs on the other
  EXPECT_EQ(now.gpus[0].instances[0].start, 1);
  EXPECT_EQ(now.gpus[1].model, "");  // lost: nothing can be kept there

  files.content["state.json"] = device::state_json(state);
  EXPECT_TRUE(std::holds_alternative<device::StateDocument>(
      *load_layout(files, "PLAN", "state.json", catalogue)));
  files.content["other.yaml"] = "kind: Fleet\n";
  EXPECT_EQ(to_string(load_layout(files, "PLAN", "other.yaml", catalogue).error()),
            "other.yaml:1: 'kind' must be ServingPlan or NodeState");
}

TEST_F(Inputs, SayWhenACurrentPlanServesOthers) {
  plan::ServingPlan current = planned();
  const auto problem = load_problem(files, inputs);
  EXPECT_EQ(serves_others(current, *problem), "");
  EXPECT_EQ(serves_others({}, *problem), "");  // an empty node serves nobody else
  current.gpus[0].instances[0].service = "search";
  EXPECT_THAT(serves_others(current, *problem), HasSubstr("none of its services"));
}

// ---- catalogues and batches ----

TEST_F(Inputs, ReadACatalogue) {
  const hw::GpuModel& a30 = *hw::builtin_catalogue().find("A30-24GB");
  files.content["models/a30.json"] = hw::gpu_model_json(a30);
  const auto catalogue = load_catalogue(files, "models");
  ASSERT_TRUE(catalogue);
  EXPECT_EQ(catalogue->gpus.size(), 1u);
  files.content["models/again.json"] = hw::gpu_model_json(a30);
  EXPECT_EQ(to_string(load_catalogue(files, "models").error()),
            "--catalogue models: GPU model 'A30-24GB' is listed twice");
  files.content["none/x.txt"] = "";
  EXPECT_THAT(to_string(load_catalogue(files, "none").error()), HasSubstr("no .json file"));
  EXPECT_EQ(load_catalogue(files, "")->gpus.size(), hw::builtin_catalogue().gpus.size());
}

TEST_F(Inputs, ReadListsOfGpus) {
  const auto gpus = load_gpus(files, {.gpu = "A30:2,A100-80GB,A30", .catalogue = ""});
  ASSERT_TRUE(gpus);
  EXPECT_EQ(gpus->models.size(), 2u);
  EXPECT_THAT(gpus->gpus, ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(load_gpus(files, {.gpu = "A30", .gpus = 3, .catalogue = ""})->gpus,
              ElementsAre(0, 0, 0));
  const auto refusal = [&](const std::string& gpu, int count) {
    const auto list = load_gpus(files, {gpu, count, ""});
    return list ? "" : to_string(list.error());
  };
  EXPECT_THAT(refusal("A30:0", 1), HasSubstr("--gpu: 'A30:0': '0' is not a number of GPUs"));
  EXPECT_THAT(refusal("A30:2", 2), HasSubstr("--gpus: "));
  EXPECT_THAT(refusal("A30:1000,A100-80GB", 1), HasSubstr("at most 1000 GPUs"));
  EXPECT_THAT(refusal("A31", 1), HasSubstr("--gpu: unknown GPU model"));
}

TEST_F(Inputs, JudgeAScheduleFile) {
  files.content["tasks.csv"] = "task,time_s_1g,time_s_2g,time_s_4g\na,8,5,3\nb,8,5,3\n";
  const auto gpus = load_gpus(files, {.gpu = "A30", .catalogue = ""});
  const auto problem = load_batch(files, "tasks.csv", *gpus);
  ASSERT_TRUE(problem);
  const auto outcome = planners::batch::run(*planners::batch::find_scheduler("far"), *problem, {});
  files.content["s.json"] = forms::schedule_json(**verify::judge(*problem, *outcome.schedule));
  EXPECT_TRUE(load_schedule(files, {"s.json", "tasks.csv", ""})->verdict.has_value());
  files.content["tasks.csv"] = "task,time_s_1g,time_s_2g,time_s_4g\na,8,5,3\nb,8,5,2.5\n";
  const auto other = load_schedule(files, {"s.json", "tasks.csv", ""});
  ASSERT_TRUE(other);
  ASSERT_FALSE(other->verdict);
  EXPECT_EQ(other->verdict.error().violations.front().constraint, "problem_digest");
}

}  // namespace
}  // namespace partita::decide
