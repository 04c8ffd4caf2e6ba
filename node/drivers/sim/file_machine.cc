// SharedMachine in a state file. Each change locks <state>.lock, reads the file, and puts a new one
// in its place; who only looks needs no lock, and reads a file once. A reconfiguration holds
// <state>.busy while it lasts.
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
#include <mutex>

#include "base/check.h"
#include "base/files.h"
#include "drivers/sim/shared_machine.h"
#include "drivers/sim/user_processes.h"

namespace partita::drivers::sim {
namespace {

constexpr mode_t kMode = 0644;  // of the state and its locks, whatever the umask

// An exclusive lock on a file, waited for, and let go of when it dies or the process ends.
class WaitedLock {
 public:
  explicit WaitedLock(int fd) : fd_(fd) {}
  ~WaitedLock() { ::close(fd_); }
  WaitedLock(const WaitedLock&) = delete;
  WaitedLock& operator=(const WaitedLock&) = delete;

 private:
  int fd_;
};

Result<std::shared_ptr<void>> wait_for_lock(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode);
  if (fd < 0)
    return environment_error(
        path, fmt::format("cannot open: {}; the folder of the machine's 'state' must exist and be "
                          "writable",
                          std::strerror(errno)));
  auto lock = std::make_shared<WaitedLock>(fd);
  while (::flock(fd, LOCK_EX) != 0)
    if (errno != EINTR)
      return environment_error(path, fmt::format("cannot lock: {}", std::strerror(errno)));
  return lock;
}

// A state file that was opened, which the file system gives to no other while it is open.
struct StateFile {
  int fd = -1;
  struct ::stat status = {};

  StateFile() = default;
  ~StateFile() {
    if (fd >= 0) ::close(fd);
  }
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  // Whether the file of this name is still this one, and nobody wrote into it.
  bool is(const struct ::stat& now) const {
    const auto same = [](const timespec& a, const timespec& b) {
      return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
    };
    return now.st_dev == status.st_dev && now.st_ino == status.st_ino &&
           now.st_size == status.st_size && same(now.st_mtim, status.st_mtim) &&
           same(now.st_ctim, status.st_ctim);
  }
};

struct OpenedState {
  std::shared_ptr<StateFile> file;  // null: there is none
  std::string text;
};

Result<OpenedState> open_state(const std::string& path) {
  auto file = std::make_shared<StateFile>();
  std::string text;
  file->fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file->fd < 0 && errno == ENOENT) return OpenedState{};
  bool read = file->fd >= 0 && ::fstat(file->fd, &file->status) == 0;
  char buffer[1 << 14];
  for (ssize_t n = 1; read && n != 0;) {
    n = ::read(file->fd, buffer, sizeof buffer);
    if (n > 0) text.append(buffer, static_cast<std::size_t>(n));
    read = n >= 0 || errno == EINTR;
  }
  if (read) return OpenedState{std::move(file), std::move(text)};
  return environment_error(path, fmt::format("cannot read: {}", std::strerror(errno)));
}

class FileMachine final : public SharedMachine {
 public:
  FileMachine(MachineDescription description, Clock& clock, const hw::Catalogue& catalogue)
      : SharedMachine(clock, description.speed, description.faults, description.power_rights),
        description_(std::move(description)),
        path_(description_.state),
        catalogue_(catalogue) {}

  std::string shared_file() const override { return path_; }

  Result<void> with(const std::function<void(Machine&)>& use) override {
    const auto used = use_locked(use);
    return used ? Result<void>() : failed(used.error());
  }

  Result<void> glance(const std::function<void(const Machine&)>& use) override {
    const auto stored = TRY(load());
    use(stored->machine);
    return {};
  }

  Result<void> look(const std::function<void(const Machine&)>& use) override {
    const std::int64_t now = now_ns();
    const auto stored = TRY(load());
    std::shared_ptr<const Seen> seen;
    {
      const std::lock_guard guard(mutex_);
      seen = seen_;
    }
    if (seen && seen->of == stored && now >= seen->at_ns && now - seen->at_ns < kSeenNs) {
      use(seen->machine);
      return {};
    }
    Seen fresh{nullptr, stored->machine, now};
    const auto used = use_locked([&](const Machine& machine) {
      use(machine);
      fresh.machine = machine;
    });
    if (!used) return failed(used.error());
    fresh.of = *used;
    const std::lock_guard guard(mutex_);
    seen_ = std::make_shared<const Seen>(std::move(fresh));
    return {};
  }

 protected:
  Result<std::shared_ptr<void>> busy() override { return wait_for_lock(path_ + ".busy"); }

 private:
  struct Read {
    std::shared_ptr<StateFile> file;  // null: there is none yet
    Machine machine;
  };
  struct Seen {
    std::shared_ptr<const Read> of;
    Machine machine;  // with the processes of this computer
    std::int64_t at_ns = 0;
  };

  // What the state was before.
  Result<std::shared_ptr<const Read>> use_locked(const std::function<void(Machine&)>& use) {
    const auto lock = TRY(wait_for_lock(path_ + ".lock"));
    auto stored = TRY(load());
    const Read& before = *stored;
    Machine machine = before.machine;
    machine.observe(user_processes());
    machine.settle(now_ns());
    use(machine);
    machine.settle(now_ns());
    machine.observe({});
    if (machine == before.machine && before.file) return stored;
    TRY(store(machine.text()));
    return stored;
  }

  // A file is put in place whole, so what is read is the state at some moment.
  Result<std::shared_ptr<const Read>> load() {
    struct ::stat now = {};
    const bool there = ::stat(path_.c_str(), &now) == 0;
    {
      const std::lock_guard guard(mutex_);
      if (read_ && there && read_->file && read_->file->is(now)) return read_;
    }
    auto opened = TRY(open_state(path_));
    if (!opened.file) return keep({nullptr, make_machine(description_, path_)});
    auto machine = Machine::from_text(path_, opened.text, catalogue_);
    if (!machine) {
      Error unread = machine.error();
      unread.message += "; remove the file to start over";
      return failed(std::move(unread));
    }
    if (!same_gpus(*machine))
      return bad_input(path_,
                       "is the state of other GPUs than those described; remove it to start over");
    return keep({std::move(opened.file), *std::move(machine)});
  }
  std::shared_ptr<const Read> keep(Read read) {
    auto kept = std::make_shared<const Read>(std::move(read));
    const std::lock_guard guard(mutex_);
    return read_ = kept;
  }

  // Under the lock, so one name does for the new file. Not synced to disk: a killed process leaves
  // the old state or the new one, and what a crash of the computer takes, it takes from real GPUs
  // too.
  Result<void> store(const std::string& text) {
    const std::string fresh = path_ + ".new";
    const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
    std::FILE* out = fd < 0 ? nullptr : ::fdopen(fd, "w");
    bool written = out != nullptr && std::fwrite(text.data(), 1, text.size(), out) == text.size();
    if (out != nullptr) written = std::fclose(out) == 0 && written;
    if (!written || std::rename(fresh.c_str(), path_.c_str()) != 0)
      return environment_error(path_, fmt::format("cannot write: {}", std::strerror(errno)));
    return {};
  }

  bool same_gpus(const Machine& machine) const {
    std::vector<const hw::GpuModel*> described, stored;
    for (const Machine::Gpus& gpus : description_.gpus)
      described.insert(described.end(), static_cast<std::size_t>(gpus.count), gpus.model);
    for (const SimGpu& gpu : machine.gpus()) stored.push_back(gpu.model);
    return described == stored;
  }

  MachineDescription description_;
  std::string path_;
  const hw::Catalogue& catalogue_;
  std::mutex mutex_;
  std::shared_ptr<const Read> read_;  // what load() saw last
  std::shared_ptr<const Seen> seen_;  // what look() saw last
};

}  // namespace

Result<std::unique_ptr<SharedMachine>> open_machine(const std::string& path, Clock& clock,
                                                    const hw::Catalogue& catalogue) {
  if (path.empty()) {
    // A catalogue of one's own may lack the default GPU.
    const auto model = TRY(catalogue.get("A100-80GB"));
    return own_machine(Machine({{model, 1, true}}, "default"), clock, 1);
  }
  const auto text = TRY(RealFiles().read(path));
  return described_machine(path, text, clock, catalogue);
}

Result<std::unique_ptr<SharedMachine>> described_machine(const std::string& path,
                                                         std::string_view text, Clock& clock,
                                                         const hw::Catalogue& catalogue) {
  auto description = TRY(parse_machine(path, text, catalogue));
  if (description.state.empty())
    return own_machine(make_machine(description, path), clock, description.speed,
                       description.faults, description.power_rights);
  const auto beside = std::filesystem::absolute(path).parent_path() / description.state;
  description.state = beside.lexically_normal().string();
  auto machine = std::make_unique<FileMachine>(std::move(description), clock, catalogue);
  // What is wrong with the state shows here, not at the first call.
  TRY(machine->with([](Machine&) {}));
  return machine;
}

}  // namespace partita::drivers::sim
