#include "act/batch/recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/index.h"

namespace partita::exec {
namespace {

using device::GpuState;
using device::Instance;
using Kind = Record::Kind;
using State = PastVisit::State;

// What the journal says of one visit.
struct Told {
  std::optional<Kind> last;  // create, created, stale or destroyed
  PastVisit visit;
};

void tell(Told& told, const Record& record) {
  told.last = record.kind;
  if (record.kind == Kind::create) told.visit.created.begin = record.time;
  if (record.kind == Kind::created) told.visit.created.end = record.time;
  if (record.kind == Kind::created || record.kind == Kind::stale) told.visit.made = record.made;
  if (record.kind == Kind::destroyed) told.visit.destroyed = record.time;
}

bool at_place(const Instance& instance, const Visit& visit) { return visit.place == instance; }

// What there is of the visit's instance; waiting: nothing. One whose tasks are over counts as alive
// also when it is half destroyed: all that is left to do is to destroy it.
State find_instance(const Visit& visit, Told& told, const GpuState& gpu, bool over) {
  for (const Instance& instance : gpu.instances) {
    if (!at_place(instance, visit)) continue;
    Made& made = told.visit.made;
    if (told.last == Kind::created && instance.whole() && instance.uuid() == made.uuid)
      return State::alive;
    const bool half = instance.compute.empty() && instance.gi_id == made.gi_id;
    if (told.last == Kind::created && half && over) return State::alive;
    const bool announced = told.last == Kind::create && !instance.busy();
    if (told.last == Kind::create ? announced : half) {
      made = {instance.gi_id, {}};
      return State::stale;
    }
  }
  return State::waiting;
}

class Recovery {
 public:
  Recovery(const Script& script, const Traces& traces) : script_(script), traces_(traces) {
    past_.tasks.resize(script.tasks.size());
    past_.visits.resize(script.visits.size());
    told_.resize(script.visits.size());
    for (std::size_t t = 0; t < script.tasks.size(); ++t)
      index_[script.tasks[t].name] = static_cast<int>(t);
  }

  Result<Past> run(const std::vector<Record>& records, device::NodeDriver& driver) {
    if (records.empty()) return std::move(past_);
    if (records.front().script != fingerprint(script_))
      return bad_input("journal",
                       "belongs to a run of another batch or schedule, or on other GPUs: finish "
                       "that run first, or remove the file");
    for (const Record& record : records) {
      TRY(take(record));
    }
    TRY(find_instances(driver));
    for (const int task : open_) use_traces(task);
    for (std::size_t v = 0; v < past_.visits.size(); ++v)
      if (past_.visits[v].state == State::alive) make_way(v);
    return std::move(past_);
  }

 private:
  Result<void> take(const Record& record) {
    past_.now = std::max(past_.now, record.time);
    switch (record.kind) {
      case Kind::create:
      case Kind::created:
      case Kind::stale:
      case Kind::destroyed:
        if (at(record.visit) >= told_.size())
          return bad_input("journal", fmt::format("no visit {}", record.visit));
        tell(told_[at(record.visit)], record);
        return {};
      case Kind::start:
      case Kind::stop:
      case Kind::end:
        return take_attempt(record);
      case Kind::run:
      case Kind::done:
        return {};
    }
    return {};
  }

  Result<void> take_attempt(const Record& record) {
    const auto found = index_.find(record.task);
    if (found == index_.end()) return bad_input("journal", "no task " + record.task);
    PastTask& task = past_.tasks[at(found->second)];
    if (record.kind == Kind::start) {
      task.attempts = record.attempt;
      task.begin = record.time;
      task.stopped = false;
      open_.insert(found->second);
    } else if (record.kind == Kind::stop) {
      task.stopped = true;
    } else {
      task.stopped = false;
      open_.erase(found->second);
      if (record.status == 0 && record.in_time) task.finished = record.time;
    }
    return {};
  }

  // A visit whose instance is gone is over when nothing is left to do on it.
  bool over(const Visit& visit) const {
    return std::ranges::all_of(visit.tasks,
                               [&](int t) { return past_.tasks[at(t)].finished.has_value(); });
  }

  Result<void> find_instances(device::NodeDriver& driver) {
    std::map<int, GpuState> gpus;
    for (const ScriptGpu& gpu : script_.gpus) {
      Result<GpuState> state = driver.read(gpu.device);
      if (!state && state.error().code != ErrorCode::lost) return failed(state.error());
      gpus[gpu.device] = state ? *std::move(state) : GpuState{};  // what was there went with it
    }
    for (std::size_t v = 0; v < told_.size(); ++v) {
      const Visit& visit = script_.visits[v];
      Told& told = told_[v];
      if (!told.last) continue;
      State state = State::waiting;
      if (told.last != Kind::destroyed)
        state = find_instance(visit, told, gpus[script_.gpus[at(visit.gpu)].device], over(visit));
      if (state == State::waiting && told.last != Kind::create && over(visit)) {
        state = State::gone;
        if (told.last != Kind::destroyed) told.visit.destroyed = past_.now;
      }
      told.visit.state = state;
      if (state != State::waiting) past_.visits[v] = told.visit;
    }
    return {};
  }

  void use_traces(int task) {
    PastTask& past = past_.tasks[at(task)];
    const std::pair key{script_.tasks[at(task)].name, past.attempts};
    if (const auto running = traces_.running.find(key); running != traces_.running.end())
      past.running = running->second;
    else if (const auto ended = traces_.ended.find(key); ended != traces_.ended.end())
      past.status = ended->second;
  }

  // Tasks that failed may be tried again, on instances that come before those that are there now.
  // An instance on which nothing runs makes way for them; one that is at work does not, and then
  // they are left out.
  void make_way(std::size_t visit) {
    const bool at_work = std::ranges::any_of(
        script_.visits[visit].tasks, [&](int t) { return past_.tasks[at(t)].running.has_value(); });
    for (const int before : all_before(visit)) {
      const Visit& other = script_.visits[at(before)];
      if (past_.visits[at(before)].state != State::waiting || over(other)) continue;
      if (!at_work) past_.visits[visit].state = State::stale;
      for (const int task : other.tasks)
        if (at_work && !past_.tasks[at(task)].finished) past_.tasks[at(task)].left_out = true;
    }
  }

  std::set<int> all_before(std::size_t visit) const {
    std::vector<int> queue = script_.visits[visit].after;
    std::set<int> all;
    while (!queue.empty()) {
      const int next = queue.back();
      queue.pop_back();
      if (!all.insert(next).second) continue;
      const std::vector<int>& after = script_.visits[at(next)].after;
      queue.insert(queue.end(), after.begin(), after.end());
    }
    return all;
  }

  const Script& script_;
  const Traces& traces_;
  std::map<std::string, int> index_;
  std::vector<Told> told_;
  std::set<int> open_;  // tasks whose last attempt has no end
  Past past_;
};

}  // namespace

std::vector<std::pair<std::string, int>> open_attempts(const std::vector<Record>& records) {
  std::map<std::string, int> open;
  for (const Record& record : records) {
    if (record.kind == Kind::start) open[record.task] = record.attempt;
    if (record.kind == Kind::end) open.erase(record.task);
  }
  return {open.begin(), open.end()};
}

Result<Past> recover(const Script& script, const std::vector<Record>& records, const Traces& traces,
                     device::NodeDriver& driver) {
  return Recovery(script, traces).run(records, driver);
}

}  // namespace partita::exec
