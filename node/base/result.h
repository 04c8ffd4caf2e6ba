// Result<T>: a value or an Error. Everything the world can cause (bad files, refused drivers,
// infeasible problems) travels as an Error; our own bugs stop at CHECK (check.h). No exception
// crosses a module. TRY is how an Error goes on to the caller.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

namespace partita {

// What kind of refusal this is; the command line maps it to an exit status (infeasible 1, bad_input
// 2, the others 3). From no_driver on: what a driver of hardware answers, so that its callers can
// tell what is worth waiting for (in_use, timeout) from what is not.
enum class ErrorCode {
  infeasible,
  bad_input,
  environment,
  limit,
  no_driver,         // no driver, or none of a usable version
  denied,            // missing rights
  not_found,         // no such device or part of it
  not_supported,     // this device cannot do it
  invalid_argument,  // the driver calls an argument wrong
  no_room,           // what is asked for does not fit beside what is there
  in_use,            // something still holds it
  reset_required,    // takes effect only after a reset
  lost,              // the device fell off the bus
  timeout,           // no answer in time; the effect is unknown
};

struct Error {
  ErrorCode code = ErrorCode::bad_input;
  std::string message;
  std::string context;  // "FILE:LINE", a flag's name, or empty

  bool operator==(const Error&) const = default;
};

// "context: message", or the message alone when there is no context.
inline std::string to_string(const Error& error) {
  return error.context.empty() ? error.message : error.context + ": " + error.message;
}

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

// Shorthands for the failing side: `return bad_input("services.yaml:3", "rate_rps is negative");`
inline tl::unexpected<Error> bad_input(std::string context, std::string message) {
  return tl::unexpected<Error>(Error{ErrorCode::bad_input, std::move(message), std::move(context)});
}
inline tl::unexpected<Error> environment_error(std::string context, std::string message) {
  return tl::unexpected<Error>(
      Error{ErrorCode::environment, std::move(message), std::move(context)});
}
inline tl::unexpected<Error> failed(Error error) { return tl::unexpected<Error>(std::move(error)); }

// The value of what TRY found to have one.
template <class T, class E>
T value_of(tl::expected<T, E>&& result) {
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace partita

// The value of a Result; an Error ends the function that asks, which answers the Error:
//   const std::string text = TRY(files.read(path));
//   TRY(files.sync(path));
// It stands alone, begins a variable or is assigned, never inside a larger expression, whose other
// parts would be left half evaluated. (A statement expression of g++ and clang.)
#define TRY(...)                                                     \
  __extension__({                                                    \
    auto tried_ = (__VA_ARGS__);                                     \
    if (!tried_) return ::tl::unexpected(std::move(tried_).error()); \
    ::partita::value_of(std::move(tried_));                          \
  })
