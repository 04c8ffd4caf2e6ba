# What the three programs of the command line have in common.

# Files as raw strings, so that a binary needs no data files: demo_NAME.inc for every NAME=PATH.
function(embed_inputs target)
  foreach(input ${ARGN})
    string(REPLACE "=" ";" input ${input})
    list(GET input 0 name)
    list(GET input 1 path)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${path})
    file(READ ${PROJECT_SOURCE_DIR}/${path} content)
    file(CONFIGURE OUTPUT demo/demo_${name}.inc CONTENT "R\"demo(${content})demo\"\n" @ONLY)
  endforeach()
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/demo)
endfunction()

# Libraries and programs of one folder under apps/.
function(command_line)
  foreach(target ${ARGN})
    get_target_property(type ${target} TYPE)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/apps/partita ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(${target} PRIVATE partita_warnings)
    target_compile_options(${target} PRIVATE ${glue_options})  # what computes is in modules
    if(type STREQUAL EXECUTABLE)
      set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
    else()
      target_include_directories(${target} INTERFACE ${CMAKE_CURRENT_SOURCE_DIR})
    endif()
  endforeach()
endfunction()
