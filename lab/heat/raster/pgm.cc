#include "heat/raster/pgm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "heat/raster/limits.h"
#include "heat/raster/read.h"

namespace partita::raster {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class PgmReader {
 public:
  PgmReader(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  Result<std::vector<Grid>> read() {
    std::vector<Grid> frames;
    std::size_t cells = 0;
    do {
      auto frame = TRY(picture(cells));
      cells += frame.values.size();
      if (!frames.empty() && (frame.rows != frames[0].rows || frame.cols != frames[0].cols))
        return bad_input(at(),
                         fmt::format("picture {} is {} x {}, the first {} x {}", frames.size() + 1,
                                     frame.cols, frame.rows, frames[0].cols, frames[0].rows));
      frames.push_back(std::move(frame));
      skip_blank();
    } while (here_ < bytes_.size());
    return frames;
  }

 private:
  std::string at() const {
    const auto lines = std::count(bytes_.begin(), bytes_.begin() + static_cast<long>(here_), '\n');
    return text_ ? fmt::format("{}:{}", name_, lines + 1) : name_;
  }
  void skip_blank() {
    while (here_ < bytes_.size() && (is_blank(bytes_[here_]) || bytes_[here_] == '#')) {
      if (bytes_[here_] == '#')
        while (here_ < bytes_.size() && bytes_[here_] != '\n') ++here_;
      else
        ++here_;
    }
  }
  // The next whole number, at most `most`.
  std::optional<int> number(int most) {
    skip_blank();
    if (here_ >= bytes_.size() || !is_digit(bytes_[here_])) return std::nullopt;
    int value = 0;
    for (; here_ < bytes_.size() && is_digit(bytes_[here_]); ++here_) {
      value = 10 * value + (bytes_[here_] - '0');
      if (value > most) return std::nullopt;
    }
    return value;
  }

  Result<Grid> picture(std::size_t cells_before) {
    const std::string_view magic = bytes_.substr(here_, 2);
    if (magic != "P2" && magic != "P5") return bad_input(at(), "a PGM starts with P2 or P5");
    text_ = magic == "P2";
    here_ += 2;
    const auto cols = number(kMostSide);
    const auto rows = number(kMostSide);
    if (!cols || !rows || *cols < 1 || *rows < 1)
      return bad_input(at(), fmt::format("width and height are whole numbers in 1..{}", kMostSide));
    const auto most = number(65535);
    if (!most || *most < 1)
      return bad_input(at(), "the largest value is a whole number in 1..65535");
    const std::size_t cells = static_cast<std::size_t>(*cols) * static_cast<std::size_t>(*rows);
    if (cells > kMostCells - cells_before) return bad_input(at(), too_many_cells());
    return text_ ? digits(*rows, *cols, *most) : binary(*rows, *cols, *most);
  }

  Result<Grid> digits(int rows, int cols, int most) {
    const std::size_t cells = static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
    if ((bytes_.size() - here_ + 1) / 2 < cells) return bad_input(at(), "values are missing");
    Grid grid(rows, cols);
    for (double& value : grid.values) {
      const auto given = number(most);
      if (!given)
        return bad_input(at(), fmt::format("each value is a whole number in 0..{}", most));
      value = *given;
    }
    return grid;
  }

  Result<Grid> binary(int rows, int cols, int most) {
    const std::size_t width = most < 256 ? 1 : 2;
    const std::size_t cells = static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
    if (here_ >= bytes_.size() || !is_blank(bytes_[here_]))
      return bad_input(at(), "one blank stands between the largest value and the picture");
    ++here_;
    if ((bytes_.size() - here_) / width < cells) return bad_input(at(), "values are missing");
    Grid grid(rows, cols);
    for (double& value : grid.values) {
      int read = 0;
      for (std::size_t i = 0; i < width; ++i)
        read = read * 256 + static_cast<unsigned char>(bytes_[here_++]);
      if (read > most)
        return bad_input(at(), fmt::format("a value is {}, over the largest, {}", read, most));
      value = read;
    }
    return grid;
  }

  std::string_view bytes_;
  const std::string& name_;
  std::size_t here_ = 0;
  bool text_ = false;
};

}  // namespace

Result<std::vector<Grid>> read_pgm(std::string_view bytes, const std::string& name) {
  return PgmReader(bytes, name).read();
}

}  // namespace partita::raster
