// What the text and the SVG pictures of plans share: where the boxes of a GPU lie, which colour a
// service has, sentences about the whole, how wide text is. Internal to the forms. Draws any plan
// without crashing, also one the judge would refuse.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/terminal.h"
#include "forms/vocabulary.h"
#include "hw/catalogue.h"
#include "plan/serving.h"

namespace partita::forms {

struct Box {
  int start = 0;  // slices of its strip
  int size = 0;
  const PlannedInstance* instance = nullptr;
};

// One GPU: `slices` memory slices and the boxes on them, ascending and inside. An unknown GPU model
// gets as many slices as its instances need, an unknown profile one slice. A GPU that is shared
// whole has kShareSlices, and its shares lie side by side.
inline constexpr int kShareSlices = 40;  // 2.5 % each
struct Strip {
  int slices = 0;
  std::vector<Box> boxes;
  bool shared = false;
};
Strip strip_of(const PlannedGpu& gpu, const hw::Catalogue& catalogue);

// What an instance is: its MIG profile, or its share of the GPU, "20%".
std::string size_text(const PlannedInstance& instance);

// Position of every service by name: the plan's services first, then strangers named by instances.
std::map<std::string_view, int> service_order(const ServingPlan& plan);

Rgb darker(Rgb colour);

// "b8×2", "~b8×2" of a prediction.
std::string point_text(const PlannedInstance& instance);

// "12 GPUs, 82 GPCs; lower bound 12 GPUs, 82 GPCs: optimal".
std::string objective_text(const Objective& objective);

// ---- SVG ----

inline constexpr const char* kInk = "#1c2430";
inline constexpr const char* kFaint = "#667080";
std::string hex(Rgb colour);  // "#1c2430"
// Pixels that a text of this font size fills in common sans-serif fonts, on the generous side.
double text_width(std::string_view text, double size);
// The text without as much of its middle as makes it `width` pixels wide.
std::string cut(std::string_view text, double size, double width);

// Round numbers around what an axis shows, about `steps` steps between them.
struct AxisScale {
  double low = 0, high = 1, step = 1;
};
AxisScale axis_scale(double low, double high, int steps);

}  // namespace partita::forms
