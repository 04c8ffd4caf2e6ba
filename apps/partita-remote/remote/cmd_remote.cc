#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/child.h"
#include "base/processes.h"
#include "hw/topology.h"
#include "image/program.h"
#include "remote/remote_commands.h"
#include "server/library_calls.h"
#include "wire/net/channel.h"
#include "wire/trace/describe.h"
#include "wire/trace/format.h"
#include "wire/trace/kernel_record.h"
#include "wire/trace/recording_proxy.h"
#include "wire/trace/replay.h"
#include "wire/trace/trace_stats.h"
#include "wire/tunnel/tunnel.h"

namespace partita::cli {
namespace {

// Running somebody's program under the client libraries: where they lie, what its environment gets,
// a private server beside it. POSIX; one program per process.
using Environment = std::map<std::string, std::string>;

// A server of ours at `unix:FOLDER/server.sock`: ends with this object, and with this process
// however it ends. Takes connections when this returns.
struct PrivateServer {
  int units = 0;                  // of the CPU, or of a lane of the GPU; 0: all
  int devices = 1;                // that the program sees
  std::string kernel_times = {};  // file; empty: kernels are not timed
};
Result<Child> start_private_server(const std::string& folder, const PrivateServer& wish = {});

namespace fs = std::filesystem;
constexpr auto kServerStarts = std::chrono::seconds(20), kServerEnds = std::chrono::seconds(2);
constexpr std::uintmax_t kMaxProgram = std::uintmax_t{4} << 30;
constexpr const char* kStaticRuntime =
    "this program embeds NVIDIA's static CUDA runtime; relink with `-cudart shared`";

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

// The folder with libcudart.so.13 and the others: beside this program (build tree), or where
// installation puts it.
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

// The file that a shell would run for this word.
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

// Those of NVIDIA's libraries with device code of their own that it needs and that are not there.
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

// What is to be added to the program's environment so that it finds the libraries.
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

std::string server_log(const std::string& folder) { return folder + "/server.log"; }
std::string private_address(const std::string& folder) { return "unix:" + folder + "/server.sock"; }

Result<Child> start_private_server(const std::string& folder, const PrivateServer& wish) {
  const bool gpu = has_gpu_elsewhere();
  std::vector<std::string> argv = {own_program(), "remote", "serve", "--with-parent"};
  const auto add = [&argv](std::initializer_list<std::string> words) {
    argv.insert(argv.end(), words);
  };
  add({"--listen", private_address(folder), "--backend", gpu ? "cuda" : "cpu"});
  add({"--state-dir", folder});
  if (gpu && (wish.units > 0 || !wish.kernel_times.empty()))
    add({"--shape", wish.units > 0 ? fmt::format("LANE-{}", wish.units) : "LANE"});
  if (!gpu && wish.units > 0) add({"--units", fmt::format("{}", wish.units)});
  if (wish.devices > 1) add({"--devices", fmt::format("{}", wish.devices)});
  if (!wish.kernel_times.empty()) add({"--kernel-times", fs::absolute(wish.kernel_times).string()});
  return Child::start(
      {.argv = std::move(argv),
       .called = "the private server",
       .output = server_log(folder),
       .group = ChildSpec::Group::own_group,  // a terminal's signals are for the program
       .ready_within = kServerStarts,
       .ends_within = kServerEnds});
}

// partita remote run: a CUDA program on a device that is elsewhere.

struct RunFlags {
  std::string server, profile, record, stats, record_kernels;
  PrivateServer own;
  bool check = false;
  int fault_exit = 1;
  std::vector<std::string> words;
};

// What is known of the program's file; nothing of a script.
std::optional<remote::image::Program> examined(const std::string& content) {
  const std::span<const char> bytes(content);
  Result<remote::image::Program> program = remote::image::read_program(std::as_bytes(bytes));
  if (!program) return std::nullopt;
  return *std::move(program);
}

// The kernels of recorded connections, as CSV.
Result<void> tell_kernels(Context& context, const std::vector<std::string>& traces,
                          const std::string& file) {
  remote::RecordedKernels all;
  for (const std::string& trace : traces) {
    const auto bytes = TRY(context.files.read(trace));
    const auto parsed = TRY(remote::parse_trace(trace, std::as_bytes(std::span(bytes))));
    remote::RecordedKernels recorded = remote::recorded_kernels(parsed);
    constexpr const char* kWhere[] = {"the program says where they end", "they end where it waits",
                                      "its launches repeat"};
    note(context, fmt::format("{} kernels in {} requests: {}\n", recorded.kernels.size(),
                              recorded.requests, kWhere[static_cast<int>(recorded.borders)]));
    append(all, std::move(recorded));
  }
  return context.files.write_atomic(file, to_csv(all));
}

// Runs it to its end in our place of the terminal, and hands it the signals that come for us. Its
// exit status, or 128 + the signal that ended it.
Result<int> run_program(const std::vector<std::string>& words, const Environment& added) {
  const SignalsPassed passed;
  auto child = TRY(Child::start({.argv = words, .environment = added, .outlives = true}));
  program_pid = child.pid();
  const int status = child.wait();
  program_pid = 0;
  return status;
}

Result<Exit> run_remote(Context& context, const RunFlags& flags) {
  const std::string libraries = TRY(client_libraries());
  const std::string path = TRY(find_program(flags.words.front()));
  const std::string content = TRY(read_program_file(path));
  const auto program = examined(content);
  if (program && program->static_runtime) return bad_input(path, kStaticRuntime);
  for (const std::string& file : {flags.stats, flags.own.kernel_times, flags.record_kernels})
    if (!file.empty()) TRY(check_writable(file));
  Environment added = library_environment(libraries, program);
  for (const std::string& missing :
       program ? without_counterpart(*program) : std::vector<std::string>{})
    std::fprintf(stderr, "partita remote: %s is not supported: it has no remote counterpart\n",
                 missing.c_str());

  const PrivateFolder folder = TRY(PrivateFolder::make());
  std::optional<Child> own;
  std::string server = flags.server;
  if (server.empty()) {
    own.emplace(TRY(start_private_server(folder.path(), flags.own)));
    server = private_address(folder.path());
  }
  std::unique_ptr<remote::RecordingProxy> proxy;
  std::string record = flags.record;
  if (record.empty() && !flags.record_kernels.empty()) record = folder.path() + "/trace";
  if (!record.empty()) {
    proxy = TRY(remote::RecordingProxy::start(
        remote::system_net(), "unix:" + folder.path() + "/proxy.sock", server, record));
    server = proxy->address();
  }
  added["PARTITA_REMOTE"] = server;
  if (!flags.profile.empty()) added["PARTITA_REMOTE_SHAPE"] = flags.profile;
  const std::string faults = folder.path() + "/faults";  // the client makes it when there is one
  added["PARTITA_REMOTE_FAULTS"] = faults;
  if (flags.check) added["PARTITA_REMOTE_CHECK"] = "1";
  if (!flags.stats.empty())
    added["PARTITA_REMOTE_STATS"] = std::filesystem::absolute(flags.stats).string();
  const Result<int> status = run_program(flags.words, added);
  if (proxy != nullptr) TRY(proxy->finish());
  if (!flags.record_kernels.empty())
    TRY(tell_kernels(context, proxy->files(), flags.record_kernels));
  if (!status) return failed(status.error());
  if (!flags.own.kernel_times.empty()) {
    own.reset();  // it has said what it has to say
    if (TRY(context.files.read(server_log(folder.path()))).find(kTimesNotWritten) !=
        std::string::npos)
      return environment_error(flags.own.kernel_times, kTimesNotWritten);
  }
  std::error_code ignored;
  const auto marks = TRY(context.files.list(folder.path()));  // of the program and its children
  const bool unnoticed = *status == 0 && std::ranges::any_of(marks, [](const std::string& name) {
    return name.starts_with("faults.unnoticed.");
  });
  const bool found = flags.fault_exit != 0 &&
                     (unnoticed || (flags.check && std::filesystem::exists(faults, ignored)));
  return static_cast<Exit>(found ? flags.fault_exit : *status);
}

Command add_remote_run(CLI::App& remote) {
  auto [command, flags] = adding<RunFlags>(
      remote, "run", "Run a CUDA program on a server's device; its exit status is passed on");
  takes(*command, "--server-address", flags->server, "--profile", flags->profile, "--check-kernels",
        flags->check, "--fault-exit", within(flags->fault_exit, 0, 255), "--record", flags->record,
        "--record-kernels", flags->record_kernels);
  CLI::Option* const server = command->get_option("--server-address");
  within(flag(*command, "--units", flags->own.units), 1, hw::kMaxUnits)->excludes(server);
  within(flag(*command, "--devices", flags->own.devices), 1, kMostDevices)->excludes(server);
  flag(*command, "--kernel-times", flags->own.kernel_times)->excludes(server);
  flag(*command, "--stats", flags->stats);
  command->add_option("command", flags->words, "The program and, behind --, its arguments")
      ->required()
      ->type_name("PROGRAM");
  return runs(command, flags, run_remote,
              "partita remote run -- ./vectorAdd\n"
              "partita remote run --server-address tcp:gpu1:7070 --profile 2g.20gb -- ./vectorAdd");
}

// partita remote doctor: whether a program can run remotely, said beforehand.

using remote::image::Import;
using remote::image::Member;
using remote::image::MemberKind;
using remote::image::Program;

// Functions that the client libraries refuse.
const std::set<std::string_view> kUnsupported = {
#define UNSUPPORTED(name) #name,
#include "../../remote_client/blas/unsupported.inc"
#include "../../remote_client/dnn/unsupported.inc"
#include "../../remote_client/driver/driver_unsupported.inc"
#include "../../remote_client/fft/unsupported.inc"
#include "../../remote_client/lt/unsupported.inc"
#include "../../remote_client/random/unsupported.inc"
#include "../../remote_client/runtime/unsupported.inc"
#include "../../remote_client/solver/unsupported.inc"
#include "../../remote_client/sparse/unsupported.inc"
#undef UNSUPPORTED
};

struct Diagnosis {
  std::string program, runtime = "none";
  std::vector<std::string> unsupported = {}, targets = {}, problems = {}, remarks = {};
  bool ptx = false, can_run = true;
};

void diagnose_runtime(const Program& program, Diagnosis& diagnosis) {
  for (const std::string& needed : program.needed)
    if (needed.starts_with("libcudart.so")) diagnosis.runtime = needed;
  for (const std::string& library : without_counterpart(program))
    diagnosis.problems.push_back(library + " has no remote counterpart yet");
  if (program.static_runtime) {
    diagnosis.runtime = "static";
    diagnosis.problems.push_back(kStaticRuntime);
  } else if (diagnosis.runtime != "none" && diagnosis.runtime != "libcudart.so.12" &&
             diagnosis.runtime != "libcudart.so.13") {
    diagnosis.problems.push_back("it needs " + diagnosis.runtime +
                                 "; there are libcudart.so.12 and libcudart.so.13");
  }
}

void diagnose_code(const Program& program, Diagnosis& diagnosis) {
  if (!program.members_problem.empty())
    diagnosis.problems.push_back("its fat binary cannot be read: " + program.members_problem);
  std::set<std::string> targets;
  for (const Member& member : program.members) {
    const bool ptx = member.kind == MemberKind::ptx;
    diagnosis.ptx = diagnosis.ptx || ptx;
    targets.insert(fmt::format("{}{}", ptx ? "compute_" : "sm_", member.sm));
  }
  diagnosis.targets.assign(targets.begin(), targets.end());
  if (!program.has_device_code)
    diagnosis.remarks.push_back(
        "the file itself has no device code; what libraries and scripts load is not seen here");
  else if (!diagnosis.ptx && diagnosis.problems.empty())
    diagnosis.remarks.push_back(
        "no PTX inside: it runs on a GPU of its targets, not on the cpu back end (compile with"
        " -gencode arch=compute_XX,code=compute_XX)");
}

Diagnosis diagnose(const std::string& path, const Program& program) {
  Diagnosis diagnosis{.program = path};
  diagnose_runtime(program, diagnosis);
  diagnose_code(program, diagnosis);
  std::vector<std::string> forwarded;  // to NVIDIA's own library
  for (const Import& import : program.imports) {
    if (kUnsupported.contains(import.name)) diagnosis.unsupported.push_back(import.name);
    if (remote::server::library_function(import.name) != nullptr) forwarded.push_back(import.name);
  }
  if (!forwarded.empty())
    diagnosis.remarks.push_back(fmt::format("only where the server has a GPU and the library: {}",
                                            joined(forwarded, ", ")));
  if (!diagnosis.unsupported.empty())
    diagnosis.problems.push_back(fmt::format("it calls functions that are refused: {}",
                                             joined(diagnosis.unsupported, ", ")));
  diagnosis.can_run = diagnosis.problems.empty();
  return diagnosis;
}

std::string as_text(const Diagnosis& diagnosis) {
  std::string text =
      fmt::format("{}: {}\n  CUDA runtime   {}\n  device code    {}\n", diagnosis.program,
                  diagnosis.can_run ? "can run" : "cannot run", diagnosis.runtime,
                  diagnosis.targets.empty() ? "none" : joined(diagnosis.targets, ", "));
  for (const std::string& problem : diagnosis.problems) text += "  cannot run: " + problem + "\n";
  for (const std::string& remark : diagnosis.remarks) text += "  note: " + remark + "\n";
  return text;
}

std::string as_json(const Diagnosis& diagnosis) {
  const ListForm rows{.indent = "    "};
  return write_form([&](Form& f) {
    f.lines("  ");
    tell(f, "kind", "RemoteDoctor", "program", diagnosis.program, "can_run", diagnosis.can_run,
         "runtime", diagnosis.runtime, "has_ptx", diagnosis.ptx);
    f.told_list("targets", diagnosis.targets, rows);
    f.told_list("unsupported", diagnosis.unsupported, rows);
    f.told_list("problems", diagnosis.problems, rows);
    f.told_list("remarks", diagnosis.remarks, rows);
  });
}

struct DoctorFlags {
  std::string program;
  Output output;
};

Result<Exit> run_doctor(Context& context, const DoctorFlags& flags) {
  const std::string path = TRY(find_program(flags.program));
  const std::string content = TRY(read_program_file(path));
  const std::span<const char> bytes(content);
  const Result<Program> program = remote::image::read_program(std::as_bytes(bytes));
  if (!program)
    return bad_input(path, "not an executable of this machine: " + program.error().message);
  const Diagnosis diagnosis = diagnose(path, *program);
  return finish(context, flags.output,
                flags.output.json() ? as_json(diagnosis) : as_text(diagnosis),
                diagnosis.can_run ? Exit::done : Exit::no);
}

Command add_remote_doctor(CLI::App& remote) {
  auto [command, flags] = adding<DoctorFlags>(
      remote, "doctor", "Say whether a CUDA program can run remotely, and why not; runs nothing");
  file_argument(*command, "program", flags->program, "The executable or library to look at")
      ->required();
  return runs(command, flags, run_doctor, {"text", "json"},
              "partita remote doctor ./vectorAdd\npartita remote doctor --format json ./lud");
}

// partita remote sessions, partita remote stop: what servers of this machine are doing.

using remote::server::ServerState;
using remote::server::SessionEntry;

// "4711.3": the third session of the server with pid 4711.
std::string id_of(const ServerState& server, const SessionEntry& session) {
  return fmt::format("{}.{}", server.pid, session.session);
}

std::string sessions_text(const std::vector<ServerState>& servers) {
  std::string text;
  for (const ServerState& server : servers) {
    text += fmt::format("{} ({}): {} of {} parts in use, {} clients wait\n", server.address,
                        server.backend, server.sessions.size(), server.parts, server.waiting);
    for (const SessionEntry& s : server.sessions)
      text += fmt::format("  {}  {}  {} (pid {}, {})  {} launches, {} MiB, {} refused\n",
                          id_of(server, s), s.part, s.program.empty() ? "-" : s.program,
                          s.client_pid, s.address, s.launches, s.memory >> 20, s.refused);
  }
  return text.empty() ? "no server runs\n" : text;
}

std::string sessions_json(const std::vector<ServerState>& servers) {
  std::string text = "[";
  for (const ServerState& server : servers) {
    if (text.size() > 1) text += ",";
    text += "\n" + remote::server::server_state_json(server);
    if (text.back() == '\n') text.pop_back();
  }
  return text + "]\n";
}

Result<Exit> stop_session(Context& context, const std::string& directory, const std::string& id) {
  struct Found {
    std::string id;
    SessionEntry session;
  };
  std::vector<Found> found;
  for (const ServerState& server : living_servers(context.files, directory))
    for (const SessionEntry& session : server.sessions) {
      const std::string full = id_of(server, session);
      if (full == id || std::to_string(session.session) == id) found.push_back({full, session});
    }
  if (found.empty())
    return bad_input(id, "there is no such session; see `partita remote sessions`");
  if (found.size() > 1)
    return bad_input(
        id, fmt::format("several servers have one; say {} or {}", found[0].id, found[1].id));
  const SessionEntry& session = found.front().session;
  RealProcesses processes;
  if (session.worker_pid <= 0)
    return bad_input(id, "the session shares its process with others: end its program");
  if (processes.identity(session.worker_pid) != session.worker_identity)
    return bad_input(id, "the session has ended");
  if (::kill(static_cast<pid_t>(session.worker_pid), SIGTERM) != 0)
    return environment_error(id, fmt::format("cannot be stopped: {}", std::strerror(errno)));
  say(context, fmt::format("session {} of {} is being stopped\n", found.front().id,
                           session.program.empty() ? "a program" : session.program));
  return Exit::done;
}

Command add_remote_sessions(CLI::App& remote) {
  struct Flags {
    Output output;
    std::string directory;
  };
  auto [command, flags] =
      adding<Flags>(remote, "sessions", "List the sessions of this machine's servers");
  flag(*command, "--state-dir", flags->directory);
  const auto run = [](Context& context, const Flags& its) {
    const auto servers = living_servers(context.files, remote_state_directory(its.directory));
    return finish(context, its.output,
                  its.output.json() ? sessions_json(servers) : sessions_text(servers));
  };
  return runs(command, flags, run, {"text", "json"}, "partita remote sessions --format json");
}

Command add_remote_stop(CLI::App& remote) {
  struct Flags {
    std::string directory, id;
  };
  auto [command, flags] = adding<Flags>(remote, "stop", "End a session");
  command->add_option("ID", flags->id, "Session ID, as `remote sessions` shows it")->required();
  flag(*command, "--state-dir", flags->directory);
  command->footer("partita remote stop 4711.3");
  return {command, [flags](Context& context) {
            return stop_session(context, remote_state_directory(flags->directory), flags->id);
          }};
}

// partita remote trace: a recorded connection shown, counted, sent to a server again; and partita
// remote operations: the table of operations.

constexpr auto kConnectPatience = std::chrono::seconds(10);
constexpr double kNanos = 1e-9;

struct TraceFlags {
  std::string file;
  long most = 0;  // frames shown; 0: all
  std::string server, token_file, shape;
  std::string pace = "fast";
  Output output;
};

// A recording and the bytes that it refers to.
struct LoadedTrace {
  std::string text;
  remote::Trace trace;
};

Result<std::unique_ptr<LoadedTrace>> load_trace(Context& context, const std::string& file) {
  auto text = TRY(read_input(context.files, "FILE", file));
  auto loaded = std::make_unique<LoadedTrace>();
  loaded->text = std::move(text);
  loaded->trace = TRY(remote::parse_trace(file, std::as_bytes(std::span(loaded->text))));
  if (loaded->trace.torn) complain(context, file + ": its last frame is not whole; it is left out");
  return loaded;
}

Result<Exit> run_trace_show(Context& context, const TraceFlags& flags) {
  const auto loaded = TRY(load_trace(context, flags.file));
  std::string text;
  long count = 0;
  for (const remote::TraceRecord& record : loaded->trace.records) {
    if (flags.most > 0 && count++ == flags.most) break;
    text += fmt::format("{:>14.6f} {} {}\n", static_cast<double>(record.nanoseconds) * kNanos,
                        record.direction == remote::Direction::up ? ">" : "<",
                        describe(record.header, record.body, record.direction));
  }
  return finish(context, flags.output, text);
}

std::string stats_json(const remote::TraceStats& stats) {
  const auto counts = [](const std::map<std::string, std::uint64_t>& map) {
    return [&map](Form& f) {
      for (const auto& [key, value] : map) f.told(key, value);
    };
  };
  return write_form([&](Form& f) {
    f.lines("  ");
    tell(f, "kind", "RemoteStats", "calls", stats.all_calls(), "blocking_round_trips",
         stats.blocking_round_trips());
    f.told_object("blocking_by_cause", counts(stats.blocking));
    tell(f, "bytes_up", stats.bytes_up, "bytes_down", stats.bytes_down, "kernels", stats.launches,
         "different_kernels", stats.kernels);
    f.told_object("calls_by_operation", counts(stats.calls));
    f.told_object("notices", counts(stats.notices));
    tell(f, "failures", stats.failures, "unanswered", stats.unanswered, "seconds",
         static_cast<double>(stats.nanoseconds) * kNanos);
  });
}

std::string stats_text(const remote::TraceStats& stats) {
  Table table = headed("OPERATION|CALLS|WAITED FOR|TIME");
  for (const auto& [name, count] : stats.calls) {
    const auto waited = stats.blocking.find(name);
    const bool blocking = waited != stats.blocking.end();
    table.rows.push_back(
        {name, fmt::format("{}", count), blocking ? fmt::format("{}", waited->second) : "-",
         blocking ? duration_text(static_cast<double>(stats.waited_nanoseconds.at(name)) * kNanos)
                  : "-"});
  }
  std::string text = to_string(table);
  text += fmt::format(
      "\n{} calls in {}, {} of them waited for; {} launches of {} kernels; {} bytes up ({} of "
      "data), {} bytes down ({} of data)\n",
      stats.all_calls(), duration_text(static_cast<double>(stats.nanoseconds) * kNanos),
      stats.blocking_round_trips(), stats.launches, stats.kernels, stats.bytes_up, stats.bulk_up,
      stats.bytes_down, stats.bulk_down);
  if (stats.failures > 0) text += fmt::format("{} answers were failures\n", stats.failures);
  if (stats.unanswered > 0) text += fmt::format("{} were never answered\n", stats.unanswered);
  return text;
}

Result<Exit> run_trace_stats(Context& context, const TraceFlags& flags) {
  const auto loaded = TRY(load_trace(context, flags.file));
  const remote::TraceStats stats = remote::trace_stats(loaded->trace);
  return finish(context, flags.output, flags.output.json() ? stats_json(stats) : stats_text(stats));
}

Result<Exit> run_trace_replay(Context& context, const TraceFlags& flags) {
  const auto loaded = TRY(load_trace(context, flags.file));
  remote::ReplayOptions options{
      .token = {}, .shape = flags.shape, .at_recorded_times = flags.pace == "recorded"};
  if (!flags.token_file.empty())
    options.token = TRY(read_secret(context, "--token-file", flags.token_file));
  auto channel = TRY(remote::system_net().connect(flags.server, kConnectPatience));
  const auto result = TRY(remote::replay(loaded->trace, *channel, options));
  const double seconds = std::chrono::duration<double>(result.took).count();
  std::string text =
      fmt::format("{} frames sent, {} answers compared, {} differ; {}\n", result.sent,
                  result.answers, result.differences.size(), duration_text(seconds));
  for (const remote::ReplayDifference& one : result.differences)
    text += fmt::format("frame {}: {} answered {}, recorded was {}\n", one.record, one.operation,
                        one.now, one.recorded);
  say(context, text);
  return result.differences.empty() ? Exit::done : Exit::no;
}

Command add_trace_show(CLI::App& trace) {
  auto [command, flags] = adding<TraceFlags>(trace, "show", "Show every frame with its fields");
  file_argument(*command, "FILE", flags->file, "The recording")->required();
  within(flag(*command, "--most", flags->most), 0, 1e15);
  add_output_file(*command, flags->output.file);
  return runs(command, flags, run_trace_show, "partita remote trace show run.trace --most 100");
}

Command add_trace_stats(CLI::App& trace) {
  auto [command, flags] = adding<TraceFlags>(
      trace, "stats", "Count calls, blocking round trips by cause, bytes, kernels");
  file_argument(*command, "FILE", flags->file, "The recording")->required();
  return runs(command, flags, run_trace_stats, {"text", "json"},
              "partita remote trace stats run.trace --format json");
}

Command add_trace_replay(CLI::App& trace) {
  auto [command, flags] = adding<TraceFlags>(
      trace, "replay",
      "Replay the client's frames to a server and compare the status of the answers");
  file_argument(*command, "FILE", flags->file, "The recording")->required();
  takes(*command, "--server-address", needed(flags->server), "--profile", flags->shape,
        "--token-file", flags->token_file, "--speed", one_of(flags->pace, {"fast", "recorded"}));
  return runs(command, flags, run_trace_replay,
              "partita remote trace replay run.trace --server-address unix:/run/partita.sock");
}

Command add_remote_trace(CLI::App& remote) {
  CLI::App* trace = remote.add_subcommand(
      "trace", "Inspect a connection recorded by `partita remote run --record`");
  return group_of(trace,
                  {add_trace_show(*trace), add_trace_stats(*trace), add_trace_replay(*trace)});
}

Command add_remote_operations(CLI::App& remote) {
  auto [command, output] =
      adding<Output>(remote, "operations", "Print the protocol: every operation with its fields");
  add_output(*command, *output, {"markdown"});
  const auto run = [](Context& context, const Output& its) {
    return finish(context, its, remote::protocol_page());
  };
  return runs(command, output, run,
              "partita remote operations --format markdown -o docs/remote-protocol.md");
}

// partita remote tunnel: sessions carried to another host under TLS.

constexpr std::int64_t kLookNs = 200'000'000;  // at trouble to tell

struct TunnelFlags {
  std::string listen, server, sessions;
  remote::ClientTls client;
  remote::ServerTls host;
};

Result<std::unique_ptr<remote::Forwarder>> open_tunnel(const TunnelFlags& flags) {
  if (flags.server.empty() == flags.sessions.empty())
    return bad_input("--server-address",
                     "the client's end needs --server-address, the server's end --sessions-at");
  remote::Net& net = remote::system_net();
  if (!flags.server.empty()) {
    if (flags.client.ca_file.empty()) return bad_input("--ca", "is needed with --server-address");
    return remote::client_tunnel(net, flags.listen, flags.server, flags.client);
  }
  if (flags.host.certificate_file.empty() || flags.host.key_file.empty())
    return bad_input("--tls-cert", "is needed with --sessions-at, and so is --tls-key");
  return remote::server_tunnel(net, flags.listen, flags.sessions, flags.host);
}

Result<Exit> run_tunnel(Context& context, const TunnelFlags& flags) {
  StopRequest stop;
  const auto tunnel = TRY(open_tunnel(flags));
  say(context, "carrying sessions from " + tunnel->address() + " to " +
                   (flags.server.empty() ? flags.sessions : flags.server) + "\n");
  for (std::string told; !stop.within(kLookNs);) {
    std::string trouble = tunnel->trouble();
    if (trouble != told) complain(context, trouble);
    told = std::move(trouble);
  }
  return Exit::done;
}

Command add_remote_tunnel(CLI::App& remote) {
  auto [command, flags] = adding<TunnelFlags>(
      remote, "tunnel", "Tunnel sessions to another host over TLS; run one end on each host");
  takes(*command, "--listen", needed(flags->listen), "--server-address", flags->server, "--ca",
        flags->client.ca_file, "--name", flags->client.name, "--sessions-at", flags->sessions,
        "--tls-cert", flags->host.certificate_file, "--tls-key", flags->host.key_file);
  return runs(command, flags, run_tunnel,
              "partita remote tunnel --listen 0.0.0.0:7443 --sessions-at unix:/run/partita.sock "
              "--tls-cert gpu.pem --tls-key gpu.key\n"
              "partita remote tunnel --listen unix:/tmp/gpu.sock --server-address gpu.example:7443 "
              "--ca ca.pem\n"
              "partita remote run --server-address unix:/tmp/gpu.sock -- ./program");
}

}  // namespace

std::string default_remote_address() {
  const std::string said = environment_variable("PARTITA_REMOTE");
  return said.empty() ? "unix:" + default_runtime_directory() + "/remote.sock" : said;
}

Result<void> check_writable(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code ignored;
  const bool there = fs::exists(path, ignored);
  if (there && fs::is_directory(path, ignored)) return environment_error(path, "is a directory");
  const std::string asked = there ? path : folder.empty() ? "." : folder.string();
  if (::access(asked.c_str(), there ? W_OK : W_OK | X_OK) == 0) return {};
  return environment_error(path, fmt::format("cannot be written: {}", std::strerror(errno)));
}

std::string remote_state_directory(const std::string& flag) {
  return flag.empty() ? state_home() + "/remote" : flag;
}

std::vector<remote::server::ServerState> living_servers(Files& files,
                                                        const std::string& directory) {
  std::vector<remote::server::ServerState> servers;
  const auto names = files.list(directory);
  if (!names) return servers;
  RealProcesses processes;
  for (const std::string& name : *names) {
    if (!name.starts_with("server-") || !name.ends_with(".json")) continue;
    const std::string path = directory + "/" + name;
    const auto text = files.read(path);
    if (!text) continue;
    auto state = remote::server::parse_server_state(path, *text);
    if (!state) continue;
    if (processes.identity(state->pid) == state->identity)
      servers.push_back(*std::move(state));
    else
      static_cast<void>(files.remove(path));
  }
  return servers;
}

Command add_remote(CLI::App& app) {
  CLI::App* remote = app.add_subcommand(
      "remote", "Run CUDA programs on a GPU that is elsewhere, or on no GPU at all");
  const std::vector<Command> commands = {
      add_remote_run(*remote),      add_remote_doctor(*remote),     add_remote_serve(*remote),
      add_remote_sessions(*remote), add_remote_stop(*remote),       add_remote_tunnel(*remote),
      add_remote_trace(*remote),    add_remote_operations(*remote),
  };
  return group_of(remote, commands);
}

}  // namespace partita::cli
