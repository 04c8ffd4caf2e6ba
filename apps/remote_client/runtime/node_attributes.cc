// Attributes of kernel nodes (cudaLaunchAttributeID). Whether a launch is cooperative is its own;
// the rest is kept and told, as hints are. What is no hint, and not there, is refused by name.
#include <array>

#include "graph_calls.h"

namespace partita::remote::shim {

using client::AttributeValue;
using client::kInvalidValue;
using client::kOk;

namespace {

enum Id : int {
  kAccessPolicy = 1,
  kCooperative = client::kIsCooperative,
  kClusters = 4,
  kClusterPolicy = 5,
  kPriority = client::kNodePriority,
  kSyncDomains = 9,
  kSyncDomain = 10,
  kPreferredClusters = 11,
  kChangedByDevice = 13,
  kCarveout = 14,
  kForLinks = 16,
};
constexpr std::array kAll = {kAccessPolicy, kCooperative,     kClusters,         kClusterPolicy,
                             kPriority,     kSyncDomains,     kSyncDomain,       kCarveout,
                             kForLinks,     kChangedByDevice, kPreferredClusters};

bool is_one(int attribute) { return std::ranges::find(kAll, attribute) != kAll.end(); }

// Nothing for what is a hint, or asks for nothing.
const char* missing(int attribute, const AttributeValue& value) {
  std::uint32_t words[3];
  std::memcpy(words, value.data(), sizeof words);
  const bool clusters = words[0] > 1 || words[1] > 1 || words[2] > 1;
  if (clusters && (attribute == kClusters || attribute == kPreferredClusters))
    return "a kernel node with clusters";
  return attribute == kChangedByDevice && words[0] != 0 ? "a kernel node that kernels change"
                                                        : nullptr;
}

AttributeValue usual(int attribute) {
  AttributeValue value = {};
  if (attribute == kSyncDomains) value[1] = std::byte{1};  // remote work is of another domain
  return value;
}

client::Got<AttributeValue> attribute_of(void* node, int attribute) {
  const auto is = session().nodes.find(number_of(node));
  if (!is) return client::refused(is.error());
  if (is->kind != client::NodeKind::kernel) return client::refused(kInvalidValue);
  AttributeValue value = usual(attribute);
  if (attribute == kCooperative) {
    const auto launch = client::operation_in<Launch>(is->operation);
    value[0] = std::byte{launch && (launch->flags & remote::kCooperative) != 0};
  } else if (const auto set = is->attributes.find(attribute); set != is->attributes.end()) {
    value = set->second;
  }
  return value;
}

}  // namespace

Status tell_attribute(void* node, int attribute, void* into) {
  if (!is_one(attribute) || into == nullptr) return kInvalidValue;
  const auto value = attribute_of(node, attribute);
  if (value) std::memcpy(into, value->data(), value->size());
  return value ? kOk : value.error();
}

Status set_attribute(void* node, int attribute, const void* given) {
  if (!is_one(attribute) || given == nullptr) return kInvalidValue;
  AttributeValue value;
  std::memcpy(value.data(), given, value.size());
  if (const char* const what = missing(attribute, value)) return unsupported(what);
  return named(session().nodes.set_attribute(number_of(node), attribute, value),
               "attributes of a node that a library captured");
}

Status copy_attributes(void* to, void* from) {
  for (const int attribute : kAll) {
    const auto value = attribute_of(from, attribute);
    if (!value) return value.error();
    const Status status = session().nodes.set_attribute(number_of(to), attribute, *value);
    if (status != kOk) return named(status, "attributes of a node that a library captured");
  }
  return kOk;
}

}  // namespace partita::remote::shim
