// libcublasLt and libcudnn against sessions that run on cores: what networks need forwards.
// Oracles: the definitions, summed up in double precision.
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>

#include "tests/remote/ptx_server.h"
#include "tests/remote/shim_harness.h"

namespace partita::remote::test {
namespace {

using Floats = std::vector<float>;

Floats numbers(std::size_t count, unsigned seed) {
  Floats made(count);
  for (float& one : made)
    seed = seed * 1664525U + 1013904223U, one = static_cast<float>((seed >> 8) % 2000) / 1000 - 1;
  return made;
}

std::uint16_t half_of(float value) {
  return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
}
float of_half(std::uint16_t bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }

bool close(const Floats& wanted, const Floats& got, float tolerance) {
  float most = 1;
  for (const float one : wanted) most = std::max(most, std::abs(one));
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (!(std::abs(wanted[i] - got[i]) <= tolerance * most)) {
      std::fprintf(stderr, "element %zu: %g, wanted %g\n", i, static_cast<double>(got[i]),
                   static_cast<double>(wanted[i]));
      return false;
    }
  return wanted.size() == got.size();
}

template <class T>
struct On {  // the device
  On(const Library& library, const std::vector<T>& values) : cuda(library), count(values.size()) {
    SAME(cuda.call("cudaMalloc", &at, count * sizeof(T)), 0);
    SAME(cuda.call("cudaMemcpy", at, static_cast<const void*>(values.data()), count * sizeof(T), 1),
         0);
  }
  std::vector<T> now() const {
    std::vector<T> values(count);
    SAME(cuda.call("cudaMemcpy", static_cast<void*>(values.data()), static_cast<const void*>(at),
                   count * sizeof(T), 2),
         0);
    return values;
  }
  const Library& cuda;
  std::size_t count;
  void* at = nullptr;
};
using OnDevice = On<float>;

// An object of a library, made and set by two calls.
template <class... Values>
void* made(const Library& library, const char* create, const char* set, Values... values) {
  void* object = nullptr;
  SAME(library.call(create, &object), 0);
  SAME(library.call(set, object, values...), 0);
  return object;
}

class Networks : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_WHERE_CHILDREN_HAVE_NO_THREADS(); }
  template <class Scenario>
  void run(const char* library, const Scenario& scenario) {
    PtxServer server(private_address());
    EXPECT_EQ(in_child(server.address(),
                       [&] {
                         const Library cuda("libcudart.so.13"), tried(library);
                         scenario(cuda, tried);
                       }),
              0);
  }
  // What the program's session said of itself.
  std::string stats() const {
    std::ifstream file(stats_file());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void TearDown() override { ::unlink(stats_file().c_str()); }
  // A process's own, as tests run beside each other.
  std::string stats_file() const {
    return ::testing::TempDir() + "networks_stats" + std::to_string(::getpid());
  }
};

// ---- cuBLASLt ----

constexpr int kRelu = 2, kBias = 4, kGelu = 32, kFloatType = 0, kHalfType = 2;

double activated(double x, int epilogue) {
  if ((epilogue & kRelu) != 0) return std::max(x, 0.0);
  if ((epilogue & kGelu) != 0)
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x)));
  return x;
}

// D = epilogue(2 op(A) op(B) + beta C), column by column, two of a batch.
struct Product {
  int m, n, k, epilogue;
  bool turned_a, turned_b;
  float beta;
  static constexpr int kBatch = 2;
  Floats wanted(const Floats& a, const Floats& b, const Floats& c, const Floats& bias) const {
    Floats d;
    for (int i = 0; i < kBatch * m * n; ++i) {
      const int which = i / (m * n), row = i % m, column = i / m % n;
      double sum = 0;
      for (int t = 0; t < k; ++t) {
        const int in_a = turned_a ? row * k + t : t * m + row,
                  in_b = turned_b ? t * n + column : column * k + t;
        sum += double{a[std::size_t(which * m * k + in_a)]} *
               double{b[std::size_t(which * k * n + in_b)]};
      }
      const double more = (epilogue & kBias) != 0 ? double{bias[std::size_t(row)]} : 0;
      d.push_back(static_cast<float>(
          activated(2 * sum + double{beta} * double{c[std::size_t(i)]} + more, epilogue)));
    }
    return d;
  }
};

void* layout(const Library& lt, int type, int rows, int columns) {
  void* made = nullptr;
  SAME(lt.call("cublasLtMatrixLayoutCreate", &made, type, static_cast<std::uint64_t>(rows),
               static_cast<std::uint64_t>(columns), static_cast<std::int64_t>(rows)),
       0);
  const int batch = Product::kBatch;
  const std::int64_t stride = std::int64_t{rows} * columns;
  SAME(lt.call("cublasLtMatrixLayoutSetAttribute", made, 5, static_cast<const void*>(&batch),
               sizeof batch),
       0);
  SAME(lt.call("cublasLtMatrixLayoutSetAttribute", made, 6, static_cast<const void*>(&stride),
               sizeof stride),
       0);
  return made;
}

template <class T>
void multiply(const Library& lt, const Product& product, int type, const On<T>& a, const On<T>& b,
              const On<T>& c, const On<T>& d, void* bias, int factors = kFloatType) {
  void *handle = nullptr, *how = nullptr;
  SAME(lt.call("cublasLtCreate", &handle), 0);
  SAME(lt.call("cublasLtMatmulDescCreate", &how, factors == kHalfType ? 64 : 68, factors), 0);
  const int turned[] = {product.turned_a ? 1 : 0, product.turned_b ? 1 : 0};
  const auto set = [&](int which, const void* from, std::size_t bytes) {
    SAME(lt.call("cublasLtMatmulDescSetAttribute", how, which, from, bytes), 0);
  };
  set(3, &turned[0], 4), set(4, &turned[1], 4);
  const int epilogue = product.epilogue == 0 ? 1 : product.epilogue;
  set(7, &epilogue, 4), set(8, static_cast<const void*>(&bias), sizeof bias);
  void* const is[] = {layout(lt, type, turned[0] != 0 ? product.k : product.m,
                             turned[0] != 0 ? product.m : product.k),
                      layout(lt, type, turned[1] != 0 ? product.n : product.k,
                             turned[1] != 0 ? product.k : product.n),
                      layout(lt, type, product.m, product.n)};
  struct {
    std::uint64_t algorithm[8], workspace;
    int state;
    float waves;
    int reserved[4];
  } best{};
  int found = 0;
  SAME(lt.call("cublasLtMatmulAlgoGetHeuristic", handle, how, is[0], is[1], is[2], is[2],
               static_cast<void*>(nullptr), 1, static_cast<void*>(&best), &found),
       0);
  SAME(found, 1);
  const float alpha = 2;
  const std::uint16_t halves[] = {half_of(alpha), 0xffff, half_of(product.beta), 0xffff};
  const bool half = factors == kHalfType;
  SAME(
      lt.call("cublasLtMatmul", handle, how,
              half ? static_cast<const void*>(&halves[0]) : static_cast<const void*>(&alpha), a.at,
              is[0], b.at, is[1],
              half ? static_cast<const void*>(&halves[2]) : static_cast<const void*>(&product.beta),
              c.at, is[2], d.at, is[2], static_cast<const void*>(&best),
              static_cast<void*>(nullptr), std::size_t{0}, static_cast<void*>(nullptr)),
      0);
}

constexpr Product kProducts[] = {{5, 4, 3, 0, false, false, 0},
                                 {33, 17, 65, kBias, true, false, 1},
                                 {16, 40, 9, kRelu | kBias, false, true, 0},
                                 {7, 50, 20, kGelu | kBias, true, true, -1},
                                 {64, 3, 128, kGelu, true, false, 0.5F}};

TEST_F(Networks, ProductsWithWhatFollowsThem) {
  for (const char* library : {"libcublasLt.so.12", "libcublasLt.so.13"})
    run(library, [](const Library& cuda, const Library& lt) {
      for (const Product& one : kProducts) {
        const auto count = [&](int rows, int columns) {
          return std::size_t(rows * columns * Product::kBatch);
        };
        const Floats a = numbers(count(one.m, one.k), 1), b = numbers(count(one.k, one.n), 2),
                     c = numbers(count(one.m, one.n), 3), bias = numbers(std::size_t(one.m), 4);
        const OnDevice da(cuda, a), db(cuda, b), dc(cuda, c), dd(cuda, Floats(c.size())),
            dbias(cuda, bias);
        multiply(lt, one, kFloatType, da, db, dc, dd, dbias.at);
        NEED(close(one.wanted(a, b, c, bias), dd.now(), 2e-6F));
      }
    });
}

TEST_F(Networks, ProductsOfHalvesWithWhatFollowsThem) {
  run("libcublasLt.so.13", [](const Library& cuda, const Library& lt) {
    using Halves = std::vector<std::uint16_t>;
    for (const Product& one : kProducts) {
      const auto draw = [](int count, unsigned seed) {
        Halves halves;
        for (const float value : numbers(std::size_t(count), seed))
          halves.push_back(half_of(value));
        return halves;
      };
      const auto wide = [](const Halves& halves) {
        Floats values;
        for (const std::uint16_t value : halves) values.push_back(of_half(value));
        return values;
      };
      const Halves a = draw(one.m * one.k * 2, 1), b = draw(one.k * one.n * 2, 2),
                   c = draw(one.m * one.n * 2, 3), bias = draw(one.m, 4);
      const On<std::uint16_t> da(cuda, a), db(cuda, b), dc(cuda, c), dd(cuda, Halves(c.size())),
          dbias(cuda, bias);
      for (const int factors : {kFloatType, kHalfType}) {
        multiply(lt, one, kHalfType, da, db, dc, dd, dbias.at, factors);
        NEED(close(one.wanted(wide(a), wide(b), wide(c), wide(bias)), wide(dd.now()), 2e-3F));
      }
    }
  });
}

// ---- cuDNN ----

struct Sizes {
  int n, c, h, w;
  std::size_t count() const { return std::size_t(n * c * h * w); }
  std::size_t at(int i, int j, int y, int x) const {
    return std::size_t(((i * c + j) * h + y) * w + x);
  }
};
void* tensor(const Library& dnn, const Sizes& of) {
  return made(dnn, "cudnnCreateTensorDescriptor", "cudnnSetTensor4dDescriptor", 0, 0, of.n, of.c,
              of.h, of.w);
}
void each(const Sizes& of, const std::function<void(int, int, int, int)>& visit) {
  for (int n = 0; n < of.n; ++n)
    for (int c = 0; c < of.c; ++c)
      for (int y = 0; y < of.h; ++y)
        for (int x = 0; x < of.w; ++x) visit(n, c, y, x);
}

struct Windows {
  int k, r, s, pad, step, apart = 1, groups = 1, mode = 1;  // mode 0: turned filters
};

Floats convolved(const Floats& x, const Sizes& of, const Floats& w, const Windows& by, Sizes& out) {
  const auto side = [&](int size, int filter) {
    return 1 + (size + 2 * by.pad - ((filter - 1) * by.apart + 1)) / by.step;
  };
  out = {of.n, by.k, side(of.h, by.r), side(of.w, by.s)};
  Floats y(out.count());
  const int inputs = of.c / by.groups;
  each(out, [&](int n, int k, int p, int q) {
    double sum = 0;
    for (int c = 0; c < inputs; ++c)
      for (int r = 0; r < by.r; ++r)
        for (int s = 0; s < by.s; ++s) {
          const int row = p * by.step - by.pad + (by.mode == 0 ? by.r - 1 - r : r) * by.apart;
          const int column = q * by.step - by.pad + (by.mode == 0 ? by.s - 1 - s : s) * by.apart;
          if (row < 0 || row >= of.h || column < 0 || column >= of.w) continue;
          sum += double{x[of.at(n, k / (by.k / by.groups) * inputs + c, row, column)]} *
                 double{w[std::size_t(((k * inputs + c) * by.r + r) * by.s + s)]};
        }
    y[out.at(n, k, p, q)] = static_cast<float>(sum);
  });
  return y;
}

struct Layer {  // a convolution, ready
  Layer(const Library& cuda, const Library& library, const Sizes& of, const Windows& by)
      : dnn(library), x_is(tensor(dnn, of)) {
    w_is = made(dnn, "cudnnCreateFilterDescriptor", "cudnnSetFilter4dDescriptor", 0, 0, by.k,
                of.c / by.groups, by.r, by.s);
    how = made(dnn, "cudnnCreateConvolutionDescriptor", "cudnnSetConvolution2dDescriptor", by.pad,
               by.pad, by.step, by.step, by.apart, by.apart, by.mode, 0);
    SAME(dnn.call("cudnnSetConvolutionGroupCount", how, by.groups), 0);
    SAME(dnn.call("cudnnGetConvolution2dForwardOutputDim", how, x_is, w_is, &out.n, &out.c, &out.h,
                  &out.w),
         0);
    y_is = tensor(dnn, out);
    SAME(dnn.call("cudnnGetConvolutionForwardWorkspaceSize", static_cast<void*>(nullptr), x_is,
                  w_is, how, y_is, 2, &bytes),
         0);
    if (bytes > 0) SAME(cuda.call("cudaMalloc", &workspace, bytes), 0);
  }
  const Library& dnn;
  void *x_is, *w_is = nullptr, *how = nullptr, *y_is = nullptr, *workspace = nullptr;
  std::size_t bytes = 0;
  Sizes out{};
};

const void* const_of(const float& value) { return &value; }
constexpr float kOne = 1, kNone = 0;

TEST_F(Networks, Convolutions) {
  run("libcudnn.so.9", [](const Library& cuda, const Library& dnn) {
    void* handle = nullptr;
    SAME(dnn.call("cudnnCreate", &handle), 0);
    const std::pair<Sizes, Windows> shapes[] = {
        {{2, 3, 8, 9}, {4, 3, 3, 1, 1}},          {{1, 4, 7, 7}, {6, 1, 1, 0, 1}},
        {{2, 4, 9, 8}, {6, 3, 2, 1, 2, 1, 2}},    {{1, 2, 11, 11}, {3, 3, 3, 2, 1, 2}},
        {{3, 2, 6, 6}, {2, 3, 3, 0, 1, 1, 1, 0}}, {{2, 5, 5, 5}, {5, 5, 5, 2, 1, 1, 5}}};
    for (const auto& [of, by] : shapes) {
      Layer layer(cuda, dnn, of, by);
      const Floats x = numbers(of.count(), 5),
                   w = numbers(std::size_t(by.k * of.c / by.groups * by.r * by.s), 6);
      Sizes out{};
      Floats wanted = convolved(x, of, w, by, out);
      const Floats before = numbers(out.count(), 7), bias = numbers(std::size_t(out.c), 8);
      const OnDevice dx(cuda, x), dw(cuda, w), dy(cuda, before), dbias(cuda, bias);
      const float half = 0.5F, two = 2;
      SAME(dnn.call("cudnnConvolutionForward", handle, const_of(two), layer.x_is, dx.at, layer.w_is,
                    dw.at, layer.how, 2, layer.workspace, layer.bytes, const_of(half), layer.y_is,
                    dy.at),
           0);
      Floats first = wanted;
      for (std::size_t i = 0; i < first.size(); ++i) first[i] = 2 * wanted[i] + 0.5F * before[i];
      NEED(close(first, dy.now(), 3e-6F));
      void* const bias_is = tensor(dnn, {1, out.c, 1, 1});
      void* const relu =
          made(dnn, "cudnnCreateActivationDescriptor", "cudnnSetActivationDescriptor", 1, 0, 0.0);
      SAME(dnn.call("cudnnConvolutionBiasActivationForward", handle, const_of(kOne), layer.x_is,
                    dx.at, layer.w_is, dw.at, layer.how, 2, layer.workspace, layer.bytes,
                    const_of(kNone), layer.y_is, dy.at, bias_is, dbias.at, relu, layer.y_is, dy.at),
           0);
      each(out, [&](int n, int c, int p, int q) {
        float& one = wanted[out.at(n, c, p, q)];
        one = std::max(one + bias[std::size_t(c)], 0.0F);
      });
      NEED(close(wanted, dy.now(), 3e-6F));
    }
  });
}

TEST_F(Networks, Pooling) {
  run("libcudnn.so.9", [](const Library& cuda, const Library& dnn) {
    void* handle = nullptr;
    SAME(dnn.call("cudnnCreate", &handle), 0);
    const Sizes of{2, 3, 7, 8}, out{2, 3, 4, 4};
    const Floats x = numbers(of.count(), 9);
    const OnDevice dx(cuda, x), dy(cuda, Floats(out.count()));
    for (int mode = 0; mode < 4; ++mode) {
      void* const pooling = made(dnn, "cudnnCreatePoolingDescriptor", "cudnnSetPooling2dDescriptor",
                                 mode, 0, 3, 3, 1, 1, 2, 2);
      Sizes said{};
      SAME(dnn.call("cudnnGetPooling2dForwardOutputDim", pooling, tensor(dnn, of), &said.n, &said.c,
                    &said.h, &said.w),
           0);
      SAME(said.h, out.h);
      SAME(said.w, out.w);
      SAME(dnn.call("cudnnPoolingForward", handle, pooling, const_of(kOne), tensor(dnn, of), dx.at,
                    const_of(kNone), tensor(dnn, out), dy.at),
           0);
      Floats wanted(out.count());
      each(out, [&](int n, int c, int p, int q) {
        float most = -10, sum = 0, inside = 0;
        for (int row = std::max(2 * p - 1, 0); row < std::min(2 * p + 2, of.h); ++row)
          for (int column = std::max(2 * q - 1, 0); column < std::min(2 * q + 2, of.w); ++column)
            most = std::max(most, x[of.at(n, c, row, column)]), sum += x[of.at(n, c, row, column)],
            ++inside;
        wanted[out.at(n, c, p, q)] = mode == 1 ? sum / 9 : mode == 2 ? sum / inside : most;
      });
      NEED(close(wanted, dy.now(), 1e-6F));
    }
  });
}

// Whether what is no number counts is said by the descriptors: 0 not, 1 it does.
TEST_F(Networks, WhatIsNoNumber) {
  run("libcudnn.so.9", [](const Library& cuda, const Library& dnn) {
    void* handle = nullptr;
    SAME(dnn.call("cudnnCreate", &handle), 0);
    const float none = std::nanf("");
    const OnDevice dx(cuda, {1, none, 2, 3, none, none, none, none}), dy(cuda, Floats(8));
    const Sizes of{2, 1, 2, 2}, out{2, 1, 1, 1};
    for (const int counts : {0, 1}) {
      void* const pooling = made(dnn, "cudnnCreatePoolingDescriptor", "cudnnSetPooling2dDescriptor",
                                 0, counts, 2, 2, 0, 0, 2, 2);
      SAME(dnn.call("cudnnPoolingForward", handle, pooling, const_of(kOne), tensor(dnn, of), dx.at,
                    const_of(kNone), tensor(dnn, out), dy.at),
           0);
      const Floats most = dy.now();
      NEED(counts != 0 ? std::isnan(most[0]) : most[0] == 3);
      NEED(std::isnan(most[1]));
      for (const int kind : {1, 3}) {  // without a bound, and up to 2.5
        void* const how = made(dnn, "cudnnCreateActivationDescriptor",
                               "cudnnSetActivationDescriptor", kind, counts, 2.5);
        SAME(dnn.call("cudnnActivationForward", handle, how, const_of(kOne), tensor(dnn, of), dx.at,
                      const_of(kNone), tensor(dnn, of), dy.at),
             0);
        const Floats y = dy.now();
        NEED(counts != 0 ? std::isnan(y[1]) : y[1] == 0);
        NEED(y[0] == 1 && y[2] == 2 && y[3] == (kind == 3 ? 2.5F : 3.0F));
      }
    }
  });
}

TEST_F(Networks, ActivationsSoftmaxAndNormalisation) {
  run("libcudnn.so.9", [](const Library& cuda, const Library& dnn) {
    void* handle = nullptr;
    SAME(dnn.call("cudnnCreate", &handle), 0);
    const Sizes of{2, 5, 3, 4};
    Floats x = numbers(of.count(), 10);
    for (float& one : x) one *= 6;
    const OnDevice dx(cuda, x), dy(cuda, Floats(of.count()));
    void* const is = tensor(dnn, of);
    const std::function<double(double)> kinds[] = {
        [](double v) { return 1 / (1 + std::exp(-v)); },
        [](double v) { return std::max(v, 0.0); },
        [](double v) { return std::tanh(v); },
        [](double v) { return std::clamp(v, 0.0, 2.5); },
        [](double v) { return v < 0 ? 2.5 * std::expm1(v) : v; },
        [](double v) { return v; },
        [](double v) { return v / (1 + std::exp(-v)); }};
    for (int kind = 0; kind < 7; ++kind) {
      void* const how = made(dnn, "cudnnCreateActivationDescriptor", "cudnnSetActivationDescriptor",
                             kind, 0, 2.5);
      SAME(dnn.call("cudnnActivationForward", handle, how, const_of(kOne), is, dx.at,
                    const_of(kNone), is, dy.at),
           0);
      Floats wanted;
      for (const float one : x) wanted.push_back(static_cast<float>(kinds[kind](double{one})));
      NEED(close(wanted, dy.now(), 1e-6F));
    }
    for (int mode = 0; mode < 2; ++mode)
      for (int algorithm = 0; algorithm < 3; ++algorithm) {
        SAME(dnn.call("cudnnSoftmaxForward", handle, algorithm, mode, const_of(kOne), is, dx.at,
                      const_of(kNone), is, dy.at),
             0);
        Floats wanted(of.count());
        each(of, [&](int n, int c, int p, int q) {
          double sum = 0;
          each({1, of.c, of.h, of.w}, [&](int, int i, int j, int l) {
            if (mode == 0 || (j == p && l == q)) sum += std::exp(double{x[of.at(n, i, j, l)]});
          });
          const double share = std::exp(double{x[of.at(n, c, p, q)]}) / sum;
          wanted[of.at(n, c, p, q)] = static_cast<float>(algorithm == 2 ? std::log(share) : share);
        });
        NEED(close(wanted, dy.now(), 1e-6F));
      }
    for (int mode = 0; mode < 2; ++mode) {
      void* of_parameters = nullptr;
      SAME(dnn.call("cudnnCreateTensorDescriptor", &of_parameters), 0);
      SAME(dnn.call("cudnnDeriveBNTensorDescriptor", of_parameters, is, mode), 0);
      const std::size_t count = mode == 0 ? of.count() / 2 : 5;
      Floats variance = numbers(count, 14);
      for (float& one : variance) one += 1.5F;
      const Floats scale = numbers(count, 11), bias = numbers(count, 12), mean = numbers(count, 13);
      const OnDevice dscale(cuda, scale), dbias(cuda, bias), dmean(cuda, mean),
          dvariance(cuda, variance);
      SAME(dnn.call("cudnnBatchNormalizationForwardInference", handle, mode, const_of(kOne),
                    const_of(kNone), is, dx.at, is, dy.at, of_parameters, dscale.at, dbias.at,
                    dmean.at, dvariance.at, 1e-5),
           0);
      Floats wanted(of.count());
      each(of, [&](int n, int c, int p, int q) {
        const std::size_t i = mode == 0 ? of.at(0, c, p, q) : std::size_t(c);
        wanted[of.at(n, c, p, q)] =
            scale[i] * (x[of.at(n, c, p, q)] - mean[i]) / std::sqrt(variance[i] + 1e-5F) + bias[i];
      });
      NEED(close(wanted, dy.now(), 2e-6F));
    }
  });
}

// Two convolutions with ReLU, pooling after each, a layer of all with all, softmax; two images.
struct SmallNetwork {
  const Sizes in{2, 1, 16, 16}, pooled[2] = {{2, 8, 8, 8}, {2, 12, 4, 4}};
  const Windows by[2] = {{8, 3, 3, 1, 1}, {12, 3, 3, 1, 1}};
  const Floats w[2] = {numbers(8 * 9, 20), numbers(12 * 8 * 9, 21)};
  const Floats bias[2] = {numbers(8, 22), numbers(12, 23)}, dense = numbers(192 * 10, 24);

  Floats wanted(Floats now) const {
    Sizes of = in;
    for (int i = 0; i < 2; ++i) {
      Sizes out{};
      const Floats y = convolved(now, of, w[i], by[i], out);
      now.assign(pooled[i].count(), 0);
      each(out, [&](int n, int c, int p, int q) {
        float& most = now[pooled[i].at(n, c, p / 2, q / 2)];
        most = std::max(most, y[out.at(n, c, p, q)] + bias[i][std::size_t(c)]);
      });
      of = pooled[i];
    }
    Floats shares;
    for (std::size_t n = 0; n < 2; ++n) {
      std::vector<double> logits(10);
      for (std::size_t i = 0; i < 1920; ++i)
        logits[i % 10] += double{dense[i]} * double{now[n * 192 + i / 10]};
      const double most = *std::max_element(logits.begin(), logits.end());
      double sum = 0;
      for (double& one : logits) sum += one = std::exp(one - most);
      for (const double one : logits) shares.push_back(static_cast<float>(one / sum));
    }
    return shares;
  }
};

class OnLibraries {  // the same
 public:
  OnLibraries(const SmallNetwork& network, const Library& c, const Library& d)
      : is(network), cuda(c), dnn(d) {
    SAME(dnn.call("cudnnCreate", &handle), 0);
    SAME(lt.call("cublasLtCreate", &lt_handle), 0);
    SAME(lt.call("cublasLtMatmulDescCreate", &how, 68, 0), 0);
  }
  Floats shares(const Floats& x) {
    put(x), infer(nullptr);
    return now();
  }
  void put(const Floats& x) const {
    SAME(cuda.call("cudaMemcpy", dx.at, static_cast<const void*>(x.data()), x.size() * 4, 1), 0);
  }
  Floats now() const { return logits.now(); }
  void infer(void* stream) {
    SAME(dnn.call("cudnnSetStream", handle, stream), 0);
    for (int i = 0; i < 2; ++i) {
      const Layer& layer = layers[i];
      SAME(dnn.call("cudnnConvolutionBiasActivationForward", handle, const_of(kOne), layer.x_is,
                    i == 0 ? dx.at : small[0].at, layer.w_is, dw[i].at, layer.how, 2,
                    layer.workspace, layer.bytes, const_of(kNone), layer.y_is, mid[i].at,
                    tensor(dnn, {1, is.by[i].k, 1, 1}), dbias[i].at, relu, layer.y_is, mid[i].at),
           0);
      SAME(dnn.call("cudnnPoolingForward", handle, pooling, const_of(kOne), layer.y_is, mid[i].at,
                    const_of(kNone), tensor(dnn, is.pooled[i]), small[i].at),
           0);
    }
    void* const none = nullptr;
    SAME(lt.call("cublasLtMatmul", lt_handle, how, const_of(kOne), ddense.at, matrix(10, 192),
                 small[1].at, matrix(192, 2), const_of(kNone), logits.at, matrix(10, 2), logits.at,
                 matrix(10, 2), none, none, std::size_t{0}, stream),
         0);
    void* const of = tensor(dnn, {2, 10, 1, 1});
    SAME(dnn.call("cudnnSoftmaxForward", handle, 1, 0, const_of(kOne), of, logits.at,
                  const_of(kNone), of, logits.at),
         0);
  }

 private:
  void* matrix(int rows, int columns) const {
    void* made = nullptr;
    SAME(lt.call("cublasLtMatrixLayoutCreate", &made, 0, static_cast<std::uint64_t>(rows),
                 static_cast<std::uint64_t>(columns), static_cast<std::int64_t>(rows)),
         0);
    return made;
  }
  const SmallNetwork& is;
  const Library &cuda, &dnn;
  const Library lt{"libcublasLt.so.13"};
  void *handle = nullptr, *lt_handle = nullptr, *how = nullptr;
  void* pooling = made(dnn, "cudnnCreatePoolingDescriptor", "cudnnSetPooling2dDescriptor", 0, 0, 2,
                       2, 0, 0, 2, 2);
  void* relu =
      made(dnn, "cudnnCreateActivationDescriptor", "cudnnSetActivationDescriptor", 1, 0, 0.0);
  Layer layers[2] = {{cuda, dnn, is.in, is.by[0]}, {cuda, dnn, is.pooled[0], is.by[1]}};
  OnDevice dw[2] = {{cuda, is.w[0]}, {cuda, is.w[1]}};
  OnDevice dbias[2] = {{cuda, is.bias[0]}, {cuda, is.bias[1]}}, ddense{cuda, is.dense};
  OnDevice dx{cuda, Floats(is.in.count())}, logits{cuda, Floats(20)};
  OnDevice mid[2] = {{cuda, Floats(layers[0].out.count())}, {cuda, Floats(layers[1].out.count())}};
  OnDevice small[2] = {{cuda, Floats(is.pooled[0].count())}, {cuda, Floats(is.pooled[1].count())}};
};

// From the program's memory and back; how often it waits for the server is counted.
TEST_F(Networks, ASmallNetworkOfConvolutionsWaitsOnceForEachInference) {
  ::setenv("PARTITA_REMOTE_STATS", stats_file().c_str(), 1);
  run("libcudnn.so.9", [](const Library& cuda, const Library& dnn) {
    const SmallNetwork network;
    OnLibraries tried(network, cuda, dnn);
    for (unsigned inference = 0; inference < 5; ++inference) {
      const Floats x = numbers(network.in.count(), 30 + inference);
      // Logits of some tens, so shares by their differences.
      NEED(close(network.wanted(x), tried.shares(x), 2e-4F));
    }
  });
  ::unsetenv("PARTITA_REMOTE_STATS");
  // The session, our kernels, and one copy back for each of five inferences.
  EXPECT_NE(stats().find("\"blocking_round_trips\": 7,"), std::string::npos) << stats();
}

// Two layers of all with all with ReLU (cuBLASLt) and one without (cuBLAS), five vectors at once.
struct Perceptron {
  static constexpr int kSizes[] = {12, 16, 8, 4}, kBatch = 5;
  Floats w[3], bias[2];
  Perceptron() {
    for (int i = 0; i < 3; ++i)
      w[i] = numbers(std::size_t(kSizes[i] * kSizes[i + 1]), 40 + unsigned(i));
    for (int i = 0; i < 2; ++i) bias[i] = numbers(std::size_t(kSizes[i + 1]), 50 + unsigned(i));
  }
  Floats wanted(Floats now) const {
    for (int layer = 0; layer < 3; ++layer) {
      const int from = kSizes[layer], to = kSizes[layer + 1];
      Floats next;
      for (int i = 0; i < to * kBatch; ++i) {
        double sum = layer < 2 ? double{bias[layer][std::size_t(i % to)]} : 0;
        for (int t = 0; t < from; ++t)
          sum += double{w[layer][std::size_t(t * to + i % to)]} *
                 double{now[std::size_t(i / to * from + t)]};
        next.push_back(static_cast<float>(layer < 2 ? std::max(sum, 0.0) : sum));
      }
      now = std::move(next);
    }
    return now;
  }
};

class PerceptronOnLibraries {  // the same
 public:
  PerceptronOnLibraries(const Perceptron& of, const Library& c) : is(of), cuda(c) {
    SAME(lt.call("cublasLtCreate", &lt_handle), 0);
    SAME(blas.call("cublasCreate_v2", &blas_handle), 0);
    for (std::size_t i = 0; i < 2; ++i) {
      const int relu_and_bias = kRelu | kBias;
      SAME(lt.call("cublasLtMatmulDescCreate", &how[i], 68, 0), 0);
      SAME(lt.call("cublasLtMatmulDescSetAttribute", how[i], 7, &relu_and_bias, std::size_t{4}), 0);
      SAME(lt.call("cublasLtMatmulDescSetAttribute", how[i], 8, &dbias[i].at, sizeof(void*)), 0);
    }
  }
  void put(const Floats& x) const {
    SAME(cuda.call("cudaMemcpy", at[0].at, static_cast<const void*>(x.data()), x.size() * 4, 1), 0);
  }
  Floats now() const { return at[3].now(); }
  void infer(void* stream) const {
    float one = 1, none = 0;
    void* const nothing = nullptr;
    for (int i = 0; i < 2; ++i) {
      const int from = is.kSizes[i], to = is.kSizes[i + 1];
      SAME(lt.call("cublasLtMatmul", lt_handle, how[i], &one, dw[i].at, matrix(to, from), at[i].at,
                   matrix(from, is.kBatch), &none, at[i + 1].at, matrix(to, is.kBatch),
                   at[i + 1].at, matrix(to, is.kBatch), nothing, nothing, std::size_t{0}, stream),
           0);
    }
    SAME(blas.call("cublasSetStream_v2", blas_handle, stream), 0);
    SAME(blas.call("cublasSgemm_v2", blas_handle, 0, 0, is.kSizes[3], is.kBatch, is.kSizes[2], &one,
                   dw[2].at, is.kSizes[3], at[2].at, is.kSizes[2], &none, at[3].at, is.kSizes[3]),
         0);
    one = none = 77;  // read by now
  }

 private:
  void* matrix(int rows, int columns) const {
    void* made = nullptr;
    SAME(lt.call("cublasLtMatrixLayoutCreate", &made, 0, static_cast<std::uint64_t>(rows),
                 static_cast<std::uint64_t>(columns), static_cast<std::int64_t>(rows)),
         0);
    return made;
  }
  OnDevice values(int layer) const {
    return {cuda, Floats(std::size_t(Perceptron::kSizes[layer] * Perceptron::kBatch))};
  }
  const Perceptron& is;
  const Library& cuda;
  const Library lt{"libcublasLt.so.13"}, blas{"libcublas.so.13"};
  void *lt_handle = nullptr, *blas_handle = nullptr, *how[2] = {};
  OnDevice dw[3] = {{cuda, is.w[0]}, {cuda, is.w[1]}, {cuda, is.w[2]}};
  OnDevice dbias[2] = {{cuda, is.bias[0]}, {cuda, is.bias[1]}};
  OnDevice at[4] = {values(0), values(1), values(2), values(3)};
};

// Captured once, launched with three inputs.
template <class Network, class Tried>
void infer_in_a_graph(const Library& cuda, const Network& network, Tried& tried,
                      std::size_t inputs) {
  void *stream = nullptr, *graph = nullptr, *exec = nullptr;
  SAME(cuda.call("cudaStreamCreate", &stream), 0);
  SAME(cuda.call("cudaStreamBeginCapture", stream, 0), 0);
  tried.infer(stream);
  SAME(cuda.call("cudaStreamEndCapture", stream, &graph), 0);
  SAME(cuda.call("cudaGraphInstantiateWithFlags", &exec, graph, 0ULL), 0);
  for (unsigned inference = 0; inference < 3; ++inference) {
    const Floats x = numbers(inputs, 60 + inference);
    tried.put(x);
    SAME(cuda.call("cudaGraphLaunch", exec, stream), 0);
    NEED(close(network.wanted(x), tried.now(), 2e-4F));
  }
}

// A graph is waited for twice, when it has been captured and when it is instantiated, then each
// result once; at the end what is left.
TEST_F(Networks, InferencesInGraphs) {
  ::setenv("PARTITA_REMOTE_STATS", stats_file().c_str(), 1);
  run("libcudnn.so.9", [](const Library& cuda, const Library& dnn) {
    const SmallNetwork convolutions;
    OnLibraries tried(convolutions, cuda, dnn);
    infer_in_a_graph(cuda, convolutions, tried, convolutions.in.count());
    const Perceptron layers;
    PerceptronOnLibraries others(layers, cuda);
    infer_in_a_graph(cuda, layers, others, std::size_t(layers.kSizes[0] * layers.kBatch));
  });
  ::unsetenv("PARTITA_REMOTE_STATS");
  EXPECT_NE(stats().find("\"copy_out\": 6, \"device_sync\": 1, \"graph\": 4}"), std::string::npos)
      << stats();
}

TEST_F(Networks, WhatIsNotThereIsRefusedByNameWithTheLibrarysNumber) {
  run("libcudnn.so.9", [](const Library&, const Library& dnn) {
    SAME(dnn.call("cudnnCTCLoss"), 3000);
    SAME(dnn.call("cudnnConvolutionBackwardData"), 3000);
    void* tensor = nullptr;
    SAME(dnn.call("cudnnCreateTensorDescriptor", &tensor), 0);
    const int five[] = {1, 2, 3, 4, 5};
    SAME(dnn.call("cudnnSetTensorNdDescriptor", tensor, 0, 5, &five[0], &five[0]), 0);
    void *handle = nullptr, *activation = nullptr;
    SAME(dnn.call("cudnnCreate", &handle), 0);
    SAME(dnn.call("cudnnCreateActivationDescriptor", &activation), 0);
    const float one = 1;
    SAME(dnn.call("cudnnActivationForward", handle, activation, &one, tensor, handle, &one, tensor,
                  handle),
         3000);
  });
  run("libcudnn.so.9", [](const Library&, const Library& dnn) {
    void *x = nullptr, *w = nullptr, *by = nullptr, *y = nullptr;  // never set
    SAME(dnn.call("cudnnCreateTensorDescriptor", &x), 0);
    SAME(dnn.call("cudnnCreateTensorDescriptor", &y), 0);
    SAME(dnn.call("cudnnCreateFilterDescriptor", &w), 0);
    SAME(dnn.call("cudnnCreateConvolutionDescriptor", &by), 0);
    std::size_t bytes = 0;
    SAME(dnn.call("cudnnGetConvolutionForwardWorkspaceSize", x, x, w, by, y, 0, &bytes), 2000);
  });
  run("libcublasLt.so.13", [](const Library&, const Library& lt) {
    SAME(lt.call("cublasLtMatrixTransform"), 15);
    void *handle = nullptr, *how = nullptr, *const is = layout(lt, kFloatType, 2, 2);
    SAME(lt.call("cublasLtCreate", &handle), 0);
    SAME(lt.call("cublasLtMatmulDescCreate", &how, 64, kHalfType), 0);  // of floats
    char found[96];
    int count = 0;
    SAME(lt.call("cublasLtMatmulAlgoGetHeuristic", handle, how, is, is, is, is,
                 static_cast<void*>(nullptr), 1, static_cast<void*>(found), &count),
         15);
  });
}

}  // namespace
}  // namespace partita::remote::test
