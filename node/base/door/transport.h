// Transport: bytes over a non-blocking TCP connection, plain or inside TLS. Nothing here waits:
// what cannot be done now says so, and what is to be waited for. TlsServer holds the certificate.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/descriptor.h"
#include "base/result.h"

struct ssl_st;
struct ssl_ctx_st;

namespace partita::serve {

class TlsServer {
 public:
  // TLS 1.2 and later. environment or bad_input names the file that cannot be used.
  // With `client_ca`, clients that show a certificate must show one that it signed; others come in
  // without a name. By ALPN it offers h2 and http/1.1.
  static Result<std::shared_ptr<TlsServer>> make(const std::string& certificate_file,
                                                 const std::string& key_file,
                                                 const std::string& client_ca = {});
  ~TlsServer();
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;
  ssl_ctx_st* context() const { return context_; }

 private:
  explicit TlsServer(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* context_;
};

class Transport {
 public:
  // What came of a read or write: bytes > 0, or one of the flags.
  struct Moved {
    std::size_t bytes = 0;
    bool blocked = false;   // nothing can be done now
    bool ended = false;     // the other side has closed, or the connection broke
    bool writable = false;  // blocked: until writable, not readable (TLS)
  };

  Transport(int fd, const TlsServer* tls);  // owns the descriptor
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  int fd() const { return fd_.get(); }
  bool encrypted() const { return tls_ != nullptr; }
  // The common name of the client's certificate, once it was checked; empty: none.
  std::string certificate_name() const;
  Moved read(std::span<const iovec> into);
  Moved write(std::span<const iovec> from);
  // Bytes may wait inside TLS although the descriptor is not readable.
  bool holds_input() const;
  void end_writing();  // the other side reads an end

 private:
  Moved failed_tls(int result) const;
  Descriptor fd_;
  ssl_st* tls_ = nullptr;
};

}  // namespace partita::serve
