// Exchange: one request and its answer, apart from the connection. It says step by step
// what it needs: its body's text, its body's bytes in places it names, the backend's answer; and at
// the end what to write. Destroying it early (the client has gone) gives everything back.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/front/backend.h"
#include "serve/front/http_head.h"
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
  std::size_t connections = 0;
  std::array<std::uint64_t, 6> answers = {};  // by hundreds of their status
  std::uint64_t abandoned = 0;                // clients that left before their answer
  std::map<std::string, std::shared_ptr<const ModelSpec>, std::less<>> models = {};

  // The service's model, kept alive while somebody uses it; null as Backend::model().
  std::shared_ptr<const ModelSpec> model(std::string_view service);
};

struct Reply {
  int status = 200;
  std::string_view content_type = "application/json";
  std::string headers = {};  // more of them, each with its line end
  std::string text = {};
  std::vector<iovec> spans = {};  // behind the text; valid until the exchange ends
};

Reply error_reply(int status, std::string_view message);
Reply denial_reply(const Denial& denial);
int status_of(Denial::Kind kind);

// The head, in values of its own.
struct RequestFacts {
  Method method = Method::other;
  std::string method_name = {}, path = {};  // without query
  std::uint64_t content_length = 0;
  std::optional<std::uint64_t> json_bytes = {};
  std::optional<std::int64_t> timeout_ns = {};
  std::optional<int> priority = {};
  bool idempotent = true;
  std::string trace_parent = {};
  const Token* token = nullptr;  // null: tokens are not asked for
};
// bad_input for header values that are none.
Result<RequestFacts> facts_of(const HttpHead& head);

enum class Step : std::uint8_t {
  text,     // read text_wanted bytes of the body into text, then on_text()
  tensors,  // read the body into scatter, then on_filled()
  backend,  // wait until woken with ended(), then finish()
  stream,   // as backend, but pieces may come before
  answer,   // write reply
};

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Door& door, RequestFacts facts) : door_(door), facts_(std::move(facts)) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange();

  virtual Step begin() { return Step::answer; }
  // The beginning of the text, once, while it comes: text to go on, answer to refuse.
  virtual Step on_part(std::string_view /*beginning*/) { return Step::text; }
  virtual Step on_text() { return Step::answer; }
  virtual Step on_filled() { return Step::answer; }
  virtual void finish() {}  // fills reply from the backend's answer

  // Gives what the backend holds for it back; spans of the reply end with that.
  void give_back();
  bool ended() const { return ended_; }
  const RequestFacts& facts() const { return facts_; }

  std::string text = {};
  std::size_t text_wanted = 0;
  std::vector<iovec> scatter = {};
  Reply reply = {};
  std::function<void()> wake = {};  // set by the connection, empty once it has gone
  // A stream's pieces since the connection last took them.
  std::string pieces = {};
  bool stream_begun = false;   // reply has its status and content type
  bool stream_broken = false;  // it ended in the middle

  // For the access log.
  std::string service = {};
  int items = 0;
  std::int64_t submitted_ns = 0, ended_ns = 0;

 protected:
  Step refuse(int status, std::string_view message);
  Step deny(const Denial& denial);
  // Whether the facts' token may use the service; else replies 403.
  bool permitted();
  bool may_share() const;  // name regions of shared memory
  // Takes text_wanted from the budget of JSON in flight, or replies.
  bool take_budget(std::size_t limit);
  std::optional<Denial> admit(int wanted_items, const RequestHead& extra);
  Step submit(bool streaming);

  Door& door_;
  RequestFacts facts_;
  std::optional<RequestId> request_ = {};
  int admitted_items_ = 0;
  std::optional<Denial> denial_ = {};

 private:
  virtual void on_piece(StreamPiece&&) {}
  void ended(std::optional<Denial> denial);
  std::size_t budget_ = 0;
  bool ended_ = false;
};

// A reply that needs no body.
class PlainExchange final : public Exchange {
 public:
  PlainExchange(Door& door, RequestFacts facts, Reply answer);
};

std::shared_ptr<Exchange> make_infer_exchange(Door& door, RequestFacts facts, std::string service);
std::shared_ptr<Exchange> make_openai_exchange(Door& door, RequestFacts facts);

}  // namespace partita::serve
