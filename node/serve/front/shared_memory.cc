#include "serve/front/shared_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/form.h"
#include "base/proto_scan.h"
#include "serve/oip/json_scan.h"
#include "serve/wire/texts.h"

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

}  // namespace

Result<void> SharedRegion::check(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset > bytes_ || bytes > bytes_ - offset)
    return bad_input("shared memory " + key_, std::to_string(bytes) + " bytes at " +
                                                  std::to_string(offset) + " are outside of its " +
                                                  std::to_string(bytes_));
  return {};
}

Result<void> SharedRegion::read(std::uint64_t offset, std::span<char> into) const {
  TRY(check(offset, into.size()));
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
  TRY(check(offset, from.size()));
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
  std::string out;
  for (const auto& [each, region] : regions_) {
    if (!name.empty() && each != name) continue;
    const auto describe = [&name = each, &is = *region](Form& f) {
      f.told("name", name);
      f.told("key", is.key());
      f.told("offset", is.offset());
      f.told("byte_size", is.bytes());
    };
    out += (out.empty() ? "[" : ",") + write_form(describe, Form::Style::compact);
  }
  return (out.empty() ? "[" : out) + "]";
}

std::string SharedMemory::status_message(const std::string& name) const {
  std::string out;
  for (const auto& [each, region] : regions_) {
    if (!name.empty() && each != name) continue;
    std::string is, entry;
    append_field(is, 1, each);
    append_field(is, 2, region->key());
    append_field(is, 3, region->offset());
    append_field(is, 4, region->bytes());
    append_field(entry, 1, each);
    append_field(entry, 2, is);
    append_field(out, 1, entry);
  }
  return out;
}

namespace {

Result<std::shared_ptr<SharedRegion>> named_region(const SharedMemory* memory,
                                                   const std::string& name) {
  if (memory == nullptr) return bad_input("", "shared memory is not offered here");
  return memory->find(name);
}

}  // namespace

Result<void> read_shared(const SharedMemory* memory, const InferInput& input,
                         const TensorSpec& tensor, std::span<const std::span<char>> rows) {
  const auto region = TRY(named_region(memory, input.place.region));
  std::uint64_t offset = input.place.offset;
  if (tensor.type == DataType::bytes) {
    std::string bytes(input.place.bytes, '\0');  // bind_request() has bounded it
    TRY(region->read(offset, bytes));
    auto spread = spread_texts(bytes, tensor, rows);
    if (!spread) spread.error().context = "input '" + input.name + "'";
    return spread;
  }
  for (const std::span<char> row : rows) {
    TRY(region->read(offset, row));
    offset += row.size();
  }
  return {};
}

Result<OutputRegions> output_regions(const SharedMemory* memory, const BoundRequest& request) {
  OutputRegions regions(request.outputs.size());
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (request.outputs[i].carrier != Carrier::shared) continue;
    regions[i] = TRY(named_region(memory, request.outputs[i].place.region));
  }
  return regions;
}

Result<void> write_shared(const OutputRegions& regions, const BoundRequest& request,
                          std::span<const AnsweredOutput> answered) {
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (regions[i] == nullptr) continue;
    const SharedPlace& place = request.outputs[i].place;
    std::uint64_t offset = place.offset;
    if (answered[i].bytes > place.bytes)
      return bad_input("", "a shared place of " + std::to_string(place.bytes) + " bytes for " +
                               std::to_string(answered[i].bytes));
    for (const std::span<const char> part : answered[i].parts) {
      TRY(regions[i]->write(offset, part));
      offset += part.size();
    }
  }
  return {};
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
      scan.skip();
    }
  });
  scan.end();
  if (scan.ok() && (!sized || request.key.empty())) scan.fail("key and byte_size are wanted");
  if (!scan.ok()) return bad_input("request JSON", scan.error());
  return request;
}

}  // namespace partita::serve
