// A Slurm for tests: jobs, nodes, time, and the commands of Slurm that the placer uses. It starts
// a job once its beginning has come and its nodes have the slices as counts, as Slurm does; the
// node then makes the instances exactly where the mark says, or gives the job back, as the prolog
// does. Whoever uses it looks at what stands where.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/append.h"
#include "base/parse_number.h"
#include "base/split.h"
#include "hw/catalogue.h"
#include "queue/slurm/job_mark.h"
#include "queue/slurm/slurm_door.h"

namespace partita::slurm {

struct TestJob {
  long number = 0;
  std::string comment, required = {}, excluded = {}, reservation = {}, dependency = {};
  std::string reason = "BeginTime", features = {}, partition = "main";
  std::string told = {};         // as state_description
  std::string array_tasks = {};  // of those that wait together
  long array = 0;
  int task = -1, restarts = 0, cpus = 1;
  long priority = 100, begin = 0, submitted = 0, limit_min = 0, run_s = 10;  // limit 0: none
  bool exclusive = false, limited = false;  // `limited`: a limit of Slurm's keeps it from starting
  std::string state = "PENDING", node = {};
  long started = 0;
  int runs = 0;  // to the end
  long requeued = 0;
  long over = 0;  // of one that Slurm puts back: when its epilog is
};

struct TestNode {
  bool usable = true;
  int cpus = 16, slices = 7, memory = 8;
  std::set<int> strange = {};  // memory slices that somebody else uses
};

struct TestReservation {
  std::string name;
  std::set<std::string> nodes = {};
  long begin = 0, end = 0;
  std::string flags = "SPEC_NODES";
  std::map<std::string, int> cores = {};  // of these alone
};

class TestSlurm final : public SlurmDoor {
 public:
  explicit TestSlurm(int count) : model_(*hw::builtin_catalogue().find("A100-80GB")) {
    for (int i = 0; i < count; ++i) nodes["g" + std::to_string(i)] = {};
  }
  std::map<std::string, TestNode> nodes = {};
  std::map<long, TestJob> jobs = {};
  std::vector<TestReservation> reservations = {};
  long now = 1'000'000'000;
  long booted = 0;  // slurmctld
  int refusals = 0;
  int commands_left = -1;  // then they fail, as of a placer that is killed; -1: never

  long submit(const std::string& shapes, long run_s, TestJob job = {}) {
    job.number = ++last_;
    job.comment = "partita shapes=" + shapes;
    job.run_s = run_s;
    job.begin = now + 365L * 86'400;
    job.submitted = now;
    jobs[job.number] = job;
    return job.number;
  }

  // Ends what has run, starts what may.
  void tick(long seconds) {
    now += seconds;
    for (auto& [number, job] : jobs) {
      if (job.state == "RUNNING" && now - job.started >= job.run_s) {
        if (ended_.insert({number, job.submitted, job.restarts}).second) {
          job.state = "COMPLETED";
          ++job.runs;
          hear(job, kCompleted);
        } else if (now >= booted + 20) {
          lose(job, kEpilogS);
        }
      }
      if (job.state == "COMPLETING" && now >= job.over) put_back(job);
    }
    std::vector<TestJob*> order;
    for (auto& [number, job] : jobs)
      if (job.state == "PENDING" && job.array_tasks.empty()) order.push_back(&job);
    std::ranges::stable_sort(
        order, [](const TestJob* a, const TestJob* b) { return a->priority > b->priority; });
    for (TestJob* job : order) start(*job);
    check();
  }

  // By its user, while it runs.
  void requeue(long number) {
    TestJob& job = jobs.at(number);
    ++job.restarts;
    put_back(job);
  }
  // Slurm runs its jobs again, those at once of which it has forgotten the end.
  void fail_node(const std::string& name) {
    for (auto& [number, job] : jobs)
      if (job.state == "RUNNING" && job.node == name) lose(job, 0);
  }
  // Another slurmctld knows what the last one knew then; runs that have ended since it takes for
  // lost once its nodes have not told of them.
  void forget(const std::map<long, TestJob>& then) {
    for (auto& [number, job] : jobs) {
      const int runs = job.runs;
      job = then.at(number);
      job.runs = runs;
    }
    booted = now;
  }
  std::string heard = {};  // what jobcomp.lua has written

  bool all_done() const {
    return std::ranges::all_of(jobs, [](const auto& one) {
      return one.second.state == "COMPLETED" || !one.second.array_tasks.empty();
    });
  }

  Result<SlurmAnswer> run(const std::vector<std::string>& argv) override {
    if (commands_left == 0) return failed({ErrorCode::timeout, "killed", ""});
    if (commands_left > 0) --commands_left;
    const std::string what = argv[0] + " " + argv[1];
    if (what == "squeue --json") return SlurmAnswer{0, jobs_json(), ""};
    if (what == "sinfo --json") return SlurmAnswer{0, nodes_json(), ""};
    if (what == "scontrol -o") return SlurmAnswer{0, reservations_text(), ""};
    if (what == "scontrol show")
      return SlurmAnswer{0, fmt::format("BOOT_TIME               = {}\n", booted), ""};
    if (what == "scontrol update") return update(argv);
    if (what == "scontrol release") return release(argv[2]);
    if (what == "scontrol reconfigure") return SlurmAnswer{};
    if (argv[0] == "scancel" || argv[0] == "partita") {
      TestJob& job = *job_of(argv[argv[0] == "partita" ? 3 : 1]);
      job.state = "COMPLETED";
      hear(job, argv[0] == "partita" ? kCompleted : kCancelled);
      return SlurmAnswer{};
    }
    ADD_FAILURE() << "no such command: " << what;
    return SlurmAnswer{1, "", "no such command"};
  }

 private:
  // As in slurm.h.
  static constexpr int kCompleted = 3, kCancelled = 4, kNodeFail = 7;
  static constexpr long kEpilogS = 4;

  void hear(const TestJob& job, int state) {
    append(heard, "{} {} {} {} 0 {}\n", job.number, job.submitted, job.restarts, state, now);
  }
  void lose(TestJob& job, long epilog_s) {
    hear(job, kNodeFail);
    ++job.restarts;
    job.state = "COMPLETING";
    job.over = now + epilog_s;
  }
  // Its submission is renewed once its epilog is over.
  void put_back(TestJob& job) {
    job.state = "PENDING";
    job.node.clear();
    job.requeued = job.submitted = now;
    job.begin = now + 120;
  }

  struct Demand {
    int slices = 0, memory = 0;
  };
  Demand demand_of(const JobMark& mark) const {
    Demand sum;
    for (const std::string& shape : mark.shapes) {
      const int index = shape == kWhole ? largest() : model_.profile_index(shape);
      sum.slices += model_.profiles[at(index)].gpcs;
      sum.memory += model_.profiles[at(index)].size;
    }
    return sum;
  }
  int largest() const { return model_.profile_index("7g.80gb"); }
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static JobMark mark_of(const TestJob& job) {
    const auto mark = parse_mark(job.comment);
    return mark && *mark ? **mark : JobMark{};
  }

  // What a node has left, as Slurm counts.
  std::tuple<int, int, int, bool> left(const std::string& name) const {
    const TestNode& node = nodes.at(name);
    int slices = node.slices, memory = node.memory, cpus = node.cpus;
    bool empty = true;
    for (const auto& [number, job] : jobs) {
      if (job.state != "RUNNING" || job.node != name) continue;
      const Demand demand = demand_of(mark_of(job));
      slices -= demand.slices;
      memory -= demand.memory;
      cpus -= job.exclusive ? node.cpus : job.cpus;
      empty = false;
    }
    return {slices, memory, cpus, empty};
  }

  void start(TestJob& job) {
    if (job.priority == 0 || job.begin > now || !job.dependency.empty()) return;
    const JobMark mark = mark_of(job);
    const Demand demand = demand_of(mark);
    job.reason = job.limited ? "QOSMaxJobsPerUserLimit" : "Resources";
    if (job.limited) return;
    for (const auto& [name, node] : nodes) {
      if (!node.usable || (!job.required.empty() && job.required != name)) continue;
      if (is_reserved(job, name)) {
        EXPECT_NE(job.required, name) << job.number << " is to begin on a node that is reserved";
        continue;
      }
      const auto [slices, memory, cpus, empty] = left(name);
      if (slices < demand.slices || memory < demand.memory || cpus < job.cpus) continue;
      if (job.exclusive && !empty) continue;
      prolog(job, mark, name);
      return;
    }
  }

  // Whether a job may not begin there now, to its time limit; none: a year.
  bool is_reserved(const TestJob& job, const std::string& node) const {
    const long end = now + (job.limit_min == 0 ? 365L * 86'400 : job.limit_min * 60);
    const std::vector<std::string> mine = split(job.reservation, ',');
    bool in_one = job.reservation.empty(), alone = false, above = false;
    for (const TestReservation& one : reservations) {
      const bool asked = std::ranges::find(mine, one.name) != mine.end();
      const bool there = one.nodes.contains(node) && one.begin <= now && now < one.end;
      if (asked && (there || one.flags == "FLEX")) in_one = true;
      if (asked && one.flags.starts_with("MAINT")) above = true;
      if (asked || !one.nodes.contains(node) || one.end <= now || one.begin >= end) continue;
      const int cores = one.cores.contains(node) ? one.cores.at(node) : nodes.at(node).cpus;
      if (!job.exclusive && cores + job.cpus <= nodes.at(node).cpus) continue;
      alone = true;
    }
    return !in_one || (alone && !above);
  }

  std::string reservations_text() const {
    if (reservations.empty()) return "No reservations in the system\n";
    std::string text;
    for (const TestReservation& one : reservations) {
      const std::vector<std::string> list(one.nodes.begin(), one.nodes.end());
      append(text, "ReservationName={} StartTime={} EndTime={} Duration=1 Nodes={} NodeCnt={} ",
             one.name, one.begin, one.end, list.empty() ? "(null)" : joined(list, ","),
             list.size());
      append(text, "CoreCnt=1 Features=(null) PartitionName=main Flags={} ", one.flags);
      for (const auto& [node, cores] : one.cores)
        append(text, "  NodeName={} CoreIDs=0-{} ", node, cores - 1);
      text += "TRES=cpu=1 Users=root Groups=(null) State=ACTIVE Comment=Flags=FLEX Nodes=x\n";
    }
    return text;
  }

  // Memory slices that a running job uses on its node.
  std::set<int> used_by(const TestJob& job) const {
    const JobMark mark = mark_of(job);
    std::set<int> used;
    for (std::size_t i = 0; i < mark.seats.size(); ++i) {
      const int index = mark.shapes[i] == kWhole ? largest() : model_.profile_index(mark.shapes[i]);
      for (int s = 0; s < model_.profiles[at(index)].size; ++s)
        used.insert(mark.seats[i].start + s);
    }
    return used;
  }

  void prolog(TestJob& job, JobMark mark, const std::string& name) {
    // slurmd would skip the prolog, or not launch it.
    EXPECT_GT(now, job.requeued + 1) << job.number;
    job.node = name;
    if (mark.placed() && mark.node == name) {
      std::set<int> taken = nodes.at(name).strange;
      for (const auto& [number, other] : jobs)
        if (other.state == "RUNNING" && other.node == name) taken.merge(used_by(other));
      const std::set<int> wanted = used_by(job);
      if (std::ranges::none_of(wanted, [&](int s) { return taken.contains(s); })) {
        job.state = "RUNNING";
        job.started = now;
        return;
      }
    } else if (mark.whole() && nodes.at(name).strange.empty()) {
      mark.node = name;
      mark.seats.assign(mark.shapes.size(), {0, 0});
      job.comment = mark_text(mark);
      job.state = "RUNNING";
      job.started = now;
      return;
    }
    ++refusals;
    mark.node.clear();
    mark.seats.clear();
    mark.refused = name;
    job.comment = mark_text(mark);
    job.node.clear();
    job.priority = 0;
    ++job.restarts;
    job.requeued = now;
    job.begin = now + 120;
  }

  // The oracle: what runs is where its mark says, and no slice is used twice.
  void check() const {
    std::map<std::pair<std::string, int>, long> users;
    for (const auto& [number, job] : jobs) {
      if (job.state != "RUNNING") continue;
      const JobMark mark = mark_of(job);
      EXPECT_EQ(mark.node, job.node) << number;
      const std::set<int> used = used_by(job);
      const Demand demand = demand_of(mark);
      EXPECT_EQ(static_cast<int>(used.size()), demand.memory) << number;
      for (const int slice : used) {
        EXPECT_FALSE(nodes.at(job.node).strange.contains(slice));
        const auto [other, first] = users.emplace(std::pair(job.node, slice), number);
        EXPECT_TRUE(first) << "slice " << slice << " of " << job.node << " has " << other->second
                           << " and " << number;
      }
      for (std::size_t i = 0; i < mark.seats.size(); ++i) {
        const auto& starts =
            model_
                .profiles[at(mark.shapes[i] == kWhole ? largest()
                                                      : model_.profile_index(mark.shapes[i]))]
                .starts;
        EXPECT_NE(std::ranges::find(starts, mark.seats[i].start), starts.end()) << job.comment;
      }
    }
  }

  TestJob* job_of(const std::string& id) {
    const auto number = parse_number<long>(id);
    if (number) return jobs.contains(*number) ? &jobs[*number] : nullptr;
    const std::vector<std::string> parts = split(id, '_');
    const long array = parse_number<long>(parts[0]).value_or(0);
    const int task = parse_number<int>(parts[1]).value_or(-1);
    for (auto& [n, job] : jobs)
      if (job.array == array && job.task == task) return &job;
    return split_off(array, task);
  }
  // A task that is told something of its own leaves those that wait together.
  TestJob* split_off(long array, int task) {
    TestJob& all = jobs[array];
    auto waiting = slurm::array_tasks(all.array_tasks);
    if (!waiting || std::erase(waiting->tasks, task) == 0) return nullptr;
    TestJob one = all;
    one.number = waiting->tasks.empty() ? array : ++last_;
    one.array_tasks.clear();
    one.task = task;
    all.array_tasks = joined(waiting->tasks, ",");
    if (waiting->most > 0) append(all.array_tasks, "%{}", waiting->most);
    return &(jobs[one.number] = one);
  }

  Result<SlurmAnswer> update(const std::vector<std::string>& argv) {
    TestJob* job = nullptr;
    for (std::size_t i = 2; i < argv.size(); ++i) {
      const std::size_t equals = argv[i].find('=');
      const std::string key = argv[i].substr(0, equals), value = argv[i].substr(equals + 1);
      if (key == "JobId") {
        job = job_of(value);
        if (job == nullptr) return SlurmAnswer{1, "", "Invalid job id specified"};
        if (job->state != "PENDING") return SlurmAnswer{1, "", "Job is not pending"};
      } else if (key == "ReqNodeList") {
        job->required = value;
      } else if (key == "Comment") {
        job->comment = value;
      } else if (key == "StartTime") {
        job->begin = value == "now" ? now : now + 365L * 86'400;
      } else {
        ADD_FAILURE() << argv[i];
      }
    }
    return SlurmAnswer{};
  }
  Result<SlurmAnswer> release(const std::string& id) {
    if (TestJob* job = job_of(id)) job->priority = 50;
    return SlurmAnswer{};
  }

  std::string jobs_json() const {
    std::string text = "{\"jobs\": [";
    std::string_view between;
    for (const auto& [number, job] : jobs) {
      append(text, "{}\n{{\"job_id\": {}, \"array_job_id\": {}, \"array_task_id\": {}, ", between,
             number, job.array, job.task < 0 ? "null" : std::to_string(job.task));
      append(text, "\"array_task_string\": \"{}\", \"job_state\": \"{}\", ", job.array_tasks,
             job.state);
      append(text, "\"state_reason\": \"{}\", \"state_description\": \"{}\", ", job.reason,
             job.told);
      append(text, "\"priority\": {}, \"comment\": \"{}\", \"nodes\": \"{}\", ", job.priority,
             job.comment, job.node);
      append(text, "\"excluded_nodes\": \"{}\", \"partition\": \"{}\", \"features\": \"{}\", ",
             job.excluded, job.partition, job.features);
      append(text, "\"resv_name\": \"{}\", \"dependency\": \"{}\", \"shared\": {}, ",
             job.reservation, job.dependency, job.exclusive ? "\"none\"" : "null");
      append(text, "\"restart_cnt\": {}, \"eligible_time\": {}, \"submit_time\": {}, ",
             job.restarts, job.begin, job.submitted);
      append(text, "\"start_time\": {}, \"time_limit\": {}, \"cpus\": {}, ", job.started,
             job.limit_min == 0 ? "null" : std::to_string(job.limit_min), job.cpus);
      text += "\"memory_per_cpu\": 10, \"memory_per_node\": null, \"gres_detail\": []}";
      between = ",";
    }
    return text + "]}\n";
  }
  std::string nodes_json() const {
    std::string text = "{\"nodes\": [";
    std::string_view between;
    for (const auto& [name, node] : nodes) {
      const auto [slices, memory, cpus, empty] = left(name);
      append(text, "{}\n{{\"name\": \"{}\", \"state\": \"{}\", \"state_flags\": [{}], ", between,
             name, empty ? "idle" : "mixed", node.usable ? "" : "\"DRAIN\"");
      append(text, "\"cpus\": {}, \"alloc_cpus\": {}, \"real_memory\": 8000, ", node.cpus,
             node.cpus - cpus);
      text += "\"alloc_memory\": 0, \"partitions\": [\"main\"], \"active_features\": \"a,b\"}";
      between = ",";
    }
    return text + "]}\n";
  }

  const hw::GpuModel& model_;
  long last_ = 0;
  std::set<std::tuple<long, long, int>> ended_ = {};  // runs: job, submission, restarts
};

}  // namespace partita::slurm
