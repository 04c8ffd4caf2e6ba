// Frames: a RUN and a PART byte by byte, all of them there and back, cut anywhere, out of range.
#include "serve/wire/frames.h"

#include <gtest/gtest.h>

#include <random>

#include "base/test_rounds.h"

namespace partita::serve {
namespace {

using RunFrame = Run;  // a test has a member Run

Hello some_hello() {
  return {.place = "/var/lib/partita/workers:0:1",
          .service = "resnet",
          .model = {.name = "resnet",
                    .platform = "onnxruntime",
                    .inputs = {{.name = "x", .type = DataType::fp32, .shape = {3, 224, 224}}},
                    .outputs = {{.name = "y", .type = DataType::fp16, .shape = {1000}}},
                    .max_batch = 32}};
}

Hello open_hello() {
  Hello hello = some_hello();
  hello.model.inputs = {
      {.name = "x", .shape = {kOpen, 8}, .open_bytes = 4096, .usual = {5, 8}},
      {.name = "state", .shape = {2, 128}, .batch_axis = 1},
      {.name = "sr", .type = DataType::int64, .batch_axis = kNoBatchAxis, .usual_value = 16000}};
  hello.model.sequences = true;
  hello.model.version = "12";
  return hello;
}

std::vector<Frame> all_frames() {
  return {some_hello(),
          Region{.slot_bytes = 8192, .slots = 64},
          Refused{.reason = "no such service"},
          Ready{.curve = {{1, 100}, {8, 500}, {32, 1'700}}},
          RunFrame{.batch = 7, .deadline = 123'456'789'012, .slots = {4, 0, 9}},
          Done{.batch = 7,
               .nanos = 5,
               .status = {ItemStatus::ok, ItemStatus::failed, ItemStatus::cancelled},
               .message = "bad luck",
               .values = 6,
               .padding = 2,
               .set = {.loads = 1, .evictions = 2, .failures = 3, .held = 4, .nanos = 5}},
          Part{.batch = 7, .item = 1, .http_status = 200, .content_type = "text/event-stream"},
          Part{.batch = 7, .item = 1, .sequence = 1, .bytes = std::string("a\0b", 3)},
          Cancel{.batch = 7, .items = {1, 2}},
          Leaving{},
          Drain{},
          Drained{},
          Beat{},
          FetchState{.sequence = 9, .offset = 32'768},
          StatePart{.sequence = 9, .offset = 3, .total = 8, .bytes = std::string("\0\1\2\3\4", 5)},
          StatePart{.sequence = 9},
          ForgetStates{.sequences = {1, UINT64_MAX}},
          open_hello(),
          Joint{.offset = 4096, .bytes = 8192, .writable = true, .slots = {3, 1, 70}},
          Joint{.offset = 0, .bytes = 4096, .own = true, .slots = {9}}};
}

std::string fault_of(std::string_view bytes) {
  const auto frame = decode(bytes);
  return frame ? "" : to_string(frame.error());
}
std::string fault_of(const Frame& frame) { return fault_of(encode(frame)); }

TEST(Frames, AreTheseBytes) {
  const std::string run = encode(RunFrame{.batch = 0x0102, .deadline = 3, .slots = {5, 0x10000}});
  EXPECT_EQ(run, std::string("\5\0\0\0"
                             "\2\1\0\0\0\0\0\0"
                             "\3\0\0\0\0\0\0\0"
                             "\2\0\0\0"
                             "\5\0\0\0"
                             "\0\0\1\0",
                             32));
  EXPECT_EQ(encode(Beat{}), std::string("\14\0\0\0", 4));
  EXPECT_EQ(encode(Done{.batch = 1, .nanos = 2, .status = {ItemStatus::failed}, .message = "no"}),
            std::string("\6\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 20) + std::string(40, '\0') +
                std::string("\1\0\0\0\1\2\0\0\0no", 11));
}

TEST(Frames, ComeBack) {
  for (const Frame& frame : all_frames()) {
    const auto again = decode(encode(frame));
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_TRUE(*again == frame) << frame.index();
  }
  std::string out = "what was there";
  encode_run(std::get<RunFrame>(all_frames()[4]), out);
  EXPECT_EQ(out, encode(all_frames()[4]));
  encode_done(std::get<Done>(all_frames()[5]), out);
  EXPECT_EQ(out, encode(all_frames()[5]));
}

TEST(Frames, OfTheLargestModelFit) {
  Hello hello = some_hello();
  hello.place.assign(4096, 'p');
  hello.service.assign(128, 's');
  for (auto* tensors : {&hello.model.inputs, &hello.model.outputs}) {
    tensors->clear();
    for (int i = 0; i < kMaxTensors; ++i) {
      tensors->push_back({.name = std::string(126, 'n') + std::to_string(10 + i),
                          .shape = std::vector<std::int64_t>(kMaxDimensions, 1)});
    }
  }
  const auto again = decode(encode(hello));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_TRUE(std::get<Hello>(*again) == hello);
  RunFrame run{.batch = 1, .slots = std::vector<std::uint32_t>(kMaxLinkBatch, 3)};
  EXPECT_EQ(fault_of(Frame(run)), "");
}

TEST(Frames, CutOrTooLongAreRefused) {
  for (const Frame& frame : all_frames()) {
    const std::string bytes = encode(frame);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode(std::string_view(bytes).substr(0, size))) << frame.index() << " " << size;
    }
    EXPECT_FALSE(decode(bytes + '\0')) << frame.index();
  }
  EXPECT_FALSE(decode(std::string(kMaxFrameBytes + 1, '\0')));
}

TEST(Frames, OutOfRangeAreRefused) {
  EXPECT_EQ(fault_of(std::string("\21\0\0\0", 4)), "frame: no known kind: 17");
  EXPECT_EQ(fault_of(std::string(4, '\0')), "frame: no known kind: 0");
  Hello hello = some_hello();
  hello.version = 1;
  EXPECT_EQ(fault_of(hello), "HELLO frame: version 1 of the link, this program speaks 6");
  hello = some_hello();
  hello.model.max_batch = kMaxLinkBatch + 1;
  EXPECT_NE(fault_of(hello), "");
  hello = some_hello();
  hello.service = "a\nb";
  EXPECT_NE(fault_of(hello), "");
  EXPECT_NE(fault_of(Joint{.offset = 100, .bytes = 4096, .slots = {1}}), "");
  EXPECT_NE(fault_of(Joint{.offset = 0, .bytes = 4095, .slots = {1}}), "");
  EXPECT_NE(fault_of(Joint{.offset = 0, .bytes = 0, .slots = {1}}), "");
  EXPECT_NE(fault_of(Joint{.offset = 0, .bytes = 4096, .slots = {}}), "");
  EXPECT_NE(fault_of(Joint{.offset = 0, .bytes = 4096, .slots = {1, 2, 1}}), "");
  EXPECT_NE(fault_of(Region{.slot_bytes = 100, .slots = 1}), "");
  EXPECT_NE(fault_of(Region{.slot_bytes = 4096, .slots = 0}), "");
  EXPECT_NE(fault_of(Region{.slot_bytes = ~0ULL << 12, .slots = ~0U}), "");
  EXPECT_NE(fault_of(Ready{}), "");
  EXPECT_NE(fault_of(Ready{.curve = {{2, 1}, {2, 1}}}), "");
  EXPECT_NE(fault_of(Ready{.curve = {{1, -1}}}), "");
  EXPECT_NE(fault_of(RunFrame{.batch = 1}), "");
  EXPECT_NE(fault_of(RunFrame{.batch = 1, .deadline = -1, .slots = {1}}), "");
  EXPECT_NE(fault_of(Done{.batch = 1, .status = {static_cast<ItemStatus>(3)}}), "");
  EXPECT_NE(fault_of(Part{.batch = 1, .sequence = 1, .http_status = 200}), "");
  EXPECT_NE(fault_of(Part{.batch = 1, .http_status = 0}), "");
  EXPECT_NE(fault_of(Part{.batch = 1, .http_status = 200, .content_type = "a\r\nb: c"}), "");
  EXPECT_NE(fault_of(Cancel{.batch = 1, .items = {kMaxLinkBatch}}), "");
  EXPECT_NE(fault_of(FetchState{.offset = kMaxItemBytes + 1}), "");
  EXPECT_NE(fault_of(StatePart{.total = kMaxItemBytes + 1}), "");
  EXPECT_NE(fault_of(StatePart{.offset = 2, .total = 1}), "");
  EXPECT_NE(fault_of(StatePart{.offset = 1, .total = 2, .bytes = "ab"}), "");
  EXPECT_NE(fault_of(ForgetStates{}), "");
}

TEST(Frames, DamagedEitherRefusedOrTheSameBytesAgain) {
  std::mt19937 random(5);
  for (const Frame& frame : all_frames()) {
    const std::string bytes = encode(frame);
    for (int round = 0; round < test_rounds(2000); ++round) {
      std::string damaged = bytes;
      for (auto flips = 1 + (random() % 3); flips > 0; --flips) {
        damaged[random() % damaged.size()] = static_cast<char>(random());
      }
      const auto decoded = decode(damaged);
      if (decoded) {
        EXPECT_EQ(encode(*decoded), damaged);
      }
    }
  }
}

}  // namespace
}  // namespace partita::serve
