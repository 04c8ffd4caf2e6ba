#include "serve/worker/link_sender.h"

#include <poll.h>

namespace partita::serve {

bool LinkSender::send(std::string_view frame) {
  while (!broken_) {
    const Result<bool> sent = connection_.send(frame);
    if (sent && *sent) return true;
    pollfd room{connection_.fd(), POLLOUT, 0};
    if (!sent || ::poll(&room, 1, kSendLimitMs) == 0) broken_ = true;
  }
  return false;
}

void LinkSender::try_send(std::string_view frame) {
  if (!broken_ && !connection_.send(frame)) broken_ = true;
}

}  // namespace partita::serve
