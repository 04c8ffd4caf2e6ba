// `partita init`: files to start from, for one's own services.
#include <fmt/format.h>

#include <memory>

#include "commands.h"

namespace partita::cli {
namespace {

constexpr std::string_view kFirstServices =
    R"(# Your services. One entry per service; `partita help plan` says more.
headroom: 10%         # planned for on top of every rate, for the minutes when more comes
services:
  - name: chat        # any name, once in this file
    model: bert       # the model's name in profiles.csv
    rate_rps: 150     # requests that arrive per second
    slo_ms: 400       # an answer is in time when it comes within so many milliseconds
    percentile: 99    # so many percent of the answers must be in time (99 when left out)
  - name: search
    model: resnet50
    rate_rps: 800
    slo_ms: 200
    min_replicas: 2   # at least so many instances (1 when left out)

# profiles.csv says what each model was measured to do on MIG instances of one GPU model:
#   gpcs            compute slices of the instance: 1, 2, 3, 4 or 7 on an A100 or H100
#   batch           requests in a batch
#   processes       MPS processes that share the instance
#   throughput_rps  requests per second of all processes together
#   latency_ms      time of one batch while all processes run
#   memory_mib      memory of all processes together; may be empty
#   source          measured, or predicted:GPU (by a law learned on that GPU); may be left out
# The rows there are predictions for two models on an A100-80GB: replace them by measurements.
)";

// Predicted by data/profiles/a100-80gb.json.
constexpr std::string_view kFirstProfiles =
    R"(model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib,source
bert,1,4,1,105.0,38.10,2081,predicted:A100-80GB
bert,1,16,2,131.4,243.47,4254,predicted:A100-80GB
bert,2,4,1,144.9,27.60,2081,predicted:A100-80GB
bert,2,16,2,228.1,140.31,4254,predicted:A100-80GB
bert,3,4,1,162.3,24.65,2081,predicted:A100-80GB
bert,3,16,2,301.9,105.98,4254,predicted:A100-80GB
bert,4,4,1,169.8,23.56,2081,predicted:A100-80GB
bert,4,16,2,350.7,91.25,4254,predicted:A100-80GB
bert,7,4,1,178.8,22.38,2081,predicted:A100-80GB
bert,7,16,2,444.2,72.04,4254,predicted:A100-80GB
resnet50,1,4,1,343.6,11.64,973,predicted:A100-80GB
resnet50,1,16,2,395.8,80.85,5730,predicted:A100-80GB
resnet50,2,4,1,652.5,6.13,973,predicted:A100-80GB
resnet50,2,16,2,778.8,41.09,5730,predicted:A100-80GB
resnet50,3,4,1,819.8,4.88,973,predicted:A100-80GB
resnet50,3,16,2,1295.2,24.71,5730,predicted:A100-80GB
resnet50,4,4,1,828.6,4.83,973,predicted:A100-80GB
resnet50,4,16,2,1509.1,21.20,5730,predicted:A100-80GB
resnet50,7,4,1,833.1,4.80,973,predicted:A100-80GB
resnet50,7,16,2,2662.6,12.02,5730,predicted:A100-80GB
)";

// As a word for a shell.
std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,+@%";
  if (text.find_first_not_of(kPlain) == text.npos) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

Result<Exit> run_init(Context& context, const std::string& directory) {
  const std::string base = directory == "."           ? ""
                           : directory.ends_with('/') ? directory
                                                      : directory + "/";
  const std::string services = base + "services.yaml", profiles = base + "profiles.csv";
  for (const std::string& file : {services, profiles})
    if (context.files.exists(file))
      return bad_input(file, "the file exists, and init overwrites nothing; name another folder");
  TRY(context.files.make_directories(directory));
  TRY(context.files.write_atomic(services, kFirstServices));
  TRY(context.files.write_atomic(profiles, kFirstProfiles));
  const std::string inputs =
      fmt::format("--services {} --profiles {}", shell_word(services), shell_word(profiles));
  const std::string plan = shell_word(base + "plan.json");
  const std::string text = fmt::format(
      "{0} and {1} hold an example. Put your services and measurements there, then:\n\n"
      "    partita plan     {2} --gpu A100-80GB --format json -o {3}\n"
      "    partita verify   {3} {2}\n"
      "    partita simulate {3} {2} --duration 60s\n\n"
      "`partita gpus` lists the GPU models.\n",
      services, profiles, inputs, plan);
  return finish(context, {}, text);
}

}  // namespace

Command add_init(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "init", "Write a services file and a profile CSV to start from, and say what to run next");
  auto directory = std::make_shared<std::string>(".");
  command
      ->add_option("DIR", *directory,
                   "The folder for services.yaml and profiles.csv; made when missing")
      ->type_name("DIR")
      ->default_str(*directory);
  command->footer("partita init\npartita init mine");
  return {command, [directory](Context& context) { return run_init(context, *directory); }};
}

}  // namespace partita::cli
