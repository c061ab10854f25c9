# Installs gpueta into a scratch prefix, builds the consumer against it and runs
# both the consumer and an installed program.
#   cmake -DBUILD=DIR -DSCRATCH=DIR -P run.cmake
function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN} failed:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/prefix)
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${SCRATCH}/build -G Ninja -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix
    -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS=${FLAGS}")
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
# Nothing listens on the discard port: the client says so.
run(${SCRATCH}/build/consumer 127.0.0.1:9)
if(NOT output MATCHES "is gpueta-server running there")
  message(FATAL_ERROR "unexpected answer: ${output}")
endif()
# Installed programs find the installed profiles.
run(${SCRATCH}/prefix/bin/gpueta devices --profiled)
if(NOT output MATCHES "h100-sxm")
  message(FATAL_ERROR "the installed profiles were not found: ${output}")
endif()
