// The controls of the simulated HIP runtime: what its board is, and what it counts. Its functions
// are found with dlsym, as a driver finds HIP's. Plain data.
#pragma once

#include <cstdint>

namespace partita::drivers::hip_mask::fake {

inline constexpr int kMostArrays = 64;

struct Board {
  char name[64] = "AMD Instinct MI50";
  int gfx = 90006;  // 90006 is gfx906, 110000 gfx1100
  int xccs = 1;
  int engines = 4;  // per XCC
  int arrays = 1;   // per engine
  // Of array (xcc, engine, array): which CUs of the die are in use.
  std::uint32_t in_use[kMostArrays] = {0x7FFF, 0xFFFE, 0xBFFF, 0x7FFF};
  int devices = 1;
  bool compiles = true;
};

extern "C" {
// Forgets everything, and is this board from now on. Nothing of the one before may be alive.
void fake_hip_board(const Board*);
// Streams, events, modules, programs and memory that were made and not destroyed.
int fake_hip_alive();
// The first thing that was called against HIP's rules; empty when there was none.
const char* fake_hip_violation();
// The `call`-th call from now on, from 1, answers `code`; calls that destroy do so all the same.
void fake_hip_fail(int call, int code);
// Whether that call has come.
bool fake_hip_failed();
// Takes these bits from every mask from now on, as ROC_GLOBAL_CU_MASK does.
void fake_hip_take(const std::uint32_t* words, int count);
// Streams that were created so far, and the words of the mask of the last one.
int fake_hip_created();
void fake_hip_last_mask(std::uint32_t* words, int count);
// Kernels that were launched so far, and of the n-th its name and the words of its stream's mask, 0
// where that has none. In the order in which they were given to HIP.
int fake_hip_launches();
const char* fake_hip_launch(int number, std::uint32_t* words, int count);
}

}  // namespace partita::drivers::hip_mask::fake
