// Exchange: one request and its answer, apart from the connection. It says step by step
// what it needs: its body's text, its body's bytes in places it names, an answer that comes later;
// and at the end what to write. Destroying it early (the client has gone) gives everything back.
// Site: what makes exchanges of heads; the server behind a door. Loop thread only.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/door/http_head.h"
#include "base/door/trace_context.h"

namespace partita::serve {

class AccessLog;

// Times are nanoseconds.
struct DoorLimits {
  std::size_t connections = 16'384;             // of a listener for other machines,
  std::size_t local_connections = 1024;         // or at a Unix socket; an address has a share
  std::int64_t idle_ns = 75'000'000'000;        // between requests
  std::int64_t head_ns = 10'000'000'000;        // from a head's first byte to its last
  std::int64_t body_grace_ns = 10'000'000'000;  // for a body or an answer, besides what came of it
  std::int64_t bytes_per_second = 65'536;       // ... by this rate, the slowest that is let in
  // Of a stream that its client does not fetch, besides the longest piece that came: that may be an
  // answer as long as its engine may give. Then of all that is not fetched.
  std::size_t stream_bytes = 4u << 20, waiting_bytes = 512u << 20;
  // Over HTTP/2: requests under way of a connection, and of all, of which an address has a share;
  // those that a client may break off, at once and per second.
  std::size_t streams_of_connection = 128, streams = 16'384;
  std::size_t resets = 500, resets_per_second = 33;
};

// What is known of a client apart from what it says.
struct Peer {
  std::string address = {};  // "127.0.0.1:4711", "uid 1000"
  struct User {              // of a Unix socket
    unsigned uid = 0;
    std::vector<unsigned> groups = {};
  };
  std::optional<User> user = {};
  std::string certificate = {};  // the common name of a certificate that was checked
  std::int64_t answered_ns = 0;  // when this connection had its first answer of a backend; 0: none
  bool faulted = false;          // it had a failure that may be its own
};

struct Reply {
  int status = 200;
  std::string_view content_type = "application/json";
  std::string headers = {};  // more of them, each with its line end
  std::string text = {};
  std::vector<iovec> spans = {};  // behind the text; valid until the exchange ends
};

// What the connection and its log want to know of a head, in values of its own.
struct HeadFacts {
  Method method = Method::other;
  std::string method_name = {}, path = {};  // without query
  std::uint64_t content_length = 0;         // of a chunked body: what has come, once it has ended
  TraceContext trace = {};
  bool chunked = false;
};

enum class Step : std::uint8_t {
  text,     // read text_wanted bytes of the body into text, or all of a chunked one, then on_text()
  tensors,  // read the body into scatter, then on_filled()
  backend,  // wait until woken with ended(), then finish()
  stream,   // as backend, but pieces may come before
  answer,   // write reply
};

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange() = default;

  virtual const HeadFacts& facts() const = 0;
  virtual Step begin() { return Step::answer; }
  // The beginning of the text, once, while it comes: text to go on, answer to refuse.
  virtual Step on_part(std::string_view /*beginning*/) { return Step::text; }
  virtual Step on_text() { return Step::answer; }
  // Tensors: scatter is filled; with Step::tensors there is more, in a new scatter.
  virtual Step on_filled() { return Step::answer; }
  // Before memory for so many bytes of text is taken: text to go on, answer to refuse.
  virtual Step on_growth(std::size_t /*bytes*/) { return Step::text; }
  // The text is there; on_text() comes next. Until then end() breaks off reading it.
  virtual void text_came() {}
  // The length of a chunked body, once it is known.
  virtual void on_length(std::uint64_t /*bytes*/) {}
  virtual void finish() {}      // fills reply from what came
  virtual void on_fetched() {}  // unsent was more, and is 0
  // Gives what others hold for it back; spans of the reply end with that.
  virtual void give_back() {}
  bool ended() const { return ended_; }

  std::string text = {};
  std::size_t text_wanted = 0;
  bool text_open = false;  // text_wanted is a limit: the body is chunked, and its end is the text's
  std::vector<iovec> scatter = {};
  Reply reply = {};
  std::string more_headers = {};    // of whatever it replies, each with its line end
  std::function<void()> wake = {};  // set by the connection, empty once it has gone
  // A stream's pieces since the connection last took them.
  std::string pieces = {};
  void pieces_taken();
  bool stream_begun = false;   // reply has its status and content type
  bool stream_broken = false;  // it ended in the middle
  std::size_t unsent = 0;      // of what was taken: waits for the client to fetch it

  // For the access log and the counts.
  int status() const { return outcome != 0 ? outcome : reply.status; }
  int outcome = 0;  // where the reply's status says something else; 0: that
  std::string service = {};
  int items = 0;
  std::int64_t submitted_ns = 0, ended_ns = 0;

 protected:
  // What it waited for is there; nothing when it was before.
  bool end();

 private:
  bool ended_ = false;
};

// A reply that needs no body.
class AnsweredExchange final : public Exchange {
 public:
  AnsweredExchange(HeadFacts facts, Reply answer) : facts_(std::move(facts)) {
    reply = std::move(answer);
  }
  const HeadFacts& facts() const override { return facts_; }

 private:
  HeadFacts facts_;
};

class Site {
 public:
  virtual ~Site() = default;
  // Never null; what cannot be is an exchange that answers so.
  virtual std::shared_ptr<Exchange> route(const HttpHead& head, const Peer& peer) = 0;
  // For what is no request, or comes too slowly.
  virtual Reply refusal(int status, std::string_view message) = 0;
};

struct DoorCounts {
  std::size_t connections = 0;
  std::array<std::uint64_t, 6> answers = {};  // by hundreds of their status
  std::uint64_t abandoned = 0;                // clients that left before their answer
  std::uint64_t displaced = 0;                // idle connections that made room for others
  std::size_t streams = 0;                    // requests under way over HTTP/2
  std::uint64_t flooded = 0;                  // connections of it that asked for more than they may
};

}  // namespace partita::serve
