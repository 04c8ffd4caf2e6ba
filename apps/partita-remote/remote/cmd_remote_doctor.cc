// partita remote doctor: whether a program can run remotely, said beforehand.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "base/append.h"
#include "base/form.h"
#include "flags.h"
#include "remote/launch_program.h"
#include "remote/remote_commands.h"
#include "server/library_calls.h"

namespace partita::cli {
namespace {

using remote::image::Import;
using remote::image::Member;
using remote::image::MemberKind;
using remote::image::Program;

// Functions that the client libraries refuse.
const std::set<std::string_view> kUnsupported = {
#define UNSUPPORTED(name) #name,
#include "../../remote_client/blas/unsupported.inc"
#include "../../remote_client/dnn/unsupported.inc"
#include "../../remote_client/driver/driver_unsupported.inc"
#include "../../remote_client/fft/unsupported.inc"
#include "../../remote_client/lt/unsupported.inc"
#include "../../remote_client/random/unsupported.inc"
#include "../../remote_client/runtime/unsupported.inc"
#include "../../remote_client/solver/unsupported.inc"
#include "../../remote_client/sparse/unsupported.inc"
#undef UNSUPPORTED
};

struct Diagnosis {
  std::string program, runtime = "none";
  std::vector<std::string> unsupported = {}, targets = {}, problems = {}, remarks = {};
  bool ptx = false, can_run = true;
};

void diagnose_runtime(const Program& program, Diagnosis& diagnosis) {
  for (const std::string& needed : program.needed) {
    if (needed.starts_with("libcudart.so")) diagnosis.runtime = needed;
  }
  for (const std::string& library : without_counterpart(program))
    diagnosis.problems.push_back(library + " has no remote counterpart yet");
  if (program.static_runtime) {
    diagnosis.runtime = "static";
    diagnosis.problems.push_back(
        "this program embeds NVIDIA's static CUDA runtime; relink with `-cudart shared`");
  } else if (diagnosis.runtime != "none" && diagnosis.runtime != "libcudart.so.12" &&
             diagnosis.runtime != "libcudart.so.13") {
    diagnosis.problems.push_back("it needs " + diagnosis.runtime +
                                 "; there are libcudart.so.12 and libcudart.so.13");
  }
}

void diagnose_code(const Program& program, Diagnosis& diagnosis) {
  if (!program.members_problem.empty())
    diagnosis.problems.push_back("its fat binary cannot be read: " + program.members_problem);
  std::set<std::string> targets;
  for (const Member& member : program.members) {
    const bool ptx = member.kind == MemberKind::ptx;
    diagnosis.ptx = diagnosis.ptx || ptx;
    targets.insert(fmt::format("{}{}", ptx ? "compute_" : "sm_", member.sm));
  }
  diagnosis.targets.assign(targets.begin(), targets.end());
  if (!program.has_device_code) {
    diagnosis.remarks.push_back(
        "the file itself has no device code; what libraries and scripts load is not seen here");
  } else if (!diagnosis.ptx && diagnosis.problems.empty()) {
    diagnosis.remarks.push_back(
        "no PTX inside: it runs on a GPU of its targets, not on the cpu back end (compile with"
        " -gencode arch=compute_XX,code=compute_XX)");
  }
}

Diagnosis diagnose(const std::string& path, const Program& program) {
  Diagnosis diagnosis{.program = path};
  diagnose_runtime(program, diagnosis);
  diagnose_code(program, diagnosis);
  std::vector<std::string> forwarded;  // to NVIDIA's own library
  for (const Import& import : program.imports) {
    if (kUnsupported.contains(import.name)) diagnosis.unsupported.push_back(import.name);
    if (remote::server::library_function(import.name) != nullptr) forwarded.push_back(import.name);
  }
  if (!forwarded.empty())
    diagnosis.remarks.push_back(fmt::format("only where the server has a GPU and the library: {}",
                                            joined(forwarded, ", ")));
  if (!diagnosis.unsupported.empty())
    diagnosis.problems.push_back(fmt::format("it calls functions that are refused: {}",
                                             joined(diagnosis.unsupported, ", ")));
  diagnosis.can_run = diagnosis.problems.empty();
  return diagnosis;
}

std::string as_text(const Diagnosis& diagnosis) {
  std::string text =
      fmt::format("{}: {}\n  CUDA runtime   {}\n  device code    {}\n", diagnosis.program,
                  diagnosis.can_run ? "can run" : "cannot run", diagnosis.runtime,
                  diagnosis.targets.empty() ? "none" : joined(diagnosis.targets, ", "));
  for (const std::string& problem : diagnosis.problems) text += "  cannot run: " + problem + "\n";
  for (const std::string& remark : diagnosis.remarks) text += "  note: " + remark + "\n";
  return text;
}

std::string as_json(const Diagnosis& diagnosis) {
  const ListForm rows{.indent = "    "};
  return write_form([&](Form& f) {
    f.lines("  ");
    f.told("kind", "RemoteDoctor");
    f.told("program", diagnosis.program);
    f.told("can_run", diagnosis.can_run);
    f.told("runtime", diagnosis.runtime);
    f.told("has_ptx", diagnosis.ptx);
    f.told_list("targets", diagnosis.targets, rows);
    f.told_list("unsupported", diagnosis.unsupported, rows);
    f.told_list("problems", diagnosis.problems, rows);
    f.told_list("remarks", diagnosis.remarks, rows);
  });
}

struct DoctorFlags {
  std::string program;
  Output output;
};

Result<Exit> run_doctor(Context& context, const DoctorFlags& flags) {
  const std::string path = TRY(find_program(flags.program));
  const std::string content = TRY(read_program_file(path));
  const std::span<const char> bytes(content);
  const Result<Program> program = remote::image::read_program(std::as_bytes(bytes));
  if (!program)
    return bad_input(path, "not an executable of this machine: " + program.error().message);
  const Diagnosis diagnosis = diagnose(path, *program);
  return finish(context, flags.output,
                flags.output.json() ? as_json(diagnosis) : as_text(diagnosis),
                diagnosis.can_run ? Exit::done : Exit::no);
}

}  // namespace

Command add_remote_doctor(CLI::App& remote) {
  auto [command, flags] = adding<DoctorFlags>(
      remote, "doctor", "Say whether a CUDA program can run remotely, and why not; runs nothing");
  command->add_option("program", flags->program, "The executable or library to look at")
      ->required()
      ->type_name("FILE");
  add_output(*command, flags->output, {"text", "json"});
  command->footer("partita remote doctor ./vectorAdd\npartita remote doctor --format json ./lud");
  return {command, [flags](Context& context) { return run_doctor(context, *flags); }};
}

}  // namespace partita::cli
