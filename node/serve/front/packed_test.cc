// Inference requests whose bodies come packed (Content-Encoding): they do what they do unpacked,
// and what is broken or becomes too much is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>

#include "base/door/gzip.h"
#include "base/rng.h"
#include "serve/front/testing/door_fixture.h"

namespace partita::serve {
namespace {

std::string deflated(const std::string& text) {
  uLongf size = ::compressBound(text.size());
  std::string out(size, '\0');
  ::compress(reinterpret_cast<Bytef*>(out.data()), &size,
             reinterpret_cast<const Bytef*>(text.data()), text.size());
  out.resize(size);
  return out;
}

struct Body {
  std::string json, tensors;
};
// Of the model "pair": x FP32 [n,4], k INT32 [n,2].
Body body_of(int rows, bool binary, Rng& rng) {
  Body body;
  const auto input = [&](const char* name, const char* type, int width, auto one) {
    const std::size_t count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
    std::string values;
    for (std::size_t i = 0; i < count; ++i) {
      one = static_cast<decltype(one)>(rng.below(1000));
      if (binary)
        body.tensors.append(reinterpret_cast<const char*>(&one), sizeof one);
      else
        values += (values.empty() ? "" : ",") + std::to_string(one);
    }
    body.json += fmt::format(
        R"({}{{"name":"{}","shape":[{},{}],"datatype":"{}",{}}})", body.json.empty() ? "" : ",",
        name, rows, width, type,
        binary ? fmt::format(R"("parameters":{{"binary_data_size":{}}})", count * sizeof one)
               : "\"data\":[" + values + "]");
  };
  input("x", "FP32", 4, 0.0F);
  input("k", "INT32", 2, 0);
  body.json = R"({"inputs":[)" + body.json + "]}";
  return body;
}

class PackedTest : public test::DoorFixture {
 protected:
  PackedTest() {
    backend.add(test::pair_model());
    backend.compute = [this](RequestId id) { test::compute_pair(backend, id); };
  }
  test::RawClient::Answer post(const std::string& body, const std::string& headers) {
    return ask("POST /v2/models/pair/infer HTTP/1.1\r\n" + headers +
               "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
};

TEST_F(PackedTest, WhatComesPackedIsAnsweredAsUnpacked) {
  open({});
  Rng rng(1);
  for (const int rows : {1, 3, 128})
    for (const bool binary : {false, true}) {
      const Body body = body_of(rows, binary, rng);
      const std::string whole = body.json + body.tensors;
      const std::string length =
          binary ? "Inference-Header-Content-Length: " + std::to_string(body.json.size()) + "\r\n"
                 : "";
      const auto plain = post(whole, length);
      ASSERT_EQ(plain.status, 200) << plain.body;
      for (const auto& [encoding, packed] :
           {std::pair("gzip", gzipped(whole)), std::pair("deflate", deflated(whole))}) {
        const auto answer =
            post(packed, length + "Content-Encoding: " + encoding + std::string("\r\n"));
        EXPECT_EQ(answer.status, 200) << encoding << answer.body;
        EXPECT_EQ(answer.body, plain.body) << encoding << rows << binary;
      }
    }
}

TEST_F(PackedTest, WhatIsBrokenOrBecomesTooMuchIsRefused) {
  FrontOptions options;
  options.limits.json_bytes = 100'000;
  open(options);
  Rng rng(2);
  const std::string headers = "Content-Encoding: gzip\r\n";
  const std::string good = gzipped(body_of(2, false, rng).json);
  EXPECT_EQ(post(good, headers).status, 200);
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_EQ(post(good.substr(0, length), headers).status, 400) << length;
  EXPECT_EQ(post(good + "x", headers).status, 400);
  EXPECT_EQ(post(gzipped(std::string(100'000, ' ')), headers).status, 400) << "as long as may be";
  EXPECT_EQ(post(gzipped(std::string(100'001, ' ')), headers).status, 413);
  EXPECT_EQ(post(gzipped("{}"), headers + "Inference-Header-Content-Length: 3\r\n").status, 400);
  EXPECT_EQ(post(good, headers).status, 200);
}

// Whoever sends little is not worked for long, whatever is allowed.
TEST(Unpacked, LittleThatBecomesMuchIsTooLong) {
  std::size_t most_asked = 0;
  const auto room = [&](std::size_t bytes) {
    most_asked = std::max(most_asked, bytes);
    return true;
  };
  const std::string zeros = gzipped(std::string(kUnpackedAnyway + 1, '\0'));
  ASSERT_LT(kUnpackedTimes * zeros.size(), kUnpackedAnyway);
  EXPECT_EQ(unpacked(zeros, 1u << 30, room).error(), UnpackFault::too_long);
  EXPECT_LE(most_asked, kUnpackedAnyway + 1);
  EXPECT_EQ(unpacked(gzipped(std::string(kUnpackedAnyway, '\0')), 1u << 30, room)->size(),
            kUnpackedAnyway);
  EXPECT_EQ(unpacked(zeros, 1u << 30, [](std::size_t) { return false; }).error(),
            UnpackFault::no_room);
  EXPECT_EQ(*unpacked(gzipped(""), 0, room), "");
}

}  // namespace
}  // namespace partita::serve
