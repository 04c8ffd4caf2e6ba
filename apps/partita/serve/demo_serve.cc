#include "serve/demo_serve.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "act/gateway_state.h"
#include "base/append.h"
#include "base/child.h"
#include "base/terminal.h"
#include "flags.h"
#include "profile/readers.h"
#include "serve/worker/cpu_list.h"
#include "serve/worker/ort_library.h"

namespace partita::cli {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kPatience = 30'000 * kMs;  // for something to become ready
constexpr double kMostOfAUnit = 0.25;             // gateway and load generator need the cores, too

// What is promised for a model; the rates are lowered on a slow machine.
struct DemoModel {
  const char* name;
  double rate_rps, slo_ms;
};
constexpr DemoModel kMlp{"mlp", 300, 100}, kCnn{"cnn", 50, 200};

struct ServeFlags {
  std::string folder = "build/demo-serve";
  int port = 0;
  std::uint64_t seed = 1;
};

using Words = std::vector<std::string>;

class ServeDemo {
 public:
  ServeDemo(Context& context, const ServeFlags& flags)
      : context_(context), flags_(flags), folder_(std::filesystem::absolute(flags.folder)) {}

  Result<Exit> run() {
    if (auto ready = prepare(); !ready) return failed(ready.error());
    if (auto done = measure(); !done) return failed(done.error());
    if (auto done = plan_for({kMlp}, "plan.json"); !done) return failed(done.error());
    if (auto done = serve(); !done) return failed(done.error());
    const auto moved = load_while_moving();
    if (!moved) return failed(moved.error());
    const auto grown = load_both();
    if (!grown) return failed(grown.error());
    headline("Stop");
    gateway_->terminate();
    gateway_->wait();
    workers_->terminate();
    workers_->wait();
    const bool held = *moved && *grown;
    say(context_, held
                      ? "every service held its objective\n"
                      : "a service missed its objective: this machine was too busy for the demo\n");
    return held ? Exit::done : Exit::no;
  }

 private:
  std::string in(const std::string& name) const { return (folder_ / name).string(); }

  void headline(const std::string& text) {
    const Painter painter(context_.colour);
    say(context_, fmt::format("\n{}\n\n", painter.bold(fmt::format("{}. {}", ++step_, text))));
  }

  // This program again: what the demo shows is what people would type.
  static Result<Child> launch(const Words& words, const std::string& output) {
    ChildSpec spec{.program = kOwnProgram, .argv = {"partita"}, .output = output};
    spec.argv.insert(spec.argv.end(), words.begin(), words.end());
    return Child::start(spec);
  }
  // Shows a command as one would type it, and starts it.
  Result<Child> begin(const Words& words, const std::string& output = {}) {
    const Painter painter(context_.colour);
    say(context_,
        painter.dim(fmt::format("$ partita {}", joined(shortened(words), " "))) + "\n");
    return launch(words, output);
  }
  // ... and waits for its end.
  Result<int> command(const Words& words, const std::string& output = {}) {
    auto child = begin(words, output);
    if (!child) return failed(child.error());
    return child->wait();
  }
  Result<void> must(const Words& words, const std::string& output = {}) {
    const Result<int> status = command(words, output);
    if (!status) return failed(status.error());
    if (*status != 0)
      return environment_error("demo serve", fmt::format("`{}` ended with {}", words[0], *status));
    return {};
  }
  // Paths below the folder, as they would be typed.
  Words shortened(Words words) const {
    for (std::string& word : words) {
      for (std::size_t at = word.find(folder_.string()); at != word.npos;
           at = word.find(folder_.string(), at + 1))
        word.replace(at, folder_.string().size(), flags_.folder);
      if (word.find(' ') != word.npos) word = "'" + word + "'";
    }
    return words;
  }

  // ---- the steps ----

  Result<void> prepare() {
    if (serve::usable_cpus().size() < 2)
      return environment_error("demo serve", "needs two cores, one for each of its services");
    std::error_code ignored;
    std::filesystem::remove_all(folder_ / "state", ignored);
    std::filesystem::remove(folder_ / "profile.csv", ignored);
    if (auto made = context_.files.make_directories(in("state")); !made)
      return failed(made.error());
    const std::string program = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
    real_ = serve::OrtLibrary::load(serve::onnxruntime_places(program)).has_value();
    if (!real_) {
      say(context_,
          "left out: real models, because ONNX Runtime is not here "
          "(tools/get_onnxruntime gets it); workers that only take time stand in\n");
    }
    const std::string node = fmt::format(
        "gpus: [{{model: CPU-2, count: 1, mig: true}}]\nstate: {}\nspeed: 0\n", in("node.state"));
    std::filesystem::remove(folder_ / "node.state", ignored);
    if (auto written = context_.files.write_atomic(in("node.yaml"), node); !written)
      return failed(written.error());
    ::setenv("PARTITA_SIM", in("node.yaml").c_str(), 1);
    ::setenv("PARTITA_STATE_DIR", in("state").c_str(), 1);
    if (!real_) return {};
    headline("Two small models, made here");
    return must({"demo", "models", in("models")});
  }

  Result<void> measure() {
    headline("What they do on one core of this machine, measured with the real worker");
    for (const DemoModel& model : {kMlp, kCnn}) {
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
      std::error_code ignored;
      std::filesystem::remove(folder_ / fmt::format("{}.csv", model.name), ignored);
      if (auto done = must(words); !done) return done;
    }
    return join_profiles();
  }

  // Both models in one file, and rates that one core can carry beside everything else.
  Result<void> join_profiles() {
    std::string all;
    for (const DemoModel& model : {kMlp, kCnn}) {
      const std::string path = in(fmt::format("{}.csv", model.name));
      const Result<std::string> text = context_.files.read(path);
      if (!text) return failed(text.error());
      all += all.empty() ? *text : text->substr(text->find('\n') + 1);
    }
    if (auto written = context_.files.write_atomic(in("profile.csv"), all); !written)
      return failed(written.error());
    const auto table = profile::parse_native_csv(in("profile.csv"), all);
    if (!table) return failed(table.error());
    for (const DemoModel& model : {kMlp, kCnn}) {
      double most = 0;
      for (const profile::ProfilePoint& point : table->at(model.name).points)
        most = std::max(most, point.throughput.value);
      rates_[model.name] = std::max(1.0, std::floor(std::min(model.rate_rps, kMostOfAUnit * most)));
    }
    return {};
  }

  Result<void> plan_for(const std::vector<DemoModel>& models, const std::string& plan) {
    if (plan == "plan.json") headline("A plan, judged");
    std::string text = "services:\n";
    for (const DemoModel& model : models) {
      text += fmt::format("  - {{name: {0}, model: {0}, rate_rps: {1:g}, slo_ms: {2:g}}}\n",
                          model.name, rates_[model.name], model.slo_ms);
    }
    say(context_, text + "\n");
    if (auto written = context_.files.write_atomic(in("services.yaml"), text); !written)
      return written;
    Words words = {"plan",  "--services", in("services.yaml"), "--profiles", in("profile.csv"),
                   "--gpu", "CPU-2",      "--max-gpus",        "1"};
    if (plan != "plan.json") words.insert(words.end(), {"--current", in("moved.json")});
    words.insert(words.end(), {"--format", "json", "-o", in(plan)});
    return must(words);
  }

  Result<void> serve() {
    headline("Gateway, workers, and the plan applied");
    const std::string address = fmt::format("127.0.0.1:{}", flags_.port);
    auto gateway = launch({"gateway", "--http", address}, in("gateway.log"));
    if (!gateway) return failed(gateway.error());
    gateway_.emplace(*std::move(gateway));
    const std::string worker = real_ ? "--model " + in("models") + "/{service}.onnx"
                                     : std::string("--null --batch-us 500 --item-us 200");
    const std::string program =
        "'" + std::filesystem::read_symlink("/proc/self/exe").string() + "'";
    auto workers = launch({"workers", "--command",
                                     program + " worker " + worker +
                                         " --service {service} --batch {batch} "
                                         "--units {profile}@{start}"},
                                    in("workers.log"));
    if (!workers) return failed(workers.error());
    workers_.emplace(*std::move(workers));
    if (auto done = must({"apply", in("plan.json"), "--driver", "sim"}, in("apply.log")); !done)
      return done;
    if (auto done = until_ready(1); !done) return done;
    const auto url = listening_at();
    if (!url) return failed(url.error());
    url_ = *url;
    say(context_, fmt::format("serving at {0}; try  curl {0}/v2/models/{1}\n", url_, kMlp.name));
    return {};
  }

  Result<void> until_ready(std::size_t workers) {
    const std::int64_t end = context_.clock.now_ns() + kPatience;
    while (context_.clock.now_ns() < end) {
      const Result<std::string> text = context_.files.read(actuate::gateway_path(in("state")));
      if (text) {
        const auto state = actuate::parse_gateway("gateway.json", *text);
        if (state && ready_in(*state) >= workers) return {};
      }
      if (!gateway_->runs()) break;
      context_.clock.sleep_ns(20 * kMs);
    }
    return environment_error("demo serve", "no worker became ready; see " + flags_.folder +
                                               "/gateway.log and state/worker-logs");
  }
  static std::size_t ready_in(const actuate::GatewayState& state) {
    return static_cast<std::size_t>(std::count_if(
        state.workers.begin(), state.workers.end(),
        [](const auto& worker) { return worker.state == actuate::WorkerReadiness::ready; }));
  }

  // The gateway's first line says where it listens.
  Result<std::string> listening_at() {
    const Result<std::string> log = context_.files.read(in("gateway.log"));
    if (!log) return failed(log.error());
    const std::size_t begin = log->rfind("listening at ");
    if (begin == log->npos) return environment_error("demo serve", "the gateway does not listen");
    const std::size_t from = begin + 13;
    return log->substr(from, log->find(',', from) - from);
  }

  Words load_words(const char* duration, const std::string& plan) const {
    return {"load",   "--url",     url_,         "--services",      in("services.yaml"),
            "--plan", in(plan),    "--profiles", in("profile.csv"), "--duration",
            duration, "--require", "0.99",       "--seed",          std::to_string(flags_.seed)};
  }

  // True: every service held.
  Result<bool> load_while_moving() {
    headline("Traffic, and meanwhile the service moves to the other core");
    const Words words = load_words("7s", "plan.json");
    auto load = begin(words);
    if (!load) return failed(load.error());
    context_.clock.sleep_ns(2'000 * kMs);
    // The same plan with its one instance at the other place.
    const Result<std::string> plan = context_.files.read(in("plan.json"));
    if (!plan) return failed(plan.error());
    std::string moved = *plan;
    const std::size_t start = moved.find("\"start\": 0");
    if (start != moved.npos) moved.replace(start, 10, "\"start\": 1");
    if (auto written = context_.files.write_atomic(in("moved.json"), moved); !written)
      return failed(written.error());
    auto apply = launch({"apply", in("moved.json"), "--driver", "sim"}, in("apply.log"));
    if (!apply) return failed(apply.error());
    const int applied = apply->wait();
    const int status = load->wait();
    if (applied != 0)
      return environment_error("demo serve",
                               "the move failed; see " + flags_.folder + "/apply.log");
    say(context_, "\nmoved while it served: the new worker was ready before the old one left\n");
    return status == 0;
  }

  Result<bool> load_both() {
    headline("A second service, planned beside the first");
    if (auto done = plan_for({kMlp, kCnn}, "both.json"); !done) return failed(done.error());
    if (auto done = must({"apply", in("both.json"), "--driver", "sim"}, in("apply.log")); !done)
      return failed(done.error());
    if (auto done = until_ready(2); !done) return failed(done.error());
    const Result<int> status = command(load_words("6s", "both.json"));
    if (!status) return failed(status.error());
    return *status == 0;
  }

  Context& context_;
  const ServeFlags& flags_;
  std::filesystem::path folder_;
  int step_ = 0;
  bool real_ = false;
  std::map<std::string, double> rates_;
  std::string url_;
  std::optional<Child> gateway_, workers_;
};

}  // namespace

Command add_demo_serve(CLI::App& demo) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = demo.add_subcommand(
      "serve", "The whole circle on this machine's cores: measure, plan, serve, move under load");
  flag(*command, "--folder", flags->folder)->capture_default_str();
  within(flag(*command, "--port", flags->port), 0, 65535)->capture_default_str();
  add_seed(*command, flags->seed);
  command->footer("partita demo serve\npartita demo serve --port 8000");
  return {command, [flags](Context& context) { return ServeDemo(context, *flags).run(); }};
}

}  // namespace partita::cli
