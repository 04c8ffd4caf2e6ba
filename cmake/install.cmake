# `make install`: the program, its data, completions, man pages, systemd units, the board for Grafana. Completions and pages
# are printed by the installed program itself, so they cannot be older than it. `make deb` packs the same (tools/make_deb).
include(GNUInstallDirs)
if(TARGET partita)
  install(TARGETS partita)
  install(TARGETS partita-lab partita-remote RUNTIME DESTINATION lib/partita)
  if(TARGET spank_partita)
    install(TARGETS spank_partita LIBRARY DESTINATION lib/partita)
  endif()
  install(DIRECTORY data/ DESTINATION ${CMAKE_INSTALL_DATADIR}/partita)
  # Where `partita remote run` looks, beside its own folder.
  get_property(shims GLOBAL PROPERTY PARTITA_SHIMS)
  install(TARGETS partita_remote ${shims} LIBRARY DESTINATION lib/partita/remote)
  install(TARGETS lanes_hip LIBRARY DESTINATION lib/partita)
  install(TARGETS partita_library LIBRARY DESTINATION lib NAMELINK_COMPONENT development)
  install(FILES apps/library/partita.h DESTINATION include)
  install(DIRECTORY python/partita DESTINATION lib/python3/dist-packages PATTERN __pycache__ EXCLUDE)
  install(FILES python/examples/demo.py DESTINATION ${CMAKE_INSTALL_DATADIR}/partita/python)
  install(FILES packaging/grafana.json packaging/grafana-agent.json packaging/alerts.yaml
          DESTINATION ${CMAKE_INSTALL_DATADIR}/partita)
  install(FILES docs/runbook.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/partita)
  # The group that the agent's unit asks for; the package makes it itself.
  install(FILES packaging/sysusers.conf DESTINATION lib/sysusers.d RENAME partita.conf)
  install(DIRECTORY packaging/etc/ DESTINATION ${CMAKE_INSTALL_DATADIR}/partita/etc)
  install(DIRECTORY packaging/kubernetes DESTINATION ${CMAKE_INSTALL_DATADIR}/partita)
  install(CODE "set(source \"${PROJECT_SOURCE_DIR}\")\nset(python \"${Python3_EXECUTABLE}\")")
  install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/install_texts.cmake)
endif()
