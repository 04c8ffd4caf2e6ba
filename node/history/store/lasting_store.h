// LastingStore: the history of a program that goes on whatever becomes of its file. A damaged one
// is set aside (history.db.damaged-N, with what belongs to it), a new one is begun; one that cannot
// be opened now, for want of rights or room or because a later Partita wrote it, is tried again
// every minute, and until then nothing is kept. Thread rule: as Store's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "history/store/store.h"

namespace partita::history {

inline constexpr std::int64_t kReopenMs = 60'000;

class LastingStore {
 public:
  // `files` moves what is damaged; `tell` hears a sentence whenever something becomes of the file.
  LastingStore(Files& files, std::string path, std::function<void(const std::string&)> tell)
      : files_(files), path_(std::move(path)), tell_(std::move(tell)) {}

  // Opens the file, and again where that failed a minute ago or more.
  void open(std::int64_t now_ms);
  // The same as Store's, on what there is; an error while there is nothing.
  Result<void> append(const Event& event);
  Result<void> measure(const std::vector<Measured>& values);
  Result<void> tidy(std::int64_t now_ms);
  long last_change();  // 0: nothing is known

 private:
  template <class Act>
  Result<void> with(std::int64_t now_ms, Act act);
  Result<Store> opened();
  bool set_aside(const Error& why);

  Files& files_;
  const std::string path_;
  const std::function<void(const std::string&)> tell_;
  std::optional<Store> store_;
  Error closed_;  // why there is none
  std::int64_t tried_ms_ = 0;
};

}  // namespace partita::history
