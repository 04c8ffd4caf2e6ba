#include "tests/remote/timed_backend.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>

namespace partita::remote::shapes {

using server::Completed;

TimedBackend::TimedBackend() : wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  constexpr std::size_t kMajor = 75, kUnits = 16, kAttributes = 120;
  device_.name = "Waits";
  device_.backend = "timed";
  device_.arena = 0x7000'0000'0000;
  device_.arena_bytes = std::uint64_t{1} << 40;
  device_.total_memory = std::uint64_t{40} << 30;
  device_.uuid.resize(16);
  device_.attributes.assign(kAttributes, 0);
  device_.attributes[kMajor] = 8;
  device_.attributes[kUnits] = 108;
}

server::Answered<server::KernelFacts> TimedBackend::find_kernel(server::Id, const std::string&) {
  return server::KernelFacts{
      .id = ++next_, .parameters = {{0, 8}}, .parameter_bytes = 8, .max_threads = 1024};
}

server::Answered<server::GlobalPlace> TimedBackend::find_global(server::Id,
                                                                const std::string& name) {
  return server::refuse(server::kNotFound, name + ": there are no variables here");
}

void TimedBackend::add(Completed completed) {
  due_.push_back({end_, std::move(completed)});
  if (due_.size() == 1) ::eventfd_write(wake_.get(), 1);
}

server::DeviceBackend::Polled TimedBackend::poll() {
  Polled polled;
  const Time now = std::chrono::steady_clock::now();
  const bool had = !due_.empty();
  while (!due_.empty() && due_.front().at <= now) {
    polled.completed.push_back(std::move(due_.front().completed));
    due_.pop_front();
  }
  eventfd_t ignored = 0;
  if (had && due_.empty()) ::eventfd_read(wake_.get(), &ignored);
  polled.queued = due_.size();
  return polled;
}

server::Answered<void> TimedBackend::enqueue(server::Id, server::StreamWork work) {
  if (const auto* launch = std::get_if<server::LaunchWork>(&work)) {
    std::uint64_t nanoseconds = 0;
    if (launch->parameters.size() >= sizeof nanoseconds) {
      std::memcpy(&nanoseconds, launch->parameters.data(), sizeof nanoseconds);
    }
    end_ = std::max(end_, std::chrono::steady_clock::now()) +
           std::chrono::nanoseconds(std::min<std::uint64_t>(nanoseconds, 10'000'000'000));
  } else if (const auto* copy = std::get_if<server::CopyOutWork>(&work)) {
    add({.kind = Completed::Kind::copied,
         .tag = copy->tag,
         .bytes = std::vector<std::byte>(copy->bytes)});
  } else if (const auto* hold = std::get_if<server::HoldWork>(&work)) {
    add({.kind = Completed::Kind::held, .tag = hold->tag, .hold = hold->tag});
  }
  return {};
}

void TimedBackend::watch(server::ObjectKind, server::Id, std::uint64_t tag) {
  add({.kind = Completed::Kind::reached, .tag = tag});
}

bool TimedBackend::finished(server::ObjectKind, server::Id) {
  return end_ <= std::chrono::steady_clock::now();
}

}  // namespace partita::remote::shapes
