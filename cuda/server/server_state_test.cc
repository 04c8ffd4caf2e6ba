// What a server says of itself: read as it was written, and each number under its own name.
#include "server/server_state.h"

#include <gmock/gmock.h>

#include <sstream>

#include "base/unix_socket.h"
#include "server/messages.h"

namespace partita::remote::server {
namespace {

using ::testing::ElementsAre;

ServerState two_sessions() {
  ServerState state{.pid = 11,
                    .identity = "12@boot",
                    .address = "tcp:127.0.0.1:1",
                    .backend = "cpu",
                    .parts = 13,
                    .ready = 14,
                    .waiting = 15,
                    .sessions = {}};
  for (const std::uint64_t base : {100, 200})
    state.sessions.push_back({.session = base + 1,
                              .part = "a",
                              .shape = "CPU-1",
                              .program = "p",
                              .address = "unix:x",
                              .client_pid = base + 2,
                              .worker_pid = static_cast<long>(base + 3),
                              .worker_identity = "w",
                              .begun_s = static_cast<long>(base + 4),
                              .operations = base + 5,
                              .launches = base + 6,
                              .refused = base + 7,
                              .bytes_in = base + 8,
                              .bytes_out = base + 9,
                              .memory = base + 10});
  return state;
}

TEST(ServerState, IsReadAsItWasWritten) {
  const ServerState state = two_sessions();
  EXPECT_EQ(parse_server_state("s", server_state_json(state)).value(), state);
  EXPECT_EQ(parse_server_state("s", server_state_json({.address = "x"})).value().address, "x");
  EXPECT_FALSE(parse_server_state("s", "{}"));
}

TEST(ServerState, MetricsAddWhatRunsToWhatHasEnded) {
  const ServerTotals ended{.sessions = 1,
                           .denied = 2,
                           .bad_hellos = 3,
                           .operations = 1000,
                           .launches = 2000,
                           .refused = 3000,
                           .bytes_in = 4000,
                           .bytes_out = 5000};
  std::istringstream text(server_metrics(two_sessions(), ended));
  std::vector<std::string> values, types;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("partita_remote_")) values.push_back(line.substr(15));
    if (line.starts_with("# TYPE")) types.push_back(line.substr(line.rfind(' ') + 1));
  }
  EXPECT_THAT(values, ElementsAre("sessions 2", "parts 13", "ready_workers 14",
                                  "waiting_clients 15", "memory_bytes 320", "sessions_total 1",
                                  "denied_total 2", "bad_hellos_total 3", "operations_total 1310",
                                  "launches_total 2312", "refused_total 3314",
                                  "bytes_in_total 4316", "bytes_out_total 5318"));
  EXPECT_THAT(types, ElementsAre("gauge", "gauge", "gauge", "gauge", "gauge", "counter", "counter",
                                 "counter", "counter", "counter", "counter", "counter", "counter"));
}

// ---- messages between the processes of a server ----

TEST(ServerMessages, ArriveWholeOrNotAtAll) {
  auto pair = message_pair().value();
  Received<GiveMessage> got;
  EXPECT_EQ(receive_message(pair.second.get(), got), Arrival::none);
  const std::array<int, 2> beside{pair.first.get(), pair.second.get()};
  ASSERT_TRUE(send_message(pair.first.get(), GiveMessage{.session = 7, .request = 8}, beside));
  ASSERT_EQ(receive_message(pair.second.get(), got, true), Arrival::came);
  EXPECT_EQ(got.message.session, 7u);
  EXPECT_EQ(got.message.request, 8u);
  ASSERT_EQ(got.descriptors.size(), 2u);
  EXPECT_NE(got.descriptors[0].get(), pair.first.get());
  ASSERT_TRUE(send_message(pair.first.get(), GiveMessage{.session = 9}));
  ASSERT_EQ(receive_message(pair.second.get(), got), Arrival::came);
  EXPECT_EQ(got.descriptors.size(), 0u) << "those of the last message";
  // What is no such message is as good as none.
  ASSERT_TRUE(send_message(pair.first.get(), std::uint32_t{1}));
  EXPECT_EQ(receive_message(pair.second.get(), got), Arrival::gone);
  const std::vector<int> most(kMostPassed, pair.first.get());
  EXPECT_TRUE(send_message(pair.first.get(), GiveMessage{}, most));
  ASSERT_EQ(receive_message(pair.second.get(), got), Arrival::came);
  EXPECT_EQ(got.descriptors.size(), kMostPassed);
  const std::vector<int> many(100, pair.first.get());
  EXPECT_FALSE(send_message(pair.first.get(), GiveMessage{}, many));
  pair.second.close_now();
  EXPECT_FALSE(send_message(pair.first.get(), GiveMessage{}));
  EXPECT_EQ(receive_message(pair.first.get(), got), Arrival::gone);
}

}  // namespace
}  // namespace partita::remote::server
