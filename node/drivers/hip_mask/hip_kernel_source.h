// The source of the probe kernels, for AMD's run-time compiler, behind lines that define GFX_MAJOR
// and GFX_MINOR (older compilers define macros of architectures, none of their families). Every
// argument has 64 bits. The registers: HW_ID is number 4 up to gfx9, HW_ID1 number 23 from gfx10
// on, XCC_ID number 20 from gfx94x on; the operand of s_getreg is (bits - 1) << 11 | first << 6 |
// number. SITE_FORM is SiteForm of cu_order.h.
#pragma once

namespace partita::drivers::hip_mask {

inline constexpr char kHipKernelSource[] = R"(
#if GFX_MAJOR < 10
#define HW_ID __builtin_amdgcn_s_getreg(31 << 11 | 4)
#else
#define HW_ID __builtin_amdgcn_s_getreg(31 << 11 | 23)
#endif

#if GFX_MAJOR == 9 && GFX_MINOR >= 4
#define XCC_ID __builtin_amdgcn_s_getreg(3 << 11 | 20)
#else
#define XCC_ID 0
#endif

#if GFX_MAJOR > 10
#define SITE_FORM 4
#elif GFX_MAJOR == 10
#define SITE_FORM 3
#elif GFX_MAJOR == 9 && GFX_MINOR >= 4 || defined(__gfx908__) || defined(__gfx90a__)
#define SITE_FORM 2
#else
#define SITE_FORM 1
#endif

struct Note {
  long long begin, end;
  unsigned runs, form, hw_id, xcc_id;
};

extern "C" __global__ void partita_note(Note* notes, int* open, unsigned long long* stamps) {
  if (threadIdx.x != 0) return;
  Note* note = notes + blockIdx.x;
  const unsigned long long begin =
      __hip_atomic_fetch_add(stamps, 1ull, __ATOMIC_SEQ_CST, __HIP_MEMORY_SCOPE_SYSTEM) + 1;
  while (__hip_atomic_load(open, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) == 0)
    __builtin_amdgcn_s_sleep(8);
  note->form = SITE_FORM;
  note->hw_id = HW_ID;
  note->xcc_id = XCC_ID;
  note->begin = (long long)begin;
  __hip_atomic_fetch_add(&note->runs, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  note->end = (long long)__hip_atomic_fetch_add(stamps, 1ull, __ATOMIC_SEQ_CST,
                                                __HIP_MEMORY_SCOPE_SYSTEM) + 1;
}

extern "C" __global__ void partita_compute(unsigned long long* kept, long long rounds) {
  unsigned long long value = blockIdx.x * 256ull + threadIdx.x;
  for (long long i = 0; i < rounds; ++i)
    value = value * 6364136223846793005ull + 1442695040888963407ull;
  if (value == 0) *kept = value;
}

extern "C" __global__ void partita_read(const uint4* memory, long long chunks, long long all,
                                        unsigned long long* kept) {
  unsigned sum = 1;
  long long chunk = blockIdx.x * chunks % all;
  for (long long i = 0; i < chunks; ++i) {
    const uint4 words = memory[chunk * 256 + threadIdx.x];
    sum |= words.x ^ words.y ^ words.z ^ words.w;
    chunk = chunk + 1 < all ? chunk + 1 : 0;
  }
  if (sum == 0) *kept = sum;
}
)";

}  // namespace partita::drivers::hip_mask
