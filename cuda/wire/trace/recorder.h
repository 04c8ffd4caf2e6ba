// Writes the frames that pass a connection to a file (format.h). Sees bytes in pieces of any size;
// never changes, delays or fails the connection: when the file is full or cannot be written,
// recording stops and finish() says so.
#pragma once

#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "wire/net/channel.h"
#include "wire/trace/format.h"

namespace partita::remote {

// Of bulk that goes up so much is always kept: it says what kernels do (descriptions of textures,
// tables of addresses, numbers), more than what they do it to.
inline constexpr std::uint64_t kSmallBulk = 4096;

struct RecorderOptions {
  bool all_bulk = false;                              // else images of modules and small bulk
  std::uint64_t most_bytes = std::uint64_t{1} << 30;  // of the file; recording stops there
};

// Thread-safe.
class Recorder {
 public:
  static Result<std::shared_ptr<Recorder>> create(const std::string& file, RecorderOptions options);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Bytes that passed. Must be called before the other end sees them, so that the file has causes
  // before effects.
  void saw(Direction direction, Bytes bytes);
  // Closes the file; an Error when something is missing from it.
  Result<void> finish();
  std::uint64_t frames() const;

 private:
  struct Way {                    // of one direction
    std::vector<std::byte> head;  // header and body so far
    std::vector<std::byte> bulk;  // so far, when it is kept
    std::uint64_t bulk_left = 0;
    TraceRecord record;
    bool lost = false;  // no frames any more
  };
  Recorder(std::string file, RecorderOptions options, std::FILE* out);
  void see(Way& way, Direction direction, Bytes bytes);
  Bytes see_head(Way& way, Direction direction, Bytes bytes);
  void write(Way& way);
  void write(Bytes bytes);

  const std::string file_;
  const RecorderOptions options_;
  const std::chrono::steady_clock::time_point begin_;
  mutable std::mutex mutex_;
  std::FILE* out_;
  std::uint64_t written_ = 0, frames_ = 0;
  std::string trouble_;
  std::array<Way, 2> ways_;
};

// Passes everything and shows it to the recorder. `written`: the direction of what is written.
std::unique_ptr<Channel> recording_channel(std::unique_ptr<Channel> channel,
                                           std::shared_ptr<Recorder> recorder, Direction written);

}  // namespace partita::remote
