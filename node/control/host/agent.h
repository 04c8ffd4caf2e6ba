// Agent: runs a Loop at the doors. Reads what the loop sees, performs what it wants in the order
// that loop.h promises, and keeps its memory in the state directory. One thread: while a change is
// under way, actuate asks often whether it shall end, and then the loop is stepped when it is due.
// So the live agent and simulated weeks are the same code with other doors; a kill at any moment is
// followed by a new Agent that goes on.
// Thread rule: one call at a time per object; `errands` are run on the thread that calls step().
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "act/apply.h"
#include "act/gateway_state.h"
#include "act/hooks.h"
#include "control/host/agent_power.h"
#include "control/host/memory_file.h"
#include "control/loop.h"
#include "device/observe/host_energy.h"

namespace partita::control {

// What somebody asks of the loop, and who is told.
struct Inquiry {
  Asked asked;
  std::function<void(Reply)> answer;
};

// Everything in it must outlive the agent. Functions that are empty are not called.
struct AgentDoors {
  device::NodeDriver& driver;
  Files& files;
  Clock& clock;  // monotonic
  std::function<std::int64_t()> wall_ms;
  std::string state_dir;
  std::string services_file = {};  // empty: what is wanted comes by requests alone
  Processes* processes = nullptr;  // see actuate::Doors
  bool dry_run = false;            // nothing is kept, nothing is changed
  bool telemetry = true;           // reads what GPUs say of themselves at each look
  std::function<std::vector<Inquiry>()> inquiries = {};
  std::function<std::vector<std::function<void(class Agent&)>>()> errands = {};
  std::function<std::vector<HealthEvent>()> health = {};  // never waits
  std::string boot = {};                                  // see Seen
  observe::HostPaths host = {};                           // where CPUs and memory say their joules
  std::function<Result<void>(int gpu)> reset_gpu = {};    // see actuate::Doors
  bool can_reset = false;                                 // see actuate::ApplyOptions
  std::function<bool()> ending = {};  // asked often: somebody wants the agent to end
  std::function<std::vector<BatchRunNow>()> batch_runs = {};  // empty: nobody carries batches out
  // What the gateway says, where it is in this process; empty: it is read from its file.
  std::function<std::optional<actuate::GatewayState>()> gateway = {};
  std::function<Result<void>(const history::Event&)> record = {};
  std::function<Result<void>(const std::vector<history::Measured>&)> measure = {};
  std::function<void(const LoopNotice&)> notify = {};
  std::function<void(const std::vector<BatchDeed>&)> carry_batches = {};
  std::function<void(const Loop&)> publish = {};     // what it shows now
  std::function<void(const std::string&)> say = {};  // a sentence each
  // What the boards may draw together now, by who divides the fleet's power; nothing: what policy
  // says. Empty: nobody divides it.
  std::function<std::optional<double>()> budget_w = {};
  // What is the matter with its fleet, a sentence; empty: nothing is, or there is none.
  std::function<std::string()> fleet_fault = {};
  // What the names of power marks begin with, see actuate::PowerGuard; empty: none are kept.
  std::string power_marks = {};
  // Runs the hook of that name; `phase` is before or after.
  std::function<Result<void>(const std::string& name, const std::string& phase, long change)> hook =
      {};
};

std::string memory_path(const std::string& state_dir);

class Agent {
 public:
  // Goes on with the memory of the state directory. Files of it that are damaged are set aside, and
  // that is told; refused only where they cannot be moved out of the way.
  // `changes`: the highest number of a change that the history knows; see change_numbers.h.
  static Result<std::unique_ptr<Agent>> begin(AgentDoors doors, World world, long changes);

  // Goes on in place of `before`, which had other settings: who asked it and was not answered yet
  // is answered by this one.
  void take_over(Agent& before);
  // Looks, decides and does it, a change to its end; the time, since 1970, of the next look.
  std::int64_t step();
  // Looks at who serves alone; takes a whole step where a service does otherwise than was shown,
  // or where one is due; the time of the next look, as step(). To be called every kGlanceMs.
  std::int64_t glance();
  // Looks and decides; what was decided is said by the answer and not done.
  Deeds look_once();
  const Snapshot& snapshot() const { return loop_.snapshot(); }
  const AgentMemory& memory() const { return loop_.memory(); }
  Result<ChangeNow> preview(const std::string& services_text) const {
    return loop_.preview(services_text);
  }
  // Puts back what boards had before this agent, or one before it, set limits and clocks. For its
  // end: the next step would set them again.
  Result<void> end();
  // A change is being made.
  bool applying() const { return applying_.has_value(); }

 private:
  template <class T>
  struct Kept {  // what a text said, as long as it is the same
    std::string text;
    std::optional<Result<T>> value = {};
  };
  struct Applying {
    long change = 0;
    std::size_t steps = 0;
    bool stop = false;
  };

  Agent(AgentDoors doors, World world, AgentMemory memory, long changes);
  void mend();
  void tell(const Mended& mended);
  void tell_mended();
  Seen look();
  Result<device::NodeState> read_node();
  telemetry::Sample read_sample(std::int64_t now_ms);
  Result<std::optional<actuate::GatewayState>> gateway_now();
  ServersSeen look_at_servers();
  bool is_otherwise(std::int64_t now_ms);
  std::optional<double> budget_now() const {
    return doors_.budget_w ? doors_.budget_w() : std::nullopt;
  }
  void read_gateway(ServersSeen& servers);
  const actuate::WorkersState* workers_now();
  void decide();
  void perform(Deeds deeds, std::vector<Inquiry> asked);
  bool keep_memory();
  void carry_out(const ApplyDeed& deed);
  Result<void> carry_out_steps(const ApplyDeed& deed);
  bool pump();
  void say(const std::string& sentence) const;

  AgentDoors doors_;
  hw::Catalogue catalogue_;
  const bool sets_power_;
  Loop loop_;
  AgentPower power_;
  observe::HostEnergyReader host_;
  std::vector<std::string> uuids_;  // of the GPUs by index, as last read
  Kept<actuate::Assignment> assignment_;
  Kept<actuate::WorkersState> workers_;
  Kept<actuate::JournalState> journal_;
  std::vector<Inquiry> waiting_;  // to be asked at the next look
  std::vector<ApplyEnd> ended_;
  std::optional<Result<void>> power_back_;
  std::optional<ApplyDeed> to_apply_;
  std::optional<Applying> applying_;
  std::int64_t next_look_ms_ = 0, next_glance_ms_ = 0;
  std::optional<double> budget_w_;  // as it was seen last
  std::string fleet_fault_;         // the same
  bool unsaved_ = false;
  long last_number_ = 0;                           // of a change, as the state directory has it
  std::map<std::string, std::string> complaints_;  // what was said last, by what it is about
  std::vector<Mended> mended_;                     // files, and nobody was told yet
};

}  // namespace partita::control
