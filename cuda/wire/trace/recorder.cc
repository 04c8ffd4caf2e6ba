#include "wire/trace/recorder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace partita::remote {
namespace {

constexpr std::size_t kHeadBytes = sizeof(FrameHeader);
constexpr std::uint64_t kMostKeptBulk = 256 << 20;  // of one frame

class RecordingChannel final : public Channel {
 public:
  RecordingChannel(std::unique_ptr<Channel> channel, std::shared_ptr<Recorder> recorder,
                   Direction written)
      : channel_(std::move(channel)), recorder_(std::move(recorder)), written_(written) {}

  Result<void> write(std::span<const std::span<const std::byte>> parts, Nanos patience) override {
    for (const auto& part : parts) recorder_->saw(written_, part);
    return channel_->write(parts, patience);
  }
  Result<std::size_t> read(std::span<std::byte> into, Nanos patience) override {
    auto size = channel_->read(into, patience);
    if (size) {
      recorder_->saw(written_ == Direction::up ? Direction::down : Direction::up,
                     into.first(*size));
    }
    return size;
  }
  int descriptor() const override { return channel_->descriptor(); }
  void shut() noexcept override { channel_->shut(); }

 private:
  std::unique_ptr<Channel> channel_;
  std::shared_ptr<Recorder> recorder_;
  Direction written_;
};

}  // namespace

Result<std::shared_ptr<Recorder>> Recorder::create(const std::string& file,
                                                   RecorderOptions options) {
  std::FILE* out = std::fopen(file.c_str(), "wbe");
  if (out == nullptr) {
    return environment_error(file, std::string("cannot write it: ") + std::strerror(errno));
  }
  return std::shared_ptr<Recorder>(new Recorder(file, options, out));
}

Recorder::Recorder(std::string file, RecorderOptions options, std::FILE* out)
    : file_(std::move(file)),
      options_(options),
      begin_(std::chrono::steady_clock::now()),
      out_(out) {
  write(trace_head({.began_at = static_cast<std::int64_t>(std::time(nullptr))}));
}

Recorder::~Recorder() { static_cast<void>(finish()); }

void Recorder::saw(Direction direction, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  see(ways_[static_cast<std::size_t>(direction)], direction, bytes);
}

void Recorder::see(Way& way, Direction direction, Bytes bytes) {
  while (!bytes.empty() && !way.lost && out_ != nullptr) {
    if (way.bulk_left == 0) {
      bytes = see_head(way, direction, bytes);
      continue;
    }
    const Bytes here = bytes.first(std::min<std::uint64_t>(bytes.size(), way.bulk_left));
    bytes = bytes.subspan(here.size());
    way.record.checksum = checksum_more(way.record.checksum, here);
    if (way.record.kept == KeptBulk::whole) {
      way.bulk.insert(way.bulk.end(), here.begin(), here.end());
    }
    way.bulk_left -= here.size();
    if (way.bulk_left == 0) write(way);
  }
}

Bytes Recorder::see_head(Way& way, Direction direction, Bytes bytes) {
  std::size_t need = kHeadBytes;
  if (way.head.size() >= kHeadBytes) need += way.record.header.body_bytes;
  const Bytes here = bytes.first(std::min(bytes.size(), need - way.head.size()));
  way.head.insert(way.head.end(), here.begin(), here.end());
  if (way.head.size() < need) return bytes.subspan(here.size());
  if (need == kHeadBytes) {
    way.record = {.direction = direction};
    way.record.nanoseconds = (std::chrono::steady_clock::now() - begin_).count();
    std::memcpy(&way.record.header, way.head.data(), kHeadBytes);
    if (!is_legal(way.record.header)) {
      way.lost = true;
      trouble_ = "something that is no frame passed; nothing behind it is recorded";
      return {};
    }
    if (way.record.header.body_bytes > 0) return bytes.subspan(here.size());
  }
  const FrameHeader& header = way.record.header;
  way.bulk_left = header.bulk_bytes;
  const bool needed = direction == Direction::up && (header.code == ModulePut::kSpec.code ||
                                                     header.bulk_bytes <= kSmallBulk);
  const bool whole = (needed || options_.all_bulk) && header.bulk_bytes <= kMostKeptBulk;
  way.record.kept = whole ? KeptBulk::whole : KeptBulk::checksum;
  if (way.bulk_left == 0) write(way);
  return bytes.subspan(here.size());
}

void Recorder::write(Way& way) {
  way.record.body = Bytes(way.head).subspan(kHeadBytes);
  write(trace_record(way.record));
  if (way.record.kept == KeptBulk::whole) write(way.bulk);
  ++frames_;
  way.head.clear();
  way.bulk.clear();
}

void Recorder::write(Bytes bytes) {
  if (out_ == nullptr || bytes.empty()) return;
  if (written_ + bytes.size() > options_.most_bytes) {
    trouble_ = "the file has reached its limit; nothing behind it is recorded";
  } else if (std::fwrite(bytes.data(), 1, bytes.size(), out_) != bytes.size()) {
    trouble_ = std::string("cannot write it: ") + std::strerror(errno);
  } else {
    written_ += bytes.size();
    return;
  }
  std::fclose(out_);
  out_ = nullptr;
}

Result<void> Recorder::finish() {
  const std::lock_guard lock(mutex_);
  if (out_ != nullptr && std::fclose(out_) != 0) {
    trouble_ = std::string("cannot write it: ") + std::strerror(errno);
  }
  out_ = nullptr;
  if (!trouble_.empty()) return environment_error(file_, trouble_);
  return {};
}

std::uint64_t Recorder::frames() const {
  const std::lock_guard lock(mutex_);
  return frames_;
}

std::unique_ptr<Channel> recording_channel(std::unique_ptr<Channel> channel,
                                           std::shared_ptr<Recorder> recorder, Direction written) {
  return std::make_unique<RecordingChannel>(std::move(channel), std::move(recorder), written);
}

}  // namespace partita::remote
