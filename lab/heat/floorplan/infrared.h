// Infrared sessions on the Files door: a document and the pictures that it names.
#pragma once

#include <string>

#include "base/files.h"
#include "heat/floorplan/session_forms.h"

namespace partita::floorplan {

// Pictures lie beside the document. Those of several frames are averaged.
Result<floorplan::Session> load_session(Files& files, const std::string& path);

// A directory with session.json, its pictures and truth.flp.
Result<void> save_session(Files& files, const std::string& directory,
                          const floorplan::Session& session, const thermal::Floorplan& truth);

}  // namespace partita::floorplan
