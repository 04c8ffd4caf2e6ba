// Pipelines: services whose requests go through several others, as Triton's ensembles do. A step is
// a model; its inputs and outputs are tensors of the pipeline, and who reads what another wrote
// comes after it. Tensors that no step writes come with the request; those that no step reads are
// the answer. A step may be asked for several times for one request (a detector finds so many
// boxes): its fan-out. Values; what a share of the SLO is worth is the planner's to know.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace partita::plan {

struct PipelineStep {
  std::string service;                         // that runs it; of the same problem
  std::map<std::string, std::string> inputs;   // of its model: the pipeline's tensors
  std::map<std::string, std::string> outputs;  // likewise
  double fan_out = 1;  // requests of it for one of what its inputs come from: the mean of a
                       // Poisson law; exactly one where it is 1
  Millis share = {};   // of the SLO, as planned; 0: not planned yet
  bool operator==(const PipelineStep&) const = default;
};
inline constexpr std::size_t kMostSteps = 16;
inline constexpr double kMostFanOut = 1000;

struct PipelineTerms {
  std::vector<PipelineStep> steps;
  bool operator==(const PipelineTerms&) const = default;
};
// The same but for the shares.
bool same_graph(const PipelineTerms& one, const PipelineTerms& other);
std::string to_string(const PipelineTerms& pipeline);  // "detect -> 4 x read", for messages

struct PipelineGraph {
  std::vector<std::vector<std::size_t>> after;  // per step: those that it reads from, ascending
  std::vector<std::size_t> order;               // every step behind all that it reads from
  std::vector<std::size_t> group;  // per step: the step that fans out to it, or the number of steps
  std::vector<double> requests;    // per step, for one of the pipeline, on average
};
// Bad input, in words for people: no steps, a cycle, a tensor written twice, no tensor read or
// written, tensors of different fan-outs in one step.
Result<PipelineGraph> graph_of(const PipelineTerms& pipeline);

struct Terms;
// Requests that pipelines of these services make of one of them. Pipelines have graphs (a CHECK).
Rps rate_from_pipelines(const std::vector<Terms>& services, const std::string& name);

}  // namespace partita::plan
