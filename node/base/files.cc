// files.h and input_output.h on this machine's file system.
#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/descriptor.h"
#include "base/input_output.h"
#include "base/parse_number.h"

namespace partita {
namespace {

Error system_error(const std::string& path, const char* call) {
  return {ErrorCode::environment, fmt::format("{}: {}", call, std::strerror(errno)), path};
}

// How many bytes of it, until a write fails.
std::size_t write_most(int fd, std::string_view content) {
  std::size_t written = 0;
  while (written < content.size()) {
    const ssize_t n = ::write(fd, content.data() + written, content.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    written += static_cast<std::size_t>(n);
  }
  return written;
}

bool write_all(int fd, std::string_view content) {
  return write_most(fd, content) == content.size();
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

// At most kMaxFileBytes, asked of the file's size before a byte is read.
Result<std::string> read_bounded(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return failed(system_error(path, "cannot stat"));
  const auto too_large = [&] {
    return environment_error(
        path, fmt::format("is too large: more than {} MiB are not read", kMaxFileBytes >> 20));
  };
  if (S_ISREG(info.st_mode) && static_cast<std::size_t>(info.st_size) > kMaxFileBytes)
    return too_large();
  std::string content;
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(system_error(path, "cannot read"));
    if (n == 0) return content;
    content.append(buffer, static_cast<std::size_t>(n));
    if (content.size() > kMaxFileBytes) return too_large();
  }
}

// A pipe without a name, which somebody holds open already: /dev/fd/63 of a shell's <(...).
bool unnamed_pipe(int fd) {
  constexpr long kPipeFileSystem = 0x50495045;
  struct statfs system {};
  return ::fstatfs(fd, &system) == 0 && system.f_type == kPipeFileSystem;
}

// ---- replacing a file ----

constexpr mode_t kOwnMode = 0644, kOwnDirectoryMode = 0755, kLockMode = 0600, kOutputMode = 0666;
constexpr const char* kUnfinished = ".partita-";  // behind the name of what is being written

// Holds the lock that says that the writer of a temporary file lives; false when a sweep was
// faster.
bool claimed(int fd) {
  struct stat info {};
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  return ::fstat(fd, &info) == 0 && info.st_nlink > 0;
}

// Removes the temporary files of `path` whose writers were killed.
void sweep(const std::string& path) {
  const std::string prefix = std::filesystem::path(path).filename().string() + kUnfinished;
  std::error_code code;
  for (std::filesystem::directory_iterator it(parent_of(path), code), end; !code && it != end;
       it.increment(code)) {
    if (!it->path().filename().string().starts_with(prefix)) continue;
    const Descriptor left(
        ::open(it->path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (left.get() >= 0 && claimed(left.get())) ::unlink(it->path().c_str());
  }
}

Result<void> replace_file(const std::string& path, std::string_view content, mode_t mode,
                          bool sync = true) {
  sweep(path);
  for (int number = 0;; ++number) {
    const std::string temporary = fmt::format("{}{}{}-{}", path, kUnfinished, ::getpid(), number);
    const Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (file.get() < 0 && errno == EEXIST) continue;
    if (file.get() < 0) return failed(system_error(path, "cannot create a temporary file"));
    if (!claimed(file.get())) continue;
    if (write_all(file.get(), content) && (!sync || ::fsync(file.get()) == 0) &&
        ::rename(temporary.c_str(), path.c_str()) == 0)
      return sync ? sync_directory_of(path) : Result<void>();
    const Error error = system_error(path, "cannot write");
    ::unlink(temporary.c_str());
    return failed(error);
  }
}

// ---- adding to a file ----

// Cuts off what was written last, unless somebody else has written behind it.
void cut_off(int fd, std::size_t bytes) {
  struct stat info {};
  const off_t end = ::lseek(fd, 0, SEEK_CUR);
  if (bytes > 0 && ::fstat(fd, &info) == 0 && info.st_size == end)
    static_cast<void>(::ftruncate(fd, end - static_cast<off_t>(bytes)) == 0);
}

// A file that comes into being is always synced, since nobody could tell later that its directory
// is not.
Result<void> append_to(const std::string& path, std::string_view text, bool sync) {
  struct stat info {};
  const bool fresh = ::stat(path.c_str(), &info) != 0;
  Descriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, kOwnMode));
  if (file.get() < 0) return failed(system_error(path, "cannot open"));
  if (const std::size_t written = write_most(file.get(), text); written < text.size()) {
    Error error = system_error(path, "cannot append");
    cut_off(file.get(), written);
    return failed(std::move(error));
  }
  if ((sync || fresh) && ::fdatasync(file.get()) != 0)
    return failed(system_error(path, "cannot append"));
  return fresh ? sync_directory_of(path) : Result<void>{};
}

// ---- who holds a lock ----

// "4711 partita apply plan.json"
std::string own_name() {
  std::string name = fmt::format("{} ", ::getpid());
  const Descriptor file(::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC));
  char command[256];
  const ssize_t bytes = ::read(file.get(), command, sizeof command);
  for (ssize_t i = 0; i + 1 < bytes; ++i)
    name += command[i] == '\0' || command[i] == '\n' ? ' ' : command[i];
  return name;
}

// What whoever took a lock wrote into its file: "4711 partita apply plan.json". Empty: not yet.
// Behind its end may be what is left of a longer one.
std::string holder_line(int fd) {
  char text[512];
  const ssize_t bytes = ::pread(fd, text, sizeof text, 0);
  const std::string_view all(text, static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
  return std::string(all.substr(0, all.find('\n')));
}

bool has_ended(const std::string& holder) {
  const auto pid = parse_number<pid_t>(holder.substr(0, holder.find(' ')));
  return pid && *pid > 0 && ::kill(*pid, 0) != 0 && errno == ESRCH;
}

std::string holder_text(int fd) {
  const std::string line = holder_line(fd);
  const std::size_t space = line.find(' ');
  struct stat info {};
  if (space == line.npos || ::fstat(fd, &info) != 0) return "another process holds the lock";
  struct tm when {};
  char since[64] = "";
  if (::localtime_r(&info.st_mtime, &when) != nullptr)
    std::strftime(since, sizeof since, "%F %T", &when);
  if (has_ended(line))
    return fmt::format("a process that pid {} ({}) started holds the lock since {}",
                       line.substr(0, space), line.substr(space + 1), since);
  return fmt::format("pid {} ({}) holds the lock since {}", line.substr(0, space),
                     line.substr(space + 1), since);
}

constexpr int kLockTries = 400;
constexpr unsigned kLockPauseUs = 5000;

// 0, or why not. Waits only for a process that has ended: a child that it was starting when it was
// killed has its descriptors until it becomes the program that it shall be.
int take_lock(int fd) {
  for (int tries = 0;; ++tries) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return 0;
    const int why = errno;
    if (why == EINTR) continue;
    if (why != EWOULDBLOCK || tries == kLockTries || !has_ended(holder_line(fd))) return why;
    ::usleep(kLockPauseUs);
  }
}

// What a pipe of the shell, <(...), says or has said: it can be read once, and its descriptor is of
// the whole process.
Result<std::string> read_pipe(int fd, const struct stat& info, const std::string& path) {
  static std::mutex reads;
  static std::map<std::pair<dev_t, ino_t>, std::string> heard;
  const std::lock_guard hold(reads);
  const std::pair which{info.st_dev, info.st_ino};
  if (const auto known = heard.find(which); known != heard.end()) return known->second;
  ::fcntl(fd, F_SETFL, 0);  // wait for its writer
  return heard[which] = TRY(read_bounded(fd, path));
}

}  // namespace

Result<std::string> read_standard_input() { return read_bounded(STDIN_FILENO, "standard input"); }

// Opened without waiting, so that a FIFO that nobody writes is refused rather than waited for.
Result<std::string> RealFiles::read(const std::string& path) {
  if (path == "-" || path == "/dev/stdin") {
    if (std::exchange(standard_input_read_, true))
      return environment_error(path, "another input was read from standard input already");
    return read_standard_input();
  }
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) return failed(system_error(path, "cannot open"));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return failed(system_error(path, "cannot stat"));
  if (S_ISDIR(info.st_mode)) return environment_error(path, "is a directory, not a file");
  if (!S_ISREG(info.st_mode)) {
    if (!unnamed_pipe(file.get()))
      return environment_error(path, "is no regular file; `-` reads standard input");
    return read_pipe(file.get(), info, path);
  }
  return read_bounded(file.get(), path);
}

Result<void> RealFiles::write_atomic(const std::string& path, std::string_view content) {
  return replace_file(path, content, kOwnMode);
}

Result<void> RealFiles::write_unsynced(const std::string& path, std::string_view content) {
  return replace_file(path, content, kOwnMode, false);
}

Result<void> write_output(const std::string& path, std::string_view content) {
  if (path == "-") {
    std::fflush(stdout);  // what was said before stands before it
    if (!write_all(STDOUT_FILENO, content))
      return failed(system_error("standard output", "cannot write"));
    return {};
  }
  // Writing "to" a device or pipe (/dev/stdout, a FIFO) must write into it, not replace it.
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode))
    return replace_file(path, content, kOutputMode);
  if (S_ISDIR(info.st_mode)) return environment_error(path, "is a directory, not a file");
  const Descriptor out(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (out.get() < 0 || !write_all(out.get(), content))
    return failed(system_error(path, "cannot write"));
  return {};
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
  return append_to(path, text, true);
}

Result<void> RealFiles::append_unsynced(const std::string& path, std::string_view text) {
  return append_to(path, text, false);
}

Result<void> RealFiles::remove(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return failed(system_error(path, "cannot remove"));
  return {};
}

Result<void> RealFiles::make_directories(const std::string& path) {
  std::filesystem::path at;
  for (const std::filesystem::path& part : std::filesystem::path(path)) {
    at /= part;
    if (::mkdir(at.c_str(), kOwnDirectoryMode) == 0) continue;
    const int code = errno;
    if (!is_directory(at.string()))
      return environment_error(path,
                               fmt::format("cannot create the directory: {}", std::strerror(code)));
  }
  return {};
}

Result<FileLock> RealFiles::lock(const std::string& path) {
  auto file =
      std::make_shared<Descriptor>(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kLockMode));
  if (file->get() < 0) return failed(system_error(path, "cannot open"));
  if (const int why = take_lock(file->get()); why == EWOULDBLOCK) {
    return failed({ErrorCode::in_use, holder_text(file->get()), path});
  } else if (why != 0) {
    return environment_error(path, fmt::format("cannot lock: {}", std::strerror(why)));
  }
  // For people; without it the lock is as good. It is written over what is there: a file that is
  // emptied first waits until the disk has what was in it.
  static_cast<void>(write_all(file->get(), own_name() + "\n"));
  return FileLock(std::move(file));
}

Result<void> RealFiles::rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return failed(system_error(from, "cannot rename"));
  return sync_directory_of(to);
}

// For doors that have no better way.
Result<void> Files::rename(const std::string& from, const std::string& to) {
  const std::string text = TRY(read(from));
  TRY(write_atomic(to, text));
  return remove(from);
}

// ---- files that are damaged ----

Result<std::string> set_aside(Files& files, const std::string& path,
                              const std::vector<std::string>& parts) {
  const std::filesystem::path whole(path);
  const std::string prefix = whole.filename().string() + ".damaged-";
  const auto names = TRY(files.list(parent_of(path)));
  std::vector<long> numbers;
  for (const std::string& name : names)
    if (name.starts_with(prefix))
      if (const auto number = parse_number<long>(name.substr(prefix.size())))
        numbers.push_back(*number);
  std::ranges::sort(numbers);
  const auto named = [&](long number) { return fmt::format("{}.damaged-{}", path, number); };
  const long next = numbers.empty() ? 1 : numbers.back() + 1;
  TRY(files.rename(path, named(next)));
  for (const std::string& part : parts)
    if (files.exists(path + part)) TRY(files.rename(path + part, named(next) + part));
  numbers.push_back(next);
  for (std::size_t i = 0; i + kDamagedKept < numbers.size(); ++i) {
    static_cast<void>(files.remove(named(numbers[i])));
    for (const std::string& part : parts) static_cast<void>(files.remove(named(numbers[i]) + part));
  }
  return named(next);
}

namespace {

constexpr std::string_view kObjectEnd = "\n}\n", kSealKey = ",\n  \"seal\": \"";

std::string seal_of(std::string_view json) {
  return fmt::format("{:08x}",
                     ::crc32_z(0, reinterpret_cast<const Bytef*>(json.data()), json.size()));
}

}  // namespace

std::string sealed(std::string_view json) {
  CHECK(json.ends_with(kObjectEnd));
  std::string text(json.substr(0, json.size() - kObjectEnd.size()));
  return text.append(kSealKey).append(seal_of(json)).append("\"").append(kObjectEnd);
}

Result<std::string> unsealed(const std::string& file, std::string_view text) {
  const std::size_t key = text.rfind(kSealKey);
  if (key == text.npos) return std::string(text);
  const std::string json = std::string(text.substr(0, key)).append(kObjectEnd);
  if (sealed(json) != text)
    return bad_input(file, "is damaged: it is not what was written into it");
  return json;
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

Result<void> MemoryFiles::rename(const std::string& from, const std::string& to) {
  auto node = content.extract(from);
  if (node.empty()) return environment_error(from, "cannot rename: No such file or directory");
  content[to] = std::move(node.mapped());
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
