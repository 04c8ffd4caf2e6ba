#include "base/input.h"

#include <fmt/format.h>

namespace partita {

Result<std::string> read_input(Files& files, const std::string& flag, const std::string& path) {
  Result<std::string> text = files.read(path);
  if (text) return text;
  return bad_input(fmt::format("{} {}", flag, path), text.error().message);
}

std::string beside(const std::string& file, const std::string& path) {
  const std::size_t slash = file.rfind('/');
  return path.starts_with('/') || slash == file.npos ? path : file.substr(0, slash + 1) + path;
}

std::function<Result<std::string>(const std::string&)> files_beside(Files& files,
                                                                    std::string file) {
  return [&files, file = std::move(file)](const std::string& path) {
    return files.read(beside(file, path));
  };
}

Result<Document> read_document(Files& files, const std::string& flag, const std::string& path) {
  const std::string text = TRY(read_input(files, flag, path));
  return parse_document(path, text);
}

}  // namespace partita
