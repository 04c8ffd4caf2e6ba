// The independent judge of serving plans. Recomputes everything from the problem, the profiles and
// hw alone; shares no code with planners or model. Pure; keeps nothing between calls.
#pragma once

#include <vector>

#include "hw/catalogue.h"
#include "plan/reason.h"
#include "plan/serving.h"

namespace partita::verify {

// The queueing rule is numerical: a percentile may exceed its SLO by this share before it is a
// violation. A stated prediction may be too low by the factor: where a queue flips between two
// modes a percentile jumps by about as much within a percent of load.
inline constexpr double kPercentileTolerance = 1e-3;
inline constexpr double kPredictionFactor = 2;

// All violations, none twice; empty means the plan is right. The problem's rule counts, not the one
// that the plan states. Word (Reason::constraint), subject, meaning; (I K) is "gpu I instance K":
//   unknown_gpu_model  gpu I, plan    the fleet has no such model; the plan names its first one
//   gpu_index          gpu I          negative
//   duplicate_gpu      gpu I          the index stands for several GPUs
//   unknown_profile    (I K)          its GPU model has no MIG profile of that name
//   illegal_start      (I K)          the profile cannot start at that memory slice
//   memory_slices      gpu I instances J and K   overlap
//   compute_slices     gpu I          more than the GPU has
//   media_engines      gpu I          more than the GPU has
//   mixed_gpu          (I K)          a MIG instance on a GPU that is shared whole
//   share              (I K)          not above 0 and at most 100 %
//   whole_gpu          (I K)          a share of a profile that is not the whole GPU's
//   shares             gpu I          add up to more than 100 %
//   max_instances      (I K)          more of this profile than the GPU allows
//   unknown_service    (I K)          the problem has no such service
//   unknown_point      (I K)          batch and processes not measured for that model and size
//   processes          (I K)          more than the problem allows
//   memory             (I K)          the processes need more than the instance has
//                      gpu I          the segments that share it need more than it has
//   group              gpu I          GPUs that serve together are not alike, alone or in one node
//   throughput         (I K)          states more than was measured, or nothing at all
//   latency            (I K)          states another execution latency than was measured
//   slo                (I K)          execution: latency not below fraction x SLO; queueing: the
//                                     percentile at its share of the load is above the SLO
//   overload           (I K)          queueing: its share of the load is more than it can sustain
//   missing_service    service S      no instance (rate and min_replicas are then left out)
//   rate               service S      its instances carry less than its rate
//   min_replicas       service S      fewer instances than wanted
//   anti_affinity      service S on gpu I        several instances of a service that spreads
//                      services S and T on gpu I one of them avoids the other
//   survive            service S without gpu I   misses its SLO, or carries less than its rate, on
//                                     what is left when that GPU is lost
//   duplicate_service  service S      several rows
//   service_row        service S      its row is missing, or is of no service of the problem
//                      service S FIELD           disagrees with the problem or the instances
//   fleet_count        fleet MODEL    more GPUs than the fleet has
//   objective          objective FIELD           disagrees with the plan or its bounds
//   not_finite         SUBJECT FIELD  NaN or infinite; comparisons with it are left out
// For a share of a whole GPU "measured" means between the nearest measured sizes (share.h): what
// neighbours under MPS do to one another was not measured, so it is neither credited nor charged.
// A GPU that is shared counts with all its GPCs. FIELD is the name on the wire. Instances are
// counted from 0 as their GPU lists them. What an instance carries is what it states, at most what
// was measured. Numbers are compared with a relative 1e-9. Bounds are checked against the plan
// only: that they are true is the planner's claim. Watts are counted where the problem's goal is
// energy. A cost, or a bound on GPCs, of 0 counts as not
// stated.
// `memo`: what this judge found of pools before (pool_memo.h); may be null, never changes a word.
struct PoolMemo;
std::vector<plan::Reason> verify(const plan::ServingProblem& problem, const plan::ServingPlan& plan,
                                 PoolMemo* memo = nullptr);

// What a plan's own words refuse, without services and profiles (judge.h says what that is).
std::vector<plan::Reason> verify_alone(const hw::Catalogue& catalogue,
                                       const plan::ServingPlan& plan);

}  // namespace partita::verify
