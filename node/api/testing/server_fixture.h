// What tests of the server share: an agent, a server before it, a folder, tokens of every role.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "api/access.h"
#include "api/server.h"
#include "api/testing/fake_agent.h"
#include "api/testing/test_caller.h"

namespace partita::api::test {

class ServerFixture : public testing::Test {
 protected:
  ServerFixture() {
    folder = std::filesystem::temp_directory_path() /
             ("partita-api-" + std::to_string(::getpid()) + "-" + std::to_string(++made));
    std::filesystem::create_directories(folder);
  }
  ~ServerFixture() override {
    server.reset();
    std::filesystem::remove_all(folder);
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name) << text;
    std::filesystem::permissions(folder / name, static_cast<std::filesystem::perms>(0644));
    return folder / name;
  }
  // Tokens "secret-viewer" and so on; without a limit on calls.
  ServerOptions with_tokens() const {
    std::string lines;
    for (const char* role : {"viewer", "operator", "admin"})
      lines += std::string(role) + "-one:" + role + ":" +
               sha256_hex("secret-" + std::string(role)) + "\n";
    ServerOptions options = plain();
    options.tokens_file = write("tokens", lines);
    return options;
  }
  static ServerOptions plain() {
    ServerOptions options;
    options.socket = "";
    options.listen = "127.0.0.1:0";
    options.version = "partita 1.2.3";
    options.limits.calls_per_second = options.limits.burst = 1'000'000;
    return options;
  }
  static std::string bearer(const std::string& role) {
    return "Authorization: Bearer secret-" + role + "\r\n";
  }
  void start(const ServerOptions& options) {
    auto started = Server::start(agent, options);
    ASSERT_TRUE(started) << to_string(started.error());
    server = std::move(*started);
    address = server->addresses().front();
  }
  RawCaller::Answer call(const std::string& method, const std::string& target,
                         const std::string& headers = "", const std::string& body = "") const {
    return RawCaller(address).call(method, target, headers, body);
  }

  static inline int made = 0;
  std::filesystem::path folder;
  FakeAgent agent;
  std::unique_ptr<Server> server;
  std::string address;
};

}  // namespace partita::api::test
