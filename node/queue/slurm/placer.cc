#include "queue/slurm/placer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/index.h"
#include "base/split.h"

namespace partita::slurm {
namespace {

constexpr long kDay = 86'400;
constexpr long kYear = 365 * kDay;
constexpr long kFar = 100 * kDay;  // beginnings later than this are job_submit's
// A job's old credential is revoked to the second. Of a new one that is not later, slurmd skips the
// prolog or launches nothing. Clocks may differ a little.
constexpr long kAfterRequeueS = 3;
// After slurmctld has started: it may have forgotten its last seconds, and jobs that it takes for
// waiting still run until their nodes have been heard.
constexpr long kAfterBootS = 10;
// What is released is begun by Slurm a moment later, and by then its time limit reaches further.
constexpr long kBeginsWithinS = 5;
constexpr long kForgiven = 600;  // seconds after which a node is as good as new
constexpr int kMostDoublings = 5;
constexpr const char* kByLaunch = "launch";  // in place of the node that gave a job back
constexpr const char* kPutAway = "StartTime=now+365days";

double seconds_of(long limit_s) {
  return limit_s >= kNoLimit ? kNever : static_cast<double>(limit_s);
}

bool holds(const std::vector<std::string>& list, const std::string& one) {
  return std::ranges::find(list, one) != list.end();
}

// "a&b", "a|b", "a"; what else there is Slurm decides.
bool has_features(const SlurmNode& node, const std::string& wanted) {
  if (wanted.empty() || wanted.find_first_of("[](*!") != std::string::npos) return true;
  const auto here = [&](const std::string& one) { return holds(node.features, one); };
  if (wanted.find('|') != std::string::npos) return std::ranges::any_of(split(wanted, '|'), here);
  return std::ranges::all_of(split(wanted, '&'), here);
}

bool in_partition(const SlurmNode& node, const std::string& partitions) {
  return std::ranges::any_of(split(partitions, ','),
                             [&](const std::string& one) { return holds(node.partitions, one); });
}

// When Slurm would begin a job that it is given now: at the soonest, at the latest.
struct Start {
  long from_s = 0, to_s = 0;
};

// Whether a reservation keeps a job from a node until the job's time limit; `own`: that in which it
// would begin. So slurmctld decides (job_test_resv): a job without a limit takes a year.
bool keeps_away(const SlurmReservation& one, const SlurmReservation* own, const SlurmJob& job,
                const SlurmNode& node, Start start) {
  if (&one == own || !holds(one.nodes, node.name)) return false;
  if (one.end <= start.from_s || one.begin >= start.to_s + std::min(job.limit_s, kYear))
    return false;
  if (own != nullptr && (own->maintenance || (own->overlaps && !one.maintenance))) return false;
  const auto cores = one.cores.find(node.name);  // of some cores alone: the others are there
  if (cores == one.cores.end()) return true;
  return own == nullptr && (job.exclusive || cores->second + job.cpus > node.cpus);
}

// Whether a job may begin in a reservation that it names, on that node.
bool lets_in(const SlurmReservation& own, const SlurmNode& node, Start start) {
  return own.flexible || (own.begin <= start.from_s && start.to_s < own.end &&
                          (own.any_nodes || holds(own.nodes, node.name)));
}

// The reservation that keeps a job from beginning there, or nullptr.
const SlurmReservation* kept_by(const SlurmState& state, const SlurmJob& job, const SlurmNode& node,
                                Start start, const SlurmReservation* own = nullptr) {
  for (const SlurmReservation& one : state.reservations)
    if (keeps_away(one, own, job, node, start)) return &one;
  return nullptr;
}

// Whether reservations let a job begin there.
bool reservations_allow(const SlurmState& state, const SlurmJob& job, const SlurmNode& node,
                        Start start) {
  if (job.reservations.empty()) return kept_by(state, job, node, start) == nullptr;
  return std::ranges::any_of(state.reservations, [&](const SlurmReservation& own) {
    return holds(job.reservations, own.name) && lets_in(own, node, start) &&
           kept_by(state, job, node, start, &own) == nullptr;
  });
}

// Of a job that Slurm does not start although its place is free.
bool is_limit(const std::string& reason) {
  for (const char* one : {"QOS", "Assoc", "Licenses", "MaxCpuPerAccount", "PartitionTimeLimit",
                          "PartitionNodeLimit", "PartitionDown", "PartitionInactive",
                          "InvalidAccount", "InvalidQOS", "JobArrayTaskLimit", "Reservation"})
    if (reason.starts_with(one)) return true;
  return false;
}

// The profile of a shape on a board: by its name, or the largest for a whole GPU.
int profile_of_shape(const hw::GpuModel& model, const std::string& shape) {
  if (shape != kWhole) return model.profile_index(shape);
  int best = -1;
  for (std::size_t i = 0; i < model.profiles.size(); ++i) {
    const auto& one = model.profiles[i];
    if (one.plain() && (best < 0 || one.gpcs > model.profiles[at(best)].gpcs))
      best = static_cast<int>(i);
  }
  return best;
}

SlurmCommand place_command(const SlurmJob& job, JobMark mark) {
  SlurmCommand command{job.id, {"scontrol", "update", "JobId=" + job.id}, ""};
  command.argv.push_back("ReqNodeList=" + mark.node);
  command.argv.push_back("Comment=" + mark_text(mark));
  command.argv.push_back("StartTime=now");
  command.why = mark_text(mark);
  return command;
}

SlurmCommand put_away_command(const SlurmJob& job) {
  JobMark mark = *job.mark;
  mark.node.clear();
  mark.seats.clear();
  return {job.id,
          {"scontrol", "update", "JobId=" + job.id, "ReqNodeList=" + mark.nodes,
           "Comment=" + mark_text(mark), kPutAway},
          fmt::format("waits again: {}", job.reason)};
}

// Tells a slurmctld that was killed what it had heard. It has no way to end one that waits, as of
// which it forgot the beginning too, but to cancel it.
SlurmCommand end_again_command(const SlurmJob& job, const EndedRun& run) {
  if (run.cancelled || job.phase == Phase::waiting)
    return {job.id, {"scancel", job.id}, "has ended; Slurm forgot it"};
  return {job.id,
          {"partita", "slurm", "complete", std::to_string(job.number), std::to_string(run.status)},
          "has ended; Slurm forgot it"};
}

// A job that Slurm holds since its node would not launch it, as one that a node of ours gave back:
// its mark says so from now on, and Slurm forgets why with the next change.
SlurmCommand take_back_command(const SlurmJob& job) {
  JobMark mark = *job.mark;
  mark.node.clear();
  mark.seats.clear();
  mark.refused = kByLaunch;
  return {job.id,
          {"scontrol", "update", "JobId=" + job.id, "ReqNodeList=" + mark.nodes,
           "Comment=" + mark_text(mark), kPutAway},
          "was not launched"};
}

// slurmd refuses a second copy of a job that it runs, and Slurm drains the node for it: only a
// slurmctld that was killed, and forgot the first, does so.
void resume_nodes(const SlurmState& state, PlacerStep& step) {
  for (const SlurmNode& node : state.nodes)
    if (node.why == "Duplicate jobid")
      step.commands.push_back({node.name,
                               {"scontrol", "update", "NodeName=" + node.name, "State=RESUME"},
                               "drained since Slurm forgot what runs there"});
}

}  // namespace

// One step's picture of the cluster.
struct Placer::View {
  const SlurmState& state;
  const long now_s;
  std::vector<NodeRoom> rooms = {};
  std::vector<const SlurmNode*> nodes = {};  // of rooms
  std::map<std::string, std::size_t> index = {};
  std::vector<const SlurmJob*> waiting = {};
  std::set<const SlurmJob*> to_put_away = {};  // unless they get a place now
  std::map<long, int> at_once = {};            // tasks per array that are placed
  std::size_t released = 0, standing = 0;

  void add_nodes(const std::map<std::string, SiteGpus>& gpus);
  void stand(const SlurmJob& job, const std::string& node, double ends_s);
  void stand_somewhere(const SlurmJob& job, NodeRoom& room, double ends_s);
  void add_running(const SlurmJob& job);
  void add_released(const SlurmJob& job);
  Start start() const { return {now_s, now_s + kBeginsWithinS}; }
  bool could_have(const SlurmJob& job, const SlurmNode& node) const;
  bool is_barred(const SlurmJob& job) const;
  std::string reserved(const SlurmJob& job) const;
};

void Placer::View::add_nodes(const std::map<std::string, SiteGpus>& gpus) {
  for (const SlurmNode& node : state.nodes) {
    const auto found = gpus.find(node.name);
    if (found == gpus.end() || index.contains(node.name)) continue;
    index[node.name] = rooms.size();
    nodes.push_back(&node);
    NodeRoom room{.name = node.name};
    room.gpus.assign(static_cast<std::size_t>(found->second.count), {found->second.model, {}});
    room.cpus = node.cpus - node.busy_cpus;
    room.memory_mib = node.memory_mib - node.busy_memory_mib;
    room.empty = node.busy_cpus == 0;
    rooms.push_back(std::move(room));
  }
}

// What a job has where it is placed or runs.
void Placer::View::stand(const SlurmJob& job, const std::string& node, double ends_s) {
  const auto found = index.find(node);
  if (found == index.end()) return;
  NodeRoom& room = rooms[found->second];
  const JobMark& mark = *job.mark;
  if (mark.node != node) return stand_somewhere(job, room, ends_s);
  for (std::size_t i = 0; i < mark.seats.size(); ++i) {
    const Seat& seat = mark.seats[i];
    if (at(seat.gpu) >= room.gpus.size()) continue;
    GpuRoom& gpu = room.gpus[at(seat.gpu)];
    gpu.standing.push_back({{profile_of_shape(*gpu.model, mark.shapes[i]), seat.start}, ends_s});
  }
}

// Where it is on its node is not known: on the GPUs that Slurm gave it, else it may be anywhere.
void Placer::View::stand_somewhere(const SlurmJob& job, NodeRoom& room, double ends_s) {
  const auto here = std::ranges::find(job.nodes, room.name) - job.nodes.begin();
  const std::size_t n = static_cast<std::size_t>(here);
  const bool told = job.mark->whole() && n < job.gpus.size() && !job.gpus[n].empty();
  for (std::size_t g = 0; g < room.gpus.size(); ++g)
    if (!told || std::ranges::find(job.gpus[n], static_cast<int>(g)) != job.gpus[n].end())
      room.gpus[g].standing.push_back({{-1, 0}, ends_s});
}

void Placer::View::add_running(const SlurmJob& job) {
  const long left = std::max(job.started + job.limit_s - now_s, 1L);
  const double ends_s = job.limit_s >= kNoLimit ? kNever : static_cast<double>(left);
  for (const std::string& node : job.nodes) stand(job, node, ends_s);
  if (job.array > 0) ++at_once[job.array];
  ++standing;
}

void Placer::View::add_released(const SlurmJob& job) {
  stand(job, job.mark->node, seconds_of(job.limit_s));
  if (const auto found = index.find(job.mark->node); found != index.end()) {
    NodeRoom& room = rooms[found->second];
    room.cpus -= job.exclusive ? room.cpus : job.cpus;
    room.memory_mib -= job.memory_mib;
    room.empty = false;
  }
  if (job.array > 0) ++at_once[job.array];
  ++released;
}

// But for reservations.
bool Placer::View::could_have(const SlurmJob& job, const SlurmNode& node) const {
  const auto wanted = host_names(job.mark->nodes);
  return node.usable && in_partition(node, job.partition) && has_features(node, job.features) &&
         !holds(job.excluded, node.name) &&
         (!wanted || wanted->empty() || holds(*wanted, node.name));
}

// Whether a reservation that was made meanwhile keeps a job from where it was placed.
bool Placer::View::is_barred(const SlurmJob& job) const {
  const auto found = index.find(job.mark->node);
  return found != index.end() &&
         !reservations_allow(state, job, *nodes[found->second], {now_s, now_s});
}

// What keeps a job from every node that it could have, of reservations the first to end; or "".
std::string Placer::View::reserved(const SlurmJob& job) const {
  if (!job.reservations.empty()) return {};
  const SlurmReservation* first = nullptr;
  for (const SlurmNode* node : nodes) {
    if (!could_have(job, *node)) continue;
    const SlurmReservation* one = kept_by(state, job, *node, start());
    if (one == nullptr) return {};
    if (first == nullptr || one->end < first->end) first = one;
  }
  if (first == nullptr) return {};
  return fmt::format(
      "job {}: no node until reservation {} is over; its time limit{} reaches into it", job.id,
      first->name,
      job.limit_s >= kNoLimit ? ", of which it has none,"
                              : fmt::format(" of {} min", job.limit_s / 60));
}

// Whether a job that waits is for us to place now.
bool Placer::is_ours(long now_s, const SlurmJob& job) const {
  const JobMark& mark = *job.mark;
  if (mark.whole() && mark.refused.empty()) return false;       // Slurm's
  if (job.priority == 0 && mark.refused.empty()) return false;  // held by somebody
  if (job.depends || mark.begin > now_s) return false;
  const bool later = job.eligible > now_s && job.eligible < now_s + kFar;
  if (later && !mark.placed() && mark.refused.empty()) return false;  // so its user said
  const auto rests = rests_.find(job.id);
  return rests == rests_.end() || rests->second <= now_s;
}

void Placer::forget(const SlurmState& state) {
  std::set<std::string> there;
  for (const SlurmJob& job : state.jobs)
    if (job.phase == Phase::waiting) there.insert(job.id);
  std::erase_if(tried_, [&](const auto& one) { return !there.contains(one.first); });
  std::erase_if(rests_, [&](const auto& one) { return !there.contains(one.first); });
  std::erase_if(refused_, [&](const auto& one) { return !there.contains(one.first); });
  std::erase_if(requeued_, [&](const auto& one) { return !there.contains(one.first); });
}

// A node that refused is left alone for a while, longer each time.
void Placer::heed_refusal(long now_s, const SlurmJob& job) {
  const auto known = refused_.find(job.id);
  if (known != refused_.end() && known->second == job.restarts) return;
  refused_[job.id] = job.restarts;
  Distrust& node = distrusted_[job.mark->refused];
  if (now_s > node.until + kForgiven) node.refusals = 0;
  node.refusals = std::min(node.refusals + 1, kMostDoublings);
  node.until = now_s + (settings_.rest_s << (node.refusals - 1));
}

// Whether it is too early to start again what has been ended a moment ago.
bool Placer::just_requeued(long now_s, const SlurmJob& job) {
  if (job.restarts == 0) return false;
  const Requeue seen{job.restarts, now_s};
  Requeue& known = requeued_.try_emplace(job.id, seen).first->second;
  if (known.restarts != job.restarts) known = seen;
  return now_s < known.seen_s + kAfterRequeueS;
}

// The run that Slurm takes for one to come or to end, if it has ended.
const EndedRun* Placer::ended_run(const SlurmState& state, const SlurmJob& job) {
  for (const EndedRun& run : std::ranges::equal_range(state.ended, job.id, {}, &EndedRun::id))
    if (run.is(job.submitted, job.restarts)) return &run;
  return nullptr;
}

// A job that waits: with a place, and Slurm is to start it; for us; or for others.
void Placer::add_waiting(View& view, const SlurmJob& job) {
  const bool released = job.mark->placed() && job.eligible <= view.now_s && job.priority > 0 &&
                        !job.depends && job.mark->refused.empty() && !view.is_barred(job);
  if (released && job.eligible + settings_.stuck_s > view.now_s) return view.add_released(job);
  if (released && is_limit(job.reason)) {
    rests_[job.id] = view.now_s + settings_.rest_s;
    view.to_put_away.insert(&job);
    return;
  }
  if (released) tried_[job.id].insert(job.mark->node);
  if (!job.mark->refused.empty()) heed_refusal(view.now_s, job);
  if (!is_ours(view.now_s, job)) return;
  // Else Slurm starts it by itself: where it once was, some time after a requeue.
  if (job.eligible < view.now_s + kFar && job.mark->refused.empty()) view.to_put_away.insert(&job);
  if (!just_requeued(view.now_s, job)) view.waiting.push_back(&job);
}

// What is asked of the placing; nothing: it has to rest, everywhere was in vain.
std::optional<WaitingJob> Placer::asked(const View& view, const SlurmJob& job) {
  WaitingJob one{.id = job.id, .shapes = job.mark->shapes};
  const auto tried = tried_.find(job.id);
  bool spared = false;
  for (std::size_t n = 0; n < view.nodes.size(); ++n) {
    const auto distrust = distrusted_.find(view.nodes[n]->name);
    if (distrust != distrusted_.end() && distrust->second.until > view.now_s) continue;
    const SlurmNode& node = *view.nodes[n];
    if (!view.could_have(job, node) || !reservations_allow(view.state, job, node, view.start()))
      continue;
    const bool vain = tried != tried_.end() && tried->second.contains(view.nodes[n]->name);
    if (!vain) one.nodes.push_back(n);
    spared = spared || vain;
  }
  if (one.nodes.empty() && spared) {
    tried_.erase(job.id);
    rests_[job.id] = view.now_s + settings_.rest_s;
    return std::nullopt;
  }
  one.cpus = job.cpus;
  one.memory_mib = job.memory_mib;
  one.exclusive = job.exclusive;
  one.limit_s = seconds_of(job.limit_s);
  one.keeps = view.now_s - std::max(job.submitted, job.mark->begin) >= settings_.patience_s;
  for (std::string& shape : one.shapes)
    if (shape == kWhole && !one.nodes.empty()) {
      const hw::GpuModel& model = *view.rooms[one.nodes.front()].gpus.front().model;
      shape = model.profiles[at(profile_of_shape(model, shape))].name;
    }
  return one;
}

// Places for those that wait, as commands.
void Placer::place(View& view, PlacerStep& step) {
  std::vector<WaitingJob> waiting;
  std::vector<const SlurmJob*> askers;
  std::size_t kept = 0;
  for (const SlurmJob* job : view.waiting) {
    if (waiting.size() >= settings_.window) break;
    if (job->most_at_once > 0 && ++view.at_once[job->array] > job->most_at_once) continue;
    auto one = asked(view, *job);
    if (!one) continue;
    if (one->nodes.empty())
      if (std::string why = view.reserved(*job); !why.empty())
        step.complaints.push_back(std::move(why));
    one->keeps = one->keeps && ++kept <= settings_.kept;
    waiting.push_back(*std::move(one));
    askers.push_back(job);
  }
  for (const JobPlacement& placed : placing_.place(view.rooms, waiting)) {
    const SlurmJob& job = *askers[placed.job];
    JobMark mark = *job.mark;
    const bool held = job.priority == 0;
    mark.node = view.rooms[placed.node].name;
    mark.seats = placed.seats;
    mark.refused.clear();
    // Until the end its mark says that a node held it: a placer that is killed in between leaves no
    // job that looks like one held by its user.
    if (held) {
      step.commands.push_back(
          {job.id, {"scontrol", "update", "JobId=" + job.id, kPutAway}, "put away"});
      step.commands.push_back({job.id, {"scontrol", "release", job.id}, "released"});
    }
    step.commands.push_back(place_command(job, mark));
    view.to_put_away.erase(&job);
    ++view.released;
    std::erase(view.waiting, &job);
  }
}

PlacerStep Placer::step(long now_s, const SlurmState& state) {
  forget(state);
  PlacerStep step;
  View view{state, now_s};
  view.add_nodes(gpus_);
  for (const SlurmJob& job : state.jobs) {
    if (!job.why_unmarked.empty())
      step.complaints.push_back(fmt::format("job {}: {}", job.id, job.why_unmarked));
    if (!job.mark || job.phase == Phase::gone) continue;
    const EndedRun* ended = job.phase == Phase::leaving ? nullptr : ended_run(state, job);
    if (ended != nullptr) step.commands.push_back(end_again_command(job, *ended));
    if (job.unlaunched && job.mark->refused.empty() && ended == nullptr)
      step.commands.push_back(take_back_command(job));
    else if (job.phase == Phase::waiting && ended == nullptr)
      add_waiting(view, job);
    else if (job.phase != Phase::waiting)
      view.add_running(job);
  }
  // A new slurmctld that hears of the epilog of a job which it takes for running keeps the job's
  // share of the node for good, but for this.
  if (std::ranges::any_of(step.commands, [](const SlurmCommand& command) {
        return command.argv.front() == "partita";
      }))
    step.commands.push_back({"-", {"scontrol", "reconfigure"}, "shares of nodes are counted anew"});
  resume_nodes(state, step);
  std::ranges::stable_sort(view.waiting, [](const SlurmJob* a, const SlurmJob* b) {
    return std::pair(-a->priority, a->number) < std::pair(-b->priority, b->number);
  });
  if (now_s >= state.controller_since + kAfterBootS) place(view, step);
  for (const SlurmJob& job : state.jobs)
    if (view.to_put_away.contains(&job)) step.commands.push_back(put_away_command(job));
  step.waiting = view.waiting.size();
  step.released = view.released;
  step.standing = view.standing;
  return step;
}

}  // namespace partita::slurm
