#include "fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error_code.h"
#include "fleet_world.h"
#include "world.h"

namespace partita::actuation_tests {

using actuate::ApplyEvent;
using actuate::ApplyOptions;
using actuate::AssignedSegment;
using actuate::Wanted;
using sim_driver::Machine;
using sim_driver::SimGpu;
using sim_driver::SimInstance;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr int kMostGpus = 8;
constexpr int kMostLives = 5;    // of one operation
constexpr int kMostCauses = 12;  // that calm may find in the way of the last plan

// The GPUs of one model and what the last plan wanted of them.
struct Group {
  const hw::GpuModel* model = nullptr;
  int count = 1;
  bool mig = true;
  Wanted wanted;
};

std::vector<Group> draw_node(Rng& rng) {
  const std::vector<hw::GpuModel>& models = hw::builtin_catalogue().gpus;
  std::vector<Group> node;
  int left = 1 + static_cast<int>(std::min(rng.below(kMostGpus), rng.below(kMostGpus)));
  while (left > 0) {
    const hw::GpuModel& model = models[rng.below(models.size())];
    const bool there = std::any_of(node.begin(), node.end(),
                                   [&](const Group& group) { return group.model == &model; });
    if (model.profiles.empty() || there) continue;
    const int count = 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(left)));
    node.push_back({&model, count, rng.below(8) != 0, {}});
    left -= count;
  }
  return node;
}

std::vector<Machine::Gpus> machine_of(const std::vector<Group>& node) {
  std::vector<Machine::Gpus> gpus;
  for (const Group& group : node) gpus.push_back({group.model, group.count, group.mig});
  return gpus;
}

class FleetRun {
 public:
  FleetRun(std::uint64_t seed, std::FILE* echo)
      : rng_(Rng(seed).split(11)), node_(draw_node(rng_)), world_(machine_of(node_), seed, echo) {
    options_.keep_foreign = rng_.below(2) == 0;
    const double shares[] = {1, 1, 0.5, 0};
    options_.min_available = shares[rng_.below(4)];
  }

  FleetResult run() {
    for (int i = static_cast<int>(rng_.below(4)); i > 0; --i) world_.add_stray();
    plan_ = next_plan();
    if (rng_.below(4) != 0) apply(plan_, calm_options());  // a node that is in use already
    faults_ = draw_faults(rng_);
    for (int i = 2 + static_cast<int>(rng_.below(4)); i > 0 && fine(); --i) operate();
    if (fine()) calm();
    return result();
  }

 private:
  enum class Outcome { done, failed, died };

  bool fine() const { return world_.oracle->violations.empty(); }
  void violate(const std::string& what) { world_.oracle->violations.push_back(what); }

  FleetResult result() {
    result_.violations = world_.oracle->violations;
    result_.hash = world_.events().hash();
    result_.counts = world_.events().counts;
    result_.transactions = world_.oracle->transactions;
    result_.guarded = world_.oracle->guarded;
    result_.destroyed = world_.oracle->destroyed;
    return result_;
  }

  // ---- plans ----

  // Another plan for a group: mostly the last one with some changes, more GPUs or fewer.
  void replan(Group& group) {
    std::vector<actuate::WantedGpu>& gpus = group.wanted.gpus;
    if (gpus.empty() || rng_.below(6) == 0) {
      const int count = 1 + static_cast<int>(rng_.below(static_cast<std::uint64_t>(group.count)));
      group.wanted = random_wanted(*group.model, count, rng_, 0.2 + 0.8 * rng_.uniform());
      return;
    }
    group.wanted = altered(group.wanted, *group.model, rng_);
    if (rng_.below(4) == 0 && gpus.size() > 1) gpus.pop_back();
    if (rng_.below(4) == 0 && static_cast<int>(gpus.size()) < group.count) {
      gpus.push_back(random_wanted(*group.model, 1, rng_, 0.8).gpus.front());
    }
  }

  Wanted next_plan() {
    Wanted plan;
    for (Group& group : node_) {
      // A plan may have nothing to say about the GPUs of a model.
      if (!plan.gpus.empty() && rng_.below(8) == 0) continue;
      replan(group);
      plan.gpus.insert(plan.gpus.end(), group.wanted.gpus.begin(), group.wanted.gpus.end());
    }
    plan.services = services_of(plan);
    return plan;
  }

  // ---- operations ----

  ApplyOptions calm_options() const {
    ApplyOptions options = options_;
    options.drain_timeout = {60};
    return options;
  }

  void operate() {
    const std::uint64_t what = rng_.below(10);
    if (what < 6) plan_ = next_plan();
    for (int life = 0; life < kMostLives && fine(); ++life) {
      world_.faults = faults_;
      const Outcome outcome = what < 8   ? apply(plan_, hasty_options())
                              : what < 9 ? roll_back()
                                         : drain();
      wait();
      if (outcome == Outcome::done || rng_.below(3) == 0) return;
    }
  }

  ApplyOptions hasty_options() {
    ApplyOptions options = options_;
    const double timeouts[] = {1, 5, 60};
    options.drain_timeout = {timeouts[rng_.below(3)]};
    if (rng_.below(4) == 0) options.ready_timeout = {5};
    return options;
  }

  void wait() {
    const auto ns = static_cast<std::int64_t>(rng_.uniform() * 3 * static_cast<double>(kSecond));
    if (rng_.below(2) == 0) world_.advance(world_.clock.now + ns);
  }

  template <class Operation>
  Outcome attempt(const std::string& name, Operation operation) {
    ++result_.operations;
    world_.log("operation " + name);
    world_.program_runs = true;
    Outcome outcome = Outcome::died;
    try {
      const auto done = operation();
      outcome = done ? Outcome::done : Outcome::failed;
      error_ = done ? std::nullopt : std::optional(done.error());
      world_.log(done ? "success" : "refusal " + to_string(done.error()));
      if (!done) ++result_.refusals;
      if (!done && done.error().message.empty()) violate("refused without a reason");
    } catch (const Killed&) {
      ++result_.deaths;
    }
    world_.program_runs = false;
    world_.oracle->end();
    if (outcome == Outcome::done) return outcome;
    const auto journal = actuate::read_journal(world_.disk, actuate::journal_path(kFleetDir));
    if (!journal) violate("the journal does not replay: " + to_string(journal.error()));
    return outcome;
  }

  Outcome apply(const Wanted& target, const ApplyOptions& options) {
    const long before = world_.disturbances;
    const auto observe = [&](const ApplyEvent& event) {
      if (event.kind == ApplyEvent::Kind::retry) world_.log("retry " + event.detail);
      if (event.kind != ApplyEvent::Kind::step) return;
      world_.log(std::string("step ") + actuate::to_string(event.change->steps[event.step].kind));
      if (event.step > 0) return;
      world_.with_machine(
          [&](Machine& machine) { world_.oracle->promised(*event.change, machine); });
    };
    std::optional<actuate::ApplyReport> report;
    const Outcome outcome = attempt(options.rollback ? "rollback" : "apply", [&] {
      world_.oracle->begin({&target, options.keep_foreign, options.min_available});
      Result<actuate::ApplyReport> applied =
          actuate::apply(world_.doors(), target, options, observe);
      if (applied) report = *applied;
      return applied;
    });
    report_ = report;
    if (report && world_.disturbances == before) {
      check_as_wanted(target, report->change.gpu_of);
      check_announced();
    }
    return outcome;
  }

  Outcome roll_back() {
    const Result<Wanted> target = actuate::rollback_target(world_.doors());
    if (!target) return Outcome::failed;
    const auto journal = actuate::read_journal(world_.disk, actuate::journal_path(kFleetDir));
    if (!journal->last->rollback) check_source(*target);
    ApplyOptions options = hasty_options();
    options.rollback = true;
    return apply(*target, options);
  }

  // A rollback goes back to what was there when the last transaction began.
  void check_source(const Wanted& target) {
    std::set<std::pair<PlaceKey, std::string>> rows;
    for (const actuate::WantedGpu& gpu : target.gpus) {
      for (const actuate::WantedInstance& one : gpu.instances) {
        rows.insert({{gpu.uuid, one.profile, one.start}, one.segment.service});
      }
    }
    if (rows != world_.oracle->source()) violate("a rollback would go back to something else");
  }

  Outcome drain() {
    const auto assignment = actuate::read_assignment(world_.disk, kFleetDir);
    std::vector<std::string> devices;
    for (const AssignedSegment& one : assignment->segments) {
      if (rng_.below(4) == 0) devices.push_back(one.device);
    }
    const Outcome outcome = attempt("drain", [&] {
      world_.oracle->begin({});
      const double timeouts[] = {1, 20};
      return actuate::drain(world_.doors(), devices, Seconds{timeouts[rng_.below(2)]},
                            [](const ApplyEvent&) {});
    });
    if (outcome != Outcome::done) return outcome;
    for (const auto& [pid, device] : world_.workers) {
      if (std::find(devices.begin(), devices.end(), device) != devices.end()) {
        violate(fmt::format("drained, but {} runs on {}", pid, device));
      }
    }
    return outcome;
  }

  // ---- calm ----

  // No faults any more: the last plan comes true, or what is in the way is named, and removed.
  void calm() {
    world_.faults = {};
    world_.log("calm");
    world_.advance(world_.clock.now + 5 * kSecond);
    if (!converge()) return;
    check_workers();
    int lost = 0;
    world_.with_machine([&](Machine& machine) {
      for (std::size_t g = 0; g < machine.gpus().size(); ++g) lost += machine.gpus()[g].lost;
    });
    if (lost > 0) {  // the plan did without; now they are back
      for (int gpu = 0; gpu < gpus(); ++gpu) world_.regain_gpu(gpu);
      if (!converge()) return;
      check_workers();
    }
    apply(plan_, calm_options());
    if (!report_ || report_->driver_calls != 0 || !report_->change.empty()) {
      violate("what is as wanted was not left alone");
    }
    check_journal();
  }

  int gpus() {
    int count = 0;
    world_.with_machine([&](Machine& machine) { count = static_cast<int>(machine.gpus().size()); });
    return count;
  }

  bool converge() {
    for (int attempts = 0; attempts < kMostCauses && fine(); ++attempts) {
      const Outcome outcome = apply(plan_, calm_options());
      if (outcome == Outcome::done) {
        result_.reconciles = std::max(result_.reconciles, report_->reconciles);
        return fine();
      }
      if (outcome == Outcome::died || !remove_cause(*error_)) {
        violate("calm, but: " + (error_ ? to_string(*error_) : "death"));
      }
      ++result_.causes;
    }
    if (fine()) violate("calm, but it goes on and on");
    return false;
  }

  // Removes what the refusal names; false when it names nothing that is in the way.
  bool remove_cause(const Error& error) {
    const std::string text = to_string(error);
    const auto named = [&](const std::string& what) {
      const std::size_t at = text.find(what);
      return at != std::string::npos &&
             (at + what.size() == text.size() ||
              std::isdigit(static_cast<unsigned char>(text[at + what.size()])) == 0);
    };
    bool removed = false;
    if (error.code == ErrorCode::in_use) {
      const std::map<std::int64_t, std::int64_t> there = world_.intruders;
      for (const auto& [pid, until] : there) {
        if (!named(fmt::format("pid {}", pid))) continue;
        world_.remove_intruder(pid);
        removed = true;
      }
    }
    for (int gpu = 0; gpu < gpus(); ++gpu) {
      if (!named(fmt::format("gpu {}", gpu))) continue;
      bool lost = false, pending = false;
      world_.with_machine([&](Machine& machine) {
        lost = machine.find(gpu)->lost;
        pending = machine.find(gpu)->mig != machine.find(gpu)->mig_pending;
      });
      if (error.code == ErrorCode::reset_required && pending) {
        world_.reset_gpu(gpu);
        removed = true;
      }
      if (lost && text.find("lost") != std::string::npos) {
        world_.regain_gpu(gpu);
        removed = true;
      }
    }
    return removed;
  }

  // ---- what must be so ----

  static const hw::MigProfile& profile_of(const SimGpu& gpu, const SimInstance& instance) {
    return gpu.model->profiles[static_cast<std::size_t>(instance.profile)];
  }

  void check_as_wanted(const Wanted& target, const std::vector<int>& gpu_of) {
    const auto assignment = actuate::read_assignment(world_.disk, kFleetDir);
    if (!assignment) return violate("no assignment: " + to_string(assignment.error()));
    std::map<std::string, AssignedSegment> running;
    for (const AssignedSegment& one : assignment->segments) running[one.device] = one;
    world_.with_machine([&](Machine& machine) {
      for (std::size_t g = 0; g < machine.gpus().size(); ++g) {
        const SimGpu& gpu = machine.gpus()[g];
        if (gpu.lost) {
          std::erase_if(running, [&](const auto& one) { return one.second.gpu_uuid == gpu.uuid; });
          continue;
        }
        const auto at = std::find(gpu_of.begin(), gpu_of.end(), static_cast<int>(g));
        const auto number = static_cast<std::size_t>(at - gpu_of.begin());
        if (at != gpu_of.end() || FleetOracle::managed(gpu, target)) {
          std::vector<actuate::WantedInstance> wanted;
          if (at != gpu_of.end()) wanted = target.gpus[number].instances;
          check_gpu(machine, static_cast<int>(g), wanted, running);
        } else {
          for (const SimInstance& instance : gpu.instances) {
            for (const auto& compute : instance.compute) running.erase(compute.uuid);
          }
        }
      }
    });
    for (const auto& [device, one] : running) {
      violate(fmt::format("{} is assigned to {}, which nobody wants", one.service, device));
    }
    for (const plan::Terms& one : target.services) {
      if (std::count(assignment->services.begin(), assignment->services.end(), one) != 1)
        violate("the assignment does not say what is promised to " + one.name);
    }
  }

  // One GPU has what is wanted, and nothing but what others made and may keep. Takes the segments
  // that run there out of `running`.
  void check_gpu(const Machine& machine, int index, std::vector<actuate::WantedInstance> wanted,
                 std::map<std::string, AssignedSegment>& running) {
    const SimGpu& gpu = *machine.find(index);
    for (const SimInstance& one : gpu.instances) {
      const std::string name =
          fmt::format("gpu {} {} at {}", index, profile_of(gpu, one).name, one.start);
      const auto found = std::find_if(wanted.begin(), wanted.end(), [&](const auto& w) {
        return w.start == one.start && gpu.model->profile_index(w.profile) == one.profile;
      });
      const bool whole =
          one.compute.size() == 1 && one.compute.front().gpcs == profile_of(gpu, one).gpcs;
      if (found == wanted.end() || !whole) {
        const bool may_stay = options_.keep_foreign && world_.oracle->is_stray(index, one.gi_id);
        if (!may_stay) violate(name + " is there and not wanted");
        continue;
      }
      const auto at = running.find(one.compute.front().uuid);
      const AssignedSegment segment = at == running.end() ? AssignedSegment{} : at->second;
      const actuate::Segment& need = found->segment;
      if (segment.service != need.service || segment.batch != need.batch ||
          segment.processes != need.processes || segment.throughput_rps != need.throughput_rps) {
        violate(fmt::format("{} runs '{}', wanted is '{}'", name, segment.service, need.service));
      }
      if (at != running.end()) running.erase(at);
      wanted.erase(found);
    }
    for (const auto& one : wanted) {
      violate(fmt::format("gpu {} has no {} at {}", index, one.profile, one.start));
    }
  }

  // Every assigned device that exists has its workers, and there are no others.
  void check_workers() {
    const auto assignment = actuate::read_assignment(world_.disk, kFleetDir);
    if (!assignment) return violate("no assignment: " + to_string(assignment.error()));
    std::map<std::string, int> need, have;
    world_.with_machine([&](Machine& machine) {
      for (const SimGpu& gpu : machine.gpus()) {
        for (const SimInstance& instance : gpu.instances) {
          for (const auto& compute : instance.compute) {
            for (const AssignedSegment& one : assignment->segments) {
              if (one.device == compute.uuid) need[one.device] = one.processes;
            }
          }
        }
      }
    });
    for (int i = 0; i < 60; ++i) {
      world_.advance(world_.clock.now + kSecond / 2);
      have.clear();
      for (const auto& [pid, device] : world_.workers) ++have[device];
      if (have == need) break;
    }
    for (const auto& [device, count] : need) {
      if (have[device] == count) continue;
      violate(fmt::format("{} of {} workers run on {}", have[device], count, device));
    }
    for (const auto& [device, count] : have) {
      if (count > 0 && need[device] == 0) violate(fmt::format("{} workers on {}", count, device));
    }
    std::size_t holding = 0;
    world_.with_machine([&](Machine& machine) {
      for (const SimGpu& gpu : machine.gpus()) {
        for (const auto& process : gpu.processes) {
          if (!world_.intruders.contains(process.pid)) ++holding;
        }
      }
    });
    if (holding != world_.workers.size()) violate("processes hold devices and do not run");
    if (world_.processes->running().size() != holding) violate("workers run without a device");
  }

  // Nothing is announced and not made, but for what is half made on a GPU that the plan has nothing
  // to do with.
  void check_announced() {
    const auto journal = actuate::read_journal(world_.disk, actuate::journal_path(kFleetDir));
    if (!journal) return violate("no journal: " + to_string(journal.error()));
    for (const actuate::Place& place : journal->intended) {
      bool half_made = false;
      world_.with_machine([&](Machine& machine) {
        half_made = machine.find(place.gpu)->lost;
        for (const SimInstance& one : machine.find(place.gpu)->instances) {
          half_made = half_made || (one.start == place.start && one.compute.empty());
        }
      });
      if (half_made) continue;
      violate(
          fmt::format("gpu {} {} at {} is still announced", place.gpu, place.profile, place.start));
    }
  }

  void check_journal() {
    check_announced();
    const auto journal = actuate::read_journal(world_.disk, actuate::journal_path(kFleetDir));
    if (!journal) return violate("no journal: " + to_string(journal.error()));
    if (journal->pending()) violate("the journal says that something is left to do");
    std::set<std::string> owned(journal->owned.begin(), journal->owned.end());
    world_.with_machine([&](Machine& machine) {
      for (std::size_t g = 0; g < machine.gpus().size(); ++g) {
        for (const SimInstance& instance : machine.gpus()[g].instances) {
          for (const auto& compute : instance.compute) {
            const bool ours = owned.erase(compute.uuid) > 0;
            if (ours == world_.oracle->is_stray(static_cast<int>(g), instance.gi_id)) {
              violate(compute.uuid + (ours ? " is others' and the journal calls it ours"
                                           : " is ours and the journal does not know"));
            }
          }
        }
      }
    });
    for (const std::string& uuid : owned) violate(uuid + " is gone and the journal calls it ours");
  }

  Rng rng_;
  std::vector<Group> node_;
  FleetWorld world_;
  Faults faults_;
  ApplyOptions options_;
  Wanted plan_;
  std::optional<actuate::ApplyReport> report_;  // of the last apply, if it was done
  std::optional<Error> error_;                  // of the last operation, if it was refused
  FleetResult result_;
};

}  // namespace

FleetResult run_fleet(std::uint64_t seed, std::FILE* echo) { return FleetRun(seed, echo).run(); }

}  // namespace partita::actuation_tests
