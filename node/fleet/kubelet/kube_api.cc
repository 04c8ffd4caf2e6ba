#include "fleet/kubelet/kube_api.h"

#include <fmt/format.h>

#include "base/url.h"

namespace partita::dra {
namespace {

constexpr std::int64_t kPatience = 10'000'000'000;

bool is_local(const Url& url) {
  return url.host == "localhost" || url.host == "::1" || url.host.starts_with("127.");
}

std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find_first_of("\r\n"));
}

}  // namespace

Result<KubeApi> KubeApi::to(const KubeApiSettings& settings, Files& files, Clock& clock) {
  const auto url = parse_url_prefix("--api-server", settings.url);
  if (!url) return failed(url.error());
  if (!url->tls && !settings.token_file.empty() && !is_local(*url))
    return bad_input("--api-server", "a token is not sent over a network in the clear: use https");
  auto dialer = serve::HttpDialer::to(*url, {.ca_file = settings.ca_file});
  if (!dialer) return failed(dialer.error());
  return KubeApi(settings, std::make_shared<const serve::HttpDialer>(*std::move(dialer)), files,
                 clock);
}

Result<std::string> KubeApi::headers() const {
  const std::string head = "Accept: application/json\r\n";
  if (settings_.token_file.empty()) return head;
  const auto token = files_->read(settings_.token_file);
  if (!token) return failed(token.error());
  return head + fmt::format("Authorization: Bearer {}\r\n", first_line(*token));
}

Result<KubeApi::Answer> KubeApi::ask(std::string_view method, const std::string& path,
                                     const std::string& body, std::string_view type) const {
  auto head = headers();
  if (!head) return failed(head.error());
  if (!body.empty()) *head += fmt::format("Content-Type: {}\r\n", type);
  auto answer = serve::fetch(*dialer_, dialer_->request(method, path, *head, body), *clock_,
                             kPatience, kMaxApiAnswer);
  if (!answer) return environment_error(settings_.url, answer.error().message);
  return Answer{answer->status, std::move(answer->body)};
}

Result<int> KubeApi::watch(const std::string& path, const std::string& version, int seconds,
                           const std::function<bool(std::string_view line)>& take) const {
  const auto head = headers();
  if (!head) return failed(head.error());
  std::string begun;
  int answered = 0;
  bool too_long = false;
  const std::int64_t most = seconds * 1'000'000'000LL + kWatchGrace;
  std::int64_t heard = clock_->now_ns();
  const std::int64_t over = heard + most;
  const auto pieces = [&](int status, std::string_view piece) {
    answered = status;
    if (status != 0 && status != 200) return false;
    const std::int64_t now = clock_->now_ns();
    if (!piece.empty()) heard = now;
    if (status == 200 && (now >= over || now - heard >= kMostWatchSilence)) return false;
    begun += piece;
    too_long = begun.size() > kMaxWatchLine;
    if (too_long || !take({})) return false;
    for (std::size_t end; (end = begun.find('\n')) != std::string::npos; begun.erase(0, end + 1))
      if (end > 0 && !take(std::string_view(begun).substr(0, end))) return false;
    return true;
  };
  const std::string request = dialer_->request(
      "GET",
      fmt::format("{}{}watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
                  path, path.find('?') == std::string::npos ? '?' : '&', seconds, version),
      *head);
  const auto done = serve::fetch_pieces(*dialer_, request, *clock_, 2 * most, pieces);
  if (too_long) return environment_error(settings_.url, "an event of 4 MiB and more");
  if (!done) return environment_error(settings_.url, done.error().message);
  return answered;
}

}  // namespace partita::dra
