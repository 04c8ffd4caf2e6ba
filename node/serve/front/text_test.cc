// Tensors of text (BYTES) through the HTTP door, in every form in which they may come and go.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "serve/front/testing/door_fixture.h"
#include "serve/wire/texts.h"

namespace partita::serve {
namespace {

using nlohmann::json;

// "shout": two words of up to 16 bytes together, and a number; gives the words in capitals.
ModelSpec shout_model() {
  return {.name = "shout",
          .platform = "null",
          .inputs = {{.name = "w", .type = DataType::bytes, .shape = {2}, .text_bytes = 16},
                     {.name = "k", .type = DataType::int32, .shape = {1}}},
          .outputs = {{.name = "W", .type = DataType::bytes, .shape = {2}, .text_bytes = 16},
                      {.name = "k", .type = DataType::int32, .shape = {1}}},
          .max_batch = 8};
}

std::string binary(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts)
    bytes += std::string{static_cast<char>(text.size()), '\0', '\0', '\0'} + text;
  return bytes;
}

class TextDoor : public test::DoorFixture {
 protected:
  TextDoor() {
    backend.add(shout_model());
    backend.add(test::pair_model());
    backend.compute = [this](RequestId id) { shout(id); };
  }
  void shout(RequestId id) {
    const ModelSpec model = shout_model();
    for (int item = 0; item < backend.requests.at(id).items; ++item) {
      const auto in = used_part(model.inputs[0], backend.input(id, item, 0));
      ASSERT_TRUE(in);
      const std::span<char> row = backend.output_place(id, item, 0);
      TextRows into(model.outputs[0], {&row, 1});
      each_text(*in, [&](std::string_view text) {
        std::string loud(text);
        for (char& c : loud)
          if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
        EXPECT_EQ(into.put(loud), "");
      });
      EXPECT_TRUE(into.full());
      std::ranges::copy(backend.input(id, item, 1), backend.output_place(id, item, 1).data());
    }
  }
  // An inference with the JSON that has these members beside, and bytes behind it.
  test::RawClient::Answer infer(const std::string& members, const std::string& behind = "",
                                const std::string& model = "shout") {
    const std::string text = "{" + members + "}";
    return ask("POST /v2/models/" + model + "/infer HTTP/1.1\r\nInference-Header-Content-Length: " +
               std::to_string(text.size()) + "\r\nContent-Length: " +
               std::to_string(text.size() + behind.size()) + "\r\n\r\n" + text + behind);
  }
  static std::string input(const std::string& rest, int rows = 2) {
    return R"("inputs":[{"name":"w","datatype":"BYTES","shape":[)" + std::to_string(rows) + ",2]," +
           rest + R"(},{"name":"k","datatype":"INT32","shape":[)" + std::to_string(rows) +
           R"(,1],"data":[)" + (rows == 2 ? "7,8" : "7") + "]}]";
  }
  std::string fault(const std::string& members, const std::string& behind = "",
                    const std::string& model = "shout") {
    const auto answer = infer(members, behind, model);
    EXPECT_EQ(answer.status, 400);
    EXPECT_TRUE(backend.requests.empty());
    return json::parse(answer.body)["error"];
  }
};

const std::vector<std::string> kLoud = {"A\"B", "", "\xC3\xA4", "LONGER"};

TEST_F(TextDoor, AsJsonFlatOrNestedAndBack) {
  open();
  for (const std::string data :
       {R"("data":["a\"b","","\u00e4","longer"])", R"("data":[["a\"b",""],["\u00e4","longer"]])"}) {
    const auto answer = infer(input(data));
    ASSERT_EQ(answer.status, 200) << answer.body;
    const json outputs = json::parse(answer.body)["outputs"];
    EXPECT_EQ(outputs[0]["datatype"], "BYTES");
    EXPECT_EQ(outputs[0]["shape"], (json{2, 2}));
    EXPECT_EQ(outputs[0]["data"], json(kLoud));
    EXPECT_EQ(outputs[1]["data"], (json{7, 8}));
  }
  EXPECT_NE(ask("GET /v2/models/shout HTTP/1.1\r\n\r\n").body.find(R"("datatype":"BYTES")"),
            std::string::npos);
}

TEST_F(TextDoor, AsBytesWithALengthBeforeEachElement) {
  open();
  const std::string bytes = binary({"a\"b", "", "\xC3\xA4", "longer"});
  const auto answer =
      infer(input(R"("parameters":{"binary_data_size":)" + std::to_string(bytes.size()) + "}") +
                R"(,"outputs":[{"name":"W","parameters":{"binary_data":true}}])",
            bytes);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::size_t head = std::stoul(answer.header("Inference-Header-Content-Length"));
  const json outputs = json::parse(answer.body.substr(0, head))["outputs"];
  const std::string loud = binary(kLoud);
  EXPECT_EQ(outputs[0]["parameters"]["binary_data_size"], loud.size());
  EXPECT_EQ(answer.body.substr(head), loud);
  // What JSON cannot hold.
  const auto odd =
      infer(input(R"("parameters":{"binary_data_size":10})", 1), binary({"\xFF", "!"}));
  ASSERT_EQ(odd.status, 200) << odd.body;
  EXPECT_EQ(json::parse(odd.body)["outputs"][0]["data"], (json{"\uFFFD", "!"}));
}

TEST_F(TextDoor, InSharedMemory) {
  open();
  const std::string name = "/partita-text-" + std::to_string(::getpid());
  const int fd = ::shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  const std::string bytes = binary({"one", "two", "three", ""});
  ASSERT_EQ(::ftruncate(fd, 4096), 0);
  ASSERT_EQ(::pwrite(fd, bytes.data(), bytes.size(), 64), static_cast<ssize_t>(bytes.size()));
  const std::string place = R"({"key":")" + name + R"(","offset":0,"byte_size":4096})";
  ASSERT_EQ(ask("POST /v2/systemsharedmemory/region/r/register HTTP/1.1\r\nContent-Length: " +
                std::to_string(place.size()) + "\r\n\r\n" + place)
                .status,
            200);
  const auto wish = [&](std::size_t room) {
    return input(R"("parameters":{"shared_memory_region":"r","shared_memory_offset":64,)"
                 R"("shared_memory_byte_size":)" +
                 std::to_string(bytes.size()) + "}") +
           R"(,"outputs":[{"name":"W","parameters":{"shared_memory_region":"r",)"
           R"("shared_memory_offset":1024,"shared_memory_byte_size":)" +
           std::to_string(room) + "}}]";
  };
  const auto answer = infer(wish(bytes.size()));
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json::parse(answer.body)["outputs"][0]["parameters"]["shared_memory_byte_size"],
            bytes.size());
  std::string loud(bytes.size(), '\0');
  ASSERT_EQ(::pread(fd, loud.data(), loud.size(), 1024), static_cast<ssize_t>(loud.size()));
  EXPECT_EQ(loud, binary({"ONE", "TWO", "THREE", ""}));
  EXPECT_EQ(fault(wish(bytes.size() - 1)), "a shared place of 26 bytes for 27");
  ::close(fd);
  ::shm_unlink(name.c_str());
}

TEST_F(TextDoor, WhatDoesNotFitHasItsSentence) {
  open();
  const auto size = [](std::size_t bytes) {
    return R"("parameters":{"binary_data_size":)" + std::to_string(bytes) + "}";
  };
  EXPECT_EQ(fault(input(R"("data":["12345678","123456789"])", 1)),
            "input 'w', data: byte 23: a row with more than 16 bytes of text (--text-bytes of the "
            "worker)");
  EXPECT_EQ(fault(input(R"("data":["a","b","c"])", 1)),
            "input 'w', data: byte 12: more values than the shape has");
  EXPECT_EQ(fault(input(R"("data":["a"])", 1)),
            "input 'w', data: byte 5: fewer values than the shape has");
  EXPECT_EQ(fault(input(R"("data":["a",2])", 1)),
            "input 'w', data: byte 5: a value of type BYTES is wanted");
  EXPECT_EQ(fault(input(size(7), 1), "1234567"),
            "input 'w': 7 bytes where 8 to 24 are wanted for shape [1,2]");
  EXPECT_EQ(fault(input(size(25), 1), std::string(25, '\0')),
            "input 'w': 25 bytes where 8 to 24 are wanted for shape [1,2]");
  EXPECT_EQ(fault(input(size(12), 1), binary({"1", "2"}) + "xx"),
            "input 'w': an element that is longer than what is left");
  EXPECT_EQ(fault(input(size(12), 1), binary({"", "", ""})),
            "input 'w': more values than the shape has");
  // All the text of two rows in the first.
  EXPECT_NE(fault(input(size(33)), binary({std::string(17, 'x'), "", "", ""})).find("16 bytes"),
            std::string::npos);
  // A model that has no such input, and one that has.
  EXPECT_EQ(fault(R"("inputs":[{"name":"x","datatype":"BYTES","shape":[1,4],)"
                  R"("data":["a","b","c","d"]}])",
                  "", "pair"),
            "input 'x': datatype BYTES where FP32 is wanted");
  EXPECT_EQ(fault(R"("inputs":[{"name":"w","datatype":"FP32","shape":[1,2],"data":[1,2]}])"),
            "input 'w': datatype FP32 where BYTES is wanted");
  EXPECT_EQ(backend.submissions, 0);
}

TEST_F(TextDoor, AWorkerThatWritesNoTextIsNotBelieved) {
  backend.compute = [this](RequestId id) {
    std::ranges::fill(backend.output_place(id, 0, 0), '\xFF');
  };
  open();
  const auto answer = infer(input(R"("data":["a","b"])", 1));
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(json::parse(answer.body)["error"], "W: the worker gave no valid text, or sizes");
  EXPECT_TRUE(backend.requests.empty());
}

}  // namespace
}  // namespace partita::serve
