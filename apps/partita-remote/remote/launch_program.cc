#include "remote/launch_program.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "places.h"
#include "wire/net/channel.h"
#include "remote/server_places.h"

namespace partita::cli {
namespace {

namespace fs = std::filesystem;
constexpr auto kServerStarts = std::chrono::seconds(20), kServerEnds = std::chrono::seconds(2);
constexpr auto kTick = std::chrono::milliseconds(5);
constexpr int kSignalled = 128;
constexpr std::uintmax_t kMaxProgram = std::uintmax_t{4} << 30;

std::string own_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).string();
}

std::string in_front(const std::string& first, const std::string& rest) {
  return rest.empty() ? first : first + ":" + rest;
}

// Whether a driver is here that sees a GPU.
bool has_gpu() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(library, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(::dlsym(library, "cuDeviceGetCount"));
  int devices = 0;
  return init != nullptr && count != nullptr && init(0) == 0 && count(&devices) == 0 && devices > 0;
}

// Asked in a process of its own: the driver's state is not to be inherited.
bool has_gpu_elsewhere() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(has_gpu() ? 0 : 1);
  int status = 1;
  return pid > 0 && ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

// Becomes `words`; only returns when that fails.
void become(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
}

pid_t program_pid = 0;  // for the handler below

void pass_on(int signal) {
  if (program_pid > 0) ::kill(program_pid, signal);
}

// While it lives: a terminal's signals reach the program without us, others are handed on.
class SignalsPassed {
 public:
  SignalsPassed() {
    set(SIGINT, SIG_IGN, 0);
    set(SIGQUIT, SIG_IGN, 1);
    set(SIGTERM, pass_on, 2);
    set(SIGHUP, pass_on, 3);
  }
  ~SignalsPassed() {
    constexpr int kSignals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
    for (int i = 0; i < 4; ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  }
  SignalsPassed(const SignalsPassed&) = delete;
  SignalsPassed& operator=(const SignalsPassed&) = delete;

 private:
  void set(int signal, void (*handler)(int), int place) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, &before_[place]);
  }
  struct sigaction before_[4] = {};
};

}  // namespace

Result<std::string> client_libraries() {
  const fs::path own = fs::path(own_program()).parent_path();
  for (const fs::path& folder : {own / "remote", own / ".." / "lib" / "partita" / "remote"}) {
    std::error_code ignored;
    if (fs::exists(folder / "libcudart.so.13", ignored))
      return fs::canonical(folder, ignored).string();
  }
  return environment_error((own / "remote").string(),
                           "the client libraries (libcudart.so.13 and others) are not there");
}

Result<std::string> find_program(const std::string& word) {
  if (word.find('/') != word.npos) return word;
  std::istringstream folders(environment_variable("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string path = (folder.empty() ? "." : folder) + "/" + word;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return failed({ErrorCode::environment, "no such program in PATH", word});
}

Result<std::string> read_program_file(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error || size > kMaxProgram)
    return environment_error(path, error ? error.message() : "too large");
  std::ifstream file(path, std::ios::binary);
  std::string content(size, '\0');
  file.read(content.data(), static_cast<std::streamsize>(size));
  if (!file) return environment_error(path, "cannot be read");
  return content;
}

Environment library_environment(const std::string& libraries,
                                const std::optional<remote::image::Program>& program) {
  Environment added;
  added["LD_LIBRARY_PATH"] = in_front(libraries, environment_variable("LD_LIBRARY_PATH"));
  if (!program || !program->rpath_wins) return added;
  std::string preload;  // a path inside the program would be searched first
  for (const std::string& needed : program->needed) {
    const std::string path = libraries + "/" + needed;
    if (::access(path.c_str(), R_OK) == 0) preload = in_front(path, preload);
  }
  if (!preload.empty()) added["LD_PRELOAD"] = in_front(preload, environment_variable("LD_PRELOAD"));
  return added;
}

Result<PrivateServer> PrivateServer::start(const std::string& folder) {
  const std::string address = "unix:" + folder + "/server.sock";
  const std::string backend = has_gpu_elsewhere() ? "cuda" : "cpu";
  const std::vector<std::string> words = {own_program(), "remote",       "serve", "--listen",
                                          address,       "--backend",    backend, "--state-dir",
                                          folder,        "--with-parent"};
  const pid_t parent = ::getpid();
  const std::string log = folder + "/server.log";
  const pid_t pid = ::fork();
  if (pid < 0) return environment_error("", "the system refused a process");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    ::setpgid(0, 0);  // a terminal's signals are for the program
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (out >= 0) ::dup2(out, STDOUT_FILENO), ::dup2(out, STDERR_FILENO);
    become(words);
    ::_exit(127);
  }
  PrivateServer server(pid, address);
  const auto until = std::chrono::steady_clock::now() + kServerStarts;
  while (std::chrono::steady_clock::now() < until) {
    const Result<std::string> so_far = read_program_file(log);
    if (so_far && so_far->find("listening on") != so_far->npos) return server;
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) {
      server.pid_ = -1;
      const Result<std::string> said = read_program_file(log);
      return environment_error("the private server", said && !said->empty() ? *said : "ended");
    }
    std::this_thread::sleep_for(kTick);
  }
  return environment_error("the private server", "does not take connections");
}

PrivateServer::~PrivateServer() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  const auto until = std::chrono::steady_clock::now() + kServerEnds;
  int status = 0;
  while (::waitpid(pid_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > until) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, &status, 0);
      break;
    }
    std::this_thread::sleep_for(kTick);
  }
}

Result<int> run_program(const std::vector<std::string>& words, const Environment& added) {
  std::vector<std::string> texts;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view text(*one);
    if (!added.contains(std::string(text.substr(0, text.find('='))))) texts.emplace_back(text);
  }
  for (const auto& [name, value] : added) texts.push_back(name + "=" + value);
  std::vector<char*> argv, environment;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& text : texts) environment.push_back(const_cast<char*>(text.c_str()));
  argv.push_back(nullptr);
  environment.push_back(nullptr);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE}) sigaddset(&defaults, signal);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const SignalsPassed passed;
  const int error =
      ::posix_spawnp(&program_pid, argv[0], nullptr, &attributes, argv.data(), environment.data());
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) return environment_error(words.front(), std::strerror(error));
  int status = 0;
  while (::waitpid(program_pid, &status, 0) < 0 && errno == EINTR) continue;
  program_pid = 0;
  return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace partita::cli
