// The queue's own socket: operations of the table (api/operations.h) that are the queue's, for
// whoever may open it. Loop thread only.
#pragma once

#include <memory>
#include <string_view>

#include "base/door/exchange.h"
#include "queue/host/calls.h"

namespace partita::cli {

class QueueSite final : public serve::Site {
 public:
  explicit QueueSite(queue::Calls& calls) : calls_(calls) {}

  std::shared_ptr<serve::Exchange> route(const serve::HttpHead& head,
                                         const serve::Peer& peer) override;
  serve::Reply refusal(int status, std::string_view message) override;

 private:
  queue::Calls& calls_;
};

}  // namespace partita::cli
