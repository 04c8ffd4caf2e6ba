#include "act/batch/driver_thread.h"

#include <gtest/gtest.h>

#include <atomic>

#include "act/batch/testing/test_batch.h"

namespace partita::exec {
namespace {

using Milliseconds = std::chrono::milliseconds;

Operation half() {
  return {.kind = Operation::Kind::create,
          .device = 4,
          .place = {"2g.12gb", 2},
          .nvml_enum = 1,
          .size = 2};
}

TEST(DriverThread, AnswersEachOperationOnce) {
  test::ToldDriver driver;
  DriverThread thread(driver);
  EXPECT_FALSE(thread.answer().has_value());
  for (int n = 0; n < 3; ++n) {
    thread.begin(half());
    thread.wait(std::chrono::minutes(1));
    const auto answer = thread.answer();
    ASSERT_TRUE(answer.has_value()) << "a wait ends with the answer";
    EXPECT_EQ(answer->made->gi_id, 7 + n);
    EXPECT_FALSE(thread.answer().has_value());
  }
}

// While the driver is at work others go on; whoever ends the thread waits for it.
TEST(DriverThread, BlocksNobodyButItsEnd) {
  std::atomic<bool> go = false, began = false, done = false;
  test::ToldDriver driver;
  driver.before = [&](const std::string& method) {
    if (method != "create_instance") return;
    began = true;
    while (!go) std::this_thread::sleep_for(Milliseconds(1));
    done = true;
  };
  {
    DriverThread thread(driver);
    thread.begin(half());
    while (!began) std::this_thread::sleep_for(Milliseconds(1));
    const auto begin = std::chrono::steady_clock::now();
    thread.wait(Milliseconds(5));
    EXPECT_GE(std::chrono::steady_clock::now() - begin, Milliseconds(5));
    EXPECT_FALSE(thread.answer().has_value());
    go = true;
  }
  EXPECT_TRUE(done);
  EXPECT_EQ(driver.gpus[4].instances.size(), 1U);
}

}  // namespace
}  // namespace partita::exec
