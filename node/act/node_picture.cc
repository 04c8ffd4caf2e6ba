#include "act/node_picture.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/terminal.h"
#include "forms/layout_svg.h"

namespace partita::actuate {
namespace {

using forms::BoxFate;
using forms::LayoutBox;
using forms::LayoutPicture;
using forms::LayoutRow;

LayoutRow row_of(const device::GpuState& gpu, const hw::Catalogue& catalogue) {
  LayoutRow row{fmt::format("GPU {}", gpu.index),
                fmt::format("{} {}{}", gpu.model.empty() ? gpu.name : gpu.model, gpu.uuid,
                            gpu.lost          ? ", lost"
                            : gpu.mig_enabled ? ", MIG on"
                                              : ", MIG off"),
                1,
                {}};
  if (const hw::GpuModel* model = catalogue.find(gpu.model)) row.slices = model->memory_slices;
  for (const device::Instance& one : gpu.instances)
    row.slices = std::clamp(one.start + one.size, row.slices, forms::kMostLayoutSlices);
  return row;
}

std::string point(const std::string& profile, int batch, int processes) {
  return batch > 0 ? fmt::format("{} · b{}×{}", profile, batch, processes) : profile;
}

std::string pictured_holders(const std::vector<device::Holder>& holders) {
  std::string text;
  for (const device::Holder& holder : holders)
    text += fmt::format("\nprocess {} {}", holder.pid, holder.name);
  return text;
}

// How many memory slices an instance of this profile has.
int size_of(const Place& place, const device::GpuState& gpu, const hw::Catalogue& catalogue) {
  const hw::GpuModel* model = catalogue.find(gpu.model);
  if (model == nullptr) return 1;
  const int number = model->profile_index(place.profile);
  return number < 0 ? 1 : model->profiles[static_cast<std::size_t>(number)].size;
}

// Collects boxes on the rows of their GPUs.
class ChangeRows {
 public:
  ChangeRows(const device::NodeState& state, const hw::Catalogue& catalogue)
      : state_(state), catalogue_(catalogue) {}

  void put(const Place& place, const Segment& segment, BoxFate fate, const std::string& facts) {
    const device::GpuState* gpu = state_.find(place.gpu_uuid);
    if (gpu == nullptr) return;
    auto row = std::ranges::find(rows_, gpu->index, &Row::index);
    if (row == rows_.end())
      row = rows_.insert(rows_.end(), Row{gpu->index, row_of(*gpu, catalogue_), {}});
    LayoutBox box{place.start,
                  size_of(place, *gpu, catalogue_),
                  segment.service,
                  point(place.profile, segment.batch, segment.processes),
                  to_string(place) + "\n" + facts,
                  false,
                  fate};
    (fate == BoxFate::comes ? row->after : row->now.boxes).push_back(std::move(box));
  }

  // A GPU whose layout changes has two rows: as it is, as it will be.
  std::vector<LayoutRow> rows() && {
    std::ranges::sort(rows_, {}, &Row::index);
    std::vector<LayoutRow> all;
    for (Row& row : rows_) {
      const bool changes = !row.after.empty() || std::ranges::any_of(row.now.boxes, gone);
      all.push_back(row.now);
      if (!changes) continue;
      LayoutRow then = row.now;
      then.label = "  then";
      std::erase_if(then.boxes, gone);
      then.boxes.insert(then.boxes.end(), row.after.begin(), row.after.end());
      all.push_back(std::move(then));
    }
    return all;
  }

 private:
  struct Row {
    int index = 0;
    LayoutRow now;
    std::vector<LayoutBox> after;
  };
  static bool gone(const LayoutBox& box) { return box.fate == BoxFate::goes; }

  const device::NodeState& state_;
  const hw::Catalogue& catalogue_;
  std::vector<Row> rows_;
};

}  // namespace

std::string node_svg(const device::NodeState& state, const device::Occupants& occupants,
                     const hw::Catalogue& catalogue) {
  long instances = 0, busy = 0;
  LayoutPicture picture;
  for (const device::GpuState& gpu : state.gpus) {
    LayoutRow row = row_of(gpu, catalogue);
    for (const device::Instance& one : gpu.instances) {
      ++instances;
      busy += one.busy() ? 1 : 0;
      const auto found = occupants.find(one.uuid());
      const device::Occupant runs = found == occupants.end() ? device::Occupant{} : found->second;
      row.boxes.push_back({one.start, one.size, runs.service,
                           point(one.profile, runs.batch, runs.processes),
                           fmt::format("{} at slice {}\n{}{}", one.profile, one.start, one.uuid(),
                                       pictured_holders(one.holders)),
                           one.busy()});
    }
    if (const auto whole = occupants.find(gpu.uuid); whole != occupants.end() && row.boxes.empty())
      row.boxes.push_back({0, row.slices, whole->second.service, "the whole GPU", gpu.uuid, false});
    picture.rows.push_back(std::move(row));
  }
  picture.title = fmt::format("{} of this node", count_text(std::ssize(state.gpus), "GPU"));
  picture.subtitle = fmt::format("driver {} {} · {}, {} busy (•)", state.driver,
                                 state.driver_version, count_text(instances, "instance"), busy);
  return forms::layout_svg(picture);
}

std::string change_svg(const Change& change, const device::NodeState& state,
                       const hw::Catalogue& catalogue) {
  ChangeRows rows(state, catalogue);
  for (const Present& one : change.keep) rows.put(one.place, one.segment, BoxFate::stays, "stays");
  for (const Present& one : change.destroy)
    rows.put(one.place, one.segment, BoxFate::goes, "is destroyed" + pictured_holders(one.holders));
  for (const Creation& one : change.create)
    rows.put(one.place, one.segment, BoxFate::comes, "is created");
  LayoutPicture picture;
  picture.change = true;
  picture.title = change.empty() ? "Nothing to do" : "What would be changed";
  picture.subtitle = fmt::format(
      "{} kept, {} destroyed, {} created; {}, {} predicted for the driver", change.keep.size(),
      change.destroy.size(), change.create.size(), count_text(std::ssize(change.steps), "step"),
      duration_text(change.predicted.value));
  picture.rows = std::move(rows).rows();
  return forms::layout_svg(picture);
}

}  // namespace partita::actuate
