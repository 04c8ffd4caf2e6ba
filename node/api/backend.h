// Backend: what the API's server needs of the agent behind it. Called from the server's thread; the
// agent's loop runs on another one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control/batch_list.h"
#include "control/request.h"
#include "control/snapshot.h"
#include "history/store/store.h"
#include "queue/host/calls.h"

namespace partita::api {

class Backend {
 public:
  virtual ~Backend() = default;
  // The newest snapshot; never null. Cheap.
  virtual std::shared_ptr<const control::Snapshot> snapshot() = 0;
  // The text of the services file that is wanted; empty: none yet.
  virtual std::string services() = 0;
  // Batches, newest first; never null. Cheap.
  virtual std::shared_ptr<const std::vector<control::BatchInfo>> batches() = 0;
  // Hands a request to the loop; `answer` is called once, from any thread.
  virtual void ask(control::Asked asked, std::function<void(control::Reply)> answer) = 0;
  // What would be planned for those services now; changes nothing, may take seconds. The documents
  // Plan and Change.
  virtual void preview(std::string services_text,
                       std::function<void(Result<control::ChangeNow>)> answer) = 0;
  // Lends an instance to who wants it (a body LeaseWanted) or, where that is empty, takes back what
  // `owner` has; the document Lease or Leases. `answer` is called once, from any thread.
  struct LeaseCall {
    std::string wanted = {}, owner = {}, user = {};
  };
  virtual void lease(LeaseCall call, std::function<void(Result<std::string>)> answer) = 0;
  // The document Leases.
  virtual Result<std::string> leases() = 0;
  // An operation of the queue (of_the_queue()), by name: its document, or text. `answer` is called
  // once, from any thread.
  virtual void queue(queue::Call call, std::function<void(Result<std::string>)> answer) = 0;
  // An operation of the fleet (of_the_fleet()), by name: its document, or text. `answer` is called
  // once, from any thread. not_found: the node is one of none.
  struct FleetCall {
    std::string name = {}, body = {}, user = {};
    std::string of = {};                  // of the path or query: a node, service, feed or digest
    std::string survive = {}, mode = {};  // of fleet_apply; empty: as it was
    bool back = false;                    // of fleet_drain
  };
  virtual void fleet(FleetCall call, std::function<void(Result<std::string>)> answer) = 0;
  // Of /metrics, what the node's fleet is like; empty: it is one of none. Cheap.
  virtual std::string fleet_metrics() = 0;
  // `changed` is called, from any thread, whenever there is a newer snapshot.
  virtual void watch(std::function<void()> changed) = 0;
  // History; a reader of its own, so that a slow query does not hold up the loop.
  virtual Result<std::vector<history::Event>> events(const history::EventQuery& query) = 0;
  virtual Result<std::vector<history::Bucket>> series(const history::SeriesQuery& query) = 0;
  virtual Result<std::vector<history::Measured>> latest() = 0;
  // Keeps an event (access: who called what).
  virtual void keep(history::Event event) = 0;
};

}  // namespace partita::api
