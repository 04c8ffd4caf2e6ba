// Host: a queue's brain at its doors. What the brain wants kept is on disk before anything of it is
// performed or answered; where the disk refuses, nothing new begins and nothing is taken in until
// it has room again, and what runs goes on. Driver calls are the caller's to make (they take their
// time): next_change() says which, change_done() what came of it.
// Single-threaded. Doors must outlive it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "queue/host/doors.h"
#include "queue/store.h"
#include "queue/task_forms.h"

namespace partita::queue {

struct HostDoors {
  QueueStore& store;
  AttemptDoor& attempts;
  InstanceDoor& instances;
  // Joules that an instance, by its UUID, has taken until now, since some time; nothing: nobody
  // measures.
  std::function<std::optional<double>(const std::string& device)> joules = {};
  // Joules of CPUs and memory that an attempt has taken so far; nothing: nobody knows. It is asked
  // at its end, and not again.
  struct OfHost {
    double joules = 0, idle_joules = 0;
  };
  std::function<std::optional<OfHost>(long task, int attempt)> host_joules = {};
};

inline constexpr long kListed = 20'000;

// Which tasks are listed.
struct Page {
  bool all = false;  // the last kListed that have ended, too
  long after = 0;    // those of larger ids, the first `most` of them
  long most = 1'000'000'000;
};

class Host {
 public:
  // Takes up what the store has and the machine shows. `now`: nanoseconds since 1970, as in all
  // calls; never less than before.
  static Result<std::unique_ptr<Host>> open(const Config& config, const HostDoors& doors,
                                            Nanos now);

  // ---- what people ask: answered only once it is on disk
  Result<std::vector<Task>> submit(const Spec& spec, Nanos now);
  Result<void> ask(const Asked& asked, Nanos now);
  // not_found: there is none. What has ended is the store's to tell.
  Result<Shown> show(long task, Nanos now) const;
  // By id.
  Result<std::vector<Shown>> list(const Page& page, Nanos now) const;
  Result<std::vector<Run>> runs(long task) { return doors_.store.runs(task); }

  // ---- what it does
  // Hears of ended processes, decides, starts and stops; when to call again at the latest.
  std::optional<Nanos> turn(Nanos now);
  // The driver call that is due, once; its answer comes by change_done().
  struct Call {
    int node = 0;
    bool create = true;
    Place place;
  };
  std::optional<Call> next_call();
  void call_done(const Call& call, const Result<std::string>& device, Nanos now);
  // Whether somebody should look what is there: an attempt has failed, perhaps with its instance.
  // What it means is decided once saw() says it.
  bool wants_look() const { return !failed_.empty(); }
  // What a look between two driver calls has seen: what runs on instances that are gone is lost,
  // and begins elsewhere.
  void saw(const Result<InstanceDoor::Seen>& seen);
  // Places that others have now: nothing is planned there.
  void others(const std::vector<Place>& places);

  const Queue& queue() const { return queue_; }
  // Why nothing goes on; empty: all is well.
  const std::string& trouble() const { return trouble_; }

 private:
  Host(Queue queue, std::vector<Spot> spots, const HostDoors& doors)
      : queue_(std::move(queue)), spots_(std::move(spots)), doors_(doors) {}
  bool flush();
  bool is_failure(const Event& event) const;
  void measure(Outputs& outputs);
  void price(const Task& task, Run& run) const;
  void perform(const Action& action, Nanos now);
  Shown shown(const Task& task, Nanos now) const;
  Result<Task> find(long task) const;

  Queue queue_;
  std::vector<Spot> spots_;  // per node
  std::set<int> closed_;     // nodes that others have
  HostDoors doors_;
  std::vector<Event> events_;     // not yet told to the brain
  std::vector<Event> failed_;     // nor these, before somebody has looked
  std::optional<Outputs> stuck_;  // not yet on disk
  std::deque<Call> calls_;
  // Per attempt under way that was begun here, of its instances; nothing: they are not measured.
  std::map<long, std::optional<double>> joules_before_;
  std::string trouble_;
  Nanos now_ = 0;
};

}  // namespace partita::queue
