// What tests of the HTTP door share: a loop, a scripted backend, a door on a free port.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "base/door/testing/test_client.h"
#include "serve/front/front.h"
#include "serve/front/testing/fake_backend.h"

namespace partita::serve::test {

class DoorFixture : public testing::Test {
 protected:
  void open(FrontOptions options = {}) {
    options.listen = "127.0.0.1:0";
    auto opened = Front::open(*loop, backend, options);
    ASSERT_TRUE(opened) << to_string(opened.error());
    front = std::move(*opened);
  }
  RawClient client() { return RawClient(*loop, front->port()); }
  RawClient::Answer ask(const std::string& bytes) {
    RawClient one = client();
    one.send(bytes);
    return one.answer();
  }

  std::unique_ptr<Loop> loop = Loop::make().value();
  FakeBackend backend;
  std::unique_ptr<Front> front;
};

}  // namespace partita::serve::test
