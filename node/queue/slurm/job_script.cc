#include "queue/slurm/job_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/append.h"
#include "base/document.h"
#include "base/parse_number.h"
#include "base/shell_word.h"
#include "base/split.h"
#include "base/unicode.h"
#include "queue/slurm/host_list.h"

namespace partita::slurm {
namespace {

constexpr std::string_view kMagic = "#SBATCH";
constexpr double kMinuteS = 60, kHourS = 3600, kDaysS = 86'400;
constexpr std::size_t kListedTasks = 1'000;  // of an array without an even step

// Options by their letter.
constexpr std::pair<char, const char*> kLetters[] = {
    {'J', "job-name"},        {'t', "time"},         {'n', "ntasks"},    {'c', "cpus-per-task"},
    {'a', "array"},           {'d', "dependency"},   {'D', "chdir"},     {'H', "hold"},
    {'o', "output"},          {'e', "error"},        {'i', "input"},     {'N', "nodes"},
    {'A', "account"},         {'p', "partition"},    {'q', "qos"},       {'G', "gpus"},
    {'C', "constraint"},      {'w', "nodelist"},     {'x', "exclude"},   {'L', "licenses"},
    {'b', "begin"},           {'k', "no-kill"},      {'Q', "quiet"},     {'s', "oversubscribe"},
    {'O', "overcommit"},      {'m', "distribution"}, {'S', "core-spec"}, {'M', "clusters"},
    {'B', "extra-node-info"}, {'F', "nodefile"},     {'W', "wait"},      {'v', "verbose"}};
// Those that need no value; one that has one all the same has it behind '='.
constexpr std::string_view kFlags[] = {
    "hold",       "no-kill",      "quiet",      "oversubscribe", "overcommit",
    "wait",       "verbose",      "exclusive",  "requeue",       "no-requeue",
    "contiguous", "parsable",     "spread-job", "reboot",        "use-min-nodes",
    "test-only",  "get-user-env", "nice",       "propagate",     "ignore-pbs"};
// Of no use to a queue on one node, or its own way already.
constexpr std::string_view kNeedless[] = {"nodes",   "requeue", "parsable", "quiet",
                                          "verbose", "no-kill", "exclusive"};

std::string in_words(std::string_view text) { return utf8(printable(text.substr(0, 80))); }

// "64G", "500M", "2000" (MiB): GiB.
std::optional<double> parse_memory(std::string_view text) {
  double by = 1.0 / 1024;
  constexpr std::pair<char, double> kUnits[] = {
      {'K', 1.0 / 1024 / 1024}, {'M', 1.0 / 1024}, {'G', 1}, {'T', 1024}};
  for (const auto& [letter, gib] : kUnits) {
    if (text.empty() || (text.back() != letter && text.back() != letter + ('a' - 'A'))) continue;
    by = gib;
    text.remove_suffix(1);
    break;
  }
  const auto number = parse_number<double>(text);
  if (!number || !(*number >= 0) || !(*number * by <= 1e6)) return {};
  return *number * by;
}

// The words of a line, as sbatch takes them: quotes hold blanks, '#' ends it.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  bool inside = false;
  char quote = 0;
  for (const char c : line) {
    const bool blank = c == ' ' || c == '\t' || c == '\r';
    if (quote == 0 && !inside && c == '#') break;
    if (quote == 0 && blank) {
      inside = false;
      continue;
    }
    if (!std::exchange(inside, true)) words.emplace_back();
    if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else {
      words.back() += c;
    }
  }
  return words;
}

class Reader {
 public:
  Reader(std::string file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  Result<void> line(std::string_view text, int number);
  void body(std::string_view text);
  Result<JobScript> script(std::string_view first_line);

 private:
  struct Option {
    std::string name, value;
    int line = 0;
  };
  tl::unexpected<Error> refuse(const Option& option, std::string_view what) const {
    return bad_input(fmt::format("{}:{}", file_, option.line),
                     fmt::format("--{}: '{}' is {}", option.name, in_words(option.value), what));
  }
  void say(std::string sentence) { script_.said.push_back(std::move(sentence)); }
  Result<void> count(const Option& option, int& into) const;
  Result<void> take(const Option& option);
  Result<void> take_gpus(const Option& option, std::string_view entry);
  Result<void> take_array(const Option& option);
  Result<void> take_more(const Option& option);

  std::string file_, path_;
  std::map<std::string, Option> options_;  // the last of each, as Slurm does
  JobScript script_;
  int tasks_ = 1, cpus_ = 0, gpus_ = 0;
  std::optional<double> ram_per_cpu_;
  std::string array_ = {};  // what sets SLURM_ARRAY_TASK_ID
  std::set<std::string> unused_, variables_;
  bool srun_ = false;
};

Result<void> Reader::line(std::string_view text, int number) {
  const std::vector<std::string> words = words_of(text);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    Option option{.name = {}, .value = {}, .line = number};
    bool given = false;
    if (word.starts_with("--") && word.size() > 2) {
      const std::size_t equals = std::min(word.find('='), word.size());
      option.name = word.substr(2, equals - 2);
      given = equals < word.size();
      if (given) option.value = word.substr(equals + 1);
    } else if (word.starts_with('-') && word.size() > 1) {
      for (const auto& [letter, name] : kLetters)
        if (letter == word[1]) option.name = name;
      option.value = word.substr(2);
      given = !option.value.empty();
    }
    if (option.name.empty())
      return bad_input(fmt::format("{}:{}", file_, number),
                       fmt::format("'{}' is no option of sbatch", in_words(word)));
    const bool flag = std::ranges::find(kFlags, option.name) != std::end(kFlags);
    if (!given && !flag) {
      if (i + 1 == words.size())
        return bad_input(fmt::format("{}:{}", file_, number),
                         fmt::format("--{} has no value", in_words(option.name)));
      option.value = words[++i];
    }
    options_[option.name] = std::move(option);
  }
  return {};
}

// What of its lines only Slurm gives: srun, and variables.
void Reader::body(std::string_view text) {
  const std::vector<std::string> words = words_of(text);
  srun_ = srun_ || std::ranges::find(words, "srun") != words.end();
  for (std::size_t at = text.find("SLURM_"); at != std::string_view::npos;
       at = text.find("SLURM_", at + 1)) {
    if (at == 0 || (text[at - 1] != '$' && text[at - 1] != '{')) continue;
    std::size_t end = at;
    while (end < text.size() && ((text[end] >= 'A' && text[end] <= 'Z') || text[end] == '_')) ++end;
    variables_.insert(std::string(text.substr(at, end - at)));
  }
}

Result<void> Reader::count(const Option& option, int& into) const {
  const auto number = parse_number<int>(option.value);
  if (!number || *number < 0 || *number > 1'000'000) return refuse(option, "no count");
  into = *number;
  return {};
}

// "gpu:3g.40gb:2", "gpu:2", "gpu", "3g.40gb:2", "2"; other resources are no concern here.
Result<void> Reader::take_gpus(const Option& option, std::string_view entry) {
  std::vector<std::string> words = split(entry, ':');
  if (words.front() == "gres") words.erase(words.begin());
  const bool named = option.name == "gres";
  if (named && (words.empty() || words.front() != "gpu")) {
    unused_.insert(fmt::format("gres={}", in_words(entry)));
    return {};
  }
  if (named) words.erase(words.begin());
  int number = 1;
  if (!words.empty()) {
    if (const auto last = parse_number<int>(words.back())) {
      if (*last < 1 || *last > 1'000) return refuse(option, "no count of GPUs");
      number = *last;
      words.pop_back();
    }
  }
  if (words.size() > 1) return refuse(option, "no request for GPUs");
  gpus_ += number;
  queue::Spec& spec = script_.spec;
  const std::string type = words.empty() ? "" : words.front();
  const bool shape = type.find("g.") != std::string::npos;
  if (shape && std::ranges::find(spec.profiles, type) == spec.profiles.end())
    spec.profiles.push_back(type);
  if (!shape)
    say("it asks for a whole GPU, and Slurm does not say whether it needs one: here it may have an "
        "instance of any size; --profile or --gpu-memory says what it needs");
  return {};
}

// Tasks with an even step by arithmetic, others as a list.
Result<void> Reader::take_array(const Option& option) {
  const auto array = array_tasks(option.value);
  if (!array || array->tasks.empty()) return refuse(option, "no array");
  const std::vector<int>& tasks = array->tasks;
  const int step = tasks.size() > 1 ? tasks[1] - tasks[0] : 1;
  bool even = true;
  for (std::size_t i = 1; i < tasks.size(); ++i) even = even && tasks[i] - tasks[i - 1] == step;
  if (!even && tasks.size() > kListedTasks) return refuse(option, "too long a list");
  script_.spec.count = static_cast<int>(tasks.size());
  if (even) {
    array_ = fmt::format("SLURM_ARRAY_TASK_ID=$((PARTITA_ARRAY_INDEX * {} + {})); ", step,
                         tasks.front());
  } else {
    array_ = "set --";
    for (const int task : tasks) append(array_, " {}", task);
    array_ += "; shift $PARTITA_ARRAY_INDEX; SLURM_ARRAY_TASK_ID=$1; ";
  }
  array_ += "export SLURM_ARRAY_TASK_ID; ";
  if (tasks.size() == 1)  // no array here, so without an index
    array_ = fmt::format("SLURM_ARRAY_TASK_ID={}; export SLURM_ARRAY_TASK_ID; ", tasks.front());
  if (array->most > 0)
    say(
        fmt::format("at most {} tasks of the array at once: the queue knows quotas of users only "
                    "(`partita queue serve --quota`)",
                    array->most));
  return {};
}

// What the queue has no word for.
Result<void> Reader::take_more(const Option& option) {
  const std::string& name = option.name;
  if (name == "dependency")
    say(
        fmt::format("it waits for '{}', jobs of Slurm that the queue does not know: say with "
                    "--after what it waits for here",
                    in_words(option.value)));
  else if (name == "begin" || name == "deadline")
    say(fmt::format("--{}={} is a time of day: submit it then, or hold it and release it", name,
                    in_words(option.value)));
  else if (name == "output" || name == "error")
    say(fmt::format("--{}: the queue keeps what it prints itself (`partita queue show --logs`)",
                    name));
  else if (std::ranges::find(kNeedless, name) == std::end(kNeedless))
    unused_.insert("--" + in_words(name));
  if (const auto nodes = parse_number<int>(option.value); name == "nodes" && nodes && *nodes > 1)
    say(fmt::format("it asks for {} nodes: a task of the queue has one", *nodes));
  return {};
}

Result<void> Reader::take(const Option& option) {
  const std::string &name = option.name, &value = option.value;
  queue::Spec& spec = script_.spec;
  if (name == "job-name") {
    spec.name = value;
  } else if (name == "chdir") {
    spec.directory = value;
  } else if (name == "hold") {
    spec.held = true;
  } else if (name == "ntasks") {
    return count(option, tasks_);
  } else if (name == "cpus-per-task") {
    return count(option, cpus_);
  } else if (name == "array") {
    return take_array(option);
  } else if (name == "time") {
    const auto limit = parse_time_limit(value);
    if (!limit) return refuse(option, "no time");
    if (*limit <= 1e9) spec.time_limit_s = *limit;
  } else if (name == "mem" || name == "mem-per-cpu") {
    const auto memory = parse_memory(value);
    if (!memory) return refuse(option, "no memory");
    if (name == "mem") spec.ram_gib = *memory;
    if (name == "mem-per-cpu") ram_per_cpu_ = *memory;
  } else if (name == "gres" || name == "gpus" || name == "gpus-per-node" || name == "mig") {
    for (const std::string& entry : split(value, ','))
      if (auto taken = take_gpus(option, entry); !taken) return taken;
  } else {
    return take_more(option);
  }
  return {};
}

Result<JobScript> Reader::script(std::string_view first_line) {
  for (const auto& [name, option] : options_) TRY(take(option));
  queue::Spec& spec = script_.spec;
  const bool counted = cpus_ > 0 || tasks_ > 1;
  spec.cpus = static_cast<int>(
      std::min(1e6, counted ? static_cast<double>(std::max(1, cpus_)) * std::max(1, tasks_) : 0));
  if (ram_per_cpu_ && spec.ram_gib == 0)
    spec.ram_gib = std::min(1e6, *ram_per_cpu_ * std::max(1, spec.cpus));
  spec.gpus = std::clamp(gpus_, 1, 1'000);
  if (gpus_ == 0) say("it asks for no GPU: every task of the queue has an instance all the same");
  if (gpus_ > 1) say(fmt::format("it asks for {} instances: the queue gives a task one", gpus_));
  // Its own interpreter, since it need not be executable.
  std::string shell = first_line.starts_with("#!") ? std::string(first_line.substr(2)) : "/bin/sh";
  while (!shell.empty() && (shell.back() == '\r' || shell.back() == ' ')) shell.pop_back();
  spec.command = fmt::format("{}exec {} {}", array_, shell, quoted_for_shell(path_));
  if (spec.command.size() > queue::kMaxCommand)
    return bad_input(file_, fmt::format("its command has more than {} bytes", queue::kMaxCommand));
  if (!unused_.empty()) say(fmt::format("the queue knows nothing of {}", joined(unused_, ", ")));
  if (!array_.empty()) variables_.erase("SLURM_ARRAY_TASK_ID");
  if (!variables_.empty())
    say(fmt::format("it reads {}, which only Slurm sets", joined(variables_, ", ")));
  if (srun_) say("it calls srun, which needs Slurm");
  if (!spec.time_limit_s)
    say("it says no time limit; how long it takes is learned from its runs, or said with --takes");
  return std::move(script_);
}

}  // namespace

std::optional<double> parse_time_limit(std::string_view text) {
  const std::string word = lower_case(text);
  if (word == "unlimited" || word == "infinite") return std::numeric_limits<double>::infinity();
  double time_s = 0;
  const std::size_t dash = text.find('-');
  const bool days = dash != std::string_view::npos;
  if (days) {
    const auto number = parse_number<int>(text.substr(0, dash));
    if (!number || *number < 0) return {};
    time_s = *number * kDaysS;
    text.remove_prefix(dash + 1);
  }
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() > 3) return {};
  // "D-H:M:S", "H:M:S", "M:S", "M".
  const bool hours = days || parts.size() == 3;
  double unit = hours ? kHourS : kMinuteS;
  for (const std::string& part : parts) {
    const auto number = parse_number<int>(part);
    if (!number || *number < 0) return {};
    time_s += *number * unit;
    unit /= 60;
  }
  return time_s > 0 ? time_s : std::numeric_limits<double>::infinity();
}

Result<JobScript> parse_job_script(const std::string& file, std::string_view text,
                                   const std::string& path) {
  TRY(check_text(file, text));
  Reader reader(file, path);
  const std::vector<std::string> lines = split(text, '\n');
  bool commands = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    if (commands) {
      reader.body(line);
    } else if (line.starts_with(kMagic)) {
      const auto taken = reader.line(line.substr(kMagic.size()), static_cast<int>(i) + 1);
      if (!taken) return failed(taken.error());
    } else if (!line.starts_with('#') && line.find_first_not_of(" \t\r") != std::string::npos) {
      commands = true;  // what is below is no option to Slurm
      reader.body(line);
    }
  }
  return reader.script(lines.front());
}

}  // namespace partita::slurm
