// partita kernels import: the kernels of a request out of a vendor's profiler.

#include "decide/input.h"
#include "flags.h"
#include "kernels/kernel_commands.h"
#include "profile/nsys/nsys_export.h"

namespace partita::cli {
namespace {

struct KernelsImportFlags {
  std::string file, from;
  int units = 0;
  Output output;
};

Result<Exit> run_kernels_import(Context& context, const KernelsImportFlags& flags) {
  const auto content = TRY(read_input(context.files, "FILE", flags.file));
  const bool nsys =
      flags.from.empty() ? content.starts_with("SQLite format 3") : flags.from == "nsys";
  const auto trace = TRY(nsys ? profile::parse_nsys_export(flags.file, content)
                              : profile::parse_rocprof(flags.file, content));
  const auto csv = TRY(profile::traced_request_csv(flags.file, trace, flags.units));
  return finish(context, flags.output, csv);
}

}  // namespace

Command add_kernels_import(CLI::App& kernels) {
  auto [command, flags] = adding<KernelsImportFlags>(
      kernels, "import",
      "Read the kernels of a request out of what Nsight Systems or rocprof recorded");
  command->add_option("FILE", flags->file, "Of `nsys export --type sqlite`, or rocprof's CSV")
      ->type_name("FILE")
      ->required();
  one_of(flag(*command, "--from", flags->from), {"nsys", "rocprof"});
  within(flag(*command, "--units", flags->units, "That the program had then"), 1, hw::kMaxUnits)
      ->required();
  add_output_file(*command, flags->output.file);
  command->footer("partita kernels import report.sqlite --units 132 -o model.csv");
  return {command, [flags](Context& context) { return run_kernels_import(context, *flags); }};
}

}  // namespace partita::cli
