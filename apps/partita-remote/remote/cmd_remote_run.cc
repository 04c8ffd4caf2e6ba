// partita remote run: a CUDA program on a device that is elsewhere.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "flags.h"
#include "hw/topology.h"
#include "places.h"
#include "remote/launch_program.h"
#include "remote/remote_commands.h"
#include "remote/serving_parts.h"
#include "wire/net/channel.h"
#include "wire/trace/kernel_record.h"
#include "wire/trace/recording_proxy.h"

namespace partita::cli {
namespace {

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

// The kernels of a recorded connection, as CSV.
Result<void> tell_kernels(Context& context, const std::string& trace, const std::string& file) {
  const auto bytes = TRY(context.files.read(trace));
  const auto parsed = TRY(remote::parse_trace(trace, std::as_bytes(std::span(bytes))));
  const remote::RecordedKernels recorded = remote::recorded_kernels(parsed);
  constexpr const char* kWhere[] = {"the program says where they end", "they end where it waits",
                                    "its launches repeat"};
  note(context, fmt::format("{} kernels in {} requests: {}\n", recorded.kernels.size(),
                            recorded.requests, kWhere[static_cast<int>(recorded.borders)]));
  return context.files.write_atomic(file, to_csv(recorded));
}

Result<Exit> run_remote(Context& context, const RunFlags& flags) {
  const std::string libraries = TRY(client_libraries());
  const std::string path = TRY(find_program(flags.words.front()));
  const std::string content = TRY(read_program_file(path));
  const auto program = examined(content);
  Environment added = library_environment(libraries, program);
  for (const std::string& missing :
       program ? without_counterpart(*program) : std::vector<std::string>{})
    std::fprintf(stderr, "partita remote: %s is not supported: it has no remote counterpart\n",
                 missing.c_str());

  const PrivateFolder folder = TRY(PrivateFolder::make());
  std::optional<Child> own;
  std::string server = flags.server;
  if (server.empty()) {
    Child started = TRY(start_private_server(folder.path(), flags.own));
    own.emplace(std::move(started));
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
  if (!flags.record_kernels.empty()) TRY(tell_kernels(context, record, flags.record_kernels));
  if (!status) return failed(status.error());
  std::error_code ignored;
  const bool unnoticed = *status == 0 && std::filesystem::exists(faults + ".unnoticed", ignored);
  const bool found = flags.fault_exit != 0 &&
                     (unnoticed || (flags.check && std::filesystem::exists(faults, ignored)));
  return static_cast<Exit>(found ? flags.fault_exit : *status);
}

}  // namespace

Command add_remote_run(CLI::App& remote) {
  auto [command, flags] = adding<RunFlags>(
      remote, "run", "Run a CUDA program on a server's device; its exit status is passed on");
  flag(*command, "--server-address", flags->server);
  flag(*command, "--profile", flags->profile);
  flag(*command, "--check-kernels", flags->check);
  add_fault_exit(*command, flags->fault_exit);
  flag(*command, "--record", flags->record);
  flag(*command, "--record-kernels", flags->record_kernels);
  CLI::Option* const server = command->get_option("--server");
  within(flag(*command, "--units", flags->own.units), 1, hw::kMaxUnits)->excludes(server);
  within(flag(*command, "--devices", flags->own.devices), 1, kMostDevices)->excludes(server);
  flag(*command, "--kernel-times", flags->own.kernel_times)->excludes(server);
  flag(*command, "--stats", flags->stats);
  command->add_option("command", flags->words, "The program and, behind --, its arguments")
      ->required()
      ->type_name("PROGRAM");
  command->footer(
      "partita remote run -- ./vectorAdd\n"
      "partita remote run --server tcp:gpu1:7070 --profile 2g.20gb -- python train.py");
  return {command, [flags](Context& context) { return run_remote(context, *flags); }};
}

}  // namespace partita::cli
