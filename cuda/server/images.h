// Images of modules by their SHA-256, so that what a program sent once need not be sent again.
// Digests are always checked here: nobody's images are trusted, not even those that lie on disk.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "wire/kinds.h"

namespace partita::remote::server {

inline constexpr std::uint64_t kMaxImageBytes = std::uint64_t{256} << 20;  // raw and as sent
inline constexpr std::uint64_t kMaxImagesBytes = std::uint64_t{1} << 30;   // kept, all together
inline constexpr std::size_t kMaxImages = 4096;

Digest digest_of(Bytes bytes);
std::string hex_of(const Digest& digest);

// As it lies in a fat binary.
struct PackedImage {
  std::vector<std::byte> bytes = {};
  std::uint32_t compression = 0;  // 0 none, 1 zstd, 2 LZ4 block
  std::uint64_t raw_bytes = 0;
};
// The image itself: exactly raw_bytes; bad_input when it is not what it says.
Result<std::vector<std::byte>> unpack(const PackedImage& image);

class Images {
 public:
  virtual ~Images() = default;
  virtual bool has(const Digest& digest) = 0;
  // Keeps an image whose digest has been checked; one too many drops the oldest.
  virtual void put(const Digest& digest, std::shared_ptr<const PackedImage> image) = 0;
  // nullptr when there is none.
  virtual std::shared_ptr<const PackedImage> find(const Digest& digest) = 0;
};

// In memory of this process.
class MemoryImages final : public Images {
 public:
  bool has(const Digest& digest) override;
  void put(const Digest& digest, std::shared_ptr<const PackedImage> image) override;
  std::shared_ptr<const PackedImage> find(const Digest& digest) override;

 private:
  struct Kept {
    std::shared_ptr<const PackedImage> image;
    std::uint64_t turn = 0;
  };
  std::map<std::string, Kept> kept_;
  std::uint64_t bytes_ = 0, turn_ = 0;
};

// In a folder that several processes share, behind a MemoryImages. The folder is opened once; files
// appear whole and are never changed. Beyond kMaxImagesBytes the oldest go.
class FolderImages final : public Images {
 public:
  static Result<std::unique_ptr<FolderImages>> open(const std::string& folder);
  ~FolderImages() override;
  FolderImages(const FolderImages&) = delete;
  FolderImages& operator=(const FolderImages&) = delete;
  bool has(const Digest& digest) override;
  void put(const Digest& digest, std::shared_ptr<const PackedImage> image) override;
  std::shared_ptr<const PackedImage> find(const Digest& digest) override;

 private:
  explicit FolderImages(int folder) : folder_(folder) {}
  void trim();
  int folder_;
  MemoryImages memory_;
};

}  // namespace partita::remote::server
