# PARTITA_VERSION: what the last tag v1.2.3 says, "1.2.3", or "1.2.3+4.gabcdef0" four commits later; where there is no tag or
# no git, the version of project(). Known when CMake runs: `make deb` runs it.
set(PARTITA_VERSION ${PROJECT_VERSION})
find_package(Git QUIET)
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} describe --tags --match "v[0-9]*" OUTPUT_VARIABLE described
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed EQUAL 0 AND described MATCHES "^v([0-9][0-9a-z.]*)(-([0-9]+)-(g[0-9a-f]+))?$")
    set(PARTITA_VERSION ${CMAKE_MATCH_1})
    if(CMAKE_MATCH_2)
      string(APPEND PARTITA_VERSION "+${CMAKE_MATCH_3}.${CMAKE_MATCH_4}")
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT version.txt CONTENT "${PARTITA_VERSION}\n")
