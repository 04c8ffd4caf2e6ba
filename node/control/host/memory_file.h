// The agent's memory on disk: agent-memory.json in a state directory, with a checksum, and a copy
// beside it, so that neither a damaged sector nor a stray hand takes what was promised: modes that
// people set, GPUs that they took out, batches that were accepted. Also what an agent does about
// the other files of its directory that it finds damaged: it sets them aside and goes on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "act/assignment.h"
#include "act/journal.h"
#include "base/files.h"
#include "control/memory.h"

namespace partita::control {

// A damaged file, and what became of it.
struct Mended {
  std::string file;
  std::string sentence;
};

// As it is kept; nothing where there is none. Refused: FILE or FILE:LINE.
Result<std::optional<AgentMemory>> read_memory(Files& files, const std::string& path);
// Both files; durable once it returns.
Result<void> write_memory(Files& files, const std::string& state_dir, const AgentMemory& memory);

struct Recalled {
  AgentMemory memory;
  std::vector<Mended> mended;
};
// The memory of a state directory, or its copy where that is damaged, or none. `touch` false: what
// is damaged stays where it is. Refused: what is damaged cannot be moved out of the way.
Result<Recalled> recall_memory(Files& files, const std::string& state_dir, bool touch);

// Sets the file of the last change's number aside where it is damaged; the history and the memory
// know the number, too. Nothing: it is fine.
Result<std::optional<Mended>> mend_last_change(Files& files, const std::string& state_dir);

// The journal, made anew where it is damaged, or empty though there is an assignment: what the
// assignment names is Partita's. Nothing: it is fine.
Result<std::optional<Mended>> mend_journal(Files& files, const std::string& state_dir);

// The assignment, from its copy, or empty, where it is damaged; its revision is above `revision`,
// which others have followed. Nothing: it is fine, and the copy is as it is.
Result<std::optional<Mended>> mend_assignment(Files& files, const std::string& state_dir,
                                              long revision);

}  // namespace partita::control
