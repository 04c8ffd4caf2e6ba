#include <pwd.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <thread>

#include "act/carry/occupancy.h"
#include "api/client.h"
#include "api/documents.h"
#include "api/site.h"
#include "base/door/address.h"
#include "base/door/exchange.h"
#include "base/door/listener.h"
#include "base/shell_word.h"
#include "commands.h"
#include "control/host_meter.h"
#include "energy/instance_joules.h"
#include "lease/lease_desk.h"
#include "node/devices.h"
#include "queue/host/attempts.h"
#include "queue/host/calls.h"
#include "queue/host/instances.h"
#include "queue/queue_server.h"
#include "queue/store/sqlite_store.h"
#include "queue/task_forms.h"

namespace partita::cli {
namespace {

using serve::Reply;
using serve::Step;

std::string user_of(const serve::Peer& peer) {
  if (!peer.user) return "nobody";
  const passwd* entry = ::getpwuid(peer.user->uid);
  return entry != nullptr ? entry->pw_name : fmt::format("{}", peer.user->uid);
}

Reply refused(const Error& error) {
  return {.status = api::status_of(error), .text = api::error_json(api::api_error(error))};
}

class QueueExchange final : public serve::Exchange {
 public:
  QueueExchange(queue::Calls& calls, serve::HeadFacts facts, const api::Operation& operation,
                queue::Call call)
      : calls_(calls), facts_(std::move(facts)), operation_(operation), call_(std::move(call)) {}
  const serve::HeadFacts& facts() const override { return facts_; }
  Step begin() override {
    if (facts_.content_length > queue::kMaxSubmission) {
      reply = refused({ErrorCode::bad_input, "a submission has at most a megabyte", "body"});
      return Step::answer;
    }
    if (facts_.content_length == 0 && !facts_.chunked) return on_text();
    text_open = facts_.chunked;
    text_wanted = text_open ? queue::kMaxSubmission : facts_.content_length;
    return Step::text;
  }
  Step on_text() override {
    call_.body = std::move(text);
    auto answer = calls_.answer(call_);
    reply = answer ? Reply{.status = operation_.status, .text = *std::move(answer)}
                   : refused(answer.error());
    if (answer && operation_.answer == "text/plain") reply.content_type = operation_.answer;
    return Step::answer;
  }

 private:
  queue::Calls& calls_;
  serve::HeadFacts facts_;
  const api::Operation& operation_;
  queue::Call call_;
};

// The queue's own socket: operations of the table (api/operations.h) that are the queue's, for
// whoever may open it. Loop thread only.
class QueueSite final : public serve::Site {
 public:
  explicit QueueSite(queue::Calls& calls) : calls_(calls) {}

  std::shared_ptr<serve::Exchange> route(const serve::HttpHead& head,
                                         const serve::Peer& peer) override {
    serve::HeadFacts facts{.method = head.method, .method_name = std::string(head.method_name)};
    facts.content_length = head.content_length.value_or(0);
    facts.chunked = head.chunked;
    const std::size_t mark = std::min(head.target.find('?'), head.target.size());
    facts.path = head.target.substr(0, mark);
    const auto found = api::find_operation(facts.method_name, facts.path).found;
    const auto no = [&](Reply reply) {
      return std::make_shared<serve::AnsweredExchange>(facts, std::move(reply));
    };
    if (!found || !api::is_of_queue(found->operation->name))
      return no(refused({ErrorCode::not_found, "there is no such call", ""}));
    const auto query = api::read_query(*found->operation,
                                       head.target.substr(std::min(mark + 1, head.target.size())));
    if (!query) return no(refused(query.error()));
    queue::Call call =
        api::queue_call(found->operation->name, found->part, *query, user_of(peer), "");
    return std::make_shared<QueueExchange>(calls_, std::move(facts), *found->operation,
                                           std::move(call));
  }
  serve::Reply refusal(int status, std::string_view message) override {
    return {.status = status,
            .text = api::error_json({.code = "bad_request", .message = std::string(message)})};
  }

 private:
  queue::Calls& calls_;
};

using queue::Nanos;

constexpr Nanos kLook = 50'000'000;  // between two looks at processes
constexpr Nanos kLookAtOthers = 10'000'000'000;
constexpr Nanos kMeasure = 1'000'000'000;
constexpr double kReachesOnS = 2;
constexpr Nanos kLockWait = 30'000'000'000;
constexpr Nanos kLockRetry = 5'000'000;
constexpr unsigned kSocketMode = 0600;  // commands run as who serves: nobody else may submit

// "anna=4", "*=2" of everybody else.
template <class Take>
Result<void> each_user(const char* flag, const std::vector<std::string>& all, double least,
                       const Take& take) {
  for (const std::string& one : all) {
    const std::size_t equals = one.rfind('=');
    const auto value = equals == 0 || equals == std::string::npos
                           ? std::nullopt
                           : parse_number<double>(std::string_view(one).substr(equals + 1));
    if (!value || !(*value >= least) || *value > 1e6)
      return bad_input(flag,
                       fmt::format("'{}' is not USER=N, N from {:g} to 1,000,000", one, least));
    const std::string user = one.substr(0, equals);
    take(user == "*" ? "" : user, *value);
  }
  return {};
}

Result<void> users_of(const QueueServeFlags& flags, queue::Config& config) {
  TRY(each_user("--quota", flags.quotas, 0, [&](const std::string& user, double most) {
    config.quotas[user].running = static_cast<int>(most);
  }));
  TRY(each_user("--most-tasks", flags.most_tasks, 0, [&](const std::string& user, double most) {
    config.most_tasks[user] = static_cast<int>(most);
  }));
  return each_user("--share", flags.shares, 1e-3,
                   [&](const std::string& user, double due) { config.shares[user] = due; });
}

Result<queue::Config> config_of(const QueueServeFlags& flags, const OpenDriver& open,
                                const device::NodeState& node) {
  const auto usable = TRY(carry::usable_gpus(node));
  queue::Config config;
  std::map<std::string, int> models;
  for (const int index : usable) {
    const std::string& name = node.gpus[static_cast<std::size_t>(index)].model;
    const auto [found, fresh] = models.try_emplace(name, static_cast<int>(config.models.size()));
    if (fresh) config.models.push_back(*open.catalogue->find(name));
    config.gpus.push_back(found->second);
    config.indices.push_back(index);
  }
  config.reconfigurer.gpus_per_node = std::max(1, static_cast<int>(usable.size()));
  config.cpus = flags.cpus;
  config.ram_gib = flags.ram_gib;
  config.planning.ageing = Nanos{3600} * plan::kNanosInSecond;
  const std::pair<const std::string*, Nanos*> times[] = {{&flags.idle, &config.idle_return},
                                                         {&flags.grace, &config.grace},
                                                         {&flags.patience, &config.patience}};
  for (const auto& [text, into] : times) {
    const auto duration = TRY(parse_duration("--return-after, --grace and --urgent-after", *text));
    *into = plan::nanos(duration);
  }
  TRY(users_of(flags, config));
  return config;
}

// The host on a loop: processes looked at every now and then, driver calls on a thread, one at a
// time. While tasks wait or run, what is there and what others have is looked at, too.
class Server final : public QueueServer {
 public:
  struct Parts {
    std::unique_ptr<queue::SqliteStore> store;
    FileLock lock, node_lock;
    std::string logs, socket, powercap;
    std::size_t gpus = 0;
  };
  Server(Context& context, serve::Loop& loop, queue::InstanceDoor& instances, Parts parts)
      : loop_(loop),
        instances_(instances),
        parts_(std::move(parts)),
        origin_(wall_clock_ms() * 1'000'000 - serve::Loop::now_ns()),
        reader_(context.files, {.powercap = parts_.powercap}),
        attempts_(processes_, context.files, parts_.logs),
        timer_(loop, [this](std::int64_t) { turn(); }) {}
  ~Server() override {
    if (caller_.joinable()) caller_.join();
  }

  Result<void> begin(const queue::Config& config) {
    const auto joules = [this](const std::string& device) { return joules_of(device); };
    const auto host_joules = [this](long task, int attempt) { return of_host(task, attempt); };
    host_ = TRY(queue::Host::open(
        config, {*parts_.store, attempts_, instances_, joules, host_joules}, now()));
    calls_.emplace(queue::Calls::Doors{*host_, [this] { return now(); },
                                       [this](long task) { return attempts_.log_path(task); },
                                       [this] { turn(); }});
    site_.emplace(*calls_);
    desk_.emplace(serve::Desk{*site_, limits_, counts_});
    const auto fd = TRY(serve::listen_on_path(parts_.socket, kSocketMode));
    listener_ = serve::DoorListener::open(loop_, *desk_, fd);
    turn();
    return {};
  }

  queue::Calls& calls() override { return *calls_; }
  std::string text() const override {
    return fmt::format("queue on {} GPUs at {}", parts_.gpus, parts_.socket);
  }

 private:
  Nanos now() const { return origin_ + serve::Loop::now_ns(); }
  void turn() {
    const std::optional<Nanos> wake = host_->turn(now());
    begin_call();
    Nanos next = now() + kLook;
    if (wake) next = std::min(next, std::max(*wake, now() + 1'000'000));
    timer_.at(next - origin_);
  }

  // Runs it on the thread, then `done` with what it gave on the loop.
  template <class Ask, class Done>
  void aside(Ask ask, Done done) {
    calling_ = true;
    if (caller_.joinable()) caller_.join();
    caller_ = std::thread([this, ask = std::move(ask), done = std::move(done)] {
      loop_.post([this, done, answer = ask()] {
        calling_ = false;
        done(answer);
        turn();
      });
    });
  }

  void begin_call() {
    if (calling_ || begin_measuring()) return;
    if (const auto call = host_->next_call())
      return aside([this, call = *call] { return perform(call); },
                   [this, call = *call](const Result<std::string>& device) {
                     host_->call_done(call, device, now());
                     if (!device) looked_ = 0;  // something may be there that it does not know of
                   });
    const bool idle = host_->queue().planner().waiting().empty() && attempts_of_tasks().empty();
    if (!host_->wants_look() && (idle || now() - looked_ < kLookAtOthers)) return;
    looked_ = now();
    aside([this] { return instances_.look(); },
          [this](const Result<queue::InstanceDoor::Seen>& seen) { host_->saw(seen); });
  }

  // While anything runs, and once before.
  bool begin_measuring() {
    if (host_->queue().tasks().empty() || now() - measured_ < kMeasure) return false;
    measured_ = now();
    const Seconds at{static_cast<double>(measured_ - origin_) / 1e9};
    aside(
        [this, at, running = attempts_of_tasks()] {
          reader_.keep_only(running);
          return std::pair(instances_.sample(at), reader_.read(at, running));
        },
        [this](const std::pair<Result<telemetry::Sample>, telemetry::HostSample>& seen) {
          if (seen.first) meter_.see(*seen.first);
          host_meter_.see(seen.second, {});
        });
    return true;
  }
  static std::string attempt_name(long task, int attempt) {
    return fmt::format("{}.{}", task, attempt);
  }
  std::vector<observe::TenantProcess> attempts_of_tasks() const {
    std::vector<observe::TenantProcess> all;
    for (const auto& [id, task] : host_->queue().tasks())
      if (task.state == queue::State::running)
        all.push_back({attempt_name(id, task.attempts), task.pid, task.identity, true});
    return all;
  }
  std::optional<queue::HostDoors::OfHost> of_host(long task, int attempt) {
    const std::string name = attempt_name(task, attempt);
    const auto part = host_meter_.part_of(name);
    host_meter_.forget(name);
    if (!part) return std::nullopt;
    return queue::HostDoors::OfHost{part->joules, part->idle_joules};
  }
  // The last measurement is gone on from with the watts that there were.
  std::optional<double> joules_of(const std::string& device) const {
    const Seconds at{static_cast<double>(now() - origin_) / 1e9};
    if ((at - meter_.seen()).value > kReachesOnS) return std::nullopt;
    return meter_.of(device, at);
  }

  Result<std::string> perform(const queue::Host::Call& call) {
    if (call.create) return instances_.create(call.place);
    const auto done = instances_.destroy(call.place);
    return done ? Result<std::string>("") : failed(done.error());
  }

  serve::Loop& loop_;
  queue::InstanceDoor& instances_;
  Parts parts_;
  Nanos origin_, looked_ = 0, measured_ = 0;
  InstanceJoules meter_;
  observe::HostEnergyReader reader_;  // on the thread
  control::HostMeter host_meter_;
  RealProcesses processes_;
  queue::Attempts attempts_;
  std::unique_ptr<queue::Host> host_;
  std::optional<queue::Calls> calls_;
  std::optional<QueueSite> site_;
  serve::DoorLimits limits_;
  serve::DoorCounts counts_;
  std::optional<serve::Desk> desk_;
  std::unique_ptr<serve::DoorListener> listener_;
  serve::Loop::Timer timer_;
  std::thread caller_;
  bool calling_ = false;
};

// partita queue: tasks that wait for GPUs, asked of the queue that serves this node.

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
  const auto time = TRY(parse_duration("--takes", duration, kMaxTerm));
  known.time_s = time.value;
  return known;
}

// One word is a text for the shell; of several each is one word there, too.
std::string shell_text(const std::vector<std::string>& words) {
  if (words.size() == 1) return words.front();
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

Result<queue::Spec> spec_of(Context& context, const QueueFlags& flags) {
  if (!flags.file.empty())
    return read_input(context.files, "--submission", flags.file, queue::parse_submission);
  queue::Spec spec = flags.spec;
  spec.command = shell_text(flags.words);
  if (spec.command.empty()) return bad_input("COMMAND", "what is to run?");
  for (const std::string& text : flags.after) spec.after.push_back(TRY(dependency_of(text)));
  for (const std::string& text : flags.times) spec.times.push_back(TRY(time_of(text)));
  if (spec.memory_gib == 0.0) spec.memory_gib.reset();
  if (!flags.deadline.empty())
    spec.deadline_s = TRY(parse_duration("--deadline", flags.deadline, kMaxTerm)).value;
  if (!flags.limit.empty())
    spec.time_limit_s = TRY(parse_duration("--time-limit", flags.limit, kMaxTerm)).value;
  return spec;
}

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
  for (const std::string& word : flags.which) all.push_back(TRY(tasks_of(word)));
  if (all.size() == 1 && all.front().first == all.front().last) {
    flags.task = all.front().first;
    return run_show(context, flags, client, name);
  }
  queue::TasksDocument changed;
  for (const Tasks& tasks : all)
    for (long task = tasks.first; task <= tasks.last; ++task) {
      const auto before = TRY(of_task(client, "queue_task", task));
      const auto shown = TRY(shown_of(before));
      if (queue::is_over(shown.task.state)) continue;
      const auto answer = TRY(of_task(client, "queue_" + name, task));
      changed.tasks.push_back(TRY(shown_of(answer)));
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
  for (const long task : flags.tasks)
    for (;;) {
      const auto answer =
          TRY(reached ? of_task_again(context, client, task) : of_task(client, "queue_task", task));
      reached = true;
      const auto shown = TRY(shown_of(answer));
      if (queue::is_over(shown.task.state)) {
        done = done && shown.task.state == queue::State::done;
        break;
      }
      context.clock.sleep_ns(kWaitLook);
    }
  return done ? Exit::done : Exit::no;
}

void add_place(CLI::App& command, QueueFlags& flags) {
  takes(command, "--state-dir", flags.serve.state_dir, "--socket", flags.serve.socket);
  add_device_flags(command, flags.serve.device);
}

void add_submit(CLI::App& command, QueueFlags& flags) {
  queue::Spec& spec = flags.spec;
  spec.memory_gib = 0;
  command
      .add_option("COMMAND", flags.words,
                  "Shell command: one text, or a program and its arguments behind --")
      ->type_name("COMMAND");
  takes(command, "--submission", flags.file, "--task-name", spec.name, "--for-user", spec.user,
        "--directory", spec.directory, "--array", limited(spec.count, 1, queue::kMaxArray),
        "--after", flags.after, "--priority",
        limited(spec.priority, -queue::kMaxPriority, queue::kMaxPriority), "--deadline",
        flags.deadline, "--time-limit", flags.limit, "--retries",
        limited(spec.retries, 0, queue::kMaxRetries), "--held", spec.held, "--flexible",
        spec.flexible, "--gpu-memory", limited(*spec.memory_gib, 0, 1e6), "--profile",
        also(spec.profiles, "3g is any shape of three slices"), "--gpus",
        limited(spec.gpus, 1, queue::kMaxGpus, "Whole GPUs without --profile and --gpu-memory"),
        "--takes", flags.times, "--cpu-cores", limited(spec.cpus, 0, 1e6), "--ram",
        limited(spec.ram_gib, 0, 1e6), "--preemptible", spec.preemptible, "--checkpoint",
        spec.checkpoint);
  CLI::Option* submission = command.get_option("--submission");
  for (CLI::Option* said : command.get_options())
    if (said != submission && said != command.get_help_ptr()) submission->excludes(said);
}

void add_serve(CLI::App& queue, const std::shared_ptr<QueueFlags>& flags) {
  CLI::App* command = queue.add_subcommand("serve", "Serve a queue on this node's GPUs");
  add_place(*command, *flags);
  takes(*command, "--powercap", preset(flags->serve.powercap), "--return-after",
        preset(flags->serve.idle), "--grace", preset(flags->serve.grace), "--quota",
        flags->serve.quotas, "--most-tasks", flags->serve.most_tasks, "--share",
        flags->serve.shares, "--urgent-after", preset(flags->serve.patience));
  add_tariff_flags(*command, flags->serve.tariff);
  takes(*command, "--cpu-cores",
        limited(flags->serve.cpus, 0, 1e6, "Without it cores are not limited"), "--ram",
        limited(flags->serve.ram_gib, 0, 1e6, "Without it memory is not limited"));
}

}  // namespace

std::string queue_socket(const std::string& state_dir) { return state_dir + "/queue/queue.sock"; }

Result<std::unique_ptr<QueueServer>> QueueServer::start(Context& context, serve::Loop& loop,
                                                        const Place& place,
                                                        const QueueServeFlags& flags,
                                                        queue::InstanceDoor& instances) {
  auto config = TRY(config_of(flags, place.open, place.node));
  config.tariff = TRY(decide::load_tariff(context.files, flags.tariff));
  const std::string state = std::filesystem::absolute(place.state_dir).lexically_normal().string();
  Server::Parts parts;
  parts.gpus = config.gpus.size();
  parts.logs = state + "/queue/logs";
  parts.powercap = flags.powercap;
  parts.socket = flags.socket.empty() ? queue_socket(state) : flags.socket;
  TRY(context.files.make_directories(parts.logs));
  parts.node_lock = TRY(lock_queue(context, place.open, place.node));
  parts.lock = TRY(context.files.lock(state + "/queue/queue.lock"));
  parts.store = TRY(queue::SqliteStore::open(state + "/queue/queue.db"));
  auto server = std::make_unique<Server>(context, loop, instances, std::move(parts));
  TRY(server->begin(config));
  return server;
}

Result<Exit> serve_queue(Context& context, const QueueServeFlags& flags) {
  auto loop = TRY(serve::Loop::make());
  TRY(loop->on_signals({SIGINT, SIGTERM}, [&](int) { loop->stop(); }));
  OpenDriver open = TRY(open_driver(context, flags.device));
  const auto node = TRY(device::read_node(*open.bare));
  const auto take_lock = [&]() -> Result<FileLock> {
    const std::int64_t give_up = context.clock.now_ns() + kLockWait;
    for (;;) {
      Result<FileLock> taken = lock_node_only(context, open, node);
      if (taken || taken.error().code != ErrorCode::in_use || context.clock.now_ns() >= give_up)
        return taken;
      context.clock.sleep_ns(kLockRetry);
    }
  };
  RealProcesses processes;
  queue::LeasedInstances instances(lease_doors(context, open, processes), lease_log(open, node),
                                   take_lock);
  const auto server = TRY(QueueServer::start(
      context, *loop, {open, node, state_directory(flags.state_dir, node)}, flags, instances));
  note(context, server->text() + "\n");
  loop->run();
  return Exit::done;
}

Command add_queue(CLI::App& app) {
  CLI::App* queue = app.add_subcommand("queue", "Tasks that wait for GPUs");
  queue->require_subcommand(1);
  auto flags = std::make_shared<QueueFlags>();
  add_serve(*queue, flags);
  CLI::App* submit = queue->add_subcommand("submit", "Submit a task; prints its number");
  add_submit(*submit, *flags);
  CLI::App* list = queue->add_subcommand("list", "List waiting and running tasks");
  flag(*list, "--all", flags->all);
  static constexpr std::pair<const char*, const char*> kOfOne[] = {
      {"show", "Show a task"}, {"logs", "Print a task's output"}};
  static constexpr std::pair<const char*, const char*> kOfMany[] = {
      {"cancel", "Cancel tasks, running or not"},
      {"hold", "Put waiting tasks on hold"},
      {"release", "Release tasks that are on hold"}};
  for (const auto& [name, about] : kOfOne)
    within(queue->add_subcommand(name, about)->add_option("TASK", flags->task, "Its number"), 1,
           kMostTask)
        ->required();
  for (const auto& [name, about] : kOfMany)
    queue->add_subcommand(name, about)
        ->add_option("TASK", flags->which, "Numbers of tasks, and ranges such as 14-20")
        ->required();
  CLI::App* wait =
      queue->add_subcommand("wait", "Wait until tasks have ended; exit status 1 if one failed");
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
