// Batches beside services: who gets which GPU, and what is left of each batch. The brain of that.
// The rule: GPUs of policy.batch.gpus are the batches'. With policy.batch.idle they are also lent
// whole GPUs on which no service has an instance, while the node is as planned. Plans leave lent
// GPUs alone where they can; where they cannot, one is wanted back: nothing new begins there,
// what runs has give_back_s to end, and a change waits until the batch has left. Internal to
// control.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/batch_list.h"
#include "control/energy_meter.h"
#include "control/node_view.h"
#include "control/report.h"
#include "control/snapshot.h"
#include "plan/batch.h"

namespace partita::control {

class Batches {
 public:
  // `kept` is written here only, and outlives this.
  Batches(const World& world, BatchesKept& kept, Report& report)
      : world_(world), kept_(kept), report_(report) {}

  struct Ground {
    std::int64_t now_ms = 0;
    Mode mode = Mode::automatic;
    const NodeView& node;
    const std::vector<OutGpu>& out;
    const PlansKept& plans;
    bool idles = false;      // services need no more than they have: what is idle may be lent
    bool may_begin = false;  // no change is under way
  };

  Reply submit(const Ground& ground, const SubmitTasks& request, const std::string& user);
  Reply cancel(const Ground& ground, const CancelBatch& request, const std::string& user);
  Reply pause(const PauseBatch& request, const std::string& user);
  Reply resume(const ResumeBatch& request, const std::string& user);
  // What became of runs; nothing: nobody carries them out.
  void hear(const Ground& ground, const std::optional<std::vector<BatchRunNow>>& runs);
  // The runs that shall be under way.
  std::vector<BatchDeed> lend(const Ground& ground);

  // UUIDs of the GPUs that batches have.
  std::set<std::string> lent() const;
  // Newest first.
  std::vector<BatchInfo> list(const NodeView& node, std::int64_t now_ms);
  // In short; `listed` is what list() said, `draw` what they take.
  BatchNow brief(const std::vector<BatchInfo>& listed, const std::optional<Draw>& draw) const;

 private:
  Result<std::vector<plan::Task>> tasks_of(const NodeView& node, const std::string& text) const;
  const std::vector<BatchNames>& names_of(const NodeView& node, const BatchKept& batch);
  Result<BatchKept*> unfinished(long number);  // null: it is over
  bool has_lent(const std::string& uuid) const;
  void end_run(const Ground& ground, BatchKept& batch, const BatchRunNow& run);
  void cancel_rest(const Ground& ground, BatchKept& batch, const std::vector<BatchTask>& run);
  void end_batches(const Ground& ground);
  void end_batch(const BatchKept& batch, std::int64_t now_ms);
  bool may_be_lent(const Ground& ground, const device::GpuState& gpu) const;
  bool wanted_back(const Ground& ground, const std::string& uuid) const;
  BatchDeed run_of(const Ground& ground, const BatchKept& batch);
  BatchGpu gpu_of(const Ground& ground, const BatchKept& batch, const std::string& uuid);
  BatchInfo info_of(const NodeView& node, const BatchKept& batch, std::int64_t now_ms);

  const World& world_;
  BatchesKept& kept_;
  Report& report_;
  bool carried_out_ = false;
  std::vector<BatchRunNow> runs_;                          // as they were told last
  std::map<long, std::vector<BatchNames>> names_;          // of the batches that are not over
  std::map<std::string, std::int64_t> wanted_back_since_;  // lent GPUs, by UUID
};

}  // namespace partita::control
