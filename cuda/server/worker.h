// A worker: the process of one session. It opens its part of the machine, gives up what it does not
// need, says that it is ready, gets a client's connection, serves it and ends. The zygote is the
// process that workers are forked from: it was forked from the server before that had seen any
// client, so that workers begin without anything of others. Whoever is left behind dies with its
// parent.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "base/descriptor.h"
#include "server/broker_brain.h"
#include "server/sandbox.h"
#include "server/session.h"

namespace partita::remote::server {

struct WorkerOptions {
  // Opens a part: all of it (or `units` of its units), with the checks of HelloFlags.
  std::function<Result<std::unique_ptr<DeviceBackend>>(const Part& part, int units,
                                                       std::uint32_t flags)>
      open = {};
  std::string images = {};  // folder of the image cache; empty: in memory
  SessionLimits limits = {};
  SandboxOptions sandbox = {};
  Nanos idle_limit = Nanos(0), wall_limit = Nanos(0);  // 0: none
  // All sessions are threads of one process, the house, on one context of the device; `open` is
  // called by several at the same time. A fault takes that context from all of them: once `spent`
  // says so, the house ends and another one begins.
  bool shared = false;
  std::function<bool()> spent = {};
};

// Serves a session to its end: one of `stops` readable means to end it (-1: none). Why it ended is
// in its reason().
void serve_session(Channel& channel, Session& session, const WorkerOptions& options,
                   std::array<int, 2> stops, const std::function<void(const SessionCounts&)>& tell);

// The life of a worker of a part on its control socket; the exit status. `shelf`: a socket to what
// sessions share.
int run_worker(Descriptor control, Descriptor shelf, const Part& part,
               const WorkerOptions& options);

// Forks the zygote (of a shared server: who keeps a house); the server's end of its socket. Call it
// while the process has one thread.
struct Zygote {
  Descriptor socket;
  long pid = 0;
};
Result<Zygote> start_zygote(const WorkerOptions& options);

}  // namespace partita::remote::server
