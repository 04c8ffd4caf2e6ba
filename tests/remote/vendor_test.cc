// libcusolver, libcudnn and libcublas as programs see them, against a server with a GPU and the
// simulated libraries of NVIDIA's, which write down what they were given.
#include <array>

#include "tests/remote/shim_harness.h"

namespace partita::remote::test {
namespace {

class Vendor : public ::testing::Test {
 protected:
  template <class Scenario>
  void run(const char* library, bool gpu, Scenario scenario) {
    SKIP_WHERE_CHILDREN_HAVE_NO_THREADS();
    const HostServer server(private_address(), {}, gpu);
    EXPECT_EQ(in_child(server.address(),
                       [&] {
                         const Library cuda("libcudart.so.13"), other(library);
                         scenario(cuda, other);
                       }),
              0);
  }
};

void* handle_of(const Library& library, const char* create) {
  void* handle = nullptr;
  SAME(library.call(create, &handle), 0);
  return handle;
}
void* null() { return nullptr; }

TEST_F(Vendor, SolverPassesEverythingOn) {
  run("libcusolver.so.12", true, [](const Library& cuda, const Library& solver) {
    void* const handle = handle_of(solver, "cusolverDnCreate");
    int size = 0;
    SAME(solver.call("cusolverDnSgetrf_bufferSize", handle, 3, 4, null(), 5, &size), 0);
    SAME(size, 30405);
    There<double> memory(cuda, std::vector<double>(64));
    There<int> info(cuda, {0});
    void* settings = nullptr;
    SAME(solver.call("cusolverDnCreateGesvdjInfo", &settings), 0);
    SAME(solver.call("cusolverDnXgesvdjSetTolerance", settings, 0.25), 0);
    SAME(solver.call("cusolverDnXgesvdjSetMaxSweeps", settings, 13), 0);
    const auto at = [&](int place) { return static_cast<void*>(memory.at + place); };
    SAME(solver.call("cusolverDnDgesvdj", handle, 1, 2, 3, 4, at(0), 5, at(6), at(7), 8, at(9), 10,
                     at(11), 12, info.begin(), settings),
         0);
    const std::vector<double> wanted = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0.25, 13, 1};
    std::vector<double> got = memory.now();
    got.resize(wanted.size());
    NEED(got == wanted);
    SAME(info.now()[0], -3);
    SAME(solver.call("cusolverDnXpotrf", handle, null(), 1, std::int64_t{2}, 3, at(0),
                     std::int64_t{4}, 5, null(), std::size_t{6}, null(), std::size_t{7},
                     info.begin()),
         0);
    NEED(memory.now()[6] == 7);
    SAME(solver.call("cusolverDnDestroy", handle), 0);
  });
}

TEST_F(Vendor, WithoutAGpuTheyRefuseByName) {
  run("libcusolver.so.12", false, [](const Library&, const Library& solver) {
    constexpr int kNotSupported = 9;
    void* handle = nullptr;
    SAME(solver.call("cusolverDnCreate", &handle), kNotSupported);
  });
  run("libcudnn.so.9", false, [](const Library&, const Library& dnn) {
    constexpr int kNotSupported = 3000;
    void* descriptor = nullptr;
    SAME(dnn.call("cudnnBackendCreateDescriptor", 17, &descriptor), kNotSupported);
    SAME(dnn.call<std::size_t>("cudnnGetVersion"), 91900);
  });
}

TEST_F(Vendor, BlasPassesFactorsOn) {
  run("libcublas.so.13", true, [](const Library& cuda, const Library& blas) {
    void* const handle = handle_of(blas, "cublasCreate_v2");
    There<double> x(cuda, {1, 2, 3, 4});
    const std::array<double, 2> turn = {0, 1};
    SAME(blas.call("cublasZscal_v2", handle, 2, turn.data(), x.begin(), 1), 0);
    NEED(x.now() == (std::vector<double>{-2, 1, -4, 3}));
    constexpr int kNotSupported = 15;
    SAME(blas.call("cublasSetPointerMode_v2", handle, 1), 0);
    SAME(blas.call("cublasZscal_v2", handle, 2, x.begin(), x.begin(), 1), kNotSupported);
  });
}

constexpr int kHandle = 0, kInteger = 3, kAddress = 6, kDescriptor = 15;

// A descriptor of libcudnn's backend interface, with its attributes.
struct Described {
  Described(const Library& library, int type) : dnn(library) {
    SAME(dnn.call("cudnnBackendCreateDescriptor", type, &it), 0);
  }
  template <class T>
  int set(int name, int type, std::vector<T> values) const {
    return dnn.call("cudnnBackendSetAttribute", it, name, type,
                    static_cast<std::int64_t>(values.size()),
                    static_cast<const void*>(values.data()));
  }
  int finalize() const { return dnn.call("cudnnBackendFinalize", it); }
  int get(int name, int type, std::int64_t room, std::int64_t* count, void* values) const {
    return dnn.call("cudnnBackendGetAttribute", it, name, type, room, count, values);
  }
  const Library& dnn;
  void* it = nullptr;
};

TEST_F(Vendor, GraphsAreDescribedHereAndRunThere) {
  run("libcudnn.so.9", true, [](const Library& cuda, const Library& dnn) {
    SAME(dnn.call<std::size_t>("cudnnGetVersion"), std::size_t{0x1'0000'91900});
    void* const handle = handle_of(dnn, "cudnnCreate");
    const Described tensor(dnn, 17), plan(dnn, 5);
    SAME(tensor.set<std::int64_t>(900, kInteger, {5}), 0);
    SAME(plan.set<void*>(400, kHandle, {handle}), 0);
    SAME(plan.set<void*>(401, kDescriptor, {tensor.it}), 0);
    SAME(plan.set<std::int64_t>(500, kInteger, {1}), 0);
    SAME(plan.set<std::int64_t>(500, kInteger, {3}), 0);  // the last one holds
    constexpr int kNotFinalized = 2004;
    SAME(plan.finalize(), kNotFinalized);
    SAME(tensor.finalize(), 0);
    SAME(plan.finalize(), 0);
    NEED(plan.set<std::int64_t>(500, kInteger, {4}) != 0);
    std::int64_t count = 0, value = 0;
    SAME(plan.get(500, kInteger, 1, &count, &value), 0);
    NEED(count == 1 && value == 3);

    There<double> memory(cuda, {7, 0, 0, 0});
    double more = 0.5;                   // by value: it lies here
    for (const double x : {7.0, 8.0}) {  // waited for, then not
      SAME(cuda.call("cudaMemcpy", static_cast<void*>(memory.at), static_cast<const void*>(&x),
                     std::size_t{8}, 1),
           0);
      const Described pack(dnn, 16);
      SAME(pack.set<void*>(1001, kAddress, {memory.at, memory.at + 1, &more}), 0);
      SAME(pack.set<std::int64_t>(1000, kInteger, {10, 11, 12}), 0);
      SAME(pack.set<void*>(1003, kAddress, {memory.at + 2}), 0);
      NEED(dnn.call("cudnnBackendExecute", handle, plan.it, pack.it) != 0);  // not yet
      SAME(pack.finalize(), 0);
      SAME(dnn.call("cudnnBackendExecute", handle, plan.it, pack.it), 0);
      SAME(dnn.call("cudnnBackendDestroyDescriptor", pack.it), 0);
      NEED(memory.now()[1] == 3 * x + more);
      NEED(memory.now()[2] == -1);
    }
    SAME(dnn.call("cudnnBackendDestroyDescriptor", plan.it), 0);
  });
}

// Described, asked and run while a stream is captured for which the default stream would wait; gone
// before the graph is made.
TEST_F(Vendor, GraphsAreCaptured) {
  run("libcudnn.so.9", true, [](const Library& cuda, const Library& dnn) {
    void *const handle = handle_of(dnn, "cudnnCreate"), *stream = nullptr, *graph = nullptr,
                *exec = nullptr, *activation = nullptr, *x_is = nullptr;
    SAME(cuda.call("cudaStreamCreate", &stream), 0);
    SAME(dnn.call("cudnnSetStream", handle, stream), 0);
    SAME(dnn.call("cudnnCreateTensorDescriptor", &x_is), 0);
    SAME(dnn.call("cudnnSetTensor4dDescriptor", x_is, 0, 0, 2, 3, 4, 5), 0);
    SAME(dnn.call("cudnnCreateActivationDescriptor", &activation), 0);
    There<double> memory(cuda, {7, 0, 0, 0});
    double more = 0.5;
    SAME(cuda.call("cudaStreamBeginCapture", stream, 0), 0);
    SAME(dnn.call<std::size_t>("cudnnGetVersion"), std::size_t{0x1'0000'91900});
    std::size_t bytes = 0;
    SAME(dnn.call("cudnnGetBatchNormalizationTrainingExReserveSpaceSize", handle, 1, 2, activation,
                  x_is, &bytes),
         0);
    NEED(bytes > 0);
    const Described tensor(dnn, 17), plan(dnn, 5), pack(dnn, 16);
    SAME(tensor.set<std::int64_t>(900, kInteger, {5}), 0);
    SAME(tensor.finalize(), 0);
    SAME(plan.set<void*>(400, kHandle, {handle}), 0);
    SAME(plan.set<void*>(401, kDescriptor, {tensor.it}), 0);
    SAME(plan.set<std::int64_t>(500, kInteger, {3}), 0);
    SAME(plan.finalize(), 0);
    SAME(pack.set<void*>(1001, kAddress, {memory.at, memory.at + 1, &more}), 0);
    SAME(pack.set<std::int64_t>(1000, kInteger, {10, 11, 12}), 0);
    SAME(pack.set<void*>(1003, kAddress, {memory.at + 2}), 0);
    SAME(pack.finalize(), 0);
    SAME(dnn.call("cudnnBackendExecute", handle, plan.it, pack.it), 0);
    more = 100;
    for (void* gone : {pack.it, plan.it, tensor.it})
      SAME(dnn.call("cudnnBackendDestroyDescriptor", gone), 0);
    SAME(cuda.call("cudaStreamEndCapture", stream, &graph), 0);
    NEED(memory.now()[1] == 0);
    SAME(cuda.call("cudaGraphInstantiateWithFlags", &exec, graph, 0ULL), 0);
    for (const double x : {7.0, 8.0, 9.0}) {
      SAME(cuda.call("cudaMemcpy", static_cast<void*>(memory.at), static_cast<const void*>(&x),
                     std::size_t{8}, 1),
           0);
      SAME(cuda.call("cudaGraphLaunch", exec, stream), 0);
      NEED(memory.now()[1] == 3 * x + 0.5);
    }
  });
}

// What the library says of its arguments cannot be waited for.
TEST_F(Vendor, WhatAnswersSpoilsACapture) {
  run("libcublas.so.13", true, [](const Library& cuda, const Library& blas) {
    constexpr int kExecutionFailed = 13, kNoCapture = 901;
    void *const handle = handle_of(blas, "cublasCreate_v2"), *stream = nullptr, *graph = nullptr;
    SAME(cuda.call("cudaStreamCreateWithFlags", &stream, 1U), 0);
    SAME(blas.call("cublasSetStream_v2", handle, stream), 0);
    There<double> x(cuda, {1, 2, 3, 4});
    int info = 7;
    SAME(cuda.call("cudaStreamBeginCapture", stream, 0), 0);
    SAME(blas.call("cublasDgetrsBatched", handle, 0, 2, 1, x.begin(), 2, x.begin(), x.begin(), 2,
                   &info, 1),
         kExecutionFailed);
    SAME(cuda.call("cudaStreamEndCapture", stream, &graph), kNoCapture);
    NEED(graph == nullptr && info == 7);
  });
}

TEST_F(Vendor, WhatAPlanIsToldComesBackAsDescriptors) {
  run("libcudnn.so.9", true, [](const Library&, const Library& dnn) {
    const Described heuristics(dnn, 4);
    SAME(heuristics.set<std::int64_t>(300, kInteger, {5}), 0);
    SAME(heuristics.finalize(), 0);
    std::int64_t count = 0;
    SAME(heuristics.get(300, kDescriptor, 0, &count, nullptr), 0);
    SAME(count, 5);
    std::vector<void*> found;
    for (int i = 0; i < 3; ++i) found.push_back(Described(dnn, 3).it);
    SAME(heuristics.get(300, kDescriptor, 3, &count, found.data()), 0);
    Described third(dnn, 3);
    third.it = found[2];
    std::int64_t place = 0;
    SAME(third.get(300, kInteger, 1, &count, &place), 0);
    SAME(place, 2);
    // One that cuDNN refuses is refused here with its number.
    const Described bad(dnn, 17);
    SAME(bad.set<std::int64_t>(666, kInteger, {1}), 0);
    SAME(bad.finalize(), 3000);
  });
}

TEST_F(Vendor, NormalisationPassesTensorsOn) {
  run("libcudnn.so.9", true, [](const Library& cuda, const Library& dnn) {
    void* const handle = handle_of(dnn, "cudnnCreate");
    void *x = nullptr, *activation = nullptr;
    SAME(dnn.call("cudnnCreateTensorDescriptor", &x), 0);
    SAME(dnn.call("cudnnSetTensor4dDescriptor", x, 0, 0, 2, 3, 4, 5), 0);
    SAME(dnn.call("cudnnCreateActivationDescriptor", &activation), 0);
    SAME(dnn.call("cudnnSetActivationDescriptor", activation, 1, 0, 0.5), 0);
    std::size_t bytes = 0;
    SAME(dnn.call("cudnnGetBatchNormalizationTrainingExReserveSpaceSize", handle, 1, 2, activation,
                  x, &bytes),
         0);
    SAME(bytes, 1 * 1000 + 2 * 100 + 3 * 10 + 1);
    There<double> memory(cuda, std::vector<double>(32, 17));
    const float one = 1, zero = 0;
    void* const to = static_cast<void*>(memory.at);
    void* const from = static_cast<void*>(memory.at + 20);
    SAME(dnn.call("cudnnBatchNormalizationForwardTrainingEx", handle, 1, 2, &one, &zero, x, from,
                  null(), null(), x, to, x, from, from, 0.125, from, from, 1e-5, from, from,
                  activation, null(), std::size_t{1000}, null(), std::size_t{2000}),
         0);
    const std::vector<double> wanted = {1,  2, 1, 0,     0,    4,   5,    60,
                                        17, 2, 3, 0.125, 1e-5, 0.5, 1000, 2000};
    std::vector<double> got = memory.now();
    got.resize(wanted.size());
    NEED(got == wanted);
  });
}

TEST_F(Vendor, RecurrentLayersPassEverythingOn) {
  run("libcudnn.so.9", true, [](const Library& cuda, const Library& dnn) {
    void* const handle = handle_of(dnn, "cudnnCreate");
    void* const layers = handle_of(dnn, "cudnnCreateRNNDescriptor");
    void* const dropout = handle_of(dnn, "cudnnCreateDropoutDescriptor");
    void* const x = handle_of(dnn, "cudnnCreateRNNDataDescriptor");
    void* const h = handle_of(dnn, "cudnnCreateTensorDescriptor");
    There<double> memory(cuda, std::vector<double>(64, 17));
    There<int> lengths(cuda, {3, 1});
    const auto at = [&](int place) { return static_cast<void*>(memory.at + place); };
    SAME(
        dnn.call("cudnnSetDropoutDescriptor", dropout, handle, 0.5F, at(40), std::size_t{8}, 99ULL),
        0);
    NEED(memory.now()[40] == 99.5);
    SAME(dnn.call("cudnnSetRNNDescriptor_v8", layers, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
                  dropout, 13U),
         0);
    const int both[] = {3, 1};
    const float filling = -0.5;
    SAME(dnn.call("cudnnSetRNNDataDescriptor", x, 0, 1, 3, 2, 9, &both[0], &filling), 0);
    const int sizes[] = {12, 2, 10, 1, 7}, steps[] = {140, 70, 7, 7, 1};
    SAME(dnn.call("cudnnSetTensorNdDescriptor", h, 0, 5, &sizes[0], &steps[0]), 0);
    SAME(dnn.call("cudnnRNNForward", handle, layers, 1, lengths.begin(), x, at(41), x, at(0), h,
                  at(42), at(43), null(), null(), null(), std::size_t{800}, at(44),
                  std::size_t{900}, at(45), std::size_t{1000}, at(46)),
         0);
    const std::vector<double> wanted = {1,  2,   3,    4, 5,  6, 7,   8,  9,   10, 11,  12,
                                        13, .5,  99.5, 8, 99, 1, 3,   0,  1,   3,  2,   9,
                                        4,  -.5, 17,   9, 5,  7, 140, 17, 800, 17, 900, 1000};
    std::vector<double> got = memory.now();
    NEED(got[43] == -1 && got[46] == -2);
    got.resize(wanted.size());
    NEED(got == wanted);

    void* const matrix = handle_of(dnn, "cudnnCreateTensorDescriptor");
    void *matrix_at = nullptr, *bias_at = at(0);
    SAME(dnn.call("cudnnGetRNNWeightParams", handle, layers, 2, std::size_t{100}, null(), 3, matrix,
                  &matrix_at, h, &bias_at),
         0);
    NEED(matrix_at == reinterpret_cast<void*>(std::uintptr_t{123}) && bias_at == nullptr);
    // A program that wants one of the two has nothing for the other.
    matrix_at = nullptr;
    SAME(dnn.call("cudnnGetRNNWeightParams", handle, layers, 2, std::size_t{100}, null(), 4, matrix,
                  &matrix_at, null(), null()),
         0);
    NEED(matrix_at == reinterpret_cast<void*>(std::uintptr_t{124}));
    int type = -1, dimensions = 0, size[8] = {}, step[8] = {};
    SAME(dnn.call("cudnnGetTensorNdDescriptor", matrix, 8, &type, &dimensions, &size[0], &step[0]),
         0);
    NEED(type == 0 && dimensions == 3 && size[1] == 10 && size[2] == 9 && step[0] == 100);
  });
}

}  // namespace
}  // namespace partita::remote::test
