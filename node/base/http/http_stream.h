// HttpStream: one non-blocking connection to a server, with TLS or without. Every call returns at
// once; a caller that was told `blocked` waits for its descriptor in either direction and calls
// again, whatever it wanted before. Single-threaded. HttpDialer, which says where to and how, must
// outlive its streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/url.h"

namespace partita::serve {

struct TlsWishes {
  std::string ca_file;    // certificates to trust instead of the system's; empty: the system's
  bool insecure = false;  // any certificate will do
  std::string certificate = {}, key = {};  // that this client shows; empty: none
  std::string name = {};  // that the server's has, wherever it is; empty: its host's
};

class HttpStream {
 public:
  struct Moved {
    enum class Kind : std::uint8_t { some, blocked, ended, broken };
    Kind kind = Kind::broken;
    std::size_t bytes = 0;  // some
    bool emptied = false;   // of a read: there was no more at that moment
  };
  HttpStream();
  HttpStream(HttpStream&&) noexcept;
  HttpStream& operator=(HttpStream&&) noexcept;
  ~HttpStream();

  bool open() const;
  int descriptor() const;
  Moved write(std::span<const char> bytes);
  Moved read(std::span<char> room);
  // What is wrong with the server's certificate; "" when nothing is known to be.
  std::string certificate_fault() const;

 private:
  friend class HttpDialer;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class HttpDialer {
 public:
  // Looks the host up once, blocking.
  static Result<HttpDialer> to(const Url& url, const TlsWishes& tls);
  // A Unix socket of this machine.
  static Result<HttpDialer> to_socket(const std::string& path);
  HttpDialer(HttpDialer&&) noexcept;
  ~HttpDialer();

  // A connection on its way, or one that is not open when the system refuses at once.
  HttpStream dial() const;
  // A request of `path` behind the URL's, on a connection of its own; `headers` are whole lines.
  std::string request(std::string_view verb, std::string_view path, std::string_view headers = {},
                      std::string_view body = {}) const;

 private:
  struct Impl;
  explicit HttpDialer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct FetchedAnswer {
  int status = 0;
  std::string body;
};
inline constexpr std::uint64_t kMaxFetched = 1u << 20;  // bytes of a body
// Sends a request on a connection of its own and waits for the answer, at most that long. The
// system refuses the connection at once: `denied` where this user may not, else `lost`, as nobody
// is there.
Result<FetchedAnswer> fetch(const HttpDialer& dialer, const std::string& request, Clock& clock,
                            std::int64_t patience_ns, std::uint64_t most_bytes = kMaxFetched);

// The same for an answer that does not end: its body is given piece by piece, as it comes, with the
// status; an empty piece at least every 100 ms. Over when the answer ends or `take` says false; an
// error when nothing comes for `silence_ns`, nor a first word within kMostUnanswered: until then
// the peer's system need not have said that it is there, from then on it is asked (TCP keepalive).
inline constexpr std::int64_t kMostUnanswered = 25'000'000'000;
using TakePiece = std::function<bool(int status, std::string_view piece)>;
Result<void> fetch_pieces(const HttpDialer& dialer, const std::string& request, Clock& clock,
                          std::int64_t silence_ns, const TakePiece& take);

}  // namespace partita::serve
