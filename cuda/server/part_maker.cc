#include "server/part_maker.h"

#include <sys/eventfd.h>

#include <utility>

namespace partita::remote::server {

MakerThread::MakerThread(PartMaker& maker)
    : maker_(maker), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { run(); }) {}

MakerThread::~MakerThread() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  asked_.notify_one();
  thread_.join();
}

void MakerThread::ask(std::function<broker::Event()> what) {
  {
    const std::scoped_lock lock(mutex_);
    asks_.push_back(std::move(what));
  }
  asked_.notify_one();
}

void MakerThread::make(std::size_t part, const std::string& shape) {
  ask([this, part, shape]() -> broker::Event {
    const Result<std::string> name = maker_.make(shape);
    if (name) return broker::Made{part, *name};
    return broker::NotMade{part, name.error().code == ErrorCode::no_room, to_string(name.error())};
  });
}

void MakerThread::unmake(std::size_t part, const std::string& name) {
  ask([this, part, name]() -> broker::Event {
    static_cast<void>(maker_.unmake(name));
    return broker::Unmade{part};
  });
}

std::vector<broker::Event> MakerThread::done() {
  eventfd_t count = 0;
  static_cast<void>(::eventfd_read(wake_.get(), &count));
  const std::scoped_lock lock(mutex_);
  return std::exchange(done_, {});
}

void MakerThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    asked_.wait(lock, [this] { return ending_ || !asks_.empty(); });
    if (asks_.empty()) return;
    const auto what = std::move(asks_.front());
    asks_.pop_front();
    lock.unlock();
    broker::Event event = what();
    lock.lock();
    done_.push_back(std::move(event));
    static_cast<void>(::eventfd_write(wake_.get(), 1));
  }
}

}  // namespace partita::remote::server
