// The connections of the workers: accepts them, reads their frames, sends frames in order, and
// tells its listener what they say. Knows no service and no request. Owns sockets and watches; one
// thread, that of the loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/door/loop.h"
#include "serve/brain/service_brain.h"
#include "serve/link/connection.h"
#include "serve/wire/frames.h"

namespace partita::serve {

// Frames that wait because a worker does not read: beyond it, it is cut off.
inline constexpr std::size_t kMostWaitingFrames = 1024;

class WorkerLinks {
 public:
  // Every call names the worker by the number it got when it connected; never used again.
  struct Listens {
    std::function<void(WorkerId, const UnixPeer&, Frame)> heard;
    std::function<void(WorkerId, const std::string& why)> gone;
  };
  static Result<std::unique_ptr<WorkerLinks>> open(Loop& loop, const std::string& path,
                                                   Listens listens);

  // Nothing, where it is not connected (any more). `descriptor` is copied.
  void send(WorkerId worker, std::string_view frame, int descriptor = -1);
  // Nothing of it is heard any more; the connection ends when the worker has read what was sent and
  // ends it. `gone` is not called for it.
  void close(WorkerId worker);
  std::int64_t heard_ago(WorkerId worker) const;  // it is connected

 private:
  struct Link {
    Connection connection;
    UnixPeer peer;
    std::int64_t heard = 0;  // by Loop::awake_ns
    Loop::Watch watch = {};
    struct Waiting {
      std::string frame;
      Descriptor descriptor{-1};
    };
    std::deque<Waiting> waiting = {};
    bool closing = false;
  };
  WorkerLinks(Loop& loop, Listener listener, Listens listens);
  void accept();
  void ready(WorkerId worker, Readiness readiness);
  void read(WorkerId worker);
  void flush(WorkerId worker);
  void drop(WorkerId worker, const std::string& why);

  Loop& loop_;
  Listener listener_;
  Listens listens_;
  Loop::Watch watch_;
  std::map<WorkerId, std::unique_ptr<Link>> links_;
  WorkerId next_ = 1;
  std::vector<char> buffer_;
};

}  // namespace partita::serve
