#include "serve/worker/pulse.h"

#include <chrono>
#include <utility>

#include "serve/worker/warm_up.h"

namespace partita::serve {

Pulse::Pulse() : thread_([this] { beat(); }) {}

Pulse::~Pulse() {
  {
    const std::scoped_lock hold(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
}

void Pulse::send_to(std::shared_ptr<LinkSender> link) {
  {
    const std::scoped_lock hold(mutex_);
    std::swap(link_, link);
  }
  wake_.notify_all();
}

void Pulse::beat() {
  const std::string frame = encode(Beat{});
  std::unique_lock hold(mutex_);
  while (!ending_) {
    const std::int64_t overdue = overdue_;
    const bool hangs = overdue != 0 && steady_ns() > overdue;
    if (link_ && !hangs) link_->try_send(frame);
    wake_.wait_for(hold, std::chrono::nanoseconds(kBeatNs / 2));
  }
}

}  // namespace partita::serve
