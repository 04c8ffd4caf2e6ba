// What the statuses of a vendor's library mean, as a table that its driver has.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "base/result.h"

namespace partita::device {

template <class Status>
struct VendorFault {
  Status status;
  ErrorCode code = ErrorCode::environment;
  const char* words = nullptr;  // ours, where the vendor's own do not help
};

// Of a status that is not in the table: environment, in the vendor's words.
template <class Status, std::size_t count>
VendorFault<Status> fault_of(const VendorFault<Status> (&table)[count], Status status) {
  const auto found = std::ranges::find(table, status, &VendorFault<Status>::status);
  return found == std::end(table) ? VendorFault<Status>{status} : *found;
}

// "the GPU fell off the bus (NVML code 15)"; without words "NVML code 15".
template <class Status>
std::string coded(const char* words, const char* library, Status status) {
  const std::string code = fmt::format("{} code {}", library, static_cast<long>(status));
  return words == nullptr || *words == '\0' ? code : fmt::format("{} ({})", words, code);
}

}  // namespace partita::device
