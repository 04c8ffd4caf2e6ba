// partita remote trace: a recorded connection shown, counted, sent to a server again; and partita
// remote operations: the table of operations.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/form.h"
#include "base/secret_file.h"
#include "base/table.h"
#include "base/terminal.h"
#include "decide/input.h"
#include "flags.h"
#include "remote/remote_commands.h"
#include "wire/net/channel.h"
#include "wire/trace/describe.h"
#include "wire/trace/format.h"
#include "wire/trace/replay.h"
#include "wire/trace/trace_stats.h"

namespace partita::cli {
namespace {

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

// ---- stats

std::string stats_json(const remote::TraceStats& stats) {
  const auto counts = [](const std::map<std::string, std::uint64_t>& map) {
    return [&map](Form& f) {
      for (const auto& [key, value] : map) f.told(key, value);
    };
  };
  return write_form([&](Form& f) {
    f.lines("  ");
    f.told("kind", "RemoteStats");
    f.told("calls", stats.all_calls());
    f.told("blocking_round_trips", stats.blocking_round_trips());
    f.told_object("blocking_by_cause", counts(stats.blocking));
    f.told("bytes_up", stats.bytes_up);
    f.told("bytes_down", stats.bytes_down);
    f.told("kernels", stats.launches);
    f.told("different_kernels", stats.kernels);
    f.told_object("calls_by_operation", counts(stats.calls));
    f.told_object("notices", counts(stats.notices));
    f.told("failures", stats.failures);
    f.told("unanswered", stats.unanswered);
    f.told("seconds", static_cast<double>(stats.nanoseconds) * kNanos);
  });
}

std::string stats_text(const remote::TraceStats& stats) {
  Table table{{"OPERATION", "CALLS", "WAITED FOR", "TIME"}, {}};
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
  const bool json = flags.output.json();
  return finish(context, flags.output, json ? stats_json(stats) : stats_text(stats));
}

// ---- replay

Result<Exit> run_trace_replay(Context& context, const TraceFlags& flags) {
  const auto loaded = TRY(load_trace(context, flags.file));
  remote::ReplayOptions options{
      .token = {}, .shape = flags.shape, .at_recorded_times = flags.pace == "recorded"};
  if (!flags.token_file.empty()) {
    TRY(check_secret_file(flags.token_file));
    auto token = TRY(read_input(context.files, "--token-file", flags.token_file));
    options.token = token.substr(0, token.find('\n'));
  }
  auto channel = TRY(remote::system_net().connect(flags.server, kConnectPatience));
  const auto result = TRY(remote::replay(loaded->trace, *channel, options));
  const double seconds = std::chrono::duration<double>(result.took).count();
  std::string text =
      fmt::format("{} frames sent, {} answers compared, {} differ; {}\n", result.sent,
                  result.answers, result.differences.size(), duration_text(seconds));
  for (const remote::ReplayDifference& one : result.differences) {
    text += fmt::format("frame {}: {} answered {}, recorded was {}\n", one.record, one.operation,
                        one.now, one.recorded);
  }
  say(context, text);
  return result.differences.empty() ? Exit::done : Exit::no;
}

Command add_trace_show(CLI::App& trace) {
  auto [command, flags] = adding<TraceFlags>(trace, "show", "Show every frame with its fields");
  command->add_option("FILE", flags->file, "The recording")->type_name("FILE")->required();
  within(flag(*command, "--most", flags->most), 0, 1e15);
  add_output_file(*command, flags->output.file);
  command->footer("partita remote trace show run.trace --most 100");
  return {command, [flags](Context& context) { return run_trace_show(context, *flags); }};
}

Command add_trace_stats(CLI::App& trace) {
  auto [command, flags] = adding<TraceFlags>(
      trace, "stats", "Count calls, blocking round trips by cause, bytes, kernels");
  command->add_option("FILE", flags->file, "The recording")->type_name("FILE")->required();
  add_output(*command, flags->output, {"text", "json"});
  command->footer("partita remote trace stats run.trace --format json");
  return {command, [flags](Context& context) { return run_trace_stats(context, *flags); }};
}

Command add_trace_replay(CLI::App& trace) {
  auto [command, flags] = adding<TraceFlags>(
      trace, "replay",
      "Send the client's frames to a server again and compare the answers' status");
  command->add_option("FILE", flags->file, "The recording")->type_name("FILE")->required();
  flag(*command, "--server-address", flags->server)->required();
  flag(*command, "--profile", flags->shape);
  flag(*command, "--token-file", flags->token_file);
  one_of(flag(*command, "--speed", flags->pace)->default_str("fast"), {"fast", "recorded"});
  command->footer("partita remote trace replay run.trace --server unix:/run/partita.sock");
  return {command, [flags](Context& context) { return run_trace_replay(context, *flags); }};
}

}  // namespace

Command add_remote_trace(CLI::App& remote) {
  CLI::App* trace = remote.add_subcommand(
      "trace", "Look at a connection that was recorded by `partita remote run --record`");
  return group_of(trace,
                  {add_trace_show(*trace), add_trace_stats(*trace), add_trace_replay(*trace)});
}

Command add_remote_operations(CLI::App& remote) {
  CLI::App* command =
      remote.add_subcommand("operations", "Print the protocol: every operation with its fields");
  auto output = std::make_shared<Output>();
  add_output(*command, *output, {"markdown"});
  command->footer("partita remote operations --format markdown -o docs/remote-protocol.md");
  return {command, [output](Context& context) -> Result<Exit> {
            return finish(context, *output, remote::protocol_page());
          }};
}

}  // namespace partita::cli
