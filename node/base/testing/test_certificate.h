// Certificates for tests: made anew, valid for an hour; and handshakes with them.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <filesystem>
#include <string>

namespace partita::test {

struct Certificate {
  std::string certificate, key;
};

// Self-signed, so it is its own authority.
inline Certificate make_certificate(const std::filesystem::path& folder,
                                    const std::string& common_name = "localhost",
                                    bool rsa = false) {
  EVP_PKEY* key = rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* name = X509_get_subject_name(certificate);
  const auto* text = reinterpret_cast<const unsigned char*>(common_name.c_str());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_sign(certificate, key, EVP_sha256());
  const Certificate files{folder / (common_name + ".pem"), folder / (common_name + ".key")};
  const auto write = [](const std::string& file, auto&& print) {
    BIO* out = BIO_new_file(file.c_str(), "w");
    print(out);
    BIO_free(out);
  };
  write(files.certificate, [&](BIO* out) { PEM_write_bio_X509(out, certificate); });
  write(files.key, [&](BIO* out) {
    PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
  std::filesystem::permissions(
      files.key, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return files;
}

// The suite that a client of TLS `version` with these suites and a server agree on; empty: none.
inline std::string agreed_suite(SSL_CTX* server, const char* suites, int version = TLS1_2_VERSION) {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_security_level(context, 0);  // the client takes anything
  SSL_CTX_set_min_proto_version(context, version);
  SSL_CTX_set_max_proto_version(context, version);
  SSL* ends[] = {SSL_new(context), SSL_new(server)};
  SSL_set_cipher_list(ends[0], suites);
  BIO *one = nullptr, *other = nullptr;
  BIO_new_bio_pair(&one, 0, &other, 0);
  SSL_set_bio(ends[0], one, one);
  SSL_set_bio(ends[1], other, other);
  SSL_set_connect_state(ends[0]);
  SSL_set_accept_state(ends[1]);
  for (int turn = 0; turn < 20; ++turn) SSL_do_handshake(ends[turn % 2]);
  const bool done = SSL_is_init_finished(ends[0]) && SSL_is_init_finished(ends[1]);
  const std::string suite = done ? SSL_get_cipher_name(ends[0]) : "";
  SSL_free(ends[0]);
  SSL_free(ends[1]);
  SSL_CTX_free(context);
  return suite;
}

}  // namespace partita::test
