// PartServices: of a services file, the services of one node as a services file of its own: every
// key as it was written, but for rates and replicas, which are the node's, priorities, which are
// those of the fleet, and names that keep apart, of which those stay that are on the node. A value;
// pure.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/document.h"
#include "forms/serving_forms.h"
#include "plan/terms.h"

namespace partita::fleet {

// A services file, of which a fleet keeps what clients ask for: the steps of a pipeline go where it
// goes. bad_input: a pipeline whose step has clients of its own, and services with buckets: a node
// may get the one without the other.
Result<forms::ServicesFile> parse_fleet_services(const std::string& file, const std::string& text);

// The services file that was read last, which most ask for again: of 5,000 services it takes long.
// Nothing is a file without services.
class ServicesRead {
 public:
  Result<std::shared_ptr<const forms::ServicesFile>> of(const std::string& text);

 private:
  std::string text_;
  std::shared_ptr<const forms::ServicesFile> file_;
};

// The pieces of a node, and the steps of its pipelines.
std::vector<plan::Terms> with_steps(std::vector<plan::Terms> pieces);

class PartServices {
 public:
  PartServices() = default;
  PartServices(PartServices&&) = default;
  PartServices& operator=(PartServices&&) = default;
  // Of a file that the reader of services files takes.
  explicit PartServices(Document document);
  bool has(const std::string& service) const;
  // "" without pieces: there is no such file. `instead`: services that are as they are written
  // there.
  std::string text(const std::vector<plan::Terms>& pieces,
                   const std::map<std::string, PartServices>& instead = {}) const;

 private:
  Document document_ = {};
  std::map<std::string, const Node*> by_name_;  // in document_; moving it moves no node of a list
};

}  // namespace partita::fleet
