// A Channel under TLS (1.2 or later) over another Channel. Owns both. A side that ends without
// saying so is an end as any other: frames say whether something is missing.
#pragma once

#include <memory>
#include <string>

#include "wire/net/channel.h"

struct ssl_ctx_st;

namespace partita::remote {

// What both sides need before the first connection; shared by all of them.
class TlsContext {
 public:
  // The server's: its certificate chain and key, in PEM form.
  static Result<std::shared_ptr<const TlsContext>> server(const std::string& certificate_file,
                                                          const std::string& key_file);
  // The client's: certificates that it trusts, in PEM form, and the name that the server's has to
  // be for.
  static Result<std::shared_ptr<const TlsContext>> client(const std::string& ca_file,
                                                          std::string name);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ssl_ctx_st* get() const { return context_; }
  bool is_server() const { return name_.empty(); }
  const std::string& name() const { return name_; }

 private:
  TlsContext(ssl_ctx_st* context, std::string name) : context_(context), name_(std::move(name)) {}
  ssl_ctx_st* context_;
  std::string name_;
};

// The handshake is done when this returns. denied: the other side's certificate is not trusted, or
// it does not trust ours; bad_input: what it says is no TLS.
Result<std::unique_ptr<Channel>> tls_channel(std::unique_ptr<Channel> channel,
                                             std::shared_ptr<const TlsContext> context,
                                             Nanos patience);

}  // namespace partita::remote
