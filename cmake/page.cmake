# The web page in the module `api`: the files of web/ as one source, made anew when one of them changes.
function(embed_page target)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/web/*)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/page_files.cc)
  add_custom_command(OUTPUT ${source}
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/embed_page.py ${PROJECT_SOURCE_DIR}/web ${source}
    DEPENDS ${PROJECT_SOURCE_DIR}/tools/embed_page.py ${files} COMMENT "web page" VERBATIM)
  target_sources(${target} PRIVATE ${source})
endfunction()
