// The work of a Loop: what it keeps between steps, in parts that are in several sources
// (loop.cc: the step and what runs; loop_requests.cc, loop_given.cc: people; loop_decide.cc: plans;
// loop_show.cc: the snapshot). Internal to control.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/energy_meter.h"
#include "control/gpu_clock.h"
#include "control/loop.h"
#include "control/meters.h"
#include "control/planning.h"
#include "plan/batch.h"

namespace partita::control {

// Whether a text is a document ServingPlan.
bool is_plan(const std::string& text);

class Loop::Work {
 public:
  Work(World world, AgentMemory memory, long changes);
  Deeds step(std::int64_t now_ms, const Seen& seen);
  bool glance(std::int64_t now_ms, const ServersSeen& servers) const;
  const Snapshot& snapshot() const { return snapshot_; }
  const AgentMemory& memory() const { return memory_; }
  void power_is_back();
  std::shared_ptr<const std::vector<BatchInfo>> batches() const { return batches_; }
  Result<ChangeNow> preview(const std::string& text) const;

 private:
  // ---- what is seen (loop.cc)
  void begin();
  void look(const Seen& seen);
  void hear_ends(const Seen& seen);
  void ended_well();
  void ended_badly(const Error& error, bool stopped);
  void read_services_file(const Seen& seen);
  void load_services();
  void measure(const Seen& seen);
  // ---- health (loop_health.cc)
  void watch_health(const Seen& seen);
  void watch_gpu(const device::GpuState& gpu);
  void hear_health(const HealthEvent& event);
  std::string illness(const HealthEvent& event, const std::string& name) const;
  void watch_boot(const std::string& boot);
  void watch_workers(const Seen& seen);
  void judge_services_now();
  void tell_verdict(const ServiceVerdict& verdict);
  OutGpu* out_of(const std::string& uuid);
  void take_out(const std::string& uuid, OutGpu gpu, const std::string& user);
  void give_back(const std::string& uuid, const std::string& user, const std::string& why);
  // ---- people (loop_requests.cc)
  Reply answer(const Asked& asked);
  Reply set_services(const SetServices& request, const std::string& user);
  Reply set_plan(const SetPlan& request, const std::string& user);  // loop_given.cc
  Result<Planned> given(const std::string& text) const;             // the same
  Reply not_waiting(long change) const;
  Reply approve(const Approve& request, const std::string& user);
  Reply reject(const Reject& request, const std::string& user);
  Reply roll_back(const std::string& user);
  Reply set_mode(Mode mode, const std::string& user);
  Reply take_gpu_out(const TakeOut& request, const std::string& user);
  Reply give_gpu_back(const GiveBack& request, const std::string& user);
  // ---- batches (loop_batch.cc)
  Reply of_batches(const SubmitTasks& request, const std::string& user);
  Reply of_batches(const CancelBatch& request, const std::string& user);
  Reply of_batches(const PauseBatch& request, const std::string& user);
  Reply of_batches(const ResumeBatch& request, const std::string& user);
  Result<BatchKept*> unfinished_batch(long number);  // null: it is over
  Result<std::vector<plan::Task>> tasks_of(const std::string& text) const;
  const std::vector<BatchNames>& names_of(const BatchKept& batch);
  void hear_batches(const Seen& seen);
  void end_run(BatchKept& batch, const BatchRunNow& run);
  void cancel_rest(BatchKept& batch, const std::vector<BatchTask>& run);
  void end_batches();
  void end_batch(const BatchKept& batch);
  bool is_lent(const std::string& uuid) const;
  bool may_be_lent(const std::string& uuid) const;
  bool wanted_back(const std::string& uuid) const;
  GpuUse without_lent() const;
  bool waits_for_batches(const actuate::Wanted& wanted);
  actuate::Wanted wanted_now(const Target& target,
                             const plan::Judged<plan::ServingPlan>& plan) const;
  void lend();
  void tell_runs();
  BatchInfo info_of(const BatchKept& batch);
  std::vector<BatchInfo> batch_list();
  BatchNow batch_now() const;
  // ---- power (loop_power.cc)
  void hear_power(const Seen& seen);
  void set_power(const Seen& seen);
  std::optional<std::vector<ClockedSegment>> clocked_segments(const device::GpuState& gpu) const;
  ClockedRate clocked_rate(const std::string& service, bool gateway) const;
  std::optional<plan::Setting> slo_setting(const device::GpuState& gpu, const Seen& seen,
                                           bool poll);
  std::optional<plan::Setting> clock_of(const device::GpuState& gpu, const Seen& seen, bool poll);
  std::vector<double> capped(std::vector<PowerBoard>& boards);
  void want_power(const PowerBoard& board, const std::optional<plan::Setting>& clock, double limit);
  void see_energy(const Seen& seen);
  // ---- plans (loop_decide.cc)
  void decide();
  bool can_decide();
  std::string must_replan() const;
  void replan_because(const std::string& cause);
  void consider();
  bool consider_shortage();
  Result<Planned> plan_shortage(bool too_many) const;
  void rerate(Target target);
  std::vector<MadeAt> just_made() const;
  void consider_gain();
  bool worth_it(const Planned& planned) const;
  // What the plan in force is made for; none: it does not serve it.
  std::optional<double> promised(const std::string& service) const;
  double carried(const std::string& service) const;
  double need(const plan::Service& service, double ahead_s) const;
  Want want_now(double ahead_s, bool lower) const;
  bool cooling(const std::vector<Touched>& touched, const std::string& subject) const;
  int budget_left(double share) const;
  Result<Planned> plan(const Want& want, std::optional<int> max_moves, bool partial) const;
  enum class Why { must, shortage, gain, person };
  void settle_on(Planned planned, const std::string& cause, Why why);
  void adopt(Target target, const std::string& user, const std::string& sentence);
  void drop_proposal(const std::string& why);
  std::optional<actuate::Change> change_to(const Target& target);
  std::string services_key() const;
  // ---- changes (loop_apply.cc)
  bool bring_about();
  bool is_as_wanted();
  void begin_cooldown();
  bool still_as_wanted(const actuate::Wanted& wanted) const;
  bool empty_out_gpus();
  void watch_apply(const Seen& seen);
  void apply(actuate::Wanted wanted, actuate::Change change, const std::string& cause, bool repair);
  const std::optional<plan::Judged<plan::ServingPlan>>& judged();
  std::string drift_text(const actuate::Change& change) const;
  void count_drift(const actuate::Change& change);
  // ---- what is said
  void record(history::EventKind kind, history::Event event);
  void tell(NoticeKind kind, const std::string& key, const std::string& subject,
            const std::string& sentence, long change = 0);
  void untell(const std::string& key) { told_.erase(key); }
  // The key of the notice that this change waits for a person.
  static std::string waits_key(long change) { return "waits:" + std::to_string(change); }
  // As untell, and nobody is shown it any more.
  void over(const std::string& key);
  void show(const Seen& seen);
  bool is_converged(bool writing) const;
  std::vector<ServiceNow> services_now() const;
  std::vector<GpuNow> gpus_now(const Seen& seen) const;
  std::int64_t local() const { return now_ + world_.settings.utc_offset_min * kMinuteMs; }
  Mode mode() const { return memory_.mode; }

  World world_;
  AgentMemory memory_, kept_;
  std::int64_t kept_ms_ = 0;
  Snapshot snapshot_;
  Deeds deeds_;
  std::int64_t now_ = 0;
  bool begun_ = false;

  // What was seen in this step.
  bool node_known_ = false;
  device::NodeState state_, raw_state_;  // printable; as the driver told it
  actuate::Assignment assignment_;
  actuate::JournalState journal_;
  GpuUse use_;
  bool gateway_ = false;
  ServersSeen servers_;
  std::string blind_;              // why the node cannot be read; empty: it was, in this step
  std::int64_t node_read_ms_ = 0;  // when state_ was read

  std::vector<plan::Service> services_;  // parsed, by name
  int survive_ = 0;
  Meters meters_;
  EnergyMeter energy_;
  std::vector<ServiceVerdict> verdicts_;     // by name
  std::map<std::string, Standing> told_of_;  // services that somebody was told of, and what
  std::set<std::string> starting_;           // services that have not been served yet
  mutable PlanMemo memo_;                    // never changes what is decided

  struct Under {
    long number = 0;
    bool repair = false, emptying = false, stopping = false;
    std::string cause;
    ChangeNow shown;
  };
  std::optional<Under> under_;
  bool rerated_ = false;  // the plan in force was there, and only what it promises is new
  bool fresh_ = false;    // the target was set at this look
  std::optional<plan::Judged<plan::ServingPlan>> judged_;  // the target, once it was judged again
  std::string judge_says_;                                 // why it was refused
  std::optional<ChangeNow> proposed_, last_;
  std::int64_t retry_ms_ = 0;  // no apply before
  double pause_s_ = 0;
  int in_vain_ = 0;    // attempts in a row to bring about the target
  std::string stuck_;  // why another plan is made: those were too many
  // The last attempt to plan that led to nothing: not again before a time, or something changes.
  struct Tried {
    std::string about;
    std::int64_t until_ms = 0;
    double pause_s = 0;
  };
  std::map<std::string, Tried> tried_;
  bool may_try(const std::string& kind, const std::string& about) const;
  void tried(const std::string& kind, const std::string& about, double pause_s);
  bool forced_ = false;  // a person wants a plan now
  std::string forced_by_;
  // The node, when it was as the target wants it: as long as nothing of this changes it is so.
  struct Settled {
    device::NodeState state;
    actuate::Assignment assignment;
    actuate::JournalState journal;
    actuate::Wanted wanted;
  };
  std::optional<Settled> settled_;
  bool told_drift_ = false;              // this drift was counted
  bool verify_ = false;                  // an apply has ended well: what is read now shows it
  long repair_number_ = 0;               // of the repair that is made, or was made last
  long made_ = 0;                        // changes that ended well
  std::map<std::string, int> emptying_;  // how often each GPU was emptied in vain
  std::map<std::string, std::string> told_;
  std::string doing_;
  std::int64_t wake_ms_ = 0;
  std::set<std::string> power_denied_;                                     // UUIDs
  std::map<std::string, device::PowerSettings> power_wanted_, power_set_;  // by UUID
  std::map<std::string, GpuClock> clocks_;                                 // by UUID
  std::map<std::string, plan::Setting> clock_setting_;                     // of clocks_
  std::int64_t clocks_ms_ = 0;  // they are asked again then
  std::int64_t power_retry_ms_ = 0;
  bool carries_batches_ = false;
  std::vector<BatchRunNow> runs_;  // as they were told last
  std::shared_ptr<const std::vector<BatchInfo>> batches_ =
      std::make_shared<const std::vector<BatchInfo>>();
  std::map<long, std::vector<BatchNames>> names_;          // of the batches that are not over
  std::map<std::string, std::int64_t> wanted_back_since_;  // lent GPUs, by UUID
  std::int64_t quiet_until_ms_ = 0;  // a person said no: nothing is proposed before
};

}  // namespace partita::control
