// MPS shares as parts of `remote serve`: "25%" of the threads of the first GPU, or "25%=UUID" of a
// GPU or MIG instance. A daemon per device runs while the server does.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "context.h"

namespace partita::cli {

class MpsShares {
 public:
  // Of the shapes that are shares; the others are left out. bad_input for what is no share, or
  // where those of a device are more than all of it. Daemons live below `folder`.
  static Result<MpsShares> of(const std::vector<std::string>& shapes, const std::string& folder);
  static bool is_share(const std::string& shape);

  // What a process in this share needs in its environment; empty for what is no share.
  std::map<std::string, std::string> environment(const std::string& shape) const;
  bool empty() const { return environments_.empty(); }
  // Starts the daemons; they end when the answer dies.
  Result<std::shared_ptr<void>> start(Context& context) const;

 private:
  std::map<std::string, std::map<std::string, std::string>> environments_;  // by shape
  std::vector<std::string> devices_;
  std::string folder_;
};

}  // namespace partita::cli
