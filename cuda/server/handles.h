// Handles: a session's objects of one kind, by the numbers that the client gave them.
#pragma once

#include <fmt/format.h>

#include <unordered_map>

#include "server/errors.h"

namespace partita::remote::server {

template <class T>
class Handles {
 public:
  // `kind`: what people call one. More than `most` are refused.
  Handles(std::string_view kind, std::size_t most) : kind_(kind), most_(most) {}

  // nullptr where there is none.
  T* find(std::uint64_t handle) {
    const auto found = all_.find(handle);
    return found == all_.end() ? nullptr : &found->second;
  }
  const T* find(std::uint64_t handle) const {
    const auto found = all_.find(handle);
    return found == all_.end() ? nullptr : &found->second;
  }
  tl::unexpected<Refused> missing(std::uint64_t handle) const {
    return refuse(kInvalidHandle, fmt::format("there is no {} {}", kind_, handle));
  }
  // Whether one more may have this handle.
  Answered<void> room(std::uint64_t handle) const {
    if (handle == 0 || all_.contains(handle))
      return refuse(kInvalidHandle, fmt::format("{} {} is there already", kind_, handle));
    if (all_.size() >= most_)
      return refuse(kOutOfMemory, fmt::format("{} {}s are the limit", most_, kind_));
    return {};
  }
  void add(std::uint64_t handle, T object) { all_.emplace(handle, std::move(object)); }
  void erase(std::uint64_t handle) { all_.erase(handle); }
  std::unordered_map<std::uint64_t, T>& all() { return all_; }
  const std::unordered_map<std::uint64_t, T>& all() const { return all_; }

 private:
  std::string_view kind_;
  std::size_t most_;
  std::unordered_map<std::uint64_t, T> all_ = {};
};

}  // namespace partita::remote::server
