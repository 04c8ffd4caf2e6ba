// The probe kernels as PTX, by hand, for compute capability 7.0 and later. All parameters are 64
// bits wide.
//   partita_noting(cells, counter, flag, hold): thread 0 of each work-group draws a stamp, naps
//     `hold` microseconds, waits until *flag is not 0 (unless flag is 0), then fills cells[group]:
//     {runs (counted up), %smid, stamp of the begin, stamp of the end}
//   partita_computing(rounds, sink): each thread takes `rounds` dependent steps
//   partita_reading(memory, mask, steps, sink): each work-group reads `steps` times kReadStep bytes
//     from group * steps * kReadStep on, addresses modulo mask + 1; memory holds zeros
// `sink` is written never, but the compiler cannot know.
#pragma once

#include <cstddef>

namespace partita::drivers::green_ctx {

inline constexpr unsigned kNotingThreads = 32;
inline constexpr unsigned kWorkThreads = 256;  // computing and reading
inline constexpr std::size_t kReadStep = std::size_t{kWorkThreads} * 16;

extern const char* const kProbePtx;

}  // namespace partita::drivers::green_ctx
