// Files of the Container Device Interface (CDI 0.6): what a container that has a claim gets, its
// device nodes and the UUID of its MIG device. One file per claim. Pure.
#pragma once

#include <string>
#include <vector>

#include "act/lease/lease_forms.h"

namespace partita::dra {

struct CdiDevice {
  std::string device;  // of the pool
  lease::LeaseDocument lease;
};

// "partita.gpu-claim-UID.json": its name in the CDI directory.
std::string cdi_file_name(const std::string& uid);
// "partita.gpu/claim=UID-DEVICE": how the kubelet is told of it.
std::string cdi_id(const std::string& uid, const std::string& device);
std::string cdi_json(const std::string& uid, const std::vector<CdiDevice>& devices);

}  // namespace partita::dra
