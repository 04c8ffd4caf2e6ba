#include "serve/wire/texts.h"

#include <fmt/format.h>

#include <cstring>

#include "serve/wire/items.h"

namespace partita::serve {
namespace {

// The element at the front of `rest`, taken off; nothing where it runs over the end.
std::optional<std::string_view> take_text(std::string_view& rest) {
  std::uint32_t size = 0;
  if (rest.size() < kTextLengthBytes) return std::nullopt;
  std::memcpy(&size, rest.data(), kTextLengthBytes);
  rest.remove_prefix(kTextLengthBytes);
  if (rest.size() < size) return std::nullopt;
  const std::string_view text = rest.substr(0, size);
  rest.remove_prefix(size);
  return text;
}

}  // namespace

std::optional<std::span<const char>> used_part(const TensorSpec& tensor,
                                               std::span<const char> row) {
  if (tensor.open_bytes > 0) {
    const auto sizes = sizes_in(tensor, row);
    if (!sizes) return std::nullopt;
    return row.subspan(head_bytes(tensor), *bytes_of_item(tensor, *sizes));
  }
  if (tensor.type != DataType::bytes) return row;
  std::string_view rest(row.data(), row.size());
  for (std::int64_t i = elements_of(tensor); i > 0; --i)
    if (!take_text(rest)) return std::nullopt;
  return row.first(row.size() - rest.size());
}

void each_text(std::span<const char> used, const std::function<void(std::string_view)>& element) {
  std::string_view rest(used.data(), used.size());
  while (const auto text = take_text(rest)) element(*text);
}

TextRows::TextRows(const TensorSpec& tensor, std::span<const std::span<char>> rows)
    : rows_(rows), in_row_(elements_of(tensor)), left_(in_row_), room_(tensor.text_bytes) {}

std::string TextRows::put(std::string_view text) {
  if (full()) return "more values than the shape has";
  const std::span<char> row = rows_[row_];
  // What is still to come takes its lengths at least.
  const std::size_t kept = static_cast<std::size_t>(left_) * kTextLengthBytes;
  if (at_ + kept > row.size() || text.size() > row.size() - at_ - kept)
    return fmt::format("a row with more than {} bytes of text (--text-bytes of the worker)", room_);
  const auto size = static_cast<std::uint32_t>(text.size());
  std::memcpy(row.data() + at_, &size, kTextLengthBytes);
  std::memcpy(row.data() + at_ + kTextLengthBytes, text.data(), text.size());
  at_ += kTextLengthBytes + text.size();
  if (--left_ == 0) {
    ++row_;
    at_ = 0;
    left_ = in_row_;
  }
  return "";
}

Result<void> spread_texts(std::string_view bytes, const TensorSpec& tensor,
                          std::span<const std::span<char>> rows) {
  TextRows into(tensor, rows);
  while (!bytes.empty()) {
    const auto text = take_text(bytes);
    if (!text) return bad_input("", "an element that is longer than what is left");
    if (std::string fault = into.put(*text); !fault.empty()) return bad_input("", std::move(fault));
  }
  if (!into.full()) return bad_input("", "fewer values than the shape has");
  return {};
}

Result<std::vector<std::size_t>> fill_texts(const NextText& next, const TensorSpec& tensor,
                                            std::span<const std::span<char>> rows) {
  std::vector<std::size_t> too_long;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    TextRows into(tensor, rows.subspan(row, 1));
    bool fits = true;
    for (std::int64_t i = elements_of(tensor); i > 0; --i) {
      const auto text = next();
      if (!text) return bad_input("", "fewer values than the shape has, or one beyond the end");
      fits = fits && into.put(*text).empty();
    }
    if (fits) continue;
    too_long.push_back(row);
    for (TextRows none(tensor, rows.subspan(row, 1)); !none.full();) none.put("");
  }
  return too_long;
}

Result<std::vector<std::size_t>> fill_texts(std::string_view bytes, const TensorSpec& tensor,
                                            std::span<const std::span<char>> rows) {
  auto filled = fill_texts([&] { return take_text(bytes); }, tensor, rows);
  if (filled && !bytes.empty()) return bad_input("", "more values than the shape has");
  return filled;
}

}  // namespace partita::serve
