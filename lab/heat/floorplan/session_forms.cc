#include "heat/floorplan/session_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/form_rules.h"

namespace partita::floorplan {
namespace {

constexpr double kMetresPerMm = 1e-3, kMetresPerUm = 1e-6;
constexpr Range kFrames{.low = 1, .high = 1e7};
constexpr Range kMillimetres{.high = 100};
constexpr Range kSide{.high = 100, .above = true};
constexpr std::size_t kMostListed = 64;

void describe(Form& f, StatedWatts& watts) {
  f.closed();
  f.name("component", watts.component, "one of the session's");
  f.number("watts", watts.watts, {.high = 2000}, "above idle, as its counters say");
}

void describe(Form& f, StatedCapture& capture) {
  f.closed();
  f.name("name", capture.name, "of the program that ran");
  f.text("file", capture.file, "PGM, PNG or NPY, beside the session; several frames are averaged");
  f.optional().integer("frames", capture.frames, kFrames,
                       "of the camera that each frame of the file is the mean of");
  f.optional().list("watts", capture.watts, describe, {.most = kMostListed},
                    "per component; none: idle");
}

void describe(Form& f, StatedEven& even) {
  f.closed();
  f.text("file", even.file, "the chip without power at one temperature");
  f.number("kelvin", even.kelvin, {.low = 200, .high = 500}, "what a thermometer said");
  f.optional().integer("frames", even.frames, kFrames, "as for captures");
}

void describe(Form& f, StatedComponent& component) {
  f.closed();
  f.name("name", component.name, "of the counter");
  f.names("blocks", component.blocks, {.most = 8, .least = 1},
          "where its power is made: from top to bottom, then from left to right");
  f.optional(!component.inside)
      .boolean("inside", component.inside, "whether its blocks lie in the window");
}

void describe(Form& f, StatedWindow& window) {
  f.closed();
  f.number("left_mm", window.left_mm, kMillimetres, "from the picture's left");
  f.number("bottom_mm", window.bottom_mm, kMillimetres, "from the picture's lower edge");
  f.number("width_mm", window.width_mm, kSide, "of the part that is looked at");
  f.number("height_mm", window.height_mm, kSide, "of the part that is looked at");
}

// What no field says alone: names that are used are there, and once.
void check_names(Form& f, const StatedSession& session) {
  Fields* in = f.reading();
  if (in == nullptr || in->error()) return;
  std::set<std::string> components, blocks, captures;
  for (const StatedComponent& component : session.components) {
    if (!components.insert(component.name).second)
      return in->refuse("components", fmt::format("'{}' stands twice", component.name));
    for (const std::string& block : component.blocks)
      if (!blocks.insert(block).second)
        return in->refuse("components", fmt::format("block '{}' stands twice", block));
  }
  for (const StatedCapture& capture : session.captures) {
    if (!captures.insert(capture.name).second)
      return in->refuse("captures", fmt::format("'{}' stands twice", capture.name));
    std::set<std::string> used;
    for (const StatedWatts& watts : capture.watts)
      if (!components.contains(watts.component) || !used.insert(watts.component).second)
        return in->refuse("captures", fmt::format("'{}': component '{}' is unknown or twice",
                                                  capture.name, watts.component));
  }
  if (session.even.size() == 1)
    in->refuse("even", "one temperature does not calibrate; give two or none");
}

void describe(Form& f, StatedSession& session) {
  f.document("InfraredSession");
  f.closed();
  f.number("pixel_um", session.pixel_um, {.low = 1, .high = 2000},
           "on the chip, micrometres; the picture shows the die alone");
  f.optional().number("noise_mk", session.noise_mk, {.low = 0.01, .high = 1e4},
                      "of one frame of the camera (NETD), millikelvin");
  f.optional().number("silicon_um", session.silicon_um, {.low = 10, .high = 2000},
                      "thickness, as far as it is known");
  f.optional().number("conductivity", session.conductivity, {.low = 1, .high = 1000},
                      "of the silicon, W/mK");
  f.optional().number("blur_px", session.blur_px, {.high = 20}, "of the optics, a Gaussian's");
  f.optional().number("kelvin_at_zero", session.kelvin_at_zero, {.low = -500, .high = 500},
                      "what 0 in a picture means; 273.15 for degrees Celsius");
  f.optional().number("kelvin_per_level", session.kelvin_per_level, {.high = 1000, .above = true},
                      "what 1 more in a picture means");
  f.object("window", session.window, describe, "where to look; without it the whole die");
  f.list("components", session.components, describe,
         {.most = kMostListed, .indent = "    ", .least = 1}, "what the counters tell apart");
  f.list("captures", session.captures, describe, {.most = 1000, .indent = "    ", .least = 2},
         "pictures of programs, and of idle");
  f.optional().list("even", session.even, describe, {.most = kMostListed, .indent = "    "},
                    "pictures for calibration: at least two temperatures, or none");
  check_names(f, session);
}

void describe(Form& f, StatedBlock& block) {
  f.name("name", block.name, "of the block");
  f.number("left_mm", block.left_mm, kAnyNumber, "from the die's left");
  f.number("bottom_mm", block.bottom_mm, kAnyNumber, "from the die's lower edge");
  f.number("width_mm", block.width_mm, kNotNegative, "of the rectangle");
  f.number("height_mm", block.height_mm, kNotNegative, "of the rectangle");
  const bool known = block.iou.has_value();
  f.optional(known).number("iou", block.iou, {.high = 1}, "with the true block");
  f.optional(known).number("centroid_um", block.centroid_um, kNotNegative, "off the true centre");
  f.optional(known).number("edge_um", block.edge_um, kNotNegative, "mean over the four edges");
}

void describe(Form& f, StatedMethod& method) {
  f.text("name", method.name, "M0 and M1 are the dissertation's");
  f.number("iou", method.iou, {.high = 1}, "intersection over union, mean");
  f.number("centroid_um", method.centroid_um, kNotNegative,
           "off the true centres, mean; 1e9: nothing was found");
}

void describe(Form& f, StatedRecovery& recovery) {
  f.document("FloorplanRecovery");
  f.number("span_k", recovery.span_k, kNotNegative,
           "largest difference of a program's picture from their mean, in the window");
  f.number("misfit", recovery.misfit, kNotNegative,
           "mean square of what the rectangles leave unexplained, in units of the noise: about 1");
  f.list("blocks", recovery.blocks, describe, {.indent = "    "}, "the rectangles");
  f.optional(!recovery.methods.empty())
      .list("methods", recovery.methods, describe, {.indent = "    "}, "against the truth");
}

}  // namespace

Result<StatedSession> parse_session(const std::string& file, std::string_view text) {
  return read_form<StatedSession>(file, text, describe);
}

std::string session_json(const StatedSession& session) { return write_form(session, describe); }

Session session_of(const StatedSession& stated) {
  Session session;
  session.pixel_m = stated.pixel_um * kMetresPerUm;
  session.noise_k = stated.noise_mk / 1000;
  session.thickness_m = stated.silicon_um * kMetresPerUm;
  session.conductivity = stated.conductivity;
  session.blur_px = stated.blur_px;
  if (stated.window)
    session.window = thermal::Block{
        "", stated.window->width_mm * kMetresPerMm, stated.window->height_mm * kMetresPerMm,
        stated.window->left_mm * kMetresPerMm, stated.window->bottom_mm * kMetresPerMm};
  for (const StatedComponent& one : stated.components)
    session.components.push_back({one.name, one.blocks, one.inside});
  for (const StatedCapture& one : stated.captures) {
    Capture capture{one.name, std::vector<double>(stated.components.size(), 0), one.frames, {}};
    for (const StatedWatts& watts : one.watts)
      for (std::size_t c = 0; c < stated.components.size(); ++c)
        if (stated.components[c].name == watts.component) capture.watts[c] = watts.watts;
    session.captures.push_back(std::move(capture));
  }
  for (const StatedEven& one : stated.even) session.even.push_back({one.kelvin, one.frames, {}});
  return session;
}

StatedSession stated_session(const Session& session) {
  StatedSession stated;
  stated.pixel_um = session.pixel_m / kMetresPerUm;
  stated.noise_mk = session.noise_k * 1000;
  stated.silicon_um = session.thickness_m / kMetresPerUm;
  stated.conductivity = session.conductivity;
  stated.blur_px = session.blur_px;
  if (session.window)
    stated.window =
        StatedWindow{session.window->left / kMetresPerMm, session.window->bottom / kMetresPerMm,
                     session.window->width / kMetresPerMm, session.window->height / kMetresPerMm};
  for (const Component& one : session.components)
    stated.components.push_back({one.name, one.blocks, one.inside});
  for (const Capture& one : session.captures) {
    StatedCapture capture{one.name, one.name + ".npy", one.frames, {}};
    for (std::size_t c = 0; c < one.watts.size(); ++c)
      if (one.watts[c] > 0) capture.watts.push_back({session.components[c].name, one.watts[c]});
    stated.captures.push_back(std::move(capture));
  }
  for (std::size_t i = 0; i < session.even.size(); ++i)
    stated.even.push_back(
        {fmt::format("even-{}.npy", i + 1), session.even[i].kelvin, session.even[i].frames});
  return stated;
}

StatedRecovery stated_recovery(const Recovery& recovery, const std::vector<MethodScore>& scores) {
  StatedRecovery stated;
  stated.span_k = recovery.kelvin_span;
  stated.misfit = recovery.fit.misfit;
  for (const thermal::Block& block : recovery.plan.blocks) {
    StatedBlock one{block.name,
                    block.left / kMetresPerMm,
                    block.bottom / kMetresPerMm,
                    block.width / kMetresPerMm,
                    block.height / kMetresPerMm,
                    {},
                    {},
                    {}};
    if (!scores.empty())
      for (const BlockScore& score : scores.back().blocks)
        if (score.block == block.name) {
          one.iou = score.iou;
          one.centroid_um = score.centroid_m / kMetresPerUm;
          one.edge_um = score.edge_m / kMetresPerUm;
        }
    stated.blocks.push_back(std::move(one));
  }
  for (const MethodScore& score : scores)
    stated.methods.push_back(
        {score.method, score.iou, std::min(1e9, score.centroid_m / kMetresPerUm)});
  return stated;
}

std::string recovery_json(const StatedRecovery& recovery) { return write_form(recovery, describe); }

Result<StatedRecovery> parse_recovery(const std::string& file, std::string_view text) {
  return read_form<StatedRecovery>(file, text, describe);
}

std::vector<DocumentKind> document_kinds() {
  return {document_kind<StatedSession, describe, "InfraredSession",
                        "infrared pictures of a chip at work">(),
          document_kind<StatedRecovery, describe, "FloorplanRecovery",
                        "blocks found in infrared pictures">()};
}

}  // namespace partita::floorplan
