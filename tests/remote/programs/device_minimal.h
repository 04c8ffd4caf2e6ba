// What kernels call: with clang on its builtins; for compilers that make the host's half alone as
// declarations, so that the same text is at least checked. For cuda_minimal.h.
#pragma once

#if defined(__CUDA__)
#include <__clang_cuda_builtin_vars.h>

#define DEVICE_INLINE static __device__ inline __attribute__((always_inline))

extern "C" __device__ int printf(const char*, ...);
extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*, size_t);
#define DEVICE_ASSERT(condition) \
  ((condition) ? (void)0 : __assertfail(#condition, "program", __LINE__, __func__, 1))

DEVICE_INLINE void __syncwarp(unsigned mask = 0xffffffffU) { __nvvm_bar_warp_sync(mask); }
DEVICE_INLINE int __shfl_sync(unsigned m, int v, int lane) {
  return __nvvm_shfl_sync_idx_i32(m, v, lane, 31);
}
DEVICE_INLINE int __shfl_down_sync(unsigned m, int v, int by) {
  return __nvvm_shfl_sync_down_i32(m, v, by, 31);
}
DEVICE_INLINE int __shfl_up_sync(unsigned m, int v, int by) {
  return __nvvm_shfl_sync_up_i32(m, v, by, 0);
}
DEVICE_INLINE int __shfl_xor_sync(unsigned m, int v, int by) {
  return __nvvm_shfl_sync_bfly_i32(m, v, by, 31);
}
DEVICE_INLINE float __shfl_down_sync(unsigned m, float v, int by) {
  return __nvvm_shfl_sync_down_f32(m, v, by, 31);
}
DEVICE_INLINE float __shfl_xor_sync(unsigned m, float v, int by) {
  return __nvvm_shfl_sync_bfly_f32(m, v, by, 31);
}
DEVICE_INLINE unsigned __ballot_sync(unsigned m, int p) { return __nvvm_vote_ballot_sync(m, p); }
DEVICE_INLINE int __any_sync(unsigned m, int p) { return __nvvm_vote_any_sync(m, p); }
DEVICE_INLINE int __all_sync(unsigned m, int p) { return __nvvm_vote_all_sync(m, p); }
DEVICE_INLINE int __popc(unsigned v) { return __builtin_popcount(v); }
DEVICE_INLINE int __syncthreads_count(int p) { return __nvvm_bar0_popc(p); }
DEVICE_INLINE int __syncthreads_or(int p) { return __nvvm_bar0_or(p); }
DEVICE_INLINE void __threadfence() { __nvvm_membar_gl(); }
DEVICE_INLINE int atomicAdd(int* p, int v) { return __nvvm_atom_add_gen_i(p, v); }
DEVICE_INLINE unsigned atomicAdd(unsigned* p, unsigned v) {
  return (unsigned)__nvvm_atom_add_gen_i((int*)p, (int)v);
}
DEVICE_INLINE unsigned long long atomicAdd(unsigned long long* p, unsigned long long v) {
  return (unsigned long long)__nvvm_atom_add_gen_ll((long long*)p, (long long)v);
}
DEVICE_INLINE float atomicAdd(float* p, float v) { return __nvvm_atom_add_gen_f(p, v); }
DEVICE_INLINE int atomicMax(int* p, int v) { return __nvvm_atom_max_gen_i(p, v); }
DEVICE_INLINE int atomicMin(int* p, int v) { return __nvvm_atom_min_gen_i(p, v); }
DEVICE_INLINE int atomicExch(int* p, int v) { return __nvvm_atom_xchg_gen_i(p, v); }
DEVICE_INLINE int atomicCAS(int* p, int old, int v) { return __nvvm_atom_cas_gen_i(p, old, v); }
DEVICE_INLINE unsigned atomicInc(unsigned* p, unsigned v) { return __nvvm_atom_inc_gen_ui(p, v); }
extern "C" __device__ void cudaGraphSetConditional(cudaGraphConditionalHandle, unsigned);
// The fast exponential.
DEVICE_INLINE float device_exp(float x) { return __nvvm_ex2_approx_f(x * 1.44269504F); }

#else

extern const uint3 threadIdx, blockIdx;
extern const dim3 blockDim, gridDim;
#define DEVICE_ASSERT(condition) ((void)(condition))
void __syncthreads();
void __syncwarp(unsigned = 0xffffffffU);
int __shfl_sync(unsigned, int, int);
int __shfl_down_sync(unsigned, int, int);
int __shfl_up_sync(unsigned, int, int);
int __shfl_xor_sync(unsigned, int, int);
float __shfl_down_sync(unsigned, float, int);
float __shfl_xor_sync(unsigned, float, int);
unsigned __ballot_sync(unsigned, int);
int __any_sync(unsigned, int);
int __all_sync(unsigned, int);
int __popc(unsigned);
int __syncthreads_count(int);
int __syncthreads_or(int);
void __threadfence();
int atomicAdd(int*, int);
unsigned atomicAdd(unsigned*, unsigned);
unsigned long long atomicAdd(unsigned long long*, unsigned long long);
float atomicAdd(float*, float);
int atomicMax(int*, int);
int atomicMin(int*, int);
int atomicExch(int*, int);
int atomicCAS(int*, int, int);
unsigned atomicInc(unsigned*, unsigned);
float device_exp(float);
void cudaGraphSetConditional(cudaGraphConditionalHandle, unsigned);
#endif
