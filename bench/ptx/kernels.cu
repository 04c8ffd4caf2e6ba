// Kernels of bench/ptx_bench.cc. kernels.ptx is made from this file by
//   clang -x cuda --cuda-device-only --cuda-gpu-arch=sm_70 -nocudainc -nocudalib -O3 -S
//     -Xclang -target-feature -Xclang +ptx70
#define GLOBAL __attribute__((global))
#define DEVICE __attribute__((device))
#define SHARED __attribute__((shared))

DEVICE inline unsigned thread_x() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE inline unsigned thread_y() { return __nvvm_read_ptx_sreg_tid_y(); }
DEVICE inline unsigned block_x() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE inline unsigned block_y() { return __nvvm_read_ptx_sreg_ctaid_y(); }
DEVICE inline unsigned threads_x() { return __nvvm_read_ptx_sreg_ntid_x(); }
DEVICE inline unsigned blocks_x() { return __nvvm_read_ptx_sreg_nctaid_x(); }

extern "C" {

GLOBAL void vadd(const float* a, const float* b, float* c, int n) {
  const int i = block_x() * threads_x() + thread_x();
  if (i < n) c[i] = a[i] + b[i];
}

GLOBAL void saxpy(float factor, const float* x, float* y, int n) {
  for (int i = block_x() * threads_x() + thread_x(); i < n; i += threads_x() * blocks_x())
    y[i] = factor * x[i] + y[i];
}

GLOBAL void matmul(const float* a, const float* b, float* c, int n) {
  SHARED static float tile_a[16][16], tile_b[16][16];
  const int column = block_x() * 16 + thread_x(), row = block_y() * 16 + thread_y();
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    tile_a[thread_y()][thread_x()] = a[row * n + k + thread_x()];
    tile_b[thread_y()][thread_x()] = b[(k + thread_y()) * n + column];
    __syncthreads();
    for (int i = 0; i < 16; ++i)
      sum = __builtin_fmaf(tile_a[thread_y()][i], tile_b[i][thread_x()], sum);
    __syncthreads();
  }
  c[row * n + column] = sum;
}

GLOBAL void reduce(const float* in, float* out, int n) {
  SHARED static float part[32];
  float sum = 0;
  for (int i = block_x() * threads_x() + thread_x(); i < n; i += threads_x() * blocks_x())
    sum += in[i];
  for (int by = 16; by > 0; by /= 2)
    sum += __nvvm_shfl_sync_down_f32(0xffffffff, sum, by, 31);
  if (thread_x() % 32 == 0) part[thread_x() / 32] = sum;
  __syncthreads();
  if (thread_x() == 0) {
    for (unsigned i = 1; i < threads_x() / 32; ++i) sum += part[i];
    __nvvm_atom_add_gen_f(out, sum);
  }
}

GLOBAL void mandelbrot(int* out, int width, int height, int most) {
  const int x = block_x() * threads_x() + thread_x(), y = block_y();
  if (x >= width) return;
  const float cr = -2.0f + 3.0f * x / width, ci = -1.0f + 2.0f * y / height;
  float zr = 0, zi = 0;
  int count = 0;
  while (count < most && zr * zr + zi * zi < 4.0f) {
    const float next = zr * zr - zi * zi + cr;
    zi = 2.0f * zr * zi + ci;
    zr = next;
    ++count;
  }
  out[y * width + x] = count;
}

GLOBAL void stencil(const float* in, float* out, int width, int height) {
  const int x = block_x() * threads_x() + thread_x(), y = block_y();
  if (x < 1 || x >= width - 1 || y < 1 || y >= height - 1) return;
  const float* at = in + y * width + x;
  out[y * width + x] = 0.5f * at[0] + 0.125f * (at[-1] + at[1] + at[-width] + at[width]);
}

GLOBAL void chase(const int* next, int* out, int steps, int n) {
  const int i = block_x() * threads_x() + thread_x();
  if (i >= n) return;
  int at = i;
  for (int s = 0; s < steps; ++s) at = next[at];
  out[i] = at;
}

// Loops whose lengths differ from lane to lane: about 8 of 32 lanes are live.
GLOBAL void nested(int* out, int n) {
  const int i = block_x() * threads_x() + thread_x();
  if (i >= n) return;
  unsigned value = i * 2654435761u, sum = 0;
  const unsigned outer = value >> 27;
  for (unsigned a = 0; a < outer; ++a) {
    const unsigned inner = (value >> (a & 15)) & 31;
#pragma nounroll
    for (unsigned b = 0; b < inner; ++b) {
      sum = sum * 5 + (b ^ value);
      if ((sum & 7) == 0) value = value * 1664525u + 1013904223u;
    }
  }
  out[i] = sum;
}
}
