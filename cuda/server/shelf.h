// Shelf: where things lie that several sessions have. The broker's is a table of files in memory
// (SharedThings); a session reaches it through a socket of its own (BrokerShelf).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "base/descriptor.h"
#include "server/errors.h"

namespace partita::remote::server {

using ShareKey = std::array<std::byte, 16>;

class Shelf {
 public:
  struct Thing {
    ShareKey key = {};
    std::uint64_t bytes = 0;
    Descriptor file{-1};
    std::uint64_t session = 0;  // who asked
  };
  virtual ~Shelf() = default;
  virtual Answered<Thing> make(std::uint64_t bytes, bool event) = 0;
  virtual Answered<Thing> open(const ShareKey& key, bool event) = 0;
  virtual void drop(const ShareKey& key) = 0;
};

// What a worker asks of the broker over its own socket, and the answer, with the file beside it.
struct ShareRequest {
  enum class Kind : std::uint32_t { make = 1, open, drop };
  Kind kind = Kind::make;
  std::uint32_t event = 0;
  std::uint64_t bytes = 0;
  ShareKey key = {};
};
struct ShareAnswer {
  std::int32_t status = 0;
  std::uint64_t bytes = 0, session = 0;
  ShareKey key = {};
};

class BrokerShelf final : public Shelf {
 public:
  explicit BrokerShelf(Descriptor socket) : socket_(std::move(socket)) {}
  Answered<Thing> make(std::uint64_t bytes, bool event) override;
  Answered<Thing> open(const ShareKey& key, bool event) override;
  void drop(const ShareKey& key) override;

 private:
  Answered<Thing> ask(const ShareRequest& request);
  Descriptor socket_;
};

// The broker's table. Only sessions of the client that made a thing may open it: `client` is its
// user on this host, or the host that it comes from. Limits, of a session: kMost of them, and so
// many bytes of memory together, since they are there when nobody has opened them, too.
class SharedThings {
 public:
  static constexpr std::size_t kMost = 64;
  struct Asker {
    std::uint64_t session = 0;
    std::string client = {};
  };
  // `most`: bytes of memory that a session may share.
  explicit SharedThings(std::uint64_t most) : most_(most) {}

  // The answer to a request, and the file that goes beside it (-1: none).
  std::pair<ShareAnswer, int> take(const Asker& who, const ShareRequest& request);
  // A session has ended: nobody opens what it made any more, and nobody waits for its events.
  void ended(std::uint64_t session);
  std::size_t size() const { return things_.size(); }

 private:
  struct Entry {
    Descriptor file{-1};
    std::uint64_t bytes = 0;
    bool event = false;
    Asker owner = {};
    std::set<std::uint64_t> opened = {};  // sessions, of an event
  };
  std::pair<ShareAnswer, int> make(const Asker& who, const ShareRequest& request);

  const std::uint64_t most_;
  std::map<ShareKey, Entry> things_;
};

}  // namespace partita::remote::server
