// partita-remote: CUDA programs on other GPUs, or on none. `partita remote` and `partita ptx` lead
// here.
#include "program.h"
#include "remote/remote_commands.h"

namespace partita::cli {
namespace {

Program remote_program() {
  return {.summary = "Runs CUDA programs on a GPU that is elsewhere, or on no GPU",
          .commands = {{"remote", add_remote}, {"ptx", add_ptx}},
          .kinds = [] { return std::vector<partita::DocumentKind>{}; }};
}

}  // namespace
}  // namespace partita::cli

int main(int argc, char** argv) {
  using partita::cli::remote_program, partita::cli::run_program;
  return run_program(argc, argv, remote_program());
}
