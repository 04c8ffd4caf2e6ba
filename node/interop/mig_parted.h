// mig-parted's YAML (version v1): labels, each a list of entries that say how many instances of
// which profiles some GPUs of a node have. It has no places, no services and no GPU models, only
// PCI ids as filters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "interop/geometry.h"
#include "interop/profile_name.h"

namespace partita::interop {

// One profile with its count.
struct MigDevice {
  ProfileName profile;
  int count = 0;
  int line = 0;
};

struct MigPartedEntry {
  std::vector<std::string> device_filter;  // PCI ids; empty: every GPU
  bool all = false;                        // devices: all
  std::vector<int> devices;                // otherwise
  bool mig_enabled = false;
  std::vector<MigDevice> mig_devices;
  int line = 0;          // of the entry
  int devices_line = 0;  // of its devices
};

struct MigPartedLabel {
  std::string name;
  std::vector<MigPartedEntry> entries;
};

struct MigPartedFile {
  std::string file;                    // for messages
  std::vector<MigPartedLabel> labels;  // in file order
};

// Refused with FILE:LINE as mig-parted refuses it: other versions, unknown fields, labels without
// entries, missing devices or mig-enabled, mig-devices missing while MIG is on or given while it is
// off, names that are no profiles, negative counts, all counts 0. Refused besides: devices twice.
Result<MigPartedFile> parse_mig_parted(const std::string& file, std::string_view text);

// The label named `name`, or the only one when `name` is empty. Bad input whose context is --label.
Result<const MigPartedLabel*> chosen_label(const MigPartedFile& file, const std::string& name);

// The GPUs of `boards` that a label speaks about, each instance at the place that leaves the most
// room. Of several entries for a GPU the last one holds, as in mig-parted. Bad input with
// FILE:LINE: an index that no board has, a profile that the GPU does not have, instances that do
// not fit.
Result<Geometry> geometry_of(const MigPartedFile& file, const MigPartedLabel& label,
                             const std::vector<Board>& boards);

// The file with one label. GPUs with equal counts share an entry; where there are several GPU
// models entries are filtered by PCI id as far as those are known. Bad input whose context is
// --label: a name that Kubernetes refuses as the value of a node label.
Result<std::string> mig_parted_yaml(const Geometry& geometry, const std::string& label);

}  // namespace partita::interop
