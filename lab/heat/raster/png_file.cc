#include "heat/raster/png_file.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstring>
#include <new>

#include "heat/raster/limits.h"
#include "heat/raster/read.h"

namespace partita::raster {
namespace {

// Deflate makes at most 1032 bytes of one: a larger picture cannot be in so small a file.
constexpr std::size_t kMostInflation = 1040;

// What libpng calls back with. Plain values only: longjmp passes over the functions that use it.
struct PngCall {
  png_structp png = nullptr;
  png_infop info = nullptr;
  const unsigned char* data = nullptr;
  std::size_t left = 0;
  std::string* out = nullptr;
  char error[120] = "";
};

[[noreturn]] void fail(png_structp png, png_const_charp message) {
  auto* call = static_cast<PngCall*>(png_get_error_ptr(png));
  std::strncpy(call->error, message, sizeof call->error - 1);
  png_longjmp(png, 1);
}
void ignore(png_structp, png_const_charp) {}

void take_bytes(png_structp png, png_bytep into, std::size_t count) {
  auto* call = static_cast<PngCall*>(png_get_io_ptr(png));
  if (count > call->left) png_error(png, "the file ends too early");
  std::memcpy(into, call->data, count);
  call->data += count;
  call->left -= count;
}

void add_bytes(png_structp png, png_bytep from, std::size_t count) {
  bool added = true;
  try {
    static_cast<PngCall*>(png_get_io_ptr(png))
        ->out->append(reinterpret_cast<const char*>(from), count);
  } catch (const std::bad_alloc&) {
    added = false;
  }
  if (!added) png_error(png, "no memory");
}
void flush_nothing(png_structp) {}

struct PngHead {
  png_uint_32 width = 0, height = 0;
  int depth = 0, colour = 0, passes = 1;
};

// Everything before the first row. False: call.error says why.
bool read_head(PngCall& call, PngHead& head) {
  if (setjmp(png_jmpbuf(call.png))) return false;
  png_set_user_limits(call.png, kMostSide, kMostSide);
  png_set_chunk_malloc_max(call.png, 1 << 16);
  png_set_keep_unknown_chunks(call.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_read_fn(call.png, &call, take_bytes);
  png_read_info(call.png, call.info);
  png_get_IHDR(call.png, call.info, &head.width, &head.height, &head.depth, &head.colour, nullptr,
               nullptr, nullptr);
  return true;
}

bool read_rows(PngCall& call, PngHead& head, unsigned char* into, std::size_t stride) {
  if (setjmp(png_jmpbuf(call.png))) return false;
  head.passes = png_set_interlace_handling(call.png);
  png_read_update_info(call.png, call.info);
  for (int pass = 0; pass < head.passes; ++pass)
    for (png_uint_32 row = 0; row < head.height; ++row)
      png_read_row(call.png, into + row * stride, nullptr);
  return true;
}

// Owns libpng's two structures.
class Reading {
 public:
  explicit Reading(std::string_view bytes) {
    call.data = reinterpret_cast<const unsigned char*>(bytes.data());
    call.left = bytes.size();
    call.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &call, fail, ignore);
    if (call.png != nullptr) call.info = png_create_info_struct(call.png);
  }
  ~Reading() { png_destroy_read_struct(&call.png, &call.info, nullptr); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  PngCall call;
};

class Writing {
 public:
  explicit Writing(std::string& out) {
    call.out = &out;
    call.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &call, fail, ignore);
    if (call.png != nullptr) call.info = png_create_info_struct(call.png);
  }
  ~Writing() { png_destroy_write_struct(&call.png, &call.info); }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  PngCall call;
};

// Plain pointers into a PngPicture, which the caller keeps.
struct PngBytes {
  png_uint_32 width, height;
  const unsigned char* bytes;
  std::size_t stride;
  png_color colours[256];
  int palette;
  char key[6];
  char* title;  // or null
};

bool write_all(PngCall& call, const PngBytes& picture) {
  if (setjmp(png_jmpbuf(call.png))) return false;
  png_set_write_fn(call.png, &call, add_bytes, flush_nothing);
  png_set_user_limits(call.png, 0x7fffffff, 0x7fffffff);
  png_set_IHDR(call.png, call.info, picture.width, picture.height, picture.palette > 0 ? 8 : 16,
               picture.palette > 0 ? PNG_COLOR_TYPE_PALETTE : PNG_COLOR_TYPE_GRAY,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (picture.palette > 0) png_set_PLTE(call.png, call.info, picture.colours, picture.palette);
  if (picture.title != nullptr) {
    png_text text{};
    text.compression = PNG_TEXT_COMPRESSION_NONE;
    text.key = const_cast<char*>(picture.key);
    text.text = picture.title;
    png_set_text(call.png, call.info, &text, 1);
  }
  png_write_info(call.png, call.info);
  for (png_uint_32 row = 0; row < picture.height; ++row)
    png_write_row(call.png, picture.bytes + row * picture.stride);
  png_write_end(call.png, call.info);
  return true;
}

}  // namespace

Result<Grid> read_png(std::string_view bytes, const std::string& name) {
  Reading reading(bytes);
  if (reading.call.info == nullptr) return environment_error(name, "no memory for libpng");
  PngHead head;
  const auto broken = [&] {
    return bad_input(name, fmt::format("the PNG is broken: {}", reading.call.error));
  };
  if (!read_head(reading.call, head)) return broken();
  if (head.colour != PNG_COLOR_TYPE_GRAY || (head.depth != 8 && head.depth != 16))
    return bad_input(name, "the PNG is not grey of 8 or 16 bits; a colour is no temperature");
  const std::size_t width = head.depth == 8 ? 1 : 2, stride = head.width * width;
  const std::size_t cells = std::size_t{head.width} * head.height;
  if (cells > kMostCells) return bad_input(name, too_many_cells());
  if (cells * width / kMostInflation > bytes.size())
    return bad_input(name, "the PNG is broken: it is too small for its picture");
  std::vector<unsigned char> raw(cells * width);
  if (!read_rows(reading.call, head, raw.data(), stride)) return broken();
  Grid grid(static_cast<int>(head.height), static_cast<int>(head.width));
  for (std::size_t i = 0; i < cells; ++i)
    grid.values[i] = width == 1 ? raw[i] : raw[2 * i] * 256 + raw[2 * i + 1];
  return grid;
}

std::string write_png(const PngPicture& picture) {
  const std::size_t pixel = picture.palette.empty() ? 2 : 1;
  const auto width = static_cast<std::size_t>(picture.width);
  CHECK(picture.width > 0 && picture.height > 0 && picture.palette.size() <= 768);
  CHECK(picture.bytes.size() == width * static_cast<std::size_t>(picture.height) * pixel);
  PngBytes plain{static_cast<png_uint_32>(picture.width),
                 static_cast<png_uint_32>(picture.height),
                 picture.bytes.data(),
                 width * pixel,
                 {},
                 static_cast<int>(picture.palette.size() / 3),
                 "Title",
                 nullptr};
  for (std::size_t i = 0; i < picture.palette.size() / 3; ++i)
    plain.colours[i] = {picture.palette[3 * i], picture.palette[3 * i + 1],
                        picture.palette[3 * i + 2]};
  std::string title;  // PNG's comments are Latin-1
  for (const char c : picture.title) title += c >= ' ' && c <= '~' ? c : '?';
  if (!title.empty()) plain.title = title.data();
  std::string out;
  Writing writing(out);
  if (writing.call.info == nullptr || !write_all(writing.call, plain)) throw std::bad_alloc();
  return out;
}

}  // namespace partita::raster
