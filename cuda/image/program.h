// What an executable needs before it runs: shared libraries, symbols with their versions, and the
// device code it carries. For `partita remote doctor`; nothing is run.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "image/fatbin.h"

namespace partita::remote::image {

struct Import {
  std::string name, version;  // "cudaMalloc", "libcudart.so.13"; version may be empty
  bool operator==(const Import&) const = default;
  auto operator<=>(const Import&) const = default;
};

struct Program {
  std::vector<std::string> needed;  // sonames
  std::string runpath;              // DT_RUNPATH or DT_RPATH as it stands there
  std::vector<Import> imports;      // undefined symbols, sorted
  std::vector<Member> members;      // of its fat binaries; point into the file's bytes
  std::string members_problem;      // why they could not be read, or empty
  bool has_device_code = false;
  bool static_runtime = false;  // NVIDIA's static CUDA runtime is inside
};

Result<Program> read_program(Blob elf);

}  // namespace partita::remote::image
