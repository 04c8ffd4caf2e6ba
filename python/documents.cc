// The JSON Schemas of the documents that libpartita gives, and the OpenAPI document of an agent, as
// one JSON document: what tools/make_python_types.py makes Python's types of.
#include <cstdio>
#include <string>

#include "api/openapi.h"
#include "base/form.h"
#include "forms/document_kinds.h"
#include "sim/report_forms.h"

int main() {
  using partita::DocumentKind, partita::Form, partita::write_form;
  const std::string text = write_form([](Form& f) {
    partita::form::embedded(f, "openapi", partita::api::openapi_json(""));
    f.told_object("schemas", [](Form& schemas) {
      for (const auto& kinds : {partita::forms::document_kinds(), partita::sim::document_kinds()})
        for (const DocumentKind& kind : kinds)
          partita::form::embedded(schemas, kind.name, kind.schema());
    });
  });
  return std::fputs(text.c_str(), stdout) < 0 ? 1 : 0;
}
