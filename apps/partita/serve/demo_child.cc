#include "serve/demo_child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace partita::cli {
namespace {

int exit_status(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// In the child: ends when the demo does, however that ends.
[[noreturn]] void become(char** argv, const char* output, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  if (*output != '\0') {
    const int file = ::open(output, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file >= 0 && (::dup2(file, STDOUT_FILENO) < 0 || ::dup2(file, STDERR_FILENO) < 0))
      ::_exit(127);
  }
  ::execv("/proc/self/exe", argv);
  ::_exit(127);
}

}  // namespace

Result<DemoChild> DemoChild::start(const std::vector<std::string>& arguments,
                                   const std::string& output) {
  std::vector<std::string> words = {"partita"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return environment_error("demo", std::strerror(errno));
  if (pid == 0) become(argv.data(), output.c_str(), parent);
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
