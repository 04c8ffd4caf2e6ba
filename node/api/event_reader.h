// EventReader: server-sent events out of the bytes of a stream, whatever pieces they come in. Pure;
// bounded by kMaxEventBytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita::api {

inline constexpr std::size_t kMaxEventBytes = 256u << 20;

struct StreamEvent {
  std::string name = "message", id = {}, data = {};
  bool operator==(const StreamEvent&) const = default;
};

class EventReader {
 public:
  // The events that these bytes complete; comments and events without data are none. An event above
  // the limit is an error.
  Result<std::vector<StreamEvent>> take(std::string_view bytes);

 private:
  void take_line(std::string_view line, std::vector<StreamEvent>& whole);

  std::string rest_ = {};  // a line without its end
  StreamEvent next_ = {};
  bool has_data_ = false;
};

}  // namespace partita::api
