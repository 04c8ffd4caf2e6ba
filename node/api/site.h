// ApiSite: what answers at the doors of a Server: checks who calls and how often, finds the call in
// the table, asks the backend. Lives on the server's loop thread; answers of the backend, which may
// come on any thread, come by the Postbox.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "api/access.h"
#include "api/backend.h"
#include "api/operations.h"
#include "api/shown_state.h"
#include "api/documents.h"
#include "api/metrics.h"
#include "api/server.h"
#include "base/document.h"
#include "base/door/exchange.h"
#include "base/door/loop.h"

namespace partita::api {

// Functions for the loop from other threads; none of them runs once it is closed (on the loop).
class Postbox : public std::enable_shared_from_this<Postbox> {
 public:
  explicit Postbox(serve::Loop& loop) : loop_(&loop) {}
  void post(std::function<void()> function);
  void close();
  bool is_open();

 private:
  std::mutex mutex_;
  serve::Loop* loop_;  // null: closed
};

// A parameter of a query by its name, decoded.
using Query = std::map<std::string, std::string, std::less<>>;
// bad_input that names the parameter: unknown to the call, said twice, of another kind.
Result<Query> read_query(const Operation& call, std::string_view query);

// One call, as far as it is read: who, what, with which part and query.
struct Asking {
  serve::HeadFacts head = {};
  const Operation* call = nullptr;
  std::string part = {};
  Query query = {};
  Caller caller = {};
  std::string address = {};
  std::string if_none_match = {}, last_event_id = {};
  bool gzip = false;
};

class EventStream;
class CallExchange;

class ApiSite final : public serve::Site {
 public:
  ApiSite(serve::Loop& loop, Backend& backend, const ServerOptions& options);
  ~ApiSite() override;

  std::shared_ptr<serve::Exchange> route(const serve::HttpHead& head,
                                         const serve::Peer& peer) override;
  serve::Reply refusal(int status, std::string_view message) override;

  AccessRules rules = {};
  bool tls = false;
  serve::DoorCounts counts = {};
  serve::DoorLimits door_limits = {};

  // A newer snapshot is there.
  void news();
  // The files of tokens or roles cannot be read any more.
  void keep_fault(const std::string& why);
  void close();  // nothing comes by the postbox from now on

 private:
  friend class CallExchange;
  friend class EventStream;

  std::shared_ptr<serve::Exchange> refuse(const Asking& asking, int status, const ApiError& error);
  std::shared_ptr<serve::Exchange> page(const Asking& asking);
  std::shared_ptr<serve::Exchange> admit(const serve::HttpHead& head, Asking asking);
  serve::Reply answer_now(const Asking& asking);
  serve::Reply error(const Asking& asking, const Error& why);
  serve::Reply health(const Asking& asking);
  serve::Reply version(const Asking& asking);
  serve::Reply openapi(const Asking& asking);
  serve::Reply metrics(const Asking& asking);
  serve::Reply node(const Asking& asking);
  serve::Reply plan(const Asking& asking);
  serve::Reply services(const Asking& asking);
  serve::Reply latest(const Asking& asking);
  serve::Reply leases(const Asking& asking);
  serve::Reply state(const Asking& asking);
  serve::Reply change(const Asking& asking);
  serve::Reply events(const Asking& asking);
  serve::Reply batch(const Asking& asking);
  serve::Reply series(const Asking& asking);
  serve::Reply json(std::string text, const Asking& asking, std::string headers = {});
  void keep(const Asking& asking, history::Outcome outcome, const std::string& detail);
  void keep_refusal(const Asking& asking, const std::string& detail);
  void look_for_late(std::int64_t due_ns);
  void broadcast();

  serve::Loop& loop_;
  Backend& backend_;
  const ServerOptions& options_;
  std::shared_ptr<Postbox> postbox_;
  RateLimit rate_limit_;
  RateLimit refusals_{1, 20};  // that are kept as events
  std::uint64_t unkept_ = 0;
  ShownState shown_;
  std::string openapi_ = {};
  ServerCounts seen_ = {};
  std::size_t bodies_ = 0;  // bytes of bodies that are read or waited for
  std::set<EventStream*> streams_ = {};
  std::set<CallExchange*> waiting_ = {};
  serve::Loop::Timer pace_, late_;
  std::int64_t sent_ns_ = 0, beat_ns_ = 0;
};

// An operation of the queue; and one as the queue takes it.
bool is_of_queue(std::string_view name);
bool is_of_fleet(std::string_view name);
queue::Call queue_call(std::string_view name, const std::string& part, const Query& query,
                       std::string user, std::string body);

// What a call of the table asks of the loop, made of its body; bad_input says what is wrong.
// bad_input: the call needs a body, and there is none.
Result<void> has_body(const Asking& asking, const std::string& body);
Backend::FleetCall fleet_call(const Asking& asking, std::string body);
Result<control::Request> request_of(const Asking& asking, std::string body);

}  // namespace partita::api
