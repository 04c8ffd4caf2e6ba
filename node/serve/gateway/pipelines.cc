#include "serve/gateway/pipelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/index.h"
#include "serve/gateway/core_impl.h"

namespace partita::serve {
namespace {

constexpr std::size_t kNoStep = SIZE_MAX;

// A tensor of a step's model.
struct Port {
  std::size_t step = kNoStep;
  std::size_t tensor = 0;
};

const TensorSpec* tensor_named(const std::vector<TensorSpec>& all, const std::string& name) {
  const auto found = std::ranges::find(all, name, &TensorSpec::name);
  return found == all.end() ? nullptr : &*found;
}

// Whether what one step gives, of its sizes all or (of a fan-out) those behind the first, is what
// another takes.
bool fits(const TensorSpec& from, const TensorSpec& to, bool fanned) {
  if (from.type != to.type || from.type == DataType::bytes) return false;
  if (from.batch_axis != 0 || to.batch_axis != 0) return false;
  const std::size_t skip = fanned ? 1 : 0;
  if (from.shape.size() != to.shape.size() + skip) return false;
  for (std::size_t i = 0; i < to.shape.size(); ++i) {
    const std::int64_t a = from.shape[i + skip], b = to.shape[i];
    if (a != b && a != kOpen && b != kOpen) return false;
  }
  return true;
}

// Of an item: its sizes and its values.
struct Values {
  std::vector<std::int64_t> sizes;
  std::span<const char> bytes;
};
std::optional<Values> values_of(const TensorSpec& tensor, std::span<const char> row) {
  if (tensor.open_bytes == 0) return Values{tensor.shape, row};
  auto sizes = sizes_in(tensor, row);
  if (!sizes) return std::nullopt;
  const std::size_t bytes = *bytes_of_item(tensor, *sizes);
  if (row.size() < head_bytes(tensor) + bytes) return std::nullopt;
  return Values{*std::move(sizes), row.subspan(head_bytes(tensor), bytes)};
}

// Puts values where they fit; false: they do not.
bool put(const TensorSpec& tensor, const Values& values, std::span<char> row) {
  const auto bytes = bytes_of_item(tensor, values.sizes);
  if (!bytes || *bytes != values.bytes.size()) return false;
  std::memcpy(begin_item(tensor, values.sizes, row).data(), values.bytes.data(), *bytes);
  return true;
}

Denial named(const plan::Terms& pipeline, std::size_t step, Denial denial) {
  denial.message = fmt::format("pipeline '{}', step '{}': {}", pipeline.name,
                               pipeline.pipeline->steps[step].service, denial.message);
  return denial;
}

// What reads and writes the tensors of a pipeline.
struct Wiring {
  plan::PipelineGraph graph;
  std::map<std::string, Port> written, read_first;
  std::vector<ModelSpec> models;             // per step
  std::vector<std::string> inputs, outputs;  // of the pipeline, in the order of its model's
  bool fans_out = false;
  ModelSpec model = {};  // of the pipeline
  std::vector<JointTensor> joints = {};
};

Result<void> check_step(const plan::PipelineStep& step, const ModelSpec& model) {
  const std::string context = "step '" + step.service + "'";
  if (model.kind != ModelKind::tensors || model.sequences)
    return bad_input(context, "its model is none of plain tensors");
  for (const TensorSpec& tensor : model.inputs)
    if (!step.inputs.contains(tensor.name))
      return bad_input(context, "its input_map lacks '" + tensor.name + "'");
  for (const auto& [name, unused] : step.inputs)
    if (!tensor_named(model.inputs, name))
      return bad_input(context, "its model has no input '" + name + "'");
  for (const auto& [name, unused] : step.outputs)
    if (!tensor_named(model.outputs, name))
      return bad_input(context, "its model has no output '" + name + "'");
  return {};
}

Result<void> check_edges(const plan::PipelineTerms& pipeline, const Wiring& wiring) {
  for (std::size_t s = 0; s < pipeline.steps.size(); ++s)
    for (const auto& [name, tensor] : pipeline.steps[s].inputs) {
      const auto from = wiring.written.find(tensor);
      const bool fanned = wiring.graph.group[s] == s;
      if (from == wiring.written.end()) {
        if (fanned)
          return bad_input("step '" + pipeline.steps[s].service + "'",
                           "fans out what the request brings");
        continue;
      }
      const TensorSpec& source = wiring.models[from->second.step].outputs[from->second.tensor];
      if (!fits(source, *tensor_named(wiring.models[s].inputs, name), fanned))
        return bad_input(
            "tensor '" + tensor + "'",
            fmt::format("'{}' gives {} {}, '{}' takes {} {}{}",
                        pipeline.steps[from->second.step].service, name_of(source.type),
                        wanted_shape(source), pipeline.steps[s].service,
                        name_of(tensor_named(wiring.models[s].inputs, name)->type),
                        wanted_shape(*tensor_named(wiring.models[s].inputs, name)),
                        fanned ? " for each" : ""));
    }
  return {};
}

// Of a member; null: it is not known yet.
using ModelOf = std::function<const ModelSpec*(const std::string& service)>;

Result<Wiring> wired(const plan::PipelineTerms& pipeline, const ModelOf& model_of) {
  Wiring wiring;
  wiring.graph = TRY(plan::graph_of(pipeline));
  std::set<std::string> read;
  for (std::size_t s = 0; s < pipeline.steps.size(); ++s) {
    const plan::PipelineStep& step = pipeline.steps[s];
    const ModelSpec* const model = model_of(step.service);
    if (!model) return bad_input("step '" + step.service + "'", "no worker has told its model yet");
    TRY(check_step(step, *model));
    for (std::size_t t = 0; t < model->outputs.size(); ++t)
      if (const auto to = step.outputs.find(model->outputs[t].name); to != step.outputs.end())
        wiring.written[to->second] = {s, t};
    wiring.models.push_back(*model);
    wiring.fans_out = wiring.fans_out || wiring.graph.group[s] == s;
  }
  for (const std::size_t s : wiring.graph.order)
    for (std::size_t t = 0; t < wiring.models[s].inputs.size(); ++t) {
      const std::string& tensor = pipeline.steps[s].inputs.at(wiring.models[s].inputs[t].name);
      read.insert(tensor);
      if (wiring.written.contains(tensor)) continue;
      if (wiring.read_first.emplace(tensor, Port{s, t}).second) wiring.inputs.push_back(tensor);
    }
  for (const auto& [tensor, port] : wiring.written)
    if (!read.contains(tensor)) wiring.outputs.push_back(tensor);
  TRY(check_edges(pipeline, wiring));
  return wiring;
}

// Tensors that steps may have in common: of one layout with all that read them, and large enough to
// have pages of their own. Where a step fans out its rows lie elsewhere.
std::vector<JointTensor> joint_tensors(const plan::PipelineTerms& pipeline, const Wiring& wiring) {
  std::vector<JointTensor> all;
  const std::size_t alone = pipeline.steps.size();
  for (const auto& [tensor, port] : wiring.written) {
    const TensorSpec& source = wiring.models[port.step].outputs[port.tensor];
    JointTensor joint{.writer = {pipeline.steps[port.step].service, port.step, port.tensor},
                      .readers = {},
                      .bytes = bytes_of(source)};
    bool fits = joint.bytes >= kJointBytes && wiring.graph.group[port.step] == alone;
    for (std::size_t s = 0; s < alone && fits; ++s)
      for (std::size_t t = 0; t < wiring.models[s].inputs.size() && fits; ++t) {
        const TensorSpec& input = wiring.models[s].inputs[t];
        if (pipeline.steps[s].inputs.at(input.name) != tensor) continue;
        joint.readers.push_back({pipeline.steps[s].service, s, t});
        fits = wiring.graph.group[s] == alone && input.shape == source.shape &&
               input.open_bytes == source.open_bytes;
      }
    if (fits && !joint.readers.empty()) all.push_back(std::move(joint));
  }
  return all;
}

ModelSpec model_of_wiring(const plan::Terms& pipeline, const Wiring& wiring) {
  ModelSpec model{.name = pipeline.name, .platform = "ensemble", .max_batch = INT32_MAX};
  for (const ModelSpec& member : wiring.models)
    model.max_batch = std::min(model.max_batch, member.max_batch);
  if (wiring.fans_out) model.max_batch = 1;
  for (const std::string& name : wiring.inputs) {
    const Port port = wiring.read_first.at(name);
    model.inputs.push_back(wiring.models[port.step].inputs[port.tensor]);
    model.inputs.back().name = name;
  }
  for (const std::string& name : wiring.outputs) {
    const Port port = wiring.written.at(name);
    TensorSpec tensor = wiring.models[port.step].outputs[port.tensor];
    tensor.name = name;
    if (wiring.graph.group[port.step] < wiring.models.size()) {  // all of the fan-out, as one
      tensor.open_bytes = std::max(tensor.open_bytes, bytes_of(tensor)) * kMaxRequestItems;
      tensor.open_bytes = std::min(tensor.open_bytes, kMaxItemBytes / kMaxTensors);
      tensor.shape.insert(tensor.shape.begin(), kOpen);
    }
    model.outputs.push_back(std::move(tensor));
  }
  return model;
}

Result<Wiring> composed(const plan::Terms& pipeline, const ModelOf& model_of) {
  auto wiring = TRY(wired(*pipeline.pipeline, model_of));
  wiring.model = model_of_wiring(pipeline, wiring);
  wiring.joints = joint_tensors(*pipeline.pipeline, wiring);
  TRY(check_model(pipeline.name, wiring.model));
  return wiring;
}

}  // namespace

// Whether two are wired alike: of how much a step fans out nothing depends.
bool wired_alike(const plan::PipelineTerms& one, const plan::PipelineTerms& other) {
  const auto wiring = [](plan::PipelineStep step) {
    step.share = {};
    step.fan_out = step.fan_out == 1 ? 1 : 2;
    return step;
  };
  return std::ranges::equal(one.steps, other.steps, {}, wiring, wiring);
}

struct Pipelines::Live {
  plan::Terms terms;
  std::shared_ptr<const Wiring> wiring = {};
  std::string said = {};  // why there is none
  RecentLatencies recent = {};
  ServiceCounters counters = {};
  ServiceTotals totals = {};
  std::map<std::size_t, actuate::FanOutCounts> fan_outs = {};  // by step
  std::shared_ptr<Joints> joints = {};                         // null: all is copied
  long in_common = 0, copied = 0;                              // rows of tensors between steps
  long offered_before = 0;
  double rate_rps = 0;
};

// A request on its way.
struct Pipelines::Way {
  struct Step {
    std::optional<RequestId> request = {};
    int items = 0;
    long expected = 0;  // rows that it will be asked for
    bool done = false;
  };
  std::shared_ptr<Live> live;
  std::shared_ptr<const Wiring> wiring;  // as it was let in
  RequestHead head;
  std::string client = {}, trace_parent = {}, trace_state = {};
  Nanos arrived = 0;
  std::vector<Step> steps = {};
  std::shared_ptr<Joints> joints = {};
  std::vector<std::optional<std::size_t>> lanes = {};  // by item
  std::map<std::pair<int, int>, std::vector<char>> staged =
      {};                                        // inputs that only later steps read
  std::vector<std::vector<char>> gathered = {};  // by output of the pipeline, of a fan-out
  Completion completion = {};
  bool submitted = false, finished = false;

  const std::vector<plan::PipelineStep>& planned() const { return live->terms.pipeline->steps; }
  bool enters(std::size_t step) const { return wiring->graph.after[step].empty(); }
  ~Way() {
    for (const auto& lane : lanes)
      if (lane) joints->give_back(*lane);
  }
  // The slot that is set apart for an item of a step.
  std::optional<PoolSlot> apart(std::size_t step, int item) const {
    if (at(item) >= lanes.size() || !lanes[at(item)]) return std::nullopt;
    return joints->slot(*lanes[at(item)], step);
  }
  Nanos due() const { return arrived + head.timeout_ns.value_or(nanos_of(slo_of(live->terms))); }
};

// What is done with the steps of one request.
class Pipelines::Steps {
 public:
  Steps(Backend& members, const MemberDoors& doors, Way& way)
      : members_(members), doors_(doors), way_(way) {}

  std::optional<Denial> admit(std::size_t s, int items, bool first, std::optional<Nanos> done_by) {
    RequestHead head = way_.head;
    head.service = way_.planned()[s].service;
    head.items = items;
    head.done_by = done_by;
    head.client = way_.client;
    head.trace_parent = way_.trace_parent;
    head.trace_state = way_.trace_state;
    if (!first) {  // of its key once
      head.limits = nullptr;
      head.again = false;
    }
    if (head.timeout_ns)
      head.timeout_ns = std::max<Nanos>(1, *head.timeout_ns - (Loop::now_ns() - way_.arrived));
    auto request = members_.admit(head);
    if (!request) return std::move(request.error());
    way_.steps[s].request = *request;
    way_.steps[s].items = items;
    return std::nullopt;
  }

  // Where an input of the pipeline lies: with the first step, or here.
  std::span<char> input(int item, int tensor) {
    const std::string& name = way_.wiring->inputs[at(tensor)];
    const Port port = way_.wiring->read_first.at(name);
    if (way_.enters(port.step))
      return members_.input(*way_.steps[port.step].request, item, static_cast<int>(port.tensor));
    std::vector<char>& bytes = way_.staged[{item, tensor}];
    bytes.resize(bytes_of(way_.wiring->models[port.step].inputs[port.tensor]));
    return bytes;
  }

  // The values that come into a step; nothing where a worker wrote what cannot be.
  std::optional<Values> source(const std::string& tensor, int item) {
    const Wiring& wiring = *way_.wiring;
    if (const auto from = wiring.written.find(tensor); from != wiring.written.end()) {
      const Port port = from->second;
      return values_of(
          wiring.models[port.step].outputs[port.tensor],
          members_.output(*way_.steps[port.step].request, item, static_cast<int>(port.tensor)));
    }
    const Port port = wiring.read_first.at(tensor);
    const auto place = std::ranges::find(wiring.inputs, tensor) - wiring.inputs.begin();
    return values_of(wiring.models[port.step].inputs[port.tensor],
                     input(item, static_cast<int>(place)));
  }

  // How many requests a step makes: nothing where its inputs disagree.
  std::optional<int> items_of(std::size_t s) {
    const Wiring& wiring = *way_.wiring;
    const std::size_t group = wiring.graph.group[s];
    if (group == way_.steps.size()) return way_.head.items;
    if (group != s) return way_.steps[group].items;
    std::optional<std::int64_t> items;
    for (const auto& [name, tensor] : way_.planned()[s].inputs) {
      const auto values = source(tensor, 0);
      if (!values || values->sizes.empty()) return std::nullopt;
      if (items && *items != values->sizes.front()) return std::nullopt;
      items = values->sizes.front();
    }
    if (!items || *items > kMaxRequestItems) return std::nullopt;
    return static_cast<int>(*items);
  }

  // Whether an item of a step lies in the slot that is set apart for it.
  bool in_lane(std::size_t s, int item) const {
    const auto apart = way_.apart(s, item);
    const auto& request = way_.steps[s].request;
    return apart && request && doors_.lies(*request, item) == *apart;
  }
  // Slots that are set apart for a step: where all that it reads in common lies in its lane.
  std::vector<PoolSlot> wanted_slots(std::size_t s, int items) const {
    std::vector<PoolSlot> wanted(at(items));
    for (int item = 0; item < items; ++item) {
      const bool there = std::ranges::all_of(way_.wiring->joints, [&](const JointTensor& joint) {
        const bool reads = std::ranges::count(joint.readers, s, &JointTensor::End::step) > 0;
        return !reads || in_lane(joint.writer.step, item);
      });
      if (there) wanted[at(item)] = way_.apart(s, item).value_or(PoolSlot{});
    }
    return wanted;
  }
  bool in_common(std::size_t s, std::size_t tensor, int item) const {
    for (const JointTensor& joint : way_.wiring->joints)
      for (const JointTensor::End& reader : joint.readers)
        if (reader.step == s && reader.tensor == tensor)
          return in_lane(s, item) && in_lane(joint.writer.step, item);
    return false;
  }

  // Into its slots, those inputs apart that the door has written there, or that are there.
  bool fill(std::size_t s) {
    const Wiring& wiring = *way_.wiring;
    const ModelSpec& model = wiring.models[s];
    for (std::size_t t = 0; t < model.inputs.size(); ++t) {
      const std::string& tensor = way_.planned()[s].inputs.at(model.inputs[t].name);
      const auto first = wiring.read_first.find(tensor);
      if (first != wiring.read_first.end() && first->second.step == s &&
          first->second.tensor == t && way_.enters(s))
        continue;
      for (int item = 0; item < way_.steps[s].items; ++item) {
        const bool there = in_common(s, t, item);
        ++(there ? way_.live->in_common : way_.live->copied);
        if (there) continue;
        const auto values = wiring.graph.group[s] == s ? part(tensor, item, way_.steps[s].items)
                                                       : source(tensor, item);
        const std::span<char> row =
            members_.input(*way_.steps[s].request, item, static_cast<int>(t));
        if (!values || !put(model.inputs[t], *values, row)) return false;
      }
    }
    return true;
  }

  // The outputs of a fan-out, one behind the other, as one item; false: they differ in size.
  bool gather() {
    const Wiring& wiring = *way_.wiring;
    way_.gathered.resize(wiring.outputs.size());
    for (std::size_t o = 0; o < wiring.outputs.size(); ++o) {
      const Port port = wiring.written.at(wiring.outputs[o]);
      if (wiring.graph.group[port.step] == way_.steps.size()) continue;
      const TensorSpec& spec = wiring.model.outputs[o];
      std::vector<std::int64_t> sizes = spec.shape;
      std::vector<char> bytes(head_bytes(spec));
      sizes.front() = way_.steps[port.step].items;
      for (std::int64_t& size : sizes) size = size == kOpen ? 0 : size;
      for (int item = 0; item < way_.steps[port.step].items; ++item) {
        const auto values = source(wiring.outputs[o], item);
        if (!values) return false;
        if (item > 0 && !std::equal(values->sizes.begin(), values->sizes.end(), sizes.begin() + 1))
          return false;
        std::ranges::copy(values->sizes, sizes.begin() + 1);
        bytes.insert(bytes.end(), values->bytes.begin(), values->bytes.end());
      }
      std::memcpy(bytes.data(), sizes.data(), sizes.size() * sizeof(std::int64_t));
      way_.gathered[o] = std::move(bytes);
    }
    return true;
  }

  // Slots that nobody reads any more are given back.
  void release_read() {
    for (std::size_t s = 0; s < way_.steps.size(); ++s)
      if (way_.steps[s].done && way_.steps[s].request && !is_read(s)) release(s);
  }
  void release(std::size_t s) {
    if (way_.steps[s].request) members_.release(*std::exchange(way_.steps[s].request, {}));
  }
  void release_all() {
    for (std::size_t s = 0; s < way_.steps.size(); ++s) release(s);
  }

 private:
  std::optional<Values> part(const std::string& tensor, int item, int items) {
    auto whole = source(tensor, 0);
    if (!whole) return std::nullopt;
    const std::size_t each = whole->bytes.size() / at(items);
    whole->sizes.erase(whole->sizes.begin());
    whole->bytes = whole->bytes.subspan(at(item) * each, each);
    return whole;
  }
  // Its outputs belong to the answer, or it has what a step that has not begun reads.
  bool is_read(std::size_t s) const {
    const Wiring& wiring = *way_.wiring;
    for (const std::string& output : wiring.outputs)
      if (wiring.written.at(output).step == s) return true;
    const auto begun = [&](std::size_t t) { return way_.steps[t].request || way_.steps[t].done; };
    for (std::size_t t = 0; t < way_.steps.size(); ++t) {
      if (begun(t)) continue;
      if (std::ranges::binary_search(wiring.graph.after[t], s)) return true;
      for (const auto& [name, tensor] : way_.planned()[t].inputs)
        if (const auto first = wiring.read_first.find(tensor);
            first != wiring.read_first.end() && first->second.step == s)
          return true;
    }
    return false;
  }

  Backend& members_;
  const MemberDoors& doors_;
  Way& way_;
};

Pipelines::Pipelines(Loop& loop, Backend& members, MemberDoors doors,
                     std::function<void(const std::string&)> say)
    : loop_(loop), members_(members), doors_(std::move(doors)), say_(std::move(say)) {}
Pipelines::~Pipelines() = default;

void Pipelines::serve(const std::vector<plan::Terms>& pipelines) {
  std::map<std::string, std::shared_ptr<Live>, std::less<>> now;
  for (const plan::Terms& terms : pipelines) {
    const auto before = live_.find(terms.name);
    const bool same =
        before != live_.end() && wired_alike(*before->second->terms.pipeline, *terms.pipeline);
    std::shared_ptr<Live> live = same ? before->second : std::make_shared<Live>();
    if (same && !plan::same_graph(*live->terms.pipeline, *terms.pipeline)) live->wiring = nullptr;
    live->terms = terms;
    now.emplace(terms.name, std::move(live));
  }
  for (const auto& [name, live] : live_) {
    const auto stays = now.find(name);
    if ((stays == now.end() || stays->second != live) && live->joints)
      doors_.retire(std::move(live->joints));
  }
  live_ = std::move(now);
}

// Its pools may be others than before, or have had no room.
void Pipelines::join(Live& live) {
  if (!doors_.join || !live.wiring) return;
  const bool fits =
      live.joints && live.joints->alive() && live.joints->tensors() == live.wiring->joints;
  if (fits) return;
  if (live.joints) doors_.retire(std::exchange(live.joints, nullptr));
  live.joints = doors_.join(live.wiring->joints);
}

bool Pipelines::known(std::string_view name) const { return live_.find(name) != live_.end(); }
bool Pipelines::idle() const { return ways_.empty(); }

std::vector<std::string> Pipelines::names() const {
  std::vector<std::string> all;
  for (const auto& [name, live] : live_) all.push_back(name);
  return all;
}

std::vector<ServiceSnapshot> Pipelines::snapshots() const {
  std::vector<ServiceSnapshot> all;
  for (const auto& [name, live] : live_) {
    ServiceSnapshot& one = all.emplace_back();
    one.terms = live->terms;
    one.p50 = live->recent.percentile(50, Loop::now_ns());
    one.p99 = live->recent.percentile(99, Loop::now_ns());
    one.rate_rps = live->rate_rps;
    one.counters = live->counters;
    one.totals = live->totals;
    one.ready_workers = ready(name) ? 1 : 0;
    if (one.ready_workers > 0) one.capacity_rps = live->terms.rate.value;
    for (const auto& [step, counts] : live->fan_outs) one.fan_outs.push_back(counts);
    one.between = StepTensors{live->in_common, live->copied};
  }
  return all;
}

void Pipelines::look_after(double per_second, double weight) {
  for (auto& [name, live] : live_) {
    join(*live);
    const double rate =
        static_cast<double>(live->counters.offered - live->offered_before) * per_second;
    live->offered_before = live->counters.offered;
    live->rate_rps += weight * (rate - live->rate_rps);
  }
}

long Pipelines::asked_of(const std::string& member) const {
  const auto found = asked_.find(member);
  return found == asked_.end() ? 0 : found->second;
}

const ModelSpec* Pipelines::model(std::string_view name) {
  Live& live = *live_.find(name)->second;
  const auto& steps = live.terms.pipeline->steps;
  bool same = live.wiring != nullptr;
  for (std::size_t s = 0; s < steps.size() && same; ++s) {
    const ModelSpec* const now = members_.model(steps[s].service);
    same = now && *now == live.wiring->models[s];
  }
  if (same) return &live.wiring->model;
  const ModelOf model_of = [&](const std::string& member) { return members_.model(member); };
  auto wiring = composed(live.terms, model_of);
  if (!wiring) {
    live.wiring = nullptr;
    const std::string why = to_string(wiring.error());
    if (why != live.said) say_(fmt::format("pipeline '{}': {}", name, why));
    live.said = why;
    return nullptr;
  }
  live.wiring = std::make_shared<const Wiring>(*std::move(wiring));
  join(live);
  return &live.wiring->model;
}

bool Pipelines::ready(std::string_view name) const {
  return std::ranges::all_of(
      live_.find(name)->second->terms.pipeline->steps,
      [&](const plan::PipelineStep& step) { return members_.ready(step.service); });
}

void Pipelines::turned_away(std::string_view name) {
  ServiceCounters& counters = live_.find(name)->second->counters;
  ++counters.offered;
  ++counters.refused_worker;
}

void Pipelines::uncount(std::string_view name, Refusal why) {
  serve::uncount(live_.find(name)->second->counters, why);
}

tl::expected<RequestId, Denial> Pipelines::admit(const RequestHead& head) {
  const std::shared_ptr<Live> live = live_.find(head.service)->second;
  if (!head.again) ++live->counters.offered;
  if (head.again) --live->totals.withdrawn;
  const auto denied = [&](Denial denial) {
    switch (denial.kind) {
      case Denial::Kind::would_be_late:
        ++live->counters.refused_miss;
        break;
      case Denial::Kind::not_ready:
        ++live->counters.refused_worker;
        break;
      case Denial::Kind::too_large:
      case Denial::Kind::slowed:
        ++live->totals.withdrawn;
        break;
      default:
        ++live->counters.refused_full;
    }
    return tl::unexpected<Denial>(std::move(denial));
  };
  if (!model(head.service))
    return denied({.kind = Denial::Kind::not_ready,
                   .message = fmt::format("pipeline '{}': {}", head.service, live->said)});
  if (live->wiring->fans_out && head.items != 1)
    return denied({.kind = Denial::Kind::too_large,
                   .message = fmt::format("pipeline '{}' takes one row at a time", head.service)});
  auto way = std::make_unique<Way>();
  way->live = live;
  way->wiring = live->wiring;
  way->joints = live->joints;
  way->head = head;
  way->client = head.client;
  way->trace_parent = head.trace_parent;
  way->trace_state = head.trace_state;
  way->arrived = Loop::now_ns();
  way->steps.resize(way->planned().size());
  const Nanos slo = nanos_of(slo_of(live->terms));
  if (const auto ahead = ahead_of(*way, kNoStep, 0);
      ahead && !plan::in_time(ahead->end, way->due(), slo, {0, ahead->overload})) {
    const Nanos late = std::max<Nanos>(1, ahead->end - way->due());
    for (std::size_t s = 0; s < way->steps.size(); ++s)
      doors_.held_off(way->planned()[s].service, reckoned(*way, s));
    return denied({.kind = Denial::Kind::would_be_late,
                   .message = fmt::format("pipeline '{}' would answer {:.1f} ms too late, all its "
                                          "steps together",
                                          head.service, static_cast<double>(late) * 1e-6),
                   .retry_after_ns = late});
  }
  bool first = true;
  for (std::size_t s = 0; s < way->steps.size(); ++s) {
    if (!way->enters(s)) continue;
    if (auto denial = ask(*way, s, head.items, std::exchange(first, false))) {
      Steps(members_, doors_, *way).release_all();
      return denied(named(live->terms, s, *std::move(denial)));
    }
  }
  for (std::size_t s = 0; s < way->steps.size(); ++s)
    if (!way->enters(s)) expect(*way, s, true);
  way->head.limits = nullptr;  // for the call alone
  const RequestId id = kOwn | next_++;
  ways_.emplace(id, std::move(way));
  return id;
}

// Rows of a step that is still to be asked.
int Pipelines::reckoned(const Way& way, std::size_t step) {
  const long rows = static_cast<long>(way.head.items) *
                    plan::reckoned_requests(way.wiring->graph, step);
  return static_cast<int>(std::min<long>(rows, kMaxRequestItems));
}

// What a step will be asked for counts from when the request was let in until it is asked, or ends.
void Pipelines::expect(Way& way, std::size_t step, bool comes) {
  long& expected = way.steps[step].expected;
  long& coming = coming_[way.planned()[step].service];
  coming -= expected;
  expected = comes ? reckoned(way, step) : 0;
  coming += expected;
}

// Of the steps that are still to be asked; of one of them it is known how many rows it has. Nothing
// where a member foresees nothing.
std::optional<plan::WayAhead> Pipelines::ahead_of(const Way& way, std::size_t step,
                                                  int items) const {
  std::vector<std::optional<plan::Foreseen>> steps(way.steps.size());
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (way.steps[s].request || way.steps[s].done) continue;
    const std::string& member = way.planned()[s].service;
    const auto coming = coming_.find(member);
    const long others = coming == coming_.end() ? 0 : coming->second - way.steps[s].expected;
    steps[s] = doors_.foresee(member, std::max(0L, others), s == step ? items : reckoned(way, s));
    if (!steps[s]) return std::nullopt;
  }
  return plan::way_ahead(way.wiring->graph, steps, Loop::now_ns());
}

std::optional<Denial> Pipelines::ask(Way& way, std::size_t s, int items, bool first) {
  std::optional<Nanos> done_by;
  if (const auto ahead = ahead_of(way, s, items)) done_by = ahead->done_by(s, way.due());
  expect(way, s, false);
  auto denial = Steps(members_, doors_, way).admit(s, items, first, done_by);
  const bool offered = !denial || denial->kind != Denial::Kind::unknown_model;
  if (offered && !(first && way.head.again)) ++asked_[way.planned()[s].service];
  return denial;
}

bool Pipelines::claim(RequestId id, int rows) {
  Way& way = *ways_.at(id);
  if (way.joints)
    while (way.lanes.size() < at(rows)) way.lanes.push_back(way.joints->take());
  for (std::size_t s = 0; s < way.steps.size(); ++s)
    if (way.enters(s) && !claim(way, s, rows)) return false;
  return true;
}

bool Pipelines::claim(Way& way, std::size_t s, int rows) {
  const RequestId request = *way.steps[s].request;
  if (!way.joints) return members_.claim(request, rows);
  return doors_.claim(request, rows, Steps(members_, doors_, way).wanted_slots(s, rows));
}

std::span<char> Pipelines::input(RequestId id, int item, int tensor) {
  return Steps(members_, doors_, *ways_.at(id)).input(item, tensor);
}

void Pipelines::submit(RequestId id, Completion completion) {
  Way& way = *ways_.at(id);
  way.completion = std::move(completion);
  way.submitted = true;
  Steps steps(members_, doors_, way);
  std::vector<std::size_t> entries;
  for (std::size_t s = 0; s < way.steps.size(); ++s)
    if (way.enters(s)) entries.push_back(s);
  for (const std::size_t s : entries)
    if (!steps.fill(s))
      return finish(
          id, named(way.live->terms, s,
                    {.kind = Denial::Kind::bad_request, .message = "its input has another size"}));
  for (const std::size_t s : entries) go(id, s);
}

// A member's answer may come while the member is being asked: it is looked at in the loop's turn.
void Pipelines::go(RequestId id, std::size_t s) {
  Completion completion;
  completion.ended = [this, id, s, alive = std::weak_ptr(alive_)](std::optional<Denial> denial) {
    loop_.post([this, id, s, alive, denial = std::move(denial)] {
      if (!alive.expired()) ended(id, s, denial);
    });
  };
  members_.submit(*ways_.at(id)->steps[s].request, std::move(completion));
}

void Pipelines::ended(RequestId id, std::size_t s, std::optional<Denial> denial) {
  const auto found = ways_.find(id);
  if (found == ways_.end() || found->second->finished) return;
  Way& way = *found->second;
  if (denial) return finish(id, named(way.live->terms, s, *std::move(denial)));
  way.steps[s].done = true;
  Steps steps(members_, doors_, way);
  const auto done = [&](std::size_t before) { return way.steps[before].done; };
  for (std::size_t t = 0; t < way.steps.size(); ++t) {
    Way::Step& step = way.steps[t];
    if (step.request || step.done || !std::ranges::all_of(way.wiring->graph.after[t], done))
      continue;
    if (auto refused = begin(way, t)) return finish(id, named(way.live->terms, t, *refused));
    if (step.done) return ended(id, t, std::nullopt);  // nothing was to be asked
    go(id, t);
  }
  steps.release_read();
  if (!std::ranges::all_of(way.steps, &Way::Step::done)) return;
  if (!steps.gather())
    return finish(id, Denial{.kind = Denial::Kind::failed,
                             .message = fmt::format("pipeline '{}': outputs of different sizes",
                                                    way.live->terms.name)});
  finish(id, std::nullopt);
}

// Asks for a step, with what is there for it; a reason why not.
std::optional<Denial> Pipelines::begin(Way& way, std::size_t t) {
  Steps steps(members_, doors_, way);
  const std::optional<int> items = steps.items_of(t);
  if (!items)
    return Denial{.kind = Denial::Kind::failed,
                  .message = "its inputs differ in how many they are"};
  if (way.wiring->graph.group[t] == t) {
    actuate::FanOutCounts& counts = way.live->fan_outs[t];
    counts.step = static_cast<int>(t);
    ++counts.requests;
    counts.rows += *items;
  }
  if (*items == 0) {
    expect(way, t, false);
    way.steps[t].done = true;
    return std::nullopt;
  }
  if (auto denial = ask(way, t, *items, false)) return denial;
  if (!claim(way, t, *items))
    return Denial{.kind = Denial::Kind::overloaded, .message = "no memory for it"};
  if (!steps.fill(t))
    return Denial{.kind = Denial::Kind::failed, .message = "what it is given has another size"};
  return std::nullopt;
}

void Pipelines::finish(RequestId id, std::optional<Denial> denial) {
  Way& way = *ways_.at(id);
  Live& live = *way.live;
  const Nanos latency = Loop::now_ns() - way.arrived;
  way.finished = true;
  for (std::size_t s = 0; s < way.steps.size(); ++s) expect(way, s, false);
  if (!denial) {
    ++live.counters.completed;
    live.counters.items += way.head.items;
    if (latency <= nanos_of(slo_of(live.terms))) ++live.counters.in_slo;
    live.recent.add(Loop::now_ns(), latency);
    live.totals.success_ns += latency;
  } else {
    ++(denial->kind == Denial::Kind::expired ? live.counters.expired : live.counters.failed);
    live.totals.fail_ns += latency;
    Steps(members_, doors_, way).release_all();
  }
  const Completion completion = std::move(way.completion);
  completion.ended(std::move(denial));
}

std::span<const char> Pipelines::output(RequestId id, int item, int tensor) {
  Way& way = *ways_.at(id);
  if (const std::vector<char>& all = way.gathered[at(tensor)]; !all.empty()) return all;
  const Port port = way.wiring->written.at(way.wiring->outputs[at(tensor)]);
  return members_.output(*way.steps[port.step].request, item, static_cast<int>(port.tensor));
}

void Pipelines::release(RequestId id) {
  const auto found = ways_.find(id);
  CHECK(found != ways_.end());
  Way& way = *found->second;
  if (!way.finished) {
    const bool late =
        way.submitted && Loop::now_ns() - way.arrived > nanos_of(slo_of(way.live->terms));
    ++(late ? way.live->totals.given_up : way.live->totals.withdrawn);
    if (way.submitted) ++way.live->counters.cancelled;
    for (std::size_t s = 0; s < way.steps.size(); ++s) expect(way, s, false);
  }
  Steps(members_, doors_, way).release_all();
  ways_.erase(found);
}

}  // namespace partita::serve
