#include "remote/launch_program.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "places.h"
#include "remote/server_places.h"
#include "wire/net/channel.h"

namespace partita::cli {
namespace {

namespace fs = std::filesystem;
constexpr auto kServerStarts = std::chrono::seconds(20), kServerEnds = std::chrono::seconds(2);
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

std::vector<std::string> without_counterpart(const remote::image::Program& program) {
  constexpr std::string_view kLibraries[] = {"libcublas",   "libcudnn",    "libcufft", "libcurand",
                                             "libcusolver", "libcusparse", "libnccl",  "libnpp",
                                             "libnvjpeg",   "libcutensor"};
  constexpr std::string_view kOurs[] = {
      "libcublas.so.12",   "libcublas.so.13", "libcublasLt.so.12",
      "libcublasLt.so.13", "libcudnn.so.9",   "libcufft.so.11",
      "libcufft.so.12",    "libcurand.so.10", "libcusparse.so.12",
      "libcusolver.so.11", "libcusolver.so.12"};
  std::vector<std::string> missing;
  for (const std::string& needed : program.needed) {
    const auto begins = [&](std::string_view library) { return needed.starts_with(library); };
    if (std::ranges::any_of(kLibraries, begins) &&
        std::ranges::find(kOurs, needed) == std::end(kOurs))
      missing.push_back(needed);
  }
  return missing;
}

Environment library_environment(const std::string& libraries,
                                const std::optional<remote::image::Program>& program) {
  Environment added;
  added["LD_LIBRARY_PATH"] = in_front(libraries, environment_variable("LD_LIBRARY_PATH"));
  // Wherever a program or its packages have libraries of their own.
  added["LD_AUDIT"] =
      in_front(libraries + "/libpartita-audit.so", environment_variable("LD_AUDIT"));
  // Of NVTX, which tells where requests end.
  if (environment_variable("NVTX_INJECTION64_PATH").empty())
    added["NVTX_INJECTION64_PATH"] = libraries + "/libpartita-remote.so.1";
  if (!program) return added;
  std::string preload;
  const auto put = [&](const std::string& library) {
    const std::string path = libraries + "/" + library;
    if (::access(path.c_str(), R_OK) == 0) preload = in_front(path, preload);
  };
  for (const std::string& needed : program->needed)
    if (needed.starts_with("libnvrtc.so") || needed.starts_with("libnvJitLink.so"))
      put("libpartita-nvrtc.so");
  if (!preload.empty()) added["LD_PRELOAD"] = in_front(preload, environment_variable("LD_PRELOAD"));
  return added;
}

std::string private_address(const std::string& folder) { return "unix:" + folder + "/server.sock"; }

Result<Child> start_private_server(const std::string& folder, const PrivateServer& wish) {
  const bool gpu = has_gpu_elsewhere();
  std::vector<std::string> argv = {own_program(),
                                   "remote",
                                   "serve",
                                   "--listen",
                                   private_address(folder),
                                   "--backend",
                                   gpu ? "cuda" : "cpu",
                                   "--state-dir",
                                   folder,
                                   "--with-parent"};
  const auto add = [&argv](std::initializer_list<std::string> words) {
    argv.insert(argv.end(), words);
  };
  if (gpu && (wish.units > 0 || !wish.kernel_times.empty()))
    add({"--shape", wish.units > 0 ? fmt::format("LANE-{}", wish.units) : "LANE"});
  if (!gpu && wish.units > 0) add({"--units", fmt::format("{}", wish.units)});
  if (wish.devices > 1) add({"--devices", fmt::format("{}", wish.devices)});
  if (!wish.kernel_times.empty()) add({"--kernel-times", fs::absolute(wish.kernel_times).string()});
  return Child::start(
      {.argv = std::move(argv),
       .called = "the private server",
       .output = folder + "/server.log",
       .group = ChildSpec::Group::own_group,  // a terminal's signals are for the program
       .ready_within = kServerStarts,
       .ends_within = kServerEnds});
}

Result<int> run_program(const std::vector<std::string>& words, const Environment& added) {
  const SignalsPassed passed;
  auto child = TRY(Child::start({.argv = words, .environment = added, .outlives = true}));
  program_pid = child.pid();
  const int status = child.wait();
  program_pid = 0;
  return status;
}

}  // namespace partita::cli
