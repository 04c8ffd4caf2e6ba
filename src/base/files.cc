#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/descriptor.h"

namespace partita {
namespace {

Error system_error(const std::string& path, const char* call) {
  return {ErrorCode::environment, fmt::format("{}: {}", call, std::strerror(errno)), path};
}

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    content.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

std::string parent_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// Makes a file's being there survive a crash of the machine.
Result<void> sync_directory_of(const std::string& path) {
  Descriptor directory(::open(parent_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || ::fsync(directory.get()) != 0)
    return failed(system_error(path, "cannot sync the directory"));
  return {};
}

}  // namespace

Result<std::string> RealFiles::read(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return failed(system_error(path, "cannot open"));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return failed(system_error(path, "cannot stat"));
  if (S_ISDIR(info.st_mode)) return environment_error(path, "is a directory, not a file");
  std::string content;
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = ::read(file.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(system_error(path, "cannot read"));
    if (n == 0) return content;
    content.append(buffer, static_cast<std::size_t>(n));
    if (content.size() > kMaxFileBytes) return environment_error(path, "file is too large");
  }
}

Result<void> RealFiles::write_atomic(const std::string& path, std::string_view content) {
  // Writing "to" a device or pipe (/dev/stdout, a FIFO) must write into it, not replace it.
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) return environment_error(path, "is a directory, not a file");
    Descriptor out(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (out.get() < 0 || !write_all(out.get(), content))
      return failed(system_error(path, "cannot write"));
    return {};
  }
  std::string temporary = path + ".XXXXXX";
  Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return failed(system_error(path, "cannot create a temporary file"));
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const mode_t mode = 0666 & ~mask;
  if (!write_all(file.get(), content) || ::fchmod(file.get(), mode) != 0 ||
      ::fsync(file.get()) != 0 || !file.close_now() ||
      ::rename(temporary.c_str(), path.c_str()) != 0) {
    const Error error = system_error(path, "cannot write");
    ::unlink(temporary.c_str());
    return failed(error);
  }
  return sync_directory_of(path);
}

Result<std::vector<std::string>> RealFiles::list(const std::string& path) {
  std::error_code code;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator it(path, code), end; !code && it != end;
       it.increment(code)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored)) names.push_back(it->path().filename().string());
  }
  if (code) return environment_error(path, "cannot list: " + code.message());
  std::sort(names.begin(), names.end());
  return names;
}

bool RealFiles::is_directory(const std::string& path) {
  std::error_code code;
  return std::filesystem::is_directory(path, code);
}

bool RealFiles::exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

Result<void> RealFiles::append(const std::string& path, std::string_view text) {
  struct stat info {};
  const bool fresh = ::stat(path.c_str(), &info) != 0;
  Descriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (file.get() < 0) return failed(system_error(path, "cannot open"));
  if (!write_all(file.get(), text) || ::fdatasync(file.get()) != 0)
    return failed(system_error(path, "cannot append"));
  return fresh ? sync_directory_of(path) : Result<void>{};
}

Result<void> RealFiles::remove(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return failed(system_error(path, "cannot remove"));
  return {};
}

Result<void> RealFiles::make_directories(const std::string& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code) return environment_error(path, "cannot create the directory: " + code.message());
  return {};
}

Result<FileLock> RealFiles::lock(const std::string& path) {
  auto file =
      std::make_shared<Descriptor>(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (file->get() < 0) return failed(system_error(path, "cannot open"));
  if (::flock(file->get(), LOCK_EX | LOCK_NB) == 0) return FileLock(std::move(file));
  if (errno != EWOULDBLOCK) return failed(system_error(path, "cannot lock"));
  return failed({ErrorCode::in_use, "another process holds the lock", path});
}

Result<std::string> MemoryFiles::read(const std::string& path) {
  const auto it = content.find(path);
  if (it == content.end()) return environment_error(path, "cannot open: No such file or directory");
  return it->second;
}

Result<void> MemoryFiles::write_atomic(const std::string& path, std::string_view text) {
  content[path] = std::string(text);
  return {};
}

Result<std::vector<std::string>> MemoryFiles::list(const std::string& path) {
  std::vector<std::string> names;
  const std::string prefix = path + "/";
  for (const auto& [name, text] : content)
    if (name.starts_with(prefix) && name.find('/', prefix.size()) == std::string::npos)
      names.push_back(name.substr(prefix.size()));
  if (names.empty()) return environment_error(path, "cannot list: No such file or directory");
  return names;
}

bool MemoryFiles::exists(const std::string& path) {
  return content.contains(path) || is_directory(path);
}

Result<void> MemoryFiles::append(const std::string& path, std::string_view text) {
  content[path] += text;
  return {};
}

Result<void> MemoryFiles::remove(const std::string& path) {
  content.erase(path);
  return {};
}

Result<void> MemoryFiles::make_directories(const std::string&) { return {}; }

Result<FileLock> MemoryFiles::lock(const std::string& path) {
  std::weak_ptr<void>& held = locks_[path];
  if (!held.expired()) {
    return failed({ErrorCode::in_use, "another process holds the lock", path});
  }
  FileLock lock = std::make_shared<int>(0);
  held = lock;
  return lock;
}

bool MemoryFiles::is_directory(const std::string& path) {
  const auto it = content.lower_bound(path + "/");
  return it != content.end() && it->first.starts_with(path + "/");
}

}  // namespace partita
