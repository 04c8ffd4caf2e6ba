// Functions of NVIDIA's libraries on the wire, and what a session makes of calls of them.
#include "server/library_calls.h"

#include <gmock/gmock.h>

#include "server/testing/session_fixture.h"
#include "server/testing/wire_bytes.h"

namespace partita::remote::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Wire = WireBytes;
std::uint64_t place(std::uint64_t at) { return kFakeArena + at; }

TEST(LibraryFunctions, AreThereForEachTypeOfNumber) {
  for (const char* name : {"cusolverDnSgetrf", "cusolverDnZgetrf", "cusolverDnDorgqr",
                           "cusolverDnCungqr", "cublasZgemm_v2", "cudnnBackendExecute"}) {
    const LibraryFunction* const found = library_function(name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(found->name, name);
  }
  for (const char* name : {"cusolverDn?getrf", "cusolverDnSungqr", "cublasSgemm_v2", "system", ""})
    EXPECT_EQ(library_function(name), nullptr) << name;
}

TEST(LibraryFunctions, ArgumentsAreThoseOfTheFunction) {
  const LibraryFunction& getrf = *library_function("cusolverDnSgetrf");
  const Wire right(3, 4, place(0), 3, place(64), place(128), std::uint64_t{0});
  const auto arguments = arguments_of(getrf, right.bytes);
  ASSERT_TRUE(arguments);
  EXPECT_EQ(arguments->size(), getrf.kinds.size());
  EXPECT_EQ((*arguments)[1].word, 3U);
  EXPECT_THAT(addresses_in(*arguments), ElementsAre(place(0), place(64), place(128)));
  for (std::size_t length = 0; length < right.bytes.size(); ++length)
    EXPECT_FALSE(arguments_of(getrf, std::span(right.bytes).first(length))) << length;
  Wire longer = right;
  longer.add('x');
  EXPECT_FALSE(arguments_of(getrf, longer.bytes));
}

TEST(LibraryFunctions, TensorsOfAGraphAreAddressesOrValues) {
  const LibraryFunction& execute = *library_function("cudnnBackendExecute");
  const Wire wire(std::uint64_t{7}, 2U, std::int64_t{100}, 0U, place(0), std::int64_t{101}, 1U,
                  std::uint64_t{0x3f800000}, place(512));
  const auto arguments = arguments_of(execute, wire.bytes);
  ASSERT_TRUE(arguments);
  const auto tensors = graph_tensors((*arguments)[1].bytes);
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[1].id, 101);
  EXPECT_TRUE(tensors[1].by_value);
  EXPECT_THAT(addresses_in(*arguments), ElementsAre(place(0), place(512)));
  const Wire many(std::uint64_t{7}, 0xffffffffU);
  EXPECT_FALSE(arguments_of(execute, many.bytes));
}

TEST_F(SessionTest, FunctionsOfLibrariesRunInTheirStreamsOrder) {
  start();
  EXPECT_TRUE(client->send(Alloc{{kFakeArena}, 256}));
  const Wire arguments(3, 4, place(0), 3, place(64), place(128), std::uint64_t{0});
  EXPECT_TRUE(client->send(Set{.to = {kFakeArena}, .value = 1, .element = 1, .count = 256}));
  EXPECT_TRUE(client->send(LibraryCall{{}, "cusolverDnSgetrf", arguments.bytes}));
  EXPECT_TRUE(client->send(Set{.to = {place(64)}, .value = 2, .element = 1, .count = 1}));
  const auto out = client->ask(CopyOut{{}, {kFakeArena}, 256});
  ASSERT_TRUE(out.came) << client->said;
  EXPECT_EQ(out.bulk[0], std::byte{0x5a});
  EXPECT_EQ(out.bulk[64], std::byte{2});
  EXPECT_EQ(out.bulk[128], std::byte{0x5a});
  EXPECT_EQ(out.bulk[129], std::byte{1});
}

TEST_F(SessionTest, WhatALibraryAnswersComesBack) {
  start();
  EXPECT_TRUE(client->send(Alloc{{kFakeArena}, 256}));
  const Wire arguments(3, 4, place(0), 3);
  const auto answer = client->ask(LibraryAsk{{}, "cusolverDnSgetrf_bufferSize", arguments.bytes});
  ASSERT_TRUE(answer.came) << client->said;
  EXPECT_EQ(answer.outcome.status, 0);
  EXPECT_EQ(answer.reply.status, 7);
  EXPECT_EQ(answer.reply.results.size(), arguments.bytes.size());
}

TEST_F(SessionTest, CallsOfLibrariesAreChecked) {
  start();
  EXPECT_TRUE(client->send(Alloc{{kFakeArena}, 256}));
  const auto refused = [this](std::string_view function, const Wire& wire, const char* why) {
    EXPECT_TRUE(client->send(LibraryCall{{}, function, wire.bytes}));
    EXPECT_NE(fence(), 0) << function;
    EXPECT_THAT(client->said, HasSubstr(why));
    EXPECT_NE(client->ask(LibraryAsk{{}, function, wire.bytes}).outcome.status, 0);
  };
  refused("cusolverDnSgetrf", Wire(3, 4, place(256), 3, place(0), place(0), place(0)),
          "cusolverDnSgetrf");
  refused("cusolverDnSgetrf", Wire(3), "other arguments");
  refused("dlopen", Wire(), "no function dlopen");
  refused("cudnnBackendExecute",
          Wire(std::uint64_t{1}, 1U, std::int64_t{0}, 0U, place(4096), std::uint64_t{0}),
          "cudnnBackendExecute");
  // One that answers is not for a client that does not wait.
  const Wire size(3, 4, place(0), 3);
  EXPECT_TRUE(client->send(LibraryCall{{}, "cusolverDnSgetrf_bufferSize", size.bytes}));
  EXPECT_NE(fence(), 0);
}

}  // namespace
}  // namespace partita::remote::server
