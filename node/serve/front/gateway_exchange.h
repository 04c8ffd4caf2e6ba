// GatewayExchange: what the exchanges of the gateway's front door share: the request's facts, the
// budget of JSON in flight, the request that the backend holds. Destroying it early (the client has
// gone) gives everything back.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/door/exchange.h"
#include "base/door/loop.h"
#include "serve/front/backend.h"
#include "serve/front/options.h"
#include "serve/front/shared_memory.h"
#include "serve/peers/peer_call.h"

namespace partita::serve {

class EnginePool;
struct Door;

// A request whose body is on its way into its slots. When others need them, who has taken long
// gives them back.
class Filling {
 public:
  virtual ~Filling() = default;
  virtual bool fills(std::string_view service) const = 0;
  virtual int rows_held() const = 0;
  virtual void evict() = 0;
  std::int64_t filling_since = 0;
};
inline constexpr std::int64_t kFillGrace = 1'000'000'000;

// The text of one request in memory. Beyond kSmallText it is counted for its client, who leaves the
// others a part of what is free: of kJsonShare + 1 parts one. While it comes, and others need the
// memory, it may be dropped: of the client that has most the longest that has come for more than
// kFillGrace, unless that client has less than who wants it. So many connections as there may be
// have not all of the memory with small ones.
inline constexpr std::size_t kJsonShare = 4, kSmallText = 1u << 14;
class HeldText {
 public:
  HeldText(Door& door, std::string client) : door_(door), client_(std::move(client)) {}
  HeldText(const HeldText&) = delete;
  ~HeldText() { hold(0); }
  // Whether there is room for so many bytes in all.
  bool grow(std::size_t bytes);
  void came();  // it is whole, and not dropped any more
  std::function<void()> dropped = {};

 private:
  bool too_much(std::size_t more) const;
  HeldText* worst() const;
  std::size_t of_client() const;
  void hold(std::size_t bytes);
  Door& door_;
  const std::string client_;
  std::size_t bytes_ = 0;
  const std::int64_t since_ = Loop::now_ns();
};

// What all exchanges of a front door share. Loop thread only.
struct Door {
  Backend& backend;
  const FrontOptions& options;
  EnginePool* engines = nullptr;  // of language models; null: there are none
  bool shared_memory_on = false;
  SharedMemory shared_memory = {};
  // Text of requests in memory, of all and by client; and those of which it still comes.
  std::size_t json_in_flight = 0;
  std::map<std::string, std::size_t, std::less<>> json_of = {};
  std::set<HeldText*> reading = {};
  DoorCounts counts = {};
  std::map<std::string, std::shared_ptr<const ModelSpec>, std::less<>> models = {};
  std::set<Filling*> filling = {};  // requests whose bodies are on their way into slots

  // Takes the slots of the request that holds most of this service's and has been filling them for
  // longer than kFillGrace; false: there is none but `except`.
  bool evict(std::string_view service, const Filling* except);

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
  bool gzip = false;          // it takes answers in that form
  bool packed = false;        // its body comes in such a form
  HeldToken token = nullptr;  // null: tokens are not asked for
  std::string client = {};    // who sends it: token or address
  bool trusted = true;        // its connection had answers, and no failures
  std::int64_t trusted_since = 0;
  // The node that hands it over; empty: it came from a client. It counts it where it gets it back.
  std::string handed_by = {};
  bool counted_there = false;
};
// What it says, from the priority of its key on.
int priority_of(const RequestFacts& facts);
// The same of a language model: a request may have less than its key, never more. What another node
// says of one that it hands over is so already.
int priority_of_key(const RequestFacts& facts);
// bad_input for header values that are none.
Result<RequestFacts> facts_of(const HttpHead& head);

class GatewayExchange : public Exchange {
 public:
  GatewayExchange(Door& door, RequestFacts facts)
      : door_(door), facts_(std::move(facts)), held_text_(door, facts_.client) {}
  ~GatewayExchange() override;

  const RequestFacts& facts() const override { return facts_; }
  Step on_growth(std::size_t bytes) override;
  void text_came() override { held_text_.came(); }
  void on_length(std::uint64_t bytes) override { facts_.content_length = bytes; }
  void give_back() override;

 protected:
  Step refuse(int status, std::string_view message);
  Step deny(const Denial& denial);
  // ---- handing over (hand_over.cc)
  // Refused for this reason, nothing of it run: whether it goes to another node instead. Then its
  // body is to be read whole and hand_over() called; `asked`: its key's limits have let it in.
  bool goes_over(const Denial& why, bool asked);
  bool going() const { return going_.has_value(); }
  Step read_whole();  // of its body, from the beginning
  Step read_rest();   // behind the text, which is there
  Step hand_over();
  void finish_over();
  // Whether the facts' token may use the service; else replies 403.
  bool permitted();
  bool may_share() const;  // name regions of shared memory
  // Whether so much text may come, or replies. The budget of JSON in flight is taken as it comes.
  bool text_allowed(std::size_t limit);
  std::optional<Denial> admit(int wanted_items, const RequestHead& extra);
  void compress();  // the reply, where its client and the options want it
  void trace();     // an inference without a trace context gets one, where the options say so
  Step submit(bool streaming);
  Completion completion(bool streaming);  // that ends this exchange
  // What the limits of its key say to one that goes to another node.
  virtual tl::expected<KeyHandle, Denial> key_begun(bool asked);
  virtual void uncount(const Denial& why) { door_.backend.uncount(service, why.kind); }

  Door& door_;
  RequestFacts facts_;
  int (*priority_)(const RequestFacts&) = priority_of;
  std::optional<RequestId> request_ = {};
  int admitted_items_ = 0;
  bool infers_ = false;  // not only asks what a model takes
  std::optional<Denial> denial_ = {};

 private:
  virtual void on_piece(const StreamPiece&) {}
  virtual void on_answer(const PeerAnswer&) {}  // of another node, whole
  // What its text is, for another node.
  virtual std::string_view text_type() const { return "application/json"; }
  PeerAsk ask_peer();
  void take_answer(PeerAnswer&& answer, bool stream);
  void on_end(std::optional<Denial> denial);
  HeldText held_text_;
  const std::int64_t came_ns_ = Loop::now_ns();
  std::optional<Denial> going_ = {};  // why it was refused here
  std::unique_ptr<PeerCall> peer_call_ = {};
  std::string peer_type_ = {};
  bool asked_ = false;
  KeyHandle key_ = {};
};

// A reply that needs no body.
class PlainExchange final : public GatewayExchange {
 public:
  PlainExchange(Door& door, RequestFacts facts, Reply answer);
};

inline constexpr std::string_view kEmbeddingsPath = "/v1/embeddings";
// any_bucket: its service is the longest bucket of its model, and a shorter one will do.
std::shared_ptr<Exchange> make_infer_exchange(Door& door, RequestFacts facts, AskedModel asked,
                                              bool any_bucket);
std::shared_ptr<Exchange> make_openai_exchange(Door& door, RequestFacts facts);
// A call of gRPC-web, whose path begins with kGrpcService.
std::shared_ptr<Exchange> make_grpc_web_exchange(Door& door, RequestFacts facts, bool in_base64);
// A question about a model that another node carries; null: nobody does.
std::shared_ptr<Exchange> make_elsewhere_exchange(Door& door, RequestFacts facts,
                                                  std::string model);
// What went wrong, where OpenAI's clients look for it.
Reply openai_error(int status, std::string_view message);
Reply in_openai_form(Reply error);  // one of error_reply()

}  // namespace partita::serve
