#include "serve/demo_serve.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "act/gateway_state.h"
#include "act/workers_state.h"
#include "base/child.h"
#include "base/processes.h"
#include "command.h"
#include "llm/points.h"
#include "plan/terms.h"
#include "profile/readers.h"
#include "serve/onnx/models.h"
#include "serve/worker/cpu_list.h"
#include "serve/worker/ort_library.h"

namespace partita::cli {
namespace {

// Without any progress: a machine that is busy may take as long as it likes.
constexpr std::int64_t kPatience = 60'000'000'000;
constexpr int kMostRestarts = 3;  // of a worker

constexpr long kTicksOfProgress = 10;  // who only looks at a clock now and then uses less

// Of a processor, as /proc/PID/stat says: fields 14 and 15, counted behind the name.
long ticks_in(const std::string& stat) {
  const std::vector<std::string> fields = split(stat.substr(stat.rfind(')') + 1), ' ');
  const auto field = [&](std::size_t i) {
    return i < fields.size() ? parse_number<long>(fields[i]).value_or(0) : 0;
  };
  return field(12) + field(13);  // the first is empty
}

std::size_t ready_in(const actuate::GatewayState& state) {
  return static_cast<std::size_t>(std::ranges::count(state.workers, actuate::WorkerReadiness::ready,
                                                     [](const auto& one) { return one.state; }));
}

// What demos of serving share: this program run as people would type it, in a folder of the demo's,
// on a simulated GPU whose units are this machine's cores; a gateway and a supervisor that end with
// the demo.
class DemoCircle {
 public:
  using Words = std::vector<std::string>;
  static constexpr std::int64_t kMs = 1'000'000;

  // `name`: of the command, for refusals; `folder` as it is shown.
  DemoCircle(Context& context, std::string name, std::string folder)
      : context_(context),
        name_(std::move(name)),
        shown_(std::move(folder)),
        folder_(std::filesystem::absolute(shown_)) {}

 protected:
  std::string in(const std::string& name) const { return (folder_ / name).string(); }
  // a file of an earlier run
  void forget(const std::string& name) const {
    std::error_code ignored;
    std::filesystem::remove_all(folder_ / name, ignored);
  }
  void headline(const std::string& text) {
    const Painter painter(context_.colour);
    say(context_, fmt::format("\n{}\n\n", painter.bold(fmt::format("{}. {}", ++step_, text))));
  }
  Error refusal(const std::string& why) const { return {ErrorCode::environment, why, name_}; }

  static Result<Child> launch(const Words& words, const std::string& output) {
    ChildSpec spec{.program = kOwnProgram, .argv = {"partita"}, .output = output};
    spec.argv.insert(spec.argv.end(), words.begin(), words.end());
    return Child::start(spec);
  }
  // Shows a command as one would type it, and starts it; command() waits for its end, must(): which
  // is to be 0.
  Result<Child> begin(const Words& words, const std::string& output = {}) {
    const Painter painter(context_.colour);
    say(context_, painter.dim(fmt::format("$ partita {}", joined(shortened(words), " "))) + "\n");
    return launch(words, output);
  }
  Result<int> command(const Words& words, const std::string& output = {}) {
    auto child = TRY(begin(words, output));
    return child.wait();
  }
  Result<void> must(const Words& words, const std::string& output = {}) {
    const int status = TRY(command(words, output));
    if (status != 0) return failed(refusal(fmt::format("`{}` ended with {}", words[0], status)));
    return {};
  }

  // An empty node with one GPU of this model, for everything that is started.
  Result<void> clean_node(const std::string& gpu_model) {
    forget("state");
    forget("node.state");
    TRY(context_.files.make_directories(in("state")));
    const std::string node =
        fmt::format("gpus: [{{model: {}, count: 1, mig: true}}]\nstate: {}\nspeed: 0\n", gpu_model,
                    in("node.state"));
    ::setenv("PARTITA_SIM", in("node.yaml").c_str(), 1);
    ::setenv("PARTITA_STATE_DIR", in("state").c_str(), 1);
    return context_.files.write_atomic(in("node.yaml"), node);
  }
  // A gateway, a supervisor with this command, and plan.json applied: once so many workers are
  // ready, url() is where they serve.
  Result<void> begin_serving(int port, const std::string& worker, std::size_t workers) {
    gateway_.emplace(
        TRY(launch({"gateway", "--http", fmt::format("127.0.0.1:{}", port)}, in("gateway.log"))));
    workers_.emplace(TRY(launch({"workers", "--command", worker}, in("workers.log"))));
    TRY(must({"apply", in("plan.json"), "--driver", "sim"}, in("apply.log")));
    TRY(until_ready(workers));
    url_ = TRY(listening_at());
    return {};
  }
  Result<void> until_ready(std::size_t workers) {
    Progress progress = begin_progress();
    bool failing = false;
    while (gateway_->runs() && workers_->runs() && !failing) {
      const Result<std::string> text = context_.files.read(actuate::gateway_path(in("state")));
      if (text) {
        const auto state = actuate::parse_gateway("gateway.json", *text);
        if (state && ready_in(*state) >= workers) return {};
      }
      std::vector<Pid> starting;
      if (const auto started = context_.files.read(actuate::workers_path(in("state"))))
        if (const auto state = actuate::parse_workers("workers.json", *started))
          for (const actuate::WorkerRecord& worker : state->workers) {
            if (worker.pid != 0) starting.push_back(worker.pid);
            failing = failing || worker.given_up || worker.restarts > kMostRestarts;
          }
      if (!goes_on(progress, starting)) break;
      context_.clock.sleep_ns(20 * kMs);
    }
    return failed(
        refusal("no worker became ready; see " + shown_ + "/gateway.log and state/worker-logs"));
  }
  // Whoever waits for processes to be there waits as long as they get on: use time of a processor.
  struct Progress {
    std::int64_t until = 0;  // without any more of it
    std::string seen = {};
  };
  Progress begin_progress() const { return {.until = context_.clock.now_ns() + kPatience}; }
  bool goes_on(Progress& progress, const std::vector<Pid>& processes) const {
    std::string now;
    for (const Pid pid : processes) {
      const Result<std::string> text = context_.files.read(fmt::format("/proc/{}/stat", pid));
      now += fmt::format("{} {};", pid, text ? ticks_in(*text) / kTicksOfProgress : 0);
    }
    const std::int64_t time = context_.clock.now_ns();
    if (std::exchange(progress.seen, now) != now) progress.until = time + kPatience;
    return time < progress.until;
  }
  const std::string& url() const { return url_; }
  Exit end(bool held) {
    gateway_->terminate();
    gateway_->wait();
    workers_->terminate();
    workers_->wait();
    say(context_, held
                      ? "every service held its objective\n"
                      : "a service missed its objective: this machine was too busy for the demo\n");
    return held ? Exit::done : Exit::no;
  }

  Context& context_;

 private:
  // Paths below the folder, as they would be typed.
  Words shortened(Words words) const {
    const std::string whole = folder_.string();
    for (std::string& word : words) {
      for (std::size_t at = word.find(whole); at != word.npos; at = word.find(whole, at + 1))
        word.replace(at, whole.size(), shown_);
      if (word.find(' ') != word.npos) word = "'" + word + "'";
    }
    return words;
  }
  // The gateway's first line says where it listens.
  Result<std::string> listening_at() {
    const std::string log = TRY(context_.files.read(in("gateway.log")));
    const std::size_t begin = log.rfind("listening at ");
    if (begin == log.npos) return failed(refusal("the gateway does not listen"));
    const std::size_t from = begin + 13;
    return log.substr(from, log.find(',', from) - from);
  }

  std::string name_, shown_;
  std::filesystem::path folder_;
  int step_ = 0;
  std::string url_;
  std::optional<Child> gateway_, workers_;
};

struct ModelsFlags {
  std::string folder;
  std::uint64_t seed = 1;
};

Result<Exit> write_models(Context& context, const ModelsFlags& flags) {
  TRY(context.files.make_directories(flags.folder));
  const std::pair<std::string, serve::OnnxGraph> models[] = {
      {"mlp", serve::onnx_mlp({}, flags.seed)},
      {"cnn", serve::onnx_cnn({}, flags.seed)},
      {"transformer", serve::onnx_transformer({}, flags.seed)}};
  for (const auto& [name, graph] : models) {
    const std::string path = fmt::format("{}/{}.onnx", flags.folder, name);
    const std::string bytes = graph.bytes();
    TRY(context.files.write_atomic(path, bytes));
    say(context, fmt::format("{}  {} KiB\n", path, (bytes.size() + 1023) / 1024));
  }
  return Exit::done;
}

constexpr double kMostOfAUnit = 0.25;  // gateway and load generator need the cores, too

// What is promised for a model; the rates are lowered on a slow machine.
const plan::Terms kMlp{"mlp", "mlp", {300}, {100}}, kCnn{"cnn", "cnn", {50}, {200}};

struct CircleFlags {
  std::string folder;
  int port = 0;
  std::uint64_t seed = 1;
};

class ServeDemo : DemoCircle {
 public:
  ServeDemo(Context& context, const CircleFlags& flags)
      : DemoCircle(context, "demo serve", flags.folder), flags_(flags) {}

  Result<Exit> run() {
    TRY(prepare());
    TRY(measure());
    TRY(plan_for({kMlp}, "plan.json"));
    TRY(serve());
    const auto moved = TRY(load_while_moving());
    const auto grown = TRY(load_both());
    headline("Stop");
    return end(moved && grown);
  }

 private:

  Result<void> prepare() {
    if (serve::usable_cpus().size() < 2)
      return failed(refusal("needs two cores, one for each of its services"));
    TRY(clean_node("CPU-2"));
    forget("profile.csv");
    real_ = serve::OrtLibrary::load(serve::onnxruntime_places(own_program())).has_value();
    if (!real_)
      say(context_,
          "left out: real models, because ONNX Runtime is not here "
          "(tools/get_onnxruntime gets it); workers that only take time stand in\n");
    if (!real_) return {};
    headline("Two small models, made here");
    return must({"demo", "models", in("models")});
  }

  Result<void> measure() {
    headline("What they do on one core of this machine, measured with the real worker");
    for (const plan::Terms& model : {kMlp, kCnn}) {
      Words words = {"profile", "measure"};
      if (real_) {
        words.insert(words.end(), {"--model", in(fmt::format("models/{}.onnx", model.name))});
      } else {
        words.insert(words.end(), {"--null", "--name", model.name});
        for (const char* word : {"--batch-us", "500", "--item-us", "200"})
          words.push_back(fmt::format("--worker-flag={}", word));
      }
      words.insert(words.end(), {"--instances", "1", "--batches", "1,4,8", "--point-time", "700ms",
                                 "--precision", "10", "-o", in(fmt::format("{}.csv", model.name))});
      forget(fmt::format("{}.csv", model.name));
      TRY(must(words));
    }
    return join_profiles();
  }

  // Both models in one file, and rates that one core can carry beside everything else.
  Result<void> join_profiles() {
    std::string all;
    for (const plan::Terms& model : {kMlp, kCnn}) {
      const std::string path = in(fmt::format("{}.csv", model.name));
      const std::string text = TRY(context_.files.read(path));
      all += all.empty() ? text : text.substr(text.find('\n') + 1);
    }
    TRY(context_.files.write_atomic(in("profile.csv"), all));
    const auto table = TRY(profile::parse_native_csv(in("profile.csv"), all));
    for (const plan::Terms& model : {kMlp, kCnn}) {
      double most = 0;
      for (const profile::ProfilePoint& point : table.at(model.name).points)
        most = std::max(most, point.throughput.value);
      rates_[model.name] =
          std::max(1.0, std::floor(std::min(model.rate.value, kMostOfAUnit * most)));
    }
    return {};
  }

  Result<void> plan_for(const std::vector<plan::Terms>& models, const std::string& plan) {
    if (plan == "plan.json") headline("A plan, judged");
    std::string text = "services:\n";
    for (const plan::Terms& model : models)
      text += fmt::format("  - {{name: {0}, model: {0}, rate_rps: {1:g}, slo_ms: {2:g}}}\n",
                          model.name, rates_[model.name], model.slo.value);
    say(context_, text + "\n");
    TRY(context_.files.write_atomic(in("services.yaml"), text));
    Words words = {"plan",  "--services", in("services.yaml"), "--profiles", in("profile.csv"),
                   "--gpu", "CPU-2",      "--max-gpus",        "1"};
    if (plan != "plan.json") words.insert(words.end(), {"--current", in("moved.json")});
    words.insert(words.end(), {"--format", "json", "-o", in(plan)});
    return must(words);
  }

  Result<void> serve() {
    headline("Gateway, workers, and the plan applied");
    const std::string worker = real_ ? "--model " + in("models") + "/{service}.onnx"
                                     : std::string("--null --batch-us 500 --item-us 200");
    TRY(begin_serving(flags_.port,
                      "'" + own_program() + "' worker " + worker +
                          " --service {service} --batch {batch} --instance {profile}@{start}",
                      1));
    say(context_, fmt::format("serving at {0}; try  curl {0}/v2/models/{1}\n", url(), kMlp.name));
    return {};
  }

  Words load_words(const char* duration, const std::string& plan) const {
    return {"load",   "--url",     url(),        "--services",      in("services.yaml"),
            "--plan", in(plan),    "--profiles", in("profile.csv"), "--duration",
            duration, "--require", "0.99",       "--seed",          std::to_string(flags_.seed)};
  }

  // True: every service held.
  Result<bool> load_while_moving() {
    headline("Traffic, and meanwhile the service moves to the other core");
    const Words words = load_words("7s", "plan.json");
    auto load = TRY(begin(words));
    context_.clock.sleep_ns(2'000 * kMs);
    // The same plan with its one instance at the other place.
    const std::string plan = TRY(context_.files.read(in("plan.json")));
    std::string moved = plan;
    const std::size_t start = moved.find("\"start\": 0");
    if (start != moved.npos) moved.replace(start, 10, "\"start\": 1");
    TRY(context_.files.write_atomic(in("moved.json"), moved));
    auto apply = TRY(launch({"apply", in("moved.json"), "--driver", "sim"}, in("apply.log")));
    const int applied = apply.wait();
    const int status = load.wait();
    if (applied != 0)
      return failed(refusal("the move failed; see " + flags_.folder + "/apply.log"));
    say(context_, "\nmoved while it served: the new worker was ready before the old one left\n");
    return status == 0;
  }

  Result<bool> load_both() {
    headline("A second service, planned beside the first");
    TRY(plan_for({kMlp, kCnn}, "both.json"));
    TRY(must({"apply", in("both.json"), "--driver", "sim"}, in("apply.log")));
    TRY(until_ready(2));
    const int status = TRY(command(load_words("6s", "both.json")));
    return status == 0;
  }

  const CircleFlags& flags_;
  bool real_ = false;
  std::map<std::string, double> rates_;
};

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

class LlmDemo : DemoCircle {
 public:
  LlmDemo(Context& context, const CircleFlags& flags)
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
    const auto build = std::filesystem::path(own_program()).parent_path().parent_path();
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
          "exec node '{}/server.mjs' --addon '{}' --model '{}' --name {} --port {} --units {}",
          tools_, addon_, model_file(model), model.name, port, place);
    return fmt::format(
        "exec '{}' engine --model {} --listen 127.0.0.1:{} --step-tokens 256 --step-cost {}",
        own_program(), model.name, port, model.cost);
  }

  Result<void> measure() {
    headline("What they do on one core of this machine");
    for (const DemoLlm& model : kLlms) {
      const std::string log_name = fmt::format("{}.log", model.name), log = in(log_name);
      forget(log_name.c_str());  // an earlier demo's: its first line has another port
      auto running = TRY(Child::start(
          {.argv = {"sh", "-c", engine(model, "0", "1u@0")}, .called = "node", .output = log}));
      const auto there = TRY(listening(running, log));
      Words words = split(
          fmt::format("profile measure --openai {} --name {} --told system={} --told profile=1u "
                      "--told tp=1 --told step_tokens=256 --told kv_tokens=32768 --token-shapes {} "
                      "--in-flight {} -o",
                      there, model.name, kUnits, kShapes, kInFlight),
          ' ');
      words.push_back(in("points.csv"));
      TRY(must(words));
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
    const auto all = TRY(read_as(context_.files, in("points.csv"), llm::parse_points));
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
        "  - {{name: {0}, kind: llm, model: {0}, rate_rps: {1:.2g}, slo: {{ttft_ms: {2:.0f}, "
        "tpot_ms: {3:.0f}, percentile: 95}}, tokens: {{in: {{mean: {4}, cv: 0.3}}, out: {5}}}}}\n",
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
        own_program());
    TRY(context_.files.write_atomic(in("worker.sh"), script));
    return begin_serving(flags_.port,
                         fmt::format("sh '{}' {{service}} {{port}} {{profile}}@{{start}} {{batch}}",
                                     in("worker.sh")),
                         std::size(kLlms) + 1);
  }

  const CircleFlags& flags_;
  bool real_ = false;
  std::string addon_, tools_;
};

template <class Demo>
Command circle(CLI::App& demo, const char* name, const char* about, const char* examples) {
  auto [command, flags] = adding<CircleFlags>(demo, name, about);
  flags->folder = fmt::format("build/demo-{}", name);
  takes(*command, "--folder", preset(flags->folder), "--port", within(flags->port, 0, 65535),
        "--seed", seeded(flags->seed));
  const auto run = [](Context& context, const CircleFlags& its) {
    return Demo(context, its).run();
  };
  return runs(command, flags, run, examples);
}

}  // namespace

Command add_demo_models(CLI::App& demo) {
  auto [command, flags] = adding<ModelsFlags>(
      demo, "models", "Write small ONNX models (an MLP, a CNN, a transformer) with seeded weights");
  command->add_option("DIR", flags->folder, "Where to")->type_name("DIR")->required();
  takes(*command, "--seed", seeded(flags->seed));
  return runs(command, flags, write_models, "partita demo models build/models");
}

Command add_demo_serve(CLI::App& demo) {
  return circle<ServeDemo>(demo, "serve",
                           "Measure, plan, serve and move under load, on this machine's cores",
                           "partita demo serve\npartita demo serve --port 8000");
}

Command add_demo_llm(CLI::App& demo) {
  return circle<LlmDemo>(demo, "llm",
                         "Measure, plan and serve language models on this machine's cores",
                         "tools/get_llm_engine; partita demo llm");
}

}  // namespace partita::cli
