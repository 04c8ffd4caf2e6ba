#include "api/page.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

namespace partita::api {
namespace {

std::string inflated(std::string_view gzip) {
  std::string text(1 << 20, '\0');
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 31), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(gzip.data()));
  stream.avail_in = static_cast<uInt>(gzip.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

std::string on_disk(std::string_view path) {
  const std::string name = path == "/" ? "/index.html" : std::string(path);
  std::ifstream file(PARTITA_SOURCE_DIR "/web" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Page, IsTheFilesOfWeb) {
  ASSERT_FALSE(page_files().empty());
  for (const PageFile& file : page_files()) EXPECT_EQ(inflated(file.gzip), on_disk(file.path));
}

TEST(Page, IsSmall) {
  std::size_t bytes = 0;
  for (const PageFile& file : page_files()) bytes += file.gzip.size();
  EXPECT_LE(bytes, 60U * 1024);
}

TEST(Page, HasEveryFileThatItNames) {
  const std::regex name(R"re((?:href|src)="(/[^"]+)"|from "\./([^"]+)")re");
  int names = 0;
  for (const PageFile& file : page_files()) {
    const std::string text = inflated(file.gzip);
    for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at, ++names) {
      const std::string path = (*at)[1].matched ? (*at)[1].str() : "/js/" + (*at)[2].str();
      EXPECT_TRUE(page_file(path)) << file.path << " names " << path;
    }
  }
  EXPECT_GT(names, 5);
}

TEST(Page, HasNoScriptOrStyleOfItsOwnInMarkup) {
  const std::string text = inflated(page_file("/")->gzip);
  EXPECT_FALSE(
      std::regex_search(text, std::regex(R"(<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=)")));
}

TEST(Page, AnswersOnlyForItsPaths) {
  EXPECT_TRUE(page_file("/"));
  EXPECT_TRUE(page_file("/index.html"));
  EXPECT_EQ(page_file("/page.css")->content_type, "text/css; charset=utf-8");
  for (const char* other : {"", "/js", "/js/", "/v1/state", "/page.css ", "//", "/../etc/passwd"})
    EXPECT_FALSE(page_file(other)) << other;
}

TEST(Page, TagsTellFilesApart) {
  for (const PageFile& one : page_files())
    for (const PageFile& other : page_files())
      EXPECT_TRUE(one.path == other.path || one.etag != other.etag) << one.path << other.path;
}

TEST(Page, LetsNothingInFromElsewhere) {
  const auto headers = page_headers();
  const auto policy =
      std::ranges::find(headers, std::string_view("Content-Security-Policy"), &HeaderField::name);
  ASSERT_NE(policy, headers.end());
  EXPECT_TRUE(policy->value.starts_with("default-src 'none';"));
  EXPECT_EQ(policy->value.find("unsafe"), policy->value.npos);
  EXPECT_EQ(policy->value.find("http"), policy->value.npos);
}

}  // namespace
}  // namespace partita::api
