/* libpartita: decisions of Partita for other languages. Documents go in, documents come out, errors
 * are data; nothing is remembered between calls, and calls may be made from several threads. */
#ifndef PARTITA_H
#define PARTITA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A text under the name by which options call it. */
struct partita_file {
  const char* name;
  const char* text;
  size_t size;
};

/* The version of the library, "0.1.0". */
const char* partita_version(void);

/* Calls `function`: plan, verify, simulate, schedule, verify_schedule, gpus or schema. `options` is
 * a JSON object of its options, as the command line names them, with _ for -. An option that names
 * a file finds it among `files`, else on the disk. The answer is JSON:
 *   {"answer": DOCUMENT}   what the command of that name prints with --format json
 *   {"error": {"code": "bad_input", "message": "...", "context": "FILE:LINE"}}
 * It is the caller's until partita_free, which takes null, too; null where memory ran out. Null
 * pointers among the arguments are errors like others; what was given may go once the call has
 * returned. */
char* partita_call(const char* function, const char* options, const struct partita_file* files,
                   size_t count);
void partita_free(char* answer);

#ifdef __cplusplus
}
#endif

#endif
