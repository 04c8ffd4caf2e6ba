// Triton's system shared memory extension: regions of /dev/shm that clients name, so that tensors
// need not go through a socket. Read and written by pread and pwrite, never mapped: a client that
// shortens its file gets an error and does no harm. A region lives until it is unregistered and no
// request holds it any more.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "serve/oip/bind.h"
#include "serve/oip/infer_request.h"

namespace partita::serve {

inline constexpr std::size_t kMaxSharedRegions = 1024;

class SharedRegion {
 public:
  SharedRegion(int fd, std::string key, std::uint64_t offset, std::uint64_t bytes)
      : file_(fd), key_(std::move(key)), offset_(offset), bytes_(bytes) {}
  const std::string& key() const { return key_; }
  std::uint64_t offset() const { return offset_; }
  std::uint64_t bytes() const { return bytes_; }
  // Both fail when the place is not inside of the region, or the file has become shorter.
  Result<void> read(std::uint64_t offset, std::span<char> into) const;
  Result<void> write(std::uint64_t offset, std::span<const char> from) const;

 private:
  Result<void> check(std::uint64_t offset, std::uint64_t bytes) const;
  Descriptor file_;
  std::string key_;
  std::uint64_t offset_, bytes_;
};

class SharedMemory {
 public:
  // bad_input for a name that is taken, a key that is none, a file too short.
  Result<void> add(const std::string& name, const std::string& key, std::uint64_t offset,
                   std::uint64_t bytes);
  void remove(const std::string& name);  // nothing where it is unknown, as Triton has it
  void remove_all() { regions_.clear(); }
  Result<std::shared_ptr<SharedRegion>> find(const std::string& name) const;
  // All regions for "": JSON, and SystemSharedMemoryStatusResponse.
  std::string status(const std::string& name) const;
  std::string status_message(const std::string& name) const;

 private:
  std::map<std::string, std::shared_ptr<SharedRegion>> regions_;
};

// ---- tensors of requests in regions of `memory`; null: they may not name any

// Reads an input that lies there into its places (input_places()).
Result<void> read_shared(const SharedMemory* memory, const InferInput& input,
                         const TensorSpec& tensor, std::span<const std::span<char>> rows);
// Of a request's outputs, by output; null: it goes another way. Held until they are written.
using OutputRegions = std::vector<std::shared_ptr<SharedRegion>>;
Result<OutputRegions> output_regions(const SharedMemory* memory, const BoundRequest& request);
Result<void> write_shared(const OutputRegions& regions, const BoundRequest& request,
                          std::span<const AnsweredOutput> answered);

struct RegisterRequest {
  std::string key;
  std::uint64_t offset = 0, bytes = 0;
};
Result<RegisterRequest> parse_register(std::string_view json);

}  // namespace partita::serve
