#include "history/store/lasting_store.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

namespace partita::history {

bool LastingStore::set_aside(const Error& why) {
  store_.reset();
  const auto aside = partita::set_aside(files_, path_, {"-wal", "-shm"});
  if (tell_)
    tell_(aside ? fmt::format("{} cannot be read ({}): it is now {}, and a new history begins",
                              path_, why.message.substr(0, why.message.find('.')), *aside)
                : fmt::format("{} cannot be read and cannot be moved out of the way ({}): move it "
                              "away; nothing is kept until then",
                              path_, to_string(aside.error())));
  return aside.has_value();
}

Result<Store> LastingStore::opened() {
  auto store = Store::open(path_, Access::write);
  // What counts the changes is the first that is asked of it.
  const auto number = store ? store->last_change() : Result<long>(failed(store.error()));
  if (number) return store;
  return failed(number.error());
}

void LastingStore::open(std::int64_t now_ms) {
  if (store_ || (tried_ms_ != 0 && now_ms < tried_ms_ + kReopenMs)) return;
  const bool again = std::exchange(tried_ms_, now_ms) != 0;
  std::error_code code;
  const bool emptied = std::filesystem::file_size(path_, code) == 0 && !code;
  if (emptied && tell_) tell_(path_ + " is empty: a new history begins");
  auto store = opened();
  if (!store && is_damage(store.error()) && set_aside(store.error())) store = opened();
  if (store) {
    store_ = *std::move(store);
    if (again && tell_) tell_("the history is kept again");
    return;
  }
  if (tell_ && !again)
    tell_(fmt::format("the history is not kept: {}; tried again every minute",
                      to_string(store.error())));
  closed_ = store.error();
}

template <class Act>
Result<void> LastingStore::with(std::int64_t now_ms, Act act) {
  open(now_ms);
  if (!store_) return failed(closed_);
  Result<void> done = act(*store_);
  if (done || !is_damage(done.error())) return done;
  closed_ = done.error();
  if (!set_aside(done.error())) return done;
  tried_ms_ = 0;
  open(now_ms);
  return store_ ? act(*store_) : failed(closed_);
}

Result<void> LastingStore::append(const Event& event) {
  return with(event.time_ms, [&](Store& store) -> Result<void> {
    const auto kept = store.append(event);
    return kept ? Result<void>{} : Result<void>(failed(kept.error()));
  });
}

Result<void> LastingStore::measure(const std::vector<Measured>& values) {
  if (values.empty()) return {};
  return with(values.front().time_ms, [&](Store& store) { return store.measure(values); });
}

Result<void> LastingStore::tidy(std::int64_t now_ms) {
  return with(now_ms, [&](Store& store) { return store.tidy(now_ms); });
}

long LastingStore::last_change() { return store_ ? store_->last_change().value_or(0) : 0; }

}  // namespace partita::history
