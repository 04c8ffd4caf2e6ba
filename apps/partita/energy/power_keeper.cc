#include "energy/power_keeper.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <vector>

namespace partita::cli {

PowerKeeper::PowerKeeper(const DeviceFlags& device, const std::string& state_directory) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  std::vector<std::string> words{"partita",       "power",    "restore",
                                 "--after-input", "--driver", device.driver};
  const auto add = [&](const char* flag, const std::string& value) {
    if (value.empty()) return;
    words.emplace_back(flag);
    words.push_back(value);
  };
  add("--machine", device.machine);
  add("--catalogue", device.catalogue);
  add("--state-dir", state_directory);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t how;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&how);
  ::posix_spawn_file_actions_adddup2(&files, ends[0], STDIN_FILENO);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  sigset_t none;
  sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&how, &none);
  // Of its own session: what is typed at this program's terminal is not for it.
  ::posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  if (::posix_spawn(&pid_, "/proc/self/exe", &files, &how, arguments.data(), environ) != 0)
    pid_ = -1;
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&how);
  ::close(ends[0]);
  write_end_ = ends[1];
}

PowerKeeper::~PowerKeeper() {
  if (write_end_ >= 0) ::close(write_end_);
}

void wait_for_end_of_input() {
  char buffer[256];
  while (true) {
    const auto got = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (got == 0 || (got < 0 && errno != EINTR)) return;
  }
}

}  // namespace partita::cli
