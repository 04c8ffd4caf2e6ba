// PartServices: of a services file, the services of one node as a services file of its own: every
// key as it was written, but for rates and replicas, which are the node's, and names that keep
// apart, of which those stay that are on the node. A value; pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/document.h"
#include "plan/terms.h"

namespace partita::fleet {

class PartServices {
 public:
  PartServices() = default;
  PartServices(PartServices&&) = default;
  PartServices& operator=(PartServices&&) = default;
  // Of a file that the reader of services files takes.
  explicit PartServices(Document document);
  // "" without pieces: there is no such file.
  std::string text(const std::vector<plan::Terms>& pieces) const;

 private:
  Document document_ = {};
  std::map<std::string, const Node*> by_name_;  // in document_; moving it moves no node of a list
};

}  // namespace partita::fleet
