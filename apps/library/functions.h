// What libpartita can be asked: a function by its name, its options as a JSON object. Each answers
// with the document that the command of that name prints.
#pragma once

#include <string>

#include "base/files.h"
#include "base/result.h"

namespace partita::library {

// bad_input for a name that is no function and for options that it does not have.
Result<std::string> answer(Files& files, const std::string& function, const std::string& options);

}  // namespace partita::library
