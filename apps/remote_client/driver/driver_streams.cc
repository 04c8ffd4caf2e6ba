// libcuda: streams, events, functions of the program, captures.
#include "driver.h"
#include "graph_calls.h"

namespace partita::remote::shim {

GUARDED(cuStreamCreate, (void** stream, unsigned flags),
        give(session().streams.create(flags, 0), stream))
GUARDED(cuStreamCreateWithPriority, (void** stream, unsigned flags, int priority),
        give(session().streams.create(flags, priority), stream))
GUARDED(cuStreamDestroy_v2, (void* stream), session().streams.destroy(number_of(stream)))
STREAM_FUNCTION(cuStreamSynchronize, _ptsz, (void* stream),
                { return session().streams.synchronise(number_of(stream)); })
STREAM_FUNCTION(cuStreamQuery, _ptsz, (void* stream),
                { return session().streams.query(number_of(stream)); })
STREAM_FUNCTION(cuStreamWaitEvent, _ptsz, (void* stream, void* event, unsigned flags),
                { return wait_for_event(stream, event, flags); })
STREAM_FUNCTION(cuStreamGetFlags, _ptsz, (void* stream, unsigned* flags),
                { return give(session().streams.flags(number_of(stream)), flags); })
STREAM_FUNCTION(cuStreamGetPriority, _ptsz, (void* stream, int* priority),
                { return give(session().streams.priority(number_of(stream)), priority); })
STREAM_FUNCTION(cuLaunchHostFunc, _ptsz, (void* stream, void (*function)(void*), void* data), {
  if (function == nullptr) return kInvalidValue;
  return session().kernels.call_host(number_of(stream), {.function = function, .data = data});
})
STREAM_FUNCTION(cuStreamAddCallback, _ptsz,
                (void* stream, void (*function)(void*, int, void*), void* data, unsigned), {
                  if (function == nullptr) return kInvalidValue;
                  return session().kernels.call_host(
                      number_of(stream), {.with_stream = function, .stream = stream, .data = data});
                })
STREAM_FUNCTION(cuStreamBeginCapture_v2, _ptsz, (void* stream, int mode), {
  return session().captures.begin(number_of(stream), static_cast<std::uint32_t>(mode));
})
STREAM_FUNCTION(cuStreamEndCapture, _ptsz, (void* stream, void** graph),
                { return give(session().captures.end(number_of(stream)), graph); })
STREAM_FUNCTION(cuStreamIsCapturing, _ptsz, (void* stream, int* status), {
  const auto state = session().captures.state_of(number_of(stream));
  if (!state) return state.error();
  return hand_out(state->status, status);
})

CUDA_EXPORT Status cuEventCreate(void** event, unsigned flags) {
  constexpr unsigned kDisableTiming = 2, kInterprocess = 4;
  if ((flags & kInterprocess) != 0 && (flags & kDisableTiming) == 0) return kInvalidValue;
  return guarded([&] {
    return give(session().events.create((flags & kDisableTiming) != 0 ? kNoTiming : 0U), event);
  });
}
GUARDED(cuEventDestroy_v2, (void* event), session().events.destroy(number_of(event)))
STREAM_FUNCTION(cuEventRecord, _ptsz, (void* event, void* stream),
                { return session().events.record(number_of(event), number_of(stream)); })
STREAM_FUNCTION(cuEventRecordWithFlags, _ptsz, (void* event, void* stream, unsigned flags),
                { return record_event(stream, event, flags); })
GUARDED(cuEventQuery, (void* event), session().events.query(number_of(event)))
GUARDED(cuEventSynchronize, (void* event), session().events.synchronise(number_of(event)))
GUARDED(cuEventElapsedTime, (float* ms, void* from, void* to), tell_elapsed(ms, from, to))
GUARDED(cuEventElapsedTime_v2, (float* ms, void* from, void* to), tell_elapsed(ms, from, to))

// What they were called before there was a version of them, by programs that look names up.
CUDA_EXPORT Status cuStreamDestroy(void* stream) { return cuStreamDestroy_v2(stream); }
CUDA_EXPORT Status cuEventDestroy(void* event) { return cuEventDestroy_v2(event); }

}  // namespace partita::remote::shim
