// partita engine: a stand-in for an engine of a language model, for tests and measurements.
#include <fmt/format.h>

#include <charconv>
#include <csignal>

#include "base/split.h"
#include "commands.h"
#include "flags.h"
#include "serve/standin/standin.h"

namespace partita::cli {
namespace {

struct EngineFlags {
  serve::StandinOptions standin = {};
  std::string cost = "step=10,sequence=0.1,prompt_token=0.05";
  std::int64_t kv_tokens = 100'000;
  bool no_metrics = false;
};

Result<profile::StepCost> step_cost(const std::string& text) {
  profile::StepCost cost;
  const std::pair<std::string_view, double*> keys[] = {{"step", &cost.step},
                                                       {"sequence", &cost.sequence},
                                                       {"cached_token", &cost.cached_token},
                                                       {"prompt_token", &cost.prompt_token}};
  for (const std::string& word : split(text, ',')) {
    const std::size_t equals = word.find('=');
    double* place = nullptr;
    for (const auto& [key, value] : keys)
      if (word.substr(0, equals) == key) place = value;
    if (place == nullptr || equals == std::string::npos)
      return bad_input("--step-cost", fmt::format("'{}' is no KEY=MS", word));
    const char* const end = word.data() + word.size();
    const auto [at, error] = std::from_chars(word.data() + equals + 1, end, *place);
    if (error != std::errc() || at != end || !(*place >= 0 && *place <= 1e6))
      return bad_input("--step-cost", fmt::format("'{}' is not 0 to 1,000,000 ms", word));
  }
  return cost;
}

Result<Exit> run_engine(Context& context, const EngineFlags& flags) {
  serve::StandinOptions options = flags.standin;
  options.spec.cost = TRY(step_cost(flags.cost));
  options.metrics = !flags.no_metrics;
  options.spec.blocks = (flags.kv_tokens - 1) / profile::kBlockTokens + 1;
  options.spec.step_tokens = std::max(options.spec.step_tokens, options.spec.sequences);
  auto loop = TRY(serve::Loop::make());
  auto opened = TRY(serve::Standin::open(*loop, options));
  bool asked = false;
  const auto heard = loop->on_signals({SIGINT, SIGTERM, SIGHUP}, [&](int) {
    if (std::exchange(asked, true) || opened->open_requests() == 0) return loop->stop();
    opened->drain();
  });
  if (!heard) return failed(heard.error());
  serve::Loop::Timer ending(*loop, [&](std::int64_t due) {
    if (asked && opened->open_requests() == 0) return loop->stop();
    ending.at(due + 50'000'000);
  });
  ending.at(serve::Loop::now_ns());
  say(context, fmt::format("listening at port {}\n", opened->port()));
  loop->run();
  return Exit::done;
}

}  // namespace

Command add_engine(CLI::App& app) {
  auto [command, flags] = adding<EngineFlags>(
      app, "engine", "Stand in for an engine of a language model: take its time, compute nothing");
  command->group("");  // for tests and measurements
  flag(*command, "--listen", flags->standin.listen)->default_str("127.0.0.1:0");
  flag(*command, "--model", flags->standin.model)->default_str("standin");
  flag(*command, "--step-cost", flags->cost)->capture_default_str();
  within(flag(*command, "--sequences", flags->standin.spec.sequences), 1, 100'000)
      ->default_str("1024");
  within(flag(*command, "--step-tokens", flags->standin.spec.step_tokens), 1, 1'000'000)
      ->default_str("8192");
  within(flag(*command, "--kv-tokens", flags->kv_tokens), 16, 1e9)->default_str("100000");
  flag(*command, "--no-metrics", flags->no_metrics);
  command->footer(
      "partita engine --listen 127.0.0.1:9001 --model chat --step-cost "
      "step=10,sequence=0.1,prompt_token=0.05");
  return {command, [flags](Context& context) { return run_engine(context, *flags); }};
}

}  // namespace partita::cli
