// partita remote run: a CUDA program on a device that is elsewhere.
#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>

#include "flags.h"
#include "places.h"
#include "remote/launch_program.h"
#include "remote/net/channel.h"
#include "remote/remote_commands.h"
#include "remote/trace/recording_proxy.h"

namespace partita::cli {
namespace {

struct RunFlags {
  std::string server, profile, record, stats;
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

Result<Exit> run_remote(const RunFlags& flags) {
  const Result<std::string> libraries = client_libraries();
  if (!libraries) return failed(libraries.error());
  const Result<std::string> path = find_program(flags.words.front());
  if (!path) return failed(path.error());
  const Result<std::string> content = read_program_file(*path);
  if (!content) return failed(content.error());
  Environment added = library_environment(*libraries, examined(*content));

  const Result<PrivateFolder> folder = PrivateFolder::make();
  if (!folder) return failed(folder.error());
  std::optional<PrivateServer> own;
  std::string server = flags.server;
  if (server.empty()) {
    Result<PrivateServer> started = PrivateServer::start(folder->path());
    if (!started) return failed(started.error());
    own.emplace(*std::move(started));
    server = own->address();
  }
  std::unique_ptr<remote::RecordingProxy> proxy;
  if (!flags.record.empty()) {
    auto made = remote::RecordingProxy::start(
        remote::system_net(), "unix:" + folder->path() + "/proxy.sock", server, flags.record);
    if (!made) return failed(made.error());
    proxy = *std::move(made);
    server = proxy->address();
  }
  added["PARTITA_REMOTE"] = server;
  if (!flags.profile.empty()) added["PARTITA_REMOTE_SHAPE"] = flags.profile;
  const std::string faults =
      folder->path() + "/faults";  // the client makes it when it hears of one
  if (flags.check) {
    added["PARTITA_REMOTE_CHECK"] = "1";
    added["PARTITA_REMOTE_FAULTS"] = faults;
  }
  if (!flags.stats.empty())
    added["PARTITA_REMOTE_STATS"] = std::filesystem::absolute(flags.stats).string();
  const Result<int> status = run_program(flags.words, added);
  if (proxy != nullptr)
    if (const auto finished = proxy->finish(); !finished) return failed(finished.error());
  if (!status) return failed(status.error());
  std::error_code ignored;
  const bool found = flags.fault_exit != 0 && std::filesystem::exists(faults, ignored);
  return static_cast<Exit>(found ? flags.fault_exit : *status);
}

}  // namespace

Command add_remote_run(CLI::App& remote) {
  CLI::App* command = remote.add_subcommand(
      "run", "Run a CUDA program on a server's device; its exit status is passed on");
  auto flags = std::make_shared<RunFlags>();
  command
      ->add_option("--server", flags->server,
                   "Where the server listens: unix:PATH, tcp:HOST:PORT; default: a private one on "
                   "this machine, on its GPU or, without one, on its CPU cores")
      ->type_name("ADDRESS");
  command
      ->add_option("--profile", flags->profile,
                   "Ask for a device of this shape: 2g.20gb, gpu, CPU-4; default: what is free")
      ->type_name("SHAPE");
  CLI::Option* const check = command->add_flag(
      "--check", flags->check,
      "Report uninitialised reads, races on shared memory and barriers that threads "
      "leave out, and end with 1 when kernels did something wrong (CPU servers)");
  add_fault_exit(*command, flags->fault_exit)->needs(check);
  command
      ->add_option("--record", flags->record,
                   "Record what passes between program and server into FILE")
      ->type_name("FILE");
  command
      ->add_option("--stats", flags->stats,
                   "Write the program's calls and round trips to FILE as JSON at its end")
      ->type_name("FILE");
  command->add_option("command", flags->words, "The program and, behind --, its arguments")
      ->required()
      ->type_name("PROGRAM");
  command->footer(
      "partita remote run -- ./vectorAdd\n"
      "partita remote run --server tcp:gpu1:7070 --profile 2g.20gb -- python train.py");
  return {command, [flags](Context&) { return run_remote(*flags); }};
}

}  // namespace partita::cli
