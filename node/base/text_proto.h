// Protobuf's text form, without a schema: what Triton's config.pbtxt is written in. Fields in their
// order, scalars as they are written. Pure; bounded.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita {

inline constexpr std::size_t kMostProtoBytes = 1u << 20;
inline constexpr int kMostProtoDepth = 32;

// A scalar, of which text is without its quotes, or a message. Of a list each element is a field.
struct ProtoField {
  std::string name, value = {};
  bool message = false;
  int line = 0;
  std::vector<ProtoField> fields = {};
};

// The whole text as one message without a name; bad_input at FILE:LINE.
Result<ProtoField> parse_text_proto(const std::string& file, std::string_view text);

// The first of that name; null: there is none.
const ProtoField* field_of(const ProtoField& in, std::string_view name);
// Its value; empty: there is none.
std::string text_of(const ProtoField& in, std::string_view name);

}  // namespace partita
