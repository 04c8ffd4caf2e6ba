#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "commands.h"
#include "device/observe/sample_text.h"
#include "device/observe/sampler.h"
#include "device/observe/view.h"
#include "flags.h"
#include "hw/telemetry/joules.h"
#include "hw/telemetry/log.h"
#include "node/devices.h"
#include "screen.h"
#include "stop_request.h"

namespace partita::cli {
namespace {

using telemetry::Log;
using telemetry::Sample;

struct ObserveFlags {
  DeviceFlags device;
  bool watch = false;
  std::string record, replay, interval = "1s", format = "text";
  int count = 0;
};

// What is shown of samples, one after another.
class Shown {
 public:
  Shown(Context& context, const ObserveFlags& flags) : context_(context), flags_(flags) {
    if (flags.watch && flags.format == "text" && is_terminal(context)) screen_.emplace(context.out);
  }

  // Means of the next sample are since this one.
  void remember(const Sample& sample) { recent_.push_back(sample); }

  void show(const Sample& sample) {
    remember(sample);
    if (recent_.size() > kRecent) recent_.erase(recent_.begin());
    if (flags_.format == "json") return say(context_, telemetry::write_line(sample));
    if (flags_.format == "prometheus") return say(context_, observe::prometheus_text(sample));
    if (!screen_) return say(context_, text(sample));
    view_.add(sample);
    screen_->draw(view_.frame(
        {.colour = context_.colour, .width = context_.width, .height = screen_->height()}));
  }

 private:
  static constexpr std::size_t kRecent = 600;

  std::string text(const Sample& sample) const {
    observe::MeanPowers means(sample.gpus.size());
    for (const telemetry::Board& board : telemetry::measure(recent_))
      for (std::size_t g = 0; g < sample.gpus.size() && !board.intervals.empty(); ++g) {
        const telemetry::Interval& last = board.intervals.back();
        if (sample.gpus[g].index == board.index && last.source != telemetry::MeterSource::nothing)
          means[g] = Watts{last.joules / last.length.value};
      }
    return observe::sample_text(sample, means) + (flags_.watch ? "\n" : "");
  }

  Context& context_;
  const ObserveFlags& flags_;
  std::optional<Screen> screen_;
  observe::View view_;
  Log recent_;
};

// Joules of a recording, for people.
std::string summary_of(const Log& log) {
  std::string text;
  for (const telemetry::Board& board : telemetry::measure(log)) {
    const Seconds told = board.counted + board.integrated;
    if (told.value <= 0) continue;
    text += fmt::format("GPU {}: {:.1f} J in {:.1f} s, {:.1f} W on average (by {})\n", board.index,
                        board.joules(), told.value, board.joules() / told.value,
                        board.counted > board.integrated ? "counter" : "power");
  }
  return text;
}

Result<Exit> replay(Context& context, const ObserveFlags& flags) {
  const auto text = TRY(context.files.read(flags.replay));
  const auto log = TRY(telemetry::read_log(text, flags.replay));
  if (const auto note = telemetry::torn_note(text, flags.replay); !note.empty())
    complain(context, note);
  StopRequest stop;
  Shown shown(context, flags);
  if (flags.format == "text" && !flags.watch) {
    say(context, observe::sample_text(log.back()) + "\n" + summary_of(log));
    return Exit::done;
  }
  for (std::size_t i = 0; i < log.size(); ++i) {
    const double pause = i == 0 ? 0 : (log[i].at - log[i - 1].at).value;
    const auto ns = static_cast<std::int64_t>(std::min(pause, 60.0) * 1e9);
    if (flags.watch && stop.within(ns)) break;
    shown.show(log[i]);
  }
  return Exit::done;
}

Result<Exit> live(Context& context, const ObserveFlags& flags, Seconds interval) {
  const OpenDriver opened = TRY(open_driver(context, flags.device));
  if (!flags.record.empty() && context.files.exists(flags.record))
    return bad_input("--record", flags.record + " exists already");
  const bool endless = flags.watch || !flags.record.empty();
  const int count = flags.count > 0 ? flags.count : endless ? 0 : 1;
  const auto interval_ns = static_cast<std::int64_t>(interval.value * 1e9);
  StopRequest stop;
  WallTime time(context.clock);
  Shown shown(context, flags);
  // Activities are since the reading before: the first is for that alone.
  const auto first = TRY(observe::take_sample(*opened.driver, time.now()));
  shown.remember(first);
  std::int64_t due = context.clock.now_ns();
  for (int taken = 0; count == 0 || taken < count; ++taken) {
    due += interval_ns;
    if (stop.within(std::max<std::int64_t>(0, due - context.clock.now_ns()))) break;
    due = std::max(due, context.clock.now_ns() - interval_ns);  // slow readings are not made up for
    const auto sample = TRY(observe::take_sample(*opened.driver, time.now()));
    if (!flags.record.empty())
      TRY(context.files.append(flags.record, telemetry::write_line(sample)));
    if (flags.record.empty() || flags.watch) shown.show(sample);
  }
  return Exit::done;
}

Result<Exit> run_observe(Context& context, const ObserveFlags& flags) {
  const auto interval = TRY(parse_duration("--interval", flags.interval));
  if (interval < Seconds{0.01}) return bad_input("--interval", "must be 10ms or more");
  if (!flags.replay.empty() && !flags.record.empty())
    return bad_input("--replay", "what was recorded is not recorded again");
  return flags.replay.empty() ? live(context, flags, interval) : replay(context, flags);
}

}  // namespace

Command add_observe(CLI::App& app) {
  auto [command, flags] = adding<ObserveFlags>(
      app, "observe",
      "Watch power, heat, clocks and activity of this node's GPUs and their instances");
  add_device_flags(*command, flags->device);
  flag(*command, "--watch", flags->watch);
  flag(*command, "--record", flags->record);
  flag(*command, "--replay", flags->replay);
  flag(*command, "--interval", flags->interval)->default_str(flags->interval);
  within(flag(*command, "--count", flags->count), 1, 1e9);
  one_of(command->add_option("--format", flags->format,
                             "Form of the result: tables or a picture, a line of JSON per sample, "
                             "or metrics for Prometheus"),
         {"text", "json", "prometheus"})
      ->default_str(flags->format);
  command->footer(
      "partita observe\n"
      "partita observe --watch --driver sim --machine machine.yaml\n"
      "partita observe --record day.jsonl --interval 1s\n"
      "partita observe --replay day.jsonl");
  return {command, [flags](Context& context) { return run_observe(context, *flags); }};
}

}  // namespace partita::cli
