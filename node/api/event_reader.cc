#include "api/event_reader.h"

#include <utility>

namespace partita::api {

void EventReader::take_line(std::string_view line, std::vector<StreamEvent>& whole) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty()) {
    if (has_data_) whole.push_back(std::move(next_));
    next_ = {};
    has_data_ = false;
    return;
  }
  const std::size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == line.npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") next_.name = value;
  if (field == "id") next_.id = value;
  if (field != "data") return;
  if (has_data_) next_.data += '\n';
  next_.data += value;
  has_data_ = true;
}

Result<std::vector<StreamEvent>> EventReader::take(std::string_view bytes) {
  std::vector<StreamEvent> whole;
  for (std::size_t end = 0; (end = bytes.find('\n')) != bytes.npos;) {
    rest_ += bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    take_line(rest_, whole);
    rest_.clear();
  }
  rest_ += bytes;
  if (rest_.size() + next_.data.size() > kMaxEventBytes)
    return failed({ErrorCode::limit, "an event of the stream is too long", ""});
  return whole;
}

}  // namespace partita::api
