// Objects of Kubernetes that a plan is made of, as `export --to kubernetes` writes them and as the
// API server lists them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/document.h"
#include "base/result.h"

namespace partita::dra {

inline constexpr std::string_view kManager = "partita";
inline constexpr std::string_view kManagedBy = "app.kubernetes.io/managed-by";
inline constexpr std::string_view kPlan = "partita.gpu/plan";
inline constexpr std::string_view kServiceLabel = "partita.gpu/service";

enum class KubeKind : std::uint8_t { device_class, service, budget, claim_template, deployment };
inline constexpr int kKubeKinds = 5;

std::string_view word_of(KubeKind kind);  // "Deployment"
// Where they are listed and made; those with a name are at PATH/NAME.
std::string path_of(KubeKind kind, const std::string& name_space);

struct KubeObject {
  KubeKind kind = KubeKind::deployment;
  std::string name;
  std::string manager, plan;           // its labels
  std::string uid = {}, version = {};  // of what was listed
  bool deleting = false;
  // Of a Deployment: the service of its pods, how many are wanted, are ready, are of its newest
  // template, and whether the last three are about its newest specification.
  std::string service = {};
  int replicas = 0, ready = 0, updated = 0;
  bool observed = false;
  Node body = {};
};

struct KubeList {
  std::vector<KubeObject> objects;
  std::string version;  // from which changes are watched
};

// A List: of `kind`, or of kinds that its items name. Refused with FILE:LINE: no list, an item
// without a name, numbers of pods that are none.
Result<KubeList> parse_objects(const std::string& file, std::string_view text,
                               std::optional<KubeKind> kind = {});

// Whether a line of a watch says that something has changed since, be it that its version is too
// old: everything is to be listed again. A bookmark and what is no event say nothing.
bool says_change(std::string_view line);

// ---- bodies

// Whether all that `part` states is so in `whole`; lists have the same items in the same order.
bool holds(const Node& whole, const Node& part);
// The value at a path of keys, made where it is not there.
void set_member(Node& object, std::string_view key, Node value);
Node text_node(std::string_view text);
Node number_node(double number);
Node object_node(std::vector<Node::Member> members);

}  // namespace partita::dra
