// Who is told of what happens: the receivers of the settings file, from the loop's notices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "control/loop.h"
#include "history/event.h"
#include "control/notify/notifier.h"

namespace partita::cli {

class AgentNotices {
 public:
  // The key `notify` of that file; null where it has none.
  static Result<std::unique_ptr<AgentNotices>> read(Files& files, const std::string& path);

  const std::vector<notify::Receiver>& receivers() const { return receivers_; }
  void tell(const control::LoopNotice& notice, const std::string& node, std::int64_t now_ms);
  // Who was told or could not be, since it was asked last, for the history.
  std::vector<history::Event> told(std::int64_t now_ms);

 private:
  explicit AgentNotices(std::vector<notify::Receiver> receivers)
      : receivers_(receivers), notifier_(std::move(receivers)) {}

  const std::vector<notify::Receiver> receivers_;
  notify::Notifier notifier_;
};

}  // namespace partita::cli
