// A backend for tests and benchmarks of front doors: slots in plain memory, answers computed at
// once or when the test says. Model "pair" takes x FP32[4] and k INT32[2] and gives twice x and k
// + 1.
#pragma once

#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "serve/front/backend.h"

namespace partita::serve::test {

class FakeBackend : public Backend {
 public:
  struct Request {
    std::string service;
    RequestHead head = {};
    std::string trace = {}, trace_state = {};
    std::string client = {};
    int items = 0, claimed = 0;
    bool submitted = false;
    std::vector<std::vector<char>> slots = {};
    Completion completion = {};
  };

  void add(const ModelSpec& model) { models.insert_or_assign(model.name, model); }

  std::vector<std::string> services() const override {
    std::vector<std::string> names;
    for (const auto& [name, model] : models) names.push_back(name);
    return names;
  }
  const ModelSpec* model(std::string_view service) const override {
    const auto found = models.find(service);
    return found == models.end() ? nullptr : &found->second;
  }
  bool known(std::string_view service) const override {
    return models.contains(service) || service == "asleep";
  }
  bool ready(std::string_view service) const override {
    return models.contains(service) && loaded(service);
  }
  bool ready() const override { return all_ready; }
  std::string set_canary(std::string_view model, const CanaryWish& wish) override {
    if (!known(model)) return "no such model";
    canaries[std::string(model)] = wish;
    return "";
  }
  std::optional<CanaryView> canary(std::string_view model) const override {
    const auto found = canaries.find(model);
    if (found == canaries.end()) return std::nullopt;
    return CanaryView{.wish = found->second, .state = "on trial"};
  }
  std::map<std::string, CanaryWish, std::less<>> canaries = {};
  tl::expected<RequestId, Denial> admit(const RequestHead& head) override {
    ++admissions;
    if (!head.again) ++offered;
    if (denial) return tl::unexpected(*denial);
    Request request{.service = std::string(head.service),
                    .head = head,
                    .trace = std::string(head.trace_parent),
                    .trace_state = std::string(head.trace_state),
                    .client = std::string(head.client),
                    .items = head.items};
    if (spare.empty()) spare.emplace_back();
    request.slots = std::move(spare.back());
    spare.pop_back();
    request.slots.resize(static_cast<std::size_t>(head.items));
    const std::size_t bytes = layout_of(request.service).bytes;
    for (auto& slot : request.slots)
      if (slot.size() != bytes) slot.resize(bytes);
    last = next++;
    requests.emplace(last, std::move(request));
    return last;
  }
  void turned_away(std::string_view service) override { ++turned[std::string(service)]; }
  tl::expected<KeyHandle, Denial> key_begun(const RequestHead& /*head*/) override {
    if (under_way >= most_at_once)
      return tl::unexpected<Denial>({.kind = Denial::Kind::slowed, .message = "over its limit"});
    ++under_way;
    return KeyHandle(nullptr, [this](void*) { --under_way; });
  }
  int under_way = 0, most_at_once = 1 << 20;  // of keys, at other nodes
  bool claim(RequestId id, int rows) override {
    const int more = rows - requests.at(id).claimed;
    if (more > free_rows) return false;
    free_rows -= more;
    requests.at(id).claimed = rows;
    return true;
  }
  std::span<char> input(RequestId id, int item, int tensor) override {
    Request& request = requests.at(id);
    CHECK(item < request.claimed);
    const auto& layout = layout_of(request.service);
    auto& slot = request.slots.at(static_cast<std::size_t>(item));
    const auto at = static_cast<std::size_t>(tensor);
    const ModelSpec& spec = models.find(request.service)->second;
    if (spec.kind == ModelKind::openai) return {slot.data(), 8 + kOpenaiBodyBytes};
    return {slot.data() + layout.inputs.at(at), bytes_of(spec.inputs.at(at))};
  }
  std::span<const char> output(RequestId id, int item, int tensor) override {
    return output_place(id, item, tensor);
  }
  std::span<char> output_place(RequestId id, int item, int tensor) {
    Request& request = requests.at(id);
    const auto at = static_cast<std::size_t>(tensor);
    auto& slot = request.slots.at(static_cast<std::size_t>(item));
    return {slot.data() + layout_of(request.service).outputs.at(at),
            bytes_of(models.find(request.service)->second.outputs.at(at))};
  }
  void submit(RequestId id, Completion completion) override {
    Request& request = requests.at(id);
    request.submitted = true;
    request.completion = std::move(completion);
    ++submissions;
    if (!at_once) return;
    if (compute) compute(id);
    finish(id, std::nullopt);
  }
  void finish(RequestId id, std::optional<Denial> why) {
    const auto ended = std::move(requests.at(id).completion.ended);
    ended(std::move(why));
  }
  void release(RequestId id) override {
    ++releases;
    free_rows += requests.at(id).claimed;
    auto node = requests.extract(id);
    if (node && spare.size() < 64) spare.push_back(std::move(node.mapped().slots));
  }
  ServiceStatistics statistics(std::string_view) const override {
    return {.success_count = 3,
            .success_ns = 4,
            .queue_count = 5,
            .inference_count = 6,
            .kept = kept,
            .pipeline = pipeline};
  }
  bool set_loaded(std::string_view service, bool on) override {
    if (!models.contains(service)) return false;
    on ? unloaded.erase(std::string(service)) : unloaded.insert(std::string(service)).second;
    return true;
  }
  bool loaded(std::string_view service) const override {
    return !unloaded.contains(std::string(service));
  }
  std::set<std::string> unloaded;
  std::optional<plan::PipelineTerms> pipeline = {};  // every service is
  std::optional<KeptAnswers> kept = {};              // of every service
  std::string metrics() const override { return "nv_inference_count{model=\"pair\"} 6\n"; }

  const SlotLayout& layout_of(const std::string& service) {
    const auto found = layouts.find(service);
    if (found != layouts.end()) return found->second;
    return layouts.emplace(service, slot_layout(models.at(service))).first->second;
  }

  std::map<std::string, ModelSpec, std::less<>> models;
  std::map<std::string, SlotLayout, std::less<>> layouts;
  std::map<RequestId, Request> requests;
  std::vector<std::vector<std::vector<char>>> spare;
  std::optional<Denial> denial = {};  // for every admission
  std::function<void(RequestId)> compute = {};
  bool at_once = true, all_ready = true;
  int free_rows = 1 << 20;  // not claimed
  int admissions = 0, offered = 0, submissions = 0, releases = 0;
  std::map<std::string, int> turned;  // away, by service
  RequestId next = 1, last = 0;
};

inline ModelSpec pair_model() {
  return {.name = "pair",
          .platform = "null",
          .inputs = {{"x", DataType::fp32, {4}}, {"k", DataType::int32, {2}}},
          .outputs = {{"twice", DataType::fp32, {4}}, {"next", DataType::int32, {2}}},
          .max_batch = 8};
}

// A request of one row for it.
inline const std::string kPairBody =
    R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]},)"
    R"({"name":"k","shape":[1,2],"datatype":"INT32","data":[5,6]}]})";

// What pair_model() computes.
inline void compute_pair(FakeBackend& backend, RequestId id) {
  for (int item = 0; item < backend.requests.at(id).items; ++item) {
    float x[4];
    std::int32_t k[2];
    std::memcpy(x, backend.input(id, item, 0).data(), sizeof x);
    std::memcpy(k, backend.input(id, item, 1).data(), sizeof k);
    for (float& value : x) value *= 2;
    for (std::int32_t& value : k) value += 1;
    std::memcpy(backend.output_place(id, item, 0).data(), x, sizeof x);
    std::memcpy(backend.output_place(id, item, 1).data(), k, sizeof k);
  }
}

}  // namespace partita::serve::test
