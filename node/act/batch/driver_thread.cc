#include "act/batch/driver_thread.h"

#include <utility>

#include "base/check.h"

namespace partita::exec {

DriverThread::DriverThread(device::NodeDriver& driver)
    : driver_(driver), thread_([this](const std::stop_token& stop) { work(stop); }) {}

void DriverThread::begin(Operation operation) {
  {
    const std::lock_guard lock(mutex_);
    CHECK(!asked_ && !answer_);
    asked_ = std::move(operation);
  }
  changed_.notify_all();
}

std::optional<Outcome> DriverThread::answer() {
  const std::lock_guard lock(mutex_);
  return std::exchange(answer_, std::nullopt);
}

void DriverThread::wait(std::chrono::nanoseconds at_most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, at_most, [this] { return answer_.has_value(); });
}

void DriverThread::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return asked_.has_value(); })) {
    const Operation operation = *asked_;
    lock.unlock();
    Outcome outcome = perform(driver_, operation);
    lock.lock();
    asked_.reset();
    answer_ = std::move(outcome);
    changed_.notify_all();
  }
}

}  // namespace partita::exec
