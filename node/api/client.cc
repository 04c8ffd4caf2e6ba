#include "api/client.h"

#include <algorithm>
#include <utility>

#include "api/documents.h"
#include "base/error_code.h"
#include "base/http/http_stream.h"
#include "base/url.h"

namespace partita::api {

namespace {

constexpr std::uint64_t kMaxAnswer = 256u << 20;
constexpr std::string_view kUnix = "unix:";
constexpr std::int64_t kLeastWaitNs = 500'000'000, kMostWaitNs = 15'000'000'000;
constexpr std::int64_t kSilenceNs = 45'000'000'000;  // the stream says something every 15 s

std::string media_type_of(const Operation& call) {
  const bool named = call.request.find('/') != std::string_view::npos;
  return named ? std::string(call.request) : "application/json";
}

// What a status means where the server's own word is none of ours.
ErrorCode code_of(int status) {
  if (status == 400) return ErrorCode::bad_input;
  if (status == 401 || status == 403) return ErrorCode::denied;
  if (status == 404) return ErrorCode::not_found;
  return status == 409 ? ErrorCode::infeasible : ErrorCode::environment;
}

Error refused(int status, const std::string& body) {
  const auto said = parse_api_error("the server's answer", body);
  if (!said)
    return {ErrorCode::environment, "the server answered with status " + std::to_string(status),
            ""};
  return {parse_error_code(said->code).value_or(code_of(status)), said->message, said->where};
}

// What came of one connection of a stream.
struct Streamed {
  int status = 0;
  std::string refusal = {};
  std::optional<Error> fault = {};
  bool enough = false;
};

}  // namespace

Result<ServerPlace> parse_server_place(const std::string& context, std::string_view text) {
  if (text.starts_with(kUnix)) {
    ServerPlace place{.socket = std::string(text.substr(kUnix.size()))};
    if (place.socket.empty() || place.socket.front() != '/')
      return bad_input(context, "unix: is followed by a path that begins with /");
    return place;
  }
  const auto url = parse_url_prefix(context, text);
  if (!url)
    return bad_input(context, "unix:/PATH, http://HOST:PORT or https://HOST:PORT is wanted");
  return ServerPlace{.url = std::string(text)};
}

struct Client::Impl {
  serve::HttpDialer dialer;
  ClientOptions options;
  std::string name;  // for messages
  Clock& clock;

  std::string request(const Operation& call, std::string_view path, std::string headers,
                      std::string_view body) const {
    if (!options.token.empty()) headers += "Authorization: Bearer " + options.token + "\r\n";
    return dialer.request(to_string(call.verb), path, headers, body);
  }
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::Client(Client&&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::to(const ServerPlace& place, ClientOptions options, Clock& clock) {
  const std::string name = place.socket.empty() ? place.url : std::string(kUnix) + place.socket;
  const bool plain = options.token.find_first_not_of(
                         "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                         "!#$%&'*+-./:;=?@^_`|~()<>[]{},") == std::string::npos;
  if (!plain) return bad_input("token", "a token is one word of visible ASCII characters");
  if (!place.socket.empty()) {
    auto dialer = TRY(serve::HttpDialer::to_socket(place.socket));
    return Client(
        std::unique_ptr<Impl>(new Impl{std::move(dialer), std::move(options), name, clock}));
  }
  const auto url = TRY(parse_url_prefix("--server", place.url));
  if (!url.tls && !options.token.empty() && url.host != "localhost" && url.host != "::1" &&
      !url.host.starts_with("127."))
    return bad_input(name, "a token is not sent over a network in the clear: use https://");
  auto dialer = TRY(serve::HttpDialer::to(
      url, {.ca_file = options.ca_file, .certificate = options.certificate, .key = options.key}));
  return Client(
      std::unique_ptr<Impl>(new Impl{std::move(dialer), std::move(options), name, clock}));
}

Result<std::string> Client::call(std::string_view name, const std::string& part,
                                 const std::string& body, const std::string& query) const {
  const Operation& call = operation(name);
  std::string path(call.path);
  if (const std::size_t open = path.find('{'); open != std::string::npos)
    path.replace(open, path.find('}') + 1 - open, percent_encoded(part));
  if (!query.empty()) path += "?" + query;
  const std::string type =
      call.verb == Verb::get ? "" : "Content-Type: " + media_type_of(call) + "\r\n";
  const std::string request = impl_->request(call, path, type, body);
  const auto answer =
      serve::fetch(impl_->dialer, request, impl_->clock, impl_->options.patience_ns, kMaxAnswer);
  if (!answer) return failed({answer.error().code, answer.error().message, impl_->name});
  if (answer->status >= 200 && answer->status < 300) return answer->body;
  return failed(refused(answer->status, answer->body));
}

Result<void> Client::follow(const Following& following) const {
  const Operation& call = operation("events");
  std::string last;
  std::int64_t wait = kLeastWaitNs;
  for (bool known = false;;) {
    EventReader reader;
    Streamed now;
    const auto take = [&](int status, std::string_view piece) {
      now.status = status;
      if (status != 200) now.refusal += piece;
      if (status == 200 && !piece.empty()) {
        const auto events = reader.take(piece);
        if (!events) now.fault = events.error();
        for (std::size_t i = 0; events && i < events->size() && !now.enough; ++i) {
          known = true;
          wait = kLeastWaitNs;
          if (!(*events)[i].id.empty()) last = (*events)[i].id;
          now.enough = !following.take((*events)[i]);
        }
      }
      now.enough = now.enough || following.stopped(0);
      return !now.enough && !now.fault && now.refusal.size() < serve::kMaxFetched;
    };
    const auto done = serve::fetch_pieces(
        impl_->dialer,
        impl_->request(call, call.path,
                       "Accept: text/event-stream\r\n" +
                           (last.empty() ? "" : "Last-Event-ID: " + last + "\r\n"),
                       {}),
        impl_->clock, kSilenceNs, take);
    if (now.enough) return {};
    if (now.fault) return failed(*now.fault);
    const bool no = now.status >= 300;
    const bool busy = now.status == 429 || now.status == 500 || now.status == 503;
    Error why{ErrorCode::environment, done ? "the stream has ended" : done.error().message,
              impl_->name};
    if (no) why = refused(now.status, now.refusal);
    if (!known || (no && !busy)) return failed(why);
    following.lost(why, wait);
    if (following.stopped(wait)) return {};
    wait = std::min(wait * 2, kMostWaitNs);
  }
}

}  // namespace partita::api
