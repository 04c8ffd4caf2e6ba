#include "serve/gateway/worker_links.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

namespace partita::serve {
namespace {

constexpr int kFramesATurn = 64;  // of one worker, before others get a look

}  // namespace

Result<std::unique_ptr<WorkerLinks>> WorkerLinks::open(Loop& loop, const std::string& path,
                                                       Listens listens) {
  Listener listener = TRY(Listener::open(path));
  return std::unique_ptr<WorkerLinks>(
      new WorkerLinks(loop, std::move(listener), std::move(listens)));
}

WorkerLinks::WorkerLinks(Loop& loop, Listener listener, Listens listens)
    : loop_(loop),
      listener_(std::move(listener)),
      listens_(std::move(listens)),
      buffer_(kMaxFrameBytes) {
  watch_ = loop_.watch(listener_.fd(), [this](Readiness) { accept(); });
}

void WorkerLinks::accept() {
  while (true) {
    Result<std::optional<Connection>> connection = listener_.accept();
    if (!connection || !*connection) return;
    const Result<UnixPeer> peer = (*connection)->peer();
    if (!peer) continue;
    const WorkerId id = next_++;
    auto link = std::make_unique<Link>(Link{.connection = **std::move(connection), .peer = *peer});
    link->watch = loop_.watch(link->connection.fd(),
                              [this, id](Readiness readiness) { ready(id, readiness); });
    links_.emplace(id, std::move(link));
  }
}

void WorkerLinks::ready(WorkerId worker, Readiness readiness) {
  if (readiness.writable) flush(worker);
  if (readiness.readable || readiness.closed) read(worker);
}

void WorkerLinks::read(WorkerId worker) {
  for (int i = 0; i < kFramesATurn; ++i) {
    const auto found = links_.find(worker);
    if (found == links_.end()) return;
    Link& link = *found->second;
    const Result<Received> received = link.connection.receive(buffer_);
    if (!received) return drop(worker, to_string(received.error()));
    if (received->kind == Received::Kind::nothing_yet) return;
    if (received->kind == Received::Kind::ended) return drop(worker, "its connection ended");
    link.heard = loop_.awake_ns();
    if (link.closing) continue;
    Result<Frame> frame = decode(received->bytes);
    if (!frame) return drop(worker, to_string(frame.error()));
    if (!std::holds_alternative<Beat>(*frame)) listens_.heard(worker, link.peer, *std::move(frame));
  }
}

void WorkerLinks::send(WorkerId worker, std::string_view frame, int descriptor) {
  const auto found = links_.find(worker);
  if (found == links_.end() || found->second->closing) return;
  Link& link = *found->second;
  if (link.waiting.empty()) {
    const Result<bool> sent = link.connection.send(frame, descriptor);
    // What broke the connection is told by reading: whoever sends is in the middle of something.
    if (!sent || *sent) return;
  }
  if (link.waiting.size() >= kMostWaitingFrames) {
    loop_.post([this, worker] { drop(worker, "it does not read what it is sent"); });
    return;
  }
  Descriptor copy(descriptor < 0 ? -1 : ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  link.waiting.push_back({std::string(frame), std::move(copy)});
  link.watch.want(true, true);
}

void WorkerLinks::flush(WorkerId worker) {
  const auto found = links_.find(worker);
  if (found == links_.end()) return;
  Link& link = *found->second;
  while (!link.waiting.empty()) {
    const Link::Waiting& next = link.waiting.front();
    const Result<bool> sent = link.connection.send(next.frame, next.descriptor.get());
    if (sent && !*sent) return;
    link.waiting.pop_front();
  }
  link.watch.want(true, false);
}

void WorkerLinks::close(WorkerId worker) {
  // Closed now, with frames of the worker unread, the kernel would throw away what was sent to it.
  if (const auto found = links_.find(worker); found != links_.end()) found->second->closing = true;
}

void WorkerLinks::drop(WorkerId worker, const std::string& why) {
  const auto found = links_.find(worker);
  if (found == links_.end()) return;
  const bool closing = found->second->closing;
  links_.erase(found);
  if (!closing) listens_.gone(worker, why);
}

std::int64_t WorkerLinks::heard_ago(WorkerId worker) const {
  return loop_.awake_ns() - links_.at(worker)->heard;
}

}  // namespace partita::serve
