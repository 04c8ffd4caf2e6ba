// What a session's process gives up before it hears its client: the right to gain rights, programs
// to start, files and sockets to open, other users' things. Linux only; x86-64 for the filter of
// system calls.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace partita::remote::server {

// strict: only what a session on the CPU needs. driver: for libraries of vendors, which open and
// ask for much: what would reach other processes is forbidden.
enum class Confinement { none, strict, driver };

struct SandboxOptions {
  Confinement confinement = Confinement::strict;
  long uid = -1, gid = -1;  // where root: who to be; -1: as it is
};

// For good. environment where the system does not let us.
Result<void> confine(const SandboxOptions& options);

}  // namespace partita::remote::server
