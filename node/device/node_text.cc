// state_text of node_forms.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/append.h"
#include "base/terminal.h"
#include "base/unicode.h"
#include "device/node_forms.h"

namespace partita::device {
namespace {

constexpr int kMaxBarSlices = 64;   // drawn of a GPU that the catalogue does not know
constexpr int kLeastColumns = 10;   // that a column of a table is cut to
constexpr int kEnoughColumns = 24;  // for a list of processes
constexpr Rgb kIdleColour{222, 222, 222};
constexpr Rgb kBusyColour{178, 178, 178};  // somebody's, no service is known

std::string safe(std::string_view text) { return utf8(printable(text)); }

// "python (1234), 1240"
std::string holders_text(const std::vector<Holder>& holders) {
  std::string text;
  for (const Holder& holder : holders) {
    if (!text.empty()) text += ", ";
    if (holder.pid == 0) {
      text += holder.name.empty() ? "a process" : safe(holder.name);
    } else if (holder.name.empty()) {
      text += fmt::format("{}", holder.pid);
    } else {
      text += fmt::format("{} ({})", safe(holder.name), holder.pid);
    }
  }
  return text;
}

// "3g.40gb@4"
std::string placed(const Instance& instance) {
  return fmt::format("{}@{}", safe(instance.profile), instance.start);
}

// Why a GPU has no bar; empty when it has one.
std::string nothing_to_draw(const GpuState& gpu) {
  if (gpu.lost) return "lost";
  if (!gpu.instances.empty()) return {};
  if (!gpu.mig_capable) return "no MIG";
  if (!gpu.mig_enabled) return "MIG is off";
  return gpu.model.empty() ? "no instance" : "";
}

class StateText {
 public:
  StateText(const NodeState& state, const Occupants& occupants, const hw::Catalogue& catalogue,
            const StateTextOptions& options)
      : state_(state),
        occupants_(occupants),
        catalogue_(catalogue),
        painter_(options.colour),
        width_(options.width),
        shown_(std::min(state.gpus.size(), kMaxTextGpus)) {}

  std::string write();

 private:
  std::string head() const;
  std::string bars();
  std::string gpu_lines() const;
  std::string instance_lines() const;
  std::vector<std::string> faults() const;
  std::string table(const std::vector<TextRow>& rows, std::size_t uuid) const;

  int slices(const GpuState& gpu) const;
  LabelledBox box(const Instance& instance, int slices);
  const Occupant* occupant(const std::string& uuid) const;
  std::string service(const std::string& uuid) const;

  const NodeState& state_;
  const Occupants& occupants_;
  const hw::Catalogue& catalogue_;
  const Painter painter_;
  const int width_;
  const std::size_t shown_;                  // of the GPUs
  std::map<std::string_view, int> colours_;  // by service
};

std::string StateText::head() const {
  long instances = 0, busy = 0;
  for (const GpuState& gpu : state_.gpus) {
    instances += static_cast<long>(gpu.instances.size());
    busy += std::ranges::count_if(gpu.instances, &Instance::busy);
  }
  return fmt::format("{}{}: {}, {}, {} busy (*)",
                     state_.driver.empty() ? "unknown driver" : safe(state_.driver),
                     state_.driver_version.empty() ? "" : " " + safe(state_.driver_version),
                     count_text(static_cast<long>(state_.gpus.size()), "GPU"),
                     count_text(instances, "instance"), busy);
}

int StateText::slices(const GpuState& gpu) const {
  if (const hw::GpuModel* model = gpu.model.empty() ? nullptr : catalogue_.find(gpu.model))
    return model->memory_slices;
  int needed = 1;
  for (const Instance& i : gpu.instances)
    needed = std::max(needed, std::min(i.start, kMaxBarSlices) + std::min(i.size, kMaxBarSlices));
  return std::min(needed, kMaxBarSlices);
}

const Occupant* StateText::occupant(const std::string& uuid) const {
  const auto found = occupants_.find(uuid);
  return uuid.empty() || found == occupants_.end() ? nullptr : &found->second;
}

// "bert b8×2"; a dash when nobody knows of one.
std::string StateText::service(const std::string& uuid) const {
  const Occupant* occupant = this->occupant(uuid);
  if (!occupant) return "-";
  std::string text = safe(occupant->service);
  if (occupant->batch > 0) text += fmt::format(" b{}×{}", occupant->batch, occupant->processes);
  if (occupant->group.empty()) return text;
  std::vector<std::string> with;
  for (const GpuState& gpu : state_.gpus)
    if (gpu.uuid != uuid && std::ranges::count(occupant->group, gpu.uuid) > 0)
      with.push_back(std::to_string(gpu.index));
  return text + fmt::format(", with GPU {}", joined(with, ", "));
}

LabelledBox StateText::box(const Instance& instance, int slices) {
  const int start = std::clamp(instance.start, 0, slices - 1);
  LabelledBox box{.start = start,
                  .size = std::clamp(instance.size, 1, slices - start),
                  .labels = {},
                  .colour = instance.busy() ? kBusyColour : kIdleColour};
  const std::string mark = instance.busy() ? "*" : "", profile = safe(instance.profile);
  if (const Occupant* occupant = this->occupant(instance.uuid())) {
    const auto place = colours_.emplace(occupant->service, static_cast<int>(colours_.size())).first;
    const std::string name = safe(occupant->service);
    box.colour = distinct_colour(place->second);
    box.labels = {fmt::format("{}{} {}", mark, service(instance.uuid()), profile),
                  fmt::format("{}{} {}", mark, name, profile), mark + name};
  } else {
    box.labels = {mark + profile};
  }
  return box;
}

// The bars, with a ruler wherever the GPU model changes.
std::string StateText::bars() {
  int head = 0;
  for (std::size_t i = 0; i < shown_; ++i)
    head = std::max({head, columns(state_.gpus[i].model),
                     columns(fmt::format("GPU {}", state_.gpus[i].index))});
  std::string text;
  const GpuState* above = nullptr;
  for (std::size_t i = 0; i < shown_; ++i) {
    const GpuState& gpu = state_.gpus[i];
    const BarShape shape{slices(gpu), width_ - head - 1};
    const std::string name = fit(fmt::format("GPU {}", gpu.index), head);
    if (occupant(gpu.uuid) != nullptr && gpu.instances.empty() && !gpu.lost) {
      text += fmt::format("{} all of it: {}\n", name, service(gpu.uuid));
      continue;
    }
    if (const std::string nothing = nothing_to_draw(gpu); !nothing.empty()) {
      text += fmt::format("{} {}\n", name, nothing);
      continue;
    }
    if (!above || above->model != gpu.model || slices(*above) != shape.units)
      text += fmt::format("{} {}\n", fit(gpu.model, head), painter_.dim(ruler_text(shape)));
    above = &gpu;
    std::vector<LabelledBox> boxes;
    for (const Instance& instance : gpu.instances) boxes.push_back(box(instance, shape.units));
    text += fmt::format("{} {}\n", name, bar_text(shape, boxes, painter_));
  }
  return text;
}

// Columns of text, two spaces apart. The last one has what room there is; where that is too little
// it gets lines of its own, and the widest others, last of all `uuid`, are cut until they fit.
std::string StateText::table(const std::vector<TextRow>& rows, std::size_t uuid) const {
  const std::size_t last = rows.front().size() - 1;
  std::vector<int> widths(last + 1);
  for (const TextRow& row : rows)
    for (std::size_t i = 0; i <= last; ++i) widths[i] = std::max(widths[i], columns(row[i]));
  int left = width_;
  for (std::size_t i = 0; i < last; ++i) left -= widths[i] + 2;
  const bool apart = left < std::min(widths[last], kEnoughColumns);
  while (apart && left < -2) {
    std::size_t widest = uuid;
    for (std::size_t i = 0; i < last; ++i)
      if (i != uuid && widths[i] > (widest == uuid ? kLeastColumns : widths[widest])) widest = i;
    if (widths[widest] <= kLeastColumns) break;
    --widths[widest];
    ++left;
  }
  std::string text;
  for (const TextRow& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < last; ++i) line += fit(row[i], widths[i]) + "  ";
    if (!apart) line += fit(row[last], std::min(left, columns(row[last])));
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    if (apart && row[last] != "-")
      text += "     " + fit(row[last], std::min(width_ - 5, columns(row[last]))) + "\n";
  }
  return text;
}

std::string StateText::gpu_lines() const {
  std::vector<TextRow> rows{{"GPU", "UUID", "MIG", "board", "other processes"}};
  for (std::size_t i = 0; i < shown_; ++i) {
    const GpuState& gpu = state_.gpus[i];
    std::string mig = gpu.mig_enabled ? "on" : gpu.mig_capable ? "off" : "no";
    if (gpu.mig_pending != gpu.mig_enabled)
      mig += gpu.mig_pending ? ", on at reset" : ", off at reset";
    rows.push_back({fmt::format("{}", gpu.index), safe(gpu.uuid), gpu.lost ? "lost" : mig,
                    gpu.name.empty() ? "-" : safe(gpu.name),
                    gpu.holders.empty() ? "-" : holders_text(gpu.holders)});
  }
  return table(rows, 1);
}

std::string StateText::instance_lines() const {
  std::vector<TextRow> rows{{"GPU", "instance", "gi", "MIG device", "service", "processes"}};
  for (std::size_t i = 0; i < shown_; ++i)
    for (const Instance& instance : state_.gpus[i].instances)
      rows.push_back(
          {fmt::format("{}", state_.gpus[i].index), placed(instance),
           fmt::format("{}", instance.gi_id), instance.uuid().empty() ? "-" : safe(instance.uuid()),
           service(instance.uuid()), instance.busy() ? holders_text(instance.holders) : "-"});
  return rows.size() == 1 ? "" : "\n" + table(rows, 3);
}

// What is wrong with an instance; empty when nothing is.
std::string instance_fault(const Instance& instance) {
  if (instance.whole()) return {};
  if (instance.compute.empty()) return "has no compute instance: its creation was cut short";
  if (instance.compute.size() > 1)
    return fmt::format("has {} compute instances; Partita uses instances of one",
                       instance.compute.size());
  return fmt::format("its compute instance has {} of {} compute slices",
                     instance.compute.front().gpcs, instance.gpcs);
}

std::vector<std::string> StateText::faults() const {
  std::vector<std::string> faults;
  for (std::size_t i = 0; i < shown_; ++i) {
    const GpuState& gpu = state_.gpus[i];
    const auto add = [&](const std::string& what) {
      faults.push_back(fmt::format("GPU {}: {}", gpu.index, what));
    };
    if (gpu.lost) {
      add("it fell off the bus; only a reboot helps");
      continue;
    }
    if (gpu.model.empty())
      add(fmt::format(
          "the catalogue does not know this board ({}, PCI device {}, {:.0f} MiB)",
          gpu.name.empty() ? "no name" : fit(safe(gpu.name), std::min(40, columns(safe(gpu.name)))),
          gpu.pci_device_id.empty() ? "unknown" : safe(gpu.pci_device_id), gpu.memory.value));
    if (gpu.mig_pending != gpu.mig_enabled)
      add(fmt::format("MIG goes {} at the next reset of the GPU", gpu.mig_pending ? "on" : "off"));
    for (const Instance& instance : gpu.instances)
      if (const std::string fault = instance_fault(instance); !fault.empty())
        add(fmt::format("{} (gi {}) {}", placed(instance), instance.gi_id, fault));
  }
  return faults;
}

std::string StateText::write() {
  std::string text = folded(head(), width_, 4);
  if (state_.gpus.empty()) return text;
  text += "\n" + bars() + "\n" + gpu_lines() + instance_lines();
  if (shown_ < state_.gpus.size())
    text += fmt::format("... and {} more GPUs\n", state_.gpus.size() - shown_);
  const std::vector<std::string> found = faults();
  if (!found.empty()) text += "\n";
  for (const std::string& fault : found) text += painter_.bold(folded("! " + fault, width_, 2));
  return text;
}

}  // namespace

std::string state_text(const NodeState& state, const Occupants& occupants,
                       const hw::Catalogue& catalogue, const StateTextOptions& options) {
  std::string text = StateText(state, occupants, catalogue, options).write();
  if (const auto& open = options.unfinished) {
    text += fmt::format(
        "\nunfinished: transaction {} ({}): {}\n  the same command again goes on, `partita "
        "rollback` goes back\n",
        open->transaction, open->rollback ? "rollback" : "apply",
        open->reason.empty() ? "cut short, or under way" : safe(open->reason));
  }
  return text;
}

}  // namespace partita::device
