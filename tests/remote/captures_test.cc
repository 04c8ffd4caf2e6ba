// Calls of CUDA's libraries on streams that are being captured, against sessions that run on cores.
// Oracle: the same calls on the same memory, not captured.
#include <algorithm>
#include <functional>
#include <thread>

#include "tests/remote/ptx_server.h"
#include "tests/remote/shim_harness.h"

namespace partita::remote::test {
namespace {

using Words = std::vector<std::uint32_t>;
using Floats = std::vector<float>;

constexpr int kInvalidated = 901;
constexpr std::size_t kFloats = 4096;

Floats drawn(unsigned seed) {
  Floats made(kFloats);
  for (float& one : made)
    seed = seed * 1664525U + 1013904223U, one = static_cast<float>((seed >> 8) % 2000) / 1000 - 1;
  return made;
}

// A program with libraries, a stream, and memory that calls work on.
class Captured : public ::testing::Test {
 protected:
  struct Program {
    const Library cuda{"libcudart.so.13"};
    const There<float> memory{cuda, Floats(kFloats)};
    void* stream = new_stream(0);

    void* new_stream(unsigned flags) const {
      void* made = nullptr;
      SAME(cuda.call("cudaStreamCreateWithFlags", &made, flags), 0);
      return made;
    }
    float* at(std::size_t place) const { return memory.at + place; }
    void fill(unsigned seed) const {
      const Floats values = drawn(seed);
      SAME(cuda.call("cudaMemcpy", memory.begin(), static_cast<const void*>(values.data()),
                     kFloats * sizeof(float), 1),
           0);
    }
    // Also of what is no number.
    Words words() const {
      const Floats now = memory.now();
      Words made(now.size());
      std::memcpy(made.data(), now.data(), made.size() * sizeof(made[0]));
      return made;
    }
    void wait(void* on) const { SAME(cuda.call("cudaStreamSynchronize", on), 0); }
    template <class Calls>
    void* graph_of(const Calls& calls) const {
      void* graph = nullptr;
      SAME(cuda.call("cudaStreamBeginCapture", stream, 0), 0);
      calls();
      SAME(cuda.call("cudaStreamEndCapture", stream, &graph), 0);
      return graph;
    }
    void* exec_of(void* graph) const {
      void* exec = nullptr;
      SAME(cuda.call("cudaGraphInstantiateWithFlags", &exec, graph, 0ULL), 0);
      return exec;
    }
    void launch(void* exec) const {
      SAME(cuda.call("cudaGraphLaunch", exec, stream), 0);
      wait(stream);
    }
    // Small and middle ones, full of what is no number.
    void reuse_freed_memory() const {
      for (int i = 0; i < 200; ++i) {
        void* made = nullptr;
        const std::size_t bytes = i % 2 == 0 ? 256 : 32 * 1024;
        SAME(cuda.call("cudaMalloc", &made, bytes), 0);
        SAME(cuda.call("cudaMemset", made, 0xff, bytes), 0);
      }
    }
  };

  void SetUp() override { SKIP_WHERE_CHILDREN_HAVE_NO_THREADS(); }
  template <class Scenario>
  void run(const Scenario& scenario) {
    PtxServer server(private_address());
    EXPECT_EQ(in_child(server.address(),
                       [&] {
                         const Program program;
                         scenario(program);
                       }),
              0);
  }

  static constexpr unsigned kSeeds[] = {11, 12, 13};
  // What `calls` make of each seed's memory.
  static std::vector<Words> outcomes(const Program& is, const std::function<void()>& calls) {
    std::vector<Words> all;
    for (const unsigned seed : kSeeds) {
      is.fill(seed);
      calls();
      is.wait(is.stream);
      all.push_back(is.words());
    }
    return all;
  }
  // Captured once, then what the calls used is given back, then launched for each seed.
  static void same_when_captured(
      const Program& is, const std::function<void()>& calls,
      const std::function<void()>& end = [] {}) {
    const std::vector<Words> wanted = outcomes(is, calls);
    NEED(wanted[0] != wanted[1]);
    is.fill(77);
    const Words before = is.words();
    void* const exec = is.exec_of(is.graph_of(calls));
    NEED(is.words() == before);  // nothing has run
    end();
    is.reuse_freed_memory();
    NEED(outcomes(is, [&] { is.launch(exec); }) == wanted);
    SAME(is.cuda.call("cudaGraphExecDestroy", exec), 0);
  }
};

// ---- cuBLAS ----

struct BlasOn : Library {
  explicit BlasOn(void* stream) : Library("libcublas.so.13") {
    SAME(call("cublasCreate_v2", &handle), 0);
    SAME(call("cublasSetStream_v2", handle, stream), 0);
  }
  template <class... Rest>
  void operator()(const char* name, Rest... rest) const {
    SAME(call(name, handle, rest...), 0);
  }
  void end() const { SAME(call("cublasDestroy_v2", handle), 0); }
  void* handle = nullptr;
};

TEST_F(Captured, ProductsWithFactorsOfTheProgram) {
  run([](const Program& is) {
    const BlasOn blas(is.stream);
    const auto calls = [&] {
      // Gone when the graph is launched.
      float alpha = 2, beta = 0.5F;
      blas("cublasSgemm_v2", 0, 1, 5, 6, 7, &alpha, is.at(0), 5, is.at(100), 6, &beta, is.at(200),
           5);
      blas("cublasSgemmStridedBatched", 1, 0, 4, 3, 5, &alpha, is.at(300), 5, 20LL, is.at(400), 5,
           15LL, &beta, is.at(500), 4, 12LL, 3);
      blas("cublasSgemv_v2", 1, 6, 5, &alpha, is.at(0), 6, is.at(200), 1, &beta, is.at(600), 2);
      blas("cublasSger_v2", 4, 5, &alpha, is.at(600), 1, is.at(500), 1, is.at(700), 4);
      blas("cublasSaxpy_v2", 30, &alpha, is.at(700), 1, is.at(800), 1);
      blas("cublasSscal_v2", 20, &beta, is.at(800), 2);
      blas("cublasScopy_v2", 20, is.at(800), 2, is.at(900), 1);
      alpha = beta = -100;
    };
    same_when_captured(is, calls, [&] { blas.end(); });
  });
}

TEST_F(Captured, FactorsAndResultsOnTheDeviceAreThoseOfEachLaunch) {
  run([](const Program& is) {
    const BlasOn blas(is.stream);
    blas("cublasSetPointerMode_v2", 1);
    const auto calls = [&] {
      blas("cublasSgemm_v2", 0, 0, 5, 6, 7, is.at(0), is.at(10), 5, is.at(100), 7, is.at(1),
           is.at(200), 5);
      blas("cublasSaxpy_v2", 30, is.at(2), is.at(200), 1, is.at(300), 1);
      blas("cublasSscal_v2", 30, is.at(3), is.at(300), 1);
      blas("cublasSdot_v2", 500, is.at(300), 1, is.at(1000), 2, is.at(2500));
      blas("cublasDdot_v2", 100, reinterpret_cast<double*>(is.at(2600)), 1,
           reinterpret_cast<double*>(is.at(2800)), 1, reinterpret_cast<double*>(is.at(2502)));
    };
    same_when_captured(is, calls, [&] { blas.end(); });
  });
}

// Pointers to matrices are read at each launch, too.
TEST_F(Captured, BatchesByPointers) {
  run([](const Program& is) {
    const BlasOn blas(is.stream);
    const There<void*> a(is.cuda, {is.at(0), is.at(50), is.at(0)}),
        b(is.cuda, {is.at(100), is.at(150), is.at(200)}),
        c(is.cuda, {is.at(300), is.at(400), is.at(500)}),
        d(is.cuda, {is.at(2300), is.at(2400), is.at(2500)});
    const auto calls = [&] {
      const float alpha = 2, beta = 0;
      blas("cublasSgemmBatched", 0, 1, 5, 6, 7, &alpha, a.at, 5, b.at, 6, &beta, c.at, 5, 3);
      blas("cublasGemmBatchedEx", 0, 1, 5, 6, 7, &alpha, a.at, 0, 5, b.at, 0, 6, &beta, d.at, 0, 5,
           3, 68, -1);
    };
    const Words made = outcomes(is, calls)[0];  // both of them the same
    for (std::size_t i = 0; i < 3; ++i)
      NEED(std::equal(made.begin() + 300 + 100 * static_cast<std::ptrdiff_t>(i),
                      made.begin() + 330 + 100 * static_cast<std::ptrdiff_t>(i),
                      made.begin() + 2300 + 100 * static_cast<std::ptrdiff_t>(i)));
    same_when_captured(is, calls);
    void* const exec = is.exec_of(is.graph_of(calls));
    void* const others[] = {is.at(1300), is.at(1400), is.at(1500)};
    SAME(is.cuda.call("cudaMemcpy", c.begin(), static_cast<const void*>(others), sizeof others, 1),
         0);
    NEED(outcomes(is, [&] { is.launch(exec); }) == outcomes(is, calls));
  });
}

// ---- cuBLASLt, cuDNN ----

TEST_F(Captured, ProductsWithWhatFollowsThem) {
  run([](const Program& is) {
    const Library lt("libcublasLt.so.13");
    void *handle = nullptr, *how = nullptr, *sides[3] = {};
    SAME(lt.call("cublasLtCreate", &handle), 0);
    SAME(lt.call("cublasLtMatmulDescCreate", &how, 68, 0), 0);
    const int relu_and_bias = 6;
    void* const bias = is.at(600);
    SAME(lt.call("cublasLtMatmulDescSetAttribute", how, 7, &relu_and_bias, sizeof(int)), 0);
    SAME(lt.call("cublasLtMatmulDescSetAttribute", how, 8, &bias, sizeof(void*)), 0);
    const std::uint64_t shapes[][2] = {{8, 5}, {5, 9}, {8, 9}};
    for (int i = 0; i < 3; ++i)
      SAME(lt.call("cublasLtMatrixLayoutCreate", &sides[i], 0, shapes[i][0], shapes[i][1],
                   static_cast<std::int64_t>(shapes[i][0])),
           0);
    const auto calls = [&] {
      const float alpha = 2, beta = 0.5F;
      void* const none = nullptr;
      SAME(lt.call("cublasLtMatmul", handle, how, &alpha, is.at(0), sides[0], is.at(100), sides[1],
                   &beta, is.at(200), sides[2], is.at(300), sides[2], none, none, std::size_t{0},
                   is.stream),
           0);
    };
    same_when_captured(is, calls, [&] {
      for (void* side : sides) SAME(lt.call("cublasLtMatrixLayoutDestroy", side), 0);
      SAME(lt.call("cublasLtMatmulDescDestroy", how), 0);
      SAME(lt.call("cublasLtDestroy", handle), 0);
    });
  });
}

template <class... Values>
void* described(const Library& library, const char* create, const char* set, Values... values) {
  void* object = nullptr;
  SAME(library.call(create, &object), 0);
  SAME(library.call(set, object, values...), 0);
  return object;
}

TEST_F(Captured, LayersOfANetwork) {
  run([](const Program& is) {
    const Library dnn("libcudnn.so.9");
    void* handle = nullptr;
    SAME(dnn.call("cudnnCreate", &handle), 0);
    SAME(dnn.call("cudnnSetStream", handle, is.stream), 0);
    const auto tensor = [&](int n, int c, int h, int w) {
      return described(dnn, "cudnnCreateTensorDescriptor", "cudnnSetTensor4dDescriptor", 0, 0, n, c,
                       h, w);
    };
    void *const x = tensor(2, 3, 6, 6), *const y = tensor(2, 4, 6, 6),
                *const z = tensor(2, 4, 3, 3), *const channels = tensor(1, 4, 1, 1);
    void* const filter = described(dnn, "cudnnCreateFilterDescriptor", "cudnnSetFilter4dDescriptor",
                                   0, 0, 4, 3, 3, 3);
    void* const windows = described(dnn, "cudnnCreateConvolutionDescriptor",
                                    "cudnnSetConvolution2dDescriptor", 1, 1, 1, 1, 1, 1, 1, 0);
    void* const relu = described(dnn, "cudnnCreateActivationDescriptor",
                                 "cudnnSetActivationDescriptor", 1, 0, 0.0);
    void* const tanh = described(dnn, "cudnnCreateActivationDescriptor",
                                 "cudnnSetActivationDescriptor", 2, 0, 0.0);
    void* const pooling = described(dnn, "cudnnCreatePoolingDescriptor",
                                    "cudnnSetPooling2dDescriptor", 0, 0, 2, 2, 0, 0, 2, 2);
    std::size_t bytes = 0;
    SAME(dnn.call("cudnnGetConvolutionForwardWorkspaceSize", handle, x, filter, windows, y, 2,
                  &bytes),
         0);
    const There<float> workspace(is.cuda, Floats(bytes / sizeof(float)));
    const auto calls = [&] {
      const float one = 1, half = 0.5F, none = 0;
      SAME(dnn.call("cudnnConvolutionBiasActivationForward", handle, &one, x, is.at(0), filter,
                    is.at(300), windows, 2, workspace.at, bytes, &none, y, is.at(1000), channels,
                    is.at(500), relu, y, is.at(1000)),
           0);
      SAME(dnn.call("cudnnPoolingForward", handle, pooling, &one, y, is.at(1000), &none, z,
                    is.at(1400)),
           0);
      SAME(dnn.call("cudnnBatchNormalizationForwardInference", handle, 1, &one, &half, z,
                    is.at(1400), z, is.at(1500), channels, is.at(510), is.at(520), is.at(530),
                    is.at(1000), 1e-3),
           0);
      SAME(dnn.call("cudnnActivationForward", handle, tanh, &one, z, is.at(1500), &half, z,
                    is.at(1600)),
           0);
      SAME(dnn.call("cudnnSoftmaxForward", handle, 1, 1, &one, z, is.at(1600), &none, z,
                    is.at(1700)),
           0);
      SAME(dnn.call("cudnnAddTensor", handle, &half, channels, is.at(540), &one, z, is.at(1700)),
           0);
    };
    same_when_captured(is, calls, [&] {
      SAME(dnn.call("cudnnDestroyFilterDescriptor", filter), 0);
      SAME(dnn.call("cudnnDestroy", handle), 0);
    });
  });
}

// ---- the others ----

TEST_F(Captured, Transforms) {
  run([](const Program& is) {
    const Library fft("libcufft.so.12");
    int sizes[] = {6, 5}, complex = 0, real = 0;
    SAME(fft.call("cufftPlan2d", &complex, sizes[0], sizes[1], 0x29), 0);
    SAME(fft.call("cufftPlan1d", &real, 30, 0x2a, 4), 0);
    for (const int plan : {complex, real}) SAME(fft.call("cufftSetStream", plan, is.stream), 0);
    const auto calls = [&] {
      SAME(fft.call("cufftExecC2C", complex, is.at(0), is.at(100), 1), 0);
      SAME(fft.call("cufftExecR2C", real, is.at(100), is.at(300)), 0);
    };
    same_when_captured(is, calls, [&] {
      for (const int plan : {complex, real}) SAME(fft.call("cufftDestroy", plan), 0);
    });
  });
}

TEST_F(Captured, SparseMatrices) {
  run([](const Program& is) {
    const Library sparse("libcusparse.so.12");
    void *handle = nullptr, *matrix = nullptr, *x = nullptr, *y = nullptr, *factors = nullptr,
         *info = nullptr;
    SAME(sparse.call("cusparseCreate", &handle), 0);
    SAME(sparse.call("cusparseSetStream", handle, is.stream), 0);
    const There<int> rows(is.cuda, {0, 2, 4, 6}), columns(is.cuda, {0, 1, 0, 1, 1, 2});
    SAME(
        sparse.call("cusparseCreateCsr", &matrix, std::int64_t{3}, std::int64_t{3}, std::int64_t{6},
                    rows.begin(), columns.begin(), static_cast<void*>(is.at(0)), 2, 2, 0, 0),
        0);
    SAME(sparse.call("cusparseCreateDnVec", &x, std::int64_t{3}, static_cast<void*>(is.at(10)), 0),
         0);
    SAME(sparse.call("cusparseCreateDnVec", &y, std::int64_t{3}, static_cast<void*>(is.at(20)), 0),
         0);
    SAME(sparse.call("cusparseCreateMatDescr", &factors), 0);
    SAME(sparse.call("cusparseCreateCsrilu02Info", &info), 0);
    void* const none = nullptr;
    const auto calls = [&] {
      const float alpha = 2, beta = 0.5F;
      SAME(sparse.call("cusparseSpMV", handle, 0, &alpha, matrix, x, &beta, y, 0, 0, none), 0);
      SAME(sparse.call("cusparseScsrilu02", handle, 3, 6, factors, is.at(30), rows.at, columns.at,
                       info, 0, none),
           0);
      SAME(sparse.call("cusparseSpSV_solve", handle, 0, &alpha, matrix, y, x, 0, 0, none), 0);
    };
    same_when_captured(is, calls, [&] {
      SAME(sparse.call("cusparseDestroyCsrilu02Info", info), 0);
      SAME(sparse.call("cusparseDestroy", handle), 0);
    });
  });
}

// The same numbers at each launch: those that followed when it was captured.
TEST_F(Captured, RandomNumbers) {
  run([](const Program& is) {
    const Library random("libcurand.so.10");
    void* generator = nullptr;
    SAME(random.call("curandCreateGenerator", &generator, 161), 0);
    SAME(random.call("curandSetStream", generator, is.stream), 0);
    same_when_captured(is, [&] {
      SAME(random.call("curandSetGeneratorOffset", generator, 5ULL), 0);
      SAME(random.call("curandGenerateUniform", generator, is.at(0), std::size_t{100}), 0);
      SAME(random.call("curandGenerateNormal", generator, is.at(200), std::size_t{100}, 1.0F, 2.0F),
           0);
    });
  });
}

// ---- graphs of several streams, copies and updates of them ----

TEST_F(Captured, BranchesOfSeveralStreams) {
  run([](const Program& is) {
    const BlasOn blas(is.stream);
    void *const side = is.new_stream(0), *events[2] = {};
    for (void*& event : events) SAME(is.cuda.call("cudaEventCreate", &event), 0);
    blas("cublasSetPointerMode_v2", 1);
    const auto go_to = [&](void* stream, void* from, void* event) {
      SAME(is.cuda.call("cudaEventRecord", event, from), 0);
      SAME(is.cuda.call("cudaStreamWaitEvent", stream, event, 0U), 0);
      blas("cublasSetStream_v2", stream);
    };
    const auto calls = [&] {
      blas("cublasSetStream_v2", is.stream);
      blas("cublasSaxpy_v2", 500, is.at(0), is.at(1000), 1, is.at(1500), 1);
      go_to(side, is.stream, events[0]);
      blas("cublasSdot_v2", 500, is.at(1500), 1, is.at(1000), 1, is.at(10));
      blas("cublasSetStream_v2", is.stream);
      blas("cublasSdot_v2", 500, is.at(1500), 1, is.at(2000), 1, is.at(11));
      go_to(is.stream, side, events[1]);
      blas("cublasSgemm_v2", 0, 0, 2, 2, 1, is.at(1), is.at(10), 2, is.at(20), 1, is.at(2),
           is.at(30), 2);
    };
    same_when_captured(is, calls, [&] { blas.end(); });
  });
}

TEST_F(Captured, CopiesAndUpdatesOfGraphs) {
  run([](const Program& is) {
    const BlasOn blas(is.stream);
    float alpha = 2;
    const auto product = [&] {
      const float beta = 0.5F;
      blas("cublasSgemm_v2", 0, 0, 5, 6, 7, &alpha, is.at(0), 5, is.at(100), 7, &beta, is.at(200),
           5);
    };
    const std::vector<Words> twice = outcomes(is, product);
    void *const graph = is.graph_of(product), *copy = nullptr;
    SAME(is.cuda.call("cudaGraphClone", &copy, graph), 0);
    alpha = 3;
    const std::vector<Words> thrice = outcomes(is, product);
    NEED(twice != thrice);
    void* const other = is.graph_of(product);
    void *const exec = is.exec_of(graph), *const of_copy = is.exec_of(copy);
    const auto update = [&](void* from) {
      char result[64];
      return is.cuda.call("cudaGraphExecUpdate", exec, from, static_cast<void*>(result));
    };
    const auto launched = [&](void* one) { return outcomes(is, [&] { is.launch(one); }); };
    NEED(launched(exec) == twice);
    SAME(update(copy), 0);  // unchanged
    NEED(launched(exec) == twice);
    SAME(update(other), 0);
    constexpr int kUpdateFailure = 910;
    SAME(update(is.graph_of([&] { product(), product(); })), kUpdateFailure);
    for (void* one : {graph, copy, other}) SAME(is.cuda.call("cudaGraphDestroy", one), 0);
    NEED(launched(exec) == thrice);
    NEED(launched(of_copy) == twice);
  });
}

TEST_F(Captured, AnotherThreadGoesOn) {
  run([](const Program& is) {
    const BlasOn blas(is.stream), others(is.new_stream(0));
    const float alpha = 1, beta = 0;
    const auto product = [&](const BlasOn& by, std::size_t to) {
      by("cublasSgemm_v2", 0, 0, 5, 6, 7, &alpha, is.at(0), 5, is.at(100), 7, &beta, is.at(to), 5);
    };
    is.fill(3);
    Floats here(30), there(30);
    const auto fetch = [&](Floats& into, std::size_t from) {
      void* const stream = is.new_stream(1);
      SAME(is.cuda.call("cudaMemcpyAsync", static_cast<void*>(into.data()),
                        static_cast<const void*>(is.at(from)), into.size() * 4, 2, stream),
           0);
      is.wait(stream);
    };
    void* const graph = is.graph_of([&] {
      product(blas, 200);
      std::thread([&] {
        product(others, 300);
        float sum = 0;  // and it waits
        others("cublasSdot_v2", 30, is.at(300), 1, is.at(300), 1, &sum);
        NEED(sum > 0);
        fetch(there, 300);
      }).join();
      product(blas, 400);
    });
    std::size_t nodes = 0;
    SAME(is.cuda.call("cudaGraphGetNodes", graph, static_cast<void**>(nullptr), &nodes), 0);
    SAME(nodes, 2);
    is.launch(is.exec_of(graph));
    fetch(here, 400);
    NEED(here == there);
  });
}

// ---- what cannot be captured ----

TEST_F(Captured, WhatAnswersSpoilsTheCapture) {
  run([](const Program& is) {
    const Library sparse("libcusparse.so.12");
    const BlasOn blas(is.stream);
    void *handle = nullptr, *info = nullptr;
    SAME(sparse.call("cusparseCreate", &handle), 0);
    SAME(sparse.call("cusparseSetStream", handle, is.stream), 0);
    SAME(sparse.call("cusparseCreateCsrilu02Info", &info), 0);
    float single = 7;
    double wide = 7;
    int place = 7;
    auto* const doubles = reinterpret_cast<double*>(is.at(0));
    const std::pair<std::function<int()>, int> calls[] = {
        {[&] {
           return blas.call("cublasSdot_v2", blas.handle, 4, is.at(0), 1, is.at(0), 1, &single);
         },
         15},
        {[&] { return blas.call("cublasDdot_v2", blas.handle, 4, doubles, 1, doubles, 1, &wide); },
         15},
        {[&] { return blas.call("cublasSnrm2_v2", blas.handle, 4, is.at(0), 1, &single); }, 15},
        {[&] { return blas.call("cublasDnrm2_v2", blas.handle, 4, doubles, 1, &wide); }, 15},
        {[&] { return sparse.call("cusparseXcsrilu02_zeroPivot", handle, info, &place); }, 10}};
    is.fill(1);
    for (const auto& [call, refused] : calls) {
      void* graph = &place;
      int state = 0;
      const float one = 1;
      SAME(is.cuda.call("cudaStreamBeginCapture", is.stream, 0), 0);
      blas("cublasSscal_v2", 4, &one, is.at(0), 1);
      SAME(call(), refused);
      SAME(is.cuda.call("cudaStreamIsCapturing", is.stream, &state), 0);
      SAME(state, 2);
      SAME(is.cuda.call("cudaStreamEndCapture", is.stream, &graph), kInvalidated);
      NEED(graph == nullptr && single == 7 && wide == 7 && place == 7);
    }
    for (const auto& [call, refused] : calls) SAME(call(), 0);
    NEED(single != 7 && wide != 7 && place == -1);
  });
}

}  // namespace
}  // namespace partita::remote::test
