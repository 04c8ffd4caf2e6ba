// Numbers of CUDA's errors (cudaError_t, which CUresult mostly shares) that a server answers, and
// the answer of an operation that was refused: such a number and a reason for people.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace partita::remote::server {

using Status = std::int32_t;

inline constexpr Status kSuccess = 0;
inline constexpr Status kInvalidValue = 1;
inline constexpr Status kOutOfMemory = 2;
inline constexpr Status kNotInitialised = 3;
inline constexpr Status kInvalidConfiguration = 9;
inline constexpr Status kInvalidDevice = 101;
inline constexpr Status kInvalidImage = 200;
inline constexpr Status kInvalidPtx = 218;
inline constexpr Status kInvalidHandle = 400;
inline constexpr Status kNotFound = 500;
inline constexpr Status kNotReady = 600;
inline constexpr Status kIllegalAddress = 700;
inline constexpr Status kLaunchOutOfResources = 701;
inline constexpr Status kLaunchTimeout = 702;
inline constexpr Status kContextIsDestroyed = 709;
inline constexpr Status kAssert = 710;
inline constexpr Status kIllegalInstruction = 715;
inline constexpr Status kMisalignedAddress = 716;
inline constexpr Status kLaunchFailure = 719;
inline constexpr Status kNotPermitted = 800;
inline constexpr Status kNotSupported = 801;
inline constexpr Status kCaptureUnsupported = 900;
inline constexpr Status kCaptureInvalidated = 901;
inline constexpr Status kCaptureMerge = 902;
inline constexpr Status kCaptureUnmatched = 903;
inline constexpr Status kCaptureUnjoined = 904;
inline constexpr Status kCaptureImplicit = 906;
inline constexpr Status kUpdateFailure = 910;
inline constexpr Status kUnknown = 999;

struct Refused {
  Status status = kUnknown;
  std::string reason = {};
  bool operator==(const Refused&) const = default;
};

template <class T>
using Answered = tl::expected<T, Refused>;

inline tl::unexpected<Refused> refuse(Status status, std::string reason) {
  return tl::unexpected<Refused>(Refused{status, std::move(reason)});
}

}  // namespace partita::remote::server
