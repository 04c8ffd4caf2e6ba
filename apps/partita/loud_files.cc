#include "loud_files.h"

#include <fmt/format.h>

#include "base/input_output.h"
#include "base/terminal.h"

namespace partita::cli {
namespace {

constexpr std::string_view kStandard = "-";

}  // namespace

bool LoudFiles::exists(const std::string& path) { return path != kStandard && files_.exists(path); }

Result<std::string> LoudFiles::read(const std::string& path) {
  Result<std::string> text = files_.read(path);
  if (text)
    tell_(fmt::format("read {}, {} bytes", path == kStandard ? "standard input" : path,
                      text->size()));
  return text;
}

Result<void> LoudFiles::write_atomic(const std::string& path, std::string_view content) {
  if (path == kStandard) return write_output(path, content);
  const Result<void> written = files_.write_atomic(path, content);
  if (written) tell_(fmt::format("wrote {}, {} bytes", path, content.size()));
  return written;
}

Result<std::vector<std::string>> LoudFiles::list(const std::string& path) {
  Result<std::vector<std::string>> names = files_.list(path);
  if (names)
    tell_(fmt::format("{} holds {}", path, count_text(static_cast<long>(names->size()), "file")));
  return names;
}

Result<void> LoudFiles::append(const std::string& path, std::string_view text) {
  if (path == kStandard) return write_output(path, text);
  const Result<void> written = files_.append(path, text);
  if (written) tell_(fmt::format("added {} bytes to {}", text.size(), path));
  return written;
}

Result<void> LoudFiles::append_unsynced(const std::string& path, std::string_view text) {
  const Result<void> written = files_.append_unsynced(path, text);
  if (written) tell_(fmt::format("added {} bytes to {}", text.size(), path));
  return written;
}

Result<void> LoudFiles::remove(const std::string& path) {
  const bool there = files_.exists(path);
  const Result<void> removed = files_.remove(path);
  if (removed && there) tell_("removed " + path);
  return removed;
}

Result<void> LoudFiles::rename(const std::string& from, const std::string& to) {
  const Result<void> renamed = files_.rename(from, to);
  if (renamed) tell_(fmt::format("renamed {} to {}", from, to));
  return renamed;
}

Result<void> LoudFiles::make_directories(const std::string& path) {
  const bool there = files_.is_directory(path);
  const Result<void> made = files_.make_directories(path);
  if (made && !there) tell_("made the folder " + path);
  return made;
}

}  // namespace partita::cli
