#include "client/session.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "wire/net/channel.h"

namespace partita::remote::client {
namespace {

void prepare_fork() { session().before_fork(); }
void parent_forked() { session().after_fork(false); }
void child_forked() { session().after_fork(true); }
void at_exit() { session().leave(); }

}  // namespace

// Made at the first call, never destroyed: threads of the program may still call when it ends.
Session& session() {
  static Session* const made = new Session();
  return *made;
}

Session::Session() = default;

Status Session::ready() {
  if (is_ready_.load(std::memory_order_acquire) && !left_) return kOk;
  Lock lock(mutex_);
  return connected(lock);
}

// Without the lock: once ready, the link stays until the process ends.
Status Session::failure() {
  return is_ready_.load(std::memory_order_acquire) ? link_->failure() : kOk;
}

Status Session::connected(Lock& lock) {
  if (left_) return kUnloading;
  if (link_ != nullptr) return kOk;
  if (connect_failed_ == kOk) connect_failed_ = connect(lock);
  return connect_failed_;
}

Status Session::connect(Lock& lock) {
  std::string file = settings_.stats_file;
  settings_ = read_settings();
  if (!file.empty()) settings_.stats_file = std::move(file);  // a child has its own
  if (settings_.address.empty()) {
    std::fputs(
        "partita remote: PARTITA_REMOTE names no server; start the program with"
        " `partita remote run -- PROGRAM`\n",
        stderr);
    return kNoDevice;
  }
  auto channel = system_net().connect(settings_.address, settings_.timeout);
  if (!channel) {
    std::fprintf(stderr, "partita remote: no connection to %s: %s\n", settings_.address.c_str(),
                 channel.error().message.c_str());
    return kLost;
  }
  link_ = std::make_unique<Link>(*std::move(channel), settings_.timeout, *this, mutex_);
  link_->count_into(&stats_);
  ++generation_;
  if (const Status status = greet(lock, settings_); status != kOk) {
    link_.reset();
    return status;
  }
  static bool registered = false;
  if (!registered) {
    registered = true;
    ::pthread_atfork(prepare_fork, parent_forked, child_forked);
    std::atexit(at_exit);
  }
  is_ready_.store(true, std::memory_order_release);
  return kOk;
}

Status Session::greet(Lock& lock, const Settings& settings) {
  const Hello hello{.table = protocol_hash(),
                    .token = settings.token,
                    .shape = settings.shape,
                    .program = program_invocation_short_name,
                    .pid = static_cast<std::uint64_t>(::getpid()),
                    .flags = settings.flags};
  const Answer answer = link_->call_held(lock, hello, Cause::session);
  if (answer.status != kOk) {
    std::fprintf(stderr, "partita remote: %s refused the session (error %d)\n",
                 settings.address.c_str(), answer.status);
    return answer.status;
  }
  const auto reply = decode<Hello::Reply>(answer.reply);
  if (!reply || reply->arena.value + reply->arena_bytes < reply->arena.value) {
    std::fputs("partita remote: the server's greeting cannot be read\n", stderr);
    return kLost;
  }
  session_ = reply->session;
  device_ = device_of(*reply);
  arena_.emplace(ArenaShape{.begin = reply->arena.value,
                            .bytes = reply->arena_bytes,
                            .granule = reply->granule,
                            .quota = std::min(reply->quota, reply->arena_bytes)});
  return kOk;
}

// --- what the server says unasked ------------------------------------------------------------

void Session::said(std::uint32_t where, Bytes text) {
  std::FILE* file = where == kToOutput ? stdout : stderr;
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
  if (where == kFault) mark_fault();
}

// At once: who started the program is to know of it however the program ends.
void Session::mark_fault() {
  if (settings_.fault_file.empty()) return;
  if (std::FILE* file = std::fopen(settings_.fault_file.c_str(), "ae"); file != nullptr)
    std::fclose(file);
}

void Session::waiting(std::uint32_t place) {
  std::fprintf(stderr, "partita remote: waiting for a free device, place %u\n", place);
}

void Session::call(Token token) {
  const std::lock_guard lock(notice_mutex_);
  if (callbacks_ != nullptr) callbacks_->run(token.value);
}

std::span<std::byte> Session::place_of(Token token, std::uint64_t bytes) {
  const std::lock_guard lock(notice_mutex_);
  const auto found = deferred_.find(token.value);
  if (found == deferred_.end()) return {};
  const Deferred copy = found->second;
  deferred_.erase(found);
  if (copy.bytes != bytes) return {};
  return {copy.to, copy.bytes};
}

std::uint64_t Session::add_callback(const Callback& callback) {
  const std::uint64_t token = ++next_token_;
  const std::lock_guard lock(notice_mutex_);
  if (callbacks_ == nullptr) {
    callbacks_ = std::make_unique<Callbacks>();
    callbacks_->start([this](std::uint64_t done) {
      const Lock held(mutex_);
      if (link_ == nullptr || left_) return;
      link_->post(held, CallDone{.token = {done}});
      link_->flush(held);
    });
  }
  callbacks_->add(token, callback);
  link_->keep_watching(true);
  return token;
}

// --- fork, reset, the end --------------------------------------------------------------------

// Forgets what the server knew. In the child of a fork nothing of the parent's may be touched.
void Session::clear(bool child) {
  if (child) {
    if (link_ != nullptr) {
      link_->abandon();
      [[maybe_unused]] Link* const leaked = link_.release();
    }
    [[maybe_unused]] Callbacks* const threads = callbacks_.release();
    new (&notice_mutex_) std::mutex;
    new (&refusal_mutex_) std::mutex;
    refused_.clear();  // the parent says it
    managed_.forget();
    is_ready_ = false;
    connect_failed_ = kOk;
    if (!settings_.stats_file.empty()) settings_.stats_file += "." + std::to_string(::getpid());
    stats_.calls = stats_.kernels = 0;
    for (auto& count : stats_.blocking) count = 0;
    arena_.reset();
  }
  ++generation_;
  operations_ = all_finished_ = 0;
  legacy_ = {};
  streams_.clear();
  events_.clear();
  captures_.clear();
  graphs_.clear();
  execs_.clear();
  globals_.clear();
  managed_.clear();
  managed_stream_ = 0;
  program_turn_ = attached_ = device_turn_ = false;
  const std::lock_guard lock(notice_mutex_);
  deferred_.clear();
}

void Session::before_fork() {
  mutex_.lock();
  modules_.lock();
}

void Session::after_fork(bool child) {
  modules_.unlock();
  if (child) clear(true);
  mutex_.unlock();
}

Status Session::reset() {
  Lock lock(mutex_);
  if (link_ == nullptr || left_) return kOk;  // nothing to free
  const Answer answer = link_->call_held(lock, Reset{}, Cause::session);
  if (link_->is_lost()) return kLost;
  link_->forget_sticky();
  clear(false);
  const ArenaShape shape = arena_->shape();
  arena_.emplace(shape);
  return answer.status;
}

void Session::refuse(const char* function) {
  const std::lock_guard lock(refusal_mutex_);
  if (refused_.insert(function).second)
    std::fprintf(stderr, "partita remote: %s is not supported\n", function);
}

// A program may have looked at none of it.
void Session::say_outcome(Status status) {
  if (status != kOk)
    std::fprintf(stderr,
                 "partita remote: the session ended with error %u; what was launched after it "
                 "did not run\n",
                 static_cast<unsigned>(status));
  const std::lock_guard lock(refusal_mutex_);
  if (refused_.empty()) return;
  std::string names;
  for (const std::string& name : refused_) names += (names.empty() ? "" : ", ") + name;
  std::fprintf(stderr, "partita remote: refused in this program: %s\n", names.c_str());
}

void Session::leave() {
  Lock lock(mutex_);
  if (link_ == nullptr || left_) return;
  if (settings_.flags != 0 && captures_.empty() && !idle() && !link_->is_lost()) {
    link_->call(lock, Fence{}, Cause::device_sync);  // what was launched last is checked, too
    lock.lock();
    if (left_) return;
  }
  left_ = true;  // what destructors of the program still call has nobody to go to
  const Status outcome = link_->failure();
  if (!link_->is_lost()) {
    link_->post(lock, Bye{});
    link_->flush(lock);
  }
  const std::uint64_t up = link_->bytes_up(), down = link_->bytes_down();
  lock.unlock();
  link_->close();
  say_outcome(outcome);
  if (settings_.stats_file.empty()) return;
  std::FILE* file = std::fopen(settings_.stats_file.c_str(), "we");
  if (file == nullptr) return;
  const std::string text = stats_json(stats_, up, down);
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
}

}  // namespace partita::remote::client
