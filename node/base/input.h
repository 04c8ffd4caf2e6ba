// Reading the files behind flags. What cannot be read is bad input whose context names flag and
// path.
#pragma once

#include <functional>
#include <string>

#include "base/document.h"
#include "base/files.h"
#include "base/result.h"

namespace partita {

// The input file that `flag` names.
Result<std::string> read_input(Files& files, const std::string& flag, const std::string& path);
// The same, as a JSON or YAML document.
Result<Document> read_document(Files& files, const std::string& flag, const std::string& path);

// A path that a file names, relative to the file.
std::string beside(const std::string& file, const std::string& path);
// Reads what `file` names, from there.
std::function<Result<std::string>(const std::string&)> files_beside(Files& files, std::string file);

}  // namespace partita
