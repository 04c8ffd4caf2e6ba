#include "base/door/access_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <iterator>

#include "base/append.h"
#include "base/door/trace_context.h"
#include "base/json_writer.h"

namespace partita::serve {

namespace {

constexpr std::size_t kGather = 65'536;
constexpr std::int64_t kSecond = 1'000'000'000;

void append_text(std::string& out, std::string_view name, std::string_view value) {
  out += ",\"";
  out += name;
  out += "\":";
  out += JsonWriter().string(value).take();
}

}  // namespace

std::int64_t unix_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

Result<std::unique_ptr<AccessLog>> AccessLog::open(const AccessLogOptions& options) {
  auto log = std::unique_ptr<AccessLog>(new AccessLog(options));
  if (!options.otlp.empty()) {
    log->spans_ = TRY(Spans::open(options.otlp));
  }
  if (!options.file.empty() && !log->reopen())
    return environment_error(options.file, "the access log cannot be written");
  return log;
}

AccessLog::~AccessLog() { flush(); }

bool AccessLog::reopen() {
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  file_ = std::make_unique<Descriptor>(::open(options_.file.c_str(), flags, 0640));
  struct stat status {};
  written_ = file_->get() >= 0 && ::fstat(file_->get(), &status) == 0
                 ? static_cast<std::size_t>(status.st_size)
                 : 0;
  return file_->get() >= 0;
}

void AccessLog::rotate() {
  const auto name = [&](int i) { return options_.file + "." + std::to_string(i); };
  if (options_.keep < 1) ::unlink(options_.file.c_str());
  for (int i = options_.keep; i > 1; --i) ::rename(name(i - 1).c_str(), name(i).c_str());
  if (options_.keep >= 1) ::rename(options_.file.c_str(), name(1).c_str());
  reopen();
}

void AccessLog::add(const AccessRecord& record) {
  if (spans_) spans_->add(record);
  if (!file_) return;
  std::tm utc{};
  const std::time_t seconds = record.unix_ns / kSecond;
  ::gmtime_r(&seconds, &utc);
  append(lines_, R"({{"time":"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z")", utc.tm_year + 1900,
         utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
         record.unix_ns % kSecond / 1000);
  append_text(lines_, "client", record.client);
  append_text(lines_, "method", record.method);
  append_text(lines_, "path", record.path);
  if (!record.service.empty()) append_text(lines_, "service", record.service);
  append(lines_,
         R"(,"status":{},"items":{},"bytes_in":{},"bytes_out":{},"queue_ms":{:.3f},)"
         R"("total_ms":{:.3f})",
         record.status, record.items, record.bytes_in, record.bytes_out,
         static_cast<double>(record.queue_ns) / 1e6, static_cast<double>(record.total_ns) / 1e6);
  if (!record.trace_parent.empty()) {
    append_text(lines_, "trace_id", trace_id(record.trace_parent));
    append_text(lines_, "traceparent", record.trace_parent);
  }
  lines_ += "}\n";
  ++line_count_;
  if (lines_.size() >= kGather) flush();
}

void AccessLog::flush() {
  if (lines_.empty()) return;
  if (written_ > 0 && written_ + lines_.size() > options_.rotate_bytes) rotate();
  std::string_view rest = lines_;
  while (!rest.empty()) {
    const auto count = ::write(file_->get(), rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    rest.remove_prefix(static_cast<std::size_t>(count));
    written_ += static_cast<std::size_t>(count);
  }
  if (!rest.empty()) dropped_ += line_count_;
  lines_.clear();
  line_count_ = 0;
}

}  // namespace partita::serve
