#include "base/door/loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <ctime>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/descriptor.h"

namespace partita::serve {

namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr int kEvents = 64;  // fetched at once
constexpr std::int64_t kStill = 100'000'000;

struct Watched {
  std::unique_ptr<std::function<void(Readiness)>> function;  // stays in place while it runs
  int fd = -1;
  std::uint32_t generation = 0;
  std::uint32_t interest = 0;
};

timespec timespec_of(std::int64_t ns) { return {ns / kSecondNs, ns % kSecondNs}; }

}  // namespace

struct Loop::Timer::State {
  std::function<void(std::int64_t)> function;
  Loop::Impl* loop = nullptr;
  std::int64_t due = kNever;
  std::uint64_t order = 0;
};

struct Loop::Impl {
  Descriptor epoll, wake, alarm;
  std::unique_ptr<Descriptor> signals = {};
  std::function<void(int)> on_signal = {};
  std::deque<Watched> watched = {};  // by index: stable while it grows
  std::vector<std::uint32_t> unused = {};
  std::vector<std::unique_ptr<std::function<void(Readiness)>>> graveyard =
      {};  // of watches ended in their call
  std::map<std::pair<std::int64_t, std::uint64_t>, std::shared_ptr<Timer::State>> timers = {};
  std::uint64_t next_order = 0;
  std::int64_t armed = kNever;
  std::int64_t looked = Loop::now_ns(), still = 0;  // for timers last; how long it stood still
  std::mutex mutex = {};
  std::vector<std::function<void()>> posted = {};  // under mutex
  bool sleeping = false;                           // under mutex: or about to
  std::atomic<bool> stopping = false;

  Impl(int epoll_fd, int wake_fd, int alarm_fd) : epoll(epoll_fd), wake(wake_fd), alarm(alarm_fd) {}

  static std::uint32_t index_of(std::uint64_t id) { return static_cast<std::uint32_t>(id); }
  Watched* find(std::uint64_t id) {
    Watched& found = watched[index_of(id)];
    return found.generation == id >> 32 && found.fd >= 0 ? &found : nullptr;
  }
  std::uint64_t add(int fd, std::function<void(Readiness)> function);
  void change(std::uint64_t id, std::uint32_t interest);
  void remove(std::uint64_t id);
  void arm(std::int64_t until);
  void fire_timers();
  void run_posted();
  void dispatch(const epoll_event& event);
  bool may_sleep();
  void woke_up();
  void turn(std::int64_t until);
};

std::uint64_t Loop::Impl::add(int fd, std::function<void(Readiness)> function) {
  if (unused.empty()) {
    unused.push_back(static_cast<std::uint32_t>(watched.size()));
    watched.emplace_back();
  }
  const std::uint32_t index = unused.back();
  unused.pop_back();
  Watched& entry = watched[index];
  entry.function = std::make_unique<std::function<void(Readiness)>>(std::move(function));
  entry.fd = fd;
  entry.interest = EPOLLIN | EPOLLRDHUP;
  const std::uint64_t id = std::uint64_t{entry.generation} << 32 | index;
  epoll_event event{.events = entry.interest, .data = {.u64 = id}};
  CHECK(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0);
  return id;
}

void Loop::Impl::change(std::uint64_t id, std::uint32_t interest) {
  Watched* entry = find(id);
  if (entry == nullptr || entry->interest == interest) return;
  entry->interest = interest;
  epoll_event event{.events = interest, .data = {.u64 = id}};
  CHECK(::epoll_ctl(epoll.get(), EPOLL_CTL_MOD, entry->fd, &event) == 0);
}

void Loop::Impl::remove(std::uint64_t id) {
  Watched* entry = find(id);
  if (entry == nullptr) return;
  ::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, entry->fd, nullptr);
  graveyard.push_back(std::move(entry->function));
  entry->fd = -1;
  ++entry->generation;
  unused.push_back(index_of(id));
}

// Sets the timerfd to the first timer, or to `until`.
void Loop::Impl::arm(std::int64_t until) {
  const std::int64_t first = std::min(
      until, timers.empty() ? kNever : std::max<std::int64_t>(timers.begin()->first.first, 1));
  if (first == armed) return;
  armed = first;
  const itimerspec when{.it_interval = {},
                        .it_value = first == kNever ? timespec{} : timespec_of(first)};
  CHECK(::timerfd_settime(alarm.get(), TFD_TIMER_ABSTIME, &when, nullptr) == 0);
}

void Loop::Impl::fire_timers() {
  if (timers.empty()) return;
  const std::int64_t now = Loop::now_ns();
  const std::int64_t late = now - std::max(looked, timers.begin()->first.first);
  if (late > kStill) still += late;
  looked = now;
  while (!timers.empty() && timers.begin()->first.first <= now) {
    const std::shared_ptr<Timer::State> state = timers.begin()->second;
    timers.erase(timers.begin());
    state->function(std::exchange(state->due, kNever));
  }
}

void Loop::Impl::run_posted() {
  std::vector<std::function<void()>> now;
  {
    const std::lock_guard lock(mutex);
    now.swap(posted);
  }
  for (auto& function : now) {
    function();
    function = nullptr;  // what it holds ends before the next one runs
    fire_timers();
  }
}

void Loop::Impl::dispatch(const epoll_event& event) {
  Watched* entry = find(event.data.u64);
  if (entry == nullptr) return;  // ended by a call before this one
  const bool closed = (event.events & (EPOLLERR | EPOLLHUP)) != 0;
  (*entry->function)({.readable = (event.events & (EPOLLIN | EPOLLRDHUP)) != 0,
                      .writable = (event.events & EPOLLOUT) != 0,
                      .closed = closed});
}

// Nothing is to be done at once; from now on post() wakes the loop.
bool Loop::Impl::may_sleep() {
  const std::lock_guard lock(mutex);
  sleeping = posted.empty() && !stopping;
  return sleeping;
}

void Loop::Impl::woke_up() {
  const std::lock_guard lock(mutex);
  sleeping = false;
}

void Loop::Impl::turn(std::int64_t until) {
  run_posted();
  fire_timers();
  graveyard.clear();
  arm(until);
  const bool wait = may_sleep();
  std::array<epoll_event, kEvents> events;
  const int count = ::epoll_wait(epoll.get(), events.data(), kEvents, wait ? -1 : 0);
  if (wait) woke_up();
  fire_timers();
  for (int i = 0; i < count; ++i) {
    dispatch(events[static_cast<std::size_t>(i)]);
    fire_timers();
  }
}

Loop::Loop(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Loop::~Loop() = default;

Result<std::unique_ptr<Loop>> Loop::make() {
  auto impl = std::make_unique<Impl>(::epoll_create1(EPOLL_CLOEXEC),
                                     ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                     ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (impl->epoll.get() < 0 || impl->wake.get() < 0 || impl->alarm.get() < 0)
    return environment_error("", "the kernel gives no epoll, eventfd or timerfd descriptor");
  Impl& loop = *impl;
  // Edge-triggered: each write wakes, and nobody has to read.
  loop.change(loop.add(loop.wake.get(), [](Readiness) {}), EPOLLIN | EPOLLET);
  loop.add(loop.alarm.get(), [&loop](Readiness) {
    std::uint64_t count = 0;
    if (::read(loop.alarm.get(), &count, sizeof count) > 0) loop.armed = kNever;
  });
  return std::unique_ptr<Loop>(new Loop(std::move(impl)));
}

std::int64_t Loop::now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecondNs + now.tv_nsec;
}

std::int64_t Loop::awake_ns() const { return now_ns() - impl_->still; }

void Loop::run() { run_until(kNever); }

void Loop::run_until(std::int64_t end_ns) {
  // At least once: what was posted runs, however long it took to come here.
  for (bool first = true; !impl_->stopping; first = false) {
    if (!first && end_ns != kNever && now_ns() >= end_ns) break;
    impl_->turn(end_ns);
  }
  impl_->graveyard.clear();
  impl_->stopping = false;
}

void Loop::stop() {
  impl_->stopping = true;
  post([] {});
}

void Loop::post(std::function<void()> function) {
  const std::lock_guard lock(impl_->mutex);
  impl_->posted.push_back(std::move(function));
  if (!std::exchange(impl_->sleeping, false)) return;  // it looks before it sleeps
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto put = ::write(impl_->wake.get(), &one, sizeof one);
}

Loop::Watch Loop::watch(int fd, std::function<void(Readiness)> function) {
  return {impl_.get(), impl_->add(fd, std::move(function))};
}

Result<void> Loop::on_signals(const std::vector<int>& signals, std::function<void(int)> function) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  if (::pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0)
    return environment_error("", "the signals cannot be blocked");
  auto descriptor = std::make_unique<Descriptor>(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (descriptor->get() < 0) return environment_error("", "the kernel gives no signalfd");
  CHECK(impl_->signals == nullptr);
  impl_->signals = std::move(descriptor);
  impl_->on_signal = std::move(function);
  Impl& loop = *impl_;
  loop.add(loop.signals->get(), [&loop](Readiness) {
    signalfd_siginfo info{};
    while (::read(loop.signals->get(), &info, sizeof info) == sizeof info)
      loop.on_signal(static_cast<int>(info.ssi_signo));
  });
  return {};
}

Loop::Watch::Watch(Watch&& other) noexcept
    : loop_(std::exchange(other.loop_, nullptr)), id_(other.id_) {}

Loop::Watch& Loop::Watch::operator=(Watch&& other) noexcept {
  if (this != &other) {
    reset();
    loop_ = std::exchange(other.loop_, nullptr);
    id_ = other.id_;
  }
  return *this;
}

void Loop::Watch::want(bool readable, bool writable) {
  if (loop_ == nullptr) return;
  const std::uint32_t in = readable ? std::uint32_t{EPOLLIN} | EPOLLRDHUP : 0;
  loop_->change(id_, in | (writable ? std::uint32_t{EPOLLOUT} : 0));
}

void Loop::Watch::reset() {
  if (loop_ != nullptr) std::exchange(loop_, nullptr)->remove(id_);
}

Loop::Timer::Timer(Loop& loop, std::function<void(std::int64_t)> function)
    : state_(std::make_shared<State>()) {
  state_->function = std::move(function);
  state_->loop = loop.impl_.get();
}

Loop::Timer::~Timer() { cancel(); }

void Loop::Timer::at(std::int64_t due_ns) {
  CHECK(due_ns != kNever);
  if (state_->due == due_ns) return;
  cancel();
  state_->due = due_ns;
  state_->order = state_->loop->next_order++;
  state_->loop->timers.emplace(std::pair(due_ns, state_->order), state_);
}

void Loop::Timer::cancel() {
  if (state_->due == kNever) return;
  state_->loop->timers.erase({state_->due, state_->order});
  state_->due = kNever;
}

bool Loop::Timer::pending() const { return state_->due != kNever; }

}  // namespace partita::serve
