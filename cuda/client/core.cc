#include "client/core.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>
#include <string_view>

#include "wire/net/channel.h"

namespace partita::remote::client {

Status Core::failure() { return is_ready.load(std::memory_order_acquire) ? link->failure() : kOk; }

Status Core::connected(Lock& lock) {
  if (left) return kUnloading;
  if (link != nullptr) return kOk;
  if (connect_failed_ == kOk) connect_failed_ = connect(lock);
  return connect_failed_;
}

Status Core::connect(Lock& lock) {
  at_first();
  std::string file = settings.stats_file;
  settings = read_settings();
  if (!file.empty()) settings.stats_file = std::move(file);  // a child has its own
  if (settings.address.empty()) {
    std::fputs(
        "partita remote: PARTITA_REMOTE names no server; start the program with"
        " `partita remote run -- PROGRAM`\n",
        stderr);
    return kNoDevice;
  }
  auto channel = system_net().connect(settings.address, settings.timeout);
  if (!channel) {
    std::fprintf(stderr, "partita remote: no connection to %s: %s\n", settings.address.c_str(),
                 channel.error().message.c_str());
    return kLost;
  }
  link = std::make_unique<Link>(*std::move(channel), settings.timeout, *this, mutex, &stats);
  ++generation;
  if (const Status status = greet(lock); status != kOk) {
    link.reset();
    return status;
  }
  is_ready.store(true, std::memory_order_release);
  return kOk;
}

Status Core::greet(Lock& lock) {
  const Hello hello{.table = protocol_hash(),
                    .token = settings.token,
                    .shape = settings.shape,
                    .program = program_invocation_short_name,
                    .pid = static_cast<std::uint64_t>(::getpid()),
                    .flags = settings.flags};
  const Answer answer = link->call_held(lock, hello, Cause::session);
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
  device = device_of(*reply);
  arena = {.begin = reply->arena.value,
           .bytes = reply->arena_bytes,
           .granule = reply->granule,
           .quota = std::min(reply->quota, reply->arena_bytes)};
  return kOk;
}

// --- what the server says unasked

void Core::said(std::uint32_t where, Bytes text) {
  std::FILE* file = where == kToOutput ? stdout : stderr;
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
  if (where == kFault) mark_fault();
  if (where != kRefusedCode) return;
  const std::string_view line(reinterpret_cast<const char*>(text.data()), text.size());
  const std::lock_guard lock(refusal_mutex_);
  refused_code_ = line.substr(0, line.find('\n'));
  refused_.insert(refused_code_);
}

namespace {

void touch(const std::string& path) {
  if (std::FILE* file = std::fopen(path.c_str(), "ae"); file != nullptr) std::fclose(file);
}

}  // namespace

// At once: who started the program is to know of it however the program ends.
void Core::mark_fault() {
  if (!settings.fault_file.empty()) touch(settings.fault_file);
}

void Core::waiting(std::uint32_t place) {
  std::fprintf(stderr, "partita remote: waiting for a free device, place %u\n", place);
}

void Core::call(Token token) {
  const std::lock_guard lock(notice_mutex_);
  if (callbacks_ != nullptr) callbacks_->run(token.value);
}

std::span<std::byte> Core::place_of(Token token, std::uint64_t bytes) {
  const std::lock_guard lock(notice_mutex_);
  const auto found = deferred_.find(token.value);
  if (found == deferred_.end()) return {};
  const Deferred copy = found->second;
  deferred_.erase(found);
  if (copy.bytes != bytes) return {};
  return {copy.to, copy.bytes};
}

std::uint64_t Core::put_callback(std::uint64_t token, const Callback& callback) {
  const std::lock_guard lock(notice_mutex_);
  if (callbacks_ == nullptr)
    callbacks_ = std::make_unique<Callbacks>(before_call, [this](std::uint64_t done) {
      after_call(done);
      const Lock held(mutex);
      if (link == nullptr || left) return;
      link->post(held, CallDone{.token = {done}});
      link->flush(held);
    });
  callbacks_->add(token, callback);
  link->watch(true);
  return token;
}

std::uint64_t Core::expect_copy(std::byte* to, std::uint64_t bytes) {
  const std::uint64_t token = ++next_token_;
  const std::lock_guard lock(notice_mutex_);
  deferred_[token] = {to, bytes};
  return token;
}

// --- the end, and a fork

void Core::refuse(const char* function) {
  const std::lock_guard lock(refusal_mutex_);
  if (refused_.insert(function).second)
    std::fprintf(stderr, "partita remote: %s is not supported\n", function);
}

std::string Core::refused_code() {
  const std::lock_guard lock(refusal_mutex_);
  return refused_code_;
}

// Who started the program sees it at a file of this process, there from the failure on until the
// program asks: it may end without a handler (_exit).
void Core::mark_unnoticed(bool is) {
  const std::lock_guard lock(refusal_mutex_);
  if (settings.fault_file.empty() || is == marked_) return;
  marked_ = is;
  const std::string path = settings.fault_file + ".unnoticed." + std::to_string(::getpid());
  if (is)
    touch(path);
  else
    ::unlink(path.c_str());
}

void Core::note_failed_launch(Status status) {
  if (left) return;
  failed_launch_ = status;
  mark_unnoticed(true);
}

void Core::failed() {
  if (!asked_) mark_unnoticed(true);
}

void Core::note_asked() {
  failed_launch_ = kOk;
  if (failure() == kInvalidPtx) return;  // it may ask: what is ours to refuse is no success
  if (failure() != kOk) asked_ = true;
  if (!unnoticed_) mark_unnoticed(false);
}

void Core::judge_end(Status status) {
  if (failed_launch_ != kOk || (status != kOk && !asked_)) unnoticed_ = true;
  if (unnoticed_) mark_unnoticed(true);
  asked_ = false;
}

void Core::say_outcome(Status status) {
  judge_end(status);
  if (status != kOk)
    std::fprintf(stderr,
                 "partita remote: the session ended with error %u; what was launched after it "
                 "did not run\n",
                 static_cast<unsigned>(status));
  if (unnoticed_)
    std::fputs(status == kInvalidPtx
                   ? "partita remote: what the program did without code that was refused is no "
                     "success\n"
                   : "partita remote: a launch failed, and the program did not ask for its error\n",
               stderr);
  const std::lock_guard lock(refusal_mutex_);
  if (refused_.empty()) return;
  std::string names;
  for (const std::string& name : refused_) names += (names.empty() ? "" : ", ") + name;
  std::fprintf(stderr, "partita remote: refused in this program: %s\n", names.c_str());
}

// That of the first program that one `remote run` started and that ends; others', and a child's,
// has the process's number behind it.
std::string Core::counts_file() const {
  if (is_child_ || settings.fault_file.empty()) return settings.stats_file;
  const std::string mark = settings.fault_file + ".counted";
  const int made = ::open(mark.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (made >= 0) ::close(made);
  const bool another = made < 0 && errno == EEXIST;
  return settings.stats_file + (another ? "." + std::to_string(::getpid()) : "");
}

void Core::write_counts(const Traffic& traffic) {
  if (settings.stats_file.empty()) return;
  const std::string path = counts_file();
  std::FILE* file = std::fopen(path.c_str(), "we");
  const std::string text = stats_json(stats, traffic.up, traffic.down);
  const bool wrote =
      file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr && std::fclose(file) == 0 && wrote) return;
  std::fprintf(stderr, "partita remote: %s cannot be written\n", path.c_str());
}

void Core::clear(bool child) {
  if (child) {
    if (link != nullptr) {
      link->abandon();
      [[maybe_unused]] Link* const leaked = link.release();
    }
    [[maybe_unused]] Callbacks* const threads = callbacks_.release();
    new (&notice_mutex_) std::mutex;
    new (&refusal_mutex_) std::mutex;
    refused_.clear();  // the parent says it
    failed_launch_ = kOk;
    unnoticed_ = asked_ = marked_ = false;
    is_ready = false;
    connect_failed_ = kOk;
    is_child_ = true;
    if (!settings.stats_file.empty()) settings.stats_file += "." + std::to_string(::getpid());
    stats.calls = stats.kernels = 0;
    for (auto& count : stats.blocking) count = 0;
  }
  ++generation;
  const std::lock_guard lock(notice_mutex_);
  deferred_.clear();
}

}  // namespace partita::remote::client
