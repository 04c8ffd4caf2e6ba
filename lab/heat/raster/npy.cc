#include "heat/raster/npy.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

#include "base/check.h"
#include "heat/raster/limits.h"
#include "heat/raster/read.h"

namespace partita::raster {
namespace {

constexpr std::size_t kMostHeader = 4096;

// What the header's dictionary says.
struct NpyHead {
  char kind = 0;  // f or u
  std::size_t width = 0;
  bool big = false;
  std::vector<long> shape;
};

std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t width, bool big) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i) {
    const std::size_t from = at + (big ? i : width - 1 - i);
    value = value << 8 | static_cast<unsigned char>(bytes[from]);
  }
  return value;
}

// The text of a dictionary's value, up to the comma or bracket that ends it; empty when missing.
std::string_view value_of(std::string_view dict, std::string_view key) {
  const std::size_t at = dict.find(fmt::format("'{}':", key));
  if (at == dict.npos) return {};
  std::string_view rest = dict.substr(at + key.size() + 3);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  const bool tuple = rest.starts_with('(');
  const std::size_t end = tuple ? rest.find(')') : rest.find_first_of(",}");
  if (end == rest.npos) return {};
  return rest.substr(0, end + (tuple ? 1 : 0));
}

// The numbers of "(3, 4)"; nothing where it is not such a list.
std::optional<std::vector<long>> shape_of(std::string_view text) {
  if (!text.starts_with('(') || !text.ends_with(')')) return std::nullopt;
  std::vector<long> shape;
  bool open = false;  // inside a number
  for (const char c : text.substr(1, text.size() - 2)) {
    if (c >= '0' && c <= '9') {
      if (!open) shape.push_back(0);
      open = true;
      shape.back() = 10 * shape.back() + (c - '0');
      if (shape.back() > static_cast<long>(kMostCells)) return std::nullopt;
    } else if (c == ',' || c == ' ') {
      open = false;
    } else {
      return std::nullopt;
    }
  }
  return shape;
}

Result<NpyHead> head_of(std::string_view dict, const std::string& name) {
  NpyHead head;
  const std::string_view type = value_of(dict, "descr");
  constexpr std::string_view kKnown[] = {"'<f4'", "'<f8'", "'>f4'", "'>f8'",
                                         "'|u1'", "'<u2'", "'>u2'"};
  bool known = false;
  for (const std::string_view one : kKnown) known = known || type == one;
  if (!known) return bad_input(name, "the array's type is none of float32, float64, uint8, uint16");
  head.big = type[1] == '>';
  head.kind = type[2];
  head.width = static_cast<std::size_t>(type[3] - '0');
  if (value_of(dict, "fortran_order") != "False")
    return bad_input(name, "the array is not in C order; save it with numpy.ascontiguousarray");
  const auto shape = shape_of(value_of(dict, "shape"));
  if (!shape || (shape->size() != 2 && shape->size() != 3))
    return bad_input(name, "the array has to have 2 dimensions, or 3 for several frames");
  head.shape = *shape;
  return head;
}

double cell(std::string_view bytes, std::size_t at, const NpyHead& head) {
  const std::uint64_t raw = number_at(bytes, at, head.width, head.big);
  if (head.kind == 'u') return static_cast<double>(raw);
  if (head.width == 4)
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(raw)));
  return std::bit_cast<double>(raw);
}

Result<std::vector<Grid>> frames_of(std::string_view data, const NpyHead& head,
                                    const std::string& name) {
  const bool stack = head.shape.size() == 3;
  const long count = stack ? head.shape[0] : 1;
  const long rows = head.shape[stack ? 1 : 0], cols = head.shape[stack ? 2 : 1];
  if (count < 1 || rows < 1 || cols < 1) return bad_input(name, "the array is empty");
  if (rows > kMostSide || cols > kMostSide)
    return bad_input(name, fmt::format("more than {} rows or columns", kMostSide));
  const std::size_t cells = static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
  if (cells > kMostCells / static_cast<std::size_t>(count))
    return bad_input(name, too_many_cells());
  if (data.size() != cells * static_cast<std::size_t>(count) * head.width)
    return bad_input(name, fmt::format("{} bytes of values where the shape needs {}", data.size(),
                                       cells * static_cast<std::size_t>(count) * head.width));
  std::vector<Grid> frames;
  std::size_t at = 0;
  for (long f = 0; f < count; ++f) {
    Grid grid(static_cast<int>(rows), static_cast<int>(cols));
    for (std::size_t i = 0; i < cells; ++i, at += head.width) {
      grid.values[i] = cell(data, at, head);
      if (!std::isfinite(grid.values[i]))
        return bad_input(name, fmt::format("frame {}, row {}, column {} is no finite number", f,
                                           i / static_cast<std::size_t>(cols),
                                           i % static_cast<std::size_t>(cols)));
    }
    frames.push_back(std::move(grid));
  }
  return frames;
}

}  // namespace

Result<std::vector<Grid>> read_npy(std::string_view bytes, const std::string& name) {
  if (bytes.size() < 12) return bad_input(name, "the file ends in its header");
  const int version = bytes[6];
  if (version < 1 || version > 3) return bad_input(name, "an unknown version of the NPY form");
  const std::size_t field = version == 1 ? 2 : 4;
  const std::uint64_t length = number_at(bytes, 8, field, false);
  if (length > kMostHeader || 8 + field + length > bytes.size())
    return bad_input(name, "the header is too long, or the file ends in it");
  const auto head = TRY(head_of(bytes.substr(8 + field, length), name));
  return frames_of(bytes.substr(8 + field + length), head, name);
}

std::string write_npy(const std::vector<Grid>& grids) {
  CHECK(!grids.empty());
  const Grid& first = grids[0];
  const std::string shape = grids.size() == 1
                                ? fmt::format("({}, {})", first.rows, first.cols)
                                : fmt::format("({}, {}, {})", grids.size(), first.rows, first.cols);
  std::string dict =
      fmt::format("{{'descr': '<f8', 'fortran_order': False, 'shape': {}, }}", shape);
  while ((10 + dict.size() + 1) % 64 != 0) dict += ' ';
  dict += '\n';
  std::string out = std::string("\x93NUMPY\x01", 7) + '\0';
  out += static_cast<char>(dict.size() % 256);
  out += static_cast<char>(dict.size() / 256);
  out += dict;
  out.reserve(out.size() + grids.size() * first.values.size() * 8);
  for (const Grid& grid : grids) {
    CHECK(grid.rows == first.rows && grid.cols == first.cols);
    for (const double value : grid.values) {
      const auto raw = std::bit_cast<std::uint64_t>(value);
      for (int i = 0; i < 8; ++i) out += static_cast<char>(raw >> (8 * i) & 255);
    }
  }
  return out;
}

}  // namespace partita::raster
