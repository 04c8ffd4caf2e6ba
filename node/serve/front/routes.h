// Which exchange a request's head begins: the table of the front door's routes.
#pragma once

#include <memory>

#include "base/door/http_head.h"
#include "serve/front/gateway_exchange.h"

namespace partita::serve {

// Never null; what cannot be is an exchange that answers so.
std::shared_ptr<Exchange> route(Door& door, const HttpHead& head, const Peer& peer);

}  // namespace partita::serve
