// libcublas.so.12 and .13 against real sessions. Oracle: what the functions are defined to do,
// element by element, on small whole numbers, which are exact.
#include <array>
#include <cmath>
#include <limits>

#include "tests/remote/ptx_server.h"
#include "tests/remote/shim_harness.h"

namespace partita::remote::test {
namespace {

constexpr int kInvalid = 7, kUnsupported = 15, kNotTurned = 0, kTurned = 1;

template <class T>
struct Numbers {  // on the device and here
  Numbers(const Library& library, std::size_t count, int seed) : cuda(library), here(count) {
    unsigned state = static_cast<unsigned>(seed) * 7919U + 1;
    for (T& number : here)
      state = state * 1664525U + 1013904223U,
      number = static_cast<T>(static_cast<int>(state >> 8) % 5 - 2);
    SAME(cuda.call("cudaMalloc", &there, count * sizeof(T)), 0);
    SAME(cuda.call("cudaMemcpy", static_cast<void*>(there), static_cast<const void*>(here.data()),
                   count * sizeof(T), 1),
         0);
  }
  std::vector<T> now() const {
    std::vector<T> numbers(here.size());
    SAME(cuda.call("cudaMemcpy", static_cast<void*>(numbers.data()),
                   static_cast<const void*>(there), numbers.size() * sizeof(T), 2),
         0);
    return numbers;
  }
  const T* read() const { return there; }
  const Library& cuda;
  std::vector<T> here;
  T* there = nullptr;
};

struct Libraries {
  explicit Libraries(const std::string& version)
      : cuda("libcudart.so." + version), blas("libcublas.so." + version) {
    SAME(blas.call("cublasCreate_v2", &handle), 0);
  }
  const Library cuda, blas;
  void* handle = nullptr;
};

class Blas : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { SKIP_WHERE_CHILDREN_HAVE_NO_THREADS(); }
  void run(void (*scenario)(Libraries&)) {
    PtxServer server(private_address());
    EXPECT_EQ(in_child(server.address(),
                       [&] {
                         Libraries libraries(GetParam());
                         scenario(libraries);
                       }),
              0);
  }
};

template <class T>
void gemm_is_right(Libraries& with, const char* function) {
  const int m = 5, n = 4, k = 3, lda = 7, ldb = 8, ldc = 6;
  for (int form = 0; form < 4; ++form) {
    const bool ta = (form & 1) != 0, tb = (form & 2) != 0;
    Numbers<T> a(with.cuda, 64, 1 + form), b(with.cuda, 64, 2), c(with.cuda, 64, 3);
    const T alpha = 2, beta = -1;
    SAME(with.blas.call(function, with.handle, ta ? kTurned : kNotTurned, tb ? kTurned : kNotTurned,
                        m, n, k, &alpha, a.read(), lda, b.read(), ldb, &beta, c.there, ldc),
         0);
    std::vector<T> wanted = c.here;
    for (int row = 0; row < m; ++row)
      for (int column = 0; column < n; ++column) {
        T sum = 0;
        for (int i = 0; i < k; ++i)
          sum += a.here[static_cast<std::size_t>(ta ? row * lda + i : i * lda + row)] *
                 b.here[static_cast<std::size_t>(tb ? i * ldb + column : column * ldb + i)];
        T& one = wanted[static_cast<std::size_t>(column * ldc + row)];
        one = alpha * sum + beta * one;
      }
    NEED(c.now() == wanted);
  }
}

TEST_P(Blas, ProductsOfMatrices) {
  run([](Libraries& with) {
    gemm_is_right<float>(with, "cublasSgemm_v2");
    gemm_is_right<double>(with, "cublasDgemm_v2");
  });
}

TEST_P(Blas, BatchesInOneStrideOrByPointers) {
  run([](Libraries& with) {
    const int m = 3, batch = 4;
    Numbers<float> a(with.cuda, 9, 1), b(with.cuda, 40, 2), c(with.cuda, 40, 3),
        d(with.cuda, 40, 3);
    const float alpha = 1, beta = 1;
    SAME(
        with.blas.call("cublasSgemmStridedBatched", with.handle, kNotTurned, kNotTurned, m, m, m,
                       &alpha, a.read(), m, 0LL, b.read(), m, 10LL, &beta, c.there, m, 10LL, batch),
        0);
    std::vector<const float*> as(batch, a.there), bs;
    std::vector<float*> ds;
    for (int i = 0; i < batch; ++i) bs.push_back(b.there + i * 10), ds.push_back(d.there + i * 10);
    void* lists = nullptr;
    SAME(with.cuda.call("cudaMalloc", &lists, std::size_t{3 * batch * 8}), 0);
    auto* const at = static_cast<char*>(lists);
    const void* const from[] = {as.data(), bs.data(), ds.data()};
    for (int i = 0; i < 3; ++i)
      SAME(with.cuda.call("cudaMemcpy", static_cast<void*>(at + i * batch * 8), from[i],
                          std::size_t{batch * 8}, 1),
           0);
    SAME(with.blas.call("cublasSgemmBatched", with.handle, kNotTurned, kNotTurned, m, m, m, &alpha,
                        static_cast<const void*>(at), m, static_cast<const void*>(at + batch * 8),
                        m, &beta, static_cast<void*>(at + 2 * batch * 8), m, batch),
         0);
    std::vector<float> wanted = c.here;
    for (int one = 0; one < batch; ++one)
      for (int row = 0; row < m; ++row)
        for (int column = 0; column < m; ++column)
          for (int i = 0; i < m; ++i)
            wanted[static_cast<std::size_t>(one * 10 + column * m + row)] +=
                a.here[static_cast<std::size_t>(i * m + row)] *
                b.here[static_cast<std::size_t>(one * 10 + column * m + i)];
    NEED(c.now() == wanted && d.now() == wanted);
  });
}

TEST_P(Blas, Vectors) {
  run([](Libraries& with) {
    const int m = 4, n = 3, lda = 5;
    const double alpha = 3, beta = 2;
    Numbers<double> a(with.cuda, 30, 1), x(with.cuda, 30, 2), y(with.cuda, 30, 3);
    for (const bool turned : {false, true}) {
      Numbers<double> to(with.cuda, 30, 4);
      SAME(with.blas.call("cublasDgemv_v2", with.handle, turned ? kTurned : kNotTurned, m, n,
                          &alpha, a.read(), lda, x.read(), 2, &beta, to.there, 3),
           0);
      std::vector<double> wanted = to.here;
      for (int i = 0; i < (turned ? n : m); ++i) {
        double sum = 0;
        for (int j = 0; j < (turned ? m : n); ++j)
          sum += a.here[static_cast<std::size_t>(turned ? i * lda + j : j * lda + i)] *
                 x.here[static_cast<std::size_t>(j * 2)];
        double& one = wanted[static_cast<std::size_t>(i * 3)];
        one = alpha * sum + beta * one;
      }
      NEED(to.now() == wanted);
    }
    Numbers<double> updated(with.cuda, 30, 5);
    SAME(with.blas.call("cublasDger_v2", with.handle, m, n, &alpha, x.read(), 2, y.read(), 1,
                        updated.there, lda),
         0);
    std::vector<double> wanted = updated.here;
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j)
        wanted[static_cast<std::size_t>(j * lda + i)] +=
            alpha * x.here[static_cast<std::size_t>(i * 2)] * y.here[static_cast<std::size_t>(j)];
    NEED(updated.now() == wanted);
    double dot = 0, norm = 0, sum = 0, squares = 0;
    SAME(with.blas.call("cublasDdot_v2", with.handle, 10, x.read(), 2, y.read(), 3, &dot), 0);
    SAME(with.blas.call("cublasDnrm2_v2", with.handle, 10, x.read(), 2, &norm), 0);
    for (std::size_t i = 0; i < 10; ++i)
      sum += x.here[i * 2] * y.here[i * 3], squares += x.here[i * 2] * x.here[i * 2];
    SAME(dot, sum);
    SAME(norm, std::sqrt(squares));
    SAME(with.blas.call("cublasDaxpy_v2", with.handle, 10, &alpha, x.read(), 1, y.there, 2), 0);
    SAME(with.blas.call("cublasDscal_v2", with.handle, 5, &beta, y.there, 1), 0);
    SAME(with.blas.call("cublasDcopy_v2", with.handle, 6, y.read(), 1, x.there + 10, 3), 0);
    wanted = y.here;
    for (std::size_t i = 0; i < 10; ++i) wanted[i * 2] += alpha * x.here[i];
    for (std::size_t i = 0; i < 5; ++i) wanted[i] *= beta;
    NEED(y.now() == wanted);
    std::vector<double> copied = x.here;
    for (std::size_t i = 0; i < 6; ++i) copied[10 + i * 3] = wanted[i];
    NEED(x.now() == copied);
    // Against the order of memory they are refused, not done wrong.
    SAME(with.blas.call("cublasDaxpy_v2", with.handle, 10, &alpha, x.read(), -1, y.there, 2),
         kUnsupported);
  });
}

// Both against the order of memory are both along it; no increment at all is no matrix's, and the
// norm of what has none is 0.
TEST_P(Blas, VectorsFromTheEnd) {
  run([](Libraries& with) {
    Numbers<double> x(with.cuda, 30, 6), y(with.cuda, 30, 7);
    const double alpha = -3, beta = 2;
    SAME(with.blas.call("cublasDaxpy_v2", with.handle, 5, &alpha, x.read(), -1, y.there, -2), 0);
    std::vector<double> wanted = y.here;
    for (std::size_t i = 0; i < 5; ++i) wanted[i * 2] += alpha * x.here[i];
    NEED(y.now() == wanted);
    double dot = 0, sum = 0, norm = 0;
    SAME(with.blas.call("cublasDdot_v2", with.handle, 10, x.read(), -2, y.read(), -3, &dot), 0);
    for (std::size_t i = 0; i < 10; ++i) sum += x.here[i * 2] * wanted[i * 3];
    SAME(dot, sum);
    for (const int by : {0, -1}) {
      const int refused = by == 0 ? kInvalid : kUnsupported;
      SAME(with.blas.call("cublasDgemv_v2", with.handle, kNotTurned, 2, 2, &alpha, x.read(), 2,
                          x.read(), by, &beta, y.there, 1),
           refused);
      SAME(with.blas.call("cublasDger_v2", with.handle, 2, 2, &alpha, x.read(), 1, x.read(), by,
                          y.there, 2),
           refused);
      norm = 7;
      SAME(with.blas.call("cublasDnrm2_v2", with.handle, 10, x.read(), by, &norm), 0);
      SAME(norm, 0);
    }
    NEED(y.now() == wanted);
  });
}

TEST_P(Blas, SumsNeitherLeaveTheRangeNorAreLost) {
  run([](Libraries& with) {
    const auto close = [](double got, double wanted) {
      return std::abs(got - wanted) <= 1e-7 * std::abs(wanted);
    };
    for (const float by : {1e20F, 1e-25F, 1.0F}) {
      const There<float> x(with.cuda, {3 * by, -4 * by});
      float norm = 0;
      SAME(with.blas.call("cublasSnrm2_v2", with.handle, 2, x.at, 1, &norm), 0);
      NEED(close(double{norm}, 5 * double{by}));
    }
    const auto norm_of = [&](std::vector<double> values) {
      const There<double> x(with.cuda, std::move(values));
      double norm = 0;
      SAME(with.blas.call("cublasDnrm2_v2", with.handle, static_cast<int>(x.here.size()), x.at, 1,
                          &norm),
           0);
      return norm;
    };
    for (const double by : {1e200, 1e-200, 1e307, 1e-310, 1.0})
      NEED(close(norm_of({3 * by, -4 * by}), 5 * by));
    NEED(close(norm_of({1e-200, 3, 4}), 5) && close(norm_of({1e200, 3, 4}), 1e200));
    for (const double small : {1e-155, 3e-155, 1e-154})  // about where they begin to vanish
      NEED(close(norm_of({3 * small, 4e-154}), std::hypot(3 * small * 1e154, 4) * 1e-154));
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    NEED(norm_of({1, -kInfinity}) == kInfinity && norm_of({0, 0}) == 0);
    NEED(std::isnan(norm_of({1e300, std::nan(""), 1})) && std::isnan(norm_of({0, std::nan("")})));
    constexpr int kMany = 1 << 20;
    const There<float> thirds(with.cuda, std::vector<float>(kMany, 1 / 3.0F));
    const There<float> there(with.cuda, {0});
    float dot = 0;
    SAME(with.blas.call("cublasSdot_v2", with.handle, kMany, thirds.at, 1, thirds.at, 1, &dot), 0);
    NEED(close(double{dot}, double{1 / 3.0F} * double{1 / 3.0F} * kMany));
    SAME(with.blas.call("cublasSetPointerMode_v2", with.handle, 1), 0);
    SAME(with.blas.call("cublasSdot_v2", with.handle, kMany, thirds.at, 1, thirds.at, 1, there.at),
         0);
    SAME(there.now()[0], dot);
  });
}

// Memory of the program that is pinned has one address for both sides.
TEST_P(Blas, OperandsMayBePinned) {
  run([](Libraries& with) {
    constexpr int kCount = 5000;
    float *x = nullptr, *y = nullptr;
    SAME(with.cuda.call("cudaHostAlloc", &x, std::size_t{kCount * 4}, 0U), 0);
    SAME(with.cuda.call("cudaMallocHost", &y, std::size_t{kCount * 4}), 0);
    for (int i = 0; i < kCount; ++i) x[i] = static_cast<float>(i), y[i] = 1;
    const float alpha = 2;
    SAME(with.blas.call("cublasSaxpy_v2", with.handle, kCount, &alpha, x, 1, y, 1), 0);
    SAME(with.cuda.call("cudaDeviceSynchronize"), 0);
    for (int i = 0; i < kCount; ++i) NEED(y[i] == 1 + 2 * static_cast<float>(i));
    SAME(with.blas.call("cublasScopy_v2", with.handle, kCount, x, 1, y, 1), 0);
    SAME(with.cuda.call("cudaDeviceSynchronize"), 0);
    for (int i = 0; i < kCount; ++i) NEED(y[i] == x[i]);
  });
}

TEST_P(Blas, FactorsAndResultsOnTheDevice) {
  run([](Libraries& with) {
    SAME(with.blas.call("cublasSetPointerMode_v2", with.handle, 1), 0);
    Numbers<float> a(with.cuda, 9, 1), b(with.cuda, 9, 2), c(with.cuda, 9, 3),
        factors(with.cuda, 4, 4);
    const float both[] = {2, 3, 0, 0};
    SAME(with.cuda.call("cudaMemcpy", static_cast<void*>(factors.there),
                        static_cast<const void*>(both), sizeof both, 1),
         0);
    SAME(with.blas.call("cublasSgemm_v2", with.handle, kNotTurned, kNotTurned, 3, 3, 1,
                        factors.read(), a.read(), 3, b.read(), 1, factors.read() + 1, c.there, 3),
         0);
    SAME(with.blas.call("cublasSaxpy_v2", with.handle, 9, factors.read(), b.read(), 1, c.there, 1),
         0);
    SAME(with.blas.call("cublasSdot_v2", with.handle, 9, a.read(), 1, b.read(), 1,
                        factors.there + 2),
         0);
    std::vector<float> wanted = c.here;
    float dot = 0;
    for (std::size_t i = 0; i < 9; ++i) {
      wanted[i] = 2 * a.here[i % 3] * b.here[i / 3] + 3 * wanted[i] + 2 * b.here[i];
      dot += a.here[i] * b.here[i];
    }
    NEED(c.now() == wanted);
    SAME(factors.now()[2], dot);
  });
}

TEST_P(Blas, HalvesAreSummedAsFloats) {
  run([](Libraries& with) {
    constexpr int kHalf = 2, kSingle = 0, kAsFloats = 68, kUsual = -1;
    Numbers<_Float16> a(with.cuda, 64, 1), b(with.cuda, 64, 2);
    Numbers<float> c(with.cuda, 64, 3);
    const float alpha = 1, beta = 0;
    SAME(
        with.blas.call("cublasGemmEx", with.handle, kTurned, kNotTurned, 8, 8, 8, &alpha, a.read(),
                       kHalf, 8, b.read(), kHalf, 8, &beta, c.there, kSingle, 8, kAsFloats, kUsual),
        0);
    std::vector<float> wanted(64);
    for (std::size_t row = 0; row < 8; ++row)
      for (std::size_t column = 0; column < 8; ++column)
        for (std::size_t i = 0; i < 8; ++i)
          wanted[column * 8 + row] +=
              static_cast<float>(a.here[row * 8 + i]) * static_cast<float>(b.here[column * 8 + i]);
    NEED(c.now() == wanted);
    constexpr int kBytes = 3;
    SAME(with.blas.call("cublasGemmEx", with.handle, kTurned, kNotTurned, 8, 8, 8, &alpha, a.read(),
                        kBytes, 8, b.read(), kBytes, 8, &beta, c.there, kSingle, 8, kAsFloats,
                        kUsual),
         kUnsupported);
  });
}

TEST_P(Blas, WrongOnesAnswerAsCublasDoes) {
  run([](Libraries& with) {
    Numbers<float> a(with.cuda, 16, 1);
    const float alpha = 1;
    const auto gemm = [&](void* handle, int m, int lda, const float* factor) {
      return with.blas.call("cublasSgemm_v2", handle, kNotTurned, kNotTurned, m, 4, 4, factor,
                            a.read(), lda, a.read(), 4, factor, a.there, 4);
    };
    SAME(gemm(nullptr, 4, 4, &alpha), 1);
    SAME(gemm(with.handle, -1, 4, &alpha), 7);
    SAME(gemm(with.handle, 4, 3, &alpha), 7);
    SAME(gemm(with.handle, 4, 4, nullptr), 7);
    SAME(gemm(with.handle, 0, 4, &alpha), 0);
    for (const auto [n, bytes, from, to, status] :
         {std::array{-1, 4, 1, 1, 7}, std::array{2, 4, 0, 1, 7}, std::array{2, 4, 1, -1, 7},
          std::array{2, 0, 1, 1, 7}, std::array{0, 4, 1, 1, 0}, std::array{2, 4, 1, 1, 0}})
      SAME(with.blas.call("cublasSetVector", n, bytes, static_cast<const void*>(&a.here[0]), from,
                          static_cast<void*>(a.there), to),
           status);
    SAME(with.blas.call("cublasSetMatrix", -1, 2, 4, static_cast<const void*>(&a.here[0]), 1,
                        static_cast<void*>(a.there), 1),
         7);
    SAME(with.blas.call("cublasSaxpy_v2", with.handle, -1, &alpha, a.read(), 1, a.there, 1), 0);
    SAME(with.blas.call("cublasSscal_v2", with.handle, 4, &alpha, a.there, 0), 0);
    SAME(with.blas.call("cublasCherk_v2"), kUnsupported);
    SAME(with.blas.call("cublasDestroy_v2", with.handle), 0);
  });
}

// Products are their stream's: work before and behind them keeps its place, in graphs too.
TEST_P(Blas, ProductsHaveTheirPlaceInAStream) {
  run([](Libraries& with) {
    void *stream = nullptr, *graph = nullptr, *exec = nullptr;
    SAME(with.cuda.call("cudaStreamCreate", &stream), 0);
    SAME(with.blas.call("cublasSetStream_v2", with.handle, stream), 0);
    Numbers<float> a(with.cuda, 4, 1), b(with.cuda, 4, 2), c(with.cuda, 4, 3);
    const float alpha = 1, beta = 1;
    SAME(with.cuda.call("cudaStreamBeginCapture", stream, 0), 0);
    for (int i = 0; i < 3; ++i)
      SAME(with.blas.call("cublasSgemm_v2", with.handle, kNotTurned, kNotTurned, 2, 2, 2, &alpha,
                          a.read(), 2, b.read(), 2, &beta, c.there, 2),
           0);
    SAME(with.cuda.call("cudaStreamEndCapture", stream, &graph), 0);
    SAME(with.cuda.call("cudaGraphInstantiateWithFlags", &exec, graph, 0ULL), 0);
    SAME(with.cuda.call("cudaMemsetAsync", static_cast<void*>(c.there), 0, std::size_t{16}, stream),
         0);
    SAME(with.cuda.call("cudaGraphLaunch", exec, stream), 0);
    SAME(with.cuda.call("cudaStreamSynchronize", stream), 0);
    std::vector<float> wanted(4);
    for (std::size_t row = 0; row < 2; ++row)
      for (std::size_t column = 0; column < 2; ++column)
        for (std::size_t i = 0; i < 2; ++i)
          wanted[column * 2 + row] += 3 * a.here[i * 2 + row] * b.here[column * 2 + i];
    NEED(c.now() == wanted);
  });
}

INSTANTIATE_TEST_SUITE_P(Versions, Blas, ::testing::Values("12", "13"));

}  // namespace
}  // namespace partita::remote::test
