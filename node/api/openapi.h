// The OpenAPI 3.1 document of the API, made from the table of calls and the schemas of their
// documents. Pure.
#pragma once

#include <string>

namespace partita::api {

std::string openapi_json(const std::string& version);

}  // namespace partita::api
