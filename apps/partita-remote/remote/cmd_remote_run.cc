// partita remote run: a CUDA program on a device that is elsewhere.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "flags.h"
#include "places.h"
#include "remote/launch_program.h"
#include "remote/remote_commands.h"
#include "wire/net/channel.h"
#include "wire/trace/recording_proxy.h"

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
  const auto program = examined(*content);
  Environment added = library_environment(*libraries, program);
  for (const std::string& missing :
       program ? without_counterpart(*program) : std::vector<std::string>{})
    std::fprintf(stderr, "partita remote: %s is not supported: it has no remote counterpart\n",
                 missing.c_str());

  const Result<PrivateFolder> folder = PrivateFolder::make();
  if (!folder) return failed(folder.error());
  std::optional<Child> own;
  std::string server = flags.server;
  if (server.empty()) {
    Result<Child> started = start_private_server(folder->path());
    if (!started) return failed(started.error());
    own.emplace(*std::move(started));
    server = private_address(folder->path());
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
  const std::string faults = folder->path() + "/faults";  // the client makes it when there is one
  added["PARTITA_REMOTE_FAULTS"] = faults;
  if (flags.check) added["PARTITA_REMOTE_CHECK"] = "1";
  if (!flags.stats.empty())
    added["PARTITA_REMOTE_STATS"] = std::filesystem::absolute(flags.stats).string();
  const Result<int> status = run_program(flags.words, added);
  if (proxy != nullptr)
    if (const auto finished = proxy->finish(); !finished) return failed(finished.error());
  if (!status) return failed(status.error());
  std::error_code ignored;
  const bool unnoticed = *status == 0 && std::filesystem::exists(faults + ".unnoticed", ignored);
  const bool found = flags.fault_exit != 0 &&
                     (unnoticed || (flags.check && std::filesystem::exists(faults, ignored)));
  return static_cast<Exit>(found ? flags.fault_exit : *status);
}

}  // namespace

Command add_remote_run(CLI::App& remote) {
  CLI::App* command = remote.add_subcommand(
      "run", "Run a CUDA program on a server's device; its exit status is passed on");
  auto flags = std::make_shared<RunFlags>();
  flag(*command, "--server-address", flags->server);
  flag(*command, "--profile", flags->profile);
  flag(*command, "--check-kernels", flags->check);
  add_fault_exit(*command, flags->fault_exit);
  flag(*command, "--record", flags->record);
  flag(*command, "--stats", flags->stats);
  command->add_option("command", flags->words, "The program and, behind --, its arguments")
      ->required()
      ->type_name("PROGRAM");
  command->footer(
      "partita remote run -- ./vectorAdd\n"
      "partita remote run --server tcp:gpu1:7070 --profile 2g.20gb -- python train.py");
  return {command, [flags](Context&) { return run_remote(*flags); }};
}

}  // namespace partita::cli
