// partita-remote: CUDA programs on other GPUs, or on none. `partita remote` and `partita ptx` lead
// here.
#include "program.h"
#include "remote/remote_commands.h"

int main(int argc, char** argv) {
  using namespace partita::cli;
  return run_program(argc, argv,
                     {.summary = "Runs CUDA programs on a GPU that is elsewhere, or on no GPU",
                      .commands = {{"remote", add_remote}, {"ptx", add_ptx}},
                      .kinds = [] { return std::vector<partita::DocumentKind>{}; }});
}
