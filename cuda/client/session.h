// The session of this process with a server: what the shims call, by resource. Every function of
// the parts that asks for no Lock may be called by any thread, connects at its first use
// (environment PARTITA_REMOTE) and answers with CUDA's number.
// Handles (streams, events, graphs) are numbers chosen here; kernels and modules are objects that
// live as long as the process, so that their addresses can be handles in programs.
//
// Several devices are names in one session: what is each one's own is kept here (device.h). Arrays
// and textures are the shims'.
#pragma once

#include "client/core.h"
#include "client/device_memory.h"
#include "client/graphs.h"
#include "client/host_memory.h"
#include "client/kernels.h"
#include "client/libraries.h"
#include "client/managed_memory.h"
#include "client/nodes.h"
#include "client/sharing.h"
#include "client/streams.h"
#include "client/textures.h"

namespace partita::remote::client {

class Session {
 public:
  Session();

  // Connects when that has not been tried.
  Status ready();
  // The snapshot, once ready.
  const Device& device() const { return core.device; }
  Stats& stats() { return core.stats; }
  Status failure() { return core.failure(); }
  void refuse(const char* function) { core.refuse(function); }
  Status launched(Status status) {  // what came of a launch, passed on
    if (status != kOk) core.note_failed_launch(status);
    return status;
  }
  Status reset();
  // What the program launched until now was a request of its; before there is a connection nothing.
  void request_ended();
  // At exit: sends what is left, says goodbye and what was refused or failed, writes the counts.
  void leave();
  // Around fork().
  void before_fork();
  void after_fork(bool child);

  Core core;
  Streams streams{*this, core};
  Events events{*this, core};
  DeviceMemory memory{*this, core};
  HostMemory host{*this, core};
  ManagedMemory managed{*this, core};
  Kernels kernels{*this, core};
  Captures captures{*this, core};
  GraphMemory graph_memory{*this, core};
  Graphs graphs{*this, core};
  Nodes nodes{*this, core};
  CallCopies call_copies{*this, core};
  Branches branches{*this, core};
  SharedMemory shared{*this, core};
  Libraries libraries{*this, core};
  Textures textures{core};

 private:
  void clear(bool child);
  void wait_for_last(Lock& lock);
};

// The session of this process.
Session& session();

}  // namespace partita::remote::client
