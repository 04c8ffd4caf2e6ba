// The workers of all services, from HELLO to DRAINED: what they are given and say, which hang, are
// silent or gone. Knows requests by the rows that workers have of them. Internal to serve/gateway;
// one thread, that of the loop.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "serve/gateway/core_impl.h"
#include "serve/gateway/worker_links.h"

namespace partita::serve {

class WorkerDesk {
 public:
  // All must outlive it.
  struct Ground {
    Loop& loop;
    const CoreOptions& options;
    const Services& services;
    LiveRequests& requests;
    CacheDesk& caches;
    std::function<void(const std::shared_ptr<LiveService>&)> step;
    std::function<void(const std::vector<Item>&)> doubt;  // a worker died or hung with these rows
    std::function<void(const std::string&)> say;
  };
  // in_use where another gateway listens.
  static Result<std::unique_ptr<WorkerDesk>> open(Ground ground);
  WorkerDesk(const WorkerDesk&) = delete;

  // Gives a worker of the service this batch.
  void run(LiveService& service, Batch batch);
  // Rows of batches that nobody waits for.
  void cancel(LiveService& service, const std::vector<std::pair<BatchId, std::uint32_t>>& rows);
  // Workers on devices that are no longer the service's get nothing more.
  void follow_segments(const LiveService& service);
  void drain(const LiveService& service);
  void tell(const LiveService& service, const Joint& joint, int descriptor);
  const SequenceMoves::Send& send_frame() const { return send_frame_; }
  // Ends who does not answer any more.
  void look_after();

  std::vector<WorkerView> views() const;
  const std::deque<WorkerLoss>& losses() const { return losses_; }
  // Called when a worker came, went or changed its state, at most once per loop turn.
  void on_change(std::function<void()> function) { on_change_ = std::move(function); }
  void changed();

 private:
  // A worker that has said HELLO.
  struct Seat {
    enum class State : std::uint8_t { warming, ready, leaving };
    std::shared_ptr<LiveService> service;
    std::string device;
    int index = 0;
    std::int64_t pid = 0;
    State state = State::warming;
    int max_batch = 1;
    bool placed = false;  // started by the supervisor, on a device of the assignment
    bool silent = false;  // suspended; and so while it
    bool hangs = false;   // has batches that were taken back
    bool ended = false;   // we have killed it
    std::string name() const;
  };
  explicit WorkerDesk(Ground ground);
  void heard(WorkerId worker, const UnixPeer& peer, Frame frame);
  void greet(WorkerId worker, const UnixPeer& peer, const Hello& hello);
  std::string admit_model(LiveService& service, const ModelSpec& model);
  void ready(WorkerId worker, Seat& seat, const Ready& ready);
  void done(WorkerId worker, Seat& seat, const Done& done);
  void part(Seat& seat, const Part& part);
  void leave(WorkerId worker, Seat& seat);
  void refuse(WorkerId worker, const std::string& why);
  void gone(WorkerId worker, const std::string& why);
  void take_back(WorkerId worker, Seat& seat);
  void move_to_fresh_slot(const Item& item, Abandoned& abandoned);
  void look_for_hanging(Nanos due);
  void awake_again(WorkerId worker, Seat& seat);
  void end(WorkerId worker, Seat& seat, const std::string& why);

  Ground ground_;
  std::unique_ptr<WorkerLinks> links_;
  std::map<WorkerId, Seat> seats_;
  std::deque<WorkerLoss> losses_;
  std::function<void()> on_change_;
  bool change_posted_ = false;
  std::string run_frame_;  // reused
  SequenceMoves::Send send_frame_;
  std::unique_ptr<Loop::Timer> hang_watch_;
};

}  // namespace partita::serve
