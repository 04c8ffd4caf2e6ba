// The broker's table of shared things without a broker: for sessions that are threads of a test.
#pragma once

#include <unistd.h>

#include <mutex>
#include <utility>

#include "server/shelf.h"

namespace partita::remote::server {

struct SharedTable {
  explicit SharedTable(std::uint64_t most) : things(most) {}
  std::mutex mutex;
  SharedThings things;
};

class TableShelf final : public Shelf {
 public:
  TableShelf(SharedTable& table, SharedThings::Asker who) : table_(table), who_(std::move(who)) {}
  ~TableShelf() override {
    const std::lock_guard lock(table_.mutex);
    table_.things.ended(who_.session);
  }
  Answered<Thing> make(std::uint64_t bytes, bool event) override {
    return took({.kind = ShareRequest::Kind::make, .event = event ? 1U : 0U, .bytes = bytes});
  }
  Answered<Thing> open(const ShareKey& key, bool event) override {
    return took({.kind = ShareRequest::Kind::open, .event = event ? 1U : 0U, .key = key});
  }
  void drop(const ShareKey& key) override {
    const std::lock_guard lock(table_.mutex);
    table_.things.take(who_, {.kind = ShareRequest::Kind::drop, .key = key});
  }

 private:
  Answered<Thing> took(const ShareRequest& request) {
    const std::lock_guard lock(table_.mutex);
    const auto [answer, file] = table_.things.take(who_, request);
    if (file < 0) return refuse(answer.status, "the table says no");
    return Thing{answer.key, answer.bytes, Descriptor(::dup(file)), answer.session};
  }
  SharedTable& table_;
  const SharedThings::Asker who_;
};

}  // namespace partita::remote::server
