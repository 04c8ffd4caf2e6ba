#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/append.h"
#include "flags.h"
#include "llm/points.h"
#include "serve/demo_circle.h"
#include "serve/demo_serve.h"
#include "serve/worker/cpu_list.h"

namespace partita::cli {
namespace {

// Two language models and, on a unit that shares a core with the first, a service that uses little.
struct DemoLlm {
  const char *name, *layers, *width;  // of the model
  int in, out;                        // tokens of its requests, on average
  const char* cost;                   // of a step of what stands in
};
constexpr DemoLlm kLlms[] = {
    {"chat", "4", "512", 48, 24, "step=4,sequence=1.5,prompt_token=0.8"},
    {"assist", "4", "256", 64, 16, "step=2,sequence=0.6,prompt_token=0.3"}};
constexpr char kUnits[] = "CPU-3", kShapes[] = "32/16,96/16,48/32", kInFlight[] = "1,2,6";
constexpr double kShareOfFull = 0.5;   // of what a full engine carries: the cores do more
constexpr double kSlack = 5;           // of what is promised, over what is measured at its fullest
constexpr double kVisionRps = 20, kVisionMs = 100;

struct LlmFlags {
  std::string folder = "build/demo-llm";
  int port = 0;
  std::uint64_t seed = 1;
};

class LlmDemo : DemoCircle {
 public:
  LlmDemo(Context& context, const LlmFlags& flags)
      : DemoCircle(context, "demo llm", flags.folder), flags_(flags) {}

  Result<Exit> run() {
    for (const auto step : {&LlmDemo::prepare, &LlmDemo::make_models, &LlmDemo::measure,
                            &LlmDemo::plan, &LlmDemo::serve})
      TRY((this->*step)());
    headline("Traffic, and what was predicted for it");
    const int load =
        TRY(command({"load", "--url", url(), "--services", in("services.yaml"), "--plan",
                     in("plan.json"), "--profiles", profiles(), "--duration", "30s", "--require",
                     "0.98", "--seed", std::to_string(flags_.seed)}));
    return end(load == 0);
  }

 private:
  std::string profiles() const { return in("points.csv") + "," + in("vision.csv"); }

  Result<void> prepare() {
    if (serve::usable_cpus().size() < 2)
      return failed(refusal("needs two cores, one for each language model"));
    TRY(clean_node(kUnits));
    for (const char* name : {"points.csv", "vision.csv"}) forget(name);
    const auto build = std::filesystem::path(program()).parent_path().parent_path();
    addon_ = (build / "llm_engine").string();
    tools_ = (build.parent_path() / "tools/llm_engine").string();
    real_ = context_.files.exists(addon_ + "/llama-addon.node") &&
            context_.files.exists(tools_ + "/server.mjs");
    if (!real_)
      say(context_,
          "left out: a real engine, because llama.cpp is not here (tools/get_llm_engine gets it, "
          "with npm, from the network); engines that only take time stand in\n");
    return {};
  }

  Result<void> make_models() {
    if (!real_) return {};
    headline("Two language models of random weights, made here");
    for (const DemoLlm& model : kLlms) {
      auto made = TRY(Child::start({.argv = {"node", tools_ + "/make_model.mjs", model_file(model),
                                             "--layers", model.layers, "--width", model.width}}));
      if (made.wait() != 0) return failed(refusal("the model cannot be written"));
      say(context_,
          fmt::format("{}: {} layers of width {}\n", model.name, model.layers, model.width));
    }
    return {};
  }

  std::string model_file(const DemoLlm& model) const {
    return in(std::string(model.name) + ".gguf");
  }

  // What runs an engine of that model, for a shell.
  std::string engine(const DemoLlm& model, const std::string& port,
                     const std::string& place) const {
    if (real_)
      return fmt::format(
          "exec node '{}/server.mjs' --addon '{}' --model '{}' --name {} --port {} "
          "--units {}",
          tools_, addon_, model_file(model), model.name, port, place);
    return fmt::format(
        "exec '{}' engine --model {} --listen 127.0.0.1:{} --step-tokens 256 "
        "--step-cost {}",
        program(), model.name, port, model.cost);
  }

  Result<void> measure() {
    headline("What they do on one core of this machine");
    for (const DemoLlm& model : kLlms) {
      const std::string log_name = fmt::format("{}.log", model.name), log = in(log_name);
      forget(log_name.c_str());  // an earlier demo's: its first line has another port
      auto running = TRY(Child::start(
          {.argv = {"sh", "-c", engine(model, "0", "1u@0")}, .called = "node", .output = log}));
      const auto there = TRY(listening(running, log));
      if (auto done = must({"profile",
                            "measure",
                            "--openai",
                            there,
                            "--name",
                            model.name,
                            "--told",
                            fmt::format("system={}", kUnits),
                            "--told",
                            "profile=1u",
                            "--told",
                            "tp=1",
                            "--told",
                            "step_tokens=256",
                            "--told",
                            "kv_tokens=32768",
                            "--token-shapes",
                            kShapes,
                            "--in-flight",
                            kInFlight,
                            "-o",
                            in("points.csv")});
          !done)
        return done;
      running.terminate();
      running.wait();
    }
    return measure_vision();
  }

  // On a machine that is busy a short look tells nothing: then a longer one.
  Result<void> measure_vision() {
    for (const char* time : {"500ms", "2s", "8s", "30s"}) {
      const int status = TRY(command(
          {"profile", "measure", "--null", "--name", "vision", "--worker-flag=--batch-us",
           "--worker-flag=500", "--worker-flag=--item-us", "--worker-flag=200", "--instances", "1",
           "--batches", "1,4", "--point-time", time, "--precision", "10", "-o", in("vision.csv")}));
      if (status == 0) return {};
      forget("vision.csv");
    }
    return failed(refusal("`profile` measures nothing that is sure: this machine is too busy"));
  }

  // An engine's first line ends in its port.
  Result<std::string> listening(Child& engine, const std::string& log) {
    for (Progress progress = begin_progress();
         engine.runs() && goes_on(progress, {engine.pid()});) {
      const Result<std::string> text = context_.files.read(log);
      const std::size_t end = text && text->starts_with("listening at ") ? text->find('\n') : 0;
      if (end != 0 && end != std::string::npos)
        return "http://127.0.0.1:" + text->substr(0, end).substr(text->find_last_of(": ", end) + 1);
      context_.clock.sleep_ns(50 * kMs);
    }
    return failed(refusal("the engine does not listen; see " + log));
  }

  // A service as the measurements let it be: what a full engine takes, with slack, and a share of
  // the requests that it carries, of those of which it carries least: on a busy machine one point
  // is several times as fast as the next.
  Result<std::string> service_of(const DemoLlm& model) {
    const std::string text = TRY(context_.files.read(in("points.csv")));
    const auto all = TRY(llm::parse_points(in("points.csv"), text));
    double ttft = 0, tpot = 0, fullest = 0, rate = 0;
    for (const llm::Measured& measured : all) {
      if (measured.configuration.model != model.name) continue;
      for (const llm::Point& point : measured.points) {
        ttft = std::max(ttft, point.ttft.value);
        tpot = std::max(tpot, point.tpot.value);
        const double carries = 1e3 * point.concurrency /
                               (point.ttft.value + point.tpot.value * point.shape.tokens_out);
        rate = point.concurrency > fullest    ? carries
               : point.concurrency == fullest ? std::min(rate, carries)
                                              : rate;
        fullest = std::max(fullest, point.concurrency);
      }
    }
    return fmt::format(
        "  - {{name: {0}, kind: llm, model: {0}, rate_rps: {1:.2g}, slo: {{ttft_ms: {2:.2g}, "
        "tpot_ms: {3:.2g}, percentile: 95}}, tokens: {{in: {{mean: {4}, cv: 0.3}}, out: {5}}}}}\n",
        model.name, kShareOfFull * rate, std::ceil(kSlack * ttft), std::ceil(kSlack * tpot),
        model.in, model.out);
  }

  Result<void> plan() {
    headline("A plan for both and an ordinary service, judged");
    std::string text =
        fmt::format("services:\n  - {{name: vision, model: vision, rate_rps: {}, slo_ms: {}}}\n",
                    kVisionRps, kVisionMs);
    for (const DemoLlm& model : kLlms) {
      const auto service = TRY(service_of(model));
      text += service;
    }
    say(context_, text + "\n");
    TRY(context_.files.write_atomic(in("services.yaml"), text));
    const Words words = {"plan",  "--services", in("services.yaml"), "--profiles", profiles(),
                         "--gpu", kUnits,       "--max-gpus",        "1"};
    TRY(must(words));
    Words kept = words;
    kept.insert(kept.end(), {"--format", "json", "-o", in("plan.json")});
    return must(kept);
  }

  // One command for all workers: a script that knows the services.
  Result<void> serve() {
    headline("Gateway, engines, a worker, and the plan applied");
    std::string script = "case \"$1\" in\n";
    for (const DemoLlm& model : kLlms)
      script += fmt::format("{}) {} ;;\n", model.name, engine(model, "\"$2\"", "\"$3\""));
    script += fmt::format(
        "*) exec '{}' worker --null --batch-us 500 --item-us 200 --service \"$1\" --batch \"$4\" "
        ";;\n"
        "esac\n",
        program());
    TRY(context_.files.write_atomic(in("worker.sh"), script));
    return begin_serving(flags_.port,
                         fmt::format("sh '{}' {{service}} {{port}} {{profile}}@{{start}} {{batch}}",
                                     in("worker.sh")),
                         std::size(kLlms) + 1);
  }

  const LlmFlags& flags_;
  bool real_ = false;
  std::string addon_, tools_;
};

}  // namespace

Command add_demo_llm(CLI::App& demo) {
  auto [command, flags] = adding<LlmFlags>(
      demo, "llm",
      "The whole circle of language models on this machine's cores: measure, plan, serve");
  flag(*command, "--folder", flags->folder)->capture_default_str();
  within(flag(*command, "--port", flags->port), 0, 65535)->capture_default_str();
  add_seed(*command, flags->seed);
  command->footer("tools/get_llm_engine; partita demo llm");
  return {command, [flags](Context& context) { return LlmDemo(context, *flags).run(); }};
}

}  // namespace partita::cli
