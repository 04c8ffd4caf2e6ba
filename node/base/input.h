// Reading the files behind flags. What cannot be read is bad input whose context names flag and
// path.
#pragma once

#include <functional>
#include <string>
#include <type_traits>

#include "base/document.h"
#include "base/files.h"
#include "base/result.h"

namespace partita {

// The input file that `flag` names.
Result<std::string> read_input(Files& files, const std::string& flag, const std::string& path);
// The same, as a JSON or YAML document.
Result<Document> read_document(Files& files, const std::string& flag, const std::string& path);

// What parse(path, text, more...) makes of a file.
template <class Parse, class... More>
std::invoke_result_t<Parse, const std::string&, const std::string&, const More&...> read_as(
    Files& files, const std::string& path, Parse parse, const More&... more) {
  const std::string text = TRY(files.read(path));
  return parse(path, text, more...);
}
// The same of the input file that `flag` names.
template <class Parse, class... More>
std::invoke_result_t<Parse, const std::string&, const std::string&, const More&...> read_input(
    Files& files, const std::string& flag, const std::string& path, Parse parse,
    const More&... more) {
  const std::string text = TRY(read_input(files, flag, path));
  return parse(path, text, more...);
}

// A path that a file names, relative to the file.
std::string beside(const std::string& file, const std::string& path);
// Reads what `file` names, from there.
std::function<Result<std::string>(const std::string&)> files_beside(Files& files, std::string file);

}  // namespace partita
