#include "queue/slurm/past_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "base/append.h"
#include "base/document.h"
#include "base/index.h"
#include "base/parse_number.h"
#include "base/split.h"
#include "base/unicode.h"
#include "hw/layout.h"
#include "queue/slurm/job_mark.h"
#include "queue/times.h"

namespace partita::slurm {
namespace {

using plan::Nanos;

constexpr double kDayS = 86'400, kShortS = 0.5, kNanos = 1e9;
constexpr Nanos kLongest = plan::kMaxTaskTime;
constexpr const char* kAsk =
    "sacct -P -o JobID,JobName,User,State,Submit,ElapsedRaw,AllocTRES,Comment,SubmitLine";

std::string shown(std::string_view text) { return utf8(printable(text.substr(0, 80))); }

// ---- the text

// "2026-11-26T12:00:00", or seconds since 1970.
std::optional<long> time_of_day(std::string_view text) {
  if (const auto seconds = parse_number<long>(text)) return seconds;
  if (text.size() != 19 || text[4] != '-' || text[7] != '-' || text[10] != 'T') return {};
  const auto year = parse_number<int>(text.substr(0, 4));
  const auto month = parse_number<int>(text.substr(5, 2));
  const auto day = parse_number<int>(text.substr(8, 2));
  const auto time_s = parse_elapsed(text.substr(11));
  if (!year || !month || !day || !time_s || *month < 0 || *day < 0) return {};
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return {};
  return std::chrono::sys_days(date).time_since_epoch().count() * static_cast<long>(kDayS) +
         static_cast<long>(*time_s);
}

class Table {
 public:
  Table(std::string file, std::string_view text)
      : file_(std::move(file)), lines_(split(text, '\n')) {}
  Result<PastJobs> read();

 private:
  int column(std::string_view name) const;
  Result<void> check_columns() const;
  std::string cell(std::string_view name) const {
    const int index = column(name);
    return index < 0 ? "" : cells_[at(index)];
  }
  PastJob job() const;

  std::string file_;
  std::vector<std::string> lines_, header_, cells_;
};

int Table::column(std::string_view name) const {
  const auto same = [&](const std::string& one) { return lower_case(one) == lower_case(name); };
  const auto found = std::ranges::find_if(header_, same);
  return found == header_.end() ? -1 : static_cast<int>(found - header_.begin());
}

Result<void> Table::check_columns() const {
  for (const auto& any : {std::vector<std::string_view>{"JobID"},
                          {"State"},
                          {"ElapsedRaw", "Elapsed"},
                          {"AllocTRES", "ReqTRES"}}) {
    if (std::ranges::any_of(any, [&](std::string_view name) { return column(name) >= 0; }))
      continue;
    return bad_input(file_ + ":1", fmt::format("no column {}; ask with {}", any.front(), kAsk));
  }
  return {};
}

PastJob Table::job() const {
  PastJob job{cell("JobID"),     cell("JobName"), cell("User"),      cell("State"),
              cell("AllocTRES"), cell("Comment"), cell("SubmitLine")};
  if (job.tres.empty()) job.tres = cell("ReqTRES");
  job.took_s = parse_number<double>(cell("ElapsedRaw"));
  if (!job.took_s) job.took_s = parse_elapsed(cell("Elapsed"));
  job.submitted = time_of_day(cell("Submit"));
  return job;
}

Result<PastJobs> Table::read() {
  for (std::string& line : lines_)
    if (line.ends_with('\r')) line.pop_back();
  header_ = split(lines_.front(), '|');
  const bool closed = header_.back().empty();  // of `sacct -p`
  if (closed) header_.pop_back();
  TRY(check_columns());
  PastJobs past;
  for (const std::string& line : lines_ | std::views::drop(1)) {
    if (line.empty()) continue;
    cells_ = split(line, '|');
    if (closed && cells_.back().empty()) cells_.pop_back();
    if (cells_.size() > header_.size() && lower_case(header_.back()) == "submitline") {
      for (std::size_t i = header_.size(); i < cells_.size(); ++i)
        cells_[header_.size() - 1] += "|" + cells_[i];  // bars of the command's own
      cells_.resize(header_.size());
    }
    if (cells_.size() != header_.size()) {
      ++past.torn;
    } else if (cell("JobID").find('.') == std::string::npos) {
      past.jobs.push_back(job());
    }
  }
  return past;
}

// ---- JSON

const Node* under(const Node* node, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (node != nullptr) node = node->find(key);
  return node;
}

// A text, or the first of several.
std::string text_of(const Node* node) {
  if (node != nullptr && node->kind == Node::Kind::list)
    node = node->items.empty() ? nullptr : &node->items.front();
  return node != nullptr && node->kind == Node::Kind::string ? node->text : "";
}

// A number, or as later versions have it, {"set": true, "infinite": false, "number": 5}.
std::optional<double> number_of(const Node* node) {
  if (node != nullptr && node->kind == Node::Kind::object) {
    const Node* set = node->find("set");
    if (set != nullptr && !set->boolean) return {};
    node = node->find("number");
  }
  if (node == nullptr || node->kind != Node::Kind::number) return {};
  return node->number;
}

// [{"type": "gres", "name": "gpu:3g.40gb", "count": 1}, ...] as the text says it.
std::string tres_of(const Node* list) {
  std::string text;
  if (list == nullptr) return text;
  for (const Node& one : list->items) {
    const std::string type = text_of(one.find("type")), name = text_of(one.find("name"));
    append(text, "{}{}{}={:.0f}", text.empty() ? "" : ",", type, name.empty() ? "" : "/" + name,
           number_of(one.find("count")).value_or(0));
  }
  return text;
}

PastJob job_of(const Node& row) {
  PastJob job;
  if (const auto id = number_of(row.find("job_id"))) job.id = fmt::format("{:.0f}", *id);
  job.name = text_of(row.find("name"));
  job.user = text_of(row.find("user"));
  job.state = text_of(under(&row, {"state", "current"}));
  job.tres = tres_of(under(&row, {"tres", "allocated"}));
  if (job.tres.empty()) job.tres = tres_of(under(&row, {"tres", "requested"}));
  job.comment = text_of(under(&row, {"comment", "job"}));
  job.command = text_of(row.find("submit_line"));
  job.took_s = number_of(under(&row, {"time", "elapsed"}));
  if (const auto when = number_of(under(&row, {"time", "submission"})); when && *when < 1e15)
    job.submitted = static_cast<long>(*when);
  return job;
}

Result<PastJobs> parse_json(const std::string& file, std::string_view text) {
  const auto document = TRY(parse_document(file, text));
  const auto rows = TRY(list_member(document, document.root, "jobs"));
  PastJobs past;
  for (const Node& row : rows->items) {
    PastJob job = job_of(row);
    if (job.id.empty()) return bad_input(document.at(row), "a job without job_id");
    past.jobs.push_back(std::move(job));
  }
  return past;
}

// ---- tasks

// What a job had: a profile; or why it makes no task.
struct Had {
  const hw::MigProfile* profile = nullptr;
  const char* why = nullptr;
  std::string type = {};  // of a whole GPU, as Slurm calls it
};

bool is_shape(std::string_view type) {
  const std::size_t g = type.find("g.");
  return g != std::string_view::npos && g > 0 && type[g - 1] >= '0' && type[g - 1] <= '9';
}

constexpr const char* kNoGpu = "had no GPU";
constexpr const char* kSeveralGpus =
    "had several GPUs or instances at once, and a task here has one";
constexpr const char* kOtherShape =
    "had an instance that this GPU does not make, or none of its plain ones";

Had of_shape(const hw::GpuModel& model, const std::string& shape) {
  const int index = model.profile_index(shape);
  if (index < 0 || !model.profiles[at(index)].plain()) return {.why = kOtherShape};
  return {.profile = &model.profiles[at(index)]};
}

const hw::MigProfile* largest(const hw::GpuModel& model) {
  const std::vector<int> plain = hw::plain_profiles(model);
  return plain.empty() ? nullptr : &model.profiles[at(plain.back())];
}

// By the counts of `partita slurm`, which know one instance from two where they differ.
Had of_slices(const hw::GpuModel& model, long slices, long memory) {
  for (const hw::MigProfile& profile : model.profiles)
    if (profile.plain() && profile.gpcs == slices && profile.size == memory)
      return {.profile = &profile};
  return {.why = kSeveralGpus};
}

Had had_of(const hw::GpuModel& model, const PastJob& job) {
  if (const auto mark = parse_mark(job.comment); mark && *mark) {
    if ((*mark)->shapes.size() != 1) return {.why = kSeveralGpus};
    if (!(*mark)->whole()) return of_shape(model, (*mark)->shapes.front());
  }
  long gpus = 0, slices = 0, memory = 0, typed = 0;
  std::string type;
  for (const std::string& entry : split(job.tres, ',')) {
    const std::size_t equals = std::min(entry.find('='), entry.size());
    const std::string key = entry.substr(0, equals);
    const long count =
        equals < entry.size() ? parse_number<long>(entry.substr(equals + 1)).value_or(0) : 0;
    if (key == "gres/gpu") gpus = count;
    if (key == "gres/slice") slices = count;
    if (key == "gres/mslice") memory = count;
    if (!key.starts_with("gres/gpu:")) continue;
    typed += count;
    type = key.substr(9);
  }
  if (std::max(gpus, typed) > 1) return {.why = kSeveralGpus};
  if (typed == 1 && is_shape(type)) return of_shape(model, type);
  if (std::max(gpus, typed) == 1) return {.profile = largest(model), .why = nullptr, .type = type};
  return slices > 0 ? of_slices(model, slices, memory) : Had{.why = kNoGpu};
}

// Counts of what was left out or taken for something, as sentences.
class Said {
 public:
  void count(const std::string& what, const std::string& more = {}) {
    auto& one = counts_[what];
    ++one.first;
    if (!more.empty() && one.second.size() < 5) one.second.insert(more);
  }
  std::vector<std::string> sentences() const {
    std::vector<std::string> all;
    for (const auto& [what, counted] : counts_) {
      std::string names;
      for (const std::string& name : counted.second) names += (names.empty() ? "" : ", ") + name;
      all.push_back(fmt::format("{} job{} {}{}", counted.first, counted.first == 1 ? "" : "s", what,
                                names.empty() ? "" : " (" + names + ")"));
    }
    return all;
  }

 private:
  std::map<std::string, std::pair<long, std::set<std::string>>> counts_;
};

struct Chosen {
  const PastJob* job = nullptr;
  const hw::MigProfile* profile = nullptr;
  double took_s = 0;
};

std::vector<Chosen> chosen_of(const PastJobs& past, const hw::GpuModel& model, Said& said) {
  std::map<std::string, Chosen> by_id;  // the last run of a job that was requeued
  for (const PastJob& job : past.jobs) {
    const Had had = had_of(model, job);
    if (had.why != nullptr || had.profile == nullptr) {
      said.count(fmt::format("{}: left out", had.why != nullptr ? had.why : kOtherShape));
      continue;
    }
    if (job.state != "COMPLETED" || !job.took_s || !(*job.took_s >= 0)) {
      said.count("did not end well, so how long it takes is not known: left out",
                 shown(job.state.substr(0, job.state.find(' '))));
      continue;
    }
    if (!had.type.empty())
      said.count(
          fmt::format("had a GPU that Slurm calls by its type: taken for a whole {}", model.name),
          shown(had.type));
    if (*job.took_s < 1)
      said.count("took less than a second, of which sacct tells no more: taken for half a second");
    const double took_s = *job.took_s < 1 ? kShortS : *job.took_s;
    by_id[job.id] = {&job, had.profile, took_s};
  }
  std::vector<Chosen> chosen;
  for (const auto& [id, one] : by_id) chosen.push_back(one);
  std::ranges::stable_sort(chosen, {}, [](const Chosen& one) {
    return std::pair(one.job->submitted.value_or(0), one.job->id.size());
  });
  return chosen;
}

// Tasks of chosen jobs, with what their times are worth.
class Maker {
 public:
  Maker(const std::vector<Chosen>& chosen, const hw::GpuModel& model,
        std::optional<double> memory_gib);
  plan::Task task(const Chosen& one);
  void say(std::vector<std::string>& said) const;

 private:
  using Kind = std::pair<std::string, std::string>;  // user and name
  static Kind kind_of(const Chosen& one) { return {one.job->user, one.job->name}; }

  const hw::GpuModel& model_;
  const double memory_gib_;
  queue::Times times_;
  std::map<Kind, double> least_;  // GiB of the smallest that it has run on
  std::optional<long> first_;
  long guessed_ = 0, closed_ = 0, undated_ = 0;
};

Maker::Maker(const std::vector<Chosen>& chosen, const hw::GpuModel& model,
             std::optional<double> memory_gib)
    : model_(model), memory_gib_(memory_gib.value_or(1e9)) {
  for (const Chosen& one : chosen) {
    times_.learn({one.job->user, one.job->name, model.name, one.profile->gpcs}, one.took_s);
    const double has = one.profile->memory ? one.profile->memory->value / 1024 : 0;
    double& known = least_.try_emplace(kind_of(one), has).first->second;
    known = std::min(known, has);
    if (one.job->submitted)
      first_ = std::min(first_.value_or(*one.job->submitted), *one.job->submitted);
  }
}

plan::Task Maker::task(const Chosen& one) {
  queue::Spec spec{.name = one.job->name, .command = {}, .user = one.job->user};
  spec.memory_gib = std::min(memory_gib_, least_.at(kind_of(one)));
  for (const hw::MigProfile& profile : model_.profiles)  // what a column of times is of
    if (profile.plain()) spec.profiles.push_back(profile.name);
  const plan::SizeTimes sizes = times_.estimate(spec, model_).times;
  const double by = one.took_s * kNanos / static_cast<double>(sizes[one.profile->gpcs]);
  plan::Task task{.name = one.job->id, .times = {{}}, .command = one.job->command};
  for (const int profile : queue::profiles_for({}, model_)) {
    const int gpcs = model_.profiles[at(profile)].gpcs;
    const double time = static_cast<double>(sizes[gpcs]) * by;
    if (time > 0)
      task.times[0][gpcs] = std::clamp<Nanos>(std::llround(std::min(time, 1e18)), 1, kLongest);
    closed_ += time > 0 ? 0 : 1;
    guessed_ += time > 0 && gpcs != one.profile->gpcs ? 1 : 0;
  }
  if (one.job->submitted)
    task.release = std::min(*one.job->submitted - *first_, kLongest / plan::kNanosInSecond) *
                   plan::kNanosInSecond;
  undated_ += one.job->submitted ? 0 : 1;
  return task;
}

void Maker::say(std::vector<std::string>& said) const {
  const std::pair<long, const char*> all[] = {
      {undated_, "jobs have no time of submission: they are taken to come first"},
      {guessed_,
       "times are of sizes on which the job itself did not run: judged by its user's jobs of that "
       "name, and by the usual share of work that more slices do not shorten"},
      {closed_,
       "times are left empty: Slurm does not say how much of the GPU's memory a job used, and "
       "these sizes have less than any that it ran on; --gpu-memory says what is enough"}};
  for (const auto& [count, what] : all)
    if (count > 0) said.push_back(fmt::format("{} {}", count, what));
  said.emplace_back("Slurm keeps no dependencies of jobs that have ended: the tasks have none");
}

}  // namespace

std::optional<double> parse_elapsed(std::string_view text) {
  double days = 0;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    const auto number = parse_number<long>(text.substr(0, dash));
    if (!number || *number < 0 || *number > 1'000'000) return {};
    days = static_cast<double>(*number);
    text.remove_prefix(dash + 1);
  }
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 3) return {};
  double time_s = 0;
  for (const std::string& part : parts) {
    const auto number = parse_number<double>(part);
    if (!number || !(*number >= 0) || *number > 1e6) return {};
    time_s = time_s * 60 + *number;
  }
  return days * kDayS + time_s;
}

Result<PastJobs> parse_sacct(const std::string& file, std::string_view text) {
  TRY(check_text(file, text));
  if (text.starts_with('{')) return parse_json(file, text);
  return Table(file, text).read();
}

Result<ImportedTasks> tasks_of(const PastJobs& past, const hw::GpuModel& model,
                               std::optional<double> memory_gib) {
  Said said;
  const std::vector<Chosen> chosen = chosen_of(past, model, said);
  if (std::ssize(chosen) > plan::kMaxTasks)
    return bad_input(
        "", fmt::format("{} jobs, and a batch has at most {}", chosen.size(), plan::kMaxTasks));
  ImportedTasks imported{{{}, {model}, {0}}, said.sentences()};
  Maker maker(chosen, model, memory_gib);
  for (const Chosen& one : chosen) imported.problem.tasks.push_back(maker.task(one));
  if (past.torn > 0)
    imported.said.push_back(fmt::format(
        "{} rows have another number of cells than the header, as names with '|' in them do: left "
        "out",
        past.torn));
  maker.say(imported.said);
  return imported;
}

}  // namespace partita::slurm
