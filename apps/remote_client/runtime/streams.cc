// Streams, events and functions of the program in their order.
#include <algorithm>

#include "graph_calls.h"

namespace partita::remote::shim {
namespace {

using client::kInvalidValue;
using client::kOk;

constexpr int kHighest = -5;  // priority

Status create_stream(void** stream, unsigned flags, int priority) {
  return give(session().streams.create(flags, std::clamp(priority, kHighest, 0)), stream);
}

Status create_event(void** event, unsigned flags) {
  constexpr unsigned kDisableTiming = 2, kInterprocess = 4;
  if ((flags & kInterprocess) != 0 && (flags & kDisableTiming) == 0) return kInvalidValue;
  return give(session().events.create((flags & kDisableTiming) != 0 ? kNoTiming : 0U), event);
}

Status call_host(void* stream, const client::Callback& callback) {
  return session().kernels.call_host(number_of(stream), callback);
}

}  // namespace

GUARDED(cudaStreamCreate, (void** stream), create_stream(stream, 0, 0))
GUARDED(cudaStreamCreateWithFlags, (void** stream, unsigned flags), create_stream(stream, flags, 0))
GUARDED(cudaStreamCreateWithPriority, (void** stream, unsigned flags, int priority),
        create_stream(stream, flags, priority))
GUARDED(cudaStreamDestroy, (void* stream), session().streams.destroy(number_of(stream)))
STREAM_FUNCTION(cudaStreamSynchronize, _ptsz, (void* stream),
                { return session().streams.synchronise(number_of(stream)); })
STREAM_FUNCTION(cudaStreamQuery, _ptsz, (void* stream),
                { return session().streams.query(number_of(stream)); })
STREAM_FUNCTION(cudaStreamWaitEvent, _ptsz, (void* stream, void* event, unsigned flags),
                { return wait_for_event(stream, event, flags); })
STREAM_FUNCTION(cudaStreamGetFlags, _ptsz, (void* stream, unsigned* flags),
                { return give(session().streams.flags(number_of(stream)), flags); })
STREAM_FUNCTION(cudaStreamGetPriority, _ptsz, (void* stream, int* priority),
                { return give(session().streams.priority(number_of(stream)), priority); })
STREAM_FUNCTION(cudaStreamGetId, _ptsz, (void* stream, unsigned long long* id),
                { return hand_out(number_of(stream), id); })
STREAM_FUNCTION(cudaStreamGetDevice, _ptsz, (void* stream, int* device),
                { return give(session().streams.device(number_of(stream)), device); })
CUDA_EXPORT Status cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = kHighest;
  return kOk;
}

GUARDED(cudaEventCreate, (void** event), create_event(event, 0))
GUARDED(cudaEventCreateWithFlags, (void** event, unsigned flags), create_event(event, flags))
GUARDED(cudaEventDestroy, (void* event), session().events.destroy(number_of(event)))
STREAM_FUNCTION(cudaEventRecord, _ptsz, (void* event, void* stream),
                { return session().events.record(number_of(event), number_of(stream)); })
STREAM_FUNCTION(cudaEventRecordWithFlags, _ptsz, (void* event, void* stream, unsigned flags),
                { return record_event(stream, event, flags); })
GUARDED(cudaEventSynchronize, (void* event), session().events.synchronise(number_of(event)))
GUARDED(cudaEventQuery, (void* event), session().events.query(number_of(event)))
GUARDED(cudaEventElapsedTime, (float* ms, void* from, void* to), tell_elapsed(ms, from, to))
GUARDED(cudaEventElapsedTime_v2, (float* ms, void* from, void* to), tell_elapsed(ms, from, to))

STREAM_FUNCTION(cudaLaunchHostFunc, _ptsz, (void* stream, void (*function)(void*), void* data), {
  if (function == nullptr) return kInvalidValue;
  return call_host(stream, {.function = function, .data = data});
})
STREAM_FUNCTION(cudaStreamAddCallback, _ptsz,
                (void* stream, void (*function)(void*, int, void*), void* data, unsigned), {
                  if (function == nullptr) return kInvalidValue;
                  return call_host(stream,
                                   {.with_stream = function, .stream = stream, .data = data});
                })

}  // namespace partita::remote::shim
