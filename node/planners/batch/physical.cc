#include "planners/batch/physical.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>

#include "planners/batch/fifo.h"

namespace partita::planners::batch {
namespace {

// The life of one instance, with what it waits for.
struct Life {
  int node = 0;
  std::vector<int> tasks = {};
  std::vector<int> next = {};  // lives that need its slices afterwards
  int waits = 0;               // lives that must be destroyed before it is created
  Nanos ready = 0;             // its slices are free, or, alive from the start, it is
  Nanos tail = 0;              // work from its creation on, along its longest chain of successors
  Nanos tail_destroy = 0;      // the same from its destruction on
  std::size_t begun = 0;       // tasks
  bool existed = false;        // alive from the start
  bool created = false;
  bool running = false;  // a task
  bool ending = false;   // its destruction has been asked for
  bool destroyed = false;
};

// A reconfiguration that could begin.
struct Request {
  Nanos ready = 0;
  int life = 0;
  bool create = true;
};

struct Happening {
  enum Kind { op_ended, task_ended, wake, reconfigurer };
  Nanos time = 0;
  Kind kind = wake;
  int subject = 0;  // a life, or a reconfigurer
  auto order() const { return std::tuple(time, static_cast<int>(kind), subject); }
  bool operator>(const Happening& other) const { return order() > other.order(); }
};

// Plays the visits through. Everything that happens at one time is taken in before the
// reconfigurers choose what to do next.
class Replay {
 public:
  Replay(const Forest& forest, Service service, const plan::BatchProblem* problem)
      : forest_(forest), service_(service), problem_(problem) {
    result_.node.assign(at(forest.tasks), -1);
    result_.begin.assign(at(forest.tasks), 0);
    result_.end.assign(at(forest.tasks), 0);
    pending_.resize(at(forest.reconfigurers()));
  }

  std::optional<Physical> run(const Visits& visits, const Start& start) {
    lay_out(visits, start);
    find_tails();
    if (problem_ != nullptr) find_predecessors();
    free_ = start.reconfigurer;
    free_.resize(at(forest_.reconfigurers()), 0);
    for (int r = 0; r < forest_.reconfigurers(); ++r) {
      queue_.push({free_[at(r)], Happening::reconfigurer, r});
    }
    for (std::size_t i = 0; i < lives_.size(); ++i) {
      if (lives_[i].waits == 0) wake(static_cast<int>(i), lives_[i].ready);
    }
    while (!queue_.empty()) {
      const Nanos now = queue_.top().time;
      while (!queue_.empty() && queue_.top().time == now) {
        const Happening happening = queue_.top();
        queue_.pop();
        take(happening);
      }
      for (const int reconfigurer : touched_) serve(reconfigurer, now);
      touched_.clear();
    }
    if (left_ > 0) return std::nullopt;
    finish(start);
    return std::move(result_);
  }

 private:
  // Lives in list order; a visit joins the life on its node when nothing conflicting came since.
  void lay_out(const Visits& visits, const Start& start) {
    last_.assign(at(forest_.columns()), -1);
    for (const Start::Alive& alive : start.alive) {
      Life& life = lives_[at(add_life(alive.node, start))];
      life.existed = life.created = true;
      life.ready = std::max(life.ready, alive.free);
    }
    for (const Visit& visit : visits) {
      if (visit.tasks.empty()) continue;
      const int life = life_of(visit.node, start);
      std::vector<int>& tasks = lives_[at(life)].tasks;
      tasks.insert(tasks.end(), visit.tasks.begin(), visit.tasks.end());
      left_ += visit.tasks.size();
      for (const int task : visit.tasks) result_.node[at(task)] = visit.node;
    }
  }

  int life_of(int node_index, const Start& start) {
    const Node& node = forest_.nodes[at(node_index)];
    const int last = last_[at(node.first_column)];
    bool continues = last >= 0 && lives_[at(last)].node == node_index;
    for (int c = 0; c < node.columns; ++c) {
      continues = continues && last_[at(node.first_column + c)] == last;
    }
    return continues ? last : add_life(node_index, start);
  }

  int add_life(int node_index, const Start& start) {
    const Node& node = forest_.nodes[at(node_index)];
    const int index = static_cast<int>(lives_.size());
    lives_.push_back({.node = node_index});
    Life& life = lives_.back();
    for (int c = node.first_column; c < node.first_column + node.columns; ++c) {
      int& last = last_[at(c)];
      if (last < 0) {
        if (!start.column.empty()) life.ready = std::max(life.ready, start.column[at(c)]);
      } else if (auto& next = lives_[at(last)].next; next.empty() || next.back() != index) {
        next.push_back(index);
        ++life.waits;
      }
      last = index;
    }
    return index;
  }

  void find_tails() {
    for (std::size_t i = lives_.size(); i-- > 0;) {
      Life& life = lives_[i];
      const Node& node = forest_.nodes[at(life.node)];
      Nanos after = 0;
      for (const int next : life.next) after = std::max(after, lives_[at(next)].tail);
      life.tail_destroy = life.next.empty() ? 0 : node.destroy + after;
      life.tail = (life.existed ? 0 : node.create) + life.tail_destroy;
      for (const int task : life.tasks) life.tail += forest_.time(task, life.node);
    }
  }

  // A predecessor outside these visits has ended before them.
  void find_predecessors() {
    before_ = precedence(problem_->tasks).before;
    for (std::vector<int>& before : before_) {
      std::erase_if(before, [&](int task) { return result_.node[at(task)] < 0; });
    }
    blocked_.resize(before_.size());
    finished_.assign(before_.size(), false);
  }

  void wake(int life, Nanos time) { queue_.push({time, Happening::wake, life}); }

  void take(const Happening& happening) {
    const Nanos now = happening.time;
    if (happening.kind == Happening::reconfigurer) {
      touched_.push_back(happening.subject);
      return;
    }
    Life& life = lives_[at(happening.subject)];
    if (happening.kind == Happening::op_ended) {
      touched_.push_back(forest_.reconfigurer_of(life.node));
      if (life.created) {
        destruction_ended(life, now);
        return;
      }
      life.created = true;
    } else if (happening.kind == Happening::task_ended) {
      task_ended(life, now);
    } else if (!life.created) {
      request(happening.subject, true, now);
      return;
    }
    advance(happening.subject, now);
  }

  void destruction_ended(Life& life, Nanos now) {
    life.destroyed = true;
    for (const int next : life.next) {
      Life& waiting = lives_[at(next)];
      waiting.ready = std::max(waiting.ready, now);
      if (--waiting.waits == 0) wake(next, waiting.ready);
    }
  }

  void task_ended(Life& life, Nanos now) {
    --left_;
    life.running = false;
    result_.makespan = std::max(result_.makespan, now);
    if (problem_ == nullptr) return;
    const auto task = at(life.tasks[life.begun - 1]);
    finished_[task] = true;
    for (const int waiting : blocked_[task]) wake(waiting, now);
    blocked_[task].clear();
  }

  // Begins the next task of a life that exists, or asks for its end.
  void advance(int index, Nanos now) {
    Life& life = lives_[at(index)];
    if (life.running || life.ending) return;
    if (life.begun == life.tasks.size()) {
      if (life.next.empty()) return;
      life.ending = true;
      request(index, false, now);
      return;
    }
    const int task = life.tasks[life.begun];
    if (problem_ != nullptr && must_wait(index, task, now)) return;
    ++life.begun;
    life.running = true;
    result_.begin[at(task)] = now;
    result_.end[at(task)] = now + forest_.time(task, life.node);
    queue_.push({result_.end[at(task)], Happening::task_ended, index});
  }

  bool must_wait(int index, int task, Nanos now) {
    for (const int before : before_[at(task)]) {
      if (finished_[at(before)]) continue;
      blocked_[at(before)].push_back(index);
      return true;
    }
    const Nanos release = problem_->tasks[at(task)].release;
    if (release <= now) return false;
    wake(index, release);
    return true;
  }

  void request(int life, bool create, Nanos now) {
    const int reconfigurer = forest_.reconfigurer_of(lives_[at(life)].node);
    pending_[at(reconfigurer)].push_back({now, life, create});
    touched_.push_back(reconfigurer);
  }

  // Gives an idle reconfigurer its next operation.
  void serve(int reconfigurer, Nanos now) {
    std::vector<Request>& waiting = pending_[at(reconfigurer)];
    if (waiting.empty() || free_[at(reconfigurer)] > now) return;
    const auto first = std::ranges::min_element(waiting, {}, [&](const Request& request) {
      const Life& life = lives_[at(request.life)];
      const Nanos tail = request.create ? life.tail : life.tail_destroy;
      return std::tuple(service_ == Service::longest_tail ? -tail : request.ready, request.life);
    });
    const Request chosen = *first;
    waiting.erase(first);
    const int index = lives_[at(chosen.life)].node;
    const Node& node = forest_.nodes[at(index)];
    const Nanos end = now + (chosen.create ? node.create : node.destroy);
    free_[at(reconfigurer)] = end;
    using Kind = plan::Reconfiguration::Op;
    result_.ops.push_back({chosen.create ? Kind::create : Kind::destroy, index, now, end});
    queue_.push({end, Happening::op_ended, chosen.life});
  }

  void finish(const Start& start) {
    Start& after = result_.after;
    after.column = start.column;
    after.column.resize(at(forest_.columns()), 0);
    after.reconfigurer = free_;
    for (const Life& life : lives_) {
      const Node& node = forest_.nodes[at(life.node)];
      Nanos end = life.existed ? life.ready : 0;
      for (const int task : life.tasks) end = std::max(end, result_.end[at(task)]);
      for (int c = node.first_column; c < node.first_column + node.columns; ++c) {
        after.column[at(c)] = std::max(after.column[at(c)], end);
      }
      if (!life.destroyed) after.alive.push_back({life.node, end});
    }
  }

  const Forest& forest_;
  Service service_;
  const plan::BatchProblem* problem_;
  std::vector<Life> lives_;
  std::vector<int> last_;                      // per column its latest life
  std::vector<std::vector<int>> before_;       // per task its predecessors in these visits
  std::vector<std::vector<int>> blocked_;      // per task the lives that wait for its end
  std::vector<bool> finished_;                 // per task
  std::vector<std::vector<Request>> pending_;  // per reconfigurer
  std::vector<Nanos> free_;                    // per reconfigurer
  std::vector<int> touched_;                   // reconfigurers that may have something to do
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> queue_;
  std::size_t left_ = 0;
  Physical result_;
};

}  // namespace

std::optional<Physical> realise(const Forest& forest, const Visits& visits, Service service,
                                const Start& start, const plan::BatchProblem* problem) {
  return Replay(forest, service, problem).run(visits, start);
}

Visits visits_of(const Forest& forest, const std::vector<int>& assignment, Direction direction,
                 const std::vector<int>& task_order) {
  std::vector<std::vector<int>> tasks(forest.nodes.size());
  for (const int task : task_order) tasks[at(assignment[at(task)])].push_back(task);
  Visits visits;
  for (std::size_t v = 0; v < tasks.size(); ++v) {
    if (!tasks[v].empty()) visits.push_back({static_cast<int>(v), std::move(tasks[v])});
  }
  if (direction == Direction::reverse) std::ranges::reverse(visits);
  return visits;
}

std::vector<int> longest_first(const Forest& forest, const std::vector<int>& assignment) {
  std::vector<int> order(assignment.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](int task) {
    return std::tuple(-forest.time(task, assignment[at(task)]), task);
  });
  return order;
}

std::vector<int> smith_order(const Forest& forest, const plan::BatchProblem& problem,
                             const std::vector<int>& assignment) {
  std::vector<int> order(assignment.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](int task) {
    const auto time = static_cast<double>(forest.time(task, assignment[at(task)]));
    return std::tuple(time / problem.tasks[at(task)].priority, task);
  });
  return order;
}

plan::BatchSchedule to_schedule(const Forest& forest, const plan::BatchProblem& problem,
                                const Physical& physical) {
  plan::BatchSchedule schedule;
  schedule.reconfigurer = problem.reconfigurer;
  for (const int model : problem.gpus) {
    schedule.gpu_models.push_back(problem.models[at(model)].name);
  }
  const auto profile_name = [&](const Node& node) {
    const hw::GpuModel& model = problem.models[at(problem.gpus[at(node.gpu)])];
    return model.profiles[at(node.profile)].name;
  };
  for (std::size_t t = 0; t < physical.node.size(); ++t) {
    if (physical.node[t] < 0) continue;
    const Node& node = forest.nodes[at(physical.node[t])];
    schedule.tasks.push_back({{profile_name(node), node.start},
                              node.gpu,
                              problem.tasks[t].name,
                              physical.begin[t],
                              physical.end[t]});
  }
  for (const Op& op : physical.ops) {
    const Node& node = forest.nodes[at(op.node)];
    schedule.reconfigurations.push_back(
        {{profile_name(node), node.start}, node.gpu, op.op, op.begin, op.end});
  }
  plan::put_in_order(schedule);
  return schedule;
}

}  // namespace partita::planners::batch
