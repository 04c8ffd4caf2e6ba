#include "wire/tunnel/tls_channel.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include "base/check.h"
#include "base/secret_file.h"

namespace partita::remote {
namespace {

constexpr std::size_t kCipherBytes = 64 * 1024;  // read at a time
constexpr std::size_t kPlainBytes = 256 * 1024;  // encrypted at a time
constexpr const char* kTls = "TLS";

std::string openssl_reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "unknown" : reason;
}

Result<SSL_CTX*> fresh_context(const SSL_METHOD* method) {
  ERR_clear_error();
  SSL_CTX* context = SSL_CTX_new(method);
  if (context == nullptr) return environment_error(kTls, "OpenSSL gives no TLS context");
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(context, kTlsSuites);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_options(
      context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  return context;
}

// TLS between two memories; bytes go to and come from the channel beneath. `state_` guards the
// TLS object, `sending_` the order of what is sent.
class TlsChannel final : public Channel {
 public:
  TlsChannel(std::unique_ptr<Channel> channel, std::shared_ptr<const TlsContext> context)
      : channel_(std::move(channel)),
        context_(std::move(context)),
        tls_(SSL_new(context_->get())),
        in_(BIO_new(BIO_s_mem())),
        out_(BIO_new(BIO_s_mem())),
        cipher_(kCipherBytes) {
    CHECK(tls_ != nullptr && in_ != nullptr && out_ != nullptr);
    SSL_set_bio(tls_, in_, out_);  // which owns them now
    BIO_set_mem_eof_return(in_, -1);
    if (context_->is_server()) {
      SSL_set_accept_state(tls_);
    } else {
      SSL_set_connect_state(tls_);
      SSL_set_tlsext_host_name(tls_, context_->name().c_str());
      SSL_set1_host(tls_, context_->name().c_str());
    }
  }
  ~TlsChannel() override { SSL_free(tls_); }

  Result<void> shake_hands(Nanos patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    for (;;) {
      ERR_clear_error();
      const int result = SSL_do_handshake(tls_);
      const int error = SSL_get_error(tls_, result);
      const std::string reason = error == SSL_ERROR_SSL ? openssl_reason() : "";
      TRY(send_pending(patience));
      if (result == 1) return {};
      if (error != SSL_ERROR_WANT_READ) return refused(reason);
      const Nanos left = end - std::chrono::steady_clock::now();
      const auto more = TRY(receive(left));
      if (more == 0) return failed({ErrorCode::lost, "the other side closed the connection", kTls});
    }
  }

  Result<void> write(std::span<const std::span<const std::byte>> parts, Nanos patience) override {
    const std::lock_guard order(sending_);
    for (auto part : parts) {
      while (!part.empty()) {
        const auto now = part.first(std::min(part.size(), kPlainBytes));
        if (!encrypt(now)) return failed({ErrorCode::lost, "it cannot be encrypted", kTls});
        TRY(send_ordered(patience));
        part = part.subspan(now.size());
      }
    }
    return send_ordered(patience);
  }

  Result<std::size_t> read(std::span<std::byte> into, Nanos patience) override {
    for (;;) {
      std::size_t size = 0;
      int error = SSL_ERROR_NONE;
      {
        const std::lock_guard lock(state_);
        ERR_clear_error();
        const int result = SSL_read_ex(tls_, into.data(), into.size(), &size);
        if (result != 1) error = SSL_get_error(tls_, result);
        if (error == SSL_ERROR_SSL) openssl_reason();
      }
      TRY(send_pending(patience));
      if (error == SSL_ERROR_NONE) return size;
      if (error == SSL_ERROR_ZERO_RETURN) return 0u;
      if (error != SSL_ERROR_WANT_READ) {
        return failed({ErrorCode::lost, "what came cannot be decrypted", kTls});
      }
      auto more = receive(patience);
      if (!more || *more == 0) return more;
    }
  }

  int descriptor() const override { return channel_->descriptor(); }
  void shut() noexcept override { channel_->shut(); }

 private:
  bool encrypt(std::span<const std::byte> bytes) {
    const std::lock_guard lock(state_);
    std::size_t size = 0;
    ERR_clear_error();
    return SSL_write_ex(tls_, bytes.data(), bytes.size(), &size) == 1 && size == bytes.size();
  }

  Result<void> send_pending(Nanos patience) {
    {
      const std::lock_guard lock(state_);
      if (BIO_ctrl_pending(out_) == 0) return {};
    }
    // Whoever writes takes it along. A reader that waited for him would not read, and if the other
    // side's reader did the same, nobody would.
    const std::unique_lock order(sending_, std::try_to_lock);
    return order ? send_ordered(patience) : Result<void>();
  }

  Result<void> send_ordered(Nanos patience) {
    std::vector<std::byte> bytes;
    {
      const std::lock_guard lock(state_);
      bytes.resize(BIO_ctrl_pending(out_));
      std::size_t size = 0;
      if (!bytes.empty()) BIO_read_ex(out_, bytes.data(), bytes.size(), &size);
      CHECK(size == bytes.size());
    }
    if (bytes.empty()) return {};
    const std::array<std::span<const std::byte>, 1> parts{bytes};
    return channel_->write(parts, patience);
  }

  Result<std::size_t> receive(Nanos patience) {
    auto size = channel_->read(cipher_, patience);
    if (!size || *size == 0) return size;
    const std::lock_guard lock(state_);
    std::size_t taken = 0;
    BIO_write_ex(in_, cipher_.data(), *size, &taken);
    CHECK(taken == *size);
    return size;
  }

  Result<void> refused(const std::string& reason) const {
    const long verdict = SSL_get_verify_result(tls_);
    if (!context_->is_server() && verdict != X509_V_OK) {
      return failed({ErrorCode::denied,
                     std::string("the server's certificate is not trusted: ") +
                         X509_verify_cert_error_string(verdict),
                     kTls});
    }
    if (reason.find("alert") != std::string::npos) {
      return failed({ErrorCode::denied, "the other side refuses: " + reason, kTls});
    }
    return bad_input(kTls, "no handshake: " + reason);
  }

  std::unique_ptr<Channel> channel_;
  std::shared_ptr<const TlsContext> context_;
  std::mutex sending_;  // before state_ where both are held
  std::mutex state_;
  SSL* tls_;
  BIO* in_;
  BIO* out_;
  std::vector<std::byte> cipher_;  // of the reading thread
};

}  // namespace

Result<std::shared_ptr<const TlsContext>> TlsContext::server(const std::string& certificate_file,
                                                             const std::string& key_file) {
  TRY(check_secret_file(key_file));
  const auto context = TRY(fresh_context(TLS_server_method()));
  auto made = std::shared_ptr<const TlsContext>(new TlsContext(context, ""));
  if (SSL_CTX_use_certificate_chain_file(context, certificate_file.c_str()) != 1) {
    return bad_input(certificate_file, "no certificate chain in PEM form: " + openssl_reason());
  }
  if (SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return bad_input(key_file, "no private key in PEM form: " + openssl_reason());
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    return bad_input(key_file, "this is not the key of " + certificate_file);
  }
  return made;
}

Result<std::shared_ptr<const TlsContext>> TlsContext::client(const std::string& ca_file,
                                                             std::string name) {
  if (name.empty()) return bad_input(ca_file, "the server's certificate needs a name to be for");
  const auto context = TRY(fresh_context(TLS_client_method()));
  auto made = std::shared_ptr<const TlsContext>(new TlsContext(context, std::move(name)));
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (SSL_CTX_load_verify_locations(context, ca_file.c_str(), nullptr) != 1) {
    return bad_input(ca_file, "no certificates in PEM form: " + openssl_reason());
  }
  return made;
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

Result<std::unique_ptr<Channel>> tls_channel(std::unique_ptr<Channel> channel,
                                             std::shared_ptr<const TlsContext> context,
                                             Nanos patience) {
  auto made = std::make_unique<TlsChannel>(std::move(channel), std::move(context));
  TRY(made->shake_hands(patience));
  return made;
}

}  // namespace partita::remote
