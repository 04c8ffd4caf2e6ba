#include "serve/demo_circle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "act/gateway_state.h"
#include "act/workers_state.h"
#include "base/append.h"
#include "base/parse_number.h"
#include "base/split.h"
#include "base/terminal.h"

namespace partita::cli {
namespace {

// Without any progress: a machine that is busy may take as long as it likes.
constexpr std::int64_t kPatience = 60'000 * DemoCircle::kMs;
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

}  // namespace

DemoCircle::DemoCircle(Context& context, std::string name, std::string folder)
    : context_(context),
      name_(std::move(name)),
      shown_(std::move(folder)),
      folder_(std::filesystem::absolute(shown_)) {}

std::string DemoCircle::program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).string();
}

void DemoCircle::forget(const std::string& name) const {
  std::error_code ignored;
  std::filesystem::remove_all(folder_ / name, ignored);
}

void DemoCircle::headline(const std::string& text) {
  const Painter painter(context_.colour);
  say(context_, fmt::format("\n{}\n\n", painter.bold(fmt::format("{}. {}", ++step_, text))));
}

Error DemoCircle::refusal(const std::string& why) const {
  return {ErrorCode::environment, why, name_};
}

Result<Child> DemoCircle::launch(const Words& words, const std::string& output) {
  ChildSpec spec{.program = kOwnProgram, .argv = {"partita"}, .output = output};
  spec.argv.insert(spec.argv.end(), words.begin(), words.end());
  return Child::start(spec);
}

Result<Child> DemoCircle::begin(const Words& words, const std::string& output) {
  const Painter painter(context_.colour);
  say(context_, painter.dim(fmt::format("$ partita {}", joined(shortened(words), " "))) + "\n");
  return launch(words, output);
}

Result<int> DemoCircle::command(const Words& words, const std::string& output) {
  auto child = TRY(begin(words, output));
  return child.wait();
}

Result<void> DemoCircle::must(const Words& words, const std::string& output) {
  const int status = TRY(command(words, output));
  if (status != 0) return failed(refusal(fmt::format("`{}` ended with {}", words[0], status)));
  return {};
}

// Paths below the folder, as they would be typed.
DemoCircle::Words DemoCircle::shortened(Words words) const {
  const std::string whole = folder_.string();
  for (std::string& word : words) {
    for (std::size_t at = word.find(whole); at != word.npos; at = word.find(whole, at + 1))
      word.replace(at, whole.size(), shown_);
    if (word.find(' ') != word.npos) word = "'" + word + "'";
  }
  return words;
}

Result<void> DemoCircle::clean_node(const std::string& gpu_model) {
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

Result<void> DemoCircle::begin_serving(int port, const std::string& worker, std::size_t workers) {
  auto gateway =
      TRY(launch({"gateway", "--http", fmt::format("127.0.0.1:{}", port)}, in("gateway.log")));
  gateway_.emplace(std::move(gateway));
  auto supervisor = TRY(launch({"workers", "--command", worker}, in("workers.log")));
  workers_.emplace(std::move(supervisor));
  TRY(must({"apply", in("plan.json"), "--driver", "sim"}, in("apply.log")));
  TRY(until_ready(workers));
  url_ = TRY(listening_at());
  return {};
}

Result<void> DemoCircle::until_ready(std::size_t workers) {
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

DemoCircle::Progress DemoCircle::begin_progress() const {
  return {.until = context_.clock.now_ns() + kPatience};
}

bool DemoCircle::goes_on(Progress& progress, const std::vector<Pid>& processes) const {
  std::string now;
  for (const Pid pid : processes) {
    const Result<std::string> text = context_.files.read(fmt::format("/proc/{}/stat", pid));
    now += fmt::format("{} {};", pid, text ? ticks_in(*text) / kTicksOfProgress : 0);
  }
  const std::int64_t time = context_.clock.now_ns();
  if (std::exchange(progress.seen, now) != now) progress.until = time + kPatience;
  return time < progress.until;
}

// The gateway's first line says where it listens.
Result<std::string> DemoCircle::listening_at() {
  const std::string log = TRY(context_.files.read(in("gateway.log")));
  const std::size_t begin = log.rfind("listening at ");
  if (begin == log.npos) return failed(refusal("the gateway does not listen"));
  const std::size_t from = begin + 13;
  return log.substr(from, log.find(',', from) - from);
}

Exit DemoCircle::end(bool held) {
  gateway_->terminate();
  gateway_->wait();
  workers_->terminate();
  workers_->wait();
  say(context_, held ? "every service held its objective\n"
                     : "a service missed its objective: this machine was too busy for the demo\n");
  return held ? Exit::done : Exit::no;
}

}  // namespace partita::cli
