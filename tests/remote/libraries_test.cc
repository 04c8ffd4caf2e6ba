// libcufft, libcusparse, libcurand and the factors of libcublas against sessions that run their
// kernels on cores. Oracles: the definitions, summed up in double precision.
#include <cmath>
#include <complex>
#include <numbers>
#include <numeric>

#include "tests/remote/ptx_server.h"
#include "tests/remote/shim_harness.h"

namespace partita::remote::test {
namespace {

template <class T>
std::vector<T> numbers(std::size_t count, unsigned seed) {
  std::vector<T> made(count);
  for (T& one : made)
    seed = seed * 1664525U + 1013904223U, one = static_cast<T>((seed >> 8) % 2000) / 1000 - 1;
  return made;
}

using Wide = std::complex<double>;

// By the definition, one axis after the other.
std::vector<Wide> transformed(std::vector<Wide> data, const std::vector<int>& n, double sign) {
  std::size_t inner = 1;
  for (std::size_t axis = n.size(); axis-- > 0;) {
    const auto length = static_cast<std::size_t>(n[axis]);
    std::vector<Wide> next(data.size());
    for (std::size_t i = 0; i < data.size(); ++i) {
      const std::size_t k = i / inner % length, line = i - k * inner;
      for (std::size_t j = 0; j < length; ++j)
        next[i] +=
            data[line + j * inner] *
            std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(j * k % length) /
                                static_cast<double>(length));
    }
    data = std::move(next);
    inner *= length;
  }
  return data;
}

bool close(const std::vector<Wide>& wanted, const std::vector<Wide>& got, double tolerance) {
  double most = 0, size = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    most = std::max(most, std::abs(wanted[i] - got[i]));
    size = std::max(size, std::abs(wanted[i]));
  }
  return wanted.size() == got.size() && most <= tolerance * size;
}

template <class T>
std::vector<Wide> widened(const std::vector<T>& pairs) {
  std::vector<Wide> made;
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) made.emplace_back(pairs[i], pairs[i + 1]);
  return made;
}

class OwnKernels : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_WHERE_CHILDREN_HAVE_NO_THREADS(); }
  template <class Scenario>
  void run(const char* library, const Scenario& scenario, std::uint32_t devices = 1) {
    PtxServer server(private_address(), devices);
    EXPECT_EQ(in_child(server.address(),
                       [&] {
                         const Library cuda("libcudart.so.13"), tried(library);
                         scenario(cuda, tried);
                       }),
              0);
  }
};

constexpr int kC2C = 0x29, kR2C = 0x2a, kC2R = 0x2c, kZ2Z = 0x69;

template <class T>
void transforms_are_right(const Library& cuda, const Library& fft, int type, const char* execute) {
  const std::vector<std::vector<int>> shapes = {{1}, {2}, {8}, {30}, {97}, {4, 6}, {3, 5, 7}};
  for (const std::vector<int>& n : shapes) {
    const auto count = static_cast<std::size_t>(
        std::accumulate(n.begin(), n.end(), 1, [](int a, int b) { return a * b; }));
    constexpr int kBatch = 3;
    There<T> in(cuda, numbers<T>(count * 2 * kBatch, 7)), out(cuda, std::vector<T>(in.here.size()));
    int plan = 0;
    SAME(fft.call("cufftPlanMany", &plan, static_cast<int>(n.size()), const_cast<int*>(n.data()),
                  static_cast<int*>(nullptr), 1, 0, static_cast<int*>(nullptr), 1, 0, type, kBatch),
         0);
    for (const int sign : {-1, 1}) {
      SAME(fft.call(execute, plan, in.begin(), out.begin(), sign), 0);
      const std::vector<Wide> got = widened(out.now()), given = widened(in.here);
      for (std::size_t b = 0; b < kBatch; ++b) {
        const auto part = [&](const std::vector<Wide>& of) {
          const auto begin = of.begin() + static_cast<std::ptrdiff_t>(b * count);
          return std::vector<Wide>(begin, begin + static_cast<std::ptrdiff_t>(count));
        };
        NEED(close(transformed(part(given), n, sign), part(got), sizeof(T) == 8 ? 1e-13 : 1e-5));
      }
    }
    SAME(fft.call("cufftDestroy", plan), 0);
  }
}

TEST_F(OwnKernels, TransformsOfAnyLength) {
  for (const char* library : {"libcufft.so.11", "libcufft.so.12"})
    run(library, [](const Library& cuda, const Library& fft) {
      transforms_are_right<float>(cuda, fft, kC2C, "cufftExecC2C");
      transforms_are_right<double>(cuda, fft, kZ2Z, "cufftExecZ2Z");
      transforms_are_right<double>(cuda, fft, kZ2Z, "cufftXtExec");
    });
}

// Real to half of what is symmetric, and back: n times what it was; apart and in place (padded).
TEST_F(OwnKernels, TransformsOfRealNumbers) {
  run("libcufft.so.12", [](const Library& cuda, const Library& fft) {
    for (const int width : {6, 9}) {
      const int height = 4, half = width / 2 + 1, padded = 2 * half;
      const auto count = static_cast<std::size_t>(height * width);
      There<float> real(cuda, numbers<float>(count, 3));
      There<float> in_place(cuda, std::vector<float>(static_cast<std::size_t>(height * padded)));
      There<float> spectrum(cuda, std::vector<float>(in_place.here.size()));
      int forward = 0, back = 0;
      SAME(fft.call("cufftPlan2d", &forward, height, width, kR2C), 0);
      SAME(fft.call("cufftPlan2d", &back, height, width, kC2R), 0);
      // By either name; a direction says nothing where there is one only.
      if (width == 6)
        SAME(fft.call("cufftExecR2C", forward, real.begin(), spectrum.begin()), 0);
      else
        SAME(fft.call("cufftXtExec", forward, real.begin(), spectrum.begin(), 1), 0);
      std::vector<Wide> wide(real.here.begin(), real.here.end()), wanted;
      wide = transformed(wide, {height, width}, -1);
      for (int y = 0; y < height; ++y)
        for (int x = 0; x < half; ++x)
          wanted.push_back(wide[static_cast<std::size_t>(y * width + x)]);
      NEED(close(wanted, widened(spectrum.now()), 1e-5));
      // In place: rows of two more or one more number than they have.
      for (int y = 0; y < height; ++y)
        SAME(cuda.call("cudaMemcpy", static_cast<void*>(in_place.at + y * padded),
                       static_cast<const void*>(real.at + y * width),
                       static_cast<std::size_t>(width) * sizeof(float), 3),
             0);
      SAME(fft.call("cufftExecR2C", forward, in_place.begin(), in_place.begin()), 0);
      NEED(close(wanted, widened(in_place.now()), 1e-5));
      SAME(fft.call("cufftXtExec", back, in_place.begin(), in_place.begin(), -1), 0);
      const std::vector<float> returned = in_place.now();
      for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x)
          NEED(std::abs(returned[static_cast<std::size_t>(y * padded + x)] -
                        static_cast<float>(count) *
                            real.here[static_cast<std::size_t>(y * width + x)]) < 1e-4F);
    }
  });
}

// Every second number of arrays that lie apart.
TEST_F(OwnKernels, TransformsWithStridesAndWhatTheyRefuse) {
  run("libcufft.so.12", [](const Library& cuda, const Library& fft) {
    constexpr int kLength = 12, kStride = 2, kDistance = 30;
    There<float> data(cuda, numbers<float>(std::size_t{kDistance} * 2 * 2, 5));
    int plan = 0, n = kLength, embed = kLength;
    SAME(fft.call("cufftPlanMany", &plan, 1, &n, &embed, kStride, kDistance, &embed, kStride,
                  kDistance, kC2C, 2),
         0);
    SAME(fft.call("cufftExecC2C", plan, data.begin(), data.begin(), -1), 0);
    std::vector<Wide> wanted = widened(data.here);
    for (std::size_t b = 0; b < 2; ++b) {
      std::vector<Wide> one;
      for (std::size_t i = 0; i < kLength; ++i) one.push_back(wanted[b * kDistance + i * kStride]);
      one = transformed(one, {kLength}, -1);
      for (std::size_t i = 0; i < kLength; ++i) wanted[b * kDistance + i * kStride] = one[i];
    }
    NEED(close(wanted, widened(data.now()), 1e-5));
    constexpr int kNotSupported = 16, kInvalidType = 3, kInvalidPlan = 1;
    SAME(fft.call("cufftExecR2C", plan, data.begin(), data.begin()), kInvalidType);
    SAME(fft.call("cufftXtSetWorkAreaPolicy", plan, 0, static_cast<void*>(nullptr)), kNotSupported);
    SAME(fft.call("cufftDestroy", plan), 0);
    SAME(fft.call("cufftDestroy", plan), kInvalidPlan);
  });
}

// An array on several devices as a program knows it (cudaLibXtDesc): slices, one behind the other.
struct KnownSlices {
  int version, count, devices[64];
  void* data[64];
  std::size_t bytes[64];
};
struct KnownSliced {
  int version;
  KnownSlices* slices;
};

TEST_F(OwnKernels, TransformsOnTwoDevices) {
  const auto scenario = [](const Library& cuda, const Library& fft) {
    SAME(cuda.call("cudaFree", static_cast<void*>(nullptr)), 0);
    constexpr int kRows = 6, kColumns = 10, kInvalidDevice = 11;
    int plan = 0, both[] = {1, 0}, same[] = {1, 1}, none[] = {0, 2};
    std::size_t work[2] = {};
    SAME(fft.call("cufftCreate", &plan), 0);
    SAME(fft.call("cufftXtSetGPUs", plan, 2, &same[0]), kInvalidDevice);
    SAME(fft.call("cufftXtSetGPUs", plan, 2, &none[0]), kInvalidDevice);
    SAME(fft.call("cufftXtSetGPUs", plan, 2, &both[0]), 0);
    SAME(fft.call("cufftMakePlan2d", plan, kRows, kColumns, kC2C, &work[0]), 0);
    KnownSliced *first = nullptr, *second = nullptr;
    SAME(fft.call("cufftXtMalloc", plan, &first, 2), 0);
    SAME(fft.call("cufftXtMalloc", plan, &second, 2), 0);
    SAME(first->slices->count, 2);
    SAME(first->slices->devices[0], 1);
    SAME(first->slices->bytes[0], std::size_t{8} * kRows / 2 * kColumns);
    std::vector<float> given = numbers<float>(std::size_t{2} * kRows * kColumns, 5);
    std::vector<float> got(given.size());
    const auto copy = [&](void* to, void* from, int direction) {
      return fft.call("cufftXtMemcpy", plan, to, from, direction);
    };
    SAME(copy(first, given.data(), 0), 0);
    SAME(fft.call("cufftXtExecDescriptorC2C", plan, first, first, -1), 0);
    SAME(copy(second, first, 2), 0);
    SAME(copy(got.data(), second, 1), 0);
    NEED(close(transformed(widened(given), {kRows, kColumns}, -1), widened(got), 1e-5));
    SAME(fft.call("cufftXtFree", first), 0);
    SAME(fft.call("cufftXtFree", second), 0);
    SAME(fft.call("cufftDestroy", plan), 0);
  };
  run("libcufft.so.12", scenario, 2);
}

constexpr int kSize = 300, kDouble = 1, kIndex32 = 2, kSparseRefuses = 10;
using Square = std::vector<std::vector<double>>;

struct Sparse {  // rows of a band matrix, its diagonal the largest; here and on the device
  Sparse(const Library& cuda, const Library& sparse)
      : row(cuda, begins()), column(cuda, columns()), value(cuda, values()) {
    SAME(sparse.call("cusparseCreate", &handle), 0);
    SAME(sparse.call("cusparseCreateCsr", &matrix, std::int64_t{kSize}, std::int64_t{kSize},
                     static_cast<std::int64_t>(column.here.size()), row.begin(), column.begin(),
                     value.begin(), kIndex32, kIndex32, 0, kDouble),
         0);
  }
  // Calls `entry(row, column, value)` for each.
  template <class Entry>
  static void each(const Entry& entry) {
    for (int r = 0; r < kSize; ++r)
      for (const int c : {r - 5, r - 1, r, r + 2, r + 5})
        if (c >= 0 && c < kSize) entry(r, c, r == c ? 9.0 : 0.25 * ((r * 7 + c) % 5) - 0.5);
  }
  static std::vector<int> begins() {
    std::vector<int> made(kSize + 1);
    each([&](int r, int, double) { ++made[static_cast<std::size_t>(r + 1)]; });
    std::partial_sum(made.begin(), made.end(), made.begin());
    return made;
  }
  static std::vector<int> columns() {
    std::vector<int> made;
    each([&](int, int c, double) { made.push_back(c); });
    return made;
  }
  static std::vector<double> values() {
    std::vector<double> made;
    each([&](int, int, double v) { made.push_back(v); });
    return made;
  }
  // Its entries, or others in their places, as a square.
  static Square square(const std::vector<double>& of) {
    Square made(kSize, std::vector<double>(kSize));
    std::size_t next = 0;
    each([&](int r, int c, double) {
      made[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)] = of[next++];
    });
    return made;
  }
  There<int> row, column;
  There<double> value;
  void *handle = nullptr, *matrix = nullptr;
};

TEST_F(OwnKernels, SparseProductsAndSolutions) {
  run("libcusparse.so.12", [](const Library& cuda, const Library& sparse) {
    const Sparse a(cuda, sparse);
    const Square all = Sparse::square(a.value.here);
    There<double> x(cuda, numbers<double>(kSize, 1)), y(cuda, numbers<double>(kSize, 2));
    void *from = nullptr, *to = nullptr, *solving = nullptr;
    SAME(sparse.call("cusparseCreateDnVec", &from, std::int64_t{kSize}, x.begin(), kDouble), 0);
    SAME(sparse.call("cusparseCreateDnVec", &to, std::int64_t{kSize}, y.begin(), kDouble), 0);
    const double alpha = 2, beta = -1, one = 1;
    void* const nothing = nullptr;
    const auto multiplied = [&](int turned) {
      return sparse.call("cusparseSpMV", a.handle, turned, &alpha, a.matrix, from, &beta, to,
                         kDouble, 0, nothing);
    };
    SAME(multiplied(0), 0);
    const std::vector<double> product = y.now();
    for (std::size_t r = 0; r < kSize; ++r) {
      const double sum = std::inner_product(x.here.begin(), x.here.end(), all[r].begin(), 0.0);
      NEED(std::abs(product[r] - (alpha * sum + beta * y.here[r])) < 1e-12);
    }
    // The upper triangle: what was solved for comes out again.
    int upper = 1;
    SAME(sparse.call("cusparseSpMatSetAttribute", a.matrix, 0, &upper, sizeof upper), 0);
    SAME(sparse.call("cusparseSpSV_createDescr", &solving), 0);
    SAME(sparse.call("cusparseSpSV_solve", a.handle, 0, &one, a.matrix, from, to, kDouble, 0,
                     solving),
         0);
    const std::vector<double> solved = y.now();
    for (std::size_t r = 0; r < kSize; ++r) {
      double sum = 0;
      for (std::size_t c = r; c < kSize; ++c) sum += all[r][c] * solved[c];
      NEED(std::abs(sum - x.here[r]) < 1e-12);
    }
    SAME(multiplied(1), kSparseRefuses);
    SAME(sparse.call("cusparseSpGEMM_compute", a.handle), kSparseRefuses);
  });
}

// L U is A wherever A has entries.
TEST_F(OwnKernels, SparseFactors) {
  run("libcusparse.so.12", [](const Library& cuda, const Library& sparse) {
    const Sparse a(cuda, sparse);
    void *description = nullptr, *info = nullptr;
    SAME(sparse.call("cusparseCreateMatDescr", &description), 0);
    SAME(sparse.call("cusparseCreateCsrilu02Info", &info), 0);
    SAME(sparse.call("cusparseDcsrilu02", a.handle, kSize, static_cast<int>(a.column.here.size()),
                     description, a.value.begin(), a.row.begin(), a.column.begin(), info, 0,
                     static_cast<void*>(nullptr)),
         0);
    int zero = 7;
    SAME(sparse.call("cusparseXcsrilu02_zeroPivot", a.handle, info, &zero), 0);
    SAME(zero, -1);
    const Square factors = Sparse::square(a.value.now());
    Sparse::each([&](int row, int column, double wanted) {
      const auto r = static_cast<std::size_t>(row), c = static_cast<std::size_t>(column);
      double sum = r <= c ? factors[r][c] : 0;  // L has ones on its diagonal
      for (std::size_t k = 0; k < r && k <= c; ++k) sum += factors[r][k] * factors[k][c];
      NEED(std::abs(sum - wanted) < 1e-12);
    });
  });
}

// The published answer of Philox 4x32-10 for a counter and a key of zeros; then moments, and that
// numbers in parts are the numbers of one call.
TEST_F(OwnKernels, RandomNumbers) {
  run("libcurand.so.10", [](const Library& cuda, const Library& random) {
    constexpr int kPhilox = 161, kXorwow = 101, kNotSupported = 103;
    constexpr std::size_t kCount = 40000;
    void* generator = nullptr;
    SAME(random.call("curandCreateGenerator", &generator, kPhilox), 0);
    There<unsigned> bits(cuda, std::vector<unsigned>(16));
    SAME(random.call("curandGenerate", generator, bits.begin(), std::size_t{8}), 0);
    SAME(random.call("curandGenerate", generator, static_cast<void*>(bits.at + 8), std::size_t{8}),
         0);
    const std::vector<unsigned> parts = bits.now();
    NEED((std::vector<unsigned>(parts.begin(), parts.begin() + 4) ==
          std::vector<unsigned>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    SAME(random.call("curandSetPseudoRandomGeneratorSeed", generator, 0ULL), 0);
    SAME(random.call("curandGenerate", generator, bits.begin(), std::size_t{16}), 0);
    NEED(bits.now() == parts);
    There<float> singles(cuda, std::vector<float>(kCount));
    There<double> doubles(cuda, std::vector<double>(kCount));
    const auto moments = [](const auto& of, double mean, double deviation) {
      double sum = 0, squares = 0, cubes = 0;
      for (const double one : of) sum += one;
      sum /= kCount;
      for (const double one : of)
        squares += (one - sum) * (one - sum), cubes += std::pow((one - sum) / deviation, 3);
      return std::abs(sum - mean) < 0.02 * deviation && std::abs(cubes / kCount) < 0.1 &&
             std::abs(std::sqrt(squares / kCount) / deviation - 1) < 0.02;
    };
    SAME(random.call("curandGenerateUniform", generator, singles.begin(), kCount), 0);
    const std::vector<float> uniform = singles.now();
    NEED(moments(uniform, 0.5, 1 / std::sqrt(12.0)));
    for (const float one : uniform) NEED(one > 0 && one <= 1);
    SAME(random.call("curandGenerateUniformDouble", generator, doubles.begin(), kCount), 0);
    NEED(moments(doubles.now(), 0.5, 1 / std::sqrt(12.0)));
    SAME(random.call("curandGenerateNormal", generator, singles.begin(), kCount, 3.0F, 2.0F), 0);
    NEED(moments(singles.now(), 3, 2));
    SAME(random.call("curandGenerateNormalDouble", generator, doubles.begin(), kCount, -1.0, 0.5),
         0);
    const std::vector<double> normal = doubles.now();
    NEED(moments(normal, -1, 0.5));
    double beyond = 0;  // two deviations: 4.55 %
    for (const double one : normal) beyond += std::abs(one + 1) > 1 ? 1.0 / kCount : 0;
    NEED(std::abs(beyond - 0.0455) < 0.006);
    SAME(random.call("curandCreateGenerator", &generator, kXorwow), kNotSupported);
  });
}

TEST_F(OwnKernels, FactorsOfManyMatrices) {
  run("libcublas.so.13", [](const Library& cuda, const Library& blas) {
    constexpr std::size_t kSide = 6, kCount = 5;
    There<double> all(cuda, numbers<double>(kSide * kSide * kCount, 9));
    std::vector<double*> places;
    for (std::size_t i = 0; i < kCount; ++i) places.push_back(all.at + i * kSide * kSide);
    There<double*> list(cuda, places);
    There<int> rows(cuda, std::vector<int>(kSide * kCount)),
        info(cuda, std::vector<int>(kCount, 7));
    void* handle = nullptr;
    SAME(blas.call("cublasCreate_v2", &handle), 0);
    SAME(blas.call("cublasDgetrfBatched", handle, static_cast<int>(kSide), list.begin(),
                   static_cast<int>(kSide), rows.at, info.at, static_cast<int>(kCount)),
         0);
    NEED(info.now() == std::vector<int>(kCount, 0));
    const std::vector<double> factors = all.now();
    const std::vector<int> from = rows.now();
    for (std::size_t i = 0; i < kCount; ++i) {
      std::vector<std::size_t> order(kSide);
      std::iota(order.begin(), order.end(), 0);
      for (std::size_t k = 0; k < kSide; ++k)
        std::swap(order[k], order[static_cast<std::size_t>(from[i * kSide + k] - 1)]);
      const auto of = [&](const std::vector<double>& in, std::size_t r, std::size_t c) {
        return in[i * kSide * kSide + c * kSide + r];
      };
      for (std::size_t r = 0; r < kSide; ++r)
        for (std::size_t c = 0; c < kSide; ++c) {
          double sum = 0;
          for (std::size_t k = 0; k <= std::min(r, c); ++k)
            sum += (k == r ? 1 : of(factors, r, k)) * of(factors, k, c);
          NEED(std::abs(sum - of(all.here, order[r], c)) < 1e-12);
          NEED(r <= c || std::abs(of(factors, r, c)) <= 1);
        }
    }
  });
}

}  // namespace
}  // namespace partita::remote::test
