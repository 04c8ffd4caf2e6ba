// The state of an agent as those see it who ask or listen: its text, made once a look, and what
// leads from the state that was told last to the newest. One thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/document.h"
#include "control/snapshot.h"

namespace partita::api {

class ShownState {
 public:
  // `boot` tells versions of this run from those of others.
  explicit ShownState(std::string boot) : boot_(std::move(boot)) {}

  struct Shown {
    std::shared_ptr<const control::Snapshot> of;
    std::string json, gzip, etag, id;  // gzip: empty until it is asked for
  };
  // Valid until the next call of this.
  const Shown& show(std::shared_ptr<const control::Snapshot> now);
  const std::string& gzip();  // of what was shown last

  // Somebody who wants changes has been told what was shown last; unless others were told one
  // before.
  void begin_changes();
  // The event that leads from the state that was told last to the one shown last; empty: none does,
  // or it is not worth it. From now on this one is the last. `wanted`: somebody will read it.
  std::string changes(bool wanted);
  const std::string& told_id() const { return told_id_; }  // of the state that was told last

 private:
  std::string boot_;
  Shown shown_ = {};
  std::string told_id_ = {};
  std::optional<Document> told_ = {};  // that state, while somebody wants changes
};

}  // namespace partita::api
