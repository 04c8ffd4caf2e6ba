// Task commands: what the shell is given to run a task, from --command and the batch. {task} and
// {profile} stand for the task's name and its MIG profile, quoted for the shell, {gpu} and {start}
// for where it runs, {seconds} for its planned time, {command} for its own command as it stands in
// the batch. {{ and }} are braces; the shell's ${NAME} is left alone.
#pragma once

#include <string>

#include "base/result.h"
#include "act/batch/script.h"

namespace partita::carry {

// Gives every task of the script its command: the filled template, or where that is empty its own.
// Bad input that names --command or the task: placeholders that do not exist, and no command.
Result<void> give_commands(exec::Script& script, const std::string& command_template);

}  // namespace partita::carry
