// The numbers of changes: no two changes of a node ever have the same, whoever makes them: the
// agent, `partita apply`, one after a kill, one whose history was moved away. The highest that was
// given lies in a file of its own in the state directory and is written before a number is used;
// where that file is gone the history's counter is as good; the agent's memory is looked at, too.
// Whoever gives numbers holds the lock of the node.
#pragma once

#include <string>

#include "base/files.h"
#include "base/result.h"

namespace partita::control {

// "last-change" in a state directory.
std::string change_number_path(const std::string& state_dir);

// The highest number that was given so far; `history`: that which the history knows. A file that
// cannot be read is an error: numbers would begin anew.
Result<long> last_change(Files& files, const std::string& state_dir, long history);
// Keeps that `number` was given, durably; one below the highest is no error and changes nothing.
Result<void> keep_last_change(Files& files, const std::string& state_dir, long number);

}  // namespace partita::control
