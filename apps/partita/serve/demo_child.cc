#include "serve/demo_child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <utility>

namespace partita::cli {
namespace {

int exit_status(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Result<DemoChild> DemoChild::start(const std::vector<std::string>& arguments,
                                   const std::string& output) {
  std::vector<std::string> words = {"partita"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  if (!output.empty()) {
    ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  }
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, "/proc/self/exe", &files, nullptr, argv.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&files);
  if (error != 0) return environment_error("demo", std::strerror(error));
  return DemoChild(pid);
}

DemoChild::DemoChild(DemoChild&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), status_(other.status_) {}

DemoChild::~DemoChild() {
  terminate();
  wait();
}

bool DemoChild::runs() {
  if (pid_ == 0) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return true;
  pid_ = 0;
  status_ = exit_status(status);
  return false;
}

int DemoChild::wait() {
  if (pid_ == 0) return status_;
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  pid_ = 0;
  return status_ = exit_status(status);
}

void DemoChild::terminate() {
  if (pid_ != 0) ::kill(pid_, SIGTERM);
}

}  // namespace partita::cli
