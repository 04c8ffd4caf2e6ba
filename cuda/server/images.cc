#include "server/images.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "base/descriptor.h"
#include "image/fatbin.h"

namespace partita::remote::server {

Digest digest_of(Bytes bytes) {
  Digest digest;
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.bytes), &size,
             EVP_sha256(), nullptr);
  return digest;
}

std::string hex_of(const Digest& digest) {
  std::string text;
  for (const std::byte byte : digest.bytes) text += fmt::format("{:02x}", static_cast<int>(byte));
  return text;
}

Result<std::vector<std::byte>> unpack(const PackedImage& image) {
  if (image.raw_bytes > kMaxImageBytes)
    return bad_input("image",
                     fmt::format("{} bytes; {} are the limit", image.raw_bytes, kMaxImageBytes));
  if (image.compression == 0) return image.bytes;
  if (image.compression > 2)
    return bad_input("image", fmt::format("compression {} is not known", image.compression));
  const std::span<const std::byte> stored(image.bytes);
  return image::unpacked({.kind = image::MemberKind::elf,  // nothing behind it is cut off
                          .compression = static_cast<image::Compression>(image.compression),
                          .stored = stored,
                          .raw_bytes = image.raw_bytes});
}

// ---- in memory ----

bool MemoryImages::has(const Digest& digest) { return kept_.contains(hex_of(digest)); }

void MemoryImages::put(const Digest& digest, std::shared_ptr<const PackedImage> image) {
  Kept& kept = kept_[hex_of(digest)];
  if (kept.image != nullptr) bytes_ -= kept.image->bytes.size();
  bytes_ += image->bytes.size();
  kept = {std::move(image), ++turn_};
  while (kept_.size() > 1 && (bytes_ > kMaxImagesBytes || kept_.size() > kMaxImages)) {
    const auto oldest =
        std::ranges::min_element(kept_, {}, [](const auto& entry) { return entry.second.turn; });
    bytes_ -= oldest->second.image->bytes.size();
    kept_.erase(oldest);
  }
}

std::shared_ptr<const PackedImage> MemoryImages::find(const Digest& digest) {
  const auto found = kept_.find(hex_of(digest));
  if (found == kept_.end()) return nullptr;
  found->second.turn = ++turn_;
  return found->second.image;
}

// ---- in a folder: HEAD, then the bytes as they came ----

namespace {

struct Head {
  char magic[8] = {'p', 'a', 'r', 't', 'i', 'm', 'g', '1'};
  std::uint64_t bytes = 0, raw_bytes = 0;
  std::uint32_t compression = 0, zero = 0;
};

bool write_all(int file, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t wrote = ::write(file, at, size);
    if (wrote <= 0) return false;
    at += wrote;
    size -= static_cast<std::size_t>(wrote);
  }
  return true;
}

bool read_all(int file, void* data, std::size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = ::read(file, at, size);
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<FolderImages>> FolderImages::open(const std::string& folder) {
  ::mkdir(folder.c_str(), 0700);
  const int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0)
    return environment_error(folder, fmt::format("cannot be opened: {}", std::strerror(errno)));
  std::unique_ptr<FolderImages> images(new FolderImages(opened));
  images->trim();
  return images;
}

FolderImages::~FolderImages() { ::close(folder_); }

bool FolderImages::has(const Digest& digest) {
  return memory_.has(digest) || find(digest) != nullptr;
}

std::shared_ptr<const PackedImage> FolderImages::find(const Digest& digest) {
  if (auto kept = memory_.find(digest)) return kept;
  const Descriptor file(
      ::openat(folder_, hex_of(digest).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  Head head;
  if (file.get() < 0 || !read_all(file.get(), &head, sizeof(head)) ||
      std::memcmp(head.magic, Head().magic, sizeof(head.magic)) != 0 ||
      head.bytes > kMaxImageBytes || head.raw_bytes > kMaxImageBytes)
    return nullptr;
  auto image = std::make_shared<PackedImage>();
  image->compression = head.compression;
  image->raw_bytes = head.raw_bytes;
  image->bytes.resize(head.bytes);
  if (!read_all(file.get(), image->bytes.data(), head.bytes) || digest_of(image->bytes) != digest)
    return nullptr;
  memory_.put(digest, image);
  return image;
}

void FolderImages::put(const Digest& digest, std::shared_ptr<const PackedImage> image) {
  const std::string name = hex_of(digest);
  memory_.put(digest, image);
  const std::string part = fmt::format(".{}.{}", name, ::getpid());
  const Descriptor file(
      ::openat(folder_, part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0) return;  // a cache: without it the image comes again
  Head head;
  head.bytes = image->bytes.size();
  head.raw_bytes = image->raw_bytes;
  head.compression = image->compression;
  const bool good = write_all(file.get(), &head, sizeof(head)) &&
                    write_all(file.get(), image->bytes.data(), image->bytes.size());
  if (!good || ::renameat(folder_, part.c_str(), folder_, name.c_str()) != 0)
    ::unlinkat(folder_, part.c_str(), 0);
}

// Drops the oldest files beyond the limit, and what was left half-written.
void FolderImages::trim() {
  struct File {
    std::int64_t time = 0;
    std::string name = {};
    std::uint64_t bytes = 0;
  };
  std::vector<File> files;
  std::uint64_t all = 0;
  DIR* const entries = ::fdopendir(::openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entries == nullptr) return;
  while (const dirent* entry = ::readdir(entries)) {
    const std::string name = entry->d_name;
    struct stat state {};
    if (::fstatat(folder_, name.c_str(), &state, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(state.st_mode))
      continue;
    files.push_back({state.st_mtim.tv_sec, name, static_cast<std::uint64_t>(state.st_size)});
    all += files.back().bytes;
  }
  ::closedir(entries);
  std::ranges::sort(files, {}, [](const File& file) { return std::pair(file.time, file.name); });
  std::size_t left = files.size();
  for (const File& file : files) {
    if (file.name.front() != '.' && all <= kMaxImagesBytes && left <= kMaxImages) break;
    ::unlinkat(folder_, file.name.c_str(), 0);
    all -= file.bytes;
    --left;
  }
}

}  // namespace partita::remote::server
