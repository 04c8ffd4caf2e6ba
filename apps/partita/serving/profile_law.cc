#include "serving/profile_law.h"

#include <CLI/CLI.hpp>


#include "base/input.h"
#include "flags.h"
#include "llm/engine/engines.h"
#include "llm/law_report.h"

namespace partita::cli {
namespace {

struct LawFlags {
  std::string path, kind, leave_out;
  Output output;
};

Result<Exit> run_law(Context& context, const LawFlags& flags) {
  if (flags.kind != "llm")
    return bad_input("--kind", "'" + flags.kind +
                                   "' has no law of its own here; known: llm "
                                   "(others: `partita profile law PATH --gpu GPU`)");
  const std::string text = TRY(read_input(context.files, "POINTS", flags.path));
  const std::vector<llm::Measured> points = TRY(llm::parse_points(flags.path, text));
  const llm::LeftOut left_out = flags.leave_out.empty()            ? llm::LeftOut::nothing
                                : flags.leave_out == "concurrency" ? llm::LeftOut::concurrency
                                                                   : llm::LeftOut::shape;
  const Result<llm::LawReport> report = llm::law_report(points, left_out, llm::tail_errors);
  if (!report) {
    Error error = report.error();  // of the whole file
    if (error.context.empty()) error.context = flags.path;
    return failed(error);
  }
  return finish(
      context, flags.output,
      flags.output.json() ? llm::law_report_json(*report) : llm::law_report_text(*report));
}

}  // namespace

Command add_profile_law(CLI::App& profile) {
  auto [command, flags] = adding<LawFlags>(
      profile, "law", "Learn laws from measured points, and say how well they predict");
  command
      ->add_option("POINTS", flags->path,
                   "Measured points: a CSV with tokens in and out, concurrency, TTFT and TPOT")
      ->type_name("FILE")
      ->required();
  flag(*command, "--kind", flags->kind, "llm: services that answer token by token")->required();
  one_of(flag(*command, "--leave-out", flags->leave_out), {"concurrency", "shape"});
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita profile law points.csv --kind llm --leave-out concurrency\n"
      "partita profile law points.csv --kind llm --format json -o report.json");
  return {command, [flags](Context& context) { return run_law(context, *flags); }};
}

}  // namespace partita::cli
