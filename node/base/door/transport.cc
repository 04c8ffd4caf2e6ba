#include "base/door/transport.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/secret_file.h"

namespace partita::serve {

namespace {

std::string tls_reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "unknown" : reason;
}

Transport::Moved moved(ssize_t count) {
  if (count > 0) return {.bytes = static_cast<std::size_t>(count)};
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
    return {.blocked = true};
  return {.ended = true};
}

// What both speak, HTTP/2 before HTTP/1.1; clients that ask for neither come in all the same, and
// say by their first bytes what they speak.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* length,
                    const unsigned char* offered, unsigned offered_length, void*) {
  static constexpr std::string_view kOurs = "\x02h2\x08http/1.1";
  unsigned char* chosen = nullptr;
  const int found =
      SSL_select_next_proto(&chosen, length, reinterpret_cast<const unsigned char*>(kOurs.data()),
                            static_cast<unsigned>(kOurs.size()), offered, offered_length);
  *out = chosen;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

}  // namespace

Result<std::shared_ptr<TlsServer>> TlsServer::make(const std::string& certificate_file,
                                                   const std::string& key_file,
                                                   const std::string& client_ca) {
  TRY(check_secret_file(key_file));
  ERR_clear_error();
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  if (context == nullptr) return environment_error("", "OpenSSL gives no TLS context");
  auto server = std::shared_ptr<TlsServer>(new TlsServer(context));
  if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1)
    return environment_error("", "OpenSSL has no TLS 1.2");
  if (SSL_CTX_set_cipher_list(context, kTlsSuites) != 1)
    return environment_error("", "OpenSSL has none of the suites " + std::string(kTlsSuites));
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(
      context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  if (SSL_CTX_use_certificate_chain_file(context, certificate_file.c_str()) != 1)
    return bad_input(certificate_file, "no certificate chain in PEM form: " + tls_reason());
  if (SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) != 1)
    return bad_input(key_file, "no private key in PEM form: " + tls_reason());
  if (SSL_CTX_check_private_key(context) != 1)
    return bad_input(key_file, "this is not the key of " + certificate_file);
  if (client_ca.empty()) return server;
  if (SSL_CTX_load_verify_locations(context, client_ca.c_str(), nullptr) != 1)
    return bad_input(client_ca, "no certificates in PEM form: " + tls_reason());
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  constexpr std::string_view kSession = "partita";  // sessions are resumed here alone
  SSL_CTX_set_session_id_context(context, reinterpret_cast<const unsigned char*>(kSession.data()),
                                 static_cast<unsigned>(kSession.size()));
  return server;
}

TlsServer::~TlsServer() { SSL_CTX_free(context_); }

Transport::Transport(int fd, const TlsServer* tls) : fd_(fd) {
  if (tls == nullptr) return;
  tls_ = SSL_new(tls->context());
  CHECK(tls_ != nullptr && SSL_set_fd(tls_, fd) == 1);
  SSL_set_accept_state(tls_);
}

Transport::~Transport() { SSL_free(tls_); }

Transport::Moved Transport::failed_tls(int result) const {
  const int error = SSL_get_error(tls_, result);
  ERR_clear_error();
  if (error == SSL_ERROR_WANT_READ) return {.blocked = true};
  if (error == SSL_ERROR_WANT_WRITE) return {.blocked = true, .writable = true};
  return {.ended = true};
}

Transport::Moved Transport::read(std::span<const iovec> into) {
  if (tls_ == nullptr) {
    if (into.size() == 1) return moved(::recv(fd_.get(), into[0].iov_base, into[0].iov_len, 0));
    return moved(::readv(fd_.get(), into.data(), static_cast<int>(into.size())));
  }
  std::size_t bytes = 0;
  const int result = SSL_read_ex(tls_, into[0].iov_base, into[0].iov_len, &bytes);
  return result == 1 ? Moved{.bytes = bytes} : failed_tls(result);
}

Transport::Moved Transport::write(std::span<const iovec> from) {
  if (tls_ == nullptr) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(from.data());
    message.msg_iovlen = from.size();
    Moved result =
        moved(from.size() == 1 ? ::send(fd_.get(), from[0].iov_base, from[0].iov_len, MSG_NOSIGNAL)
                               : ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL));
    result.writable = result.blocked;
    return result;
  }
  // A record holds 16 KiB: small pieces go into one.
  std::array<char, 16'384> record;
  std::size_t length = 0, bytes = 0;
  const void* data = from[0].iov_base;
  if (from.size() > 1 && from[0].iov_len < record.size()) {
    data = record.data();
    for (const iovec& piece : from) {
      const std::size_t part = std::min(piece.iov_len, record.size() - length);
      std::memcpy(record.data() + length, piece.iov_base, part);
      length += part;
    }
  } else {
    length = from[0].iov_len;
  }
  const int result = SSL_write_ex(tls_, data, length, &bytes);
  return result == 1 ? Moved{.bytes = bytes} : failed_tls(result);
}

std::string Transport::certificate_name() const {
  if (tls_ == nullptr || SSL_get_verify_result(tls_) != X509_V_OK) return {};
  X509* certificate = SSL_get0_peer_certificate(tls_);
  if (certificate == nullptr) return {};
  std::array<char, 256> name{};
  const int length = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                               name.data(), static_cast<int>(name.size()));
  const std::string_view text(name.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  const bool plain = text.find('\0') == std::string_view::npos;  // no name cut short
  return plain ? std::string(text) : std::string();
}

bool Transport::holds_input() const { return tls_ != nullptr && SSL_pending(tls_) > 0; }

void Transport::end_writing() {
  if (tls_ != nullptr && SSL_is_init_finished(tls_) != 0) SSL_shutdown(tls_);
  ERR_clear_error();
  ::shutdown(fd_.get(), SHUT_WR);
}

}  // namespace partita::serve
