# The house rules as tests. Call check_house() once, after everything else: it writes build/layers.txt and
# build/tests.txt and registers the checks in tools/, each of which tests/house/house_test.py also breaks on purpose.
function(check_house)
  get_property(layers GLOBAL PROPERTY LAYERS)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/layers.txt CONTENT "${layers}")
  get_property(sources GLOBAL PROPERTY TEST_SOURCES)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/tests.txt CONTENT "${sources}")
  if(NOT BUILD_TESTING)
    return()
  endif()

  get_property(pure GLOBAL PROPERTY PURE_TARGETS)
  list(TRANSFORM pure REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)

  house_check(layers check_layers.py ${PROJECT_SOURCE_DIR} ${CMAKE_BINARY_DIR}/layers.txt)
  house_check(module_table check_table.py ${PROJECT_SOURCE_DIR}/ARCHITECTURE.md ${CMAKE_BINARY_DIR}/layers.txt)
  house_check(registered check_registered.py ${PROJECT_SOURCE_DIR} ${CMAKE_BINARY_DIR}/tests.txt)
  house_check(tidy check_tidy.py ${PROJECT_SOURCE_DIR})
  house_check(purity check_pure.py ${objects})
endfunction()

function(house_check name script)
  if(EXISTS ${PROJECT_SOURCE_DIR}/tools/${script})
    add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/${script} ${ARGN} COMMAND_EXPAND_LISTS)
    set_tests_properties(${name} PROPERTIES LABELS house)
  endif()
endfunction()
