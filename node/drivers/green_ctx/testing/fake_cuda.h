// What tests say to the fake libcuda, beside CUDA's own names: which GPU it simulates, what goes
// wrong, what is left. Looked up with dlsym. One simulated machine per process. Thread rule: any.
#pragma once

#include <cstddef>
#include <cstdint>

namespace partita::fake_cuda {

struct Config {
  const char* name = "NVIDIA H100 80GB HBM3";
  int sms = 132;
  int major = 9;                     // compute capability
  int devices = 1;                   // all alike
  int version = 13000;               // of CUDA; functions that came later are missing
  std::size_t memory = 8ull << 30;   // bytes; a green context takes kContextBytes of them
  int max_contexts = 1000;           // green ones; one more is out of memory
  bool tells_rules = true;           // least partition and alignment, as from CUDA 13 on
  bool keeps_graph_contexts = true;  // false: a node forgets the context that it was given
  int leaks_sms = 0;                 // that kernels of a green context use beyond its own
  int adds_sms = 0;                  // that a green context says it has beyond what was asked
  std::uint64_t seed = 1;            // of the order of SMs
};

inline constexpr std::size_t kContextBytes = std::size_t{1} << 20;

// Objects that were made and not destroyed.
struct Live {
  int primary = 0;  // references, those of green contexts too
  int greens = 0, streams = 0, events = 0, libraries = 0, graphs = 0, execs = 0;
  int device_blocks = 0, host_blocks = 0;
  int green_currents = 0;  // how often a green context was made current
  bool operator==(const Live&) const = default;
};

extern "C" {
// Forgets everything and starts as a fresh process.
void fake_cuda_reset(const Config* config);
Live fake_cuda_live();
// The `call`-th call from now (1: the next) of the function of this name, as cuGetProcAddress knows
// it, or of any where the name is empty, answers `code` and does nothing. A code after which a real
// device is lost loses this one.
void fake_cuda_fail(const char* name, int call, int code);
// The function that was made to fail last; empty when none was.
const char* fake_cuda_failed();
// Calls of the function since the reset.
int fake_cuda_calls(const char* name);
// The SMs of group `index` of the last split, into `sms`; their number.
int fake_cuda_group(int index, int* sms, int room);
// Kernels that were launched since the reset, in order; of one its name and on how many SMs.
int fake_cuda_launches();
const char* fake_cuda_launch(int number, int* sms);
}

}  // namespace partita::fake_cuda
