#include "base/oidc/oidc.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/fields.h"
#include "base/files.h"
#include "base/http/http_stream.h"
#include "base/input.h"
#include "base/quiet_thread.h"
#include "base/secret_file.h"

namespace partita {
namespace {

using std::chrono::seconds;
using Moment = std::chrono::steady_clock::time_point;

constexpr seconds kRefresh{300}, kAgain{10}, kFirst{3};
constexpr std::int64_t kPatienceNs = 3'000'000'000;

bool is_url(std::string_view text) {
  return text.starts_with("https://") || text.starts_with("http://");
}

Result<std::string> fetched(const OidcSettings& settings) {
  const Url url = TRY(parse_url("jwks", settings.jwks));
  const auto dialer = TRY(serve::HttpDialer::to(url, {.ca_file = settings.ca}));
  RealClock clock;
  const auto answer =
      TRY(serve::fetch(dialer, dialer.request("GET", "", "Accept: application/json\r\n"), clock,
                       kPatienceNs, kMostJwksBytes));
  if (answer.status != 200)
    return environment_error(settings.jwks, fmt::format("answers {}", answer.status));
  return answer.body;
}

Result<Jwks> keys_of(const OidcSettings& settings) {
  if (!is_url(settings.jwks)) TRY(check_trusted_file(settings.jwks));
  const std::string text =
      TRY(is_url(settings.jwks) ? fetched(settings) : RealFiles().read(settings.jwks));
  return Jwks::parse(settings.jwks, text);
}

}  // namespace

Result<OidcSettings> parse_oidc(const std::string& file, std::string_view text) {
  const auto document = TRY(parse_document(file, text));
  Fields fields(document);
  fields.only({"issuer", "audience", "jwks", "ca", "claim", "roles"});
  OidcSettings settings{
      .wishes = {.issuer = fields.text("issuer"), .audience = fields.text("audience")},
      .jwks = fields.text("jwks")};
  if (fields.has("claim")) settings.wishes.claim = fields.text("claim");
  if (fields.has("ca")) settings.ca = beside(file, fields.text("ca"));
  if (settings.jwks.starts_with("http://127.0.0.1:") || !settings.jwks.starts_with("http://")) {
    if (!is_url(settings.jwks) && !settings.jwks.empty())
      settings.jwks = beside(file, settings.jwks);
  } else {
    fields.refuse("jwks", "'jwks' must be https: who answers in its place signs what they like");
  }
  const Node* const roles = fields.node().find("roles");
  if (!roles || roles->kind != Node::Kind::object || roles->members.empty())
    fields.refuse("roles", "'roles' must say what each role may, as in {operations: \"*\"}");
  if (fields.error()) return failed(*fields.error());
  for (const Node::Member& role : roles->members) {
    if (role.value.kind != Node::Kind::string)
      fields.refuse(role.value, fmt::format("what role '{}' may is a text", role.key));
    settings.roles.emplace_back(role.key, role.value.text);
  }
  if (fields.error()) return failed(*fields.error());
  return settings;
}

struct Oidc::Impl {
  explicit Impl(OidcSettings given) : settings(std::move(given)) {}

  void read() {
    Result<Jwks> got = keys_of(settings);
    const std::lock_guard lock(mutex);
    read_at = std::chrono::steady_clock::now();
    tried = true;
    asked = false;
    fault = got ? "" : to_string(got.error());
    if (got) keys = std::make_shared<const Jwks>(*std::move(got));
    changed.notify_all();
  }

  void run() {
    std::unique_lock lock(mutex);
    while (!ended) {
      const Moment due = read_at + (asked || keys == nullptr ? kAgain : kRefresh);
      if (tried && std::chrono::steady_clock::now() < due) {
        changed.wait_until(lock, due);
        continue;
      }
      lock.unlock();
      read();
      lock.lock();
    }
  }

  const OidcSettings settings;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<const Jwks> keys;
  std::string fault;
  Moment read_at = {};
  bool tried = false, asked = false, ended = false;
  std::thread thread;
};

Oidc::Oidc(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Oidc::~Oidc() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->ended = true;
  }
  impl_->changed.notify_all();
  if (impl_->thread.joinable()) impl_->thread.join();
}

Result<std::shared_ptr<Oidc>> Oidc::open(OidcSettings settings) {
  auto impl = std::make_unique<Impl>(std::move(settings));
  Impl& made = *impl;
  if (!is_url(made.settings.jwks)) {
    made.read();
    if (!made.keys) return bad_input("", made.fault);
  }
  std::shared_ptr<Oidc> oidc(new Oidc(std::move(impl)));
  made.thread = quiet_thread([&made] { made.run(); });
  std::unique_lock lock(made.mutex);
  made.changed.wait_for(lock, kFirst, [&] { return made.tried; });
  return oidc;
}

bool Oidc::is_jwt(std::string_view token) {
  return std::count(token.begin(), token.end(), '.') == 2;
}

tl::expected<Identity, JwtFault> Oidc::identify(std::string_view token, std::int64_t now_s) {
  std::shared_ptr<const Jwks> keys;
  {
    const std::lock_guard lock(impl_->mutex);
    keys = impl_->keys;
  }
  if (!keys) return tl::unexpected(JwtFault{"the provider's keys cannot be read", true});
  auto found = verify_jwt(token, *keys, impl_->settings.wishes, now_s);
  if (!found && found.error().unknown_key) {
    const std::lock_guard lock(impl_->mutex);
    impl_->asked = true;
    impl_->changed.notify_all();
  }
  return found;
}

const OidcSettings& Oidc::settings() const { return impl_->settings; }

std::string Oidc::fault() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->fault;
}

}  // namespace partita
