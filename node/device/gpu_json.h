// One GPU as JSON, which the documents NodeState and Recording share. Internal to the forms.
#pragma once

#include <string>
#include <string_view>

#include "base/fields.h"
#include "base/json_writer.h"
#include "device/node_forms.h"

namespace partita::device {

// The text, or null when it is empty. What cannot be printed becomes U+FFFD: names of processes and
// products come from a driver and may hold any byte.
void write_text(JsonWriter& out, std::string_view text);

// Reads what write_text wrote: null or missing is empty. Text that cannot be printed is refused.
std::string read_text(Fields& in, std::string_view key);

void write_gpu(JsonWriter& out, const GpuState& gpu, const Occupants& occupants);

struct GpuDocument {
  GpuState gpu;
  Occupants occupants;
};
GpuDocument read_gpu(Fields in, const hw::Catalogue& catalogue);

}  // namespace partita::device
