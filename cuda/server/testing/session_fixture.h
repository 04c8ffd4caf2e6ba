// A session on a FakeBackend, with a client made by hand on the other side of a simulated network.
#pragma once

#include <gmock/gmock.h>

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "server/testing/test_client.h"

namespace partita::remote::server {

class SessionTest : public ::testing::Test {
 protected:
  void start(FakeBackend::Options backend = {}, SessionLimits limits = {}, SimOptions net = {}) {
    server = std::make_unique<TestServer>(net, backend, limits);
    channel = *server->net.connect("sim", std::chrono::seconds(1));
    client = std::make_unique<TestClient>(*channel);
    const auto hello = client->ask(Hello{.table = protocol_hash()});
    ASSERT_TRUE(hello.came) << client->error;
    ASSERT_EQ(hello.outcome.status, 0);
    EXPECT_EQ(hello.reply.arena.value, kFakeArena);
  }
  TestServer::Seat& seat() { return *server->seats.front(); }
  Status fence() {
    const auto answer = client->ask(Fence{});
    return answer.came
               ? (answer.outcome.status != 0 ? answer.outcome.status : answer.outcome.sticky)
               : -1;
  }
  void load() {
    const Digest digest = digest_of(bytes_of("fake"));
    EXPECT_TRUE(client->send(ModulePut{digest, 0, 4}, bytes_of("fake")));
    EXPECT_TRUE(client->send(ModuleLoad{{1}, digest}));
    const std::uint32_t layout[] = {0, 8, 8, 4, 12, 4};
    EXPECT_TRUE(client->send(KernelOpen{{1}, {1}, "add", std::as_bytes(std::span(layout))}));
  }
  static std::vector<std::byte> arguments(std::uint64_t to, std::uint32_t count,
                                          std::uint32_t more) {
    std::vector<std::byte> block(16);
    std::memcpy(block.data(), &to, 8);
    std::memcpy(block.data() + 8, &count, 4);
    std::memcpy(block.data() + 12, &more, 4);
    return block;
  }
  static std::vector<std::uint32_t> words(const std::vector<std::byte>& bytes) {
    std::vector<std::uint32_t> out(bytes.size() / 4);
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * 4);
    return out;
  }

  std::unique_ptr<TestServer> server;
  std::unique_ptr<Channel> channel;
  std::unique_ptr<TestClient> client;
};

}  // namespace partita::remote::server
