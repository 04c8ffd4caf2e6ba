// Documents of infrared sessions and of what was recovered from them: kinds InfraredSession and
// FloorplanRecovery. Pictures are files of their own, which the session names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "heat/floorplan/recover.h"

namespace partita::floorplan {

struct StatedWatts {
  std::string component;
  double watts = 0;
  bool operator==(const StatedWatts&) const = default;
};
struct StatedCapture {
  std::string name, file;
  int frames = 1;
  std::vector<StatedWatts> watts;  // components that are not named use none
  bool operator==(const StatedCapture&) const = default;
};
struct StatedEven {
  std::string file;
  double kelvin = 0;
  int frames = 1;
  bool operator==(const StatedEven&) const = default;
};
struct StatedComponent {
  std::string name;
  std::vector<std::string> blocks;
  bool inside = true;
  bool operator==(const StatedComponent&) const = default;
};
struct StatedWindow {
  double left_mm = 0, bottom_mm = 0, width_mm = 0, height_mm = 0;
  bool operator==(const StatedWindow&) const = default;
};

// What a document of kind InfraredSession says.
struct StatedSession {
  double pixel_um = 50, noise_mk = 50, silicon_um = 700, conductivity = 130, blur_px = 0.8;
  double kelvin_at_zero = 0, kelvin_per_level = 1;  // of the numbers in the pictures
  std::optional<StatedWindow> window;
  std::vector<StatedComponent> components;
  std::vector<StatedCapture> captures;
  std::vector<StatedEven> even;
  bool operator==(const StatedSession&) const = default;
};
Result<StatedSession> parse_session(const std::string& file, std::string_view text);
std::string session_json(const StatedSession& session);

// The session without its pictures, and back with files NAME.npy and even-N.npy.
Session session_of(const StatedSession& stated);
StatedSession stated_session(const Session& session);

// What a document of kind FloorplanRecovery says.
struct StatedBlock {
  std::string name;
  double left_mm = 0, bottom_mm = 0, width_mm = 0, height_mm = 0;
  std::optional<double> iou, centroid_um, edge_um;  // with a truth
  bool operator==(const StatedBlock&) const = default;
};
struct StatedMethod {
  std::string name;
  double iou = 0, centroid_um = 0;
  bool operator==(const StatedMethod&) const = default;
};
struct StatedRecovery {
  double span_k = 0, misfit = 0;
  std::vector<StatedBlock> blocks;
  std::vector<StatedMethod> methods;  // with a truth; simplest first, rectangles last
  bool operator==(const StatedRecovery&) const = default;
};
StatedRecovery stated_recovery(const Recovery& recovery, const std::vector<MethodScore>& scores);
std::string recovery_json(const StatedRecovery& recovery);
Result<StatedRecovery> parse_recovery(const std::string& file, std::string_view text);

std::vector<DocumentKind> document_kinds();

}  // namespace partita::floorplan
