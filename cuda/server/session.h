// Session: one client's side of the server, as a state machine. step() reads what is there, checks
// it against the table of operations and the session's own objects, hands it to the backend and
// writes what is to be answered; it waits for nothing but the channel's taking what is written.
// Whatever a client sends is refused with a CUDA error number and a reason, or ends the session
// (a frame that is none). Limits: SessionLimits.
// Thread rule: one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/backend.h"
#include "server/images.h"
#include "wire/net/frames.h"

namespace partita::remote::server {

struct SessionLimits {
  std::uint64_t memory = std::uint64_t{4} << 30;  // bytes allocated at the same time
  std::size_t allocations = 1 << 20;
  std::size_t streams = kMostStreams, events = 60'000, modules = 512, kernels = 65'536;
  std::size_t graphs = 1024, graph_nodes = 100'000;  // nodes: of all graphs
  std::size_t textures = 65'536;                     // and as many arrays
  std::uint64_t staging = std::uint64_t{256} << 20;  // bytes on their way, or read ahead, each
  // While the client owes a CallDone reading goes on, up to this and `queued`; an allocation that
  // waits, or work, is refused beyond.
  std::uint64_t staging_at_most = std::uint64_t{1} << 30;
  std::size_t queued = 65'536;  // pieces of work; more are not read, or refused as with staging
  std::size_t waiting = 4096;   // answers that are not due yet
  std::size_t deferred = 4096;  // frames read ahead of an allocation that waits for work alone
  // A module that is not loaded after so long: from then on the session reads ahead, answers pings.
  Nanos load_at_once = std::chrono::seconds(1);
  std::size_t reasons = 1000;   // said to the client
  Nanos patience = std::chrono::seconds(10);  // for what is written
};

// What a client asks for in its hello.
struct Wanted {
  std::string shape = {}, program = {};
  std::uint64_t pid = 0;
  std::uint32_t flags = 0;  // HelloFlags
};

// Why a client with this hello cannot be served: another version, a wrong token.
std::optional<Refused> refusal_of(const Hello& hello, std::string_view token);

struct SessionCounts {
  std::uint64_t operations = 0, launches = 0, refused = 0, bytes_in = 0, bytes_out = 0;
  std::uint64_t memory = 0;
};

class Shelf;

class Session {
 public:
  using Open = std::function<Result<std::unique_ptr<DeviceBackend>>()>;

  // `token`: what a hello has to bring; empty: nothing. `shelf`: what it shares with others; null:
  // nothing. Channel, images and shelf outlive the session.
  Session(Channel& channel, Images& images, std::string token, SessionLimits limits = {},
          Shelf* shelf = nullptr);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  struct Step {
    bool ended = false;
    bool busy = false;                // there is more to do now
    bool progressed = false;          // something was read, or something ended
    bool idle = false;                // nothing is unfinished: only the client can go on
    std::optional<Nanos> again = {};  // step again after so long
  };
  // Where nothing is unfinished it may wait so long for the client's next bytes.
  Step step(Nanos patience = Nanos(0));
  // To poll beside the channel's; -1 while there is none.
  int backend_descriptor() const;

  // In place of a hello from the channel: it was read, and found good, before the channel came.
  void greeted(std::uint32_t request);
  // Once, after a good hello: then one of the next two follows.
  std::optional<Wanted> wanted();
  void grant(std::uint64_t number, std::unique_ptr<DeviceBackend> backend, Open reopen);
  void deny(Status status, const std::string& reason);

  // Ends it from outside; the client hears why.
  void end(const std::string& reason);
  // Why it ended; "the client left" when all is well.
  const std::string& reason() const;
  SessionCounts counts() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace partita::remote::server
