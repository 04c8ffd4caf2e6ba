// GatewayExchange: what the exchanges of the gateway's front door share: the request's facts, the
// budget of JSON in flight, the request that the backend holds. Destroying it early (the client has
// gone) gives everything back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "serve/door/exchange.h"
#include "serve/front/backend.h"
#include "serve/front/options.h"
#include "serve/front/shared_memory.h"

namespace partita::serve {

// What all exchanges of a front door share. Loop thread only.
struct Door {
  Backend& backend;
  const FrontOptions& options;
  bool shared_memory_on = false;
  SharedMemory shared_memory = {};
  std::size_t json_in_flight = 0;
  DoorCounts counts = {};
  std::map<std::string, std::shared_ptr<const ModelSpec>, std::less<>> models = {};

  // The service's model, kept alive while somebody uses it; null as Backend::model().
  std::shared_ptr<const ModelSpec> model(std::string_view service);
};

Reply error_reply(int status, std::string_view message);
Reply denial_reply(const Denial& denial);
int status_of(Denial::Kind kind);

// The head, in values of its own.
struct RequestFacts : HeadFacts {
  std::optional<std::uint64_t> json_bytes = {};
  std::optional<std::int64_t> timeout_ns = {};
  std::optional<int> priority = {};
  bool idempotent = true;
  const Token* token = nullptr;  // null: tokens are not asked for
};
// bad_input for header values that are none.
Result<RequestFacts> facts_of(const HttpHead& head);

class GatewayExchange : public Exchange {
 public:
  GatewayExchange(Door& door, RequestFacts facts) : door_(door), facts_(std::move(facts)) {}
  ~GatewayExchange() override;

  const RequestFacts& facts() const override { return facts_; }
  void give_back() override;

 protected:
  Step refuse(int status, std::string_view message);
  Step deny(const Denial& denial);
  // Whether the facts' token may use the service; else replies 403.
  bool permitted();
  bool may_share() const;  // name regions of shared memory
  // Takes text_wanted from the budget of JSON in flight, or replies.
  bool take_budget(std::size_t limit);
  std::optional<Denial> admit(int wanted_items, const RequestHead& extra);
  void trace();  // an inference without a trace context gets one, where the options say so
  Step submit(bool streaming);

  Door& door_;
  RequestFacts facts_;
  std::optional<RequestId> request_ = {};
  int admitted_items_ = 0;
  std::optional<Denial> denial_ = {};

 private:
  virtual void on_piece(StreamPiece&&) {}
  void on_end(std::optional<Denial> denial);
  std::size_t budget_ = 0;
};

// A reply that needs no body.
class PlainExchange final : public GatewayExchange {
 public:
  PlainExchange(Door& door, RequestFacts facts, Reply answer);
};

std::shared_ptr<Exchange> make_infer_exchange(Door& door, RequestFacts facts, std::string service);
std::shared_ptr<Exchange> make_openai_exchange(Door& door, RequestFacts facts);

}  // namespace partita::serve
