// Simulated weeks of an agent: the real loop, the real apply and the real journal on a SimNode,
// from look to look in virtual time, and what came of it. Deterministic: the same options give the
// same report. `partita agent --simulate` and the fleet of agent_fleet_test.cc run this.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/form.h"
#include "control/sim/sim_batches.h"
#include "control/sim/sim_node.h"
#include "plan/terms.h"

namespace partita::control {

inline constexpr int kMostSimDays = 366;

struct WeeksOptions {
  World world;                                  // profiles: of the machine's models
  std::string services_file = "services.yaml";  // its name, for messages
  std::string services_text;
  // The same services as they really are: rates and fan-outs. Empty: as the file says.
  std::string real_text = {};
  drivers::sim::Machine machine;
  int days = 7;
  std::uint64_t seed = 1;
  TrafficShape shape = {};
  SimTroubles troubles = {};
  drivers::sim::PowerRights power_rights = drivers::sim::PowerRights::anybody;
  std::string tasks_text = {};    // a tasks file, handed in each day
  double tasks_hour = 1;          // at this hour
  int tasks_days = kMostSimDays;  // on so many days
  // The agent looks at who serves between its looks, as a live one does: a step of SimWeeks is then
  // at most kGlanceMs long.
  bool glances = false;
};

struct ServiceWeeks : plan::Terms {  // name, SLO, percentile; as rate the mean of what was played
  double peak_rps = 0;
  double requests = 0, attainment = 1;
  double short_s = 0, longest_short_s = 0;  // with a rate above what was ready
  std::string why = {};  // the agent says at the end that it is at risk; empty: it is not
  bool operator==(const ServiceWeeks&) const = default;
};

// What was at a time, one value per service.
struct WeeksPoint {
  double hour = 0;
  int gpus = 0;
  std::vector<double> rate_rps, ready_rps;
  bool operator==(const WeeksPoint&) const = default;
};

struct WeeksEvent {
  std::string what;
  long times = 0;
  bool operator==(const WeeksEvent&) const = default;
};

struct WeeksReport {
  long seed = 1;
  int days = 0, gpus = 0;
  std::vector<ServiceWeeks> services;
  double gpu_hours = 0, peak_gpu_hours = 0;  // peak: of the plan for everybody's highest rate
  int peak_gpus = 0;
  bool peak_fits = true;  // false: there is no such plan, and peak_gpus are those of the node
  long instances_made = 0, changes = 0, failed_changes = 0, repairs = 0;
  // Of batches: tasks that were handed in, that are done, and that have failed or were skipped;
  // processes that were begun for them.
  long tasks = 0, tasks_done = 0, tasks_failed = 0, tasks_begun = 0;
  std::string notice = {};         // the agent's last one, where a service is at risk at the end
  std::string refused_batch = {};  // why the last that was refused was; empty: none was
  std::vector<WeeksEvent> events;  // what befell the node and what the history recorded
  std::vector<WeeksPoint> line;
  double saved() const { return peak_gpu_hours > 0 ? 1 - gpu_hours / peak_gpu_hours : 0; }
  bool operator==(const WeeksReport&) const = default;
};

class SimWeeks {
 public:
  // Refused: services that cannot be read, a machine without GPUs.
  static Result<std::unique_ptr<SimWeeks>> begin(WeeksOptions options);

  // From one look to the next; false once the time is over. What SimNode::at_call throws comes
  // through; then drop_agent() is due.
  bool step();
  // As a kill: what it had not made durable is gone. The next step begins with a new one, or the
  // first after that time.
  void drop_agent(std::int64_t away_until_ns = 0);
  SimNode& node() { return *node_; }
  Agent* agent() { return agent_.get(); }       // null: the next step begins one
  WeeksOptions& options() { return options_; }  // world: of the next agent
  const SimBatches& batches() const { return *batches_; }
  const Snapshot* snapshot() const { return agent_ ? &agent_->snapshot() : nullptr; }
  // Batches that were handed in, and those of them that the agent has answered for.
  long batches_asked() const { return handed_in_; }
  long batches_taken() const { return taken_; }
  // Hears what the history would be told.
  std::function<void(const history::Event&)> recorded = {};
  // Hears every snapshot.
  std::function<void(const Snapshot&)> published = {};
  // Adds doors to those of every agent before it begins: who asks, who is told.
  std::function<void(AgentDoors&)> add_doors = {};

  Result<WeeksReport> report();

 private:
  explicit SimWeeks(WeeksOptions options) : options_(std::move(options)) {}
  void begin_agent();
  void note_point();
  std::vector<Inquiry> hand_in();
  bool pass_time(std::int64_t until_ns);

  WeeksOptions options_;
  std::vector<double> own_peaks_;  // by service: of what its own clients ask for
  std::unique_ptr<SimNode> node_;
  std::unique_ptr<SimBatches> batches_;
  std::unique_ptr<Agent> agent_;
  int handed_in_ = 0;  // batches
  long taken_ = 0;
  std::string refused_batch_;
  std::map<std::string, long> events_;
  std::vector<WeeksPoint> line_;
  std::int64_t next_point_ns_ = 0;
  long highest_change_ = 0;
  std::int64_t away_until_ns_ = 0, next_look_ms_ = 0;
};

std::string weeks_text(const WeeksReport& report);
std::string weeks_json(const WeeksReport& report);
Result<WeeksReport> parse_weeks(const std::string& file, std::string_view text);
DocumentKind weeks_kind();
// Rates and what was ready for them, as a picture.
std::string weeks_svg(const WeeksReport& report);

}  // namespace partita::control
