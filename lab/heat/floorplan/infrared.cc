#include "heat/floorplan/infrared.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/input.h"
#include "heat/flp.h"
#include "heat/raster/read.h"

namespace partita::floorplan {
namespace {

struct Picture {
  raster::Grid kelvin;
  int frames = 1;  // in the file
};

// Frames of the camera in all.
int frames_in_all(int each, int count) {
  return static_cast<int>(std::min(1e9, static_cast<double>(each) * count));
}

Result<Picture> load_picture(Files& files, const std::string& path,
                             const floorplan::StatedSession& stated) {
  const auto bytes = TRY(read_input(files, "--session", path));
  const auto frames = TRY(raster::read_grids(bytes, path));
  Picture picture{raster::Grid(frames.front().rows, frames.front().cols),
                  static_cast<int>(frames.size())};
  const double share = 1 / static_cast<double>(frames.size());
  for (const raster::Grid& frame : frames)
    for (std::size_t i = 0; i < frame.values.size(); ++i)
      picture.kelvin.values[i] += share * frame.values[i];
  for (double& value : picture.kelvin.values) {
    value = stated.kelvin_at_zero + stated.kelvin_per_level * value;
    if (!(value >= 200 && value <= 500))
      return bad_input(path, fmt::format("shows {:.4g} K; a chip has 200 to 500 K: see "
                                         "kelvin_at_zero and kelvin_per_level of the session",
                                         value));
  }
  return picture;
}

}  // namespace

Result<floorplan::Session> load_session(Files& files, const std::string& path) {
  const auto stated = TRY(read_input(files, "--session", path, floorplan::parse_session));
  floorplan::Session session = floorplan::session_of(stated);
  for (std::size_t b = 0; b < session.captures.size(); ++b) {
    auto picture = TRY(load_picture(files, beside(path, stated.captures[b].file), stated));
    session.captures[b].kelvin = std::move(picture.kelvin);
    session.captures[b].frames = frames_in_all(session.captures[b].frames, picture.frames);
  }
  for (std::size_t e = 0; e < session.even.size(); ++e) {
    auto picture = TRY(load_picture(files, beside(path, stated.even[e].file), stated));
    session.even[e].reading = std::move(picture.kelvin);
    session.even[e].frames = frames_in_all(session.even[e].frames, picture.frames);
  }
  TRY(floorplan::check_session(session, path));
  return session;
}

Result<void> save_session(Files& files, const std::string& directory,
                          const floorplan::Session& session, const thermal::Floorplan& truth) {
  const floorplan::StatedSession stated = floorplan::stated_session(session);
  TRY(files.make_directories(directory));
  for (std::size_t b = 0; b < session.captures.size(); ++b)
    if (auto written = files.write_atomic(directory + "/" + stated.captures[b].file,
                                          raster::write_npy({session.captures[b].kelvin}));
        !written)
      return written;
  for (std::size_t e = 0; e < session.even.size(); ++e)
    if (auto written = files.write_atomic(directory + "/" + stated.even[e].file,
                                          raster::write_npy({session.even[e].reading}));
        !written)
      return written;
  if (auto written = files.write_atomic(directory + "/truth.flp", thermal::write_flp(truth));
      !written)
    return written;
  return files.write_atomic(directory + "/session.json", floorplan::session_json(stated));
}

}  // namespace partita::floorplan
