// Running somebody's program under the client libraries: where they lie, what its environment gets,
// a private server beside it. POSIX; one program per process.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/child.h"
#include "base/result.h"
#include "image/program.h"

namespace partita::cli {

using Environment = std::map<std::string, std::string>;

// The folder with libcudart.so.13 and the others: beside this program (build tree), or where
// installation puts it.
Result<std::string> client_libraries();

// The file that a shell would run for this word.
Result<std::string> find_program(const std::string& word);
Result<std::string> read_program_file(const std::string& path);

// Those of NVIDIA's libraries with device code of their own that it needs and that are not there.
std::vector<std::string> without_counterpart(const remote::image::Program& program);

// What is to be added to the program's environment so that it finds the libraries.
Environment library_environment(const std::string& libraries,
                                const std::optional<remote::image::Program>& program);

// A server of ours at `unix:FOLDER/server.sock`: ends with this object, and with this process
// however it ends. Takes connections when this returns.
struct PrivateServer {
  int units = 0;                  // of the CPU, or of a lane of the GPU; 0: all
  int devices = 1;                // that the program sees
  std::string kernel_times = {};  // file; empty: kernels are not timed
};
Result<Child> start_private_server(const std::string& folder, const PrivateServer& wish = {});
std::string private_address(const std::string& folder);

// Runs it to its end in our place of the terminal, and hands it the signals that come for us. Its
// exit status, or 128 + the signal that ended it.
Result<int> run_program(const std::vector<std::string>& words, const Environment& added);

}  // namespace partita::cli
