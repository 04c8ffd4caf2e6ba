// state_json and parse_state of node_forms.h.
#include "device/node_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "device/gpu_json.h"

namespace partita::device {
namespace {

// Refuses GPUs and devices that are there twice: whoever looks one up would find either.
class Unique {
 public:
  explicit Unique(Fields& in) : in_(in) {}

  void check(const Node& item, const GpuState& gpu) {
    if (!indices_.insert(gpu.index).second)
      in_.refuse(item, fmt::format("two GPUs have the index {}", gpu.index));
    once(item, gpu.uuid);
    for (const Instance& instance : gpu.instances)
      for (const ComputeInstance& compute : instance.compute) once(item, compute.uuid);
  }

 private:
  void once(const Node& item, const std::string& uuid) {
    if (!uuid.empty() && !uuids_.insert(uuid).second)
      in_.refuse(item, fmt::format("the device '{}' is listed twice", uuid));
  }

  Fields& in_;
  std::set<int> indices_;
  std::set<std::string> uuids_;
};

}  // namespace

std::string state_json(const NodeState& state, const Occupants& occupants,
                       const std::optional<Unfinished>& unfinished, const std::string& more) {
  JsonWriter out;
  out.raw("{\n  \"api_version\": \"partita/v1\",\n  \"kind\": \"NodeState\",\n  \"driver\": ");
  write_text(out, state.driver);
  out.raw(",\n  \"driver_version\": ");
  write_text(out, state.driver_version);
  out.raw(",\n  \"gpus\": ");
  out.list(state.gpus, "    ", [&](const GpuState& gpu) { write_gpu(out, gpu, occupants); });
  if (unfinished) {
    out.raw(",\n  \"unfinished\": {\"transaction\": ").number(unfinished->transaction);
    out.raw(", \"kind\": ").string(unfinished->rollback ? "rollback" : "apply");
    out.raw(", \"reason\": ");
    write_text(out, unfinished->reason.empty() ? "cut short, or under way" : unfinished->reason);
    out.raw("}");
  }
  return out.raw(more).raw("\n}\n").take();
}

Result<StateDocument> parse_state(const std::string& file, std::string_view text,
                                  const hw::Catalogue& catalogue) {
  const auto document = parse_document(file, text);
  if (!document) return failed(document.error());
  return read_state(*document, catalogue);
}

Result<StateDocument> read_state(const Document& document, const hw::Catalogue& catalogue) {
  Fields fields(document);
  fields.exactly("api_version", "partita/v1");
  fields.exactly("kind", "NodeState");
  StateDocument result;
  result.state.driver = read_text(fields, "driver");
  result.state.driver_version = read_text(fields, "driver_version");
  Unique unique(fields);
  for (const Node& item : fields.list("gpus", kMaxNodeGpus)) {
    GpuDocument gpu = read_gpu({fields, item}, catalogue);
    unique.check(item, gpu.gpu);
    if (fields.error()) break;
    result.state.gpus.push_back(std::move(gpu.gpu));
    result.occupants.merge(gpu.occupants);
  }
  if (fields.error()) return failed(*fields.error());
  std::ranges::sort(result.state.gpus, {}, &GpuState::index);
  return result;
}

}  // namespace partita::device
