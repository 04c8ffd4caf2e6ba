// SharedMachine in a state file. Each look locks <state>.lock, reads the file, and puts a new one
// in its place when something changed; a reconfiguration holds <state>.busy while it lasts.
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
#include <optional>

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

class FileMachine final : public SharedMachine {
 public:
  FileMachine(MachineDescription description, Clock& clock, const hw::Catalogue& catalogue)
      : SharedMachine(clock, description.speed, description.faults, description.power_rights),
        description_(std::move(description)),
        path_(description_.state),
        catalogue_(catalogue) {}

  std::string shared_file() const override { return path_; }

  Result<void> with(const std::function<void(Machine&)>& use) override {
    const auto lock = wait_for_lock(path_ + ".lock");
    if (!lock) return failed(lock.error());
    const auto stored = load();
    if (!stored) return failed(stored.error());
    Machine machine = **stored;
    machine.observe(user_processes());
    machine.settle(now_ns());
    use(machine);
    machine.settle(now_ns());
    machine.observe({});
    if (machine == **stored && there()) return {};
    return store(machine.text());
  }

  Result<void> glance(const std::function<void(const Machine&)>& use) override {
    const auto lock = wait_for_lock(path_ + ".lock");
    if (!lock) return failed(lock.error());
    const auto stored = load();
    if (!stored) return failed(stored.error());
    use(**stored);
    return {};
  }

 protected:
  Result<std::shared_ptr<void>> busy() override { return wait_for_lock(path_ + ".busy"); }

 private:
  bool there() const {
    std::error_code ignored;
    return std::filesystem::exists(path_, ignored);
  }

  // Shared by all threads under the lock; good until it is called again.
  Result<const Machine*> load() {
    if (!there()) {
      read_ = {{}, make_machine(description_, path_)};
      return &read_->machine;
    }
    auto text = files_.read(path_);
    if (!text) return failed(text.error());
    if (read_ && read_->text == *text) return &read_->machine;
    auto machine = Machine::from_text(path_, *text, catalogue_);
    if (!machine) {
      Error unread = machine.error();
      unread.message += "; remove the file to start over";
      return failed(std::move(unread));
    }
    if (!same_gpus(*machine))
      return bad_input(path_,
                       "is the state of other GPUs than those described; remove it to start over");
    read_ = {*std::move(text), *std::move(machine)};
    return &read_->machine;
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
  RealFiles files_;
  struct Read {
    std::string text;
    Machine machine;
  };
  std::optional<Read> read_;  // what load() saw last
};

}  // namespace

Result<std::unique_ptr<SharedMachine>> open_machine(const std::string& path, Clock& clock,
                                                    const hw::Catalogue& catalogue) {
  if (path.empty()) {
    // A catalogue of one's own may lack the default GPU.
    const auto model = catalogue.get("A100-80GB");
    if (!model) return failed(model.error());
    return own_machine(Machine({{*model, 1, true}}, "default"), clock, 1);
  }
  const auto text = RealFiles().read(path);
  if (!text) return failed(text.error());
  return described_machine(path, *text, clock, catalogue);
}

Result<std::unique_ptr<SharedMachine>> described_machine(const std::string& path,
                                                         std::string_view text, Clock& clock,
                                                         const hw::Catalogue& catalogue) {
  auto description = parse_machine(path, text, catalogue);
  if (!description) return failed(description.error());
  if (description->state.empty())
    return own_machine(make_machine(*description, path), clock, description->speed,
                       description->faults, description->power_rights);
  const auto beside = std::filesystem::absolute(path).parent_path() / description->state;
  description->state = beside.lexically_normal().string();
  auto machine = std::make_unique<FileMachine>(*std::move(description), clock, catalogue);
  // What is wrong with the state shows here, not at the first call.
  if (const auto ok = machine->with([](Machine&) {}); !ok) return failed(ok.error());
  return machine;
}

}  // namespace partita::drivers::sim
