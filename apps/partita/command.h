// What the sources of commands use, nearly all of them: their flags, texts and tables, documents,
// where things lie, and signals that end them.
#pragma once

#include <fmt/format.h>

#include <algorithm>

#include "base/append.h"
#include "base/parse_number.h"
#include "base/table.h"
#include "base/tell.h"
#include "base/terminal.h"
#include "decide/input.h"
#include "flags.h"
#include "places.h"
#include "stop_request.h"
