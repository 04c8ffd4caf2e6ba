// Blocking round trips of published programs: the promise of the completion classes, counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "base/source_text.h"
#include "tests/remote/call_shape.h"
#include "tests/remote/timed_server.h"

namespace partita::remote::shapes {
namespace {

std::map<std::string, CallShape> published() {
  const auto shapes = parse_shapes(source_text("data/published/gpuless/calls.csv"),
                                   source_text("data/published/gpuless/times.csv"));
  EXPECT_TRUE(shapes) << shapes.error().message;
  std::map<std::string, CallShape> by_name;
  for (const CallShape& shape : *shapes) by_name[shape.program] = shape;
  return by_name;
}

TEST(Shapes, AllThatWasPublishedIsRead) {
  const auto shapes = published();
  EXPECT_EQ(shapes.size(), 15u);
  const CallShape& yolop = shapes.at("yolop");
  EXPECT_EQ(yolop.launches, 762u);
  EXPECT_EQ(yolop.copies_out, 247u);
  EXPECT_EQ(yolop.bytes_in, 339'930'000u);
  EXPECT_DOUBLE_EQ(yolop.hot_ms, 29.76);
  for (const auto& [name, shape] : shapes) EXPECT_GE(shape.launches, shape.kernels) << name;
  EXPECT_FALSE(parse_shapes("program,launches\nx,y\n", "program\n"));
  EXPECT_FALSE(parse_shapes("program,launches\nx\n", "program\n"));
}

// A session with a server of its own.
struct Played {
  Played(const std::string& way, const CallShape& shape, double scale) {
    const std::string path =
        (std::filesystem::temp_directory_path() / ("partita-shape-" + std::to_string(::getpid())))
            .string();
    auto started = TimedServer::start(way + path);
    EXPECT_TRUE(started) << started.error().message;
    server = std::move(*started);
    ::setenv("PARTITA_REMOTE", server->address().c_str(), 1);
    session = std::make_unique<client::Session>();
    player.emplace(*session, shape, scale);
  }
  ~Played() { session->leave(); }
  std::unique_ptr<TimedServer> server;
  std::unique_ptr<client::Session> session;
  std::optional<ShapePlayer> player;
};

TEST(Shapes, ColdRunsWaitForTheirResultsAndForLittleElse) {
  const auto shapes = published();
  // The targets; GPUless waits 43, 398, 119 and 75 times.
  const std::map<std::string, std::uint64_t> most{
      {"resnet50", 7}, {"yolop", 252}, {"midas", 6}, {"bert-squad", 8}};
  for (const auto& [name, limit] : most) {
    Played played("unix:", shapes.at(name), 1e-3);
    ASSERT_EQ(played.player->cold(), client::kOk) << name;
    const std::uint64_t trips = round_trips(*played.session);
    EXPECT_LE(trips, limit) << name;
    EXPECT_GE(trips, shapes.at(name).copies_out + 1) << name;  // hello, and every result
    RecordProperty(name, static_cast<int>(trips));
    EXPECT_EQ(played.session->stats().kernels.load(), shapes.at(name).launches);
  }
}

TEST(Shapes, HotRunsTakeAtLeastTheTimeOfTheirKernels) {
  const CallShape shape = published().at("resnet50");
  Played played("unix:", shape, 1e-3);
  ASSERT_EQ(played.player->cold(), client::kOk);
  const std::uint64_t before = round_trips(*played.session);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(played.player->hot(std::chrono::milliseconds(20)), client::kOk);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(20));
  EXPECT_LE(round_trips(*played.session) - before, shape.copies_out + 1);
}

}  // namespace
}  // namespace partita::remote::shapes
