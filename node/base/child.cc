#include "base/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/descriptor.h"

extern char** environ;

namespace partita {
namespace {

constexpr const char* kReadyVariable = "PARTITA_READY_FD";
constexpr auto kTick = std::chrono::milliseconds(5);

struct Ends {
  Descriptor output, ready, failure;
};

// In the child, where only what is safe after fork() may be called; only returns when exec fails.
void become(const ChildSpec& spec, const Ends& ends, char** argv, char** environment) {
  if (spec.group == ChildSpec::Group::own_group) ::setpgid(0, 0);
  if (spec.group == ChildSpec::Group::own_session) ::setsid();
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (spec.input >= 0 && ::dup2(spec.input, STDIN_FILENO) < 0) return;
  if (spec.quiet) {
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null < 0 || ::dup2(null, STDOUT_FILENO) < 0) return;
  }
  const int output = ends.output.get();
  if (output >= 0 && (::dup2(output, STDOUT_FILENO) < 0 || ::dup2(output, STDERR_FILENO) < 0))
    return;
  if (ends.ready.get() >= 0) ::fcntl(ends.ready.get(), F_SETFD, 0);
  ::execvpe(spec.program.empty() ? argv[0] : spec.program.c_str(), argv, environment);
}

Result<std::pair<Descriptor, Descriptor>> make_pipe(const std::string& called) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return environment_error(called, std::strerror(errno));
  return std::pair(Descriptor(ends[0]), Descriptor(ends[1]));
}

// What a file has from a place on, without the line's end.
std::string printed_since(const std::string& path, long place) {
  std::ifstream file(path);
  file.seekg(place);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

std::vector<std::string> environment_with(const std::map<std::string, std::string>& added) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!added.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : added) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

int exit_status(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Result<Child> Child::start(const ChildSpec& spec) {
  CHECK(!spec.argv.empty());
  const std::string& called = spec.called.empty() ? spec.argv[0] : spec.called;
  auto failure = make_pipe(called), ready = make_pipe(called);
  if (!failure || !ready) return failed((failure ? ready : failure).error());
  Ends ends{Descriptor(-1), Descriptor(-1), std::move(failure->second)};
  std::map<std::string, std::string> added = spec.environment;
  if (spec.ready_within) {
    ends.ready = std::move(ready->second);
    added[kReadyVariable] = std::to_string(ends.ready.get());
  }
  long printed_before = 0;
  if (!spec.output.empty()) {
    ends.output =
        Descriptor(::open(spec.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (ends.output.get() < 0) return environment_error(spec.output, std::strerror(errno));
    printed_before = ::lseek(ends.output.get(), 0, SEEK_END);
  }
  std::vector<std::string> words = spec.argv, variables = environment_with(added);
  const std::vector<char*> argv = pointers(words), environment = pointers(variables);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return environment_error(called, std::strerror(errno));
  if (pid == 0) {
    if (!spec.outlives) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (spec.outlives || ::getppid() == parent)
      become(spec, ends, const_cast<char**>(argv.data()), const_cast<char**>(environment.data()));
    const int code = errno;
    static_cast<void>(!::write(ends.failure.get(), &code, sizeof code));
    ::_exit(127);
  }
  Child child(pid, spec);
  ends.failure.close_now();
  ends.ready.close_now();
  int code = 0;
  if (::read(failure->first.get(), &code, sizeof code) == sizeof code)
    return environment_error(called, std::strerror(code));
  if (spec.ready_within)
    if (auto done = child.until_ready(spec, ready->first.get(), printed_before); !done) {
      done.error().context = called;
      child.outlives_ = false;
      return failed(done.error());
    }
  return child;
}

Result<void> Child::until_ready(const ChildSpec& spec, int pipe, long printed_before) {
  const auto until = std::chrono::steady_clock::now() + *spec.ready_within;
  char byte = 0;
  pollfd polled{pipe, POLLIN, 0};
  while (std::chrono::steady_clock::now() < until) {
    if (::poll(&polled, 1, static_cast<int>(kTick.count())) <= 0) continue;
    if (::read(pipe, &byte, 1) == 1) return {};
    const int status = wait();
    const std::string said =
        spec.output.empty() ? std::string() : printed_since(spec.output, printed_before);
    return environment_error({}, said.empty() ? fmt::format("ended with {}", status) : said);
  }
  return environment_error({},
                           fmt::format("was not ready within {} ms", spec.ready_within->count()));
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      status_(other.status_),
      outlives_(other.outlives_),
      ends_within_(other.ends_within_) {}

Child::~Child() {
  if (outlives_ || !runs()) return;
  terminate();
  const auto until = std::chrono::steady_clock::now() + ends_within_;
  while (runs() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(kTick);
  if (pid_ != 0) ::kill(pid_, SIGKILL);
  wait();
}

bool Child::runs() {
  int status = 0;
  if (pid_ == 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return pid_ != 0;
  pid_ = 0;
  status_ = exit_status(status);
  return false;
}

int Child::wait() {
  if (pid_ == 0) return status_;
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  pid_ = 0;
  return status_ = exit_status(status);
}

void Child::terminate() {
  if (pid_ != 0) ::kill(pid_, SIGTERM);
}

void say_ready() {
  const char* const number = std::getenv(kReadyVariable);
  if (number == nullptr) return;
  const int pipe = std::atoi(number);
  ::unsetenv(kReadyVariable);
  static_cast<void>(!::write(pipe, "", 1));
  ::close(pipe);
}

}  // namespace partita
