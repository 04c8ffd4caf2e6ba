#include "act/http_probes.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "base/http/http_stream.h"

namespace partita::actuate {
namespace {

constexpr std::size_t kStatusEnd = 12;  // of "HTTP/1.1 200"

}  // namespace

Result<Url> parse_probe_url(const std::string& context, std::string_view text) {
  Url url = TRY(parse_url(context, text));
  if (url.host == "localhost") url.host = "127.0.0.1";
  if (url.path.empty()) url.path = "/";
  if (url.tls) return bad_input(context, fmt::format("'{}': probes speak http, not https", text));
  // So that no name is looked up while others wait.
  if (!is_address(url.host)) return bad_input(context, fmt::format("'{}' names no address", text));
  return url;
}

struct RealHttpProbes::Asking {
  using Moved = serve::HttpStream::Moved;
  Result<serve::HttpDialer> dialer;
  serve::HttpStream stream = {};
  std::string request = {}, answer = {};
  bool sent = false;
  std::optional<bool> well = {};

  explicit Asking(const Result<Url>& url)
      : dialer(url ? serve::HttpDialer::to(*url, {}) : failed(url.error())) {
    if (dialer) stream = dialer->dial();
    if (!stream.open()) well = false;
    if (dialer) request = dialer->request("GET", "");
  }

  void go_on() {
    if (!sent && !well) {
      const Moved moved = stream.write(request);
      if (moved.kind == Moved::Kind::blocked) return;
      sent = moved.bytes == request.size();
      if (!sent) well = false;
    }
    std::array<char, 256> room{};
    while (!well) {
      const Moved moved = stream.read(room);
      if (moved.kind == Moved::Kind::blocked) return;
      answer.append(room.data(), moved.bytes);
      if (moved.kind != Moved::Kind::some)
        well = false;
      else if (answer.size() >= kStatusEnd)
        well = answer.starts_with("HTTP/1.") && answer.compare(8, 2, " 2") == 0;
    }
  }
};

RealHttpProbes::RealHttpProbes() = default;
RealHttpProbes::~RealHttpProbes() = default;

long RealHttpProbes::begin(const std::string& url) {
  asked_[next_] = std::make_unique<Asking>(parse_probe_url("", url));
  return next_++;
}

std::vector<ProbeEnd> RealHttpProbes::ended() {
  std::vector<ProbeEnd> ends;
  for (auto it = asked_.begin(); it != asked_.end();) {
    it->second->go_on();
    const std::optional<bool> well = it->second->well;
    if (well) ends.push_back({it->first, *well});
    it = well ? asked_.erase(it) : std::next(it);
  }
  return ends;
}

void RealHttpProbes::abandon(long id) { asked_.erase(id); }

}  // namespace partita::actuate
