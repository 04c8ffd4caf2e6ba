#include "serve/demo_serve.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>

#include "flags.h"
#include "profile/readers.h"
#include "serve/demo_circle.h"
#include "serve/worker/cpu_list.h"
#include "serve/worker/ort_library.h"

namespace partita::cli {
namespace {

constexpr double kMostOfAUnit = 0.25;  // gateway and load generator need the cores, too

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

class ServeDemo : DemoCircle {
 public:
  ServeDemo(Context& context, const ServeFlags& flags)
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
  // ---- the steps ----

  Result<void> prepare() {
    if (serve::usable_cpus().size() < 2)
      return failed(refusal("needs two cores, one for each of its services"));
    TRY(clean_node("CPU-2"));
    forget("profile.csv");
    real_ = serve::OrtLibrary::load(serve::onnxruntime_places(program())).has_value();
    if (!real_) {
      say(context_,
          "left out: real models, because ONNX Runtime is not here "
          "(tools/get_onnxruntime gets it); workers that only take time stand in\n");
    }
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
      forget(fmt::format("{}.csv", model.name));
      if (auto done = must(words); !done) return done;
    }
    return join_profiles();
  }

  // Both models in one file, and rates that one core can carry beside everything else.
  Result<void> join_profiles() {
    std::string all;
    for (const DemoModel& model : {kMlp, kCnn}) {
      const std::string path = in(fmt::format("{}.csv", model.name));
      const std::string text = TRY(context_.files.read(path));
      all += all.empty() ? text : text.substr(text.find('\n') + 1);
    }
    TRY(context_.files.write_atomic(in("profile.csv"), all));
    const auto table = TRY(profile::parse_native_csv(in("profile.csv"), all));
    for (const DemoModel& model : {kMlp, kCnn}) {
      double most = 0;
      for (const profile::ProfilePoint& point : table.at(model.name).points)
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
    if (auto done = begin_serving(flags_.port,
                                  "'" + program() + "' worker " + worker +
                                      " --service {service} --batch {batch} "
                                      "--units {profile}@{start}",
                                  1);
        !done)
      return done;
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

  const ServeFlags& flags_;
  bool real_ = false;
  std::map<std::string, double> rates_;
};

}  // namespace

Command add_demo_serve(CLI::App& demo) {
  auto [command, flags] = adding<ServeFlags>(
      demo, "serve",
      "The whole circle on this machine's cores: measure, plan, serve, move under load");
  flag(*command, "--folder", flags->folder)->capture_default_str();
  within(flag(*command, "--port", flags->port), 0, 65535)->capture_default_str();
  add_seed(*command, flags->seed);
  command->footer("partita demo serve\npartita demo serve --port 8000");
  return {command, [flags](Context& context) { return ServeDemo(context, *flags).run(); }};
}

}  // namespace partita::cli
