// Certificates for tests: made anew, valid for an hour.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <filesystem>
#include <string>

namespace partita::test {

struct Certificate {
  std::string certificate, key;
};

// Self-signed, so it is its own authority.
inline Certificate make_certificate(const std::filesystem::path& folder,
                                    const std::string& common_name = "localhost") {
  EVP_PKEY* key = EVP_EC_gen("P-256");
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
  X509_free(certificate);
  EVP_PKEY_free(key);
  return files;
}

}  // namespace partita::test
