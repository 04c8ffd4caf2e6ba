// OlderTerms: services whose terms no node can carry go on by those that nodes carry them by.
#pragma once

#include <map>
#include <string>

#include "fleet/brain/part_services.h"
#include "fleet/brain/view.h"

namespace partita::fleet {

class OlderTerms {
 public:
  // The newest terms that a part has of it, of a lost node too, for the rate and beside those that
  // it is wanted for now. Null: no part has it, or by the same terms. Valid as long as this is.
  const plan::Service* take(const FleetView& view, const plan::Service& wanted);
  // How those that were taken are written, by service.
  const std::map<std::string, PartServices>& written() const { return written_; }

 private:
  std::map<std::string, plan::Service> terms_;
  std::map<std::string, PartServices> written_;
};

}  // namespace partita::fleet
