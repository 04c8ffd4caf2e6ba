// Calls of NVIDIA's functions that the server carries out with its own libraries: their arguments
// as server/library_calls.h has them on the wire, from the types that the program passes.
#pragma once

#include <concepts>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "library.h"

namespace partita::remote::shim {

// Beside plain numbers and addresses of the device:
struct Answer {  // where the program wants an int or a size_t
  void* to;
  std::size_t bytes;
};
inline Answer answer(int* to) { return {to, sizeof(int)}; }
inline Answer answer(std::size_t* to) { return {to, sizeof(std::size_t)}; }
struct Factor {  // a number in the program's memory
  const void* at;
  std::size_t size = sizeof(float);
};
struct ServersOwn {};  // the library's settings, work areas of the host: nothing travels

class Arguments {
 public:
  template <std::integral T>
  void add(T number) {
    if constexpr (sizeof(T) <= sizeof(int))
      put(static_cast<int>(number));
    else
      put(static_cast<std::int64_t>(number));
  }
  void add(double number) { put(number); }
  void add(const void* device) { put(number_of(device)); }
  void add(Factor factor) {
    constexpr std::byte kRest[16] = {};
    bytes(factor.at, factor.size);
    bytes(kRest, sizeof(kRest) - factor.size);
  }
  void add(ServersOwn) {}
  void add(Answer wanted) { answers_.push_back(wanted); }
  template <class T>
  requires requires(const T& value, Arguments& into) { value.put_into(into); }
  void add(const T& value) { value.put_into(*this); }

  template <class T>
  void put(T value) {
    bytes(&value, sizeof(T));
  }
  void bytes(const void* from, std::size_t count) {
    const auto* const begin = static_cast<const std::byte*>(from);
    all_.insert(all_.end(), begin, begin + count);
  }
  Bytes all() const { return all_; }
  bool wants_answers() const { return !answers_.empty(); }
  // Whether the results were as long as the answers that are wanted.
  bool take(Bytes results) const {
    for (const Answer& wanted : answers_) {
      if (results.size() < wanted.bytes) return false;
      if (wanted.to != nullptr) std::memcpy(wanted.to, results.data(), wanted.bytes);
      results = results.subspan(wanted.bytes);
    }
    return results.empty();
  }

 private:
  std::vector<std::byte> all_;
  std::vector<Answer> answers_;
};

// What the server answered to a question that depends on its arguments alone: how large a work area
// must be, where a layer's weights lie. Any thread.
class KnownSizes {
 public:
  static bool is_such(std::string_view function) {
    return function.find("Size") != function.npos || function.find("WeightParams") != function.npos;
  }
  const std::vector<std::byte>* find(std::string_view function, Bytes arguments) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(key(function, arguments));
    return found == known_.end() ? nullptr : &found->second;
  }
  void add(std::string_view function, Bytes arguments, const std::vector<std::byte>& answer) {
    constexpr std::size_t kMost = 4096;
    const std::lock_guard lock(mutex_);
    if (known_.size() < kMost) known_.emplace(key(function, arguments), answer);
  }

 private:
  static std::string key(std::string_view function, Bytes arguments) {
    std::string text(function);
    return text.append(1, 0).append(reinterpret_cast<const char*>(arguments.data()),
                                    arguments.size());
  }
  std::mutex mutex_;
  std::map<std::string, std::vector<std::byte>> known_;
};

// The function on the stream. Waits where the program wants an answer; else what the library says
// is known later, as of any operation of a stream.
template <class... Given>
int forwarded(const Codes& codes, const char* function, void* stream, const Given&... given) {
  return codes.answered([&]() -> int {
    if (!session().libraries.may_be()) return codes.refused(function);
    Arguments arguments;
    (arguments.add(given), ...);
    if (!arguments.wants_answers())
      return codes.of(session().libraries.call(number_of(stream), function, arguments.all()));
    static KnownSizes sizes;
    const bool kept = KnownSizes::is_such(function);
    if (kept)
      if (const auto* known = sizes.find(function, arguments.all()); known != nullptr)
        return arguments.take(*known) ? 0 : codes.failed;
    const auto answer = session().libraries.ask(
        kept ? client::Libraries::kNowhere : number_of(stream), function, arguments.all());
    if (!answer)
      return answer.error() == client::kNotSupported ? codes.refused(function)
                                                     : codes.of(answer.error());
    if (answer->status != 0) return answer->status;
    if (kept) sizes.add(function, arguments.all(), answer->results);
    return arguments.take(answer->results) ? 0 : codes.failed;
  });
}

}  // namespace partita::remote::shim
