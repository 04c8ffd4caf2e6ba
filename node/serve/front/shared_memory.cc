#include "serve/front/shared_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "serve/oip/json_scan.h"

namespace partita::serve {

namespace {

constexpr std::size_t kMaxKeyBytes = 250;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 46;

// The file's name in /dev/shm, or empty: "/name" or "name".
std::string file_name(std::string_view key) {
  if (key.starts_with('/')) key.remove_prefix(1);
  const bool usable = !key.empty() && key.size() <= kMaxKeyBytes && key != "." && key != ".." &&
                      key.find('/') == std::string_view::npos &&
                      key.find('\0') == std::string_view::npos;
  return usable ? std::string(key) : std::string();
}

void append_region(std::string& out, const std::string& name, const SharedRegion& region) {
  out += "{\"name\":";
  append_json_string(out, name);
  out += ",\"key\":";
  append_json_string(out, region.key());
  out += ",\"offset\":" + std::to_string(region.offset()) +
         ",\"byte_size\":" + std::to_string(region.bytes()) + "}";
}

}  // namespace

Result<void> SharedRegion::check(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset > bytes_ || bytes > bytes_ - offset)
    return bad_input("shared memory " + key_, std::to_string(bytes) + " bytes at " +
                                                  std::to_string(offset) + " are outside of its " +
                                                  std::to_string(bytes_));
  return {};
}

Result<void> SharedRegion::read(std::uint64_t offset, std::span<char> into) const {
  if (auto inside = check(offset, into.size()); !inside) return inside;
  std::size_t done = 0;
  while (done < into.size()) {
    const auto count = ::pread(file_.get(), into.data() + done, into.size() - done,
                               static_cast<off_t>(offset_ + offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return bad_input("shared memory " + key_, "its file has become shorter");
    done += static_cast<std::size_t>(count);
  }
  return {};
}

Result<void> SharedRegion::write(std::uint64_t offset, std::span<const char> from) const {
  if (auto inside = check(offset, from.size()); !inside) return inside;
  struct stat status {};
  const std::uint64_t end = offset_ + offset + from.size();
  if (::fstat(file_.get(), &status) != 0 || static_cast<std::uint64_t>(status.st_size) < end)
    return bad_input("shared memory " + key_, "its file has become shorter");
  std::size_t done = 0;
  while (done < from.size()) {
    const auto count = ::pwrite(file_.get(), from.data() + done, from.size() - done,
                                static_cast<off_t>(offset_ + offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return bad_input("shared memory " + key_, "it cannot be written");
    done += static_cast<std::size_t>(count);
  }
  return {};
}

Result<void> SharedMemory::add(const std::string& name, const std::string& key,
                               std::uint64_t offset, std::uint64_t bytes) {
  const std::string context = "region '" + name + "'";
  if (name.empty() || name.size() > kMaxNameBytes) return bad_input(context, "no usable name");
  if (regions_.contains(name)) return bad_input(context, "registered already");
  if (regions_.size() >= kMaxSharedRegions)
    return bad_input(context, "there are 1024 regions already");
  const std::string file = file_name(key);
  if (file.empty()) return bad_input(context, "the key is to name a file of /dev/shm");
  const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  const int fd = ::open(("/dev/shm/" + file).c_str(), flags);
  if (fd < 0) return bad_input(context, "shared memory '" + key + "' cannot be opened");
  auto region = std::make_shared<SharedRegion>(fd, key, offset, bytes);
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
    return bad_input(context, "shared memory '" + key + "' is no plain file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (bytes == 0 || bytes > kMaxFileBytes || offset > size || bytes > size - offset)
    return bad_input(context, std::to_string(bytes) + " bytes at " + std::to_string(offset) +
                                  " are not inside of the " + std::to_string(size) + " of '" + key +
                                  "'");
  regions_.emplace(name, std::move(region));
  return {};
}

void SharedMemory::remove(const std::string& name) { regions_.erase(name); }

Result<std::shared_ptr<SharedRegion>> SharedMemory::find(const std::string& name) const {
  const auto found = regions_.find(name);
  if (found == regions_.end()) return bad_input("region '" + name + "'", "not registered");
  return found->second;
}

std::string SharedMemory::status(const std::string& name) const {
  std::string out = "[";
  for (const auto& [each, region] : regions_) {
    if (!name.empty() && each != name) continue;
    if (out.size() > 1) out.push_back(',');
    append_region(out, each, *region);
  }
  return out + "]";
}

Result<RegisterRequest> parse_register(std::string_view json) {
  JsonScan scan(json);
  RegisterRequest request;
  const auto size = [&] {
    const std::int64_t value = scan.integer();
    if (value < 0) scan.fail("a size is negative");
    return static_cast<std::uint64_t>(value);
  };
  bool sized = false;
  scan.object([&](const std::string& key) {
    if (key == "key") {
      request.key = scan.string();
    } else if (key == "offset") {
      request.offset = size();
    } else if (key == "byte_size") {
      request.bytes = size();
      sized = true;
    } else {
      scan.raw();
    }
  });
  scan.end();
  if (scan.ok() && (!sized || request.key.empty())) scan.fail("key and byte_size are wanted");
  if (!scan.ok()) return bad_input("request JSON", scan.error());
  return request;
}

}  // namespace partita::serve
