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

void tell_unfinished(Form& f, const Unfinished& change) {
  std::string reason = change.reason.empty() ? "cut short, or under way" : change.reason;
  f.told("transaction", change.transaction);
  f.told("kind", change.rollback ? "rollback" : "apply");
  f.quote("reason", reason, "why it ended");
}

struct StateForm {
  const hw::Catalogue& catalogue;
  const std::optional<Unfinished>& unfinished;
  const std::function<void(Form&)>& more;

  void operator()(Form& f, StateDocument& document) const {
    NodeState& state = document.state;
    f.lines("  ");
    f.document("NodeState");
    f.quote("driver", state.driver, "that tells");
    f.quote("driver_version", state.driver_version, "as the driver says");
    f.list("gpus", state.gpus, GpuForm{catalogue, document.occupants},
           {.most = kMaxNodeGpus, .indent = "    "}, "by index");
    if (unfinished)
      f.told_object("unfinished", [&](Form& of) { tell_unfinished(of, *unfinished); });
    if (more) more(f);
    Fields* const in = f.reading();
    if (!in || in->error()) return;
    Unique unique(*in);
    for (std::size_t i = 0; i < state.gpus.size(); ++i)
      unique.check(in->node().find("gpus")->items[i], state.gpus[i]);
    std::ranges::sort(state.gpus, {}, &GpuState::index);
  }
};

}  // namespace

std::string state_json(const NodeState& state, const Occupants& occupants,
                       const std::optional<Unfinished>& unfinished,
                       const std::function<void(Form&)>& more) {
  const StateDocument document{state, occupants};
  return write_form(document, StateForm{hw::builtin_catalogue(), unfinished, more});
}

std::string state_schema(const std::function<void(Form&)>& more) {
  return schema_form<StateDocument>("NodeState", "what a driver reads back of a node",
                                    StateForm{hw::builtin_catalogue(), {}, more});
}

Result<StateDocument> parse_state(const std::string& file, std::string_view text,
                                  const hw::Catalogue& catalogue) {
  const auto document = TRY(parse_document(file, text));
  return read_state(document, catalogue);
}

Result<StateDocument> read_state(const Document& document, const hw::Catalogue& catalogue) {
  return read_form<StateDocument>(document, StateForm{catalogue, {}, {}});
}

}  // namespace partita::device
