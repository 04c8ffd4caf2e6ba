// What the libraries launch: kernels in plain CUDA, compiled by clang into kernels.ptx, which is
// committed (tools/cuda_programs.py ptx). One thread for each element of the result unless it says
// otherwise; sizes are below 2^31.
#include <__clang_cuda_builtin_vars.h>

#define KERNEL extern "C" __attribute__((global)) void
#define DEVICE static __attribute__((device)) inline
using Index = unsigned;

DEVICE Index me() { return blockIdx.x * blockDim.x + threadIdx.x; }

// --- Fourier transforms --------------------------------------------------------------------------

template <class T>
struct Complex {
  T re, im;
};

// How a program keeps its arrays of n0 x n1 x n2 elements: where element (x0, x1, x2) of array b
// lies.
struct FftLayout {
  Index n0, n1, n2;        // of the transform
  Index e1, e2;            // lengths of the arrays' inner dimensions
  Index stride, distance;  // between elements, and between arrays
  Index kind;              // 0: complex, 1: real, 2: the first half of what is conjugate symmetric
};

DEVICE Index place(const FftLayout& as, Index b, Index x0, Index x1, Index x2) {
  return b * as.distance + ((x0 * as.e1 + x1) * as.e2 + x2) * as.stride;
}

template <class T>
DEVICE void gather(const void* from, Complex<T>* to, const FftLayout& as, Index count) {
  const Index i = me();
  if (i >= count) return;
  Index x2 = i % as.n2, rest = i / as.n2, x1 = rest % as.n1;
  rest /= as.n1;
  Index x0 = rest % as.n0;
  const Index b = rest / as.n0;
  if (as.kind == 1) {
    to[i] = {static_cast<const T*>(from)[place(as, b, x0, x1, x2)], T(0)};
    return;
  }
  const bool mirrored = as.kind == 2 && x2 > as.n2 / 2;
  if (mirrored) {
    x0 = x0 == 0 ? 0 : as.n0 - x0;
    x1 = x1 == 0 ? 0 : as.n1 - x1;
    x2 = as.n2 - x2;
  }
  Complex<T> one = static_cast<const Complex<T>*>(from)[place(as, b, x0, x1, x2)];
  if (mirrored) one.im = -one.im;
  to[i] = one;
}

template <class T>
DEVICE void scatter(const Complex<T>* from, void* to, const FftLayout& as, Index count) {
  const Index i = me();
  if (i >= count) return;
  const Index x2 = i % as.n2;
  Index rest = i / as.n2;
  const Index x1 = rest % as.n1;
  rest /= as.n1;
  const Index at = place(as, rest / as.n0, rest % as.n0, x1, x2);
  if (as.kind == 1)
    static_cast<T*>(to)[at] = from[i].re;
  else if (as.kind == 0 || x2 <= as.n2 / 2)
    static_cast<Complex<T>*>(to)[at] = from[i];
}

// One pass over an axis of length n with `inner` elements between neighbours: transforms of length
// `radix` over what earlier passes made of `done` elements each (Stockham's order, which sorts
// itself). `roots`: exp(-2 pi i k / n).
struct FftPass {
  Index n, inner, done, radix, inverse;
};

template <class T>
DEVICE void pass(const Complex<T>* from, Complex<T>* to, const Complex<T>* roots,
                 const FftPass& how, Index count) {
  const Index i = me();
  if (i >= count) return;
  const Index at = i % how.inner, o = i / how.inner % how.n, outer = i / how.inner / how.n;
  const Index length = how.done * how.radix, t = o % length;
  const Index j = o / length * how.done + t % how.done;
  const Index step = how.n / length, apart = how.n / how.radix;
  const Complex<T>* source = from + (outer * how.n + j) * how.inner + at;
  T re = 0, im = 0;
  Index turned = 0;
  for (Index q = 0; q < how.radix; ++q) {
    const Complex<T> root = roots[turned * step];
    const T sine = how.inverse != 0 ? -root.im : root.im;
    re += source->re * root.re - source->im * sine;
    im += source->re * sine + source->im * root.re;
    source += apart * how.inner;
    turned += t;
    if (turned >= length) turned -= length;
  }
  to[i] = {re, im};
}

#define FFT(T, suffix)                                                                             \
  KERNEL fft_gather_##suffix(const void* from, Complex<T>* to, FftLayout as, Index count) {        \
    gather<T>(from, to, as, count);                                                                \
  }                                                                                                \
  KERNEL fft_scatter_##suffix(const Complex<T>* from, void* to, FftLayout as, Index count) {       \
    scatter<T>(from, to, as, count);                                                               \
  }                                                                                                \
  KERNEL fft_pass_##suffix(const Complex<T>* from, Complex<T>* to, const Complex<T>* roots,        \
                           FftPass how, Index count) {                                             \
    pass<T>(from, to, roots, how, count);                                                          \
  }
FFT(float, f)
FFT(double, d)

// --- sums of vectors -----------------------------------------------------------------------------

// Each of `count` threads sums what belongs to the elements me(), me() + count, ...; in double
// precision, so that products of floats neither leave the range nor are lost among millions.
KERNEL dot_parts_f(const float* x, long long x_step, const float* y, long long y_step,
                   double* parts, unsigned long long n, Index count) {
  if (me() >= count) return;
  double sum = 0;
  for (unsigned long long i = me(); i < n; i += count)
    sum += static_cast<double>(x[i * x_step]) * static_cast<double>(y[i * y_step]);
  parts[me()] = sum;
}
KERNEL sum_parts_f(const double* parts, Index from, float* to, Index count) {
  if (me() >= count) return;
  double sum = 0;
  for (Index i = 0; i < from; ++i) sum += parts[i];
  *to = static_cast<float>(sum);
}
// Squares of doubles in three sums (Blue 1978): of those that would be too large, made smaller, of
// those that would vanish, made larger, and of the others.
KERNEL norm_parts_d(const double* x, long long step, double* parts, unsigned long long n,
                    Index count) {
  if (me() >= count) return;
  double large = 0, small = 0, middle = 0;
  for (unsigned long long i = me(); i < n; i += count) {
    const double one = x[i * step] < 0 ? -x[i * step] : x[i * step];
    if (one > 0x1p486)
      large += (one * 0x1p-538) * (one * 0x1p-538);
    else if (one < 0x1p-511)
      small += (one * 0x1p537) * (one * 0x1p537);
    else
      middle += one * one;
  }
  parts[3 * me()] = large, parts[3 * me() + 1] = small, parts[3 * me() + 2] = middle;
}

// --- dense factors -------------------------------------------------------------------------------

// Each thread: L (of ones on its diagonal) and U of one matrix of n x n, column after column, in
// place. With `rows`, the largest of a column is exchanged upwards, and the row it came from, from
// 1 on, is noted. `info`: the first zero on the diagonal, from 1 on; else 0.
template <class T>
DEVICE void lu_factor(T* const* matrices, int n, int step, int* rows, int* info, Index count) {
  const Index i = me();
  if (i >= count) return;
  T* const a = matrices[i];
  int zero = 0;
  for (int k = 0; k < n; ++k) {
    T* const column = a + static_cast<long long>(k) * step;
    if (rows != nullptr) {
      int largest = k;
      for (int r = k + 1; r < n; ++r) {
        const T one = column[r] < 0 ? -column[r] : column[r];
        const T best = column[largest] < 0 ? -column[largest] : column[largest];
        if (one > best) largest = r;
      }
      rows[static_cast<long long>(i) * n + k] = largest + 1;
      for (int c = 0; c < n && largest != k; ++c) {
        T* const other = a + static_cast<long long>(c) * step;
        const T kept = other[k];
        other[k] = other[largest], other[largest] = kept;
      }
    }
    if (column[k] == T(0)) {
      if (zero == 0) zero = k + 1;
      continue;
    }
    for (int r = k + 1; r < n; ++r) column[r] /= column[k];
    for (int c = k + 1; c < n; ++c) {
      T* const other = a + static_cast<long long>(c) * step;
      for (int r = k + 1; r < n; ++r) other[r] -= column[r] * other[k];
    }
  }
  info[i] = zero;
}
KERNEL lu_factor_f(float* const* matrices, int n, int step, int* rows, int* info, Index count) {
  lu_factor<float>(matrices, n, step, rows, info, count);
}
KERNEL lu_factor_d(double* const* matrices, int n, int step, int* rows, int* info, Index count) {
  lu_factor<double>(matrices, n, step, rows, info, count);
}

// --- sparse matrices -----------------------------------------------------------------------------

// Rows one behind the other: row r has the entries row[r] to row[r + 1], less the base of both.
template <class T>
struct Csr {
  const int* row;
  const int* column;
  T* value;
  int rows, base;
};

// A factor here, or where it lies on the device.
template <class T>
DEVICE T factor(const T* at, T here) {
  return at != nullptr ? *at : here;
}

// y = alpha A x + beta y, for each row, and each of `columns` vectors `x_step` and `y_step` apart.
template <class T>
DEVICE void csr_times(const Csr<T>& a, const T* x, T* y, T alpha, T beta) {
  const int r = static_cast<int>(me());
  if (r >= a.rows) return;
  T sum = 0;
  for (int i = a.row[r] - a.base; i < a.row[r + 1] - a.base; ++i)
    sum += a.value[i] * x[a.column[i] - a.base];
  y[r] = alpha * sum + (beta == T(0) ? T(0) : beta * y[r]);
}

// x of alpha b = A x, A a triangle; one thread does it all.
template <class T>
DEVICE void csr_solve(const Csr<T>& a, const T* b, T* x, T alpha, int upper, int unit) {
  if (me() != 0) return;
  for (int step = 0; step < a.rows; ++step) {
    const int r = upper != 0 ? a.rows - 1 - step : step;
    T rest = alpha * b[r], diagonal = 1;
    for (int i = a.row[r] - a.base; i < a.row[r + 1] - a.base; ++i) {
      const int c = a.column[i] - a.base;
      if (c == r)
        diagonal = unit != 0 ? T(1) : a.value[i];
      else if ((c > r) == (upper != 0))
        rest -= a.value[i] * x[c];
    }
    x[r] = rest / diagonal;
  }
}

// A's factors L (of ones on its diagonal) and U where A has entries, in place; one thread.
template <class T>
DEVICE void csr_factor(const Csr<T>& a, int* zero) {
  if (me() != 0) return;
  *zero = -1;
  for (int r = 0; r < a.rows; ++r) {
    const int begin = a.row[r] - a.base, end = a.row[r + 1] - a.base;
    for (int i = begin; i < end && a.column[i] - a.base < r; ++i) {
      const int k = a.column[i] - a.base;
      int other = a.row[k] - a.base;
      const int other_end = a.row[k + 1] - a.base;
      while (other < other_end && a.column[other] - a.base < k) ++other;
      if (other == other_end || a.column[other] - a.base != k || a.value[other] == T(0)) {
        if (*zero < 0) *zero = k + a.base;
        continue;
      }
      const T by = a.value[i] /= a.value[other];
      int here = i + 1;
      for (++other; other < other_end; ++other) {
        while (here < end && a.column[here] < a.column[other]) ++here;
        if (here < end && a.column[here] == a.column[other]) a.value[here] -= by * a.value[other];
      }
    }
  }
}

#define SPARSE(T, suffix)                                                                          \
  KERNEL csr_times_##suffix(Csr<T> a, const T* x, T* y, const T* alpha_at, const T* beta_at,       \
                            T alpha, T beta) {                                                     \
    csr_times<T>(a, x, y, factor(alpha_at, alpha), factor(beta_at, beta));                         \
  }                                                                                                \
  KERNEL csr_solve_##suffix(Csr<T> a, const T* b, T* x, const T* alpha_at, T alpha, int upper,     \
                            int unit) {                                                            \
    csr_solve<T>(a, b, x, factor(alpha_at, alpha), upper, unit);                                   \
  }                                                                                                \
  KERNEL csr_factor_##suffix(Csr<T> a, int* zero) { csr_factor<T>(a, zero); }
SPARSE(float, f)
SPARSE(double, d)

// --- random numbers ------------------------------------------------------------------------------

struct Bits {
  unsigned word[4];
};

// Philox 4x32-10 of Random123 (Salmon and others, 2011): the 128 bits that belong to a counter.
DEVICE Bits philox(unsigned long long counter, unsigned long long key) {
  unsigned k0 = static_cast<unsigned>(key), k1 = static_cast<unsigned>(key >> 32);
  Bits c = {{static_cast<unsigned>(counter), static_cast<unsigned>(counter >> 32), 0, 0}};
  for (int round = 0; round < 10; ++round) {
    const unsigned long long a = 0xD2511F53ULL * c.word[0], b = 0xCD9E8D57ULL * c.word[2];
    c = {{static_cast<unsigned>(b >> 32) ^ c.word[1] ^ k0, static_cast<unsigned>(b),
          static_cast<unsigned>(a >> 32) ^ c.word[3] ^ k1, static_cast<unsigned>(a)}};
    k0 += 0x9E3779B9U, k1 += 0xBB67AE85U;
  }
  return c;
}

// Above 0, up to 1.
DEVICE float fraction(unsigned bits) { return (static_cast<float>(bits >> 8) + 1) * 0x1p-24F; }
DEVICE double fraction(unsigned low, unsigned high) {
  const unsigned long long bits = (static_cast<unsigned long long>(high) << 21) ^ (low >> 11);
  return (static_cast<double>(bits & ((1ULL << 53) - 1)) + 1) * 0x1p-53;
}

// Each thread: four numbers of 32 bits, or two doubles, as much of them as there is room for.
KERNEL random_bits(unsigned* to, unsigned long long key, unsigned long long first, Index count) {
  const Index i = me();
  const Bits bits = philox(first + i, key);
  for (Index j = 0; j < 4; ++j)
    if (i * 4 + j < count) to[i * 4 + j] = bits.word[j];
}
KERNEL random_uniform_f(float* to, unsigned long long key, unsigned long long first, Index count) {
  const Index i = me();
  const Bits bits = philox(first + i, key);
  for (Index j = 0; j < 4; ++j)
    if (i * 4 + j < count) to[i * 4 + j] = fraction(bits.word[j]);
}
KERNEL random_uniform_d(double* to, unsigned long long key, unsigned long long first,
                        Index count) {
  const Index i = me();
  const Bits bits = philox(first + i, key);
  for (Index j = 0; j < 2; ++j)
    if (i * 2 + j < count) to[i * 2 + j] = fraction(bits.word[j * 2], bits.word[j * 2 + 1]);
}

// ln x for 0 < x <= 1: exponent, and twice the series of the inverse hyperbolic tangent.
DEVICE double logarithm(double x) {
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &x, sizeof bits);
  int exponent = static_cast<int>(bits >> 52) - 1022;
  bits = (bits & 0xFFFFFFFFFFFFFULL) | 0x3FE0000000000000ULL;
  double m = 0;
  __builtin_memcpy(&m, &bits, sizeof m);
  if (m < 0.70710678118654752440) m *= 2, --exponent;
  const double z = (m - 1) / (m + 1), z2 = z * z;
  double sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * z2 + 1.0 / k;
  return exponent * 0.69314718055994530942 + 2 * z * sum;
}
// Sine and cosine of an eighth of a turn or less.
DEVICE void sine_cosine(double x, double& sine, double& cosine) {
  const double x2 = x * x;
  double s = 0, c = 0;
  for (int k = 8; k >= 1; --k) {
    s = (1 - s) * x2 / ((2 * k) * (2 * k + 1));
    c = (1 - c) * x2 / ((2 * k) * (2 * k - 1));
  }
  sine = x * (1 - s), cosine = 1 - c;
}
// Two numbers of the normal distribution of two fractions (Box and Muller).
DEVICE void normal_pair(double u, double v, double& a, double& b) {
  const double length = __nvvm_sqrt_rn_d(-2 * logarithm(u));
  const double eighths = v * 8;
  const int octant = static_cast<int>(eighths);
  const double within = (eighths - octant) * 0.78539816339744830962;
  double sine = 0, cosine = 0;
  sine_cosine((octant & 1) != 0 ? 0.78539816339744830962 - within : within, sine, cosine);
  if ((octant & 1) != 0) {
    const double other = sine;
    sine = cosine, cosine = other;
  }
  for (int quarter = octant / 2; quarter > 0; --quarter) {
    const double other = sine;
    sine = cosine, cosine = -other;
  }
  a = length * cosine, b = length * sine;
}
KERNEL random_normal_f(float* to, unsigned long long key, unsigned long long first, Index count,
                       float mean, float deviation) {
  const Index i = me();
  const Bits bits = philox(first + i, key);
  double is[4];
  normal_pair(fraction(bits.word[0]), fraction(bits.word[1]), is[0], is[1]);
  normal_pair(fraction(bits.word[2]), fraction(bits.word[3]), is[2], is[3]);
  for (Index j = 0; j < 4; ++j)
    if (i * 4 + j < count) to[i * 4 + j] = static_cast<float>(mean + deviation * is[j]);
}
KERNEL random_normal_d(double* to, unsigned long long key, unsigned long long first, Index count,
                       double mean, double deviation) {
  const Index i = me();
  const Bits bits = philox(first + i, key);
  double is[2];
  normal_pair(fraction(bits.word[0], bits.word[1]), fraction(bits.word[2], bits.word[3]), is[0],
              is[1]);
  for (Index j = 0; j < 2; ++j)
    if (i * 2 + j < count) to[i * 2 + j] = mean + deviation * is[j];
}

// --- networks ------------------------------------------------------------------------------------

DEVICE float exponential(float x) { return __nvvm_ex2_approx_f(x * 1.4426950408889634F); }
DEVICE float hyperbolic_tangent(float x) {
  const float e = exponential(2 * (x < 0 ? -x : x)), t = 1 - 2 / (e + 1);
  return x < 0 ? -t : t;
}
DEVICE float gelu(float x) {
  return 0.5F * x * (1 + hyperbolic_tangent(0.79788456F * (x + 0.044715F * x * x * x)));
}

// Numbers of cudnnActivationMode_t, and more: for the last two what is no number is 0.
enum {
  kSigmoid,
  kRelu,
  kTanh,
  kClippedRelu,
  kElu,
  kIdentity,
  kSwish,
  kGelu,
  kReluOfNumbers,
  kClippedReluOfNumbers
};
DEVICE float activated(float x, int kind, float how) {
  switch (kind) {
    case kSigmoid:
      return 1 / (1 + exponential(-x));
    case kRelu:
      return x < 0 ? 0 : x;
    case kTanh:
      return hyperbolic_tangent(x);
    case kClippedRelu:
      return x < 0 ? 0 : x > how ? how : x;
    case kElu:
      return x < 0 ? how * (exponential(x) - 1) : x;
    case kSwish:
      return x / (1 + exponential(-how * x));
    case kGelu:
      return gelu(x);
    case kReluOfNumbers:
      return x > 0 ? x : 0;
    case kClippedReluOfNumbers:
      return x > how ? how : x > 0 ? x : 0;
    default:
      return x;
  }
}

// Elements of 16 bits are floats on their way.
struct Half {
  unsigned short bits;
};
struct Brain {
  unsigned short bits;
};
DEVICE float load(const float* at) { return *at; }
DEVICE void store(float* at, float value) { *at = value; }
DEVICE float load(const Half* at) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(at->bits));
  return value;
}
DEVICE void store(Half* at, float value) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(at->bits) : "f"(value));
}
DEVICE float load(const Brain* at) {
  const unsigned bits = static_cast<unsigned>(at->bits) << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
DEVICE void store(Brain* at, float value) {
  unsigned bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  const unsigned up = value != value ? 0x400000 : 0x7FFF + (bits >> 16 & 1);
  at->bits = static_cast<unsigned short>((value != value ? bits | up : bits + up) >> 16);
}

// What follows a product: a bias for each row of `rows` x `columns`, and an activation.
template <class T, class Bias>
DEVICE void epilogue(T* d, const Bias* bias, Index rows, Index columns, unsigned long long step,
                     unsigned long long stride, int kind, Index count) {
  const Index i = me();
  if (i >= count) return;
  const Index row = i % rows, rest = i / rows;
  T* const at = d + rest / columns * stride + rest % columns * step + row;
  store(at, activated(load(at) + (bias != nullptr ? load(bias + row) : 0), kind, 0));
}
#define EPILOGUE(T, Bias, suffix)                                                                \
  KERNEL epilogue_##suffix(T* d, const Bias* bias, Index rows, Index columns,                    \
                           unsigned long long step, unsigned long long stride, int kind,         \
                           Index count) {                                                        \
    epilogue(d, bias, rows, columns, step, stride, kind, count);                                 \
  }
EPILOGUE(float, float, f)
EPILOGUE(Half, Half, h)
EPILOGUE(Brain, Brain, b)
EPILOGUE(Half, float, hf)
EPILOGUE(Brain, float, bf)

// A tensor of up to four dimensions: lengths and steps.
struct Tensor {
  int n, c, h, w, sn, sc, sh, sw;
};
DEVICE int tensor_place(const Tensor& as, Index i, int& c, int& h, int& w, int& n) {
  w = static_cast<int>(i) % as.w, i /= as.w;
  h = static_cast<int>(i) % as.h, i /= as.h;
  c = static_cast<int>(i) % as.c, n = static_cast<int>(i) / as.c;
  return n * as.sn + c * as.sc + h * as.sh + w * as.sw;
}
DEVICE void blend(float* at, float value, float alpha, float beta) {
  *at = beta == 0 ? alpha * value : alpha * value + beta * *at;
}

// y = alpha f(x) + beta y; x has a step of 0 in dimensions that it repeats.
KERNEL tensor_map(const float* x, float* y, Tensor to, int sn, int sc, int sh, int sw, int kind,
                  float how, float alpha, float beta, Index count) {
  const Index i = me();
  if (i >= count) return;
  int n, c, h, w;
  const int at = tensor_place(to, i, c, h, w, n);
  blend(y + at, activated(x[n * sn + c * sc + h * sh + w * sw], kind, how), alpha, beta);
}

// y = alpha ((x - mean) scale / sqrt(variance + epsilon) + bias) + beta y; `of`: of those four.
KERNEL tensor_normalise(const float* x, float* y, Tensor from, Tensor to, Tensor of,
                        const float* scale, const float* bias, const float* mean,
                        const float* variance, float epsilon, float alpha, float beta,
                        Index count) {
  const Index i = me();
  if (i >= count) return;
  int n, c, h, w;
  const int at = tensor_place(to, i, c, h, w, n);
  const int p = c * of.sc + (of.h == 1 ? 0 : h * of.sh) + (of.w == 1 ? 0 : w * of.sw);
  const float in = x[n * from.sn + c * from.sc + h * from.sh + w * from.sw];
  const float by = scale[p] / __nvvm_sqrt_rn_f(variance[p] + epsilon);
  blend(y + at, (in - mean[p]) * by + bias[p], alpha, beta);
}

// Over `size` elements, `inner` apart; log: its logarithm.
KERNEL tensor_softmax(const float* x, float* y, Index size, Index inner, int log, float alpha,
                      float beta, Index count) {
  const Index i = me();
  if (i >= count) return;
  const Index first = i / inner * size * inner + i % inner;
  float most = x[first], sum = 0;
  for (Index k = 1; k < size; ++k) most = x[first + k * inner] > most ? x[first + k * inner] : most;
  for (Index k = 0; k < size; ++k) sum += exponential(x[first + k * inner] - most);
  const float less = log != 0 ? static_cast<float>(logarithm(1.0 / sum)) : 0;
  for (Index k = 0; k < size; ++k) {
    const float above = x[first + k * inner] - most;
    blend(y + first + k * inner, log != 0 ? above + less : exponential(above) / sum, alpha, beta);
  }
}

struct Window {  // over h and w
  int height, width, pad_h, pad_w, step_h, step_w, apart_h, apart_w;
};

// Numbers of cudnnPoolingMode_t: the largest, the mean with the padding, without it. `nans`: what
// is no number counts as the largest; else only where there is nothing else.
KERNEL tensor_pool(const float* x, float* y, Tensor from, Tensor to, Window by, int mode, int nans,
                   float alpha, float beta, Index count) {
  const Index i = me();
  if (i >= count) return;
  int n, c, h, w;
  const int at = tensor_place(to, i, c, h, w, n);
  const float* const plane = x + n * from.sn + c * from.sc;
  float most = nans != 0 ? -__builtin_inff() : __builtin_nanf(""), sum = 0;
  int inside = 0;
  for (int r = 0; r < by.height; ++r)
    for (int s = 0; s < by.width; ++s) {
      const int row = h * by.step_h - by.pad_h + r, column = w * by.step_w - by.pad_w + s;
      if (row < 0 || row >= from.h || column < 0 || column >= from.w) continue;
      const float value = plane[row * from.sh + column * from.sw];
      const float odd = nans != 0 ? value : most;
      most = value > most || odd != odd ? value : most, sum += value, ++inside;
    }
  const int taken = mode == 1 ? by.height * by.width : inside;
  blend(y + at, mode == 1 || mode == 2 ? sum / static_cast<float>(taken) : most, alpha, beta);
}

// What the windows see of channels [first, first + from.c), as products of matrices take it: a row
// for each channel and place in the window, a column for each of oh x ow windows; image by image.
KERNEL tensor_windows(const float* x, float* to, Tensor from, Window by, int oh, int ow,
                      int turned, Index count) {
  Index i = me();
  if (i >= count) return;
  const Index whole = i;
  const int q = static_cast<int>(i % ow), p = static_cast<int>(i / ow % oh);
  i /= static_cast<Index>(ow * oh);
  int s = static_cast<int>(i % by.width), r = static_cast<int>(i / by.width % by.height);
  i /= static_cast<Index>(by.width * by.height);
  const int c = static_cast<int>(i % from.c), n = static_cast<int>(i / from.c);
  if (turned != 0) r = by.height - 1 - r, s = by.width - 1 - s;
  const int row = p * by.step_h - by.pad_h + r * by.apart_h;
  const int column = q * by.step_w - by.pad_w + s * by.apart_w;
  const bool inside = row >= 0 && row < from.h && column >= 0 && column < from.w;
  to[whole] = inside ? x[n * from.sn + c * from.sc + row * from.sh + column * from.sw] : 0;
}
