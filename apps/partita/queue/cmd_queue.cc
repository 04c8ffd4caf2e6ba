// partita queue: tasks that wait for GPUs, asked of the queue that serves this node.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "api/client.h"
#include "base/parse_number.h"
#include "commands.h"
#include "flags.h"
#include "node/state_dir.h"
#include "queue/queue_server.h"
#include "queue/task_forms.h"
#include "tariff_flags.h"

namespace partita::cli {
namespace {

constexpr std::int64_t kWaitLook = 200'000'000;
constexpr std::int64_t kQueueAway = 300'000'000'000;
constexpr double kMostTask = 1e15;
constexpr std::size_t kListedAtOnce = 2'000;  // so that the queue goes on meanwhile

struct QueueFlags {
  QueueServeFlags serve;
  Output output;
  queue::Spec spec;
  std::string file, deadline, limit;
  std::vector<std::string> words, after, times, which;
  std::vector<long> tasks;
  long task = 0;
  bool all = false;
};

// The queue that serves this node.
Result<api::Client> queue_here(Context& context, const QueueFlags& flags) {
  std::string socket = flags.serve.socket;
  if (socket.empty()) {
    const auto state =
        TRY(found_state_directory(context, flags.serve.device, flags.serve.state_dir));
    socket = std::filesystem::absolute(queue_socket(state)).string();
  }
  if (!context.files.exists(socket))
    return failed(
        {ErrorCode::lost, "no queue serves here; `partita queue serve` starts one", socket});
  return api::Client::to({.socket = socket}, {}, context.clock);
}

// ---- what is submitted

// "12", "any:12", "not_ok:12"
Result<queue::Dependency> dependency_of(const std::string& text) {
  queue::Dependency one;
  std::string_view rest = text;
  using Kind = queue::Dependency::Kind;
  for (const auto& [word, kind] :
       {std::pair{"any:", Kind::any}, {"not_ok:", Kind::not_ok}, {"ok:", Kind::ok}}) {
    if (!rest.starts_with(word)) continue;
    rest.remove_prefix(std::string_view(word).size());
    one.kind = kind;
    break;
  }
  const auto task = parse_number<long>(rest);
  if (!task)
    return bad_input("--after", fmt::format("'{}' is not TASK, any:TASK, not_ok:TASK", text));
  one.task = *task;
  return one;
}

// "3g=40s", "40s"
Result<queue::KnownTime> time_of(const std::string& text) {
  queue::KnownTime known;
  std::string duration = text;
  if (const std::size_t equals = text.find("g="); equals != std::string::npos) {
    const auto gpcs = parse_number<int>(std::string_view(text).substr(0, equals));
    if (!gpcs) return bad_input("--takes", fmt::format("'{}' is not SIZE=TIME, as 3g=40s", text));
    known.gpcs = *gpcs;
    duration = text.substr(equals + 2);
  }
  const auto time = TRY(parse_duration("--takes", duration));
  known.time_s = time.value;
  return known;
}

// One word is a text for the shell; of several each is one word there, too.
std::string shell_text(const std::vector<std::string>& words) {
  if (words.size() == 1) return words.front();
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,@%+-";
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

Result<queue::Spec> spec_of(Context& context, const QueueFlags& flags) {
  queue::Spec spec = flags.spec;
  spec.command = shell_text(flags.words);
  if (!flags.file.empty()) {
    const auto text = TRY(context.files.read(flags.file));
    return queue::parse_submission(flags.file, text);
  }
  if (spec.command.empty()) return bad_input("COMMAND", "what is to run?");
  for (const std::string& text : flags.after) {
    const auto one = TRY(dependency_of(text));
    spec.after.push_back(one);
  }
  for (const std::string& text : flags.times) {
    const auto one = TRY(time_of(text));
    spec.times.push_back(one);
  }
  if (spec.memory_gib == 0.0) spec.memory_gib.reset();
  if (!flags.deadline.empty()) {
    const auto time = TRY(parse_duration("--deadline", flags.deadline));
    spec.deadline_s = time.value;
  }
  if (!flags.limit.empty()) {
    const auto time = TRY(parse_duration("--time-limit", flags.limit));
    spec.time_limit_s = time.value;
  }
  return spec;
}

// ---- commands

Result<Exit> show(Context& context, const QueueFlags& flags, const std::string& json,
                  const std::string& text) {
  return finish(context, flags.output, flags.output.json() ? json : text);
}

Result<Exit> run_submit(Context& context, const QueueFlags& flags, const api::Client& client) {
  const auto spec = TRY(spec_of(context, flags));
  const auto answer = TRY(client.call("queue_submit", {}, queue::submission_json(spec)));
  const auto tasks = TRY(queue::parse_tasks("the queue's answer", answer));
  if (const auto takes = std::ranges::min_element(spec.times, {}, &queue::KnownTime::time_s);
      takes != spec.times.end() && takes->time_s > spec.deadline_s.value_or(takes->time_s))
    complain(context, fmt::format("its deadline comes before it can be done: it takes {:.1f} s at "
                                  "least",
                                  takes->time_s));
  std::string text;
  for (const queue::Shown& shown : tasks.tasks) text += fmt::format("{}\n", shown.task.id);
  return show(context, flags, answer, text);
}

Result<Exit> run_list(Context& context, const QueueFlags& flags, const api::Client& client) {
  const bool lines = flags.output.format == "text" && flags.output.file.empty();
  queue::TasksDocument all;
  for (long after = 0;;) {
    const auto answer = TRY(client.call(
        "queue_tasks", {}, {},
        fmt::format("{}after={}&most={}", flags.all ? "all=true&" : "", after, kListedAtOnce)));
    auto page = TRY(queue::parse_tasks("the queue's answer", answer));
    if (lines) {
      const auto shown =
          show(context, flags, "", after == 0 ? queue::tasks_text(page) : queue::tasks_lines(page));
      if (!shown) return shown;
    } else {
      std::ranges::move(page.tasks, std::back_inserter(all.tasks));
    }
    if (page.tasks.size() < kListedAtOnce) break;
    after = page.tasks.back().task.id;
  }
  if (lines) return Exit::done;
  return show(context, flags, queue::tasks_json(all), queue::tasks_text(all));
}

// What is asked about a task; a number that none has is the caller's mistake.
Result<std::string> of_task(const api::Client& client, const std::string& operation, long task) {
  auto answer = client.call(operation, std::to_string(task));
  if (!answer && answer.error().code == ErrorCode::not_found)
    return bad_input("TASK", answer.error().message);
  return answer;
}

Result<queue::Shown> shown_of(const std::string& answer) {
  return queue::parse_shown("the queue's answer", answer);
}

Result<Exit> run_show(Context& context, const QueueFlags& flags, const api::Client& client,
                      const std::string& name) {
  const std::string operation = name == "show" ? "queue_task" : "queue_" + name;
  const auto answer = TRY(of_task(client, operation, flags.task));
  const auto shown = TRY(shown_of(answer));
  return show(context, flags, answer, queue::task_text(shown));
}

// "12", "14-20"
struct Tasks {
  long first = 0, last = 0;
};
Result<Tasks> tasks_of(const std::string& word) {
  const std::size_t dash = word.find('-');
  const auto first = parse_number<long>(std::string_view(word).substr(0, dash));
  const auto last = dash == std::string::npos
                        ? first
                        : parse_number<long>(std::string_view(word).substr(dash + 1));
  if (!first || !last || *first < 1 || *last < *first || *last - *first >= queue::kMaxArray)
    return bad_input("TASK", fmt::format("'{}' is neither the number of a task nor a range such as "
                                         "14-20, of {} at most",
                                         word, queue::kMaxArray));
  return Tasks{*first, *last};
}

// Cancels, holds or releases; of several those that are over stay as they are.
Result<Exit> run_change(Context& context, QueueFlags flags, const api::Client& client,
                        const std::string& name) {
  std::vector<Tasks> all;
  for (const std::string& word : flags.which) {
    const auto tasks = TRY(tasks_of(word));
    all.push_back(tasks);
  }
  if (all.size() == 1 && all.front().first == all.front().last) {
    flags.task = all.front().first;
    return run_show(context, flags, client, name);
  }
  queue::TasksDocument changed;
  for (const Tasks& tasks : all) {
    for (long task = tasks.first; task <= tasks.last; ++task) {
      const auto before = TRY(of_task(client, "queue_task", task));
      auto shown = shown_of(before);
      if (!shown) return failed(shown.error());
      if (queue::is_over(shown->task.state)) continue;
      const auto answer = TRY(of_task(client, "queue_" + name, task));
      shown = shown_of(answer);
      if (!shown) return failed(shown.error());
      changed.tasks.push_back(*std::move(shown));
    }
  }
  return show(context, flags, queue::tasks_json(changed), queue::tasks_text(changed));
}

Result<Exit> run_logs(Context& context, const QueueFlags& flags, const api::Client& client) {
  const auto answer = TRY(of_task(client, "queue_log", flags.task));
  return show(context, flags, answer, answer);
}

// The same of a queue that has been reached; one that is started anew meanwhile is waited for.
Result<std::string> of_task_again(Context& context, const api::Client& client, long task) {
  const std::int64_t give_up = context.clock.now_ns() + kQueueAway;
  for (bool said = false;;) {
    auto answer = of_task(client, "queue_task", task);
    const bool away = !answer && (answer.error().code == ErrorCode::lost ||
                                  answer.error().code == ErrorCode::environment);
    if (!away || context.clock.now_ns() >= give_up) return answer;
    if (!std::exchange(said, true))
      complain(context, to_string(answer.error()) + "; waiting for the queue");
    context.clock.sleep_ns(kWaitLook);
  }
}

// 0: all of them are done.
Result<Exit> run_wait(Context& context, const QueueFlags& flags, const api::Client& client) {
  bool done = true, reached = false;
  for (const long task : flags.tasks) {
    for (;;) {
      const auto answer =
          reached ? of_task_again(context, client, task) : of_task(client, "queue_task", task);
      reached = true;
      if (!answer) return failed(answer.error());
      const auto shown = TRY(shown_of(*answer));
      if (queue::is_over(shown.task.state)) {
        done = done && shown.task.state == queue::State::done;
        break;
      }
      context.clock.sleep_ns(kWaitLook);
    }
  }
  return done ? Exit::done : Exit::no;
}

// ---- flags

void add_place(CLI::App& command, QueueFlags& flags) {
  add_state_dir(command, flags.serve.state_dir);
  flag(command, "--socket", flags.serve.socket);
  add_device_flags(command, flags.serve.device);
}

void add_what(CLI::App& command, QueueFlags& flags) {
  queue::Spec& spec = flags.spec;
  command
      .add_option("COMMAND", flags.words,
                  "What the shell runs: one text, or a program and its arguments behind --")
      ->type_name("COMMAND");
  flag(command, "--submission", flags.file);
  flag(command, "--task-name", spec.name);
  flag(command, "--for-user", spec.user);
  flag(command, "--directory", spec.directory);
  within(flag(command, "--array", spec.count), 1, queue::kMaxArray);
  flag(command, "--after", flags.after);
  within(flag(command, "--priority", spec.priority), -queue::kMaxPriority, queue::kMaxPriority);
  flag(command, "--deadline", flags.deadline);
  flag(command, "--time-limit", flags.limit);
  within(flag(command, "--retries", spec.retries), 0, queue::kMaxRetries);
  flag(command, "--held", spec.held);
  flag(command, "--flexible", spec.flexible);
}

void add_needs(CLI::App& command, QueueFlags& flags) {
  queue::Spec& spec = flags.spec;
  spec.memory_gib = 0;
  within(flag(command, "--gpu-memory", *spec.memory_gib), 0, 1e6);
  flag(command, "--profile", spec.profiles, "3g is any shape of three slices");
  within(flag(command, "--gpus", spec.gpus, "Without --profile and --gpu-memory: whole ones"), 1,
         queue::kMaxGpus);
  flag(command, "--takes", flags.times);
  within(flag(command, "--cpu-cores", spec.cpus), 0, 1e6);
  within(flag(command, "--ram", spec.ram_gib), 0, 1e6);
  flag(command, "--preemptible", spec.preemptible);
  flag(command, "--checkpoint", spec.checkpoint);
}

void add_serve(CLI::App& queue, const std::shared_ptr<QueueFlags>& flags) {
  CLI::App* command = queue.add_subcommand("serve", "Serve a queue on this node's GPUs");
  add_place(*command, *flags);
  flag(*command, "--powercap", flags->serve.powercap)->capture_default_str();
  flag(*command, "--return-after", flags->serve.idle)->capture_default_str();
  flag(*command, "--grace", flags->serve.grace)->capture_default_str();
  flag(*command, "--quota", flags->serve.quotas);
  flag(*command, "--most-tasks", flags->serve.most_tasks);
  flag(*command, "--share", flags->serve.shares);
  flag(*command, "--urgent-after", flags->serve.patience)->capture_default_str();
  add_tariff_flags(*command, flags->serve.tariff);
  within(flag(*command, "--cpu-cores", flags->serve.cpus, "Without it they are not counted"), 0,
         1e6);
  within(flag(*command, "--ram", flags->serve.ram_gib, "Without it it is not counted"), 0, 1e6);
}

}  // namespace

Command add_queue(CLI::App& app) {
  CLI::App* queue = app.add_subcommand("queue", "Tasks that wait for GPUs");
  queue->require_subcommand(1);
  auto flags = std::make_shared<QueueFlags>();
  add_serve(*queue, flags);
  CLI::App* submit = queue->add_subcommand("submit", "Submit a task; prints its number");
  add_what(*submit, *flags);
  add_needs(*submit, *flags);
  CLI::App* list = queue->add_subcommand("list", "What waits and runs");
  flag(*list, "--all", flags->all);
  static constexpr std::pair<const char*, const char*> kOfOne[] = {{"show", "One task"},
                                                                   {"logs", "What a task printed"}};
  static constexpr std::pair<const char*, const char*> kOfMany[] = {
      {"cancel", "End tasks, or do not begin them"},
      {"hold", "Do not begin tasks"},
      {"release", "Let tasks begin that were held"}};
  for (const auto& [name, about] : kOfOne)
    within(queue->add_subcommand(name, about)->add_option("TASK", flags->task, "Its number"), 1,
           kMostTask)
        ->required();
  for (const auto& [name, about] : kOfMany)
    queue->add_subcommand(name, about)
        ->add_option("TASK", flags->which, "Their numbers, and ranges such as 14-20")
        ->required();
  CLI::App* wait = queue->add_subcommand("wait", "Wait for tasks; 1 where one is not done");
  within(wait->add_option("TASK", flags->tasks, "Their numbers"), 1, kMostTask)->required();
  for (CLI::App* command : queue->get_subcommands({})) {
    if (command->get_name() == "serve") continue;
    add_place(*command, *flags);
    add_output(*command, flags->output, {"text", "json"});
  }
  const auto ask = [flags, queue](Context& context, const api::Client& client) {
    const std::string name = queue->get_subcommands().front()->get_name();
    if (name == "submit") return run_submit(context, *flags, client);
    if (name == "list") return run_list(context, *flags, client);
    if (name == "logs") return run_logs(context, *flags, client);
    if (name == "wait") return run_wait(context, *flags, client);
    if (name == "show") return run_show(context, *flags, client, name);
    return run_change(context, *flags, client, name);
  };
  const auto here = [flags, queue, ask](Context& context) -> Result<Exit> {
    if (queue->get_subcommands().front()->get_name() == "serve")
      return serve_queue(context, flags->serve);
    const auto client = TRY(queue_here(context, *flags));
    auto done = ask(context, client);
    if (!done && done.error().code == ErrorCode::lost)
      return environment_error(
          done.error().context,
          "no queue serves here now; `partita queue serve` starts one, with what it had");
    return done;
  };
  const auto there = [queue, ask](Context& context, const api::Client& client) -> Result<Exit> {
    if (queue->get_subcommands().front()->get_name() == "serve")
      return bad_input("--server", "a queue serves the machine that it runs on");
    return ask(context, client);
  };
  return {queue, here, there};
}

}  // namespace partita::cli
