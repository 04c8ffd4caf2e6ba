// Images in memory and in a folder: what is kept is what was put, whatever lies in the folder.
#include "server/images.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/testing/test_without_input.h"

namespace partita::remote::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

PackedImage image_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {{bytes.begin(), bytes.end()}, 0, text.size()};
}
Digest put(Images& images, const std::string& text) {
  const auto image = std::make_shared<const PackedImage>(image_of(text));
  const Digest digest = digest_of(image->bytes);
  images.put(digest, image);
  return digest;
}

TEST(Images, DigestsAreSha256) {
  // FIPS 180-2, appendix B.1.
  EXPECT_EQ(hex_of(digest_of(std::as_bytes(std::span(std::string_view("abc"))))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Images, AreUnpackedToTheirSize) {
  PackedImage image = image_of("text");
  EXPECT_EQ(unpack(image).value(), image.bytes);
  image.raw_bytes = kMaxImageBytes;
  EXPECT_EQ(unpack(image).value(), image.bytes) << "nothing is to be unpacked";
  image.compression = 3;
  EXPECT_EQ(to_string(unpack(image).error()), "image: compression 3 is not known");
  image.raw_bytes = kMaxImageBytes + 1;
  EXPECT_EQ(to_string(unpack(image).error()), "image: 268435457 bytes; 268435456 are the limit");
  for (const std::uint32_t compression : {1u, 2u}) {
    image.compression = compression;
    image.raw_bytes = 4;
    EXPECT_FALSE(unpack(image)) << "that is no compressed image";
  }
}

// With one too many the one goes that was not asked for longest.
TEST(Images, InMemoryTheOldestGoes) {
  MemoryImages images;
  std::vector<Digest> digests;
  for (std::size_t i = 0; i < kMaxImages; ++i) digests.push_back(put(images, fmt::format("{}", i)));
  for (const Digest& digest : digests) EXPECT_TRUE(images.has(digest));
  EXPECT_NE(images.find(digests[0]), nullptr);  // is young again
  put(images, "5");                             // and so is what comes again
  put(images, "one more");
  EXPECT_TRUE(images.has(digests[0]));
  EXPECT_FALSE(images.has(digests[1]));
  EXPECT_TRUE(images.has(digests[2]));
  EXPECT_TRUE(images.has(digests[5]));
  EXPECT_EQ(images.find(digests[1]), nullptr);
}

// Bytes are counted as often as an image is kept, not as often as it came.
TEST(Images, InMemoryTheyHaveSoManyBytes) {
  const auto large = std::make_shared<const PackedImage>(
      PackedImage{std::vector<std::byte>(kMaxImageBytes / 4), 0, kMaxImageBytes / 4});
  MemoryImages images;
  const Digest first = put(images, "first");
  std::vector<Digest> digests;
  for (std::size_t i = 0; i + 1 < 4 * kMaxImagesBytes / kMaxImageBytes; ++i) {
    digests.push_back(digest_of(image_of(fmt::format("large {}", i)).bytes));
    for (int again = 0; again < 3; ++again) images.put(digests.back(), large);
  }
  EXPECT_TRUE(images.has(first));
  const auto rest = std::make_shared<const PackedImage>(
      PackedImage{std::vector<std::byte>(kMaxImageBytes / 4 - 5), 0, 1});
  images.put(digest_of(image_of("rest").bytes), rest);
  EXPECT_TRUE(images.has(first)) << "exactly the limit";
  put(images, "1");
  EXPECT_FALSE(images.has(first));
  EXPECT_TRUE(images.has(digests.front()));
}

class FolderImagesTest : public ::testing::Test {
 protected:
  FolderImagesTest() : folder_(fs::temp_directory_path() / fmt::format("images-{}", ::getpid())) {
    fs::remove_all(folder_);
  }
  ~FolderImagesTest() override { fs::remove_all(folder_); }
  std::unique_ptr<FolderImages> open() {
    auto opened = FolderImages::open(folder_);
    EXPECT_TRUE(opened);
    return *std::move(opened);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& one : fs::directory_iterator(folder_)) all.push_back(one.path().filename());
    return all;
  }
  fs::path file_of(const Digest& digest) const { return folder_ / hex_of(digest); }
  fs::path folder_;
};

TEST_F(FolderImagesTest, OthersFindWhatOnePut) {
  const auto first = open(), second = open();
  const std::string large(3'000'000, 'x');
  const Digest one = put(*first, "one"), two = put(*second, large), byte = put(*second, "1");
  EXPECT_TRUE(second->has(one) && first->has(two) && open()->has(one));
  const auto found = first->find(two);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->bytes, image_of(large).bytes);
  EXPECT_EQ(found->raw_bytes, large.size());
  EXPECT_EQ(found->compression, 0u);
  EXPECT_TRUE(first->has(byte)) << "the shortest there is";
  EXPECT_FALSE(first->has(Digest{}));
  EXPECT_EQ(names().size(), 3u) << "nothing half-written is left";
  PackedImage packed = image_of("packed");
  packed.compression = 2;
  packed.raw_bytes = 77;
  const Digest digest = digest_of(packed.bytes);
  first->put(digest, std::make_shared<const PackedImage>(packed));
  const auto again = second->find(digest);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->compression, 2u);
  EXPECT_EQ(again->raw_bytes, 77u);
  using enum fs::perms;
  EXPECT_EQ(fs::status(file_of(digest)).permissions(), owner_read | owner_write);
  fs::remove(file_of(digest));
  EXPECT_NE(second->find(digest), nullptr) << "it keeps what it has found";
}

// Whoever wrote into the folder: what is not of its digest is not there.
TEST_F(FolderImagesTest, NothingInTheFolderIsTrusted) {
  const Digest digest = put(*open(), "one");
  std::ifstream in(file_of(digest), std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  const auto there = [&](const std::string& text) {
    std::ofstream(file_of(digest), std::ios::binary | std::ios::trunc) << text;
    return open()->has(digest);
  };
  ASSERT_TRUE(there(good));
  for (const std::size_t at : {std::size_t{0}, std::size_t{7}, good.size() - 1}) {
    std::string damaged = good;
    damaged[at] ^= 1;
    EXPECT_FALSE(there(damaged)) << at;
  }
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes)
    EXPECT_FALSE(there(good.substr(0, bytes))) << bytes;
  std::string huge = good;
  huge[15] = '\x7f';  // bytes: more than memory has
  EXPECT_FALSE(there(huge));
  huge = good;
  huge[23] = '\x7f';  // unpacked
  EXPECT_FALSE(there(huge));
  fs::remove(file_of(digest));
  fs::create_symlink("/etc/hostname", file_of(digest));
  EXPECT_FALSE(open()->has(digest));
}

TEST_F(FolderImagesTest, WhatCannotGetItsNameLeavesNothing) {
  const auto images = open();
  const Digest digest = digest_of(image_of("one").bytes);
  fs::create_directories(file_of(digest) / "in the way");
  put(*images, "one");
  EXPECT_TRUE(images->has(digest)) << "in memory";
  EXPECT_EQ(names(), std::vector<std::string>{hex_of(digest)}) << "half a file was left";
  EXPECT_FALSE(open()->has(digest));
}

TEST_F(FolderImagesTest, NumberNoughtIsAFile) {
  const auto images = open(), others = open();
  const WithoutInput number_nought_is_free;
  const Digest digest = put(*images, "one");
  EXPECT_TRUE(others->has(digest));
  EXPECT_TRUE(open()->has(digest));
}

// Beyond the limit the oldest files go, and what a killed worker left half-written always does.
TEST_F(FolderImagesTest, TheOldestFilesGo) {
  const Digest kept = put(*open(), "one");
  std::ofstream(folder_ / (".half." + std::to_string(::getpid()))) << "half";
  EXPECT_TRUE(open()->has(kept));
  EXPECT_EQ(names(), std::vector<std::string>{hex_of(kept)});
  const auto sized = [&](const std::string& name, std::uint64_t bytes, int age) {
    std::ofstream(folder_ / name) << "x";
    fs::resize_file(folder_ / name, bytes);  // takes no room
    fs::last_write_time(folder_ / name, fs::file_time_type::clock::now() - std::chrono::hours(age));
  };
  const std::uint64_t own = fs::file_size(file_of(kept));
  sized("a", kMaxImagesBytes / 2, 3);
  sized("b", kMaxImagesBytes - kMaxImagesBytes / 2 - own, 2);
  open();
  EXPECT_EQ(names().size(), 3u) << "exactly the limit";
  sized("c", 1, 1);
  EXPECT_TRUE(open()->has(kept));
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  EXPECT_TRUE(fs::exists(folder_ / "b") && fs::exists(folder_ / "c"));
}

TEST_F(FolderImagesTest, SoManyFilesAndNoMore) {
  fs::create_directories(folder_ / "a folder");
  for (std::size_t i = 0; i < kMaxImages; ++i) std::ofstream(folder_ / fmt::format("{:05}", i));
  open();
  EXPECT_EQ(names().size(), kMaxImages + 1);
  std::ofstream(folder_ / "one more").flush();
  open();
  EXPECT_EQ(names().size(), kMaxImages + 1);
  EXPECT_FALSE(fs::exists(folder_ / "00000"));
  EXPECT_TRUE(fs::exists(folder_ / "one more") && fs::exists(folder_ / "a folder"));
}

TEST_F(FolderImagesTest, WhatCannotBeOpenedIsNamed) {
  std::ofstream(folder_) << "a file";
  const auto opened = FolderImages::open(folder_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().context, folder_.string());
  EXPECT_THAT(opened.error().message, HasSubstr("cannot be opened: Not a directory"));
}

}  // namespace
}  // namespace partita::remote::server
