// The profiler's bench with real worker loops whose batches take a fixed time: throughput and
// latency against that time.
#include "serve/measure/bench.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <future>

#include "serve/worker/null_engine.h"
#include "serve/worker/worker_loop.h"

namespace partita::serve {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

// Fails every batch once it is told to.
class Failing final : public Engine {
 public:
  const ModelSpec& spec() const override { return inner_->spec(); }
  Result<void> run(std::span<char* const> slots) override {
    if (fails) return environment_error("engine", "no luck");
    return inner_->run(slots);
  }
  std::atomic<bool> fails = false;

 private:
  EnginePointer inner_ = null_engine({.name = "m",
                                      .platform = "null",
                                      .inputs = {{.name = "x", .shape = {4}}},
                                      .outputs = {{.name = "y", .shape = {4}}},
                                      .max_batch = 8},
                                     {.batch_ns = 3 * kMillisecond, .item_ns = kMillisecond});
};

class MeasureBench : public testing::Test {
 protected:
  MeasureBench() {
    std::string name = testing::TempDir() + "benchXXXXXX";
    folder = ::mkdtemp(name.data());
    options.seat = {.link = folder + "/s", .place = "", .service = "m"};
    options.leave_fd = ::eventfd(0, EFD_CLOEXEC);
    bench.emplace(Bench::open(options.seat.link).value());
    for (Failing& engine : engines) {
      workers.push_back(
          std::async(std::launch::async, [&] { return run_worker(engine, options); }));
    }
  }
  ~MeasureBench() override {
    bench->dismiss();
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(options.leave_fd, &one, sizeof one), static_cast<ssize_t>(sizeof one));
    for (auto& worker : workers) worker.wait();
    bench.reset();
    ::close(options.leave_fd);
    std::filesystem::remove_all(folder);
  }
  std::string folder;
  LoopOptions options;
  std::array<Failing, 2> engines;
  std::optional<Bench> bench;
  std::vector<std::future<Result<void>>> workers;
  std::function<bool()> alive = [] { return true; };
};

TEST_F(MeasureBench, MeasuresTwoWorkersTogether) {
  ASSERT_TRUE(bench->wait_for(2, 60'000 * kMillisecond, alive));
  EXPECT_EQ(bench->model().max_batch, 8);
  const BenchLimits limits{
      .window_ns = 20 * kMillisecond, .most_ns = 400 * kMillisecond, .precision = 0.05};
  const auto point = bench->measure(4, limits, alive);
  ASSERT_TRUE(point) << to_string(point.error());
  // 7 ms a batch of 4, two at once: 1143/s at most, less on a busy machine.
  EXPECT_GE(point->latency_ms, 7);
  EXPECT_LE(point->throughput_rps, 1143 * 1.05);
  EXPECT_GE(point->throughput_rps, 1143 / 3.0);
  // The columns agree: latency = batch x workers / throughput.
  EXPECT_NEAR(point->latency_ms * point->throughput_rps / 8000, 1, 0.3);
}

TEST_F(MeasureBench, SaysWhatFails) {
  ASSERT_TRUE(bench->wait_for(2, 60'000 * kMillisecond, alive));
  engines[1].fails = true;
  const auto point = bench->measure(1, {}, alive);
  ASSERT_FALSE(point);
  EXPECT_NE(point.error().message.find("no luck"), std::string::npos);
  EXPECT_EQ(bench->wait_for(3, 60'000 * kMillisecond, [] { return false; }).error().code,
            ErrorCode::not_found);
}

}  // namespace
}  // namespace partita::serve
